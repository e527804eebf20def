/**
 * What a handler may try to get round a question, a limit or its own end, and
 * what others may do at the worst moment.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import {
  Checkpoints,
  ToolAnnotations,
  ToolContext,
  type ToolExecutor,
  type ToolOutcome
} from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import * as Harness from "../../../support/Harness.ts"

const { call, calls, tag, tags } = Harness

const virtual = <A, E>(effect: Effect.Effect<A, E, Scope.Scope>) =>
  VirtualTime.run(Effect.scoped(effect), { limit: "1 day" })

const agent = (handler: Harness.Handler): Harness.ToolSpec => ({
  handler,
  annotate: (tool: Tool.Any) => tool.annotate(Tool.Readonly, false).annotate(ToolAnnotations.Recursive, true)
})
const serial = (handler: Harness.Handler, preview?: Effect.Effect<ReadonlyArray<Change>>): Harness.ToolSpec => ({
  class: "SerialMut",
  handler,
  annotate: (tool) => preview === undefined ? tool : tool.annotate(ToolAnnotations.Preview, () => preview)
})

interface Change {
  readonly path: string
  readonly before: string
  readonly after: string
}

const yes = { _tag: "ApproveOnce" } as const
const context = ToolContext.ToolContext
const confirm = Effect.flatMap(
  context,
  (it) => it.confirmWrite(Effect.succeed([{ path: "a", before: "1", after: "2" }]))
)
const asksPatch = { default: "allow", ask: ["patch(*)"] } as const

const inMemory = Effect.map(Layer.build(Checkpoints.layerMemory()), (it) => Context.get(it, Checkpoints.Checkpoints))

/** A store that settles a while later. */
const slowStore = (): StateStore.StateStore["Service"] => {
  const store = StateStore.makeMemory()
  return { ...store, settle: (...args) => Effect.delay(Effect.suspend(() => store.settle(...args)), 100) }
}

/** Answers the oldest question. */
const answer = (approvals: Approvals.Approvals["Service"], it: Approvals.Answer = yes) =>
  Effect.flatMap(approvals.list, ([oldest]) => approvals.answer(oldest!.id, it))

describe("a question from inside a handler", () => {
  it.effect("is not asked for a call that ends just then, and no permit and no clock is lost", () =>
    virtual(Effect.gen(function*() {
      for (const store of [undefined, slowStore()]) {
        const approvals = yield* Approvals.make()
        const found: { process?: Harness.Env["process"] } = {}
        const { process } = yield* Harness.open({
          patch: serial(() => Effect.andThen(Effect.sleep("1 second"), confirm)),
          stop: serial(() => found.process!.cancelCall("1")),
          other: serial(() => Effect.void),
          long: { class: "ConcurrentMut", handler: () => Effect.sleep("1 minute") },
          read: () => Effect.void
        }, {
          approvals,
          policy: asksPatch,
          turn: { timeout: "20 seconds", minimumSlice: "100 seconds" },
          ...store === undefined ? {} : { store }
        })
        found.process = process
        const patch = yield* Effect.forkScoped(process.execute(call("1", "patch", {})))
        yield* Effect.sleep("10 millis")
        const stop = yield* Effect.forkScoped(process.execute(call("2", "stop", {})))
        assert.strictEqual((yield* Fiber.join(patch))._tag, "Cancelled")
        yield* Fiber.join(stop)
        yield* Effect.sleep("1 second")
        assert.lengthOf(yield* approvals.list, 0)
        assert.strictEqual((yield* process.execute(call("3", "other", {})))._tag, "Succeeded")
        // the turn's clock goes on while something runs, though a person is asked
        yield* Effect.forkScoped(process.execute(call("4", "long", {})))
        yield* Effect.forkScoped(process.execute(call("5", "patch", { n: 2 })))
        yield* Effect.sleep("40 seconds")
        assert.strictEqual(tag(yield* process.execute(call("6", "read", {}))), "DeadlineExceeded")
      }
    })))

  it.effect("is a defect inside a commit: there the write has begun", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { process } = yield* Harness.open({
        patch: serial(() => Effect.flatMap(context, (it) => it.commit(confirm)))
      }, { approvals, policy: asksPatch })
      const outcome = yield* process.execute(call("1", "patch", {}))
      assert.isTrue(outcome._tag === "Failed" && outcome.origin === "defect")
      assert.include(outcome._tag === "Failed" ? String(outcome.error) : "", "confirm first, then commit")
    })))

  it.effect("about nothing is remembered for nothing", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { executor, process } = yield* Harness.open({
        patch: {
          class: "SerialMut",
          annotate: (tool) => tool.annotate(ToolAnnotations.Targets, () => [{ text: "declared" }]),
          handler: () => Effect.flatMap(context, (it) => it.confirmWrite(Effect.succeed([])))
        }
      }, { approvals, policy: { default: "ask", allow: ["patch(declared)"] } })
      yield* Effect.forkScoped(process.execute(call("1", "patch", {})))
      yield* Effect.sleep("1 second")
      yield* answer(approvals, { _tag: "ApproveForScope" })
      yield* Effect.sleep("1 second")
      assert.lengthOf(yield* executor.grants, 0)
    })))

  it.effect("is refused where the handler's own call waits for what it holds, and does not hang", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const found: { process?: Harness.Env["process"]; inner?: string } = {}
      const keyed = (tool: Tool.Any) => tool.annotate(ToolAnnotations.Resources, () => ["k"])
      const { process } = yield* Harness.open({
        patch: {
          class: "SerialMut",
          annotate: keyed,
          handler: () =>
            Effect.all([
              confirm,
              Effect.delay(
                Effect.suspend(() =>
                  Effect.map(found.process!.execute(call("n", "inner", {})), (it) => {
                    found.inner = tag(it)
                  })
                ),
                "15 seconds"
              )
            ], { concurrency: 2 })
        },
        inner: { class: "ConcurrentMut", annotate: keyed, handler: () => Effect.void },
        slow: serial(() => Effect.sleep("20 seconds"))
      }, { approvals, policy: { default: "allow", ask: ["patch(a)"] } })
      found.process = process
      const patch = yield* Effect.forkScoped(process.execute(call("1", "patch", {})))
      yield* Effect.sleep("1 second")
      yield* Effect.forkScoped(process.execute(call("2", "slow", {})))
      yield* Effect.sleep("1 second")
      yield* answer(approvals)
      assert.strictEqual((yield* Fiber.join(patch))._tag, "Succeeded")
      assert.strictEqual(found.inner, "ReentryRefused")
    })))
})

