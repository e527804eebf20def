export type * from "../../wire/WireFormat.ts"
export { Format, read, readText, WireFormatError, write } from "../../wire/WireFormat.ts"
