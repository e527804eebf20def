/** The owner of an executor and, inside a call, of the call. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"

/** The owner of the executor. Code that runs for a call reads the principal of that call. */
export const Principal = Context.Reference<string>("effect-tool-executor/ToolExecutor/Principal", {
  defaultValue: () => "default"
})

/** The roles of principals, read when an executor is created; `undefined`: unknown. */
export const RolesOf = Context.Reference<
  ((principal: string) => Effect.Effect<ReadonlyArray<string> | undefined>) | undefined
>("effect-tool-executor/ToolExecutor/RolesOf", { defaultValue: () => undefined })