describe("a write", () => {
  it.effect("that fails half-way keeps what was there before", () =>
    virtual(Effect.gen(function*() {
      const checkpoints = yield* inMemory
      const files = { a: "1", b: "1" }
      const preview = Effect.sync(() => [
        { path: "a", before: files.a, after: "2" },
        { path: "b", before: files.b, after: "2" }
      ])
      const { process } = yield* Harness.open({
        patch: serial(() =>
          Effect.flatMap(context, (it) =>
            it.commit(Effect.suspend(() => {
              files.a = "2"
              return Effect.fail("disk full")
            }))), preview)
      }, { checkpoints })
      assert.strictEqual((yield* process.execute(call("1", "patch", {})))._tag, "Failed")
      const [kept] = yield* checkpoints.list("default")
      assert.strictEqual(new TextDecoder().decode(yield* checkpoints.content(kept!, "a")), "1")
    })))

  it.effect("beside another one of its call is looked at with it, and keeps what was there before both", () =>
    virtual(Effect.gen(function*() {
      for (const meanwhile of ["1", "a person's"]) {
        const approvals = yield* Approvals.make()
        const checkpoints = yield* inMemory
        const files = { a: "1", b: "1" }
        const preview = Effect.delay(
          Effect.sync(() => [{ path: "a", before: files.a, after: "2" }, { path: "b", before: files.b, after: "2" }]),
          10
        )
        const set = (name: "a" | "b") =>
          Effect.sync(() => {
            files[name] = "2"
          })
        const { process } = yield* Harness.open({
          patch: serial(
            () =>
              Effect.flatMap(
                context,
                (it) => Effect.all([it.commit(set("a")), it.commit(set("b"))], { concurrency: 2 })
              ),
            preview
          )
        }, { approvals, checkpoints, policy: { default: "ask" } })
        const patch = yield* Effect.forkScoped(process.execute(call("1", "patch", {})))
        yield* Effect.sleep("1 second")
        files.b = meanwhile
        yield* answer(approvals)
        const outcome = yield* Fiber.join(patch)
        if (meanwhile === "1") {
          assert.strictEqual(outcome._tag, "Succeeded")
          const [kept] = yield* checkpoints.list("default")
          assert.strictEqual(new TextDecoder().decode(yield* checkpoints.content(kept!, "b")), "1")
        } else {
          assert.deepStrictEqual([outcome._tag, outcome.commits, files], ["Failed", 0, { a: "1", b: "a person's" }])
        }
      }
    })))

  it.effect("does not happen if the file changes while what was there is kept", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const memory = yield* inMemory
      const files = { a: "one" }
      const { process } = yield* Harness.open({
        patch: serial(
          () =>
            Effect.flatMap(context, (it) =>
              it.commit(Effect.sync(() => {
                files.a = "ONE"
              }))),
          Effect.sync(() => [{ path: "a", before: files.a, after: "ONE" }])
        )
      }, {
        approvals,
        policy: { default: "ask" },
        checkpoints: { ...memory, save: (write) => Effect.delay(memory.save(write), "2 seconds") }
      })
      const patch = yield* Effect.forkScoped(process.execute(call("1", "patch", {})))
      yield* Effect.sleep("1 second")
      yield* answer(approvals)
      yield* Effect.sleep("1 second")
      files.a = "a person's"
      assert.strictEqual((yield* Fiber.join(patch))._tag, "Failed")
      assert.strictEqual(files.a, "a person's")
      assert.lengthOf(yield* memory.list("default"), 0)
    })))
})

