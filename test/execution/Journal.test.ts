/** What may change things is on record before it starts. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Checkpoints, Gate, Journal, ToolContext } from "../../src/index.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { call, calls, open, type Options, run, tags, type ToolSpec } from "../support/Harness.ts"

type Writes = ReadonlyArray<ReadonlyArray<Journal.Started>>

/** A journal that keeps what it is given, in the pieces in which it is. */
const kept = (write: Journal.Journal["Service"]["started"] = () => Effect.void) => {
  const writes: Array<ReadonlyArray<Journal.Started>> = []
  const journal: Journal.Journal["Service"] = {
    started: (entries) => {
      writes.push(entries)
      return write(entries)
    }
  }
  return { journal, writes }
}

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

const slowly = kept.bind(undefined, () => Effect.sleep("3 seconds"))

describe("the journal", () => {
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
  })

  it.effect("knows the call again by all that a record needs", () => {
    const { journal, writes } = kept()
    const keys: Array<string | undefined> = []
    const handler = () => Effect.map(ToolContext.ToolContext, ({ idempotencyKey }) => void keys.push(idempotencyKey))
    return run(
      { w: { class: "SerialMut", handler } },
      { journal, principal: "ada", dedupe: false },
      ({ batch, executor, process }) =>
        Effect.gen(function*() {
          yield* process.executeWave([call("1", "w", { b: 1, a: [2] }), call("2", "w", { a: [2], b: 1 })])
          const [[first], [second]] = writes as [[Journal.Started], [Journal.Started]]
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
            args: { b: 1, a: [2] }
          })
          assert.deepStrictEqual([first.idempotencyKey, second.idempotencyKey], keys)
          assert.notStrictEqual(first.idempotencyKey, second.idempotencyKey)
          assert.strictEqual(second.index, 1)
          // the order of keys is no difference, and both are the same tool
          assert.strictEqual(first.canonical, second.canonical)
          assert.strictEqual(first.revision, second.revision)
          yield* Schema.decodeUnknownEffect(Journal.Started)(JSON.parse(JSON.stringify(first)))

          const child = yield* (yield* executor.fork({ name: "child" })).process()
          yield* child.executeWave([call("3", "w", { b: 2 })])
          assert.deepStrictEqual(writes[2]![0]!.agentPath, ["child"])
          assert.notStrictEqual(writes[2]![0]!.canonical, first.canonical)
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

  const failures: Record<string, readonly [at: number, Journal.Journal["Service"]["started"]]> = {
    "fails": [0, () => Effect.fail(new Journal.JournalError({ cause: "disk full" }))],
    "fails later": [10, () => Effect.delay(Effect.fail(new Journal.JournalError({ cause: "disk full" })), 10)],
    "dies": [0, () => Effect.die("broken")],
    "throws": [0, () => {
      throw new Error("broken")
    }],
    "gives no effect": [0, () => undefined as never],
    "does not answer in time": [5_000, () => Effect.never]
  }
  for (const [how, [at, started]] of Object.entries(failures)) {
    it.effect(`refuses a call where it ${how}, and gives back what the call had reserved`, () => {
      const { ran, specs } = tools()
      let isBroken = true
      const journal: Journal.Journal["Service"] = {
        started: (entries) => isBroken ? started(entries) : Effect.void
      }
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
          assert.deepStrictEqual(tags(yield* process.executeWave([call("3", "w", {})])), ["Succeeded"])
        }))
    })
  }

  it.effect("holds a call no longer than its turn lasts", () => {
    const { ran, specs } = tools()
    return run(
      specs,
      { journal: { started: () => Effect.never }, turn: { timeout: "1 second" } },
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
  })

  it.effect("holds nobody who is interrupted while it is written", () => {
    const { ran, specs } = tools()
    return run(specs, { journal: { started: () => Effect.never } }, ({ process }) =>
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
    const journal: Journal.Journal["Service"] = { started: () => Effect.fail(new Journal.JournalError({ cause: "" })) }
    return Effect.gen(function*() {
      const context = yield* Layer.build(Checkpoints.layerMemory())
      const checkpoints = Context.get(context, Checkpoints.Checkpoints)
      const { process } = yield* open(specs, { checkpoints, journal, principal: "ada" })
      assert.deepStrictEqual(tags(yield* process.executeWave(calls("w"))), ["StoreUnavailable"])
      assert.deepStrictEqual(yield* checkpoints.list("ada"), [])
    }).pipe(Effect.scoped, (it) => VirtualTime.run(it, { limit: "1 day" }))
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
