/**
 * The registry of tools the executor can call, with compiled schemas, declarations and host settings.
 *
 * Accepts `Tool` and `Toolkit` values of `effect/ai`, including dynamic tools with a JSON Schema.
 */
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import * as Changes from "../../internal/changes.ts"
import { escape } from "../../internal/escape.ts"
import { compile } from "../../internal/json-schema/index.ts"
import { OptionReader } from "../../internal/OptionReader.ts"
import * as Redact from "../../internal/secrets/index.ts"
import * as Adapter from "../../internal/toolkitAdapter.ts"
import type { NamesIn } from "../../internal/toolkitTypes.ts"
import * as Schemas from "../../internal/toolSchemas.ts"
import * as Unseen from "../../internal/unseen.ts"
import type { Own } from "../rules/ToolRule.ts"
import { ConfigurationError, type Problem } from "./ConfigurationError.ts"
import type { FileChange } from "./FileChange.ts"
import * as ToolAnnotations from "./ToolAnnotations.ts"
import * as ToolContent from "./ToolContent.ts"
import * as ToolLimits from "./ToolLimits.ts"
import type { ParameterIssue } from "./ToolRefusal.ts"

/**
 * How calls of a tool may overlap: reads with reads, promoted and recursive tools with each other, all others alone.
 */
export type ToolClass = "ReadOnly" | "ConcurrentMut" | "SerialMut"

/** Host settings of a tool; they override its annotations. */
export interface Settings {
  /** See `ToolAnnotations.Promoted`. */
  readonly promoted?: boolean | undefined
  /** See `ToolAnnotations.MaxConcurrent`; 1 or more. */
  readonly maxConcurrent?: number | undefined
  /** See `ToolAnnotations.Timeout`. */
  readonly timeout?: Duration.Input | undefined
  /** See `ToolAnnotations.IdleTimeout`. */
  readonly idleTimeout?: Duration.Input | undefined
  /** See `ToolAnnotations.RetryOnTimeout`. */
  readonly retryOnTimeout?: boolean | undefined
  /** See `ToolAnnotations.Retry`. */
  readonly retry?: Schedule.Schedule<unknown> | undefined
  /** See `ToolAnnotations.Redact`. */
  readonly redact?: ToolAnnotations.Redacts | undefined
  /** See `ToolAnnotations.CircuitBreaker`. */
  readonly circuitBreaker?: ToolLimits.Circuit | undefined
  /** See `ToolAnnotations.RateLimit`. */
  readonly rateLimit?: ToolLimits.ToolRate | undefined
}