describe("a call limit", () => {
  it.effect("holds in whatever batch a handler begins, with whatever executor", () =>
    Harness.run(
      {
        read: () => Effect.void,
        sub: agent(({ how }) =>
          Effect.gen(function*() {
            const { executor } = yield* context
            const child = yield* executor!.fork()
            const grand = yield* child.fork()
            const chosen = how === "own" ? executor! : how === "child" ? child : grand
            const process = yield* chosen.process({ batch: how === "named" ? "fresh" : undefined })
            return tags(yield* process.executeWave([call("r", "read", { how })]))
          }).pipe(Effect.scoped)
        )
      },
      { rules: [{ _tag: "MaxCalls", tool: "read", max: 1 }] },
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("read"))
          for (const how of ["own", "child", "grandchild", "named"]) {
            const outcome = yield* process.execute(call(how, "sub", { how }))
            const output = outcome._tag === "Succeeded" && outcome.output._tag === "Inline"
              ? outcome.output.value
              : outcome
            assert.deepStrictEqual(output, ["RuleViolation"], how)
          }
        })
    ))

  it.effect("is not forgotten with a sub-agent's batch of the same name", () =>
    Harness.run(
      { read: () => Effect.void },
      { rules: [{ _tag: "MaxCalls", tool: "read", max: 1 }], dedupe: false },
      ({ executor }) =>
        Effect.gen(function*() {
          const scope = yield* Scope.make()
          const child = yield* Scope.provide(executor.fork(), scope)
          yield* Scope.provide(child.batch("x"), scope)
          const process = yield* executor.process({ batch: "x" })
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("read"))), ["Succeeded"])
          yield* Scope.close(scope, Exit.void)
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("read"))), ["RuleViolation"])
        })
    ))
})

describe("a sub-agent's end", () => {
  it.effect("is that of every sub-agent below it, of those to come, too", () =>
    Harness.run({ read: () => Effect.void }, {}, ({ executor }) =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const child = yield* Scope.provide(executor.fork(), scope)
        const grand = yield* child.fork()
        const below = yield* grand.process()
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(tags(yield* below.executeWave(calls("read"))), ["Cancelled"])
        const late = yield* (yield* child.fork()).process()
        assert.deepStrictEqual(tags(yield* late.executeWave(calls("read"))), ["Cancelled"])
      })))

  it.effect("leaves nothing with the call that made it", () =>
    Harness.run(
      {
        sub: agent(() =>
          Effect.gen(function*() {
            const live = yield* context
            for (let n = 0; n < 10; n++) yield* Effect.scoped(live.executor!.fork())
            const { attempt } = live as unknown as {
              readonly attempt: { readonly ends: { readonly waiting: ReadonlySet<unknown> } }
            }
            return attempt.ends.waiting.size
          })
        )
      },
      {},
      ({ process }) =>
        Effect.map(process.execute(call("1", "sub", {})), (outcome) => {
          assert.strictEqual(
            outcome._tag === "Succeeded" && outcome.output._tag === "Inline" && outcome.output.value,
            0
          )
        })
    ))

  it.effect("comes with its caller's time, which no smallest slice makes longer", () => {
    const told: Array<number> = []
    return Harness.run(
      {
        slow: () => Effect.map(context, (it) => void told.push(it.deadline)),
        sub: agent(() =>
          Effect.gen(function*() {
            const it = yield* context
            told.push(it.deadline)
            yield* Effect.sleep("2 seconds")
            const process = yield* (yield* it.executor!.fork()).process()
            yield* process.executeWave(calls("slow"))
          }).pipe(Effect.scoped)
        )
      },
      { executionTimeout: "3 seconds", tools: { slow: { timeout: "1 minute" } } },
      ({ process }) => Effect.map(process.executeWave(calls("sub")), () => assert.strictEqual(told[0], told[1]))
    )
  })
})

