export type * from "../notify/WebPush.ts"
export { layer, layerNotices } from "../notify/WebPush.ts"
