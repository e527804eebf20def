/**
 * What a handler keeps of its executor acts for its call, wherever that has got
 * to, and ends with the call: no fiber has to know who calls.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import {
  LocalExecutor,
  ToolAnnotations,
  ToolContext,
  type ToolEvent,
  ToolExecutor,
  ToolExecutors,
  ToolHandlers,
  type ToolProcess
} from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import {
  call,
  calls,
  type Env,
  open,
  type Options,
  run,
  tag,
  tags,
  toolkit,
  type ToolSpec,
  value
} from "../../../support/Harness.ts"

type Executor = ToolExecutor.Service

const nobody = Context.get(Context.empty(), ToolContext.ToolContext)

/** As `Effect.runPromise` does it: no fiber knows the caller. */
const apart = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(
    Effect.forkDetach(Effect.provideService(effect, ToolContext.ToolContext, nobody), { startImmediately: true }),
    Fiber.join
  )

const mut = (handler: ToolSpec["handler"]): ToolSpec => ({ class: "SerialMut", handler })
const agent = (handler: ToolSpec["handler"]): ToolSpec => ({
  handler,
  annotate: (tool) => tool.annotate(Tool.Readonly, false).annotate(ToolAnnotations.Recursive, true)
})

/** The executor of a call, and a process in a batch of its own. */
const handle = Effect.gen(function*() {
  const executor = (yield* ToolContext.ToolContext).executor!
  const scope = yield* Scope.make()
  const batch = yield* Effect.provideService(executor.batch(), Scope.Scope, scope)
  return { executor, batch, process: yield* batch.process() }
})

type Handle = Effect.Success<typeof handle>

const read = (it: { readonly process: ToolProcess.ToolProcess }, n: number) =>
  it.process.executeWave([call("r", "read", { n })])

const kit = Toolkit.make(
  Tool.make("read", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.Unknown })
)

/** Every way of making a call with what a handler may keep. */
const doors: Readonly<
  Record<string, (it: Handle, n: number) => Effect.Effect<ReadonlyArray<string>, unknown, Scope.Scope>>
> = {
  "executeWave": (it, n) => Effect.map(read(it, n), tags),
  "execute": ({ process }, n) => Effect.map(process.execute(call("r", "read", { n })), (it) => [tag(it)]),
  "stream": ({ process }, n) =>
    Effect.map(
      Stream.runCollect(process.stream([call("r", "read", { n })])),
      (events: ReadonlyArray<ToolEvent.ToolEvent>) =>
        events.flatMap((it) => it._tag === "ToolCallComplete" ? [tag(it.outcome)] : [])
    ),
  "a step": ({ process }, n) =>
    Effect.map(Effect.flatMap(process.step, (it) => it.execute(call("r", "read", { n }))), (it) => [tag(it.outcome)]),
  "a guarded toolkit": ({ process }, n) =>
    Effect.gen(function*() {
      const toolkit = yield* yield* process.guard(kit)
      const results = yield* Stream.runCollect(yield* toolkit.handle("read", { n }))
      return results.map((it) => it.isFailure ? "Cancelled" : "Succeeded")
    }),
  "call": ({ process }, n) =>
    Effect.match(process.call(kit.tools.read, { n }), {
      onSuccess: () => ["Succeeded"],
      onFailure: (error) => [error instanceof Error && error.message.includes("has its outcome") ? "Cancelled" : "?"]
    }),
  "another process of its batch": ({ batch }, n) =>
    Effect.flatMap(batch.process(), (process) => Effect.map(read({ process }, n), tags)),
  "a batch begun with its executor": ({ executor }, n) =>
    Effect.flatMap(
      executor.batch(),
      (it) => Effect.flatMap(it.process(), (process) => Effect.map(read({ process }, n), tags))
    ),
  "a fork of its executor": ({ executor }, n) =>
    Effect.flatMap(
      executor.fork(),
      (it) =>
        Effect.flatMap(it.batch(), (it) =>
          Effect.flatMap(it.process(), (process) => Effect.map(read({ process }, n), tags)))
    )
}

