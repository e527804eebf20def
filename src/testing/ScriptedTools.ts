/**
 * Tools that follow a script: they take time, fail, die, hang or ignore interruption.
 *
 * They are ordinary dynamic tools of a `Toolkit`, so the executor under test treats them like real ones.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { ToolContext } from "../core/contract/ToolContext.ts"
import type { Own } from "../core/rules/ToolRule.ts"
import type { FileChange } from "../core/vocabulary/FileChange.ts"
import * as ToolAnnotations from "../core/vocabulary/ToolAnnotations.ts"
import type { Behaviour, ScriptedTool } from "./Scenario.ts"

/** A toolkit of scripted tools, and the layer of its handlers. */
export interface ScriptedTools {
  readonly toolkit: Toolkit.Toolkit<Record<string, Tool.Any>>
  readonly handlers: Layer.Layer<Tool.HandlersFor<Record<string, Tool.Any>>>
  /** Handler starts by tool. */
  readonly runs: ReadonlyMap<string, number>
}

/** Creates tools from their scripts. Each `make` has its own execution counts and preview files. */
export const make = (tools: { readonly [name: string]: ScriptedTool }): ScriptedTools => {
  const entries = Object.entries(tools)
  const files: Files = new Map()
  const toolkit = Toolkit.make(...entries.map(([name, script]) => declare(name, script, files)))
  const runs = new Map<string, number>()
  const handlers = Object.fromEntries(entries.map(([name, script]) => [name, handlerOf(name, script, files, runs)]))
  return { toolkit, handlers: toolkit.toLayer(handlers) as ScriptedTools["handlers"], runs }
}

/** Files written by a script, by path. */
type Files = Map<string, string>

const declare = (name: string, script: ScriptedTool, files: Files): Tool.Any => {
  const { preview, targets } = script
  const tool = Tool.dynamic(name, {
    parameters: script.parameters ?? { type: "object" },
    success: Schema.Unknown,
    failure: Schema.Unknown,
    needsApproval: script.needsApproval ?? false
  })
    .annotate(Tool.Readonly, script.class === "ReadOnly")
    .annotate(Tool.OpenWorld, script.openWorld ?? false)
    .annotate(Tool.Idempotent, script.idempotent ?? false)
    .annotate(ToolAnnotations.Promoted, script.promoted ?? script.class === "ConcurrentMut")
    .annotate(ToolAnnotations.Recursive, script.recursive ?? false)
    .annotate(ToolAnnotations.MaxConcurrent, script.maxConcurrent)
    .annotate(ToolAnnotations.Timeout, script.timeout as Duration.Input | undefined)
    .annotate(ToolAnnotations.IdleTimeout, script.idleTimeout as Duration.Input | undefined)
    .annotate(ToolAnnotations.RetryOnTimeout, script.retryOnTimeout ?? true)
    .annotate(ToolAnnotations.Retry, retryOf(script.retry))
    .annotate(ToolAnnotations.Rules, rulesOf(script.dedupe))
    .annotate(ToolAnnotations.IsRetryable, (failure) => !(failure instanceof ScriptedFailure) || failure.retryable)
    .annotate(ToolAnnotations.UsesIdempotencyKey, script.usesIdempotencyKey ?? false)
    .annotate(ToolAnnotations.Reconcile, reconcilerOf(script.reconcile))
    .annotate(ToolAnnotations.Resources, resourcesFor(script))
    .annotate(
      ToolAnnotations.Targets,
      targets === undefined ? undefined : (params) => valuesOf(targets, params).map((text) => ({ text }))
    )
  return preview === undefined
    ? tool
    : tool.annotate(ToolAnnotations.Preview, (params) => Effect.sync(() => [changeOf(preview, params, files)]))
}

const retryOf = (retry: ScriptedTool["retry"]): Schedule.Schedule<unknown> | undefined => {
  if (retry === undefined) return undefined
  const { every, times } = typeof retry === "number" ? { times: retry } : retry
  return every === undefined
    ? Schedule.recurs(times)
    : Schedule.upTo(Schedule.spaced(every as Duration.Input), { times })
}

const reconcilerOf = (reconcile: ScriptedTool["reconcile"]): ToolAnnotations.Reconciler | undefined => {
  if (reconcile === undefined) return undefined
  const answer: ToolAnnotations.Reconciled<unknown> = reconcile === "didNotHappen"
    ? { _tag: "DidNotHappen" }
    : reconcile === "unknown"
    ? { _tag: "CannotTell" }
    : { _tag: "Happened", result: reconcile.happened }
  return () => Effect.succeed(answer)
}

