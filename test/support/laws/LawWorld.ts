/**
 * What a law run gives to an executor: tools that note when they really run, a policy,
 * rules, pools, and a person who answers as the calls say. What the executor brings
 * itself holds instead.
 *
 * @since 0.1.0
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as LocalExecutor from "../../../src/assembly/LocalExecutor.ts"
import type { Service as Executor } from "../../../src/core/contract/Executor.ts"
import { type Service as ToolContextService, ToolContext } from "../../../src/core/contract/ToolContext.ts"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import type { ConfigurationError } from "../../../src/core/vocabulary/ConfigurationError.ts"
import * as ToolAnnotations from "../../../src/core/vocabulary/ToolAnnotations.ts"
import * as ToolHandlers from "../../../src/core/vocabulary/ToolHandlers.ts"
import type { Asked, History, Moment, Start, WaveSeen } from "./LawHistory.ts"
import type { Params, World } from "./LawRun.ts"

/**
 * What a run gives to an executor.
 *
 * @category models
 * @since 0.1.0
 */
export type Environment = LocalExecutor.Gates | ToolHandlers.ToolHandlers | Approvals.Approvals

/**
 * How long the kit's tools may run, how long a person has, and for how long `cooled` cools down.
 *
 * @category constants
 * @since 0.1.0
 */
export const times = { limit: 50, patience: 200, cooldown: 100, grant: 60_000 } as const

/**
 * The tools of the kit: their class, their cap, and how long they may run.
 *
 * @category constants
 * @since 0.1.0
 */
export const tools = {
  read: { class: "ReadOnly" },
  capped: { class: "ReadOnly", cap: 2 },
  promoted: { class: "ConcurrentMut" },
  write: { class: "SerialMut" },
  /** A person has to allow it, for its target. */
  asked: { class: "ConcurrentMut" },
  /** It may start so often; for target b a person has to allow it. */
  limited: { class: "ReadOnly" },
  cooled: { class: "ReadOnly" },
  /** Only after a success of `write`. */
  after: { class: "ReadOnly" },
  denied: { class: "SerialMut" },
  agent: { class: "ConcurrentMut", limit: "10 seconds" }
} as const satisfies {
  readonly [name: string]: { readonly class: ToolHandlers.ToolClass; readonly cap?: number; readonly limit?: string }
}

/**
 * Keeps what happens, moment by moment.
 *
 * @category models
 * @since 0.1.0
 */
export class Witness {
  readonly used = new Set<string>()
  readonly waves: Array<WaveSeen> = []
  readonly starts: Array<Start> = []
  readonly asked: Array<Asked> = []
  readonly revoked: Array<History["revoked"][number]> = []
  readonly cancelled: Array<History["cancelled"][number]> = []
  readonly forbidden = new Map<string, NonNullable<Params["forbids"]>>()
  private order = 0

  /** This moment; no two are the same. */
  readonly now: Effect.Effect<Moment> = Effect.map(Clock.currentTimeMillis, (at) => ({ at, order: ++this.order }))
}

/** Runs the wave of a sub-agent in a process of its fork. */
type Nested = (
  executor: Executor,
  params: Params,
  context: ToolContextService
) => Effect.Effect<void, unknown, Scope.Scope>

/**
 * Builds what an executor is given.
 *
 * @category constructors
 * @since 0.1.0
 */
export const build = Effect.fnUntraced(function*(
  world: World,
  witness: Witness,
  nested: Nested,
  plain: boolean
): Effect.fn.Return<Context.Context<Environment>, ConfigurationError, Scope.Scope> {
  const names = Object.keys(tools) as ReadonlyArray<keyof typeof tools>
  const toolkit = Toolkit.make(...names.map(declare)) as Toolkit.Toolkit<Record<string, Tool.Any>>
  const handlers = toolkit.toLayer(
    Object.fromEntries(names.map((name) => [name, handlerOf(name, witness, nested)])) as never
  ) as Layer.Layer<Tool.HandlersFor<Record<string, Tool.Any>>>
  const gates = LocalExecutor.layerGates({
    policy: plain
      ? { default: "allow" }
      : { default: "allow", ask: ["asked", "limited(b)"], deny: ["denied"] },
    rules: plain ? [] : [
      { _tag: "MaxCalls", tool: "limited", max: world.max },
      { _tag: "Cooldown", tool: "cooled", duration: `${times.cooldown} millis` },
      { _tag: "RequiresPrecedingTools", tool: "after", tools: ["write"] }
    ],
    pools: { read: world.read, concurrent: world.concurrent, serial: 1 },
    dedupe: dedupes[world.dedupe],
    approval: world.approval,
    executionTimeout: times.limit,
    cleanupGrace: 20
  }).pipe(Layer.provideMerge(ToolHandlers.layer(toolkit)), Layer.provide(handlers))
  const approvals = yield* Approvals.make({ timeout: times.patience })
  yield* Effect.forkScoped(person(approvals, witness), { startImmediately: true })
  const context = Context.add(yield* Layer.build(gates), Approvals.Approvals, approvals)
  return noting(context, witness.used)
})

// Utilities

const dedupes: { readonly [D in World["dedupe"]]: LocalExecutor.Options["dedupe"] } = {
  reject: {},
  join: { inFlight: "join" },
  replay: { inFlight: "join", onDuplicate: "replay" },
  off: false
}

