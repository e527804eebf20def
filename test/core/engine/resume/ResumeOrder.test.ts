/** Calls that are handed over again after a crash stand among the others as they did. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Journal, ToolAnnotations, type ToolCall, ToolContext, type ToolRule } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, open, type Options, tags, type ToolSpec } from "../../../support/Harness.ts"

type Entry = Journal.JournalEntry

const journalOf = (entries: ReadonlyArray<Entry>, keeps?: Journal.MemoryOptions) =>
  Effect.map(
    Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory({ ...keeps, entries })))),
    (context) => Context.get(context, Journal.Journal)
  )

const entriesOf = (journal: Journal.Journal["Service"]): Effect.Effect<ReadonlyArray<Entry>> =>
  Effect.map(Effect.orDie(Stream.runCollect(journal.read({}))), (all) => all.map(({ entry }) => entry))

/** A life over what an earlier one has left; gives its outcomes, and what is on record then. */
const live = Effect.fnUntraced(function*(
  specs: Record<string, ToolSpec>,
  options: Options,
  wave: ReadonlyArray<ToolCall.ToolCall>,
  entries?: ReadonlyArray<Entry>,
  keeps?: Journal.MemoryOptions
) {
  const journal = yield* journalOf(entries ?? [], keeps)
  const { executor } = yield* open(specs, { ...options, journal })
  const process = yield* executor.process({ batch: "b" })
  const result = yield* entries === undefined ? process.executeWave(wave) : Effect.orDie(process.resume(wave))
  yield* Effect.sleep(1)
  return { process, result, tags: tags(result), entries: yield* entriesOf(journal) }
})

/** What is on record up to the first entry of a kind that is about a call. */
const until = (entries: ReadonlyArray<Entry>, tag: Entry["_tag"], callId: string): ReadonlyArray<Entry> =>
  entries.slice(0, entries.findIndex((it) => it._tag === tag && "callId" in it && it.callId === callId) + 1)

const test = <A, E>(name: string, program: () => Effect.Effect<A, E, Scope.Scope>, options?: { tags: Array<string> }) =>
  it.effect(name, () => VirtualTime.run(Effect.scoped(Effect.suspend(program)), { limit: "1 day" }), options)

/** Tools, and which calls have run. */
const world = () => {
  const ran: Array<string> = []
  const handler: ToolSpec["handler"] = ({ millis }) =>
    Effect.gen(function*() {
      const { callId } = yield* ToolContext.ToolContext
      yield* Effect.sleep(Number(millis ?? 0))
      ran.push(String(callId))
      return { kind: "ok" }
    })
  const happens: ToolSpec = {
    class: "SerialMut",
    handler,
    annotate: (tool) =>
      tool.annotate(
        ToolAnnotations.Reconcile,
        () => Effect.succeed({ _tag: "Happened" as const, result: { kind: "ok" } })
      )
  }
  const specs: Record<string, ToolSpec> = {
    verify: { class: "ReadOnly", handler },
    look: { class: "ReadOnly", handler },
    refund: { class: "SerialMut", handler },
    write: { class: "ConcurrentMut", handler },
    again: { class: "ConcurrentMut", handler, annotate: (tool) => tool.annotate(Tool.Idempotent, true) },
    happens
  }
  return { ran, specs }
}

const [verify, refund] = [call("1", "verify", {}), call("2", "refund", {})]

