export { describe, Sandbox } from "../Sandbox.ts"
export type * from "../Sandbox.ts"
export { layerBwrap } from "../SandboxBwrap.ts"
export type { Options } from "../SandboxBwrap.ts"