const rulesOf = (dedupe: ScriptedTool["dedupe"]): ReadonlyArray<Own> =>
  dedupe === undefined ? [] : [{ _tag: dedupe === true || dedupe === "always" ? "AlwaysDedupe" : "NeverDedupe" }]

/** What a call writes; a text that names a parameter stands for its value. */
const changeOf = (
  { after, path }: NonNullable<ScriptedTool["preview"]>,
  params: unknown,
  files: Files
): FileChange & { readonly after: string } => {
  const [file = path] = valuesOf([path], params)
  const [text = after] = valuesOf([after], params)
  return { path: file, before: files.get(file), after: text }
}

/** A failure with its own retryability, encoded as the scripted value. */
class ScriptedFailure {
  readonly retryable: boolean
  private readonly value: Schema.Json

  constructor(value: Schema.Json, retryable: boolean) {
    this.value = value
    this.retryable = retryable
  }

  toJSON(): Schema.Json {
    return this.value
  }
}

/** Without `resources` the tool declares nothing, which differs from declaring no resources. */
const resourcesFor = ({ resources }: ScriptedTool) =>
  resources === undefined ? undefined : (params: unknown) => valuesOf(resources, params)

/** Parameter values as texts; of a list, each item. */
const valuesOf = (names: ReadonlyArray<string>, params: unknown): ReadonlyArray<string> =>
  typeof params !== "object" || params === null
    ? []
    : names.flatMap((name) =>
      Object.hasOwn(params, name) ? [(params as Record<string, unknown>)[name]].flat().map(String) : []
    )

const handlerOf = (name: string, script: ScriptedTool, files: Files, runs: Map<string, number>) => (params: unknown) =>
  Effect.suspend(() => {
    const { calls, preview, ...defaults } = script
    const executions = runs.get(name) ?? 0
    runs.set(name, executions + 1)
    const call = calls?.[Math.min(executions, calls.length - 1)]
    const performed = perform({ ...defaults, ...call })
    return preview === undefined
      ? performed
      : Effect.tap(performed, () => write(changeOf(preview, params, files), files))
  })

const write = ({ after, path }: ReturnType<typeof changeOf>, files: Files): Effect.Effect<void> =>
  Effect.flatMap(ToolContext, (context) => context.commit(Effect.sync(() => files.set(path, after))))

const millis = (span: string | undefined): number =>
  span === undefined ? 0 : Duration.toMillis(Duration.fromInputUnsafe(span as Duration.Input))

const perform = Effect.fnUntraced(function*(behaviour: Behaviour) {
  const context = yield* ToolContext
  if (behaviour.lateCommit !== undefined) yield* Effect.forkDetach(commitLate(millis(behaviour.lateCommit)))
  let passed = 0
  for (const { at, ...report } of behaviour.progress ?? []) {
    yield* sleep(millis(at) - passed, behaviour)
    passed = Math.max(passed, millis(at))
    yield* context.progress(report)
  }
  if (behaviour.never === true) return yield* Effect.suspend(() => deafIf(behaviour, Effect.never))
  yield* sleep(millis(behaviour.takes) - passed, behaviour)
  if (behaviour.dies !== undefined) return yield* Effect.die(new Error(behaviour.dies))
  if (behaviour.fails === undefined) return behaviour.returns ?? null
  return yield* Effect.fail(
    behaviour.retryable === undefined ? behaviour.fails : new ScriptedFailure(behaviour.fails, behaviour.retryable)
  )
})

const deafIf = <A>(behaviour: Behaviour, effect: Effect.Effect<A>): Effect.Effect<A> =>
  behaviour.deaf === true ? Effect.uninterruptible(effect) : effect

const sleep = (wait: number, behaviour: Behaviour): Effect.Effect<void> =>
  wait > 0 ? deafIf(behaviour, Effect.sleep(wait)) : Effect.void

/** A promise that cannot be stopped: it writes after its call has ended. */
const commitLate = Effect.fnUntraced(function*(wait: number) {
  const context = yield* ToolContext
  const { signal } = context
  yield* Effect.callback<void>((resume) => {
    if (signal.aborted) return resume(Effect.void)
    signal.addEventListener("abort", () => resume(Effect.void), { once: true })
  })
  yield* Effect.sleep(wait)
  yield* context.commit(Effect.void)
})