describe("a resubmitted call", () => {
  const rules: Record<string, ReadonlyArray<ToolRule.ToolRule>> = {
    RequiresPrecedingTools: [{ _tag: "RequiresPrecedingTools", tool: "refund", tools: ["verify"] }],
    StartConstraint: [{ _tag: "StartConstraint", tool: "verify" }],
    ParentTools: [{ _tag: "ParentTools", tool: "verify", children: ["refund"] }],
    ChildTools: [{ _tag: "ChildTools", tool: "verify", children: ["refund"] }],
    Conditional: [{
      _tag: "Conditional",
      tool: "verify",
      path: "kind",
      cases: [{ equals: "ok", tool: "refund" }],
      strict: true
    }]
  }
  for (const [name, set] of Object.entries(rules)) {
    test(`comes after what succeeded before it, as ${name} has it`, () => {
      const { ran, specs } = world()
      return Effect.gen(function*() {
        const { entries } = yield* live(specs, { rules: set }, [verify, refund])
        const after = yield* live(specs, { rules: set }, [verify, refund], until(entries, "Settled", "1"))
        assert.deepStrictEqual(after.tags, ["Succeeded", "Succeeded"])
        assert.deepStrictEqual(ran, ["1", "2", "2"])
      })
    }, { tags: ["K3"] })
  }

  test("keeps its outcome behind the place where stop mode ends its wave", () => {
    const { specs } = world()
    const wave = [
      call("1", "write", { millis: 50 }),
      call("2", "look", {}),
      call("3", "again", { millis: 10 }),
      call("4", "refund", {})
    ]
    const options: Options = { mode: "parallel", onExecutionError: "stop", pools: { serial: 1 } }
    return Effect.gen(function*() {
      const { entries } = yield* live(specs, options, wave)
      const before = until(entries, "Settled", "2").filter((it) => !("callId" in it) || it.callId !== "4")
      const after = yield* live(specs, options, wave, before)
      // the first may have happened, which ends the wave; what had its outcome, or had started, has not been skipped
      assert.deepStrictEqual(after.tags, ["Unknown", "Succeeded", "Succeeded", "Skipped"])
    })
  }, { tags: ["K6"] })

  test("ends at its place where its tool says that it happened, whatever is asked up front", () => {
    const { ran, specs } = world()
    const wave = [call("1", "happens", { millis: 10 }), refund, call("3", "look", {})]
    const options: Options = {
      approval: "upfront",
      policy: { default: "allow", ask: ["look"] },
      rules: [{ _tag: "RequiresPrecedingTools", tool: "refund", tools: ["happens"] }]
    }
    return Effect.gen(function*() {
      const { entries } = yield* live(specs, options, wave)
      ran.length = 0
      const after = yield* live(specs, options, wave, until(entries, "Started", "1"))
      assert.deepStrictEqual(after.tags, ["Succeeded", "Succeeded", "PermissionDenied"])
      assert.deepStrictEqual(ran, ["2"])
    })
  }, { tags: ["K6"] })

  for (
    const [onDuplicate, scope] of [["reject", "batch"], ["replay", "batch"], ["reject", "wave"], [
      "replay",
      "wave"
    ]] as const
  ) {
    test(`is what an equal call is measured by, with ${onDuplicate} in a ${scope}`, () => {
      const { ran, specs } = world()
      const wave = [call("1", "refund", { n: 1 }), call("2", "refund", { n: 1 })]
      const options: Options = { dedupe: { onDuplicate, scope } }
      return Effect.gen(function*() {
        const { entries, tags } = yield* live(specs, options, wave)
        assert.deepStrictEqual(tags, ["Succeeded", onDuplicate === "replay" ? "Succeeded" : "DuplicateCall"])
        const after = yield* live(specs, options, wave, until(entries, "Settled", "1"))
        assert.deepStrictEqual(after.tags, tags)
        assert.deepStrictEqual(ran, ["1"])
      })
    }, { tags: ["K3"] })
  }

  test("has made stale what was read before it, if it may change things", () => {
    const { ran, specs } = world()
    const wave = [call("1", "look", {}), refund, call("3", "look", {})]
    return Effect.gen(function*() {
      const { entries, tags } = yield* live(specs, {}, wave)
      assert.deepStrictEqual(tags, ["Succeeded", "Succeeded", "Succeeded"])
      ran.length = 0
      const after = yield* live(specs, {}, wave, until(entries, "Settled", "2"))
      assert.deepStrictEqual([after.tags, ran], [tags, ["3"]])
    })
  }, { tags: ["K3"] })

  test("is not judged by order and limits again where it had started, and is by the policy", () => {
    const { ran, specs } = world()
    const wave = [call("1", "look", { millis: 50 }), call("2", "verify", {}), call("3", "look", { n: 3 })]
    const options: Options = { mode: "parallel" }
    const rules: ReadonlyArray<ToolRule.ToolRule> = [
      { _tag: "RequiresFollowingTools", tool: "look", tools: ["verify"] },
      { _tag: "MaxCalls", tool: "look", max: 0 }
    ]
    return Effect.gen(function*() {
      const { entries } = yield* live(specs, options, wave)
      const before = until(entries, "Settled", "2").filter((it) => !("callId" in it) || it.callId !== "3")
      ran.length = 0
      const after = yield* live(specs, { ...options, rules }, wave, before)
      assert.deepStrictEqual(after.tags, ["Succeeded", "Succeeded", "RuleViolation"])
      assert.deepStrictEqual(ran, ["1"])
      const denied = yield* live(specs, { ...options, policy: { default: "allow", deny: ["look"] } }, wave, before)
      assert.deepStrictEqual(denied.tags, ["PolicyDenied", "Succeeded", "PolicyDenied"])
    })
  }, { tags: ["K5"] })

  test("uses up once what it has used up, however often it is submitted", () => {
    const { specs } = world()
    const options: Options = { rules: [{ _tag: "MaxCalls", tool: "write", max: 3 }], turn: { maxCalls: 3 } }
    const wave = [call("1", "write", { n: 1 }), call("2", "write", { n: 2 })]
    return Effect.gen(function*() {
      const { entries } = yield* live(specs, options, wave)
      const { process } = yield* live(specs, options, wave, until(entries, "Settled", "2"))
      yield* Effect.orDie(process.resume(wave))
      const more = yield* process.executeWave([call("3", "write", { n: 3 }), call("4", "look", {})])
      assert.deepStrictEqual(tags(more), ["Succeeded", "CallBudgetExhausted"])
    })
  }, { tags: ["K3"] })
})

