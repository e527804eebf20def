/** Whose call it is: what handlers know of theirs, and who sees what sub-agents do. */
import { assert, describe, it } from "@effect/vitest"
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as ToolExecutor from "../../../../src/core/engine/ToolExecutor.ts"
import * as ToolEvent from "../../../../src/core/facts/ToolEvent.ts"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import { type Guards, ToolAnnotations, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import * as Harness from "../../../support/Harness.ts"

const { call, calls, run, tags, value } = Harness

const agent = (handler: Harness.Handler): Harness.ToolSpec => ({
  handler,
  annotate: (tool: Tool.Any) => tool.annotate(ToolAnnotations.Recursive, true)
})

const whose = Effect.map(ToolContext.ToolContext, (it) => ({
  agentPath: it.agentPath,
  batch: it.batch,
  callId: it.callId,
  idempotencyKey: it.idempotencyKey,
  meta: it.meta,
  principal: it.principal,
  process: it.process,
  tool: it.tool
}))

/** Runs calls in a sub-agent of the call's executor; gives the values, or what else became of them. */
const inFork = (
  wave: ReturnType<typeof calls>,
  options: ToolExecutor.ForkOptions & { readonly meta?: Readonly<Record<string, unknown>> } = {}
) =>
  Effect.gen(function*() {
    const child = yield* ToolExecutor.fork(options)
    const process = yield* child.process({ meta: options.meta })
    const { outcomes } = yield* process.executeWave(wave)
    return outcomes.map((it) => value(it) ?? Harness.tag(it))
  }).pipe(Effect.scoped)

const read = <A>(outcome: unknown): A => outcome as A

type Whose = Effect.Success<typeof whose>

describe("a handler", () => {
  it.effect(
    "knows whose call it is",
    () =>
      run({ t: () => whose }, { principal: "ada" }, ({ batch, executor }) =>
        Effect.gen(function*() {
          const process = yield* batch.process({ meta: { user: 7 } })
          const found = read<Whose>(value(yield* process.execute(call("c1", "t", {}))))
          assert.deepInclude(found, {
            agentPath: [],
            batch: batch.id,
            callId: "c1",
            meta: { user: 7 },
            principal: "ada",
            process: process.id,
            tool: "t"
          })
          assert.match(found.idempotencyKey!, /^[0-9a-f]{64}$/)
          assert.isDefined(executor)
        })),
    { tags: ["H2"] }
  )

  it.effect(
    "knows nothing outside an executor, and works",
    () =>
      Effect.map(whose, (found) =>
        assert.deepStrictEqual(found, {
          agentPath: [],
          batch: undefined,
          callId: undefined,
          idempotencyKey: undefined,
          meta: {},
          principal: undefined,
          process: undefined,
          tool: undefined
        })),
    { tags: ["H1"] }
  )

  it.effect("has the principal of its call as the setting, whoever the caller is", () => {
    const seen: Array<string> = []
    const note = Effect.map(ToolExecutor.Principal, (it) => void seen.push(it))
    const tool: Harness.ToolSpec = {
      handler: () => Effect.as(note, 1),
      annotate: (it) =>
        it.annotate(ToolAnnotations.Targets, () => Effect.as(note, [])).annotate(
          ToolAnnotations.Resources,
          () => Effect.as(note, [])
        )
    }
    const guards: ReadonlyArray<Guards.Guard> = [{ name: "g", check: () => note }]
    return run(
      { t: { ...tool, class: "SerialMut" }, sub: agent(() => inFork(calls("t"))) },
      { principal: "ada", guards, policy: { default: "allow", deny: ["t(x)"] } },
      ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.provideService(process.executeWave(calls("t", "sub")), ToolExecutor.Principal, "bob")
          assert.isAbove(seen.length, 6)
          assert.deepStrictEqual(Array.from(new Set(seen)), ["ada"])
          assert.strictEqual(yield* ToolExecutor.Principal, "default")
        })
    )
  })

  it.effect("has one key for a call, whatever it tries again", () => {
    const keys: Array<string | undefined> = []
    return run(
      {
        t: {
          handler: () =>
            Effect.flatMap(whose, ({ idempotencyKey }) => {
              keys.push(idempotencyKey)
              return keys.length < 3 ? Effect.fail("again") : Effect.void
            }),
          annotate: (it) => it.annotate(ToolAnnotations.Retry, Schedule.recurs(5))
        }
      },
      {},
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave([call("1", "t", {})])), ["Succeeded"])
          assert.lengthOf(keys, 3)
          assert.lengthOf(new Set(keys), 1)
        })
    )
  }, { tags: ["H3"] })

  it.effect(
    "shares its key with no other call, of whatever id, batch, process or principal",
    () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const keys: Array<string | undefined> = []
        const t = () => Effect.map(whose, ({ idempotencyKey }) => void keys.push(idempotencyKey))
        for (const principal of ["ada", "bob"]) {
          const { executor } = yield* Harness.open(
            { t, sub: agent(() => inFork([call("1", "t", {})])) },
            { principal, dedupe: false }
          )
          for (const id of ["same", "other"]) {
            const batch = yield* executor.batch(id)
            for (const process of [yield* batch.process(), yield* batch.process()]) {
              yield* process.executeWave([call("1", "t", {}), call("1", "t", {})])
              yield* process.executeWave([call("1", "t", {}), call("2", "sub", {})])
            }
          }
        }
        assert.lengthOf(keys, 2 * 2 * 2 * 4)
        assert.lengthOf(new Set(keys), keys.length)
      }))),
    { tags: ["H3"] }
  )

  it.effect("of a sub-agent has what the host said of the operation, and what its agent adds", () =>
    run(
      {
        t: () => whose,
        sub: agent(() => inFork(calls("t", "deeper"), { name: "one", meta: { depth: 1 } })),
        deeper: agent(() => inFork(calls("t"), { name: "two", meta: { user: 8 } })),
        // a process of its own, without a sub-agent
        own: agent(() =>
          Effect.gen(function*() {
            const { executor } = yield* ToolContext.ToolContext
            const process = yield* executor!.process()
            return value(yield* process.execute(call("1", "t", { own: true })))
          }).pipe(Effect.scoped)
        )
      },
      { principal: "ada" },
      ({ batch }) =>
        Effect.gen(function*() {
          const process = yield* batch.process({ meta: { user: 7 } })
          const wave = yield* process.executeWave(calls("sub", "own"))
          const [one, [two] = []] = read<readonly [Whose, ReadonlyArray<Whose>?]>(value(wave.outcomes[0]))
          assert.deepInclude(one, { agentPath: ["one"], principal: "ada", meta: { user: 7, depth: 1 } })
          assert.deepInclude(two, { agentPath: ["one", "two"], principal: "ada", meta: { user: 8, depth: 1 } })
          assert.deepInclude(read<Whose>(value(wave.outcomes[1])), { agentPath: [], meta: { user: 7 } })
          // nothing goes up
          assert.deepInclude(read<Whose>(value(yield* process.execute(call("3", "t", {})))), { meta: { user: 7 } })
        })
    ))
})

