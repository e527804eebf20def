/** Waves and operations as workflows: submitted once, waited for without a fiber, found again after a restart. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { WorkflowEngine } from "effect/workflow"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"
import * as ToolWorkflow from "../../src/cluster/ToolWorkflow.ts"
import { Checkpoints, Journal } from "../../src/index.ts"
import * as Server from "../../src/server/api/Server.ts"
import * as OperationStore from "../../src/server/operations/OperationStore.ts"
import * as Draining from "../../src/server/sessions/Draining.ts"
import { SessionDirectory } from "../../src/server/sessions/SessionDirectory.ts"
import * as WaveStore from "../../src/server/waves/WaveStore.ts"
import type { EndListener } from "../../src/server/work/EndListener.ts"
import { message, world } from "../support/directoryWorld.ts"

const boss = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

const owner = { user: "ada", session: "one" }

const pay = { ...owner, name: "invoice-17", message: message(["c1", "pay", { key: "17" }]) }

/** A workflow engine that stays, and servers over the same stores that come and go. */
const setUp = Effect.fnUntraced(function*({ tells = true } = {}) {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "workflow-"))),
    (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
  )
  const { layer: tools, ran } = yield* world(folder)
  const stores = Layer.mergeAll(
    Journal.layerMemory(),
    WaveStore.layerMemory(),
    OperationStore.layerMemory(),
    TranscriptStore.layerMemory(),
    Checkpoints.layerMemory()
  )
  const kept = yield* Layer.build(Layer.merge(stores, WorkflowEngine.layerMemory))
  const ends = tells ? ToolWorkflow.layerEnds : Layer.empty as Layer.Layer<EndListener>
  const server = Layer.fresh(
    Server.layerExecutors().pipe(Layer.provide([tools, ends]), Layer.provide(Layer.succeedContext(kept)))
  )
  const now: { directory: SessionDirectory["Service"] | undefined } = { directory: undefined }
  /** Starts a server. */
  const start = Effect.gen(function*() {
    const scope = yield* Scope.make()
    const services = yield* Layer.buildWithScope(server, scope)
    now.directory = Context.get(services, SessionDirectory)
    return { stop: Effect.andThen(Context.get(services, Draining.Draining).drain, Scope.close(scope, Exit.void)) }
  })
  // workflows are registered once, over the server of now
  const directory = new Proxy({} as SessionDirectory["Service"], {
    get: (_, name): unknown => Reflect.get(now.directory!, name)
  })
  yield* Layer.build(
    ToolWorkflow.layer.pipe(
      Layer.provide(Layer.succeed(SessionDirectory, directory)),
      Layer.provide(Layer.succeedContext(kept))
    )
  )
  const pending = Effect.suspend(() => directory.approvals(boss)).pipe(
    Effect.map(({ open }) => open),
    Effect.tap(() => Effect.yieldNow),
    Effect.repeat({ until: (open) => open.length === 1 })
  )
  const approve = Effect.gen(function*() {
    const [request] = yield* pending
    yield* directory.answer(boss, { id: request!.id, hash: request!.hash, answer: { _tag: "ApproveOnce" } })
  })
  return { ran, start, directory, pending, approve, engine: Layer.succeedContext(kept) }
})

/** Goes on with whatever can, without time. */
const settle = Effect.forEach(Array.from({ length: 200 }), () => Effect.yieldNow, { discard: true })

/** Lets time pass until an effect has ended, however many turns that takes. */
const inTime = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.raceFirst(effect, Effect.forever(TestClock.adjust("5 seconds")))

