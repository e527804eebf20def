/** Executors of many sessions: what they never share, and what they do. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import {
  Approvals,
  ArtifactStore,
  Dedupe,
  Permissions,
  Pools,
  Rules,
  ToolAnnotations,
  ToolExecutor,
  ToolExecutors,
  ToolHandlers
} from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, calls, tags, toolkit, type ToolSpec } from "../../support/Harness.ts"

const tools: { readonly [name: string]: ToolSpec } = {
  read: { handler: () => Effect.succeed("x".repeat(30_000)) },
  write: { class: "SerialMut", handler: () => Effect.sleep("1 minute") },
  same: {
    class: "SerialMut",
    handler: () => Effect.sleep("1 minute"),
    annotate: (tool) => tool.annotate(ToolAnnotations.Resources, () => ["disk"])
  },
  capped: { class: "ConcurrentMut", handler: () => Effect.sleep("1 minute") },
  deploy: { class: "SerialMut", handler: () => Effect.void }
}

const layer = (options?: ToolExecutors.Options) => {
  const { handlers, kit } = toolkit(tools)
  const registered = ToolHandlers.layer(kit, { tools: { capped: { maxConcurrent: 1 } } }).pipe(Layer.provide(handlers))
  const gates = Layer.mergeAll(
    Rules.layer([
      { _tag: "MaxCalls", tool: "deploy", max: 1 },
      { _tag: "Cooldown", tool: "write", duration: "1 hour" }
    ]),
    Permissions.layer({ default: "allow", ask: ["deploy"] }),
    Dedupe.layer(),
    Pools.layer(),
    ArtifactStore.layerMemory()
  ).pipe(Layer.provideMerge(registered))
  return ToolExecutors.layer(options).pipe(
    Layer.provide(gates),
    Layer.provideMerge(Approvals.layer())
  )
}

const run = <A, E>(
  program: Effect.Effect<A, E, Scope.Scope | ToolExecutors.ToolExecutors | Approvals.Approvals>,
  options?: ToolExecutors.Options
) => VirtualTime.run(Effect.scoped(Effect.provide(program, layer(options))), { limit: "1 day" })

const processOf = (session: string, batch?: string) =>
  Effect.gen(function*() {
    const executor = yield* Effect.flatMap(ToolExecutors.ToolExecutors, (it) => it.get(session))
    return { executor, process: yield* executor.process({ batch }) }
  })

describe("two sessions", () => {
  it.effect(
    "never share a grant, a question's answer, a key, a result, a count or a rest",
    () =>
      run(Effect.gen(function*() {
        const approvals = yield* Approvals.Approvals
        const ada = yield* processOf("ada", "request")
        const bob = yield* processOf("bob", "request")
        // an equal call of each runs, and no result is the other's
        const [mine, theirs] = [
          yield* ada.process.executeWave(calls("read")),
          yield* bob.process.executeWave(calls("read"))
        ]
        assert.deepStrictEqual([...tags(mine), ...tags(theirs)], ["Succeeded", "Succeeded"])
        const artifacts = [mine, theirs].map(({ outcomes: [it] }) =>
          it?._tag === "Succeeded" && it.output._tag === "Artifact" ? it.output.ref : undefined
        )
        assert.notDeepEqual(artifacts[0], artifacts[1])

        const asked = yield* Effect.forkScoped(ada.process.executeWave(calls("deploy")))
        const other = yield* Effect.forkScoped(bob.process.executeWave(calls("deploy")))
        yield* Effect.sleep("1 second")
        const requests = yield* approvals.list
        assert.deepStrictEqual(requests.map((it) => it.principal), ["ada", "bob"])
        yield* approvals.answer(requests[0]!.id, { _tag: "ApproveForScope", agents: "all" })
        assert.deepStrictEqual(tags(yield* Fiber.join(asked)), ["Succeeded"])
        assert.lengthOf(yield* approvals.list, 1)
        assert.lengthOf(yield* ada.executor.grants, 1)
        assert.lengthOf(yield* bob.executor.grants, 0)
        assert.strictEqual(yield* bob.executor.revoke({ tool: "deploy" }), 0)
        yield* approvals.answer(requests[1]!.id, { _tag: "ApproveOnce" })
        // one call of each in the batch of the same name
        assert.deepStrictEqual(tags(yield* Fiber.join(other)), ["Succeeded"])

        const writing = yield* Effect.forkScoped(ada.process.executeWave(calls("write")))
        const too = yield* Effect.forkScoped(bob.process.executeWave(calls("write")))
        assert.deepStrictEqual(tags(yield* Fiber.join(writing)), ["Succeeded"])
        assert.deepStrictEqual(tags(yield* Fiber.join(too)), ["Succeeded"])
      })),
    { tags: ["S5"] }
  )

  it.effect("never wait for each other's slow writes, but where they touch the same", () =>
    run(Effect.gen(function*() {
      const ada = yield* processOf("ada")
      const bob = yield* processOf("bob")
      const from = yield* VirtualTime.now
      yield* Effect.forEach([ada, bob], ({ process }) => process.executeWave(calls("write")), {
        concurrency: "unbounded"
      })
      assert.strictEqual((yield* VirtualTime.now) - from, 60_000)
      for (const tool of ["same", "capped"]) {
        const start = yield* VirtualTime.now
        yield* Effect.forEach([ada, bob], ({ process }) => process.executeWave(calls(tool)), {
          concurrency: "unbounded"
        })
        assert.strictEqual((yield* VirtualTime.now) - start, 120_000, tool)
      }
    })))

  it.effect("may be allowed different things", () =>
    run(
      Effect.gen(function*() {
        const ada = yield* processOf("ada")
        const bob = yield* processOf("bob")
        assert.deepStrictEqual(tags(yield* ada.process.executeWave(calls("read", "write"))), [
          "Succeeded",
          "PolicyDenied"
        ])
        assert.deepStrictEqual(tags(yield* bob.process.executeWave(calls("read", "write"))), [
          "Succeeded",
          "Succeeded"
        ])
      }),
      { policy: (session) => session === "ada" ? { default: "readOnly" } : Effect.succeed({ default: "allow" }) }
    ))
})

describe("a session", () => {
  it.effect("has one executor, however often it is asked for, and keeps what was said to it when that ends", () =>
    run(
      Effect.gen(function*() {
        const approvals = yield* Approvals.Approvals
        const executors = yield* ToolExecutors.ToolExecutors
        const before = yield* Effect.scoped(Effect.gen(function*() {
          const { executor, process } = yield* processOf("ada")
          assert.strictEqual(yield* executors.get("ada"), executor)
          const wave = yield* Effect.forkScoped(process.executeWave(calls("deploy")))
          yield* Effect.sleep("1 second")
          yield* approvals.answer((yield* approvals.list)[0]!.id, { _tag: "ApproveForScope" })
          yield* Fiber.join(wave)
          return executor
        }))
        yield* Effect.sleep("2 minutes")
        const { executor, process } = yield* processOf("ada")
        assert.notStrictEqual(executor, before)
        assert.deepStrictEqual(tags(yield* process.executeWave([call("2", "deploy", { n: 2 })])), ["Succeeded"])
      }),
      { idleTimeToLive: "1 minute" }
    ))

  it.effect("is a layer, too", () =>
    run(Effect.gen(function*() {
      const executors = yield* ToolExecutors.ToolExecutors
      const names = yield* Effect.map(ToolExecutor.ToolExecutor, (it) => it.tools).pipe(
        Effect.flatten,
        Effect.provide(executors.layer("ada"))
      )
      assert.include(names.map((it) => it.name), "deploy")
    })))

  it.effect("is counted as long as it has an executor, by a metric, too", () =>
    run(
      Effect.gen(function*() {
        const executors = yield* ToolExecutors.ToolExecutors
        const counts = Effect.all([
          executors.size,
          Effect.map(Metric.snapshot, (all) => all.find(({ id }) => id === "tool_executor.executors")?.state)
        ])
        yield* Effect.scoped(Effect.gen(function*() {
          for (const session of ["ada", "bob", "ada"]) yield* executors.get(session)
          assert.deepStrictEqual(yield* counts, [2, { value: 2 }])
        }))
        yield* executors.end("bob")
        yield* Effect.sleep("30 seconds")
        assert.deepStrictEqual(yield* counts, [1, { value: 1 }])
        yield* Effect.sleep("1 minute")
        assert.deepStrictEqual(yield* counts, [0, { value: 0 }])
      }).pipe(Effect.provideService(Metric.MetricRegistry, new Map())),
      { idleTimeToLive: "1 minute" }
    ))

  it.effect("says that it lives, and is ended whoever holds it", () =>
    run(Effect.gen(function*() {
      const executors = yield* ToolExecutors.ToolExecutors
      assert.deepStrictEqual(yield* executors.active, [])
      const ada = yield* processOf("ada")
      const bob = yield* processOf("bob")
      assert.deepStrictEqual(yield* executors.active, ["ada", "bob"])
      const [mine, theirs] = [
        yield* Effect.forkScoped(ada.process.executeWave(calls("write", "write"))),
        yield* Effect.forkScoped(bob.process.executeWave(calls("write")))
      ]
      yield* Effect.sleep("1 second")
      yield* executors.end("ada", "you were logged out")
      const ended = yield* Fiber.join(mine)
      assert.deepStrictEqual(tags(ended), ["Cancelled", "Cancelled"])
      assert.deepInclude(ended.outcomes[0], { started: true, reason: "you were logged out" })
      assert.strictEqual(yield* VirtualTime.now, 1_000)
      // what it is asked later it does not do, and neither does anything of it
      assert.deepStrictEqual(tags(yield* ada.process.executeWave(calls("read"))), ["Cancelled"])
      const late = yield* ada.executor.process()
      assert.deepStrictEqual(tags(yield* late.executeWave(calls("read"))), ["Cancelled"])
      // whoever comes has a new one, and nobody else was touched
      const again = yield* processOf("ada")
      assert.notStrictEqual(again.executor, ada.executor)
      assert.deepStrictEqual(tags(yield* again.process.executeWave(calls("read"))), ["Succeeded"])
      assert.deepStrictEqual(tags(yield* Fiber.join(theirs)), ["Succeeded"])
      yield* executors.end("nobody")
    })))

  it.effect("begins nothing once all are closed, held, invalidated and new ones alike", () =>
    run(Effect.gen(function*() {
      const executors = yield* ToolExecutors.ToolExecutors
      const ada = yield* processOf("ada")
      yield* executors.invalidate("ada")
      const bob = yield* processOf("bob")
      const waves = yield* Effect.forEach(
        [ada, bob],
        ({ process }) => Effect.forkScoped(Stream.runCollect(process.stream(calls("write"))))
      )
      yield* Effect.sleep("1 second")
      yield* executors.close("the server stops")
      for (const wave of waves) {
        const last = (yield* Fiber.join(wave)).at(-1)
        assert.strictEqual(last?._tag, "ToolsEnd")
        assert.deepInclude(last?._tag === "ToolsEnd" ? last.executionResults[0] : {}, { reason: "the server stops" })
      }
      for (const session of ["ada", "bob", "eve"]) {
        const { process } = yield* processOf(session)
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("read"))), ["Cancelled"])
        const inLayer = Effect.flatMap(
          ToolExecutor.ToolExecutor,
          (it) => Effect.flatMap(it.process(), (it) => it.executeWave(calls("read")))
        )
        const wave = yield* Effect.provide(Effect.scoped(inLayer), executors.layer(session))
        assert.deepStrictEqual(tags(wave), ["Cancelled"])
      }
    })))

  it.effect("with a policy that is none fails with what is wrong", () =>
    run(
      Effect.gen(function*() {
        const error = yield* Effect.flip(processOf("ada"))
        assert.include(error.message, "deploy(")
      }),
      { policy: () => ({ allow: ["deploy("] }) }
    ))
})