describe("a handler whose call has its outcome", () => {
  it.effect("makes no calls any more in the batch that goes on", () => {
    const tried: Array<ReadonlyArray<string>> = []
    return Harness.run(
      {
        read: () => Effect.void,
        deaf: () =>
          Effect.uninterruptible(Effect.gen(function*() {
            const { executor } = yield* context
            const process = yield* executor!.process()
            yield* Effect.sleep("20 seconds")
            const other = yield* executor!.process({ batch: "other" })
            tried.push(tags(yield* process.executeWave(calls("read"))), tags(yield* other.executeWave(calls("read"))))
          })).pipe(Effect.scoped)
      },
      { executionTimeout: "10 seconds" },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("deaf"))), ["TimedOut"])
          yield* Effect.sleep("1 minute")
          assert.deepStrictEqual(tried, [["Cancelled"], ["Cancelled"]])
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("read"))), ["Succeeded"])
        })
    )
  })

  it.effect("makes no calls any more, with its own executor or any other that it holds on to", () => {
    let root: ToolExecutor.Service
    const tried: Array<ReadonlyArray<string>> = []
    const attempt = (executor: ToolExecutor.Service) =>
      Effect.scoped(Effect.gen(function*() {
        const process = yield* executor.process()
        tried.push(tags(yield* process.executeWave([call("w", "write", { n: tried.length })])))
      }))
    return Harness.run(
      {
        write: serial(() => Effect.void),
        sneaky: () =>
          Effect.gen(function*() {
            const { executor } = yield* context
            yield* attempt(root)
            yield* Effect.sleep("20 seconds")
            yield* attempt(root)
            yield* attempt(executor!)
            yield* Effect.scoped(Effect.flatMap(executor!.fork(), attempt))
          }).pipe(Effect.uninterruptible),
        sub: agent(() =>
          Effect.gen(function*() {
            const child = yield* Effect.flatMap(context, (it) => it.executor!.readOnly())
            yield* (yield* child.process()).executeWave(calls("sneaky"))
          }).pipe(Effect.scoped)
        )
      },
      { executionTimeout: "10 seconds" },
      ({ executor, process }) =>
        Effect.gen(function*() {
          root = executor
          yield* process.executeWave(calls("sub"))
          yield* Effect.sleep("1 minute")
          assert.deepStrictEqual(tried, [["PolicyDenied"], ["Cancelled"], ["Cancelled"], ["Cancelled"]])
        })
    )
  })
})

describe("a fork at a pool that is the host's own", () => {
  it.effect("does not wait for its own caller", () =>
    Harness.run(
      {
        write: { class: "ConcurrentMut", handler: () => Effect.void },
        sub: agent(() =>
          Effect.gen(function*() {
            const child = yield* Effect.flatMap(context, (it) => it.executor!.fork())
            return tags(yield* (yield* child.process()).executeWave(calls("write")))
          }).pipe(Effect.scoped)
        )
      },
      { pools: { concurrent: Semaphore.makeUnsafe(1) } },
      ({ process }) =>
        Effect.map(process.execute(call("1", "sub", {})), (it) =>
          assert.deepStrictEqual(it._tag === "Succeeded" && it.output._tag === "Inline" && it.output.value, [
            "Succeeded"
          ]))
    ))
})

