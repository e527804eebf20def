/** What an MCP server says of a tool to people and clients, for the gateway to hand on. */
import * as Context from "effect/Context"

/** Its titles, and what stands beside it (`_meta`). */
export const Described = Context.Reference<{
  readonly title?: string | undefined
  /** The one among its hints. */
  readonly hintedTitle?: string | undefined
  readonly meta?: Readonly<Record<string, unknown>> | undefined
}>("effect-tool-executor/mcp/Described", { defaultValue: () => ({}) })
