/**
 * The registry: every tool the executor can call, with its schemas compiled once, what it declares, and what the host
 * says about it.
 *
 * It takes ordinary `Tool` and `Toolkit` values of `effect/ai`, dynamic tools with a JSON Schema included. It runs
 * nothing; the executor does.
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
import { OptionReader } from "../../internal/OptionReader.ts"
import * as Redact from "../../internal/secrets/index.ts"
import * as Adapter from "../../internal/toolkitAdapter.ts"
import type { NamesIn } from "../../internal/toolkitTypes.ts"
import * as Schemas from "../../internal/toolSchemas.ts"
import type { Own } from "../rules/ToolRule.ts"
import { ConfigurationError, type Problem } from "./ConfigurationError.ts"
import type { FileChange } from "./FileChange.ts"
import * as ToolAnnotations from "./ToolAnnotations.ts"
import * as ToolContent from "./ToolContent.ts"
import * as ToolLimits from "./ToolLimits.ts"
import type { ParameterIssue } from "./ToolRefusal.ts"

/**
 * How calls of a tool may overlap: reads beside reads, promoted and recursive tools beside each other, everything else
 * alone.
 */
export type ToolClass = "ReadOnly" | "ConcurrentMut" | "SerialMut"

/** What a host says about a tool; overrides the tool's own annotations. */
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

/** One tool as the executor knows it. */
export interface RegisteredTool {
  readonly name: string
  readonly description: string | undefined
  readonly class: ToolClass
  /** Whether the tool declares that it reaches outside; effect's own default does not count as a declaration. */
  readonly openWorld: boolean
  readonly needsApproval: Tool.Any["needsApproval"]
  /** Everything that the tool declares, as it does. */
  readonly annotations: Context.Context<never>
  /** JSON Schema of the parameters, as the model sees it. */
  readonly jsonSchema: JsonSchema.JsonSchema
  /** The rules that the tool brings itself. */
  readonly rules: ReadonlyArray<Own>
  readonly timeoutMillis: number | undefined
  readonly idleMillis: number | undefined
  readonly maxConcurrent: number | undefined
  readonly retryOnTimeout: boolean
  readonly retry: Schedule.Schedule<unknown> | undefined
  readonly isRetryable: (failure: unknown) => boolean
  /** When it is not to be called because it keeps failing; absent: never. */
  readonly circuit?: ToolLimits.CheckedCircuit | undefined
  /** How many of its calls may start within a time; absent: any number. */
  readonly rate?: ToolLimits.CheckedToolRate | undefined
  readonly failureText: ((failure: unknown) => string) | undefined
  readonly resources: (params: unknown) => ReadonlyArray<string> | Effect.Effect<ReadonlyArray<string>>
  /** What a call is about, for policies. */
  readonly targets: (params: unknown) => ToolAnnotations.TargetsOf | Effect.Effect<ToolAnnotations.TargetsOf>
  /** It says what its calls are about, or at least which keys they touch. */
  readonly declaresTargets: boolean
  /** Some of its targets may be protected: they matter to every policy. */
  readonly guardsTargets: boolean
  /** Tools whose `deny` and `ask` patterns hold for it, too; absent: none. */
  readonly actsAs?: ReadonlyArray<string> | undefined
  /** Tools that show what it changes; absent: none. */
  readonly shownBy?: ReadonlyArray<string> | undefined
  /** It does nothing but change the files that its targets name. */
  readonly edits: boolean
  /** It declares that it changes nothing, whatever its class. */
  readonly readOnly: boolean
  /** A call that was started may be started again: it declares so, or its service knows the call by its key. */
  readonly idempotent: boolean
  /** Tells whether a call that was started has happened; absent: it cannot tell. */
  readonly reconcile: ToolAnnotations.Reconciler | undefined
  /** Its answer to an equal call changes by itself. */
  readonly volatile: boolean
  /** Its outputs never become artifacts. */
  readonly bounded: boolean
  /** It makes calls of its own, as a sub-agent does. */
  readonly recursive: boolean
  /** What the write of a call would do. */
  readonly preview: ((params: unknown) => Effect.Effect<ReadonlyArray<FileChange>, unknown>) | undefined
  /** Decodes untrusted parameters; fails with every issue found, at most ten. */
  readonly decode: (params: unknown) => Effect.Effect<unknown, ReadonlyArray<ParameterIssue>>
  /** One text for equal parameters, taken from their encoded form; from the arguments where they cannot be encoded. */
  readonly canonical: (decoded: unknown, args: unknown) => string
  readonly handler: Adapter.Entry["handler"]
  /** The services the handler was built with. */
  readonly context: Context.Context<never>
  readonly encode: (value: unknown) => Effect.Effect<unknown, Schema.SchemaError>
  readonly encodeFailure: (failure: unknown) => Effect.Effect<unknown, Schema.SchemaError>
  /** What the tool itself shows a model of its output (`toModelOutput`), if it says so. */
  readonly modelContent: ((value: unknown) => ToolContent.ToolContent) | undefined
  /** Takes secrets out of what is recorded of its calls. */
  readonly redactor: Redact.Redactor
}

