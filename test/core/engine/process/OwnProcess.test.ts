/** What one process may be given that others of its executor do not have: tools, people, calls counted with others. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as TurnBudget from "../../../../src/core/gates/TurnBudget.ts"
import { ToolContext, type ToolOutcome } from "../../../../src/index.ts"
import { calls, type Options, run, tags } from "../../../support/Harness.ts"

const tools = { a: () => Effect.succeed("A"), b: () => Effect.succeed("B") }

const asks: Options = { policy: { default: "ask" } }

const saying = (answer: Approvals.Answer, asked: Array<string>) =>
  Approvals.makeApprover(({ tool }) => Effect.sync(() => (asked.push(tool), answer)))

const yes: Approvals.Answer = { _tag: "ApproveOnce" }

const by = (outcome: ToolOutcome.ToolOutcome | undefined) =>
  outcome?._tag === "Denied" && outcome.reason._tag === "PermissionDenied" ? outcome.reason.by : undefined

describe("a process", () => {
  it.effect("has the tools that it is given, and no others", () =>
    run(tools, {}, ({ batch, process: whole }) =>
      Effect.gen(function*() {
        const process = yield* batch.process({ tools: ["b"] })
        const wave = yield* process.executeWave(calls("a", "b"))
        assert.deepStrictEqual(tags(wave), ["ToolNotFound", "Succeeded"])
        assert.deepInclude(wave.outcomes[0], { reason: { _tag: "ToolNotFound", available: ["b"] } })
        assert.deepStrictEqual((yield* process.tools).map((it) => it.name), ["b"])
        assert.deepStrictEqual(yield* process.allowedNext, ["b"])
        assert.strictEqual(yield* process.toolChoice, "auto")
        assert.deepStrictEqual(tags(yield* whole.executeWave(calls("a"))), ["Succeeded"])
      })))

  it.effect("is not begun with tools that the executor does not have, or an odd time to ask at", () =>
    run(tools, {}, ({ batch, executor }) =>
      Effect.gen(function*() {
        const wrong = yield* Effect.flip(batch.process({ tools: ["b", "c"] }))
        assert.include(wrong.message, `tools[1]: the executor has no tool "c"`)
        for (const provided of ["web", [1], null]) {
          const odd = yield* Effect.flip(batch.process({ provided: provided as never }))
          assert.include((odd as typeof wrong).message, "provided: it is ")
        }
        const odd = yield* Effect.flip(executor.process({ approval: "later" as "upfront" }))
        assert.include(odd.message, "approval")
      })))

  it.effect("asks the people that it is given, and not the executor's", () =>
    Effect.scoped(Effect.gen(function*() {
      const [ours, theirs]: [Array<string>, Array<string>] = [[], []]
      const approvals = yield* saying(yes, theirs)
      const own = yield* saying({ _tag: "Deny", reason: "not today" }, ours)
      yield* run(tools, { ...asks, approvals }, ({ batch }) =>
        Effect.gen(function*() {
          const process = yield* batch.process({ approvals: own })
          const wave = yield* process.executeWave(calls("a"))
          assert.strictEqual(by(wave.outcomes[0]), "user")
          const other = yield* batch.process()
          assert.deepStrictEqual(tags(yield* other.executeWave(calls("b"))), ["Succeeded"])
        }))
      assert.deepStrictEqual([ours, theirs], [["a"], ["b"]])
    })))

  it.effect("asks nobody where it is to ask nobody, nor do the sub-agents of its calls", () =>
    Effect.scoped(Effect.gen(function*() {
      const asked: Array<string> = []
      const approvals = yield* saying(yes, asked)
      const seen: Array<string | undefined> = []
      const above = {
        class: "ConcurrentMut",
        handler: () =>
          Effect.gen(function*() {
            const { executor } = yield* ToolContext.ToolContext
            const forked = yield* executor!.fork()
            const process = yield* forked.process()
            const wave = yield* process.executeWave(calls("a"))
            seen.push(by(wave.outcomes[0]))
          }).pipe(Effect.scoped)
      } as const
      yield* run(
        { ...tools, above },
        { policy: { default: "ask", allow: ["above"] }, approvals },
        ({ batch }) =>
          Effect.gen(function*() {
            const process = yield* batch.process({ approvals: "nobody" })
            const wave = yield* process.executeWave(calls("a", "above"))
            assert.strictEqual(by(wave.outcomes[0]), "noApprover")
            assert.deepStrictEqual(tags(wave), ["PermissionDenied", "Succeeded"])
          })
      )
      assert.deepStrictEqual([seen, asked], [["noApprover"], []])
    })))

  it.effect("asks up front if it is to, whatever the executor's setting", () =>
    Effect.scoped(Effect.gen(function*() {
      const open: Array<number> = []
      const approvals: Approvals.Approvals["Service"] = yield* Approvals.makeApprover(() =>
        Effect.map(approvals.list, (all) => (open.push(all.length), yes))
      )
      const writes = { class: "SerialMut", handler: () => Effect.void } as const
      yield* run({ a: writes, b: writes }, { ...asks, approvals }, ({ batch }) =>
        Effect.gen(function*() {
          const process = yield* batch.process({ approval: "upfront" })
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("a", "b"))), ["Succeeded", "Succeeded"])
          // both questions were there before the first answer
          assert.strictEqual(open[0], 2)
          assert.strictEqual((yield* Effect.flip(process.step))._tag, "ConfigurationError")
        }))
    })))

  it.effect("counts its calls together with those of others", () =>
    run(tools, {}, ({ batch }) =>
      Effect.gen(function*() {
        const all = new TurnBudget.CallCounter(3)
        const first = yield* batch.process({ turn: { shared: all } })
        const second = yield* batch.process({ turn: { shared: new TurnBudget.CallCounter(2, all) } })
        const one = yield* first.executeWave(calls("a", "b"))
        const two = yield* second.executeWave(calls(["a", { second: 1 }], ["b", { second: 1 }]))
        assert.deepStrictEqual(tags(one), ["Succeeded", "Succeeded"])
        assert.deepStrictEqual(tags(two), ["Succeeded", "CallBudgetExhausted"])
        assert.deepInclude(two.outcomes[1], { reason: { _tag: "CallBudgetExhausted", max: 3 } })
        assert.deepStrictEqual([all.taken, first.id === second.id], [3, false])
      })))
})