describe("a remembered answer", () => {
  it.effect("to a call of which nobody knows what it is about is remembered for nothing", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { executor, process } = yield* Harness.open({
        write: {
          class: "ConcurrentMut",
          handler: () => Effect.void,
          annotate: (tool) => tool.annotate(ToolAnnotations.Targets, () => Effect.die("broken"))
        }
      }, { approvals, policy: { default: "ask" } })
      const first = yield* Effect.forkScoped(process.execute(call("1", "write", {})))
      yield* Effect.sleep("1 second")
      yield* answer(approvals, { _tag: "ApproveForScope", scope: "tool" })
      assert.strictEqual((yield* Fiber.join(first))._tag, "Succeeded")
      assert.lengthOf(yield* executor.grants, 0)
    })))

  it.effect("is about the keys that a call touches, where its tool says nothing else", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { executor, process } = yield* Harness.open({
        deploy: {
          class: "ConcurrentMut",
          handler: () => Effect.void,
          annotate: (tool) =>
            tool.annotate(ToolAnnotations.Resources, (params) => [(params as { readonly env: string }).env])
        }
      }, { approvals, policy: { default: "allow", ask: ["deploy"] } })
      const dev = yield* Effect.forkScoped(process.execute(call("1", "deploy", { env: "dev" })))
      yield* Effect.sleep("1 second")
      yield* answer(approvals, { _tag: "ApproveForScope" })
      assert.strictEqual((yield* Fiber.join(dev))._tag, "Succeeded")
      assert.deepStrictEqual((yield* executor.grants).map((it) => it.targets), [["dev"]])
      yield* Effect.forkScoped(process.execute(call("2", "deploy", { env: "prod" })))
      yield* Effect.sleep("1 second")
      assert.deepStrictEqual((yield* approvals.list).map((it) => it.targets), [[{ text: "prod" }]])
    })))

  it.effect("to a tool that says in a wrong form what it is about is remembered for nothing", () =>
    virtual(Effect.gen(function*() {
      for (const wrong of [["a"], [{ target: "a" }], [{ text: 7 }], null, "a", Promise.resolve([]), [null]]) {
        const approvals = yield* Approvals.make()
        const { executor, process } = yield* Harness.open({
          write: {
            class: "ConcurrentMut",
            handler: () => Effect.void,
            annotate: (tool) => tool.annotate(ToolAnnotations.Targets, () => wrong as never)
          }
        }, { approvals, policy: { default: "ask", allow: ["write(*)"] } })
        const wave = yield* Effect.forkScoped(process.execute(call("1", "write", {})))
        yield* Effect.sleep("1 second")
        yield* answer(approvals, { _tag: "ApproveForScope" })
        assert.strictEqual((yield* Fiber.join(wave))._tag, "Succeeded")
        assert.lengthOf(yield* executor.grants, 0)
      }
    })))

  it.effect("for a whole tool is none to what is protected", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { process } = yield* Harness.open({
        write: {
          class: "ConcurrentMut",
          handler: () => Effect.void,
          annotate: (tool) =>
            tool.annotate(ToolAnnotations.Targets, (params) => {
              const { path } = params as { readonly path: string }
              return [path === ".git" ? { text: path, kind: "protected" } : { text: path }]
            })
        }
      }, { approvals, policy: { default: "ask" } })
      const first = yield* Effect.forkScoped(process.execute(call("1", "write", { path: "a" })))
      yield* Effect.sleep("1 second")
      yield* answer(approvals, { _tag: "ApproveForScope", scope: "tool" })
      yield* Fiber.join(first)
      assert.strictEqual((yield* process.execute(call("2", "write", { path: "b" })))._tag, "Succeeded")
      yield* Effect.forkScoped(process.execute(call("3", "write", { path: ".git" })))
      yield* Effect.sleep("1 second")
      assert.lengthOf(yield* approvals.list, 1)
    })))

  it.effect("that is taken back elsewhere, or while the start is noted, lets nothing start", () =>
    virtual(Effect.gen(function*() {
      for (const place of ["elsewhere", "here"] as const) {
        const approvals = yield* Approvals.make()
        const memory = StateStore.makeMemory()
        let isSlow = false
        const store: StateStore.StateStore["Service"] = {
          ...memory,
          mutated: (principal) =>
            isSlow
              ? Effect.delay(Effect.suspend(() => memory.mutated(principal)), 3_000)
              : memory.mutated(principal)
        }
        let ran = 0
        const tools = {
          write: serial(() => Effect.sync(() => void ran++)),
          slow: serial(() => Effect.sleep("10 seconds"))
        }
        const options = { approvals, store, policy: { default: "allow", ask: ["write"] } } as const
        const here = yield* Harness.open(tools, options)
        const elsewhere = yield* Harness.open(tools, options)
        const first = yield* Effect.forkScoped(here.process.execute(call("1", "write", {})))
        yield* Effect.sleep("1 second")
        yield* answer(approvals, { _tag: "ApproveForScope" })
        yield* Fiber.join(first)
        if (place === "elsewhere") yield* Effect.forkScoped(here.process.execute(call("2", "slow", {})))
        else isSlow = true
        yield* Effect.sleep("1 second")
        const second = yield* Effect.forkScoped(here.process.execute(call("3", "write", { n: 2 })))
        yield* Effect.sleep("1 second")
        yield* (place === "elsewhere" ? elsewhere : here).executor.revoke({ tool: "write" })
        assert.strictEqual(tag(yield* Fiber.join(second)), "PermissionDenied", place)
        assert.strictEqual(ran, 1)
      }
    })))

  it.effect("that comes while a preview is made lets its call through", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { process } = yield* Harness.open({
        write: {
          class: "ConcurrentMut",
          handler: () => Effect.void,
          annotate: (tool) =>
            tool.annotate(ToolAnnotations.Preview, (params) =>
              Effect.delay(Effect.succeed([]), (params as { readonly n: number }).n * 1_000))
        }
      }, { approvals, policy: { default: "ask" } })
      const wave = yield* Effect.forkScoped(process.executeWave(calls("write", "write")))
      yield* Effect.sleep("1500 millis")
      yield* answer(approvals, { _tag: "ApproveForScope" })
      assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded"])
    })))
})

