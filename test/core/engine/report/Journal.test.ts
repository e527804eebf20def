/** What may change things is on record before it starts. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Journal from "../../../../src/core/store/Journal.ts"
import { Approvals, Checkpoints, Gate, ToolAnnotations, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, calls, type Env, open, type Options, run, tags, type ToolSpec } from "../../../support/Harness.ts"

const { isOfCall } = Journal

type Append = Journal.Journal["Service"]["append"]
type Started = Journal.Of<"Started">
type Writes = ReadonlyArray<ReadonlyArray<Started>>

/** A journal of one's own, whose entries are not read. */
const journalOf = (append: Append): Journal.Journal["Service"] => ({ ...Journal.noop, append })

/** A journal that keeps the starts that it is given and that are waited for, in the pieces in which they come. */
const kept = (write: Append = () => Effect.void) => {
  const writes: Array<ReadonlyArray<Started>> = []
  const journal = journalOf((lines, options) => {
    const started = lines.flatMap(({ entry }) => entry._tag === "Started" && entry.mutates ? [entry] : [])
    if (started.length > 0) writes.push(started)
    return write(lines, options)
  })
  return { journal, writes }
}

/** As much of it as waits for something to be on record. */
const durable = (append: Append): Append => (lines, options) => options.durable ? append(lines, options) : Effect.void

/** A test with a journal in memory, and what is in it. */
const recorded = <A, E>(
  specs: Record<string, ToolSpec>,
  options: Options,
  use: (opened: Env, entries: Effect.Effect<ReadonlyArray<Journal.JournalEntry>>) => Effect.Effect<A, E, Scope.Scope>
) =>
  Effect.flatMap(Effect.orDie(Effect.scoped(Layer.build(Journal.layerMemory()))), (context) => {
    const journal = Context.get(context, Journal.Journal)
    const entries = Effect.orDie(Effect.map(
      // what was noted is written together with what comes in the same moment
      Effect.andThen(Effect.sleep(1), Stream.runCollect(journal.read({}))),
      (all) => all.map(({ entry }) => entry)
    ))
    return run(specs, { ...options, journal }, (opened) => use(opened, entries))
  })

const idsOf = (writes: Writes) => writes.map((entries) => entries.map((it) => it.callId))

/** Tools that may change things, and what has run by now. */
const tools = () => {
  const ran: Array<string> = []
  const handler = () =>
    Effect.flatMap(ToolContext.ToolContext, ({ callId }) => Effect.sync(() => void ran.push(String(callId))))
  const specs: Record<string, ToolSpec> = {
    w: { class: "ConcurrentMut", handler },
    serial: { class: "SerialMut", handler },
    read: { class: "ReadOnly", handler }
  }
  return { ran, specs }
}

const slowly = kept.bind(undefined, durable(() => Effect.sleep("3 seconds")))

