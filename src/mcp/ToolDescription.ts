/** How the gateway describes a tool to its clients. */
import * as McpSchema from "effect/ai/McpSchema"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import type { RegisteredTool } from "../core/vocabulary/ToolHandlers.ts"

/** What the MCP server of a tool says about it, passed on to clients: its titles and its `_meta`. */
export const Described = Context.Reference<{
  readonly title?: string | undefined
  /** The title in its hints. */
  readonly hintedTitle?: string | undefined
  readonly meta?: Readonly<Record<string, unknown>> | undefined
}>("effect-tool-executor/mcp/Described", { defaultValue: () => ({}) })

/** Tells whether clients get the same description of both tools. */
export const isSame = (a: RegisteredTool, b: RegisteredTool): boolean =>
  JSON.stringify(describe(a)) === JSON.stringify(describe(b))

/** Describes a tool; throws if the protocol cannot represent it. */
export const describe = ({ annotations, description, jsonSchema, name, readOnly }: RegisteredTool): McpSchema.Tool => {
  const { hintedTitle, meta, title } = Context.get(annotations, Described)
  const { $schema, ...schema } = jsonSchema
  return new McpSchema.Tool({
    name,
    title: title ?? Option.getOrUndefined(Context.getOption(annotations, Tool.Title)),
    description,
    ...meta === undefined ? {} : { _meta: meta },
    // the root is an object, whatever else the schema says
    inputSchema: {
      ...schema,
      ...typeof $schema === "string" ? { $schema } : {},
      type: "object"
    } as McpSchema.Tool["inputSchema"],
    annotations: {
      ...hintedTitle === undefined ? {} : { title: hintedTitle },
      readOnlyHint: readOnly,
      destructiveHint: !readOnly && Context.get(annotations, Tool.Destructive),
      idempotentHint: readOnly || Context.get(annotations, Tool.Idempotent),
      openWorldHint: Context.get(annotations, Tool.OpenWorld)
    }
  })
}
