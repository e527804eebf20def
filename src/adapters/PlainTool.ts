/** Shared by the adapters: tools made of plain JavaScript functions. */
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { pipe } from "effect/Function"
import type * as JsonSchema from "effect/JsonSchema"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import { textOf } from "../core/output/OutputPolicy.ts"
import * as ToolAnnotations from "../core/vocabulary/ToolAnnotations.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import { clip } from "../internal/clip.ts"
import * as PlainJson from "../wire/PlainJson.ts"

/** Host settings of a function. By default a function is assumed to change things, and its calls run alone. */
export interface Declared {
  /** It changes nothing: its calls overlap with other reads and by default need no approval. */
  readonly readOnly?: boolean | undefined
  /** Calling it twice has the effect of calling it once. */
  readonly idempotent?: boolean | undefined
  /** It may destroy something. */
  readonly destructive?: boolean | undefined
  /** It reaches outside: by default calls need approval, even if it is `readOnly`. */
  readonly openWorld?: boolean | undefined
  /** See `ToolAnnotations.Promoted`. */
  readonly promoted?: boolean | undefined
  /** See `ToolAnnotations.MaxConcurrent`. */
  readonly maxConcurrent?: number | undefined
  /** See `ToolAnnotations.Timeout`. */
  readonly timeout?: Duration.Input | undefined
  /** See `ToolAnnotations.Resources`. */
  readonly resources?: ((args: unknown) => ReadonlyArray<string>) | undefined
  /** See `ToolAnnotations.Targets`. */
  readonly targets?: ((args: unknown) => ToolAnnotations.TargetsOf) | undefined
  /** Any other annotations, such as `Context.make(ToolAnnotations.IdleTimeout, "5 seconds")`. */
  readonly annotations?: Context.Context<never> | undefined
}

/** A tool made of a function; it fails with the message of what was thrown. */
export type PlainTool<Name extends string, Input = unknown, Output = unknown> = Tool.Dynamic<Name, {
  readonly parameters: Schema.Codec<Input>
  readonly success: Schema.Codec<Output>
  readonly failure: typeof Schema.String
  readonly failureMode: "error"
}>

/** An output with its own text for the model; a failure says why it is missing. */
export class Worded {
  readonly output: unknown
  readonly shown: Result.Result<ToolContent.ToolContent, string>

  constructor(output: unknown, shown: Result.Result<ToolContent.ToolContent, string>) {
    this.output = output
    this.shown = shown
  }
}

export const make = <Name extends string>(name: Name, declared: Declared, options: {
  readonly description: string | undefined
  readonly parameters: JsonSchema.JsonSchema | Schema.Codec<unknown, unknown>
  readonly needsApproval: Tool.Any["needsApproval"]
  /** Its outputs may be `Worded`. */
  readonly worded?: boolean | undefined
  /** The tool's own annotations; the host's override them. */
  readonly annotations?: Context.Context<never> | undefined
}): PlainTool<Name> =>
  Tool.dynamic(name, {
    description: options.description,
    parameters: options.parameters,
    success: Output,
    failure: Schema.String,
    needsApproval: options.needsApproval,
    toModelOutput: options.worded === true
      ? (output: unknown) => ToolContent.toModelOutput(shownOf(output))
      : undefined
  }).annotateMerge(
    Context.merge(options.annotations ?? Context.empty(), annotations(declared))
  ) as unknown as PlainTool<Name>

/**
 * Runs plain JavaScript that returns a value, a promise or an effect.
 *
 * It fails with the message, without a stack, of what was thrown. The signal aborts when the call is stopped. The
 * effect ends only when the promise settles, so that running work stays visible.
 */
export const attempt = (run: (signal: AbortSignal) => unknown): Effect.Effect<unknown, string> =>
  Effect.suspend(() => {
    const controller = new AbortController()
    return Effect.try({ try: () => run(controller.signal), catch: messageOf }).pipe(
      Effect.flatMap((given) => Predicate.isPromiseLike(given) ? settled(given, controller) : now(given)),
      Effect.onInterrupt(() => Effect.sync(() => controller.abort()))
    )
  })

/** Runs an approval check; if it throws, approval is needed. */
export const approval = (ask: () => unknown): Effect.Effect<boolean> =>
  Effect.orDie(attempt(ask)) as Effect.Effect<boolean>

/** The message of any thrown value. */
export const messageOf = (thrown: unknown): string => {
  const plain = PlainJson.from(thrown)
  const words = Predicate.hasProperty(plain, "message") && plain.message !== ""
    ? plain.message
    : Predicate.hasProperty(plain, "name")
    ? plain.name
    : plain
  return clip(words === null || words === "" ? "it did not say why" : textOf(words), 2_000)
}

/** Adds an annotation if it is defined. */
export const add =
  <A>(key: Context.Reference<A>, value: A | undefined) => (context: Context.Context<never>): Context.Context<never> =>
    value === undefined ? context : Context.add(context, key, value)

const annotations = (it: Declared): Context.Context<never> =>
  pipe(
    it.annotations ?? Context.empty(),
    add(Tool.Readonly, it.readOnly),
    add(Tool.Idempotent, it.idempotent),
    add(Tool.Destructive, it.destructive),
    add(Tool.OpenWorld, it.openWorld),
    add(ToolAnnotations.Promoted, it.promoted),
    add(ToolAnnotations.MaxConcurrent, it.maxConcurrent),
    add(ToolAnnotations.Timeout, it.timeout),
    add(ToolAnnotations.Resources, it.resources),
    add(ToolAnnotations.Targets, it.targets)
  )

const isEffect = (given: unknown): given is Effect.Effect<unknown, unknown> => Effect.isEffect(given)

/** Runs an effect if the function returned one. */
const now = (given: unknown): Effect.Effect<unknown, string> =>
  isEffect(given) ? Effect.mapError(given, messageOf) : Effect.succeed(given)

const settled = (promise: PromiseLike<unknown>, controller: AbortController): Effect.Effect<unknown, string> =>
  Effect.callback((resume) => {
    const over = Promise.resolve(promise).then(
      (value) => resume(now(value)),
      (thrown: unknown) => resume(Effect.fail(messageOf(thrown)))
    )
    return Effect.suspend(() => {
      controller.abort()
      return Effect.promise(() => over)
    })
  })

/** Encodes any value as JSON; `undefined` stays `undefined`. */
const Output = Schema.Unknown.pipe(Schema.decodeTo(Schema.Unknown, {
  decode: SchemaGetter.passthrough(),
  encode: SchemaGetter.transformEffect((given: unknown) => {
    if (!(given instanceof Worded)) return Effect.succeed(plain(given))
    return Result.isSuccess(given.shown)
      ? Effect.succeed(plain(given.output))
      : Effect.fail(new SchemaIssue.InvalidValue({ message: given.shown.failure }))
  })
}))

const plain = (value: unknown): unknown => value === undefined ? undefined : PlainJson.from(value)

const shownOf = (given: unknown): ToolContent.ToolContent =>
  given instanceof Worded ? Result.getOrElse(given.shown, () => []) : [ToolContent.text(textOf(plain(given)))]