describe("the journal", () => {
  it.effect("has nothing of what a defect says", () =>
    recorded(
      { broken: { handler: () => Effect.die(new Error("hunter2 is in here")) } },
      {},
      ({ process }, entries) =>
        Effect.gen(function*() {
          const { outcomes: [outcome] } = yield* process.executeWave(calls("broken"))
          assert.deepInclude(outcome, { _tag: "Failed", origin: "defect" })
          assert.notInclude(JSON.stringify(yield* entries), "hunter2")
        })
    ), { tags: ["O3"] })

  it.effect("has a call that may change things before its handler starts, and no read", () => {
    const { ran, specs } = tools()
    const { journal, writes } = kept(() => Effect.sync(() => assert.deepStrictEqual(ran, ["1"])))
    return run(specs, { journal }, ({ process }) =>
      Effect.gen(function*() {
        yield* process.executeWave([call("1", "read", {})])
        const wave = yield* process.executeWave([call("2", "w", {})])
        assert.deepStrictEqual(tags(wave), ["Succeeded"])
        assert.deepStrictEqual(ran, ["1", "2"])
        assert.deepStrictEqual(idsOf(writes), [["2"]])
      }))
  }, { tags: ["J1"] })

  it.effect("knows the call again by all that a record needs", () => {
    const keys: Array<string | undefined> = []
    const handler = () => Effect.map(ToolContext.ToolContext, ({ idempotencyKey }) => void keys.push(idempotencyKey))
    return recorded(
      { w: { class: "SerialMut", handler } },
      { principal: "ada", dedupe: false },
      ({ batch, executor, process }, entries) =>
        Effect.gen(function*() {
          yield* process.executeWave([call("1", "w", { b: 1, a: [2] }), call("1", "w", { a: [2], b: 1 })])
          const [first, second] = (yield* entries).filter((it) => it._tag === "Arrived")
          assert.deepInclude(first, {
            at: 0,
            principal: "ada",
            agentPath: [],
            batch: batch.id,
            process: process.id,
            wave: 1,
            index: 0,
            callId: "1",
            tool: "w",
            class: "SerialMut",
            args: { _tag: "Full", value: { b: 1, a: [2] } }
          })
          assert.strictEqual(second!.index, 1)
          assert.strictEqual(first!.revision, second!.revision)
          // two calls of one id are two, in their order
          assert.notStrictEqual(first!.key, second!.key)
          const started = (yield* entries).filter((it) => it._tag === "Started")
          assert.deepStrictEqual(started.map((it) => it.idempotencyKey), keys)
          assert.notStrictEqual(keys[0], keys[1])
          for (const entry of yield* entries) {
            yield* Schema.decodeUnknownEffect(Journal.JournalEntry)(JSON.parse(JSON.stringify(entry)))
          }

          // the order of keys in the arguments is no difference, other arguments, another agent or tool are
          yield* process.executeWave([call("1", "w", { a: [2], b: 1 })])
          yield* process.executeWave([call("1", "w", { a: [2], b: 2 })])
          const child = yield* (yield* executor.fork({ name: "child" })).process()
          yield* child.executeWave([call("1", "w", { b: 1, a: [2] })])
          const [, , same, other, childs] = (yield* entries).filter((it) => it._tag === "Arrived")
          assert.strictEqual(same!.key, first!.key)
          assert.deepStrictEqual(childs!.agentPath, ["child"])
          assert.strictEqual(new Set([first!.key, other!.key, childs!.key]).size, 3)
        })
    )
  })

  it.effect("is given calls that start together in one piece", () => {
    const { specs } = tools()
    const { journal, writes } = kept()
    return run(specs, { journal, pools: { concurrent: 3 } }, ({ process }) =>
      Effect.gen(function*() {
        yield* process.executeWave(calls("w", "w", "w", "w", "serial", "serial"))
        assert.deepStrictEqual(idsOf(writes), [["1", "2", "3"], ["4"], ["5"], ["6"]])
      }))
  })

  it.effect("is waited for outside the call's own limit", () => {
    const { specs } = tools()
    return run(specs, { ...slowly(), executionTimeout: 100 }, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeWave(calls("w"))
        assert.deepStrictEqual(tags(wave), ["Succeeded"])
        assert.strictEqual(wave.outcomes[0]!.startedAt, 3_000)
      }))
  })

  const refusals: Record<string, Options> = {
    "by the policy": { policy: { default: "allow", deny: ["w"] } },
    "by a rule": { rules: [{ _tag: "RequiresPrecedingTools", tool: "w", tools: ["read"] }] },
    "by a person": { policy: { default: "ask" } },
    "by a guard": { guards: [{ name: "g", check: () => Effect.fail("no") }] },
    "at the last moment": { swap: Gate.layer({ name: "late", recheck: () => Effect.fail("no") }) }
  }
  for (const [how, options] of Object.entries(refusals)) {
    it.effect(`has no call that was refused ${how}`, () => {
      const { ran, specs } = tools()
      const { journal, writes } = kept()
      return run(specs, { ...options, journal }, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("w"))
          assert.strictEqual(wave.outcomes[0]!._tag, "Denied")
          assert.deepStrictEqual([ran, writes], [[], []])
        }))
    })
  }

  const failures: Record<string, readonly [at: number, Append]> = {
    "fails": [0, () => Effect.fail(new Journal.JournalError({ operation: "append", cause: "disk full" }))],
    "fails later": [
      10,
      () => Effect.delay(Effect.fail(new Journal.JournalError({ operation: "append", cause: "disk full" })), 10)
    ],
    "dies": [0, () => Effect.die("broken")],
    "throws": [0, () => {
      throw new Error("broken")
    }],
    "gives no effect": [0, () => undefined as never],
    "does not answer in time": [5_000, () => Effect.never]
  }
  for (const [how, [at, append]] of Object.entries(failures)) {
    it.effect(`refuses a call where it ${how}, and gives back what the call had reserved`, () => {
      const { ran, specs } = tools()
      let isBroken = true
      const journal = journalOf((lines, options) => isBroken ? append(lines, options) : Effect.void)
      const rules = [{ _tag: "MaxCalls", tool: "w", max: 1 }] as const
      return run(specs, { journal, rules }, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave([call("1", "w", {}), call("2", "read", {})])
          assert.deepStrictEqual(tags(wave), ["StoreUnavailable", "Succeeded"])
          assert.deepInclude(wave.outcomes[0], { reason: { _tag: "StoreUnavailable", operation: "journal" } })
          assert.include(wave.toolMessages[0]!.text, "was not run")
          assert.strictEqual(yield* VirtualTime.now, at)
          assert.deepStrictEqual(ran, ["2"])
          isBroken = false
          // what hangs does so to its end
          yield* Effect.sleep("1 minute")
          assert.deepStrictEqual(tags(yield* process.executeWave([call("3", "w", {})])), ["Succeeded"])
        }))
    }, { tags: ["J1"] })
  }

  it.effect("holds a call no longer than its turn lasts", () => {
    const { ran, specs } = tools()
    return run(
      specs,
      { journal: journalOf(() => Effect.never), turn: { timeout: "1 second" } },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("w"))), ["DeadlineExceeded"])
          assert.strictEqual(yield* VirtualTime.now, 1_000)
          assert.deepStrictEqual(ran, [])
        })
    )
  })

  it.effect("starts no call that is cancelled while it is written, and its siblings go on", () => {
    const { ran, specs } = tools()
    const { journal, writes } = slowly()
    return run(specs, { journal }, ({ process }) =>
      Effect.gen(function*() {
        yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 1_000))
        const wave = yield* process.executeWave(calls("w", "w"))
        assert.deepStrictEqual(tags(wave), ["Cancelled", "Succeeded"])
        assert.deepInclude(wave.outcomes[0], { started: false })
        assert.deepStrictEqual(ran, ["2"])
        assert.deepStrictEqual(idsOf(writes), [["1", "2"]])
      }))
  }, { tags: ["J1"] })

  it.effect("holds nobody who is interrupted while it is written", () => {
    const { ran, specs } = tools()
    return run(specs, { journal: journalOf(() => Effect.never) }, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* Effect.forkChild(process.executeWave(calls("w")), { startImmediately: true })
        yield* Effect.sleep(10)
        yield* Fiber.interrupt(wave)
        assert.strictEqual(yield* VirtualTime.now, 10)
        yield* Effect.sleep("1 minute")
        assert.deepStrictEqual(ran, [])
      }))
  })

  it.effect("lets no call go that is refused by what has changed meanwhile", () => {
    const { ran, specs } = tools()
    const rules = [{ _tag: "RequiresFollowingTools", tool: "w", tools: ["read"] }] as const
    return run(specs, { ...slowly(), rules }, ({ process }) =>
      Effect.gen(function*() {
        const waiting = yield* Effect.forkChild(process.executeWave(calls("w")), { startImmediately: true })
        yield* Effect.sleep(1_000)
        yield* process.executeWave([call("2", "read", {})])
        assert.deepStrictEqual(tags(yield* Fiber.join(waiting)), ["RuleViolation"])
        assert.deepStrictEqual(ran, ["2"])
      }))
  })

  it.effect("that refuses a call leaves no word that it cannot be undone", () => {
    const { specs } = tools()
    const journal = journalOf(() => Effect.fail(new Journal.JournalError({ operation: "append", cause: "" })))
    return Effect.gen(function*() {
      const context = yield* Layer.build(Checkpoints.layerMemory())
      const checkpoints = Context.get(context, Checkpoints.Checkpoints)
      const { process } = yield* open(specs, { checkpoints, journal, principal: "ada" })
      assert.deepStrictEqual(tags(yield* process.executeWave(calls("w"))), ["StoreUnavailable"])
      assert.deepStrictEqual(yield* checkpoints.list("ada"), [])
    }).pipe(Effect.scoped, (it) => VirtualTime.run(it, { limit: "1 day" }))
  })

  it.effect("has what was noted while it could not be written once it can be, in order", () => {
    const { specs } = tools()
    const entries: Array<Journal.JournalEntry> = []
    let isBroken = false
    const error = new Journal.JournalError({ operation: "append", cause: "disk full" })
    const journal = journalOf((lines) =>
      isBroken ? Effect.fail(error) : Effect.sync(() => void entries.push(...lines.map((it) => it.entry)))
    )
    return run(specs, { journal }, ({ process }) =>
      Effect.gen(function*() {
        yield* process.executeWave([call("1", "w", {})])
        isBroken = true
        assert.deepStrictEqual(tags(yield* process.executeWave([call("2", "w", { n: 2 })])), ["StoreUnavailable"])
        assert.deepStrictEqual(tags(yield* process.executeWave([call("3", "read", {})])), ["Succeeded"])
        yield* Effect.sleep("1 minute")
        isBroken = false
        // nobody has to come along for that
        yield* Effect.sleep("1 second")
        const seen = entries.map((it) => isOfCall(it) ? `${it.callId} ${it._tag}` : it._tag)
        assert.deepStrictEqual(seen, [
          "1 Arrived",
          "1 Started",
          "1 Settled",
          // no start of a call that was not let go
          "2 Arrived",
          "2 Decided",
          "2 Settled",
          "3 Arrived",
          "3 Started",
          "3 Settled"
        ])
      }))
  }, { tags: ["J1"] })

  it.effect("says how many entries were lost where there were too many to keep", () => {
    const { specs } = tools()
    const entries: Array<Journal.JournalEntry> = []
    let isBroken = true
    const error = new Journal.JournalError({ operation: "append", cause: "disk full" })
    const journal = journalOf((lines) =>
      isBroken ? Effect.fail(error) : Effect.sync(() => void entries.push(...lines.map((it) => it.entry)))
    )
    return run(specs, { journal, dedupe: false }, ({ process }) =>
      Effect.gen(function*() {
        // three entries each
        for (let wave = 0; wave < 4; wave++) {
          yield* process.executeWave(Array.from({ length: 1_000 }, (_, index) => call(`${wave}.${index}`, "read", {})))
          yield* Effect.sleep(1)
        }
        isBroken = false
        yield* Effect.sleep("1 second")
        assert.deepInclude(entries[0], { _tag: "Gap", lost: 2_000 })
        assert.strictEqual(entries.length, 10_001)
      }))
  })

  it.effect("is told of everything before its executor is over", () => {
    const { specs } = tools()
    const entries: Array<Journal.JournalEntry> = []
    const journal = journalOf((lines) =>
      Effect.andThen(Effect.sleep("1 second"), Effect.sync(() => void entries.push(...lines.map((it) => it.entry))))
    )
    return Effect.gen(function*() {
      yield* Effect.scoped(
        Effect.flatMap(open(specs, { journal }), ({ process }) => process.executeWave([call("1", "read", {})]))
      )
      assert.deepStrictEqual(entries.map((it) => it._tag), ["Arrived", "Started", "Settled"])
    }).pipe((it) => VirtualTime.run(it, { limit: "1 day" }))
  })

  it.effect("has the end of every call before its wave is over, where another process may go on", () => {
    const { specs } = tools()
    const tagsOf: Array<string> = []
    const journal = journalOf((lines) =>
      Effect.andThen(Effect.sleep("1 second"), Effect.sync(() => void tagsOf.push(...lines.map((it) => it.entry._tag))))
    )
    return run(specs, { journal }, ({ executor, process }) =>
      Effect.gen(function*() {
        yield* process.executeWave([call("1", "read", {})])
        assert.deepStrictEqual(tagsOf, [])
        const named = yield* executor.process({ id: "turn" })
        yield* named.executeWave([call("2", "read", {})])
        assert.deepStrictEqual(tagsOf.slice(-3), ["Arrived", "Started", "Settled"])
      }))
  }, { tags: ["K4"] })

  it.effect("that cannot be written when its executor is over is tried again, for a while", () => {
    const { specs } = tools()
    const entries: Array<Journal.JournalEntry> = []
    const error = new Journal.JournalError({ operation: "append", cause: "locked" })
    let millis = 0
    const journal = journalOf((lines) =>
      Effect.flatMap(
        VirtualTime.now,
        (now) =>
          now < millis ? Effect.fail(error) : Effect.sync(() => void entries.push(...lines.map((it) => it.entry)))
      )
    )
    const life = Effect.scoped(
      Effect.flatMap(open(specs, { journal }), ({ process }) =>
        Effect.andThen(
          process.executeWave([call("1", "read", {})]),
          Effect.sync(() => millis += 3_500)
        ))
    )
    return Effect.gen(function*() {
      yield* life
      assert.deepStrictEqual(entries.map((it) => it._tag), ["Arrived", "Started", "Settled"])
      assert.strictEqual(yield* VirtualTime.now, 4_000)
      // nobody is held by one that never can be
      millis = Infinity
      yield* life
      assert.strictEqual(yield* VirtualTime.now, 14_000)
    }).pipe((it) => VirtualTime.run(it, { limit: "1 day" }))
  })

  for (const approval of ["perCall", "upfront"] as const) {
    it.effect(`has a question before anybody sees it (${approval})`, () =>
      Effect.gen(function*() {
        const approvals = Context.get(yield* Layer.build(Approvals.layer({ timeout: "1 minute" })), Approvals.Approvals)
        const written: Array<Journal.Tag> = []
        const journal = journalOf((lines, { durable: mustLast }) =>
          Effect.delay(
            Effect.sync(() => void written.push(...lines.map(({ entry }) => entry._tag))),
            mustLast ? "3 seconds" : 0
          )
        )
        yield* run(tools().specs, { approvals, approval, journal, policy: { default: "ask" } }, ({ process }) =>
          Effect.gen(function*() {
            const seen: Array<string> = []
            yield* Effect.forkScoped(Stream.runForEach(process.events, ({ _tag }) =>
              Effect.sync(() =>
                void seen.push(_tag)
              )))
            const running = yield* Effect.forkScoped(process.executeWave(calls("w", "read")))
            yield* Effect.sleep("2 seconds")
            assert.lengthOf(yield* approvals.list, 0)
            assert.notInclude(seen, "ToolApprovalRequested")
            yield* Effect.sleep("2 seconds")
            assert.include(written, "Asked")
            assert.include(seen, "ToolApprovalRequested")
            for (let round = 0; round < 4; round++) {
              for (const { id } of yield* approvals.list) {
                yield* approvals.answer(id, { _tag: "ApproveOnce" })
              }
              yield* Effect.sleep("5 seconds")
            }
            assert.deepStrictEqual(tags(yield* Fiber.join(running)), ["Succeeded", "Succeeded"])
          }))
      }), { tags: ["J2"] })

    it.effect(
      `that cannot be written requests no approval for a call that may change things (${approval})`,
      () =>
        Effect.gen(function*() {
          const approvals = Context.get(
            yield* Layer.build(Approvals.layer({ timeout: "1 minute" })),
            Approvals.Approvals
          )
          const journal = journalOf(() => Effect.fail(new Journal.JournalError({ operation: "append", cause: "full" })))
          yield* run(
            tools().specs,
            { approvals, approval, journal, policy: { default: "ask" } },
            ({ process }) =>
              Effect.gen(function*() {
                const running = yield* Effect.forkScoped(process.executeWave(calls("w", "read")))
                yield* Effect.sleep("1 second")
                const waiting = yield* approvals.list
                assert.deepStrictEqual(waiting.map((it) => it.tool), ["read"])
                for (const { id } of waiting) yield* approvals.answer(id, { _tag: "ApproveOnce" })
                const { outcomes } = yield* Fiber.join(running)
                assert.deepStrictEqual(outcomes.map((it) => it._tag), ["Denied", "Succeeded"])
                assert.deepInclude(outcomes[0], { reason: { _tag: "StoreUnavailable", operation: "journal" } })
              })
          )
        }),
      { tags: ["J2"] }
    )
  }

  it.effect("has who was asked, what was said and what was granted", () =>
    Effect.gen(function*() {
      const approvals = Context.get(yield* Layer.build(Approvals.layer({ timeout: "1 minute" })), Approvals.Approvals)
      yield* recorded(tools().specs, { approvals, policy: { default: "ask" }, principal: "ada" }, (env, entries) =>
        Effect.gen(function*() {
          const running = yield* Effect.forkScoped(env.process.executeWave([call("1", "w", { n: 1 })]))
          yield* Effect.sleep("1 second")
          const [request] = yield* approvals.list
          yield* approvals.answer(request!.id, { _tag: "ApproveForScope" })
          yield* Fiber.join(running)
          yield* env.executor.revoke({ tool: "w" })
          const all = yield* entries
          assert.deepStrictEqual(
            all.map((it) =>
              it._tag
            ),
            ["Arrived", "Asked", "Answered", "Granted", "Started", "Settled", "Revoked"]
          )
          const [, asked, answered, granted, started, , revoked] = all
          assert.deepInclude(asked, { at: 0, requestId: request!.id, expiresAt: 60_000, callId: "1" })
          assert.deepInclude(answered, { at: 1_000, requestId: request!.id, answer: "ApproveForScope", by: "user" })
          assert.deepInclude(started, { allowedBy: (granted as Journal.Of<"Granted">).grant.id })
          assert.deepInclude(revoked, {
            grant: (granted as Journal.Of<"Granted">).grant.id,
            tool: "w",
            principal: "ada"
          })
        }))
    }).pipe(Effect.scoped))

  it.effect("has every attempt, every write that landed and what came too late", () => {
    let left = 2
    const handler = () =>
      Effect.flatMap(
        ToolContext.ToolContext,
        ({ commit }) =>
          Effect.andThen(
            Effect.ignore(commit(Effect.void)),
            Effect.suspend(() => --left > 0 ? Effect.fail("no") : Effect.void)
          )
      )
    const late = () =>
      Effect.flatMap(
        ToolContext.ToolContext,
        ({ commit }) =>
          Effect.uninterruptible(Effect.andThen(Effect.sleep("1 minute"), Effect.ignore(commit(Effect.void))))
      )
    const specs: Record<string, ToolSpec> = {
      w: {
        class: "SerialMut",
        handler,
        annotate: (tool) => tool.annotate(Tool.Idempotent, true).annotate(ToolAnnotations.Retry, Schedule.recurs(2))
      },
      late: { class: "SerialMut", handler: late }
    }
    return recorded(specs, { executionTimeout: "10 seconds" }, ({ process }, entries) =>
      Effect.gen(function*() {
        yield* process.executeWave([call("1", "w", {}), call("2", "late", {})])
        yield* Effect.sleep("1 minute")
        const all = yield* entries
        const of = (id: string) => all.filter((it) => isOfCall(it) && it.callId === id)
        const first = of("1")
        assert.deepStrictEqual(
          first.map((it) => it._tag),
          ["Arrived", "Started", "Committed", "Started", "Committed", "Settled"]
        )
        const starts = first.filter((it) => it._tag === "Started")
        assert.deepStrictEqual(starts.map((it) => it.attempt), [1, 2])
        assert.strictEqual(starts[0]!.idempotencyKey, starts[1]!.idempotencyKey)
        assert.deepStrictEqual(
          of("2").map((it) => it._tag),
          ["Arrived", "Started", "Settled", "LateWriteBlocked", "OrphanEnded"]
        )
      }))
  })

  it.effect("that is switched off is waited for by nobody", () => {
    const { ran, specs } = tools()
    const { journal, writes } = kept()
    return run(specs, { journal, swap: Journal.layerNoop }, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* Effect.forkChild(process.executeWave(calls("w")), { startImmediately: true })
        assert.isDefined(wave.pollUnsafe())
        assert.deepStrictEqual([ran, writes], [["1"], []])
      }))
  })
})
