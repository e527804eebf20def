/** The executor that a host sees, over its engine, and how it creates sub-agents. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type {
  Batch,
  BatchOptions,
  ForkOptions,
  NewProcessOptions,
  ProcessOptions,
  Service
} from "../../contract/Executor.ts"
import * as Permissions from "../../gates/Permissions.ts"
import * as TurnBudget from "../../gates/TurnBudget.ts"
import * as TurnState from "../../gates/TurnState.ts"
import { readOptions } from "../../vocabulary/ConfigurationError.ts"
import * as Grant from "../../vocabulary/Grant.ts"
import * as Agents from "../call/Agents.ts"
import { Caller, type Engine } from "../call/Engine.ts"
import * as Revisions from "../data/Revisions.ts"
import { orFail } from "../ports/RetryingStore.ts"
import * as TimedPorts from "../ports/TimedPorts.ts"
import * as Batches from "../process/Batches.ts"
import * as Process from "../process/Process.ts"
import * as ShownTools from "../process/ShownTools.ts"
import * as Reporter from "../report/Reporter.ts"

/** Creates the executor of an engine. With `handle` it acts for that call and ends with it. */
export const fromEngine = (
  engine: Engine,
  batches: Batches.Batches,
  handle?: Caller
): Service => {
  const caller = Agents.callingWith(handle)
  /** Does nothing if the executor is the handle of a call that is over. */
  const unlessOver = <A, E, R>(effect: Effect.Effect<A, E, R>, instead: A): Effect.Effect<A, E, R> =>
    handle === undefined ? effect : Effect.suspend(() => handle.isOver ? Effect.succeed(instead) : effect)
  const enter = (id?: string, options?: BatchOptions) =>
    Effect.map(
      Effect.flatMap(caller, (caller) => batches.enter(id, Agents.batchFor(engine, caller), handle, options)),
      (open): Batch => {
        // options that need no check cannot fail
        const process = ((options: ProcessOptions = {}) =>
          Effect.gen(function*() {
            const turn = options.turn && (yield* TurnBudget.limits(options.turn, "ToolExecutor.process"))
            const before = options.state && (yield* TurnState.check(options.state, "ToolExecutor.process"))
            const { approval, approvals, heard, id, meta, provided, session, tools } = options
            if (session !== undefined || tools !== undefined || provided !== undefined || approval !== undefined) {
              yield* checked(engine, options)
            }
            const people = typeof approvals === "object" ? TimedPorts.people(approvals, engine.context) : approvals
            const calling = yield* caller
            const above = Agents.aboveOf(engine, calling)
            // also with an executor of another tree, which knows nothing of the call
            const isForCall = above !== undefined || calling !== undefined
            const begun = { approval, id, meta, people, provided, session, state: before, tools, turn }
            const state = yield* batches.begins(open, begun, { above, isForCall })
            const { conversations } = engine
            if (conversations !== undefined) {
              yield* conversations.restore(state)
              for (const it of heard ?? []) {
                if (typeof it === "string") conversations.heard(state, it, "user")
                else conversations.heard(state, it.text, it.from ?? "user")
              }
            }
            return Process.make(engine, state, handle)
          })) as Batch["process"]
        return { id: open.state.id, process }
      }
    )
  const grantsAt = (at: number) => orFail(Effect.suspend(() => engine.store.grants(engine.principal, at)))
  const grants = Effect.flatMap(Clock.currentTimeMillis, grantsAt)
  const forkWith = Effect.fnUntraced(function*(
    options: Omit<ForkOptions, "policy">,
    policy: Permissions.Permissions["Service"] | undefined
  ) {
    const turn = yield* TurnBudget.limits(options.turn ?? {}, "ToolExecutor.fork")
    const above = yield* caller
    const parent = Agents.parentOf(engine, above)
    const unique = (yield* Random.nextIntBetween(0, 2 ** 40)).toString(36)
    const forked: Engine = yield* Agents.engineOf(parent, options.name ?? "agent", policy, {
      unique,
      batches: () => own,
      handleFor: (caller) => fromEngine(forked, own, caller)
    })
    const own = new Batches.Batches(forked, turn, unique)
    // the call that creates a sub-agent waits for it
    const self = fromEngine(forked, own, above instanceof Caller ? above : undefined)
    const close = own.close("the sub-agent ended")
    const siblings = parent.engine.batches().below
    const leave = parent.caller?.atEnd(() => void Effect.runForkWith(engine.context)(close))
    yield* Effect.addFinalizer(() => {
      siblings.delete(own)
      leave?.()
      return close
    })
    siblings.add(own)
    // if the handler's call has its outcome or the executor is closed, the sub-agent starts closed
    if ((above instanceof Caller && above.isOver) || parent.engine.batches().isOver) yield* close
    return self
  })

  return {
    principal: engine.principal,
    process:
      (({ batch, ...options }: NewProcessOptions = {}) =>
        Effect.flatMap(enter(batch), (entered) => entered.process(options))) as Service["process"],
    batch: enter,
    forgetSession: (session) => unlessOver(batches.forgetSession(session), undefined),
    completeBatch: (id) => unlessOver(batches.complete(id), undefined),
    requiresHeartbeat: (tool) => ShownTools.requiresHeartbeat(engine, tool),
    tools: ShownTools.all(engine),
    toolChanges: ShownTools.changes(engine),
    // permissions of a tool that was replaced no longer hold
    grants: Effect.map(grants, (all) => all.filter((it) => Revisions.holds(engine.handlers, it))),
    revoke: Effect.fnUntraced(function*({ id, tool }) {
      const now = yield* Clock.currentTimeMillis
      const { journal, principal, revoked } = engine
      const all = rootOf(engine).batches()
      for (const [id, expiresAt = Infinity] of revoked) if (expiresAt <= now && !all.holds(id)) revoked.delete(id)
      // expired ones included: calls that they cover may still wait for permits
      const known = (yield* grantsAt(0)).filter((it) => it.id === id || it.tool === tool)
      for (const grant of known) {
        revoked.set(grant.id, grant.expiresAt)
        if (journal !== undefined) {
          const { id, tool } = grant
          Reporter.revoked(journal, principal, { _tag: "Revoked", at: now, grant: id, tool })
        }
        all.revoke(grant.id)
        yield* orFail(engine.store.revoke(engine.principal, grant.id))
      }
      return known.filter((it) => Grant.isOpen(it, now)).length
    }, (revoking) => unlessOver(revoking, 0)),
    fork: Effect.fnUntraced(function*(options: ForkOptions = {}) {
      if (options.policy === undefined) return yield* forkWith(options, undefined)
      const policy = yield* Permissions.make(options.policy)
      yield* Permissions.checkNames(policy, engine.handlers, "ToolExecutor.fork")
      return yield* forkWith(options, policy)
    }),
    readOnly: (options = {}) => forkWith(options, Permissions.readOnly),
    pruneExpired: unlessOver(
      Effect.flatMap(Clock.currentTimeMillis, (now) => orFail(engine.store.pruneExpired(now))),
      0
    ),
    orphans: Effect.sync(() => ({
      running: engine.orphans.current,
      total: engine.orphans.counts.orphans,
      lateWritesBlocked: engine.orphans.counts.lateWritesBlocked
    }))
  }
}

const checked = ({ handlers }: Engine, { approval, provided, session, tools }: ProcessOptions) =>
  readOptions("ToolExecutor.process", (read) => {
    if (session !== undefined) read.text("session", session)
    read.oneOf("approval", approval ?? "perCall", ["perCall", "upfront"])
    for (const [index, name] of (tools ?? []).entries()) {
      if (handlers.current().has(name)) continue
      read.problems.push({
        path: `tools[${index}]`,
        problem: `the executor has no tool ${JSON.stringify(name)}`,
        expected: "the name of one of its tools"
      })
    }
    if (provided !== undefined && !areNames(provided)) {
      read.problems.push({
        path: "provided",
        problem: `it is ${String(provided)}`,
        expected: "a list of tool names"
      })
    }
  })

const areNames = (value: unknown): boolean => Array.isArray(value) && value.every((it) => typeof it === "string")

const rootOf = (engine: Engine): Engine => engine.parent === undefined ? engine : rootOf(engine.parent.engine)