const declare = (name: keyof typeof tools): Tool.Any => {
  const tool: { readonly class: ToolHandlers.ToolClass; readonly cap?: number; readonly limit?: string } = tools[name]
  const declared = Tool.dynamic(name, {
    parameters: { type: "object" },
    success: Schema.Unknown,
    failure: Schema.Unknown
  })
    .annotate(Tool.Readonly, tool.class === "ReadOnly")
    .annotate(Tool.OpenWorld, false)
    .annotate(ToolAnnotations.Promoted, tool.class === "ConcurrentMut")
    .annotate(ToolAnnotations.Recursive, name === "agent")
    .annotate(ToolAnnotations.MaxConcurrent, tool.cap)
    .annotate(ToolAnnotations.Timeout, tool.limit as "10 seconds" | undefined)
  if (name === "promoted") return declared.annotate(ToolAnnotations.Resources, (it) => keysOf(it as Params))
  return name === "asked" || name === "limited"
    ? declared.annotate(ToolAnnotations.Targets, (it) => targetsOf(it as Params))
    : declared
}

const keysOf = ({ key }: Params): ReadonlyArray<string> => key === undefined ? [] : [key]

const targetsOf = ({ target }: Params) => target === undefined ? [] : [{ text: target }]

const handlerOf = (tool: keyof typeof tools, witness: Witness, nested: Nested) => (params: Params) =>
  Effect.flatMap(ToolContext, (context) =>
    Effect.acquireUseRelease(
      Effect.map(witness.now, (begin) => {
        const { agentPath, batch, callId = "", process } = context
        const start: Start = { callId, tool, params, agentPath, process, batch, begin, end: undefined, commits: [] }
        witness.starts.push(start)
        return start
      }),
      (start) => act(params, start, witness, nested, context),
      (start) => Effect.map(witness.now, (end) => void (start.end = end))
    ))

const act = (
  params: Params,
  start: Start,
  witness: Witness,
  nested: Nested,
  context: ToolContextService
): Effect.Effect<unknown, unknown> => {
  const { millis = 0 } = params
  const write = Effect.ignore(context.commit(Effect.map(witness.now, (moment) => start.commits.push(moment))))
  switch (params.act) {
    case "fail":
      return Effect.delay(Effect.fail("no"), millis)
    case "die":
      return Effect.delay(Effect.die("no"), millis)
    case "hang":
      return Effect.never
    case "deaf":
      return Effect.uninterruptible(Effect.sleep(times.limit + 30 + millis))
    case "commit":
      return Effect.andThen(Effect.sleep(millis), write)
    case "late":
      return Effect.andThen(Effect.forkDetach(Effect.delay(write, millis + times.limit)), Effect.sleep(millis))
    default:
      return params.calls === undefined || context.executor === undefined
        ? Effect.sleep(millis)
        : Effect.scoped(nested(context.executor, params, context))
  }
}

/** Answers what is asked as the calls say. */
const person = (approvals: Approvals.Approvals["Service"], witness: Witness) => {
  const open = new Map<string, Asked>()
  return Stream.runForEach(
    approvals.changes,
    Effect.fnUntraced(function*(change) {
      if (change._tag === "Ended") {
        const ended = open.get(change.id)
        if (ended !== undefined) ended.hasEnded = true
        return
      }
      const { agentPath, args, callId, id, tool } = change.request
      const params = args as Params
      const { answer: how = "no", patience = 0, target } = params
      const moment = yield* witness.now
      const asked: Asked = { callId, agentPath, tool, target, asked: moment, answered: undefined, hasEnded: false }
      open.set(id, asked)
      witness.asked.push(asked)
      if (how === "silence") return
      const answering = Effect.gen(function*() {
        yield* Effect.sleep(patience)
        asked.answered = { moment: yield* witness.now, how }
        yield* Effect.ignore(approvals.answer(id, answerOf(how, params)))
      })
      yield* Effect.forkScoped(answering, { startImmediately: true })
    })
  )
}

const answerOf = (how: NonNullable<Params["answer"]>, params: Params): Approvals.Answer => {
  switch (how) {
    case "duration":
      return { _tag: "ApproveForDuration", duration: `${times.grant} millis` }
    case "scope":
      return { _tag: "ApproveForScope" }
    case "edit":
      return { _tag: "ApproveOnce", params: { ...params, target: "edited" } as object as Schema.Json }
    case "once":
      return { _tag: "ApproveOnce" }
    default:
      return { _tag: "Deny" }
  }
}

/** Services that tell when somebody asks them: who brings a part of their own never does. */
const noting = <R>(context: Context.Context<R>, used: Set<string>): Context.Context<R> =>
  Context.makeUnsafe(
    new Map(
      Array.from(context.mapUnsafe, ([key, service]: readonly [string, unknown]) => [
        key,
        Predicate.isObject(service) ? noted(service, () => used.add(key.slice(key.lastIndexOf("/") + 1))) : service
      ])
    )
  )

const noted = <A extends object>(service: A, note: () => void): A =>
  new Proxy(service, {
    get: (it, name) => {
      note()
      return Reflect.get(it, name, it)
    }
  })