export interface RegisteredTool {
  readonly name: string
  readonly description: string | undefined
  readonly class: ToolClass
  /** Whether the tool declares that it reaches outside. Effect's default does not count as a declaration. */
  readonly openWorld: boolean
  readonly needsApproval: Tool.Any["needsApproval"]
  /** The tool's annotations, unchanged. */
  readonly annotations: Context.Context<never>
  /** JSON Schema of the parameters, as the model sees it. */
  readonly jsonSchema: JsonSchema.JsonSchema
  /** Rules declared by the tool. */
  readonly rules: ReadonlyArray<Own>
  readonly timeoutMillis: number | undefined
  readonly idleMillis: number | undefined
  readonly maxConcurrent: number | undefined
  readonly retryOnTimeout: boolean
  readonly retry: Schedule.Schedule<unknown> | undefined
  readonly isRetryable: (failure: unknown) => boolean
  /** When calls are blocked because the tool keeps failing; absent: never. */
  readonly circuit?: ToolLimits.CheckedCircuit | undefined
  /** How many calls may start in a period; absent: no limit. */
  readonly rate?: ToolLimits.CheckedToolRate | undefined
  readonly failureText: ((failure: unknown) => string) | undefined
  readonly resources: (params: unknown) => ReadonlyArray<string> | Effect.Effect<ReadonlyArray<string>>
  /** What a call acts on, for policies. */
  readonly targets: (params: unknown) => ToolAnnotations.TargetsOf | Effect.Effect<ToolAnnotations.TargetsOf>
  /** Whether the tool declares the targets or resource keys of its calls. */
  readonly declaresTargets: boolean
  /** Whether targets may be protected and so concern every policy. */
  readonly guardsTargets: boolean
  /** Tools whose `deny` and `ask` patterns also apply to this one; absent: none. */
  readonly actsAs?: ReadonlyArray<string> | undefined
  /** Tools that reveal what this one changes; absent: none. */
  readonly shownBy?: ReadonlyArray<string> | undefined
  /** It only changes the files that its targets name. */
  readonly edits: boolean
  /** It declares that it changes nothing, whatever its class. */
  readonly readOnly: boolean
  /** A started call may be started again: the tool is idempotent, or its service recognizes the call by key. */
  readonly idempotent: boolean
  /** Checks whether a started call happened; absent: unknown. */
  readonly reconcile: ToolAnnotations.Reconciler | undefined
  /** Whether the handler can continue an interrupted call; absent: no, and no call of it stays open. */
  readonly continues?: ToolAnnotations.Continuing | undefined
  /** How a call runs, in a sandbox or not; absent: nothing is known. */
  readonly sandboxed?: ((params: unknown) => ToolAnnotations.Sandboxing) | undefined
  /** Agents let its calls run in the background; absent: no. */
  readonly background?: boolean | undefined
  /** Whether equal calls may return different answers. */
  readonly volatile: boolean
  /** What becomes of invisible text in its results; absent: as the executor's settings say. */
  readonly invisible?: "show" | "remove" | "refuse" | undefined
  /** Its outputs never become artifacts. */
  readonly bounded: boolean
  /** It makes calls itself, like a sub-agent. */
  readonly recursive: boolean
  /** Previews the write of a call. */
  readonly preview: ((params: unknown) => Effect.Effect<ReadonlyArray<FileChange>, unknown>) | undefined
  /** JSON Schema of the data that an approval must bring. */
  readonly form?: Schema.Json | undefined
  /** Decodes untrusted parameters; fails with at most ten issues. */
  readonly decode: (params: unknown) => Effect.Effect<unknown, ReadonlyArray<ParameterIssue>>
  /** The same text for equal parameters, from their encoded form or, if they cannot be encoded, the arguments. */
  readonly canonical: (decoded: unknown, args: unknown) => string
  readonly handler: Adapter.Entry["handler"]
  /** The services of the handler. */
  readonly context: Context.Context<never>
  readonly encode: (value: unknown) => Effect.Effect<unknown, Schema.SchemaError>
  readonly encodeFailure: (failure: unknown) => Effect.Effect<unknown, Schema.SchemaError>
  /** What `toModelOutput` of the tool returns, if it has one. */
  readonly modelContent: ((value: unknown) => ToolContent.ToolContent) | undefined
  /** Redacts secrets in records of its calls. */
  readonly redactor: Redact.Redactor
}

/** The tools of an executor, by name. */
export type Registry = ReadonlyMap<string, RegisteredTool>

/** The registry as a service, read and replaced as a whole. */
export class ToolHandlers extends Context.Service<ToolHandlers, {
  /** The current tools. A wave keeps the registry it started with. */
  readonly current: () => Registry
  /** Replaces all tools together, for later waves. */
  readonly replace: (registry: Registry) => Effect.Effect<void>
  /** Emits each replacement; slow readers may miss all but the last. */
  readonly changes: Stream.Stream<Registry>
  /** Whether a tool of that name may be added later, so that rules and policies may already name it. */
  readonly expects: (name: string) => boolean
}>()("effect-tool-executor/ToolHandlers") {}

/** Options of a registry. */
export interface Options<Name extends string = string> {
  /** Host settings by tool name. Unknown names are an error. */
  readonly tools?: { readonly [K in Name]?: Settings | undefined } | undefined
}

export interface LayerOptions<Name extends string = string> extends Options<Name> {
  /**
   * Names of tools that may be added later (`replace`), so that rules and policies may already name them. Default:
   * none.
   */
  readonly expects?: ((name: string) => boolean) | undefined
}

/**
 * The control argument with which a model requests another turn. It is removed before decoding; a tool that declares it
 * cannot be registered.
 */
export const heartbeatArgument = "request_heartbeat"

/**
 * Creates a registry from toolkits; requires their handlers.
 *
 * Fails with one `ConfigurationError` that lists every problem, such as duplicate names, invalid limits, a JSON Schema
 * that does not compile, settings for unknown tools, a declared `request_heartbeat`, or retries on a tool that is not
 * idempotent. Provider-defined tools without a handler are left out.
 */
