/** Calls that are handed over again after a crash. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Journal from "../../../../src/core/store/Journal.ts"
import * as JournalText from "../../../../src/core/store/JournalText.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import {
  Approvals,
  ToolAnnotations,
  type ToolCall,
  ToolContext,
  ToolEvent,
  ToolOutcome
} from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, open, type Options, tags, type ToolSpec } from "../../../support/Harness.ts"

type Service = Journal.Journal["Service"]

/** A journal in memory in which there is something already. */
const journalOf = (options?: Journal.MemoryOptions): Effect.Effect<Service> =>
  Effect.map(
    Effect.orDie(Effect.scoped(Layer.build(Layer.fresh(Journal.layerMemory(options))))),
    (context) => Context.get(context, Journal.Journal)
  )

const entriesOf = (journal: Service): Effect.Effect<ReadonlyArray<Journal.JournalEntry>> =>
  Effect.orDie(Effect.map(Stream.runCollect(journal.read({})), (all) => all.map(({ entry }) => entry)))

/** What a host sees of one life of the program. */
interface Life {
  readonly specs?: Record<string, ToolSpec> | undefined
  readonly options?: Options | undefined
}

/** A process of the batch `b` over a journal, with everything else new. */
const live = (journal: Service | undefined, { options, specs }: Life) =>
  Effect.flatMap(
    open(specs ?? {}, { ...options, ...(journal === undefined ? {} : { journal }) }),
    ({ executor }) => executor.process({ batch: "b" })
  )

/**
 * Hands a wave to a process, and kills it a second later, as far as a test can: nobody
 * hears of it any more, and its journal can be written no longer. Gives what is on record.
 */
const crash = Effect.fnUntraced(function*(
  wave: ReadonlyArray<ToolCall.ToolCall>,
  life: Life,
  keeps?: Journal.MemoryOptions
): Effect.fn.Return<ReadonlyArray<Journal.JournalEntry>, never, Scope.Scope> {
  const journal = yield* journalOf(keeps)
  const process = yield* live(journal, life)
  yield* Effect.forkScoped(process.executeWave(wave))
  yield* Effect.sleep("1 second")
  return yield* entriesOf(journal)
})

const test = <A, E>(name: string, program: () => Effect.Effect<A, E, Scope.Scope>, options?: { tags: Array<string> }) =>
  it.effect(name, () => VirtualTime.run(Effect.scoped(Effect.suspend(program)), { limit: "1 day" }), options)

/** Tools, the first handler of which to be called never ends where its parameters say so; and what has run. */
const world = () => {
  const ran: Array<string> = []
  const keys: Array<string> = []
  const handler: ToolSpec["handler"] = ({ hangs }) =>
    Effect.flatMap(ToolContext.ToolContext, ({ callId, idempotencyKey }) => {
      ran.push(String(callId))
      keys.push(String(idempotencyKey))
      return hangs === true && ran.filter((it) => it === callId).length === 1 ? Effect.never : Effect.succeed(callId)
    })
  const annotated = (annotate: (tool: Tool.Any) => Tool.Any): ToolSpec => ({
    class: "ConcurrentMut",
    handler,
    annotate
  })
  const specs: Record<string, ToolSpec> = {
    read: { class: "ReadOnly", handler },
    write: { class: "ConcurrentMut", handler },
    serial: { class: "SerialMut", handler },
    idempotent: annotated((tool) => tool.annotate(Tool.Idempotent, true)),
    keyed: annotated((tool) => tool.annotate(ToolAnnotations.UsesIdempotencyKey, true))
  }
  return { ran, keys, specs, handler }
}

const reconciling = (handler: ToolSpec["handler"], reconcile: ToolAnnotations.Reconciler): ToolSpec => ({
  class: "ConcurrentMut",
  handler,
  annotate: (tool) => tool.annotate(ToolAnnotations.Reconcile, reconcile)
})

const hanging = { hangs: true }

/** A crash in the middle of a call, and its resume in another life. */
const again = Effect.fnUntraced(function*(
  one: ToolCall.ToolCall,
  specs: Record<string, ToolSpec>,
  options?: Options,
  onUnknown?: "ask"
): Effect.fn.Return<ToolOutcome.ToolOutcome, never, Scope.Scope> {
  const entries = yield* crash([one], { specs, options })
  const journal = yield* journalOf({ entries })
  const process = yield* live(journal, { specs, options })
  const { outcomes: [outcome] } = yield* Effect.orDie(process.resume([one], { onUnknown }))
  // what was said is what is on record: whoever asks once more hears the same
  yield* Effect.sleep(1)
  const [same] = (yield* Effect.orDie(process.resume([one]))).outcomes
  assert.deepStrictEqual({ ...same, queuedAt: 0 }, { ...outcome, queuedAt: 0 })
  return outcome!
})

