export { EndListener } from "../EndListener.ts"
