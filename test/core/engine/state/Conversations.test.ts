/** What rules with the scope of a conversation remember, whoever makes its calls and wherever that runs. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Claims from "../../../../src/core/store/Claims.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import {
  LocalExecutor,
  ToolAnnotations,
  ToolCall,
  ToolContext,
  ToolExecutor,
  type ToolRule
} from "../../../../src/index.ts"
import { open, run, tag, tags, type ToolSpec } from "../../../support/Harness.ts"

const mut = (handler: ToolSpec["handler"] = () => Effect.succeed("done")): ToolSpec => ({
  class: "ConcurrentMut",
  handler
})

const tools = { verify: mut(), refund: mut(), close: mut(), other: mut() }

const rules: ReadonlyArray<ToolRule.ToolRule> = [
  { _tag: "RequiresPrecedingTools", tool: "refund", tools: ["verify"], scope: "session" },
  { _tag: "RequiresFollowingTools", tool: "refund", tools: ["close"], scope: "session" }
]

let lastId = 0
const call = (name: string) => ToolCall.make(`${++lastId}`, name, { n: lastId })

/** The outcomes of calls that are made in a new process. */
const made = (executor: ToolExecutor.Service, session: string | undefined, ...names: ReadonlyArray<string>) =>
  Effect.scoped(Effect.gen(function*() {
    const process = yield* executor.process({ session })
    return tags(yield* process.executeWave(names.map(call)))
  }))