describe("a wave that is resumed", () => {
  test("has the outcomes that are on record, and nothing runs again", () => {
    const { ran, specs } = world()
    const failing: ToolSpec = { class: "SerialMut", handler: () => Effect.fail("no money") }
    const wave = [call("1", "write", { n: 1 }), call("2", "pay", {}), call("3", "none", {}), call("4", "read", {})]
    return Effect.gen(function*() {
      const life = { specs: { ...specs, pay: failing } }
      const first = yield* journalOf()
      const before = yield* (yield* live(first, life)).executeWave(wave)
      assert.deepStrictEqual(tags(before), ["Succeeded", "Failed", "ToolNotFound", "Succeeded"])
      const journal = yield* journalOf({ entries: yield* entriesOf(first) })
      yield* Effect.sleep("1 minute")
      const after = yield* (yield* live(journal, life)).resume(wave)
      assert.deepStrictEqual(
        after.outcomes.map((it) => ({ ...it, queuedAt: 0 })),
        before.outcomes.map((it) => ({ ...it, queuedAt: 0 }))
      )
      assert.deepStrictEqual(after.toolMessages, before.toolMessages)
      assert.deepStrictEqual(ran, ["1", "4"])
    })
  }, { tags: ["K2"] })

  test("runs what never started, behind what has run", () => {
    const { ran, specs } = world()
    const wave = [
      call("1", "serial", { n: 1 }),
      call("2", "serial", hanging),
      call("3", "serial", { n: 3 }),
      call("4", "read", {})
    ]
    return Effect.gen(function*() {
      const entries = yield* crash(wave, { specs })
      assert.deepStrictEqual(ran, ["1", "2"])
      const process = yield* live(yield* journalOf({ entries }), { specs })
      const { outcomes } = yield* process.resume(wave)
      assert.deepStrictEqual(outcomes.map((it) => it._tag), ["Succeeded", "Unknown", "Succeeded", "Succeeded"])
      assert.deepStrictEqual(ran, ["1", "2", "3", "4"])
    })
  }, { tags: ["K2"] })

  for (const tool of ["read", "idempotent", "keyed"]) {
    test(`runs a call of a tool that is ${tool} again, under the key that it had`, () => {
      const { keys, ran, specs } = world()
      return Effect.gen(function*() {
        const outcome = yield* again(call("1", tool, hanging), specs)
        assert.deepInclude(outcome, { _tag: "Succeeded" })
        assert.deepStrictEqual(ran, ["1", "1"])
        assert.strictEqual(keys[0], keys[1])
      })
    }, { tags: ["K7"] })
  }

  for (const tool of ["write", "serial"]) {
    test(`says of a ${tool} that may have happened that its outcome is unknown`, () => {
      const { ran, specs } = world()
      return Effect.gen(function*() {
        const outcome = yield* again(call("1", tool, hanging), specs)
        assert.deepInclude(outcome, { _tag: "Unknown", startedAt: 0, attempt: 1 })
        assert.include(ToolOutcome.text(outcome), "It may or may not have happened")
        assert.deepStrictEqual(ran, ["1"])
      })
    }, { tags: ["K8"] })
  }

  const answers: Record<string, readonly [ToolAnnotations.Reconciler, tag: string, runs: number, millis: number]> = {
    "it happened": [() => Effect.succeed({ _tag: "Happened", result: { id: 7 } }), "Succeeded", 1, 0],
    "it did not happen": [() => Effect.succeed({ _tag: "DidNotHappen" }), "Succeeded", 2, 0],
    "nothing": [() => Effect.succeed({ _tag: "CannotTell" }), "Unknown", 1, 0],
    "what makes no sense": [() => Effect.succeed("yes" as never), "Unknown", 1, 0],
    "by failing": [() => Effect.fail("no connection"), "Unknown", 1, 0],
    "by throwing": [
      () => {
        throw new Error("broken")
      },
      "Unknown",
      1,
      0
    ],
    "nothing for ever": [() => Effect.never, "Unknown", 1, 10_000]
  }
  for (const [how, [reconcile, tag, runs, millis]] of Object.entries(answers)) {
    test(`asks the tool itself, which says ${how}`, () => {
      const { handler, ran } = world()
      const asked: Array<ToolAnnotations.Earlier> = []
      const specs = {
        pay: reconciling(handler, (params, earlier) => {
          assert.deepStrictEqual(params, hanging)
          asked.push(earlier)
          return reconcile(params, earlier)
        })
      }
      return Effect.gen(function*() {
        const outcome = yield* again(call("1", "pay", hanging), specs)
        assert.strictEqual(outcome._tag, tag)
        assert.strictEqual(ran.length, runs)
        assert.strictEqual(yield* VirtualTime.now, 1_001 + millis)
        assert.strictEqual(asked.length, 1)
        assert.deepInclude(asked[0], { startedAt: 0, callId: "1" })
        if (runs === 1 && outcome._tag === "Succeeded") {
          assert.deepInclude(outcome.output, { value: { id: 7 } })
          assert.strictEqual(outcome.startedAt, 0)
        }
      })
    }, { tags: ["K7"] })
  }

  for (const answer of ["ApproveOnce", "Deny"] as const) {
    test(`lets a person say ${answer} where the outcome is unknown, if the host wants that`, () => {
      const { keys, ran, specs } = world()
      return Effect.gen(function*() {
        const approvals = Context.get(yield* Layer.build(Approvals.layer({ timeout: "1 minute" })), Approvals.Approvals)
        const resumed = yield* Effect.forkScoped(again(call("1", "write", hanging), specs, { approvals }, "ask"))
        yield* Effect.sleep("2 seconds")
        const [request] = yield* approvals.list
        assert.include(request!.why, "it may have happened already")
        yield* approvals.answer(request!.id, { _tag: answer })
        const outcome = yield* Fiber.join(resumed)
        assert.strictEqual(outcome._tag, answer === "Deny" ? "Unknown" : "Succeeded")
        assert.deepStrictEqual(ran, answer === "Deny" ? ["1"] : ["1", "1"])
        assert.strictEqual(new Set(keys).size, 1)
      })
    }, { tags: ["K8"] })
  }

  test("does not run what a person has edited and what has started, whatever the tool says", () => {
    const { ran, specs } = world()
    const one = call("1", "idempotent", { n: 1 })
    return Effect.gen(function*() {
      const approvals = Context.get(yield* Layer.build(Approvals.layer({ timeout: "1 minute" })), Approvals.Approvals)
      const options: Options = { approvals, policy: { default: "ask" } }
      yield* Effect.forkScoped(Effect.gen(function*() {
        yield* Effect.sleep(1)
        const [request] = yield* approvals.list
        yield* approvals.answer(request!.id, { _tag: "ApproveOnce", params: { hangs: true } })
      }))
      const entries = yield* crash([one], { specs, options })
      assert.deepStrictEqual(ran, ["1"])
      const process = yield* live(yield* journalOf({ entries }), { specs, options })
      assert.deepStrictEqual(tags(yield* process.resume([one])), ["Unknown"])
      assert.deepStrictEqual(ran, ["1"])
    })
  }, { tags: ["K7"] })

  test("asks what was asked before under its old id, until the time that was said", () => {
    const { ran, specs } = world()
    const one = call("1", "write", {})
    const options: Options = { policy: { default: "ask" } }
    const people = Effect.map(
      Layer.build(Layer.fresh(Approvals.layer({ timeout: "1 minute" }))),
      (it) => Context.get(it, Approvals.Approvals)
    )
    return Effect.gen(function*() {
      const before = yield* people
      const entries = yield* crash([one], { specs, options: { ...options, approvals: before } })
      const [asked] = yield* before.list
      const approvals = yield* people
      const process = yield* live(yield* journalOf({ entries }), { specs, options: { ...options, approvals } })
      const wave = yield* Effect.forkScoped(process.resume([one]))
      yield* Effect.sleep("1 second")
      const [request] = yield* approvals.list
      assert.strictEqual(request!.id, asked!.id)
      assert.strictEqual(request!.expiresAt, 60_000)
      yield* approvals.answer(request!.id, { _tag: "ApproveOnce" })
      assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
      assert.deepStrictEqual(ran, ["1"])
    })
  }, { tags: ["K12"] })

  test("leaves alone what somebody works on who is alive", () => {
    const { ran, specs } = world()
    const wave = [call("1", "write", {}), call("2", "serial", hanging)]
    return Effect.gen(function*() {
      const journal = yield* journalOf()
      const first = yield* live(journal, { specs })
      const running = yield* Effect.forkScoped(first.executeWave(wave))
      yield* Effect.sleep("1 second")
      const second = yield* live(journal, { specs })
      const error = yield* Effect.flip(second.resume(wave))
      assert.deepInclude(error, { _tag: "ResumeError", reason: "Running", calls: ["2"] })
      yield* first.cancelCall("2")
      assert.deepStrictEqual(tags(yield* Fiber.join(running)), ["Succeeded", "Cancelled"])
      assert.deepStrictEqual(tags(yield* second.resume(wave)), ["Succeeded", "Cancelled"])
      assert.deepStrictEqual(ran, ["1", "2"])
    })
  }, { tags: ["K9"] })

  test("tells of itself once it is resumed, and nobody of an attempt that failed", () => {
    const { specs } = world()
    const wave = [call("1", "serial", {}), call("2", "serial", hanging)]
    return Effect.gen(function*() {
      const journal = yield* journalOf()
      const first = yield* live(journal, { specs })
      const second = yield* live(journal, { specs })
      const running = yield* Effect.forkScoped(first.executeWave(wave))
      yield* Effect.sleep("1 second")
      const told: Array<string> = []
      yield* second.listen(({ _tag }) => told.push(_tag) > 0)
      assert.strictEqual((yield* Effect.flip(second.resume(wave)))._tag, "ResumeError")
      assert.deepStrictEqual(told, [])
      yield* first.cancelCall("2")
      yield* Fiber.join(running)
      yield* second.resume(wave)
      const queuedOnce = ["ToolCallQueued", "ToolCallQueued"]
      assert.deepStrictEqual(told, [...queuedOnce, "ToolCallComplete", "ToolCallComplete", "ToolsEnd"])
      told.length = 0
      yield* second.resume([])
      assert.deepStrictEqual(told, ["ToolsEnd"])
    })
  })

  test("is resumed once, however many want to", () => {
    const { ran, specs } = world()
    const wave = [call("1", "keyed", hanging), call("2", "write", {})]
    return Effect.gen(function*() {
      const entries = yield* crash(wave, { specs })
      const journal = yield* journalOf({ entries })
      const processes = yield* Effect.replicateEffect(live(journal, { specs }), 5)
      const exits = yield* Effect.forEach(processes, (it) => Effect.exit(it.resume(wave)), { concurrency: "unbounded" })
      assert.strictEqual(exits.filter((it) => it._tag === "Success").length, 1)
      // the write had run before the crash
      assert.deepStrictEqual(ran, ["1", "2", "1"])
    })
  }, { tags: ["K9"] })

  test("of which a call is open with other arguments is not resumed at all", () => {
    const { ran, specs } = world()
    return Effect.gen(function*() {
      const entries = yield* crash([call("1", "serial", hanging), call("2", "serial", { n: 1 })], { specs })
      const journal = yield* journalOf({ entries })
      const process = yield* live(journal, { specs })
      const changed = [call("1", "serial", hanging), call("2", "serial", { n: 2 })]
      const error = yield* Effect.flip(process.resume(changed))
      assert.deepInclude(error, { _tag: "ResumeError", reason: "Changed", calls: ["2"] })
      assert.include(error.message, "2")
      assert.deepStrictEqual(ran, ["1"])
      // and nothing is held by that
      const same = [call("1", "serial", hanging), call("2", "serial", { n: 1 })]
      assert.deepStrictEqual(tags(yield* process.resume(same)), ["Unknown", "Succeeded"])
    })
  }, { tags: ["K10"] })

  test("needs a journal, and says so", () =>
    Effect.gen(function*() {
      const process = yield* live(undefined, {})
      const error = yield* Effect.flip(process.resume([]))
      assert.strictEqual(error._tag, "ConfigurationError")
      assert.include(error.message, "a Journal around the executor")
      const other = yield* live(yield* journalOf(), {})
      const wrong = yield* Effect.flip(other.resume([], { onUnknown: "guess" as never }))
      assert.include(wrong.message, "one of tell, ask")
    }))

  for (const broken of ["read", "claim"] as const) {
    test(`of which nothing can be found out (${broken}) is not resumed, and may be later`, () => {
      const { ran, specs } = world()
      const wave = [call("1", "keyed", hanging)]
      return Effect.gen(function*() {
        const journal = yield* journalOf({ entries: yield* crash(wave, { specs }) })
        const error = new Journal.JournalError({ operation: broken, cause: "disk" })
        let fails = 2
        const once = broken === "read"
          // the second one is behind the claim
          ? { read: (query: Journal.Query) => --fails === 0 ? Stream.fail(error) : journal.read(query) }
          : { claim: (...of: Parameters<Service["claim"]>) => --fails > 0 ? Effect.fail(error) : journal.claim(...of) }
        const process = yield* live({ ...journal, ...once }, { specs })
        assert.deepInclude(yield* Effect.flip(process.resume(wave)), { _tag: "ResumeError", reason: "Unavailable" })
        assert.deepStrictEqual(ran, ["1"])
        yield* Effect.sleep(1)
        assert.deepStrictEqual(tags(yield* process.resume(wave)), ["Succeeded"])
        assert.deepStrictEqual(ran, ["1", "1"])
      })
    })
  }

  test("that its caller abandoned continues where it stopped", () => {
    const { ran, specs } = world()
    const wave = [call("1", "serial", { n: 1 }), call("2", "serial", hanging), call("3", "serial", { n: 3 })]
    return Effect.gen(function*() {
      const journal = yield* journalOf()
      const process = yield* live(journal, { specs })
      const fiber = yield* Effect.forkScoped(process.executeWave(wave))
      yield* Effect.sleep("1 second")
      yield* Fiber.interrupt(fiber)
      // what had started has its end: it was cancelled
      assert.deepStrictEqual(tags(yield* process.resume(wave)), ["Succeeded", "Cancelled", "Succeeded"])
      assert.deepStrictEqual(ran, ["1", "2", "3"])
    })
  }, { tags: ["K13"] })

  test("has no call that its process cancelled", () => {
    const { ran, specs } = world()
    const wave = [call("1", "serial", hanging), call("2", "serial", {})]
    return Effect.gen(function*() {
      const journal = yield* journalOf()
      const first = yield* live(journal, { specs })
      const fiber = yield* Effect.forkScoped(first.executeWave(wave))
      yield* Effect.sleep("1 second")
      yield* first.cancel("enough")
      assert.deepStrictEqual(tags(yield* Fiber.join(fiber)), ["Cancelled", "Cancelled"])
      const second = yield* live(journal, { specs })
      assert.deepStrictEqual(tags(yield* second.resume(wave)), ["Cancelled", "Cancelled"])
      assert.deepStrictEqual(ran, ["1"])
    })
  }, { tags: ["K13"] })

  test("knows nothing of the calls of another user, batch or process with a name", () => {
    const { ran, specs } = world()
    const wave = [call("1", "write", { n: 1 })]
    return Effect.gen(function*() {
      const journal = yield* journalOf()
      const { executor } = yield* open(specs, { journal, principal: "ada", dedupe: false })
      const other = yield* open(specs, { journal, principal: "bob", dedupe: false })
      yield* (yield* executor.process({ batch: "b", id: "first" })).executeWave(wave)
      const resumed = [
        executor.process({ batch: "b", id: "second" }),
        executor.process({ batch: "c", id: "first" }),
        other.executor.process({ batch: "b", id: "first" })
      ]
      for (const it of resumed) assert.deepStrictEqual(tags(yield* (yield* it).resume(wave)), ["Succeeded"])
      assert.strictEqual(ran.length, 4)
      const again = yield* executor.process({ batch: "b", id: "first" })
      assert.deepStrictEqual(tags(yield* again.resume(wave)), ["Succeeded"])
      assert.strictEqual(ran.length, 4)
    })
  })

  for (const outputs of ["hashes", "none"] as const) {
    test(`says that an output was not kept where the journal keeps ${outputs}`, () => {
      const { ran, specs } = world()
      const wave = [call("1", "write", { secret: "s3cret" })]
      return Effect.gen(function*() {
        const keeps = { arguments: outputs, outputs }
        const entries = yield* crash(wave, { specs }, keeps)
        assert.notInclude(JSON.stringify(entries), "s3cret")
        const process = yield* live(yield* journalOf({ entries, ...keeps }), { specs })
        const { toolMessages } = yield* process.resume(wave)
        assert.include(toolMessages[0]!.text, "Its output was not kept")
        assert.deepStrictEqual(ran, ["1"])
      })
    }, { tags: ["J10"] })
  }

  test("leaves of a limit what its earlier life left", () => {
    const { ran, specs } = world()
    const rules = [{ _tag: "MaxCalls", tool: "write", max: 2 }] as const
    const wave = [call("1", "write", { n: 1 }), call("2", "write", hanging)]
    return Effect.gen(function*() {
      const entries = yield* crash(wave, { specs, options: { rules } })
      const process = yield* live(yield* journalOf({ entries }), { specs, options: { rules } })
      assert.deepStrictEqual(tags(yield* process.resume(wave)), ["Succeeded", "Unknown"])
      assert.deepStrictEqual(tags(yield* process.executeWave([call("3", "write", { n: 3 })])), ["RuleViolation"])
      assert.deepStrictEqual(ran, ["1", "2"])
    })
  }, { tags: ["K8"] })

  test("ends as suspended where a person has yet to be heard, and goes on when somebody has been", () => {
    const { ran, specs } = world()
    const wave = [call("1", "read", {}), call("2", "write", {})]
    const people = (resolution: Approvals.Resolution): Approvals.Approvals["Service"] => ({
      request: (question) => Effect.succeed({ ...question, id: "q", requestedAt: 0, expiresAt: "unlimited" }),
      submit: () => Effect.delay(Effect.succeed(resolution), "1 second"),
      list: Effect.succeed([]),
      answer: () => Effect.void,
      giveUp: () => Effect.void,
      changes: Stream.empty
    })
    const policy = { default: "allow", ask: ["write"] } as const
    return Effect.gen(function*() {
      const journal = yield* journalOf()
      const suspends = people({ _tag: "Suspended", reason: "the night shift is over" })
      const first = yield* live(journal, { specs, options: { policy, approvals: suspends } })
      const events = yield* Stream.runCollect(first.stream(wave))
      const end = ToolEvent.toWire(events.at(-1)!)
      assert.deepInclude(end, { _tag: "WaveSuspended", calls: ["2"] })
      assert.strictEqual(ToolEvent.sseName(events.at(-1)!), "wave_suspended")
      yield* Schema.decodeUnknownEffect(ToolEvent.Wire)(JSON.parse(JSON.stringify(end)))
      assert.strictEqual(events.filter((it) => it._tag === "ToolCallComplete").length, 2)
      const suspended = yield* first.resume(wave)
      assert.deepInclude(suspended, { suspended: ["2"], needsContinuation: false })

      const approves = people({ _tag: "Approved", grant: undefined, isOwn: true })
      const second = yield* live(journal, { specs, options: { policy, approvals: approves } })
      const resumed = yield* second.resume(wave)
      assert.deepStrictEqual(tags(resumed), ["Succeeded", "Succeeded"])
      assert.notProperty(resumed, "suspended")
      assert.deepStrictEqual(ran, ["1", "2"])
    })
  }, { tags: ["E1"] })

  for (const how of ["its caller is interrupted", "its executor is closed"]) {
    test(`leaves of a limit what it had left when ${how}, where the store outlives that`, () => {
      const { ran, specs } = world()
      const rules = [{ _tag: "MaxCalls", tool: "serial", max: 2 }] as const
      const wave = [call("1", "serial", { n: 1 }), call("2", "read", hanging), call("3", "serial", { n: 3 })]
      return Effect.gen(function*() {
        const journal = yield* journalOf()
        const memory = StateStore.makeMemory()
        const store: StateStore.StateStore["Service"] = {
          ...memory,
          reserve: (requests, now) =>
            Effect.map(
              memory.reserve(requests, now),
              (all) => all.map((it) => "id" in it ? { ...it, leaseMillis: 60_000 } : it)
            )
        }
        const life: Life = { specs, options: { rules, store } }
        const first = yield* Scope.make()
        const turn = yield* Scope.provide(live(journal, life), first)
        const fiber = yield* Effect.forkScoped(turn.executeWave(wave))
        yield* Effect.sleep("1 second")
        if (how === "its caller is interrupted") yield* Fiber.interrupt(fiber)
        yield* Scope.close(first, Exit.void)
        // the wave ends once it has had its turn
        yield* Effect.sleep(1)
        const process = yield* live(journal, life)
        assert.deepStrictEqual(tags(yield* process.resume(wave)), ["Succeeded", "Cancelled", "Succeeded"])
        assert.deepStrictEqual(tags(yield* process.executeWave([call("4", "serial", { n: 4 })])), ["RuleViolation"])
        assert.deepStrictEqual(ran, ["1", "2", "3"])
      })
    })
  }

  test("takes nothing of its limits from a live process where it is refused, and the store outlives that", () => {
    const { specs } = world()
    const rules = [{ _tag: "MaxCalls", tool: "serial", max: 2 }] as const
    const wave = [call("1", "serial", { n: 1 }), call("2", "serial", hanging)]
    return Effect.gen(function*() {
      const journal = yield* journalOf()
      const memory = StateStore.makeMemory()
      const store: StateStore.StateStore["Service"] = {
        ...memory,
        reserve: (requests, now) =>
          Effect.map(
            memory.reserve(requests, now),
            (all) => all.map((it) => "id" in it ? { ...it, leaseMillis: 60_000 } : it)
          )
      }
      const life: Life = { specs, options: { rules, store } }
      const alive = yield* live(journal, life)
      yield* Effect.forkScoped(alive.executeWave(wave))
      yield* Effect.sleep("1 second")
      const refused = yield* Effect.scoped(
        Effect.flatMap(live(journal, life), (process) => Effect.flip(process.resume(wave)))
      )
      assert.strictEqual("reason" in refused && refused.reason, "Running")
      const other = yield* live(journal, life)
      assert.deepStrictEqual(tags(yield* other.executeWave([call("3", "serial", { n: 3 })])), ["RuleViolation"])
    })
  }, { tags: ["K9"] })

  test("that is let go while it is resumed has lost nothing", () => {
    const { ran, specs } = world()
    const wave = [call("1", "write", hanging), call("2", "serial", hanging), call("3", "keyed", {})]
    return Effect.gen(function*() {
      const entries = yield* crash(wave, { specs })
      assert.deepStrictEqual(ran, ["1"])
      const journal = yield* journalOf({ entries })
      const first = yield* live(journal, { specs })
      const fiber = yield* Effect.forkScoped(first.resume(wave))
      yield* Effect.sleep("1 second")
      yield* Fiber.interrupt(fiber)
      const second = yield* live(journal, { specs })
      assert.deepStrictEqual(tags(yield* second.resume(wave)), ["Unknown", "Cancelled", "Succeeded"])
      assert.deepStrictEqual(ran, ["1", "2", "3"])
    })
  }, { tags: ["K13"] })

  for (const slow of ["claim", "read"] as const) {
    test(`whose executor closes before its record is read (${slow}) is suspended and keeps its outcomes`, () => {
      const { ran, specs } = world()
      const wave = [call("1", "serial", { n: 1 }), call("2", "read", {}), call("3", "serial", hanging)]
      return Effect.gen(function*() {
        const journal = yield* journalOf({ entries: yield* crash(wave, { specs }) })
        const late: Service = slow === "claim"
          ? { ...journal, claim: (...of) => Effect.delay(journal.claim(...of), "2 seconds") }
          : {
            ...journal,
            read: (query) => Stream.unwrap(Effect.delay(Effect.succeed(journal.read(query)), "2 seconds"))
          }
        const scope = yield* Scope.make()
        const { executor } = yield* Scope.provide(open(specs, { journal: late }), scope)
        const process = yield* executor.process({ batch: "b" })
        const fiber = yield* Effect.forkScoped(process.resume(wave))
        yield* Effect.sleep("1 second")
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual((yield* Fiber.join(fiber)).suspended, ["1", "2", "3"])
        yield* Effect.sleep("1 minute")
        const last = yield* live(journal, { specs })
        assert.deepStrictEqual(tags(yield* last.resume(wave)), ["Succeeded", "Succeeded", "Unknown"])
        assert.deepStrictEqual(ran, ["1", "2", "3"])
      })
    })
  }

  test("does not run a call that was cancelled before its turn, though its executor closed before it, too", () => {
    const { ran, specs } = world()
    const wave = [call("1", "serial", hanging), call("2", "serial", {}), call("3", "serial", {})]
    return Effect.gen(function*() {
      const journal = yield* journalOf()
      const scope = yield* Scope.make()
      const { executor } = yield* Scope.provide(open(specs, { journal }), scope)
      const process = yield* executor.process({ batch: "b" })
      const fiber = yield* Effect.forkScoped(process.executeWave(wave))
      yield* Effect.sleep("1 second")
      yield* process.cancelCall("2", "not this one")
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual((yield* Fiber.join(fiber)).suspended, ["3"])
      yield* Effect.sleep("1 minute")
      const last = yield* live(journal, { specs })
      const { outcomes } = yield* last.resume(wave)
      assert.deepInclude(outcomes[1], { _tag: "Cancelled", started: false, reason: "not this one" })
      assert.deepStrictEqual(ran, ["1", "3"])
    })
  })

  test("does not run a call that was cancelled while it was being taken over, though its executor closed, too", () => {
    const { ran, specs } = world()
    const wave = [call("1", "keyed", hanging), call("2", "serial", hanging), call("3", "serial", {})]
    return Effect.gen(function*() {
      const journal = yield* journalOf({ entries: yield* crash(wave, { specs }) })
      const claim: Service["claim"] = (...keys) => Effect.delay(journal.claim(...keys), "1 second")
      const scope = yield* Scope.make()
      const process = yield* Scope.provide(live({ ...journal, claim }, { specs }), scope)
      const fiber = yield* Effect.forkScoped(process.resume(wave))
      yield* Effect.sleep("500 millis")
      yield* process.cancelCall("3", "not this one")
      yield* Effect.sleep("1 second")
      yield* Scope.close(scope, Exit.void)
      yield* Fiber.await(fiber)
      yield* Effect.sleep("1 minute")
      const last = yield* live(journal, { specs })
      const { outcomes } = yield* last.resume(wave)
      assert.deepInclude(outcomes[2], { _tag: "Cancelled", started: false, reason: "not this one" })
      assert.deepStrictEqual(ran, ["1", "1", "2"])
    })
  })

  test("has one end for a call that is in doubt when its turn comes", () => {
    const { specs } = world()
    const wave = [call("1", "serial", hanging), call("2", "serial", {})]
    return Effect.gen(function*() {
      const journal = yield* journalOf()
      const term: Journal.Term = { isHeld: false, isOver: false, renew: Effect.never, onOver: () => () => {} }
      const scope = yield* Scope.make()
      const { executor } = yield* Scope.provide(open(specs, { journal: { ...journal, term: () => term } }), scope)
      const process = yield* executor.process({ batch: "b" })
      const fiber = yield* Effect.forkScoped(process.executeWave(wave))
      yield* Effect.sleep("1 second")
      yield* process.cancelCall("1", "enough")
      yield* Effect.sleep("1 second")
      yield* process.cancelCall("2", "enough")
      assert.deepStrictEqual(tags(yield* Fiber.join(fiber)), ["Unknown", "Unknown"])
      yield* Effect.sleep("1 minute")
      const settled = (yield* entriesOf(journal)).filter(({ _tag }) => _tag === "Settled")
      assert.lengthOf(settled, 2)
    })
  })

  test("asks under the old id where nobody heard that the request had been stored", () => {
    const { specs } = world()
    const one = call("1", "write", {})
    const options: Options = { policy: { default: "ask" } }
    const people = Effect.map(
      Layer.build(Layer.fresh(Approvals.layer({ timeout: "1 minute" }))),
      (it) => Context.get(it, Approvals.Approvals)
    )
    return Effect.gen(function*() {
      const entries = yield* crash([one], { specs, options: { ...options, approvals: yield* people } })
      const asked = entries.find((it) => it._tag === "Asked")!
      const { evidence: _, expiresAt: _e, preview: _p, shown: _s, why: _w, ...about } = asked
      const answered = { ...about, _tag: "Answered", answer: "noApprover", by: "noApprover" } as const
      const approvals = yield* people
      const journal = yield* journalOf({ entries: [...entries, answered] })
      const process = yield* live(journal, { specs, options: { ...options, approvals } })
      yield* Effect.forkScoped(process.resume([one]))
      yield* Effect.sleep("1 second")
      assert.deepStrictEqual((yield* approvals.list).map(({ id }) => id), [asked.requestId])
    })
  })

  test("takes nothing from whoever is alive and has other calls", () => {
    const { ran, specs } = world()
    return Effect.gen(function*() {
      const store = Context.get(
        yield* Effect.orDie(Layer.build(Layer.fresh(StateStore.layerMemory()))),
        StateStore.StateStore
      )
      const journal = yield* journalOf()
      const approvals = Context.get(yield* Layer.build(Approvals.layer({ timeout: "1 minute" })), Approvals.Approvals)
      const rules = [{ _tag: "MaxCalls", tool: "write", max: 1 }] as const
      const options: Options = { store, rules, approvals, policy: { default: "allow", ask: ["write"] } }
      const first = yield* live(journal, { specs, options })
      const settled = [call("1", "serial", {})]
      yield* first.executeWave(settled)
      const suspended = [call("2", "write", { n: 2 })]
      yield* Fiber.interrupt(yield* Effect.forkScoped(Effect.delay(first.executeWave(suspended), 1)))
      const running = yield* Effect.forkScoped(first.executeWave([call("3", "write", { n: 3 })]))
      yield* Effect.sleep("1 second")
      // its user has come to another process
      const second = yield* live(journal, { specs, options: { store, rules } })
      assert.deepStrictEqual(tags(yield* second.resume(settled)), ["Succeeded"])
      assert.deepStrictEqual(tags(yield* second.resume(suspended)), ["RuleViolation"])
      const [request] = yield* approvals.list
      yield* approvals.answer(request!.id, { _tag: "ApproveOnce" })
      assert.deepStrictEqual(tags(yield* Fiber.join(running)), ["Succeeded"])
      assert.deepStrictEqual(ran, ["1", "3"])
    })
  })

  test("runs what was about to start when nobody waited for it any more", () => {
    const { ran, specs } = world()
    const wave = [call("1", "write", {})]
    return Effect.gen(function*() {
      const journal = yield* journalOf()
      const slow: Service = { ...journal, append: (...it) => Effect.delay(journal.append(...it), "1 second") }
      const fiber = yield* Effect.forkScoped((yield* live(slow, { specs })).executeWave(wave))
      yield* Effect.sleep("500 millis")
      yield* Fiber.interrupt(fiber)
      yield* Effect.sleep("5 seconds")
      const entries = yield* entriesOf(journal)
      assert.deepStrictEqual(entries.map((it) => it._tag), ["Arrived", "Started", "Suspended"])
      assert.deepStrictEqual(tags(yield* (yield* live(journal, { specs })).resume(wave)), ["Succeeded"])
      assert.deepStrictEqual(ran, ["1"])
    })
  })

  test("may have started before it was about to start once more, and nobody knows then", () => {
    const { ran, specs } = world()
    const wave = [call("1", "serial", hanging)]
    return Effect.gen(function*() {
      const journal = yield* journalOf({ entries: yield* crash(wave, { specs }) })
      const error = new Journal.JournalError({ operation: "read", cause: "disk" })
      let reads = 0
      const read: Service["read"] = (query) => ++reads === 2 ? Stream.fail(error) : journal.read(query)
      const second = yield* live({ ...journal, read }, { specs })
      yield* Effect.flip(second.resume(wave))
      yield* Effect.sleep(1)
      assert.strictEqual((yield* entriesOf(journal)).at(-1)!._tag, "Suspended")
      assert.deepStrictEqual(tags(yield* second.resume(wave)), ["Unknown"])
      assert.deepStrictEqual(ran, ["1"])
    })
  })

  test("knows the calls of one id apart, whichever of them are handed over again", () => {
    const { ran, specs } = world()
    const wave = [call("1", "write", { n: 1 }), call("1", "write", { n: 2 }), call("1", "write", { n: 2 })]
    return Effect.gen(function*() {
      const journal = yield* journalOf()
      const options: Options = { dedupe: false }
      yield* (yield* live(journal, { specs, options })).executeWave(wave)
      const second = yield* live(journal, { specs, options })
      for (let from = 0; from < wave.length; from++) yield* second.resume(wave.slice(from))
      assert.deepStrictEqual(ran, ["1", "1", "1"])
    })
  })

  test("that was taken over too late is free again", () => {
    const { ran, specs } = world()
    const wave = [call("1", "keyed", hanging)]
    return Effect.gen(function*() {
      const journal = yield* journalOf({ entries: yield* crash(wave, { specs }) })
      let wait = 6
      const claim: Service["claim"] = (...of) =>
        Effect.uninterruptible(Effect.delay(journal.claim(...of), `${wait} seconds`))
      const process = yield* live({ ...journal, claim }, { specs })
      assert.deepInclude(yield* Effect.flip(process.resume(wave)), { reason: "Unavailable" })
      yield* Effect.sleep("2 seconds")
      wait = 0
      assert.deepStrictEqual(tags(yield* process.resume(wave)), ["Succeeded"])
      assert.deepStrictEqual(ran, ["1", "1"])
    })
  })

  test("that its tool knows to have happened, when it was tried again, started no more often than that", () => {
    let runs = 0
    const handler = () => Effect.suspend(() => ++runs === 1 ? Effect.fail("no") : Effect.never)
    const retried = (tool: Tool.Any) =>
      tool.annotate(Tool.Idempotent, true).annotate(ToolAnnotations.Retry, Schedule.recurs(3))
    const wave = [call("1", "pay", {})]
    return Effect.gen(function*() {
      const entries = yield* crash(wave, { specs: { pay: { class: "ConcurrentMut", handler, annotate: retried } } })
      const journal = yield* journalOf({ entries })
      const pay = reconciling(handler, () => Effect.succeed({ _tag: "Happened", result: 7 }))
      const { outcomes } = yield* (yield* live(journal, { specs: { pay } })).resume(wave)
      assert.deepInclude(outcomes[0], { _tag: "Succeeded", attempt: 2 })
      const all = yield* entriesOf(journal)
      assert.deepStrictEqual(all.flatMap((it) => it._tag === "Started" ? [it.attempt] : []), [1, 2])
    })
  })

  test("may have had no limit, as far as what is on record can be read", () => {
    const { ran, specs } = world()
    const options: Options = { executionTimeout: Infinity }
    const wave = [call("1", "write", hanging)]
    return Effect.gen(function*() {
      const entries = (yield* crash(wave, { specs, options })).map((it) =>
        Result.getOrThrow(JournalText.decode(JournalText.encode(it)))
      )
      const process = yield* live(yield* journalOf({ entries }), { specs, options })
      assert.deepStrictEqual(tags(yield* process.resume(wave)), ["Unknown"])
      assert.deepStrictEqual(ran, ["1"])
    })
  })

  for (const [how, params] of Object.entries({ others: { n: 2 }, "the same": hanging })) {
    test(`has another key where a person gives it other arguments, and its own otherwise: ${how}`, () => {
      const { keys, specs } = world()
      const wave = [call("1", "keyed", hanging)]
      return Effect.gen(function*() {
        const entries = yield* crash(wave, { specs })
        const approvals = Context.get(yield* Layer.build(Approvals.layer({ timeout: "1 minute" })), Approvals.Approvals)
        const options: Options = { approvals, policy: { default: "ask" } }
        const process = yield* live(yield* journalOf({ entries }), { specs, options })
        const resumed = yield* Effect.forkScoped(process.resume(wave))
        yield* Effect.sleep("1 second")
        const [request] = yield* approvals.list
        yield* approvals.answer(request!.id, { _tag: "ApproveOnce", params })
        assert.deepStrictEqual(tags(yield* Fiber.join(resumed)), ["Succeeded"])
        assert.strictEqual(keys[0] === keys[1], how === "the same")
      })
    })
  }

  test("asks one question under the old id, and what comes later under another", () => {
    const change = Effect.succeed([{ path: "a", before: "one", after: "two" }])
    const specs: Record<string, ToolSpec> = {
      edit: {
        class: "ConcurrentMut",
        handler: () =>
          Effect.flatMap(
            ToolContext.ToolContext,
            (it) => Effect.andThen(Effect.sleep("2 minutes"), it.confirmWrite(change))
          )
      }
    }
    const one = call("1", "edit", {})
    const people = Effect.map(
      Layer.build(Layer.fresh(Approvals.layer({ timeout: "90 seconds" }))),
      (it) => Context.get(it, Approvals.Approvals)
    )
    return Effect.gen(function*() {
      const options: Options = { policy: { default: "ask" }, executionTimeout: "10 minutes" }
      const entries = yield* crash([one], { specs, options: { ...options, approvals: yield* people } })
      const approvals = yield* people
      const process = yield* live(yield* journalOf({ entries }), { specs, options: { ...options, approvals } })
      const wave = yield* Effect.forkScoped(process.resume([one]))
      yield* Effect.sleep("1 second")
      const [first] = yield* approvals.list
      yield* approvals.answer(first!.id, { _tag: "ApproveOnce" })
      yield* Effect.sleep("3 minutes")
      const [second] = yield* approvals.list
      assert.notStrictEqual(second!.id, first!.id)
      yield* approvals.answer(second!.id, { _tag: "ApproveOnce" })
      assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
    })
  })

  test("is known again where its tool takes other arguments by now, or is gone", () => {
    const { ran, specs } = world()
    const wave = [call("1", "write", { n: 1 }), call("2", "serial", hanging)]
    const prefilled = (value: string) =>
      [{ _tag: "ChildTools", tool: "read", children: ["write"], prefilled: { write: { region: value } } }] as const
    return Effect.gen(function*() {
      const entries = yield* crash(wave, { specs, options: { rules: prefilled("here") } })
      const journal = yield* journalOf({ entries })
      const { read, write } = specs
      const second = yield* live(journal, {
        specs: { read: read!, write: write! },
        options: { rules: prefilled("there") }
      })
      assert.deepStrictEqual(tags(yield* second.resume(wave)), ["Succeeded", "Unknown"])
      assert.deepStrictEqual(ran, ["1", "2"])
    })
  })
})
