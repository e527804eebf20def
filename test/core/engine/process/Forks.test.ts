/** Executors for sub-agents: what they share with their caller, what is their own, and when they end. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import { ToolAnnotations, ToolContext, ToolExecutor, type ToolOutcome } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import * as Harness from "../../../support/Harness.ts"

const { call, calls, tags } = Harness

/** A tool that makes calls of its own. */
const agent = (handler: Harness.Handler): Harness.ToolSpec => ({
  handler,
  annotate: (tool: Tool.Any) => tool.annotate(Tool.Readonly, false).annotate(ToolAnnotations.Recursive, true)
})

const write = (handler: Harness.Handler): Harness.ToolSpec => ({ class: "SerialMut", handler })

const outcomesOf = (wave: ToolOutcome.WaveResult) => wave.outcomes

/** Runs calls in a sub-agent of whatever executor the handler runs in. */
const inFork = (names: ReadonlyArray<string>, options?: ToolExecutor.ForkOptions) =>
  Effect.gen(function*() {
    const { executor } = yield* ToolContext.ToolContext
    const child = yield* executor!.fork(options)
    const process = yield* child.process()
    return tags(yield* process.executeWave(calls(...names)))
  }).pipe(Effect.scoped)

const outputs = (wave: ToolOutcome.WaveResult): ReadonlyArray<unknown> =>
  wave.outcomes.map((it) => it._tag === "Succeeded" && it.output._tag !== "Artifact" ? it.output.value : it._tag)