describe("what a handler kept", () => {
  for (const [door, use] of Object.entries(doors)) {
    for (
      const [how, from] of [["its own fibers", <A, E, R>(it: Effect.Effect<A, E, R>) => it], [
        "no fiber that knows it",
        apart
      ]] as const
    ) {
      it.effect(`makes calls while its call runs, and none after: ${door}, from ${how}`, () => {
        let kept: Handle | undefined
        const found: Array<ReadonlyArray<string>> = []
        return run(
          {
            read: (params) => Effect.succeed(params),
            keep: agent(() =>
              Effect.gen(function*() {
                kept = yield* handle
                found.push(yield* from(Effect.orDie(Effect.scoped(use(kept, 1)))))
              })
            )
          },
          {},
          ({ process }) =>
            Effect.gen(function*() {
              assert.deepStrictEqual(tags(yield* process.executeWave(calls("keep"))), ["Succeeded"])
              found.push(yield* from(Effect.orDie(Effect.scoped(use(kept!, 2)))))
              assert.deepStrictEqual(found, [["Succeeded"], ["Cancelled"]])
              // whoever runs now gets nothing through it either
              assert.deepStrictEqual(tags(yield* process.executeWave(calls(["read", { n: 3 }]))), ["Succeeded"])
            })
        )
      }, { tags: ["H5"] })
    }
  }

  it.effect("makes none for the handler of another call that it was handed to", () => {
    let kept: Handle | undefined
    return run(
      {
        read: () => Effect.void,
        keep: agent(() => Effect.map(handle, (it) => void (kept = it))),
        late: agent(() => Effect.map(read(kept!, 1), tags))
      },
      {},
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("keep"))
          assert.deepStrictEqual(value((yield* process.executeWave(calls("late"))).outcomes[0]), ["Cancelled"])
        })
    )
  })

  it.effect("takes nothing back, closes nothing and cancels nothing any more", () => {
    let kept: Handle | undefined
    return VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const people = yield* Approvals.make()
      const { batch, executor, process } = yield* open({
        read: () => Effect.sleep("1 second"),
        write: mut(() => Effect.void),
        keep: agent(() => Effect.map(handle, (it) => void (kept = it)))
      }, { policy: { default: "allow", ask: ["write"] }, approvals: people })
      const wave = yield* Effect.forkChild(process.executeWave(calls("keep", "write")), { startImmediately: true })
      yield* Effect.sleep("1 second")
      yield* Effect.flatMap(people.list, ([it]) => people.answer(it!.id, { _tag: "ApproveForScope", scope: "tool" }))
      yield* Fiber.join(wave)
      const reading = yield* Effect.forkChild(process.executeWave(calls("read")), { startImmediately: true })
      yield* apart(Effect.gen(function*() {
        assert.strictEqual(yield* kept!.executor.revoke({ tool: "write" }), 0)
        assert.strictEqual(yield* kept!.executor.pruneExpired, 0)
        yield* kept!.executor.completeBatch(batch.id)
        yield* kept!.process.cancel("late")
        yield* kept!.process.cancelCall("1")
      }))
      assert.lengthOf(yield* executor.grants, 1)
      assert.deepStrictEqual(tags(yield* Fiber.join(reading)), ["Succeeded"])
    })))
  }, { tags: ["H5"] })
})

describe("a batch that was entered with a handle", () => {
  const enters = (id: string) =>
    agent(() => Effect.asVoid(Effect.flatMap(handle, ({ executor }) => entered(executor, id))))
  const entered = (executor: Executor, id: string) =>
    Effect.flatMap(Scope.make(), (scope) => Effect.provideService(executor.batch(id), Scope.Scope, scope))
  const inBatch = (executor: Executor, id: string, ...names: ReadonlyArray<string>) =>
    Effect.scoped(Effect.gen(function*() {
      const process = yield* executor.process({ batch: id })
      return tags(yield* process.executeWave(calls(...names)))
    }))
  const once: Options = { rules: [{ _tag: "MaxCalls", tool: "w", max: 1 }] }

  it.effect("is left with its call: the batch ends with whoever else is in it", () =>
    run({ w: mut(() => Effect.void), enter: enters("mine") }, once, ({ executor }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* inBatch(executor, "mine", "enter", "w"), ["Succeeded", "Succeeded"])
        assert.deepStrictEqual(yield* inBatch(executor, "mine", "w"), ["Succeeded"])
      })))

  it.effect("and begun there ends with its call, so that its id is anybody's again", () =>
    run({ w: mut(() => Effect.void), enter: enters("next") }, once, ({ executor }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* inBatch(executor, "first", "enter"), ["Succeeded"])
        assert.deepStrictEqual(yield* inBatch(executor, "next", "w"), ["Succeeded"])
      })))

  it.effect("is not entered at all once the call is over", () => {
    let kept: Handle | undefined
    return run(
      { w: mut(() => Effect.void), keep: agent(() => Effect.map(handle, (it) => void (kept = it))) },
      once,
      ({ executor, process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("keep"))
          yield* Effect.scoped(Effect.gen(function*() {
            yield* executor.batch("mine")
            yield* apart(entered(kept!.executor, "mine"))
            assert.deepStrictEqual(yield* inBatch(executor, "mine", "w"), ["Succeeded"])
          }))
          assert.deepStrictEqual(yield* inBatch(executor, "mine", "w"), ["Succeeded"])
        })
    )
  })
})

