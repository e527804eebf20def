export type * from "../notify/Webhook.ts"
export { layer } from "../notify/Webhook.ts"
