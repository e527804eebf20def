export type * from "../gates/Permissions.ts"
export {
  both,
  layer,
  layerAllowAll,
  layerConfig,
  layerDenyAll,
  layerReadOnly,
  layerRef,
  Permissions,
  PermissionsRef
} from "../gates/Permissions.ts"
