export type * from "../Webhook.ts"
export { layer } from "../Webhook.ts"