describe("an artifact", () => {
  it.effect("is not read for a call that is over", () => {
    let kept: ToolContext.Service | undefined
    const keeps = () =>
      Effect.gen(function*() {
        kept = yield* ToolContext.ToolContext
        return Option.getOrUndefined(yield* kept.artifact("secret"))?.id
      })
    return run({ keeps }, {}, ({ process }) =>
      Effect.gen(function*() {
        const id = String(value((yield* process.executeWave(calls("keeps"))).outcomes[0]))
        const read = yield* Effect.flip(kept!.readArtifact(id, { offset: 0, length: 9 }))
        assert.strictEqual(read.reason, "NotFound")
      }))
  })
})

describe("an executor that a handler is the first to need", () => {
  it.effect("works for nobody: what it fires goes on when the handler's call is over", () => {
    let fired = 0
    const { handlers, kit } = toolkit({
      tick: () => Effect.sync(() => void fired++),
      first: agent(() =>
        Effect.gen(function*() {
          const executors = Context.get(all!, ToolExecutors.ToolExecutors)
          const scope = yield* Scope.make()
          yield* Effect.orDie(Effect.provideService(executors.get("second"), Scope.Scope, scope))
        })
      )
    })
    const layer = ToolExecutors.layer().pipe(
      Layer.provide(LocalExecutor.layerGates({
        policy: { default: "allow" },
        rules: [{ _tag: "Periodic", tool: "tick", schedule: "1 minute" }]
      })),
      Layer.provide(ToolHandlers.layer(kit)),
      Layer.provide(handlers)
    )
    let all: Context.Context<ToolExecutors.ToolExecutors> | undefined
    return VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      all = yield* Layer.build(layer)
      const executors = Context.get(all, ToolExecutors.ToolExecutors)
      const process = yield* (yield* executors.get("first")).process()
      assert.deepStrictEqual(tags(yield* process.executeWave(calls("first"))), ["Succeeded"])
      yield* executors.end("first")
      fired = 0
      yield* Effect.sleep("5 minutes")
      assert.isAtLeast(fired, 4)
    })))
  })
})

describe("a call that a handler began and does not wait for", () => {
  it.effect("ends with the handler's call: what runs is stopped, what waits never starts", () => {
    const started: Array<unknown> = []
    const ends: Array<ReadonlyArray<string>> = []
    return run(
      {
        write: mut(({ n }) => Effect.andThen(Effect.sync(() => void started.push(n)), Effect.sleep("1 minute"))),
        leave: agent(() =>
          Effect.gen(function*() {
            const { process } = yield* handle
            const wave = process.executeWave(calls("write", "write"))
            yield* Effect.forkDetach(Effect.map(apart(wave), (it) => ends.push(tags(it))))
            yield* Effect.sleep("1 second")
          })
        )
      },
      {},
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("leave", ["write", { n: "mine" }]))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"])
          assert.deepStrictEqual(started, [1, "mine"])
          assert.strictEqual(wave.outcomes[1]!.startedAt, 1_000)
          assert.deepStrictEqual(ends, [["Cancelled", "Cancelled"]])
        })
    )
  })
})

