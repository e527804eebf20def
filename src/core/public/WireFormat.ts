export type * from "../../wire/WireFormat.ts"
export { read, WireFormatError, write } from "../../wire/WireFormat.ts"