describe("a sub-agent", () => {
  it.effect("counts its calls with its caller's", () =>
    Harness.run(
      { read: () => Effect.void, sub: agent(() => inFork(["read", "read"])) },
      { rules: [{ _tag: "MaxCalls", tool: "read", max: 2 }], policy: { default: "allow" } },
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("read"))
          assert.deepStrictEqual(outputs(yield* process.executeWave(calls("sub"))), [["Succeeded", "RuleViolation"]])
          assert.deepStrictEqual(tags(yield* process.executeWave([call("9", "read", { n: 9 })])), ["RuleViolation"])
        })
    ), { tags: ["F4"] })

  it.effect("counts with a batch of the same id, where the host makes it outside of a call", () =>
    Harness.run(
      { read: () => Effect.void },
      { rules: [{ _tag: "MaxCalls", tool: "read", max: 1 }] },
      ({ batch, executor, process }) =>
        Effect.gen(function*() {
          yield* Effect.scoped(Effect.gen(function*() {
            const child = yield* executor.fork({ name: "helper" })
            const own = yield* child.process({ batch: batch.id })
            assert.deepStrictEqual(tags(yield* own.executeWave(calls("read"))), ["Succeeded"])
            const other = yield* child.process()
            assert.deepStrictEqual(tags(yield* other.executeWave([call("2", "read", { n: 2 })])), ["Succeeded"])
          }))
          // leaving the sub-agent's scope forgets nothing of the caller's batch
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("read"))), ["RuleViolation"])
        })
    ))

  it.effect("rests with its caller's tools, and has equal calls of its own", () =>
    Harness.run(
      { read: () => Effect.void, rested: () => Effect.void },
      {
        dedupe: { readWindow: "5 minutes" },
        rules: [{ _tag: "Cooldown", tool: "rested", duration: "1 minute" }]
      },
      ({ executor, process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("read", "rested"))
          const own = yield* (yield* executor.fork()).process()
          assert.deepStrictEqual(tags(yield* own.executeWave(calls("read", "rested"))), ["Succeeded", "RuleViolation"])
          assert.deepStrictEqual(tags(yield* own.executeWave(calls("read"))), ["DuplicateCall"])
          const other = yield* (yield* executor.fork()).process()
          assert.deepStrictEqual(tags(yield* other.executeWave(calls("read"))), ["Succeeded"])
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("read"))), ["DuplicateCall"])
        })
    ))

  it.effect("has a write that makes what its caller has read stale", () =>
    Harness.run(
      { read: () => Effect.void, write: write(() => Effect.void), sub: agent(() => inFork(["write"])) },
      {},
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("read"))
          yield* process.executeWave([call("2", "sub", {})])
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("read"))), ["Succeeded"])
        })
    ))

  it.effect("begins with the rules of order anew", () =>
    Harness.run(
      { login: () => Effect.void, read: () => Effect.void, sub: agent(() => inFork(["read"])) },
      { rules: [{ _tag: "RequiresPrecedingTools", tool: "read", tools: ["login"] }] },
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("login"))
          assert.deepStrictEqual(outputs(yield* process.executeWave(calls("sub"))), [["RuleViolation"]])
        })
    ))

  it.effect("may do what its caller may, and no more", () =>
    Harness.run(
      {
        read: () => Effect.void,
        write: write(() => Effect.void),
        all: agent(() => inFork(["read", "write", "secret"], { policy: { default: "allow" } })),
        less: agent(() => inFork(["read", "write"], { policy: { default: "deny", allow: ["read"] } })),
        secret: () => Effect.void
      },
      { policy: { default: "allow", deny: ["secret"] } },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(outputs(yield* process.executeWave(calls("all", "less"))), [
            ["Succeeded", "Succeeded", "PolicyDenied"],
            ["Succeeded", "PolicyDenied"]
          ])
        })
    ), { tags: ["F1"] })

  it.effect("gets no further by holding on to an executor further up", () => {
    let root: ToolExecutor.Service | undefined
    let rootProcess: Harness.Env["process"] | undefined
    const tried: Array<ReadonlyArray<string>> = []
    const names = ["write"]
    return Harness.run(
      {
        write: write(() => Effect.void),
        trick: agent(() =>
          Effect.gen(function*() {
            const process = yield* root!.process({ batch: "other" })
            tried.push(tags(yield* process.executeWave(calls(...names))))
            tried.push(tags(yield* rootProcess!.executeWave(calls(...names))))
            const fork = yield* root!.fork({ name: "free" })
            const forked = yield* fork.process()
            tried.push(tags(yield* forked.executeWave(calls(...names))))
          }).pipe(Effect.scoped)
        ),
        sub: agent(() => inFork(["trick"], { policy: { default: "allow", deny: ["write"] } }))
      },
      {},
      ({ executor, process }) =>
        Effect.gen(function*() {
          root = executor
          rootProcess = process
          yield* process.executeWave(calls("sub"))
          assert.deepStrictEqual(tried, [["PolicyDenied"], ["PolicyDenied"], ["PolicyDenied"]])
        })
    )
  }, { tags: ["F1"] })

  it.effect("is nested eight deep, and no deeper", () => {
    let deepest = 0
    const nest = (depth: number): Effect.Effect<unknown, unknown, Scope.Scope | ToolExecutor.ToolExecutor> =>
      Effect.gen(function*() {
        deepest = Math.max(deepest, depth)
        const child = yield* ToolExecutor.fork({ name: `level ${depth + 1}` })
        return yield* Effect.provideService(nest(depth + 1), ToolExecutor.ToolExecutor, child)
      })
    return Harness.run(
      { read: () => Effect.void, sub: agent(() => Effect.void) },
      {},
      ({ executor }) =>
        Effect.gen(function*() {
          const error = yield* Effect.flip(Effect.provideService(nest(0), ToolExecutor.ToolExecutor, executor))
          assert.strictEqual(deepest, 8)
          assert.include(String(error), "nested at most 8 deep")
          let at = executor
          for (let depth = 1; depth <= 8; depth++) at = yield* at.fork({ name: String(depth) })
          const process = yield* at.process()
          // what would make sub-agents of its own is not begun there
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("read", "sub"))), [
            "Succeeded",
            "DepthExceeded"
          ])
        })
    )
  }, { tags: ["F8"] })

  it.effect(
    "ends with its scope, whatever it does",
    () =>
      Harness.run({ hang: () => Effect.never }, {}, ({ executor }) =>
        Effect.gen(function*() {
          const scope = yield* Scope.make()
          const child = yield* Scope.provide(executor.fork(), scope)
          const process = yield* (yield* Effect.scoped(child.batch("b"))).process()
          const wave = yield* Effect.forkScoped(
            Effect.flatMap(child.process(), (it) => it.executeWave(calls("hang")))
          )
          yield* Effect.sleep("1 second")
          yield* Scope.close(scope, Exit.void)
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Cancelled"])
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("hang"))), ["Cancelled"])
          const late = yield* child.process()
          assert.deepStrictEqual(tags(yield* late.executeWave(calls("hang"))), ["Cancelled"])
        })),
    { tags: ["F5"] }
  )

  it.effect("ends with the call it works for, though its handler is deaf", () => {
    const seen: Array<ReadonlyArray<string>> = []
    return Harness.run(
      {
        read: () => Effect.void,
        sub: agent(() =>
          Effect.uninterruptible(Effect.scoped(Effect.gen(function*() {
            const child = yield* Effect.flatMap(ToolContext.ToolContext, (it) => it.executor!.fork())
            const process = yield* child.process()
            yield* Effect.sleep("10 seconds")
            seen.push(tags(yield* process.executeWave(calls("read"))))
          })))
        )
      },
      { executionTimeout: "5 seconds" },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("sub"))), ["TimedOut"])
          yield* Effect.sleep("1 minute")
          assert.deepStrictEqual(seen, [["Cancelled"]])
        })
    )
  })

  it.effect("ends with its caller's batch", () =>
    Harness.run(
      { hang: () => Effect.never, sub: agent(() => inFork(["hang"])) },
      {},
      ({ batch, executor, process }) =>
        Effect.gen(function*() {
          const wave = yield* Effect.forkScoped(process.executeWave(calls("sub")))
          yield* Effect.sleep("1 second")
          yield* executor.completeBatch(batch.id)
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Cancelled"])
        })
    ))

  it.effect("has at most the time of the call it works for", () => {
    const ends: Array<unknown> = []
    return Harness.run(
      {
        slow: () => Effect.sleep("1 minute"),
        sub: agent(() =>
          Effect.gen(function*() {
            const child = yield* Effect.flatMap(ToolContext.ToolContext, (it) => it.executor!.fork({ turn: {} }))
            const process = yield* child.process({ turn: { timeout: "1 hour", minimumSlice: 1 } })
            ends.push(yield* Effect.map(process.execute(call("1", "slow", {})), (it) => it))
          }).pipe(Effect.scoped, Effect.uninterruptible)
        )
      },
      { executionTimeout: "10 seconds" },
      ({ process }) =>
        Effect.gen(function*() {
          const outcome = (yield* process.executeWave(calls("sub"))).outcomes[0]!
          assert.strictEqual(outcome._tag, "TimedOut")
          yield* Effect.sleep("1 minute")
          const inner = ends[0] as ToolOutcome.ToolOutcome
          assert.isAtMost(inner.duration!, 10_000)
        })
    )
  }, { tags: ["F5"] })

  it.effect("waits for no permit that its caller holds, and is refused where it would", () =>
    Harness.run(
      {
        read: () => Effect.sleep("1 second"),
        promoted: { class: "ConcurrentMut", handler: () => Effect.void },
        write: write(() => Effect.void),
        sub: agent(() => inFork(["promoted", "write"])),
        serial: write(() => inFork(["write"]))
      },
      { pools: { read: 1, concurrent: 1, serial: 1 } },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("sub", "serial"))
          assert.deepStrictEqual(outputs(wave), [["Succeeded", "Succeeded"], ["ReentryRefused"]])
        })
    ), { tags: ["F3"] })

  it.effect("takes reads and writes from its caller's pools, and has caps of its own", () => {
    let now = 0
    let most = 0
    const counted = Effect.acquireUseRelease(
      Effect.sync(() => {
        most = Math.max(most, ++now)
      }),
      () => Effect.sleep("1 second"),
      () => Effect.sync(() => now--)
    )
    return Harness.run(
      {
        read: () => counted,
        capped: { handler: () => counted, class: "ConcurrentMut" },
        reads: agent(() => inFork(["read", "read", "read"])),
        caps: agent(() => inFork(["capped", "capped"]))
      },
      { pools: { read: 2 }, tools: { capped: { maxConcurrent: 1 } } },
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave([call("1", "reads", { n: 1 }), call("2", "reads", { n: 2 })])
          assert.strictEqual(most, 2)
          most = 0
          yield* process.executeWave([call("3", "caps", { n: 1 }), call("4", "caps", { n: 2 })])
          assert.strictEqual(most, 2)
        })
    )
  })
})