/** The tools of an executor, by name. */
export type Registry = ReadonlyMap<string, RegisteredTool>

/** The registry as a service: read whole, replaced whole. */
export class ToolHandlers extends Context.Service<ToolHandlers, {
  /** The tools as they are now. A wave keeps the registry it began with. */
  readonly current: () => Registry
  /** Replaces all tools at once, for waves that begin later. */
  readonly replace: (registry: Registry) => Effect.Effect<void>
  /** Each replacement from now on, the last one at least; a slow reader may miss some. */
  readonly changes: Stream.Stream<Registry>
  /** Tells whether a tool of that name may come later: rules and policies may be about it though it is not there. */
  readonly expects: (name: string) => boolean
}>()("effect-tool-executor/ToolHandlers") {}

/** Options of a registry. */
export interface Options<Name extends string = string> {
  /** What the host says about tools, by name; a name that no tool has is a problem. */
  readonly tools?: { readonly [K in Name]?: Settings | undefined } | undefined
}

/** Options of a layer of tools. */
export interface LayerOptions<Name extends string = string> extends Options<Name> {
  /**
   * Tells whether a tool of that name may come later (`replace`): rules and policies may be about it though it is not
   * there. Default: none.
   */
  readonly expects?: ((name: string) => boolean) | undefined
}

/**
 * Name of the control argument with which a model asks to be called again. It is taken out before decoding; a tool that
 * declares it cannot be registered.
 */
export const heartbeatArgument = "request_heartbeat"

/**
 * Creates a registry from toolkits, whose handlers it requires.
 *
 * **Details**
 *
 * Fails with one `ConfigurationError` that lists every problem: a name that two toolkits share, a cap below 1, a JSON
 * Schema that does not compile, settings for a tool that does not exist, a tool that declares `request_heartbeat`,
 * automatic retries for a tool that is not idempotent. Provider-defined tools without a handler are the provider's to
 * run and are left out.
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
      if (registered !== undefined) registry.set(tool.name, registered)
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
 * Layer that registers the tools of one or more toolkits, whose handlers it requires.
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

/** Gives the JSON Schema of a tool's parameters, as a model sees it. */
export const jsonSchemaOf = (tool: Tool.Any): JsonSchema.JsonSchema =>
  Tool.isDynamic(tool) && tool.jsonSchema !== undefined
    ? tool.jsonSchema
    : Schemas.toJsonSchema(tool.parametersSchema, excessOf(tool))

/** The handlers that a toolkit requires. */
export type HandlersOf<T extends Toolkit.Any> = T extends Toolkit.Any ? Tool.HandlersFor<T["tools"]> : never

// Utilities

const kitsOf = <T extends Toolkit.Any>(toolkits: T | ReadonlyArray<T>): ReadonlyArray<T> =>
  Array.isArray(toolkits) ? toolkits : [toolkits as T]

/** Whether the provider of a model executes a tool. */
const isProvided = (tool: Tool.Any): boolean => Tool.isProviderDefined(tool) && !tool.requiresHandler

/** Rules may name tools that a provider executes, though nobody has a handler for them. */
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
      // the handlers are in the context, only not as expected
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

const register = (
  tool: Tool.Any,
  entry: Adapter.Entry,
  settings: Settings,
  report: Report
): RegisteredTool | undefined => {
  const annotation = <A>(key: Context.Reference<A>): A => Context.get(tool.annotations, key)
  const readOnly = annotation(Tool.Readonly)
  // effect's own default of true does not count as a declaration
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
    volatile: annotation(ToolAnnotations.Volatile) ?? (readOnly && openWorld),
    bounded: annotation(ToolAnnotations.Bounded),
    recursive: annotation(ToolAnnotations.Recursive),
    preview: annotation(ToolAnnotations.Preview),
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
