export type * from "../WebPush.ts"
export { layer, layerNotices } from "../WebPush.ts"