class Writer extends Context.Service<Writer, ToolExecutor.Service>()("Forks.test/Writer") {}
class Critic extends Context.Service<Critic, ToolExecutor.Service>()("Forks.test/Critic") {}

describe("a fork", () => {
  it.effect("needs an executor to be one of", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Effect.scoped(ToolExecutor.fork()))
      assert.include(error.message, "no executor runs this")
    }))

  it.effect("is a layer, another one at each use", () =>
    Harness.run({ read: () => Effect.void }, {}, ({ executor }) =>
      Effect.gen(function*() {
        const forked = ToolExecutor.layerFork({ policy: { deny: ["read"] } })
        const one = Effect.provide(ToolExecutor.ToolExecutor, forked)
        const [a, b] = yield* Effect.provideService(Effect.all([one, one]), ToolExecutor.ToolExecutor, executor)
        assert.strictEqual(new Set([executor, a, b]).size, 3)
        assert.lengthOf(yield* a.tools, 0)
      })))

  it.effect(
    "as a layer is another one for each agent, also where they are built together",
    () =>
      Harness.run({ read: () => Effect.void }, {}, ({ executor }) =>
        Effect.gen(function*() {
          const forked = ToolExecutor.layerFork()
          const agents = Layer.merge(
            Layer.provide(Layer.effect(Writer, ToolExecutor.ToolExecutor), forked),
            Layer.provide(Layer.effect(Critic, ToolExecutor.ToolExecutor), forked)
          )
          const built = yield* Layer.build(agents).pipe(Effect.provideService(ToolExecutor.ToolExecutor, executor))
          assert.strictEqual(new Set([executor, Context.get(built, Writer), Context.get(built, Critic)]).size, 3)
        })),
    { tags: ["F6"] }
  )

  it.effect(
    "as a layer ends with the scope that built it",
    () =>
      Harness.run({ read: () => Effect.sleep("1 second") }, {}, ({ executor, process }) =>
        Effect.gen(function*() {
          const scope = yield* Scope.make()
          const context = yield* Layer.buildWithScope(ToolExecutor.layerFork(), scope).pipe(
            Effect.provideService(ToolExecutor.ToolExecutor, executor)
          )
          const child = yield* Context.get(context, ToolExecutor.ToolExecutor).process()
          const wave = yield* Effect.forkChild(child.executeWave(calls("read")), { startImmediately: true })
          yield* Scope.close(scope, Exit.void)
          assert.deepInclude((yield* Fiber.join(wave)).outcomes[0], { _tag: "Cancelled", started: true })
          assert.deepStrictEqual(tags(yield* child.executeWave([call("2", "read")])), ["Cancelled"])
          assert.deepStrictEqual(tags(yield* process.executeWave([call("3", "read")])), ["Succeeded"])
        })),
    { tags: ["F6"] }
  )
})