describe("a question", () => {
  it.effect("to who has gone is answered at once", () =>
    virtual(Effect.gen(function*() {
      const scope = yield* Scope.make()
      const approvals = yield* Scope.provide(Approvals.make(), scope)
      const { process } = yield* Harness.open({ write: serial(() => Effect.void) }, {
        approvals,
        policy: { default: "ask" }
      })
      yield* Scope.close(scope, Exit.void)
      const from = yield* VirtualTime.now
      const outcome = yield* process.execute(call("1", "write", {}))
      assert.isTrue(
        outcome._tag === "Denied" && outcome.reason._tag === "PermissionDenied" && outcome.reason.by === "closed"
      )
      assert.strictEqual(yield* VirtualTime.now, from)
    })))

  it.effect("with no time at all is answered with silence", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make({ timeout: 0 })
      const { process } = yield* Harness.open({ write: serial(() => Effect.void) }, {
        approvals,
        policy: { default: "ask" }
      })
      assert.strictEqual(tag(yield* process.execute(call("1", "write", {}))), "PermissionDenied")
    })))

  it.effect("ends with the turn, up front as well, though other waves run", () =>
    virtual(Effect.gen(function*() {
      for (const approval of ["perCall", "upfront"] as const) {
        const approvals = yield* Approvals.make()
        const { process } = yield* Harness.open({
          write: serial(() => Effect.void),
          long: () => Effect.sleep("30 seconds")
        }, {
          approvals,
          approval,
          turn: { timeout: "10 seconds", minimumSlice: "1 minute" },
          policy: { default: "allow", ask: ["write"] }
        })
        yield* Effect.forkScoped(process.execute(call("0", "long", {})))
        const wave = yield* Effect.forkScoped(process.execute(call("1", "write", {})))
        yield* Effect.sleep("15 seconds")
        assert.lengthOf(yield* approvals.list, 0, approval)
        assert.strictEqual(tag(yield* Fiber.join(wave)), "DeadlineExceeded", approval)
      }
    })))

  it.effect("that is answered late leaves the turn what it had, also while the call waits for others", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { batch } = yield* Harness.open({
        write: serial(() => Effect.void),
        long: serial(() => Effect.sleep("1 minute"))
      }, { approvals, turn: { timeout: "20 seconds" }, policy: { default: "allow", ask: ["write"] } })
      const [one, other] = [yield* batch.process(), yield* batch.process({ turn: {} })]
      const from = yield* VirtualTime.now
      const wave = yield* Effect.forkScoped(one.execute(call("1", "write", {})))
      yield* Effect.sleep("50 seconds")
      yield* Effect.forkScoped(other.execute(call("2", "long", {})))
      yield* Effect.sleep("10 seconds")
      yield* answer(approvals)
      assert.strictEqual(tag(yield* Fiber.join(wave)), "DeadlineExceeded")
      assert.strictEqual((yield* VirtualTime.now) - from, 80_000)
    })))

  it.effect("is not asked once the turn is over while the preview was made", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      let asked = 0
      const { process } = yield* Harness.open({
        write: serial(() => Effect.void, Effect.delay(Effect.succeed([]), "4 seconds"))
      }, {
        approvals: {
          ...approvals,
          submit: (...args) => {
            asked++
            return approvals.submit(...args)
          }
        },
        turn: { timeout: "2 seconds" },
        policy: { default: "ask" }
      })
      assert.strictEqual(tag(yield* process.execute(call("1", "write", {}))), "DeadlineExceeded")
      assert.strictEqual(asked, 0)
    })))

  it.effect("about a call behind the place where a wave stops is withdrawn", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { process } = yield* Harness.open({ write: { class: "ConcurrentMut", handler: () => Effect.void } }, {
        approvals,
        onExecutionError: "stop",
        policy: { default: "ask" }
      })
      const wave = yield* Effect.forkScoped(process.executeWave(calls("write", "write", "write")))
      yield* Effect.sleep("1 second")
      yield* answer(approvals, { _tag: "Deny" })
      yield* Effect.sleep("1 second")
      assert.lengthOf(yield* approvals.list, 0)
      assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["PermissionDenied", "Skipped", "Skipped"])
    })))

  it.effect("up front does not hold who is interrupted while a store does not answer", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { process } = yield* Harness.open({ write: serial(() => Effect.void) }, {
        approvals,
        approval: "upfront",
        store: { ...StateStore.makeMemory(), reserve: () => Effect.never },
        policy: { default: "ask" }
      })
      const wave = yield* Effect.forkScoped(process.executeWave(calls(...Array.from({ length: 20 }, () => "write"))))
      yield* Effect.sleep("1 second")
      const from = yield* VirtualTime.now
      yield* Fiber.interrupt(wave)
      assert.isAtMost((yield* VirtualTime.now) - from, 10_000)
    })))

  it.effect("answered with other arguments takes the control argument out of them, too", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const seen: Array<unknown> = []
      const { process } = yield* Harness.open(
        { write: serial((params) => Effect.sync(() => void seen.push(params))) },
        {
          approvals,
          heartbeats: true,
          policy: { default: "ask" }
        }
      )
      const wave = yield* Effect.forkScoped(process.execute(call("1", "write", { n: 1 })))
      yield* Effect.sleep("1 second")
      yield* answer(approvals, { _tag: "ApproveOnce", params: { n: 2, request_heartbeat: true } })
      yield* Fiber.join(wave)
      assert.deepStrictEqual(seen, [{ n: 2 }])
    })))
})

