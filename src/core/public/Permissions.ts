export type * from "../gates/Permissions.ts"
export {
  both,
  layer,
  layerAllowAll,
  layerDenyAll,
  layerReadOnly,
  layerRef,
  layerTiers,
  Permissions,
  PermissionsRef
} from "../gates/Permissions.ts"
export { layer as layerShadow, ShadowPolicy } from "../gates/ShadowPolicy.ts"
