/** What clients are told of a tool. */
import * as McpSchema from "effect/ai/McpSchema"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import type { RegisteredTool } from "../core/vocabulary/ToolHandlers.ts"
import { Described } from "./Described.ts"

/** Two descriptions that a client cannot tell apart. */
export const isSame = (a: RegisteredTool, b: RegisteredTool): boolean =>
  JSON.stringify(describe(a)) === JSON.stringify(describe(b))

/** Describes a tool; throws where the protocol has no place for what it says. */
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