describe("a wave as a workflow", () => {
  it.effect("is submitted once and ends with its wave, whoever waits", () =>
    Effect.gen(function*() {
      const { approve, directory, engine, pending, ran, start } = yield* setUp()
      yield* start
      const id = yield* Effect.provide(ToolWorkflow.Wave.execute(pay, { discard: true }), engine)
      yield* pending
      yield* settle
      // it waits without a fiber
      const before = yield* Effect.provide(ToolWorkflow.Wave.poll(id), engine)
      assert.strictEqual(Option.getOrUndefined(before)?._tag, "Suspended")
      const waiting = yield* Effect.forkChild(Effect.provide(ToolWorkflow.Wave.execute(pay), engine))
      yield* approve
      const info = yield* Fiber.join(waiting)
      assert.deepInclude(info, { wave: "workflow-invoice-17", status: "ended" })
      assert.notProperty(info, "messages")
      assert.include(JSON.stringify((yield* directory.wave(owner, info.wave)).messages), "paid 17")
      assert.deepEqual(yield* Effect.provide(ToolWorkflow.Wave.execute(pay), engine), info)
      assert.deepEqual(ran, ["17"])
    }))

  it.effect("outlives a restart of the server in the middle", () =>
    Effect.gen(function*() {
      const { approve, engine, pending, ran, start } = yield* setUp()
      const { stop } = yield* start
      const waiting = yield* Effect.forkChild(Effect.provide(ToolWorkflow.Wave.execute(pay), engine))
      const [request] = yield* pending
      yield* stop
      yield* start
      assert.strictEqual((yield* pending)[0]!.id, request!.id)
      yield* approve
      assert.deepInclude(yield* Fiber.join(waiting), { status: "ended" })
      assert.deepEqual(ran, ["17"])
    }))

  it.effect("finds an end that nobody has told it of", () =>
    Effect.gen(function*() {
      const { approve, engine, pending, start } = yield* setUp({ tells: false })
      yield* start
      const waiting = yield* Effect.forkChild(Effect.provide(ToolWorkflow.Wave.execute(pay), engine))
      yield* pending
      yield* settle
      yield* approve
      yield* settle
      assert.isUndefined(waiting.pollUnsafe())
      assert.deepInclude(yield* inTime(Fiber.join(waiting)), { status: "ended" })
    }))

  it.effect("waits on if its wave has not ended when it looks", () =>
    Effect.gen(function*() {
      const { approve, engine, pending, start } = yield* setUp()
      yield* start
      const waiting = yield* Effect.forkChild(Effect.provide(ToolWorkflow.Wave.execute(pay), engine))
      yield* pending
      yield* settle
      yield* TestClock.adjust("1 hour")
      assert.isUndefined(waiting.pollUnsafe())
      yield* approve
      assert.deepInclude(yield* Fiber.join(waiting), { status: "ended" })
    }))

  it.effect("submits again while the server does not answer", () =>
    Effect.gen(function*() {
      const { approve, engine, pending, ran, start } = yield* setUp()
      const { stop } = yield* start
      yield* stop
      const waiting = yield* Effect.forkChild(Effect.provide(ToolWorkflow.Wave.execute(pay), engine))
      yield* settle
      yield* start
      yield* inTime(pending)
      yield* approve
      assert.deepInclude(yield* Fiber.join(waiting), { status: "ended" })
      assert.deepEqual(ran, ["17"])
    }))

  it.effect("fails with what is wrong with its message", () =>
    Effect.gen(function*() {
      const { engine, start } = yield* setUp()
      yield* start
      const wrong = ToolWorkflow.Wave.execute({ ...pay, message: { tool_calls: [17] } })
      assert.strictEqual((yield* Effect.flip(Effect.provide(wrong, engine)))._tag, "Invalid")
    }))

  it.effect("cancels its wave if it is interrupted", () =>
    Effect.gen(function*() {
      const { directory, engine, pending, ran, start } = yield* setUp()
      yield* start
      const id = yield* Effect.provide(ToolWorkflow.Wave.execute(pay, { discard: true }), engine)
      yield* pending
      yield* settle
      yield* Effect.provide(ToolWorkflow.Wave.interrupt(id), engine)
      const { messages } = yield* directory.result(owner, "workflow-invoice-17")
      assert.include(JSON.stringify(messages), "its workflow was interrupted")
      assert.deepEqual(ran, [])
    }))
})

describe("an operation as a workflow", () => {
  it.effect("ends with its operation, after the one that runs in the session", () =>
    Effect.gen(function*() {
      const { approve, directory, engine, pending, start } = yield* setUp()
      yield* start
      yield* directory.start(owner, { agent: "helper", prompt: "pay 1", id: "other" })
      yield* pending
      const work = { ...owner, name: "hello", agent: "helper", prompt: "hello" }
      const waiting = yield* Effect.forkChild(Effect.provide(ToolWorkflow.Operation.execute(work), engine))
      yield* settle
      assert.isUndefined(waiting.pollUnsafe())
      yield* approve
      assert.deepInclude((yield* inTime(Fiber.join(waiting))).end, { text: "You said: hello" })
    }))
})