export const makeRegistry = Effect.fnUntraced(function*<T extends Toolkit.Any>(
  toolkits: ReadonlyArray<T>,
  options?: Options
): Effect.fn.Return<Registry, ConfigurationError, HandlersOf<T>> {
  const context = yield* Effect.context<never>()
  const registry = new Map<string, RegisteredTool>()
  const problems: Array<Problem> = []
  const settings = new Map<string, Settings | undefined>(Object.entries(options?.tools ?? {}))
  for (const toolkit of toolkits) {
    const known = new Set(registry.keys())
    for (const tool of Object.values(toolkit.tools)) {
      if (isProvided(tool)) continue
      const path = `tools.${tool.name}`
      if (known.has(tool.name)) {
        problems.push({ path, problem: "two toolkits have a tool of this name", expected: "one tool per name" })
        continue
      }
      const entry = Adapter.fromContext(context, tool) ?? (yield* viaToolkit(toolkit, tool, context))
      const registered = register(
        tool,
        entry,
        settings.get(tool.name) ?? {},
        (problem, expected, at = path) => {
          problems.push({ path: at, problem, expected })
        }
      )
      if (registered === undefined) continue
      registry.set(tool.name, registered)
      // what a server says of its tools was looked at already
      if (!Context.get(tool.annotations, Schemas.IsForeign)) yield* reportUnseen(registered, problems)
    }
  }
  for (const name of settings.keys()) {
    if (!toolkits.some((toolkit) => Object.hasOwn(toolkit.tools, name))) {
      problems.push({
        path: `tools.${name}`,
        problem: "settings for a tool that does not exist",
        expected: `one of ${Array.from(registry.keys()).join(", ")}`
      })
    }
  }
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "ToolHandlers", problems })
  return registry
})

/**
 * Registers the tools of one or more toolkits; requires their handlers.
 *
 * **Example** (Registering a toolkit)
 *
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { ToolHandlers } from "effect-tool-executor"
 *
 * const Add = Tool.make("add", { parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite }), success: Schema.Finite })
 * const kit = Toolkit.make(Add)
 *
 * export const Tools = ToolHandlers.layer(kit, { tools: { add: { timeout: "5 seconds" } } }).pipe(
 *   Layer.provide(kit.toLayer({ add: ({ a, b }) => Effect.succeed(a + b) }))
 * )
 * ```
 */
export const layer = <T extends Toolkit.Any>(
  toolkits: T | ReadonlyArray<T>,
  options?: LayerOptions<NamesIn<T>>
): Layer.Layer<ToolHandlers, ConfigurationError, HandlersOf<T>> =>
  Layer.effect(
    ToolHandlers,
    Effect.map(
      makeRegistry<T>(kitsOf(toolkits), options),
      (registry) => fromRegistry(registry, expecting(kitsOf(toolkits), options?.expects))
    )
  )

/** Creates the service from a registry. */
export const fromRegistry = (
  initial: Registry,
  expects: (name: string) => boolean = () => false
): ToolHandlers["Service"] => {
  let registry = initial
  const changes = Changes.make<Registry>()
  return ToolHandlers.of({
    current: () => registry,
    replace: (next) =>
      Effect.sync(() => {
        registry = next
        changes.tell(next)
      }),
    changes: changes.stream,
    expects
  })
}

/** Returns the JSON Schema of a tool's parameters, as a model sees it. */
export const jsonSchemaOf = (tool: Tool.Any): JsonSchema.JsonSchema =>
  Tool.isDynamic(tool) && tool.jsonSchema !== undefined
    ? tool.jsonSchema
    : Schemas.toJsonSchema(tool.parametersSchema, excessOf(tool))

/** The handlers that a toolkit requires. */
export type HandlersOf<T extends Toolkit.Any> = T extends Toolkit.Any ? Tool.HandlersFor<T["tools"]> : never

const kitsOf = <T extends Toolkit.Any>(toolkits: T | ReadonlyArray<T>): ReadonlyArray<T> =>
  Array.isArray(toolkits) ? toolkits : [toolkits as T]

const isProvided = (tool: Tool.Any): boolean => Tool.isProviderDefined(tool) && !tool.requiresHandler

/** Rules may name provider-executed tools, which have no handler. */
const expecting = (
  toolkits: ReadonlyArray<Toolkit.Any>,
  expects: (name: string) => boolean = () => false
): (name: string) => boolean => {
  const provided = new Set(
    toolkits.flatMap(({ tools }) => Object.values(tools).filter(isProvided).map((it) => it.name))
  )
  return provided.size === 0 ? expects : (name) => provided.has(name) || expects(name)
}

