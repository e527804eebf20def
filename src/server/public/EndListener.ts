export { EndListener } from "../work/EndListener.ts"