const named = (event: ToolEvent.ToolEvent): string =>
  ToolEvent.isEnd(event) ? event._tag : `${[...event.agentPath, event.tool].join(">")} ${event._tag.slice(4)}`

describe("what a sub-agent does", () => {
  const tools = {
    t: () => Effect.flatMap(ToolContext.ToolContext, (it) => Effect.as(it.partial("some"), 1)),
    sub: agent(() => inFork(calls("t", "deeper"), { name: "one" })),
    deeper: agent(() => inFork(calls("t"), { name: "two" }))
  }

  it.effect(
    "comes in its caller's stream with its agent path, in order, but for the ends of its waves",
    () =>
      run(tools, {}, ({ process }) =>
        Effect.gen(function*() {
          const events = Array.from(yield* Stream.runCollect(process.stream(calls("sub"))))
          assert.deepStrictEqual(events.map(named), [
            "sub CallQueued",
            "sub CallStart",
            "one>t CallQueued",
            "one>deeper CallQueued",
            "one>t CallStart",
            "one>t PartialResult",
            "one>t CallComplete",
            "one>deeper CallStart",
            "one>two>t CallQueued",
            "one>two>t CallStart",
            "one>two>t PartialResult",
            "one>two>t CallComplete",
            "one>deeper CallComplete",
            "sub CallComplete",
            "ToolsEnd"
          ])
          // each wave counts its own
          const processes = new Set(events.map((it) => it.process))
          assert.strictEqual(processes.size, 3)
          for (const process of processes) {
            const own = events.filter((it) => it.process === process).map((it) => it.sequence)
            assert.deepStrictEqual(own, own.map((_, n) => n + 1))
          }
        })),
    { tags: ["E5"] }
  )

  it.effect("is told to the observers of every process above it, once", () =>
    run(tools, {}, ({ process }) =>
      Effect.gen(function*() {
        const seen: Array<string> = []
        yield* Effect.forkScoped(
          Stream.runForEach(process.events, (event) => Effect.sync(() => seen.push(named(event)))),
          { startImmediately: true }
        )
        yield* process.executeWave(calls("sub"))
        yield* Effect.sleep(1)
        assert.lengthOf(seen.filter((it) => it === "one>two>t CallComplete"), 1)
        assert.lengthOf(seen, 15)
      })))

  it.effect("is no partial result of the call that it works for", () =>
    run(tools, {}, ({ process }) =>
      Effect.gen(function*() {
        const guarded = yield* process.guard({ tools: { sub: Harness.declare("sub") } })
        const { handle } = yield* guarded
        const results = Array.from(yield* Stream.runCollect(Stream.unwrap(handle("sub", {}, "1"))))
        assert.deepStrictEqual(results.map((it) => it.preliminary), [false])
      })))

  it.effect("is left out where events of tools are, but for its life", () =>
    run(tools, { toolEvents: false }, ({ process }) =>
      Effect.gen(function*() {
        const events = Array.from(yield* Stream.runCollect(process.stream(calls("sub"))))
        assert.lengthOf(events.filter((it) => it._tag === "ToolCallComplete"), 4)
        assert.lengthOf(events.filter((it) => it._tag === "ToolPartialResult"), 0)
      })))

  it.effect("is asked about in its caller's stream", () =>
    Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      yield* run(
        {
          w: { class: "SerialMut", handler: () => Effect.void },
          sub: agent(() => inFork(calls("w"), { name: "one" }))
        },
        { approvals, policy: { default: "allow", ask: ["w"] } },
        ({ process }) =>
          Effect.gen(function*() {
            const answered = process.stream(calls("sub")).pipe(
              Stream.tap((event) =>
                event._tag === "ToolApprovalRequested"
                  ? Effect.orDie(approvals.answer(event.requestId, { _tag: "ApproveOnce" }))
                  : Effect.void
              )
            )
            const events = Array.from(yield* Stream.runCollect(answered))
            assert.deepStrictEqual(events.map(named).filter((it) => it.includes("Approval")), [
              "one>w ApprovalRequested",
              "one>w ApprovalResolved"
            ])
          })
      )
    }).pipe(Effect.scoped))
})