const excessOf = (tool: Tool.Any): Schemas.Excess => ({
  onExcessProperty: Context.get(tool.annotations, ToolAnnotations.Closed) ? "error" : "ignore"
})

const toTargets = (keys: ReadonlyArray<string>): ToolAnnotations.TargetsOf => keys.map((text) => ({ text }))

type Report = (problem: string, expected: string, path?: string) => void

const viaToolkit = (
  toolkit: Toolkit.Any,
  tool: Tool.Any,
  context: Context.Context<never>
): Effect.Effect<Adapter.Entry> =>
  Effect.map(
    Effect.provideContext(
      toolkit as Toolkit.Toolkit<Record<string, Tool.Any>>,
      // the handlers are in the context under another type
      context as Context.Context<Tool.Handler<string>>
    ),
    (withHandler) => Adapter.throughHandle(withHandler, tool, context)
  )

const millis = (input: Duration.Input | undefined, report: Report, name: string): number | undefined => {
  if (input === undefined) return undefined
  const duration = Duration.fromInput(input)
  if (duration._tag === "Some" && Duration.toMillis(duration.value) > 0) return Duration.toMillis(duration.value)
  report(`${name} is ${JSON.stringify(input)}`, "a duration above zero, such as \"30 seconds\"")
  return undefined
}

/** Invisible text in a description is in the log, or a problem where the tool refuses it. */
const reportUnseen = (
  { description, invisible, jsonSchema, name }: RegisteredTool,
  problems: Array<Problem>
): Effect.Effect<void> => {
  const unseen = Unseen.findIn({ description, parameters: jsonSchema })
  if (unseen === undefined) return Effect.void
  const problem = `its ${unseen.path} holds invisible text (${Unseen.inWords(unseen)})`
  if (invisible !== "refuse") return Effect.logWarning(`tools.${name}: ${escape(problem)}`)
  problems.push({ path: `tools.${name}`, problem, expected: "a text that people can see" })
  return Effect.void
}

const formOf = (form: ToolAnnotations.FormOf | undefined, report: Report): JsonSchema.JsonSchema | undefined => {
  if (form === undefined) return undefined
  const schema = Schema.isSchema(form) ? Tool.getJsonSchemaFromSchema(form) : form
  const compiled = compile(schema)
  if (Result.isFailure(compiled)) {
    report(
      `its form does not compile: ${compiled.failure}`,
      "a Schema, or a JSON Schema of draft 6, 7, 2019-09 or 2020-12"
    )
  }
  return schema
}

