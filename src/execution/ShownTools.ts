/**
 * The tools as a model sees them: without the arguments that the host fills in,
 * limited to what the rules allow, with the heartbeat where one is needed. Pure.
 *
 * @since 0.1.0
 */
import type * as JsonSchema from "effect/JsonSchema"
import * as SchemaFields from "../internal/schemaFields.ts"
import type { ToolRules } from "../policy/RuleSet.ts"
import { heartbeatArgument, type RegisteredTool } from "../ToolHandlers.ts"

/**
 * Gives a tool as the model sees it.
 *
 * @category conversions
 * @since 0.1.0
 */
export const show = (tool: RegisteredTool, rules: ToolRules, needsHeartbeat: boolean): RegisteredTool => {
  const steps: ReadonlyArray<(schema: JsonSchema.JsonSchema) => JsonSchema.JsonSchema> = [
    ...rules.prefilled === undefined
      ? []
      : [(schema: JsonSchema.JsonSchema) => SchemaFields.without(schema, Object.keys(rules.prefilled!))],
    ...rules.operations
      .filter((rule) => !Object.hasOwn(rules.prefilled ?? {}, rule.field))
      // * is about those tools that have such a parameter
      .filter((rule) => rule.tool !== "*" || (SchemaFields.field(tool.jsonSchema, rule.field)?.length ?? 0) > 0)
      .map((rule) => (schema: JsonSchema.JsonSchema) => SchemaFields.narrow(schema, rule.field, rule.allowed)),
    ...needsHeartbeat ? [withHeartbeat] : []
  ]
  return steps.length === 0
    ? tool
    : { ...tool, jsonSchema: steps.reduce((schema, step) => step(schema), tool.jsonSchema) }
}

// Utilities

const withHeartbeat = (schema: JsonSchema.JsonSchema): JsonSchema.JsonSchema => ({
  ...schema,
  properties: {
    ...(typeof schema.properties === "object" ? schema.properties : {}),
    [heartbeatArgument]: {
      type: "boolean",
      description: "Set to true to be called again after this tool has run"
    }
  }
})
