/** Bugs, each planted in a copy of one of the executor's parts, and the law that is to find it. */
import { Effect, Fiber, Layer, Stream } from "effect"
import {
  Approvals,
  Dedupe,
  ExecutorSettings,
  Permissions,
  Pools,
  Rules,
  ToolContext,
  type ToolEvent,
  ToolExecutor,
  type ToolOutcome
} from "effect-tool-executor"
import * as StateStore from "../../../src/core/store/StateStore.ts"
import { executor, handlers, like, part, type Planted, processes, tools } from "./plant.ts"

export interface Bug {
  readonly name: string
  readonly layer: Planted
  /** One of these is broken. */
  readonly laws: ReadonlyArray<string>
}

const leaking = (pools: Pools.Service): Pools.Service => {
  let left = 0
  return {
    ...pools,
    leave: (ticket) => ++left % 5 === 0 ? undefined : pools.leave(ticket),
    fork: () => leaking(pools.fork())
  }
}

/** Waves whose outcomes are others. */
const outcomes = (change: (all: ReadonlyArray<ToolOutcome.ToolOutcome>) => ReadonlyArray<ToolOutcome.ToolOutcome>) =>
  processes((process) => ({
    executeWave: (calls: Parameters<typeof process.executeWave>[0]) =>
      Effect.map(process.executeWave(calls), (result) => ({ ...result, outcomes: change(result.outcomes) }))
  }))

/** Events that are others. */
const events = (change: () => (event: ToolEvent.ToolEvent) => ReadonlyArray<ToolEvent.ToolEvent>) =>
  processes((process) => ({
    events: Stream.suspend(() => {
      const each = change()
      return Stream.flatMap(process.events, (event) => Stream.fromIterable(each(event)))
    })
  }))

/** Calls that claim others. */
const claims = (change: (claims: ReadonlyArray<Rules.RuleClaim>) => ReadonlyArray<Rules.RuleClaim>) =>
  part(Rules.Rules, (rules) => ({ ...rules, claims: (tool, scope) => change(rules.claims(tool, scope)) }))

/** What was reserved is settled in another way. */
const settled = (change: (settlement: StateStore.Settlement) => StateStore.Settlement) =>
  part(StateStore.StateStore, (store) => ({
    ...store,
    settle: (reservation, settlement, now) => store.settle(reservation, change(settlement), now)
  }))

const isComplete = (event: ToolEvent.ToolEvent) => event._tag === "ToolCallComplete"

const once = "a call is told as queued before all else, and as complete exactly once"
const inOrder = "every call has one outcome, with its id, in input order"
const asked = "what needs permission starts only with an answer or a grant for what it is about"
const room = "no pool, cap or resource has more calls running than it has room for"
const end = "every wave and every question comes to its end"
const refusal = "a limit refuses only what it has no room for"

