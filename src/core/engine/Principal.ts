/** Whose executor it is and, inside a call, whose call. */
import * as Context from "effect/Context"

/** Whose executor it is; what runs for a call reads the principal of that call. */
export const Principal = Context.Reference<string>("effect-tool-executor/ToolExecutor/Principal", {
  defaultValue: () => "default"
})