describe("a call whose arguments a person edits", () => {
  it.effect("shares no result with calls that equal what it was", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { process } = yield* Harness.open({
        read: { class: "ConcurrentMut", handler: ({ file }) => Effect.succeed(file) }
      }, {
        approvals,
        policy: { default: "ask" },
        dedupe: { inFlight: "join" },
        guards: [{
          name: "slow",
          check: ({ args }) =>
            (args as { readonly file: string }).file === "z" ? Effect.sleep("5 seconds") : Effect.void
        }]
      })
      const first = yield* Effect.forkScoped(process.execute(call("a", "read", { file: "x" })))
      yield* Effect.sleep("1 second")
      yield* answer(approvals, { _tag: "ApproveOnce", params: { file: "z" } })
      const grants = yield* Effect.forkScoped(process.execute(call("b", "read", { file: "x", n: 2 })))
      yield* Effect.sleep("1 second")
      yield* answer(approvals, { _tag: "ApproveForScope" })
      const equal = yield* Effect.forkScoped(process.execute(call("c", "read", { file: "x" })))
      const outputOf = (it: ToolOutcome.ToolOutcome) =>
        it._tag === "Succeeded" && it.output._tag === "Inline" ? it.output.value : tag(it)
      assert.strictEqual(outputOf(yield* Fiber.join(first)), "z")
      assert.strictEqual(outputOf(yield* Fiber.join(grants)), "x")
      assert.strictEqual(outputOf(yield* Fiber.join(equal)), "DuplicateCall")
    })))

  it.effect("gives back what it had if the store cannot be reached for the rest", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const memory = StateStore.makeMemory()
      const { process } = yield* Harness.open({ write: serial(() => Effect.void) }, {
        approvals,
        policy: { default: "ask" },
        store: {
          ...memory,
          reserve: (requests, now) =>
            requests.every(({ replaces }) => replaces === undefined)
              ? memory.reserve(requests, now)
              : Effect.fail(new StateStore.StateStoreError({ operation: "reserve", cause: "down" }))
        }
      })
      const first = yield* Effect.forkScoped(process.execute(call("1", "write", { n: 1 })))
      yield* Effect.sleep("1 second")
      yield* answer(approvals, { _tag: "ApproveOnce", params: { n: 2 } })
      assert.strictEqual(tag(yield* Fiber.join(first)), "StoreUnavailable")
      const again = yield* Effect.forkScoped(process.execute(call("2", "write", { n: 1 })))
      yield* Effect.sleep("1 second")
      yield* answer(approvals)
      assert.strictEqual((yield* Fiber.join(again))._tag, "Succeeded")
    })))
})