const register = (
  tool: Tool.Any,
  entry: Adapter.Entry,
  settings: Settings,
  report: Report
): RegisteredTool | undefined => {
  const annotation = <A>(key: Context.Reference<A>): A => Context.get(tool.annotations, key)
  const readOnly = annotation(Tool.Readonly)
  // Effect's default of true does not count as a declaration
  const openWorld = tool.annotations.mapUnsafe.has(Tool.OpenWorld.key) && annotation(Tool.OpenWorld)
  const maxConcurrent = settings.maxConcurrent ?? annotation(ToolAnnotations.MaxConcurrent)
  if (maxConcurrent !== undefined && !(Number.isInteger(maxConcurrent) && maxConcurrent >= 1)) {
    report(`maxConcurrent is ${maxConcurrent}`, "a whole number of 1 or more")
  }
  const retry = settings.retry ?? annotation(ToolAnnotations.Retry)
  const idempotent = annotation(Tool.Idempotent) || annotation(ToolAnnotations.UsesIdempotencyKey)
  if (retry !== undefined && !readOnly && !idempotent) {
    report(
      "automatic retries for a tool that is not idempotent",
      "Tool.Idempotent, ToolAnnotations.UsesIdempotencyKey or Tool.Readonly on the tool, or no retry"
    )
  }
  const circuit = settings.circuitBreaker ?? annotation(ToolAnnotations.CircuitBreaker)
  const rate = settings.rateLimit ?? annotation(ToolAnnotations.RateLimit)
  const limits = new OptionReader()
  const at = `tools.${tool.name}`
  const checkedCircuit = circuit && ToolLimits.circuit(limits, `${at}.circuitBreaker`, circuit)
  const checkedRate = rate && ToolLimits.toolRate(limits, `${at}.rateLimit`, rate)
  for (const { expected, path, problem } of limits.problems) report(problem, expected, path)
  const schemas = Tool.isDynamic(tool) && tool.jsonSchema !== undefined
    ? Schemas.fromJsonSchema(tool.jsonSchema, annotation(Schemas.IsForeign) ? "foreign" : "own")
    : Result.succeed(Schemas.fromCodec(tool.parametersSchema as Schema.Codec<unknown, unknown>, excessOf(tool)))
  if (Result.isFailure(schemas)) {
    report(`its JSON Schema does not compile: ${schemas.failure}`, "a JSON Schema of draft 6, 7, 2019-09 or 2020-12")
    return undefined
  }
  const jsonSchema = jsonSchemaOf(tool)
  const properties: unknown = jsonSchema.properties
  if (typeof properties === "object" && properties !== null && Object.hasOwn(properties, heartbeatArgument)) {
    report(
      `it declares a parameter ${heartbeatArgument}`,
      "another name; the executor takes this argument out of every call"
    )
  }
  const form = formOf(annotation(ToolAnnotations.Form), report)
  const keys = annotation(ToolAnnotations.Resources)
  const resources = keys ?? (() => [])
  const targets = annotation(ToolAnnotations.Targets)
  const toModelOutput = tool.toModelOutput
  const secrets = {
    declared: settings.redact ?? annotation(ToolAnnotations.Redact),
    parameters: tool.parametersSchema.ast,
    results: [tool.successSchema.ast, tool.failureSchema.ast]
  }
  for (const path of Redact.strayPaths(secrets)) {
    report(
      `redact has the path ${JSON.stringify(path)}`,
      "a path that its arguments or results have, such as \"card.number\""
    )
  }
  return {
    name: tool.name,
    description: Tool.getDescription(tool),
    class: annotation(ToolAnnotations.Recursive)
      ? "ConcurrentMut"
      : readOnly
      ? "ReadOnly"
      : settings.promoted ?? annotation(ToolAnnotations.Promoted)
      ? "ConcurrentMut"
      : "SerialMut",
    openWorld,
    needsApproval: tool.needsApproval,
    annotations: tool.annotations,
    jsonSchema,
    rules: annotation(ToolAnnotations.Rules),
    timeoutMillis: millis(settings.timeout ?? annotation(ToolAnnotations.Timeout), report, "timeout"),
    idleMillis: millis(settings.idleTimeout ?? annotation(ToolAnnotations.IdleTimeout), report, "idleTimeout"),
    maxConcurrent,
    retryOnTimeout: settings.retryOnTimeout ?? annotation(ToolAnnotations.RetryOnTimeout),
    retry,
    isRetryable: annotation(ToolAnnotations.IsRetryable),
    circuit: checkedCircuit,
    rate: checkedRate,
    failureText: annotation(ToolAnnotations.FailureText),
    resources,
    targets: targets ?? ((params) => {
      const keys = resources(params)
      return Effect.isEffect(keys) ? Effect.map(keys, toTargets) : toTargets(keys)
    }),
    declaresTargets: targets !== undefined || keys !== undefined,
    guardsTargets: targets !== undefined,
    actsAs: annotation(ToolAnnotations.ActsAs),
    shownBy: annotation(ToolAnnotations.ShownBy),
    edits: annotation(ToolAnnotations.Edits),
    readOnly,
    idempotent,
    reconcile: annotation(ToolAnnotations.Reconcile),
    continues: annotation(ToolAnnotations.Continues),
    sandboxed: annotation(ToolAnnotations.Sandboxed),
    background: annotation(ToolAnnotations.Background),
    volatile: annotation(ToolAnnotations.Volatile) ?? (readOnly && openWorld),
    invisible: annotation(ToolAnnotations.Invisible),
    bounded: annotation(ToolAnnotations.Bounded),
    recursive: annotation(ToolAnnotations.Recursive),
    preview: annotation(ToolAnnotations.Preview),
    ...(form === undefined ? {} : { form: form as Schema.Json }),
    decode: schemas.success.decode,
    canonical: schemas.success.canonical,
    handler: entry.handler,
    context: entry.context,
    encode: Schema.encodeUnknownEffect(tool.successSchema as Schema.Codec<unknown, unknown>),
    encodeFailure: Schema.encodeUnknownEffect(
      Tool.failureResultSchema(tool) as Schema.Top as Schema.Codec<unknown, unknown>
    ),
    modelContent: toModelOutput === undefined
      ? undefined
      : (value) => ToolContent.fromModelOutput(toModelOutput(value)),
    redactor: Redact.redactor(secrets)
  }
}
