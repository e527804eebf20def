/**
 * The tools as a model sees them: without arguments that the host fills in, limited to what the rules allow, and with
 * the heartbeat argument where it is needed.
 */
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as JsonSchemas from "../../../internal/json-schema/index.ts"
import * as Permissions from "../../gates/Permissions.ts"
import type { ToolRules } from "../../rules/RuleSet.ts"
import { heartbeatArgument, type RegisteredTool } from "../../vocabulary/ToolHandlers.ts"
import type { Engine } from "../call/Engine.ts"

/** Gives a tool as the model sees it. */
export const show = (tool: RegisteredTool, rules: ToolRules, needsHeartbeat: boolean): RegisteredTool => {
  const steps: ReadonlyArray<(schema: JsonSchema.JsonSchema) => JsonSchema.JsonSchema> = [
    ...rules.prefilled === undefined
      ? []
      : [(schema: JsonSchema.JsonSchema) => JsonSchemas.without(schema, Object.keys(rules.prefilled!))],
    ...rules.arguments
      .filter(({ field }) => !Object.hasOwn(rules.prefilled ?? {}, field))
      .filter(({ field, ifTaken }) => !ifTaken || (JsonSchemas.field(tool.jsonSchema, field)?.length ?? 0) > 0)
      .map(({ allowed, field }) => (schema: JsonSchema.JsonSchema) => JsonSchemas.narrow(schema, field, allowed)),
    ...needsHeartbeat ? [withHeartbeat] : []
  ]
  return steps.length === 0
    ? tool
    : { ...tool, jsonSchema: steps.reduce((schema, step) => step(schema), tool.jsonSchema) }
}

/** Gives the tools that the agent of an executor may see, as its model sees them. */
export const all = (engine: Engine): Effect.Effect<ReadonlyArray<RegisteredTool>> =>
  Effect.sync(() =>
    Array.from(engine.handlers.current().values())
      .filter((it) => Permissions.sees(engine.permissions, it))
      .map((tool) => show(tool, engine.rules.current().forTool(tool.name), requiresHeartbeat(engine, tool.name)))
  )

/** Emits when the agent may see different tools: the tools, its policy or its rules were replaced. */
export const changes = ({ handlers, permissions, rules }: Engine): Stream.Stream<void> =>
  // subscribes immediately, so that no change is missed once the stream runs
  Stream.callback<void>((queue) => {
    const tell = () => Queue.offer(queue, undefined)
    const sources: ReadonlyArray<Stream.Stream<unknown>> = [
      handlers.changes,
      permissions.changes ?? Stream.empty,
      rules.changes ?? Stream.empty
    ]
    return Effect.forEach(
      sources,
      (it) => Effect.forkScoped(Stream.runForEach(it, tell), { startImmediately: true }),
      { discard: true }
    )
  }, { bufferSize: 1, strategy: "sliding" })

/** Whether an agent continues after the tool only if the model requests it. */
export const requiresHeartbeat = ({ heartbeats, rules }: Engine, tool: string): boolean =>
  heartbeats && !rules.current().forTool(tool).continues

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