describe("a process that is resumed", () => {
  test("knows its earlier waves, and nothing of another one that had its name", () => {
    const { specs } = world()
    const rules: ReadonlyArray<ToolRule.ToolRule> = [
      { _tag: "RequiresPrecedingTools", tool: "refund", tools: ["verify"] },
      { _tag: "RequiresFollowingTools", tool: "write", tools: ["look"] },
      { _tag: "MaxCalls", tool: "again", max: 1 }
    ]
    return Effect.gen(function*() {
      const journal = yield* journalOf([])
      const { executor } = yield* open(specs, { rules, journal })
      const named = { batch: "b", id: "p" }
      yield* (yield* executor.process(named)).executeWave([call("1", "look", {})])
      const second = yield* executor.process(named)
      yield* second.executeWave([call("2", "verify", {}), call("3", "again", {})])
      yield* second.executeWave([call("4", "refund", {}), call("5", "refund", { n: 5 })])
      yield* Effect.sleep(1)
      const before = until(yield* entriesOf(journal), "Settled", "4")

      const other = yield* open(specs, { rules, journal: yield* journalOf(before) })
      const process = yield* other.executor.process(named)
      const wave = [call("4", "refund", {}), call("5", "refund", { n: 5 })]
      assert.deepStrictEqual(tags(yield* Effect.orDie(process.resume(wave))), ["Succeeded", "Succeeded"])
      const more = yield* process.executeWave([call("6", "write", {}), call("7", "again", { n: 7 })])
      assert.deepStrictEqual(tags(more), ["Succeeded", "RuleViolation"])
    })
  }, { tags: ["K4"] })

  test("leads where an output led that was not kept", () => {
    const { specs } = world()
    const options: Options = {
      rules: [{
        _tag: "Conditional",
        tool: "verify",
        path: "kind",
        cases: [{ equals: "ok", tool: "refund" }],
        strict: true
      }]
    }
    return Effect.gen(function*() {
      const keeps = { outputs: "none" } as const
      const { entries } = yield* live(specs, options, [verify, refund], undefined, keeps)
      const before = until(entries, "Settled", "1")
      assert.deepStrictEqual((yield* live(specs, options, [verify, refund], before, keeps)).tags, [
        "Succeeded",
        "Succeeded"
      ])
    })
  }, { tags: ["K4"] })
})