describe("what happens while a call is noted before its start", () => {
  for (const what of ["revoke", "cancel", "deadline"] as const) {
    it.effect(`counts: ${what}`, () =>
      virtual(Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        const memory = yield* inMemory
        let ran = 0
        const write: Harness.ToolSpec = {
          ...serial(() => Effect.sync(() => void ran++)),
          annotate: (tool) => tool.annotate(ToolAnnotations.ChangesFiles, true)
        }
        const { batch, executor } = yield* Harness.open({ write }, {
          approvals,
          policy: { default: "ask" },
          checkpoints: { ...memory, save: (it) => Effect.delay(memory.save(it), "2 seconds") }
        })
        const first = yield* batch.process()
        const granting = yield* Effect.forkScoped(first.execute(call("1", "write", { n: 1 })))
        yield* Effect.sleep("1 second")
        yield* answer(approvals, { _tag: "ApproveForScope" })
        assert.strictEqual((yield* Fiber.join(granting))._tag, "Succeeded")
        const process = yield* batch.process({ turn: { timeout: what === "deadline" ? "1 second" : "1 hour" } })
        const wave = yield* Effect.forkScoped(process.execute(call("2", "write", { n: 2 })))
        yield* Effect.sleep("500 millis")
        if (what === "revoke") yield* executor.revoke({ tool: "write" })
        if (what === "cancel") yield* process.cancelCall("2")
        const outcome = tag(yield* Fiber.join(wave))
        assert.strictEqual(
          outcome,
          { revoke: "PermissionDenied", cancel: "Cancelled", deadline: "DeadlineExceeded" }[what]
        )
        yield* Effect.sleep("5 seconds")
        assert.strictEqual(ran, 1)
        assert.deepStrictEqual((yield* memory.list("default")).map((it) => it.callId), ["1"])
      })))
  }
})

describe("a call behind another one", () => {
  it.effect("that waits for the other's keys to be known is cancelled at once", () =>
    virtual(Effect.gen(function*() {
      const { process } = yield* Harness.open({
        write: {
          class: "ConcurrentMut",
          handler: ({ n }) => n === 1 ? Effect.sleep("1 minute") : Effect.void,
          annotate: (tool) =>
            tool.annotate(ToolAnnotations.Resources, (params) => {
              const { n } = params as { readonly n: number }
              return n === 1 ? Effect.delay(Effect.succeed(["k"]), "1 second") : ["k"]
            })
        }
      })
      const from = yield* VirtualTime.now
      const second = yield* Effect.forkScoped(
        Stream.runHead(Stream.filter(process.events, (it) => it._tag === "ToolCallComplete")),
        { startImmediately: true }
      )
      yield* Effect.forkScoped(process.executeWave(calls("write", "write")))
      yield* Effect.sleep("500 millis")
      yield* process.cancelCall("2")
      yield* Fiber.join(second)
      assert.strictEqual((yield* VirtualTime.now) - from, 500)
    })))

  it.effect("that writes to the same is refused at once where nobody is there to ask", () =>
    virtual(Effect.gen(function*() {
      const spec = (handler: Harness.Handler): Harness.ToolSpec => ({
        class: "ConcurrentMut",
        handler,
        annotate: (tool) =>
          tool.annotate(ToolAnnotations.Targets, () => [{ text: "a" }]).annotate(
            ToolAnnotations.Preview,
            () => Effect.succeed([])
          )
      })
      const { process } = yield* Harness.open({
        write: spec(() => Effect.sleep("1 minute")),
        patch: spec(() => Effect.void)
      }, { policy: { default: "allow", ask: ["patch"] } })
      const events = yield* Effect.forkScoped(
        Stream.runHead(Stream.filter(process.events, (it) => it._tag === "ToolCallComplete")),
        { startImmediately: true }
      )
      yield* Effect.forkScoped(process.executeWave(calls("write", "patch")))
      const from = yield* VirtualTime.now
      yield* Fiber.join(events)
      assert.strictEqual(yield* VirtualTime.now, from)
    })))

  it.effect("that writes to the same is not asked about once its tool is blocked", () =>
    virtual(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { process } = yield* Harness.open({
        patch: {
          class: "ConcurrentMut",
          handler: () => Effect.never,
          annotate: (tool) =>
            tool.annotate(ToolAnnotations.Resources, () => ["a"]).annotate(
              ToolAnnotations.Preview,
              () => Effect.succeed([])
            )
        }
      }, {
        approvals,
        policy: { default: "ask" },
        executionTimeout: "5 seconds",
        tools: { patch: { retryOnTimeout: false } }
      })
      const wave = yield* Effect.forkScoped(process.executeWave(calls("patch", "patch")))
      yield* Effect.sleep("1 second")
      yield* answer(approvals)
      assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["TimedOut", "ToolBlocked"])
    })))
})