describe("a call that a handler makes where no fiber knows it", () => {
  it.effect("is refused at once where the handler's call holds what it needs", () =>
    run(
      {
        write: mut(() =>
          Effect.flatMap(handle, (it) => Effect.map(apart(it.process.executeWave(calls("other"))), tags))
        ),
        forked: mut(() =>
          Effect.scoped(Effect.gen(function*() {
            const fork = yield* (yield* handle).executor.fork()
            return yield* apart(Effect.scoped(Effect.gen(function*() {
              const process = yield* fork.process()
              return tags(yield* process.executeWave(calls("other")))
            })))
          }))
        ),
        other: mut(() => Effect.void)
      },
      {},
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("write", "forked"))
          assert.deepStrictEqual(wave.outcomes.map(value), [["ReentryRefused"], ["ReentryRefused"]])
          assert.strictEqual(yield* VirtualTime.now, 0)
        })
    ))

  it.effect("counts in the batch of the handler's call", () =>
    run(
      {
        agent: agent(() =>
          Effect.flatMap(handle, ({ executor }) =>
            apart(Effect.scoped(Effect.gen(function*() {
              const process = yield* executor.process()
              return tags(yield* process.executeWave(calls("once", "once")))
            }))))
        ),
        once: () => Effect.void
      },
      { rules: [{ _tag: "MaxCalls", tool: "once", max: 1 }] },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("agent", "once"))
          assert.deepStrictEqual(value(wave.outcomes[0]), ["Succeeded", "RuleViolation"])
          assert.strictEqual(tag(wave.outcomes[1]!), "RuleViolation")
        })
    ))

  it.effect("is a sub-agent's, whose policy it does not get past", () =>
    run(
      {
        agent: agent(() =>
          Effect.scoped(Effect.gen(function*() {
            const child = yield* (yield* handle).executor.readOnly()
            const process = yield* child.process()
            return (yield* process.executeWave(calls("probe"))).outcomes.map(value)
          }))
        ),
        probe: () => Effect.flatMap(handle, (it) => Effect.map(apart(it.process.executeWave(calls("write"))), tags)),
        write: mut(() => Effect.void)
      },
      {},
      ({ process }) =>
        Effect.map(process.executeWave(calls("agent")), (wave) => {
          assert.deepStrictEqual(wave.outcomes.map(value), [[["PolicyDenied"]]])
        })
    ))

  it.live("is so with Effect.runPromise itself", () => {
    const Outer = Tool.make("outer", { success: Schema.Array(Schema.String) })
    const Inner = Tool.make("inner", { success: Schema.Void })
    const tools = Toolkit.make(Outer, Inner)
    const kept: { executor?: Executor } = {}
    const inner = (executor: Executor) =>
      Effect.scoped(Effect.gen(function*() {
        const process = yield* executor.process()
        return tags(yield* process.executeWave([call("i", "inner")]))
      }))
    const handlers = tools.toLayer({
      inner: () => Effect.void,
      outer: () =>
        Effect.gen(function*() {
          const executor = kept.executor = (yield* ToolContext.ToolContext).executor!
          return yield* Effect.promise(() => Effect.runPromise(inner(executor)))
        })
    })
    const program = Effect.gen(function*() {
      const process = yield* (yield* ToolExecutor.ToolExecutor).process()
      const wave = yield* process.executeWave([call("o", "outer")])
      assert.deepStrictEqual(wave.outcomes.map(value), [["ReentryRefused"]])
      assert.deepStrictEqual(yield* Effect.promise(() => Effect.runPromise(inner(kept.executor!))), ["Cancelled"])
    })
    const layer = LocalExecutor.layer(tools, { policy: { default: "allow" } }).pipe(Layer.provide(handlers))
    return Effect.scoped(Effect.provide(program, layer))
  })
})

describe("a handle", () => {
  it.effect("is made when it is asked for, and once", () => {
    const found: Array<unknown> = []
    const tools = {
      t: () =>
        Effect.map(ToolContext.ToolContext, (it) => {
          found.push(it.executor, it.executor)
        })
    }
    return run(tools, {} satisfies Options, ({ executor, process }: Env) =>
      Effect.gen(function*() {
        yield* process.executeWave(calls("t", "t"))
        assert.strictEqual(found[0], found[1])
        assert.strictEqual(found[2], found[3])
        assert.strictEqual(new Set([...found, executor]).size, 3)
      }))
  })
})
