/** The owner of an executor and, inside a call, of the call. */
import * as Context from "effect/Context"

/** The owner of the executor. Code that runs for a call reads the principal of that call. */
export const Principal = Context.Reference<string>("effect-tool-executor/ToolExecutor/Principal", {
  defaultValue: () => "default"
})