describe("a sub-agent that has to ask", () => {
  const asking = <A, E>(
    program: (env: Harness.Env & { readonly approvals: Approvals.Approvals["Service"] }) => Effect.Effect<
      A,
      E,
      Scope.Scope
    >,
    options: Harness.Options = {}
  ) =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        const env = yield* Harness.open({
          deploy: write(() => Effect.void),
          sub: agent(() => inFork(["deploy"], { name: "builder" })),
          outer: agent(() => inFork(["sub"], { name: "lead" }))
        }, { approvals, policy: { default: "allow", ask: ["deploy"] }, ...options })
        return yield* program({ ...env, approvals })
      })),
      { limit: "1 day" }
    )

  it.effect(
    "asks where its caller asks, with the way down to it",
    () =>
      asking(({ approvals, process }) =>
        Effect.gen(function*() {
          const wave = yield* Effect.forkScoped(process.executeWave(calls("outer")))
          yield* Effect.sleep("1 second")
          const [request] = yield* approvals.list
          assert.deepStrictEqual(request!.agentPath, ["lead", "builder"])
          yield* approvals.answer(request!.id, { _tag: "ApproveOnce" })
          assert.deepStrictEqual(outputs(yield* Fiber.join(wave)), [["Succeeded"]])
        })
      ),
    { tags: ["F7"] }
  )

  it.effect("is remembered for itself and below, or for all if the person says so", () =>
    asking(({ approvals, executor, process }) =>
      Effect.gen(function*() {
        const first = yield* Effect.forkScoped(process.executeWave(calls("sub")))
        yield* Effect.sleep("1 second")
        yield* approvals.answer((yield* approvals.list)[0]!.id, { _tag: "ApproveForScope" })
        assert.deepStrictEqual(outputs(yield* Fiber.join(first)), [["Succeeded"]])
        assert.deepStrictEqual((yield* executor.grants).map((it) => it.agentPath), [["builder"]])
        // the same agent again is not asked about, its caller is
        assert.deepStrictEqual(outputs(yield* process.executeWave([call("2", "sub", { n: 2 })])), [["Succeeded"]])
        const own = yield* Effect.forkScoped(process.executeWave([call("3", "deploy", { n: 3 })]))
        yield* Effect.sleep("1 second")
        yield* approvals.answer((yield* approvals.list)[0]!.id, { _tag: "ApproveForScope" })
        assert.deepStrictEqual(tags(yield* Fiber.join(own)), ["Succeeded"])
        const everybody = yield* process.executeWave([call("4", "outer", { n: 4 })])
        assert.deepStrictEqual(outputs(everybody), [["Succeeded"]])
      })
    ))

  it.effect("lets its answer count for every agent if the person says so", () =>
    asking(({ approvals, process }) =>
      Effect.gen(function*() {
        const first = yield* Effect.forkScoped(process.executeWave(calls("sub")))
        yield* Effect.sleep("1 second")
        yield* approvals.answer((yield* approvals.list)[0]!.id, { _tag: "ApproveForScope", agents: "all" })
        yield* Fiber.join(first)
        assert.deepStrictEqual(tags(yield* process.executeWave([call("2", "deploy", { n: 2 })])), ["Succeeded"])
      })
    ))

  it.effect("has its caller's time stand still while a person thinks", () =>
    asking(({ approvals, process }) =>
      Effect.gen(function*() {
        const wave = yield* Effect.forkScoped(process.executeWave(calls("outer")))
        yield* Effect.sleep("200 seconds")
        yield* approvals.answer((yield* approvals.list)[0]!.id, { _tag: "ApproveOnce" })
        assert.deepStrictEqual(outputs(yield* Fiber.join(wave)), [["Succeeded"]])
      }), { executionTimeout: "10 seconds", turn: { timeout: "20 seconds" } }))
})

