/** Parts of an executor that are in trouble now and then. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema, Stream } from "effect"
import { Checkpoints, LocalExecutor, ToolCall, ToolExecutor, ToolHandlers } from "effect-tool-executor"
import { Faults, ScriptedModel, VirtualTime } from "effect-tool-executor/testing"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import * as ArtifactStore from "../../src/core/output/ArtifactStore.ts"
import * as Journal from "../../src/core/store/Journal.ts"
import * as StateStore from "../../src/core/store/StateStore.ts"
import * as Laws from "../support/laws/Laws.ts"

const always = (kind: Faults.Kind) => Faults.make({ seed: 1, rate: 1, kinds: [kind] })

/** What becomes of an effect, and when. */
const became = <A, E>(effect: Effect.Effect<A, E>) =>
  VirtualTime.run(
    Effect.flatMap(
      Effect.exit(Effect.timeoutOption(effect, "1 minute")),
      (exit) =>
        Effect.map(VirtualTime.now, (at) => {
          const how = exit._tag === "Success"
            ? exit.value._tag === "None" ? "nothing" : "done"
            : exit.cause.reasons[0]!._tag
          return `${how} at ${at}`
        })
    )
  )

describe("trouble", () => {
  it("comes from the seed, for each name apart", () => {
    const hits = (seed: number, others: number) => {
      const faults = Faults.make({ seed, rate: 0.5 })
      for (let n = 0; n < others; n++) faults.next("other", ["fails", "dies"])
      return Array.from({ length: 20 }, () => faults.next("this", ["fails", "dies", "late"]))
    }
    assert.deepStrictEqual(hits(1, 0), hits(1, 7))
    assert.notDeepEqual(hits(1, 0), hits(2, 0))
    const rate = hits(3, 0).filter((it) => it !== undefined).length / 20
    assert.isTrue(rate > 0.2 && rate < 0.8)
  })

  it.effect("is of the kinds that were asked for, as far as they make sense, and kept", () =>
    Effect.gen(function*() {
      const faults = Faults.make({ seed: 1, rate: 1, kinds: ["fails", "cut"] })
      assert.strictEqual(faults.next("a", ["dies", "fails"]), "fails")
      assert.isUndefined(faults.next("b", ["dies"]))
      assert.deepStrictEqual(yield* faults.injected, [{ name: "a", kind: "fails" }])
    }))

  it.effect("does to a handler what it says", () =>
    Effect.gen(function*() {
      const play = Effect.fnUntraced(function*(kind: Faults.Kind) {
        let runs = 0
        const Add = Tool.make("add", { failure: Schema.String, success: Schema.Finite })
        const kit = Toolkit.make(Add)
        const handlers = kit.toLayer({ add: () => Effect.sync(() => ++runs) })
        const faulty = Layer.effect(
          ToolHandlers.ToolHandlers,
          Effect.map(ToolHandlers.ToolHandlers, (it) => Faults.handlers(always(kind), it))
        ).pipe(Layer.provide(ToolHandlers.layer(kit).pipe(Layer.provide(handlers))))
        const executor = ToolExecutor.layer.pipe(
          Layer.provide(LocalExecutor.layerGates({ policy: { default: "allow" }, executionTimeout: "10 seconds" })),
          Layer.provide(faulty)
        )
        const outcome = yield* VirtualTime.run(
          Effect.gen(function*() {
            const process = yield* (yield* ToolExecutor.ToolExecutor).process()
            return yield* process.execute(ToolCall.make("1", "add"))
          }).pipe(Effect.scoped, Effect.provide(executor))
        )
        return [outcome._tag, outcome.duration, runs]
      })
      assert.deepStrictEqual(yield* play("fails"), ["Failed", 0, 0])
      assert.deepStrictEqual(yield* play("dies"), ["Failed", 0, 0])
      assert.deepStrictEqual(yield* play("hangs"), ["TimedOut", 10_000, 0])
      assert.deepStrictEqual(yield* play("late"), ["Succeeded", 1_000, 1])
      assert.deepStrictEqual(yield* play("loses"), ["Failed", 0, 1])
      assert.deepStrictEqual(yield* play("twice"), ["Succeeded", 0, 2])
    }))

  it.effect("does to a store what it says", () =>
    Effect.gen(function*() {
      const play = Effect.fnUntraced(function*(kind: Faults.Kind) {
        const memory = StateStore.makeMemory()
        const grant = {
          id: "1",
          principal: "ada",
          tool: "add",
          agentPath: [],
          answer: "ApproveForScope" as const,
          grantedAt: 0
        }
        const how = yield* became(Faults.stateStore(always(kind), memory).grant(grant))
        return [how, (yield* memory.grants("ada", 0)).length]
      })
      assert.deepStrictEqual(yield* play("fails"), ["Fail at 0", 0])
      assert.deepStrictEqual(yield* play("dies"), ["Die at 0", 0])
      assert.deepStrictEqual(yield* play("hangs"), ["nothing at 60000", 0])
      assert.deepStrictEqual(yield* play("late"), ["done at 1000", 1])
      assert.deepStrictEqual(yield* play("loses"), ["Fail at 0", 1])
      assert.deepStrictEqual(yield* play("twice"), ["done at 0", 1])
    }))

  it.effect("fails as the store fails: journals, artifacts and checkpoints with errors of their own", () =>
    Effect.gen(function*() {
      const faults = always("fails")
      const journal = Faults.journal(faults, Journal.noop)
      assert.instanceOf(yield* Effect.flip(journal.append([], { durable: true })), Journal.JournalError)
      assert.instanceOf(yield* Effect.flip(Stream.runDrain(journal.read({}))), Journal.JournalError)
      const artifacts = Faults.artifactStore(faults, ArtifactStore.makeMemory())
      const error = yield* Effect.flip(artifacts.put({ principal: "ada", batch: "1" }, "text"))
      assert.strictEqual(error.reason, "StoreFailed")
      const kept = Checkpoints.Checkpoints.of({
        save: () => Effect.never,
        list: () => Effect.succeed([]),
        content: () => Effect.succeed(undefined),
        forget: () => Effect.void,
        prune: Effect.succeed(0)
      })
      assert.strictEqual((yield* Effect.flip(Faults.checkpoints(faults, kept).list("ada"))).reason, "Store")
    }))

  it.effect("keeps people from answering, or has them answer twice", () =>
    VirtualTime.run(
      Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        const ask = Effect.fnUntraced(function*() {
          const request = yield* approvals.request({
            principal: "ada",
            agentPath: [],
            batch: "1",
            process: "1",
            callId: "1",
            index: 0,
            tool: "add",
            class: "SerialMut",
            args: {},
            targets: [],
            why: "",
            preview: undefined,
            isRunning: false,
            remember: "call"
          })
          const asking = yield* Effect.forkChild(approvals.submit(request), { startImmediately: true })
          return { request, asking }
        })
        const lost = yield* ask()
        const answer = (kind: Faults.Kind, id: string) =>
          Effect.result(Faults.approvals(always(kind), approvals).answer(id, { _tag: "ApproveOnce" }))
        yield* answer("fails", lost.request.id)
        assert.lengthOf(yield* approvals.list, 1)
        const second = yield* answer("twice", lost.request.id)
        // the first of the two was taken
        assert.isTrue(second._tag === "Failure" && second.failure.reason === "NotPending")
        assert.lengthOf(yield* approvals.list, 0)
      }).pipe(Effect.scoped)
    ))

  it.effect("silences an approver", () =>
    Effect.gen(function*() {
      const put = (kind: Faults.Kind) =>
        became(
          Faults.approver(always(kind), () => Effect.succeed({ _tag: "ApproveOnce" } as const))(
            {} as Approvals.ApprovalRequest
          )
        )
      assert.strictEqual(yield* put("hangs"), "nothing at 60000")
      assert.strictEqual(yield* put("late"), "done at 1000")
      assert.strictEqual(yield* put("dies"), "Die at 0")
    }))

  it.effect("does to a model what it says", () =>
    Effect.gen(function*() {
      const play = Effect.fnUntraced(function*(kind: Faults.Kind) {
        const { model } = yield* ScriptedModel.make([{ text: "a b", calls: [{ name: "nope" }] }])
        const faulty = Faults.model(always(kind), model)
        const seen: Array<string> = []
        const how = yield* became(
          Stream.runForEach(
            LanguageModel.streamText({
              prompt: "go",
              toolkit: Toolkit.make(Tool.make("nope")),
              disableToolCallResolution: true
            }),
            (part) => Effect.sync(() => seen.push(part.type))
          ).pipe(
            Effect.provideService(LanguageModel.LanguageModel, faulty),
            Effect.provide(Toolkit.make(Tool.make("nope")).toLayer({ nope: () => Effect.void }))
          )
        )
        return [how, seen.length, seen.filter((it) => it === "tool-call").length]
      })
      assert.deepStrictEqual(yield* play("fails"), ["Fail at 0", 0, 0])
      assert.deepStrictEqual(yield* play("dies"), ["Die at 0", 0, 0])
      assert.deepStrictEqual(yield* play("hangs"), ["nothing at 60000", 0, 0])
      assert.deepStrictEqual(yield* play("late"), ["done at 1000", 10, 1])
      assert.deepStrictEqual(yield* play("loses"), ["Fail at 0", 10, 1])
      assert.deepStrictEqual(yield* play("twice"), ["done at 0", 11, 2])
      assert.deepStrictEqual(yield* play("cut"), ["done at 0", 2, 0])
    }))

  it.effect("takes no outcome, no event and no end from an executor that is in it", () =>
    Effect.gen(function*() {
      const faults = Faults.make({ seed: 3, rate: 0.2, late: "5 millis" })
      const faulty = ToolExecutor.layer.pipe(
        Layer.provide(Layer.effect(
          StateStore.StateStore,
          Effect.map(StateStore.StateStore, (it) => Faults.stateStore(faults, it))
        )),
        Layer.provide(Layer.effect(
          Approvals.Approvals,
          Effect.map(Approvals.Approvals, (it) => Faults.approvals(faults, it))
        ))
      )
      const { judged } = yield* Laws.laws(ToolExecutor.layer, { runs: 1 })
      // what a store says that is out of order is no limit, no key and no grant
      const held = judged.filter((it) => !/limit|MaxCalls|cools down|duplicate|equal call|given back|grant/.test(it))
      const report = yield* Laws.laws(faulty, { runs: 40, without: judged.filter((it) => !held.includes(it)) })
      assert.deepStrictEqual(report.violations, [], Laws.describe(report))
      assert.isAbove((yield* faults.injected).length, 100)
      assert.isAbove(held.length, 12)
    }))
})