describe("a conversation", () => {
  it.effect("is that of its name, apart from others and from those of other principals", () => {
    const store = StateStore.makeMemory()
    return run(tools, { rules, store }, ({ executor }) =>
      Effect.gen(function*() {
        const ada = (yield* open(tools, { rules, store, principal: "ada" })).executor
        assert.deepStrictEqual(yield* made(executor, "s", "verify"), ["Succeeded"])
        assert.deepStrictEqual(yield* made(executor, "s", "refund"), ["Succeeded"])
        for (const other of ["S", "s ", "[\"s\"]", "default", undefined]) {
          assert.deepStrictEqual(yield* made(executor, other, "refund"), ["RuleViolation"], other)
        }
        assert.deepStrictEqual(yield* made(ada, "s", "refund"), ["RuleViolation"])
      }))
  }, { tags: ["R13"] })

  it.effect("without a name is all that the principal does", () =>
    run(tools, { rules }, ({ executor }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* made(executor, undefined, "verify"), ["Succeeded"])
        assert.deepStrictEqual(yield* made(executor, undefined, "refund"), ["Succeeded"])
      })))

  it.effect("is never taken for a batch of the same name", () =>
    run(
      tools,
      { rules: [...rules, { _tag: "MaxCalls", tool: "other", max: 1, scope: "session" }] },
      ({ executor }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* made(executor, "s", "verify", "other"), ["Succeeded", "Succeeded"])
          const process = yield* executor.process({ batch: "s", session: "t" })
          assert.deepStrictEqual(tags(yield* process.executeWave([call("refund"), call("other")])), [
            "RuleViolation",
            "Succeeded"
          ])
          yield* executor.completeBatch("s")
          assert.deepStrictEqual(yield* made(executor, "s", "refund", "other"), ["Succeeded", "RuleViolation"])
        })
    ), { tags: ["R13"] })

  it.effect("needs a name that is one", () =>
    run(tools, { rules }, ({ executor }) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(executor.process({ session: 7 as unknown as string }))
        assert.include(error.message, "session: ")
      })))

  it.effect("is remembered by another executor over the store, and by both at once", () => {
    const store = StateStore.makeMemory()
    return run(tools, { rules, store }, ({ executor }) =>
      Effect.gen(function*() {
        const other = (yield* open(tools, { rules, store })).executor
        const [here, there] = [yield* executor.process({ session: "s" }), yield* other.process({ session: "s" })]
        const refunds = [yield* here.allowedNext, yield* there.allowedNext].map((it) => it.includes("refund"))
        assert.deepStrictEqual(refunds, [false, false])
        yield* here.executeWave([call("verify")])
        assert.include(yield* there.allowedNext, "refund")
        assert.deepStrictEqual(tags(yield* there.executeWave([call("refund")])), ["Succeeded"])
        yield* there.executeWave([call("close")])
        assert.deepStrictEqual(tags(yield* here.executeWave([call("refund")])), ["RuleViolation"])
      }))
  }, { tags: ["R11"] })

  it.effect("is looked at again when a call starts that has waited", () => {
    const store = StateStore.makeMemory()
    const slow = { ...tools, hold: mut(() => Effect.sleep("10 seconds")) }
    return run(
      slow,
      { rules, store, tools: { refund: { maxConcurrent: 1 } } },
      ({ executor }) =>
        Effect.gen(function*() {
          const other = (yield* open(tools, { rules, store })).executor
          yield* made(executor, "s", "verify")
          const wave = yield* Effect.forkChild(
            Effect.scoped(Effect.flatMap(
              executor.process({ session: "s" }),
              (it) => it.executeWave([call("hold"), call("refund")], { mode: "sequential" })
            )),
            { startImmediately: true }
          )
          yield* Effect.sleep("5 seconds")
          assert.deepStrictEqual(yield* made(other, "s", "close"), ["Succeeded"])
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "RuleViolation"])
        })
    )
  }, { tags: ["R14"] })

  it.effect("refuses what it may forbid while the store does not answer, and nothing else", () => {
    const memory = StateStore.makeMemory()
    let isOut = false
    const cause = new Error("down")
    const store: StateStore.StateStore["Service"] = {
      ...memory,
      recall: (of, now) =>
        isOut ? Effect.fail(new StateStore.StateStoreError({ operation: "recall", cause })) : memory.recall(of, now)
    }
    return run(tools, { rules, store }, ({ executor }) =>
      Effect.gen(function*() {
        yield* made(executor, "s", "verify")
        isOut = true
        assert.deepStrictEqual(yield* made(executor, "s", "refund", "other", "close"), [
          "StoreUnavailable",
          "Succeeded",
          "Succeeded"
        ])
        isOut = false
        assert.deepStrictEqual(yield* made(executor, "s", "refund"), ["RuleViolation"])
      }))
  }, { tags: ["R14"] })

  it.effect("has the calls of handlers and sub-agents, whatever conversation these name", () => {
    const seen: Array<string> = []
    const agent = (use: (executor: ToolExecutor.Service) => Effect.Effect<unknown, unknown>): ToolSpec => ({
      handler: () => Effect.flatMap(ToolContext.ToolContext, ({ executor }) => Effect.orDie(use(executor!))),
      annotate: (tool) => tool.annotate(Tool.Readonly, false).annotate(ToolAnnotations.Recursive, true)
    })
    const noting = (executor: ToolExecutor.Service, ...names: ReadonlyArray<string>) =>
      Effect.map(made(executor, "another", ...names), (it) => void seen.push(...it))
    return run(
      {
        ...tools,
        own: agent((executor) => noting(executor, "refund", "verify")),
        fork: agent((executor) => Effect.scoped(Effect.flatMap(executor.fork(), (it) => noting(it, "refund", "close"))))
      },
      { rules },
      ({ executor }) =>
        Effect.gen(function*() {
          yield* made(executor, "s", "own")
          assert.deepStrictEqual(yield* made(executor, "s", "refund"), ["Succeeded"])
          yield* made(executor, "s", "fork")
          assert.deepStrictEqual(yield* made(executor, "s", "refund"), ["RuleViolation"])
          assert.deepStrictEqual(yield* made(executor, "another", "refund"), ["RuleViolation"])
          assert.deepStrictEqual(seen, ["RuleViolation", "Succeeded", "Succeeded", "Succeeded"])
        })
    )
  }, { tags: ["R13"] })

  it.effect("has a success that was replayed from another one", () => {
    const store = StateStore.makeMemory()
    const dedupe = { scope: "principal", onDuplicate: "replay" } as const
    return run(tools, { rules, store, dedupe }, ({ executor }) =>
      Effect.gen(function*() {
        const close = ToolCall.make("same", "close", {})
        const first = yield* executor.process({ session: "s" })
        const second = yield* executor.process({ session: "t" })
        yield* first.executeWave([close])
        yield* second.executeWave([call("verify"), call("refund")])
        const outcome = yield* second.execute(close)
        assert.isDefined(outcome._tag === "Succeeded" ? outcome.replayOf : undefined)
        const after = (yield* open(tools, { rules, store })).executor
        assert.deepStrictEqual(yield* made(after, "t", "refund"), ["RuleViolation"])
      }))
  })

  it.effect("has what the provider of a model executes, if it succeeded", () => {
    const search = Tool.providerDefined({
      id: "test.search",
      customName: "search",
      providerName: "search",
      parameters: Schema.Unknown,
      success: Schema.Unknown
    })(undefined as never)
    const named: ReadonlyArray<ToolRule.ToolRule> = [
      { _tag: "RequiresPrecedingTools", tool: "refund", tools: ["search"], scope: "session" }
    ]
    const kit = Toolkit.make(Tool.make("refund"))
    const executor = LocalExecutor.layer(Toolkit.merge(kit, Toolkit.make(search)), {
      rules: named,
      policy: { default: "allow" }
    }).pipe(Layer.provide(kit.toLayer({ refund: () => Effect.void })))
    return Effect.gen(function*() {
      const { process } = yield* ToolExecutor.ToolExecutor
      const searched = Effect.fnUntraced(function*(isFailure: boolean) {
        const one = yield* process({ session: "s", provided: ["search"] })
        yield* one.provided([{ id: "1", name: "search", isFailure, output: "found" }])
        const other = yield* process({ session: "s" })
        return tag(yield* other.execute(ToolCall.make(`${++lastId}`, "refund", {})))
      })
      assert.strictEqual(yield* searched(true), "RuleViolation")
      assert.strictEqual(yield* searched(false), "Succeeded")
    }).pipe(Effect.scoped, Effect.provide(executor))
  })

  it.effect("is forgotten when the host says so", () => {
    const store = StateStore.makeMemory()
    return run(tools, { rules, store }, ({ executor }) =>
      Effect.gen(function*() {
        yield* made(executor, "s", "verify", "close")
        yield* made(executor, undefined, "verify")
        yield* executor.forgetSession("s")
        assert.deepStrictEqual(yield* made(executor, "s", "refund", "verify", "refund"), [
          "RuleViolation",
          "Succeeded",
          "Succeeded"
        ])
        assert.deepStrictEqual(yield* made(executor, undefined, "refund"), ["Succeeded"])
        yield* executor.forgetSession()
        assert.deepStrictEqual(yield* made(executor, undefined, "refund"), ["RuleViolation"])
      }))
  }, { tags: ["R15"] })

  it.effect("outlives what is pruned, for its own time", () => {
    const store = StateStore.makeMemory({ sessionTimeToLive: "7 days" })
    return run(tools, { rules, store }, ({ executor }) =>
      Effect.gen(function*() {
        yield* made(executor, "s", "verify")
        yield* Effect.sleep("6 hours")
        yield* executor.pruneExpired
        assert.deepStrictEqual(yield* made(executor, "s", "refund"), ["Succeeded"])
      }))
  })

  it.effect("costs nothing where no rule asks for it", () => {
    const memory = StateStore.makeMemory()
    const asked: Array<string> = []
    const claimed: Array<Claims.Claim> = []
    const store: StateStore.StateStore["Service"] = {
      ...memory,
      recall: (of, now) => {
        asked.push("recall")
        return memory.recall(of, now)
      },
      reserve: (requests, now) => {
        for (const { claims } of requests) claimed.push(...claims)
        return memory.reserve(requests, now)
      }
    }
    const plain = rules.map((rule) => ({ ...rule, scope: "process" }) as ToolRule.ToolRule)
    return run(tools, { rules: plain, store, dedupe: false }, ({ executor }) =>
      Effect.gen(function*() {
        const process = yield* executor.process({ session: "s" })
        yield* process.executeWave([call("verify"), call("refund"), call("close"), call("other")])
        yield* process.allowedNext
        assert.deepStrictEqual(asked, [])
        assert.deepStrictEqual(claimed, [])
      }))
  }, { tags: ["R15"] })

  it.effect("asks the store for a call that its rules may forbid or wait for, and for no other", () => {
    const memory = StateStore.makeMemory()
    let asked = 0
    const store: StateStore.StateStore["Service"] = {
      ...memory,
      recall: (of, now) => {
        asked++
        return memory.recall(of, now)
      }
    }
    return run(tools, { rules, store }, ({ executor }) =>
      Effect.gen(function*() {
        const process = yield* executor.process({ session: "s" })
        yield* process.executeWave([call("other"), call("close")])
        assert.strictEqual(asked, 0)
        const outcome = yield* process.execute(call("refund"))
        assert.strictEqual(tag(outcome), "RuleViolation")
        assert.strictEqual(asked, 1)
      }))
  })
})