export const bugs: ReadonlyArray<Bug> = [
  {
    name: "a permit is leaked now and then",
    layer: part(Pools.Pools, leaking),
    laws: ["what was taken is given back: afterwards as many calls run at once as ever", end]
  },
  { name: "an outcome is lost", layer: outcomes((all) => all.length > 1 ? all.slice(0, -1) : all), laws: [inOrder] },
  { name: "outcomes come in another order", layer: outcomes((all) => all.toReversed()), laws: [inOrder] },
  { name: "an event comes twice", layer: events(() => (it) => isComplete(it) ? [it, it] : [it]), laws: [once] },
  {
    name: "a call is never told as complete",
    layer: events(() => (it) => isComplete(it) && it.index === 1 ? [] : [it]),
    laws: [once]
  },
  {
    name: "a wave is told as ended before a call of it",
    layer: events(() => {
      let held: ReadonlyArray<ToolEvent.ToolEvent> = []
      return (it) => {
        if (isComplete(it) && it.index === 0) {
          held = [it]
          return []
        }
        return it._tag === "ToolsEnd" ? [it, ...held] : [it]
      }
    }),
    laws: ["the end of a wave is told once, after everything else"]
  },
  {
    name: "an event is lost, and nobody counts it",
    layer: events(() => (it) => it._tag === "ToolCallStart" ? [] : [it]),
    laws: ["events of a wave are numbered, and what is missing is counted"]
  },
  {
    name: "an event tells another outcome than the result",
    layer: events(() => (it) =>
      it._tag === "ToolCallComplete" ? [{ ...it, outcome: { ...it.outcome, commits: it.outcome.commits + 1 } }] : [it]
    ),
    laws: ["an outcome is the same in its event, at the end of its wave and in the result"]
  },
  {
    name: "a grant is for more than it was given for",
    layer: part(StateStore.StateStore, (store) => ({
      ...store,
      grants: (principal, now) =>
        Effect.map(store.grants(principal, now), (all) => all.map((it) => ({ ...it, targets: undefined })))
    })),
    laws: [asked]
  },
  {
    name: "nobody is asked",
    layer: part(Permissions.Permissions, (permissions) => ({
      ...permissions,
      decide: (call) => {
        const decision = permissions.decide(call)
        return decision._tag === "Ask" ? { _tag: "Allow" } : decision
      }
    })),
    laws: [asked]
  },
  {
    name: "a no is taken for a yes",
    layer: part(Approvals.Approvals, (approvals) => ({
      ...approvals,
      submit: (request, told) =>
        Effect.map(
          approvals.submit(request, told),
          (it) => it._tag === "Denied" ? { _tag: "Approved", grant: undefined, isOwn: true } as const : it
        )
    })),
    laws: [asked]
  },
  {
    name: "a question has no end",
    layer: part(Approvals.Approvals, (approvals) => ({
      ...approvals,
      request: (question) => approvals.request({ ...question, expiresAt: "unlimited" })
    })),
    laws: [end]
  },
  {
    name: "a grant is not revoked",
    layer: executor(() => ({ revoke: () => Effect.succeed(1) })),
    laws: ["a grant that was revoked lets nothing start"]
  },
  {
    name: "what the policy denies is allowed",
    layer: part(Permissions.Permissions, (permissions) => ({
      ...permissions,
      decide: (call) => {
        const decision = permissions.decide(call)
        return decision._tag === "Deny" ? { _tag: "Allow" } : decision
      }
    })),
    laws: ["what a policy denies never starts"]
  },
  {
    name: "a sub-agent may do more than its parent lets it",
    layer: handlers((run, context) =>
      Effect.provideService(
        run,
        ToolContext.ToolContext,
        like(context, {
          executor: context.executor && like(context.executor, {
            readOnly: context.executor.fork,
            fork: ({ name }: ToolExecutor.ForkOptions) => context.executor!.fork({ name })
          })
        })
      )
    ),
    laws: ["a fork does nothing that it may not, and nothing that its parent may not"]
  },
  {
    name: "a slot is not given back by a call that never started",
    layer: settled((it) => ({ ...it, started: true })),
    laws: [refusal]
  },
  {
    name: "a call counts twice",
    layer: claims((all) => all.map((it) => it._tag === "Calls" ? { ...it, max: Math.floor(it.max / 2) } : it)),
    laws: [refusal]
  },
  {
    name: "MaxCalls is forgotten",
    layer: claims((all) => all.filter((it) => it._tag !== "Calls")),
    laws: ["a tool never starts more often than MaxCalls allows"]
  },
  {
    name: "a cooldown is forgotten",
    layer: claims((all) => all.filter((it) => it._tag !== "Cooldown")),
    laws: ["a tool does not start again while it cools down"]
  },
  {
    name: "a rule of order is forgotten",
    layer: part(Rules.Rules, (rules) => ({ ...rules, check: () => undefined })),
    laws: ["a tool that needs another first starts only after its success"]
  },
  {
    name: "a key is kept after a failure",
    layer: settled((it) => it.started && it.key === "release" ? { ...it, key: "keep", windowMillis: 60_000 } : it),
    laws: ["a call is refused as a duplicate only if an equal one runs or has succeeded"]
  },
  {
    name: "equal calls are forgotten",
    layer: part(Dedupe.Dedupe, (dedupe) => ({ ...dedupe, claim: () => undefined })),
    laws: ["what an equal call of the same batch has done is not done again"]
  },
  {
    name: "runs do not wait for one another",
    layer: ToolExecutor.layer.pipe(Layer.provide(ExecutorSettings.layer({ mode: "parallel" }))),
    laws: ["a call that may change things runs beside no call of another run"]
  },
  { name: "a cap is ignored", layer: tools(() => ({ maxConcurrent: undefined })), laws: [room] },
  { name: "what calls touch is ignored", layer: tools(() => ({ resources: () => [] })), laws: [room] },
  {
    name: "a call that was refused runs all the same",
    layer: executor(() => ({}), (process, executor) => ({
      executeWave: (calls: Parameters<typeof process.executeWave>[0]) =>
        Effect.tap(
          process.executeWave(calls),
          ({ outcomes }) =>
            Effect.forEach(outcomes, (it) =>
              it._tag === "Denied" ? Effect.ignore(runAnyway(executor, it.callId, calls[it.index]!)) : Effect.void)
        )
    })),
    laws: ["a call that was refused never starts, and one that succeeded did, once"]
  },
  {
    name: "a queue goes on after it was cancelled",
    layer: processes((process) => ({
      cancel: (reason: string) => Effect.asVoid(Effect.forkDetach(Effect.delay(process.cancel(reason), 15)))
    })),
    laws: ["nothing starts after it was cancelled"]
  },
  {
    name: "a handler is left alone when its time is over",
    layer: handlers((run) => Effect.flatMap(Effect.forkDetach(run), Fiber.join)),
    laws: ["a handler whose call is over is interrupted"]
  },
  {
    name: "an orphan is not counted",
    layer: executor(() => ({ orphans: Effect.succeed({ running: [], total: 0, lateWritesBlocked: 0 }) })),
    laws: ["a handler that runs although its call is over is counted as an orphan"]
  },
  {
    name: "a late write gets through",
    layer: handlers((run, context) =>
      Effect.provideService(
        run,
        ToolContext.ToolContext,
        like(context, { commit: <A, E, R>(write: Effect.Effect<A, E, R>) => write })
      )
    ),
    laws: ["nothing is written after its call is over, and every write is counted"]
  }
]

const runAnyway = Effect.fnUntraced(function*(
  executor: ToolExecutor.Service,
  callId: string,
  { name, params }: { readonly name: string; readonly params: unknown }
) {
  const tool = (yield* executor.tools).find((it) => it.name === name)
  if (tool === undefined) return
  const context = yield* ToolContext.ToolContext
  yield* Effect.provideService(
    tool.handler(params, { toolCallId: callId } as never),
    ToolContext.ToolContext,
    { ...context, callId }
  )
})
