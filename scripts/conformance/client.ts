/**
 * The client behind the gateway, for the client scenarios of the official
 * conformance suite: connects to the suite's server and calls every tool.
 *
 * The suite starts it with the address of its server, and says in
 * `MCP_CONFORMANCE_CONTEXT` which calls it wants where it matters.
 */
import { Console, Effect, Layer } from "effect"
import { LocalExecutor, ToolCall, ToolExecutor } from "effect-tool-executor"
import * as McpTools from "../../src/mcp/McpTools.ts"

interface Wanted {
  readonly name: string
  readonly arguments: Record<string, unknown>
}

const url = process.argv[2]!
const { toolCalls } = JSON.parse(process.env["MCP_CONFORMANCE_CONTEXT"] ?? "{}") as {
  readonly toolCalls?: ReadonlyArray<Wanted>
}

const samples: Record<string, unknown> = { array: [], boolean: true, integer: 3, number: 5, object: {}, string: "text" }

/** What a tool takes at least. */
const sampleOf = (schema: Readonly<Record<string, unknown>>): Record<string, unknown> => {
  const { properties = {}, required = [] } = schema as {
    readonly properties?: Record<string, { readonly type?: string }>
    readonly required?: ReadonlyArray<string>
  }
  return Object.fromEntries(required.map((name) => [name, samples[properties[name]?.type ?? "string"]]))
}

const program = Effect.gen(function*() {
  const executor = yield* ToolExecutor.ToolExecutor
  const tools = yield* executor.tools
  const schemaOf = (name: string) => tools.find((tool) => tool.name === name)?.jsonSchema
  const wanted = toolCalls ?? tools.map(({ jsonSchema, name }): Wanted => ({
    name,
    // the suite has its schema told back, to see what became of it
    arguments: name === "json_schema_echo"
      ? { schema: schemaOf("json_schema_2020_12_tool") }
      : sampleOf(jsonSchema)
  }))
  const run = yield* executor.process()
  const { outcomes } = yield* run.executeWave(
    wanted.map((call, index) => ToolCall.make(`call_${index}`, call.name, call.arguments))
  )
  yield* Console.log(JSON.stringify(outcomes, null, 2))
})

const Executor = ToolExecutor.layer.pipe(
  Layer.provide(LocalExecutor.layerGates({ policy: { default: "allow" } })),
  Layer.provide(McpTools.layer({ suite: { url, prefix: "", trust: true } }))
)

await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(Executor)))