describe("the time of a call that waits for sub-agents", () => {
  it.effect("goes on while one of them executes, though another one asks", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        const { process } = yield* Harness.open({
          deploy: write(() => Effect.void),
          read: () => Effect.sleep("1 hour"),
          sub: agent(() => Effect.all([inFork(["deploy"]), inFork(["read"])], { concurrency: 2 }))
        }, {
          approvals,
          policy: { default: "allow", ask: ["deploy"] },
          executionTimeout: "10 seconds",
          tools: { read: { timeout: "2 hours" } }
        })
        const outcome = yield* process.execute(call("1", "sub", {}))
        assert.deepStrictEqual([outcome._tag, outcome.duration], ["TimedOut", 10_000])
      })),
      { limit: "1 day" }
    ))
})

describe("a sub-agent that only reads", () => {
  const looks = agent(() => Effect.void)
  it.effect("runs what changes nothing and reaches nothing, and nothing else, whatever is allowed", () =>
    Harness.run(
      {
        read: () => Effect.void,
        write: write(() => Effect.void),
        far: { handler: () => Effect.void, annotate: (tool) => tool.annotate(Tool.OpenWorld, true) },
        sub: looks
      },
      { policy: { default: "allow", allow: ["*"] } },
      ({ executor }) =>
        Effect.gen(function*() {
          const child = yield* executor.readOnly({ name: "researcher" })
          assert.deepStrictEqual((yield* child.tools).map((it) => it.name), ["read"])
          const process = yield* child.process()
          assert.deepStrictEqual(
            tags(yield* process.executeWave(calls("read", "write", "far", "sub"))),
            ["Succeeded", "PolicyDenied", "PolicyDenied", "PolicyDenied"]
          )
        })
    ), { tags: ["F2"] })

  it.effect("may have another one below it, which reads only, too", () => {
    const readers = (names: ReadonlyArray<string>): Harness.ToolSpec => ({
      handler: () =>
        Effect.gen(function*() {
          const child = yield* ToolExecutor.readOnly({ name: "reader" })
          const process = yield* child.process()
          return outputs(yield* process.executeWave(calls(...names)))
        }).pipe(Effect.scoped),
      annotate: (tool) => tool.annotate(Tool.Readonly, true).annotate(ToolAnnotations.Recursive, true)
    })
    return Harness.run(
      {
        read: () => Effect.succeed("read"),
        write: write(() => Effect.void),
        inner: readers(["read", "write"]),
        outer: readers(["inner", "write"])
      },
      {},
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("outer"))
          assert.deepStrictEqual(outputs(wave), [[["read", "Denied"], "Denied"]])
          assert.lengthOf(outcomesOf(wave), 1)
        })
    )
  })
})