describe("nobody is asked about a call that would wait for its own caller", () => {
  const nested = (name: string) => () =>
    Effect.gen(function*() {
      const { executor } = yield* ToolContext.ToolContext
      const process = yield* executor!.process()
      return Harness.tag(yield* process.execute(call("1", name, {})))
    }).pipe(Effect.scoped)
  const key = (keys: () => ReadonlyArray<string> | Effect.Effect<ReadonlyArray<string>>) => (tool: Tool.Any) =>
    tool.annotate(ToolAnnotations.Resources, keys).annotate(ToolAnnotations.Promoted, true)
  const cases: ReadonlyArray<readonly [what: string, tools: { readonly [name: string]: Harness.ToolSpec }]> = [
    ["the serial pool", {
      outer: { class: "SerialMut", handler: nested("inner") },
      inner: { class: "SerialMut", handler: () => Effect.void }
    }],
    ["the cap of its tool", {
      outer: {
        class: "ConcurrentMut",
        handler: (params) => params["again"] === true ? nested("outer")() : Effect.void,
        annotate: (tool) => tool.annotate(ToolAnnotations.MaxConcurrent, 1)
      }
    }],
    ["what both touch", {
      outer: { class: "ConcurrentMut", handler: nested("inner"), annotate: key(() => ["k"]) },
      inner: { class: "ConcurrentMut", handler: () => Effect.void, annotate: key(() => ["k"]) }
    }],
    ["what both touch, which is found by and by", {
      outer: { class: "ConcurrentMut", handler: nested("inner"), annotate: key(() => ["k"]) },
      inner: {
        class: "ConcurrentMut",
        handler: () => Effect.void,
        annotate: key(() => Effect.delay(Effect.succeed(["k"]), 10))
      }
    }]
  ]
  for (const [what, tools] of cases) {
    for (const approval of ["perCall", "upfront"] as const) {
      it.effect(`${what}, ${approval}`, () =>
        Effect.gen(function*() {
          const approvals = yield* Approvals.make()
          const asked: Array<string> = []
          yield* run(
            tools,
            { approval, approvals, policy: { default: "ask" } },
            ({ process }) =>
              Effect.gen(function*() {
                yield* Effect.forkScoped(
                  Stream.runForEach(approvals.changes, (change) => {
                    if (change._tag !== "Requested") return Effect.void
                    asked.push(change.request.tool)
                    return Effect.orDie(approvals.answer(change.request.id, { _tag: "ApproveOnce" }))
                  }),
                  { startImmediately: true }
                )
                const outcome = yield* process.execute(call("1", "outer", { again: true }))
                assert.strictEqual(value(outcome), "ReentryRefused")
              })
          )
          assert.deepStrictEqual(asked, ["outer"])
        }).pipe(Effect.scoped))
    }
  }

  it.effect("its own result", () =>
    Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const asked: Array<string> = []
      yield* run(
        { outer: { class: "ConcurrentMut", handler: () => nested("outer")() } },
        { approvals, dedupe: { inFlight: "join" }, policy: { default: "ask" } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.forkScoped(
              Stream.runForEach(approvals.changes, (change) => {
                if (change._tag !== "Requested") return Effect.void
                asked.push(change.request.tool)
                return Effect.orDie(approvals.answer(change.request.id, { _tag: "ApproveOnce" }))
              }),
              { startImmediately: true }
            )
            assert.strictEqual(value(yield* process.execute(call("1", "outer", {}))), "ReentryRefused")
          })
      )
      assert.deepStrictEqual(asked, ["outer"])
    }).pipe(Effect.scoped))

  it.effect("and are asked where somebody else holds it, who will go on", () =>
    Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      yield* run(
        {
          slow: { class: "SerialMut", handler: () => Effect.sleep(1_000) },
          outer: { class: "ConcurrentMut", handler: nested("inner") },
          inner: { class: "SerialMut", handler: () => Effect.void }
        },
        { approvals, policy: { default: "allow", ask: ["inner"] }, mode: "parallel" },
        ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* Effect.forkChild(process.executeWave(calls("slow", "outer")))
            yield* Effect.sleep(10)
            const [request] = yield* approvals.list
            assert.strictEqual(request?.tool, "inner")
            yield* Effect.orDie(approvals.answer(request!.id, { _tag: "ApproveOnce" }))
            assert.strictEqual(value((yield* Fiber.join(wave)).outcomes[1]), "Succeeded")
          })
      )
    }).pipe(Effect.scoped))
})
