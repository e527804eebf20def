/** Sessions that are suspended while they wait for people, and opened again: nothing is lost, and nothing done twice. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { BackgroundAgents, SubAgent } from "../../../src/agent/index.ts"
import { ToolExecutors } from "../../../src/index.ts"
import type { Wave } from "../../../src/server/api/ApiModels.ts"
import { PendingApprovals } from "../../../src/server/approvals/PendingApprovals.ts"
import { Operations } from "../../../src/server/operations/Operations.ts"
import { SessionHost } from "../../../src/server/sessions/SessionHost.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import type * as ModelTurn from "../../../src/testing/ModelTurn.ts"
import * as ScriptedModel from "../../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { agentTool, backgroundTools, words } from "../../support/Agents.ts"
import type { ToolSpec } from "../../support/Harness.ts"
import { ada, inMemory, message, type Options } from "../../support/Served.ts"

interface Env {
  readonly host: SessionHost["Service"]
  readonly waves: Waves["Service"]
  readonly operations: Operations["Service"]
  readonly approvals: PendingApprovals["Service"]
  readonly executors: ToolExecutors.ToolExecutors["Service"]
  /** The calls that ran, in order. */
  readonly ran: Array<string>
  /** Lets the calls of `hold` end. */
  readonly release: Effect.Effect<void>
}

type Turns = ReadonlyArray<ModelTurn.Turn>

/** What the root says, and what each agent below says whose prompt is a key. */
interface Script {
  readonly root: Turns
  readonly below?: { readonly [task: string]: Turns }
}

const scripted = ({ below = {}, root }: Script): ScriptedModel.Script => ({ prompt }) => {
  const task = words(prompt)[0]!.replace("user: ", "")
  const turns = task === "Go" ? root : below[task] ?? [{ text: `about ${task}` }]
  return turns[prompt.content.filter((it) => it.role === "assistant").length] ?? { text: "nothing more" }
}

const test = <A, E>(
  name: string,
  program: (env: Env) => Effect.Effect<A, E, Scope.Scope>,
  script: Script = { root: [] },
  options: Options = {}
) =>
  it.effect(name, () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const ran: Array<string> = []
        const held = yield* Deferred.make<void>()
        const noting = (name: string, first: Effect.Effect<void> = Effect.void): ToolSpec["handler"] => ({ index }) =>
          Effect.andThen(first, Effect.sync(() => (ran.push(`${name} ${String(index)}`), name)))
        const agent = (name: string, background: boolean) =>
          agentTool(SubAgent.make(name, {
            description: "Works",
            parameters: Schema.Struct({ task: Schema.String }),
            prompt: ({ task }) => task,
            background
          }))
        const tools = {
          save: { class: "SerialMut", handler: noting("save") },
          look: { class: "ReadOnly", handler: noting("look") },
          hold: { class: "ReadOnly", handler: noting("hold", Deferred.await(held)) },
          clerk: agent("clerk", false),
          scout: agent("scout", true),
          ...backgroundTools(yield* Layer.build(BackgroundAgents.layer))
        } as const
        const model = yield* ScriptedModel.make(scripted(script))
        const layer = inMemory(tools, {
          policy: { default: "allow", ask: ["save"] },
          agents: { helper: { model: model.layer } },
          ...options
        })
        return yield* Effect.gen(function*() {
          return yield* program({
            host: yield* SessionHost,
            waves: yield* Waves,
            operations: yield* Operations,
            approvals: yield* PendingApprovals,
            executors: yield* ToolExecutors.ToolExecutors,
            ran,
            release: Effect.asVoid(Deferred.succeed(held, undefined))
          })
        }).pipe(Effect.provide(layer))
      })),
      { limit: "10 days" }
    ))

const bob = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

/** The pending requests, by id. */
const pending = ({ approvals }: Env) =>
  Effect.map(approvals.list(bob), ({ open }) => open.map(({ callId, id, tool }) => ({ callId, id, tool })))

const approve = Effect.fnUntraced(
  function*({ approvals }: Env, which: (callId: string | undefined) => boolean = () => true) {
    const { open } = yield* approvals.list(bob)
    for (const { callId, hash, id } of open) {
      if (which(callId)) yield* approvals.answer(bob, { id, hash, answer: { _tag: "ApproveOnce" } })
    }
  }
)

const found = ({ waves }: Env, wave: string) => Effect.map(waves.get(ada, wave), Option.getOrThrow)

const tagsOf = (wave: Wave): ReadonlyArray<string> =>
  wave.end !== undefined && "executionResults" in wave.end ? wave.end.executionResults.map((it) => it._tag) : []

/** Nothing of any session is in memory. */
const isEmpty = Effect.fnUntraced(function*({ executors, operations, waves }: Env) {
  assert.deepStrictEqual(yield* waves.list, [])
  assert.deepStrictEqual(yield* waves.counts, { sessions: 0, waves: 0 })
  assert.deepStrictEqual(yield* operations.counts, { operations: 0, conversations: 0 })
  assert.strictEqual(yield* executors.size, 0)
})

const call = (name: string, params: object = { index: 0 }) => ({ calls: [{ name, params }] })

const hour = 3_600_000

describe("a session with a wave", { tags: ["K15", "SV30", "SV31"] }, () => {
  test("is idle once only approvals are left, leaves no memory, and continues with the answer under the same id", (env) =>
    Effect.gen(function*() {
      const { host, ran, waves } = env
      yield* waves.submit(ada, { message: message("look", "save"), wave: "w", turn: "t" })
      yield* host.idle(ada)
      const asked = yield* pending(env)
      assert.lengthOf(asked, 1)
      assert.deepStrictEqual(yield* host.close(ada), { _tag: "Waiting", until: 24 * hour })
      yield* isEmpty(env)
      yield* host.open(ada)
      yield* host.idle(ada)
      assert.deepStrictEqual(yield* pending(env), asked)
      yield* approve(env)
      const wave = yield* (yield* found(env, "w")).ended
      assert.deepStrictEqual(tagsOf(wave), ["Succeeded", "Succeeded"])
      assert.deepStrictEqual(ran, ["look 0", "save 1"])
      yield* host.idle(ada)
      assert.deepStrictEqual(yield* host.close(ada), { _tag: "Nothing" })
      yield* isEmpty(env)
    }))

  test("continues with an answer that was given while it was closed, and asks nobody again", (env) =>
    Effect.gen(function*() {
      const { approvals, host, ran, waves } = env
      yield* waves.submit(ada, { message: message("look", "save"), wave: "w", turn: "t" })
      yield* host.idle(ada)
      yield* host.close(ada)
      yield* approve(env)
      assert.deepStrictEqual(yield* pending(env), [])
      yield* host.open(ada)
      const wave = yield* (yield* found(env, "w")).ended
      assert.deepStrictEqual(tagsOf(wave), ["Succeeded", "Succeeded"])
      assert.deepStrictEqual(ran, ["look 0", "save 1"])
      assert.deepStrictEqual((yield* approvals.list(bob)).ended.map((it) => it.how), ["approved"])
    }))

  test("is not idle while a call runs beside the approval, and a later run waits with the suspended call", (env) =>
    Effect.gen(function*() {
      const { host, ran, release, waves } = env
      yield* waves.submit(ada, { message: message("hold", "save", "look"), wave: "w" })
      const idle = yield* Effect.forkScoped(host.idle(ada))
      yield* Effect.sleep("1 minute")
      assert.isUndefined(idle.pollUnsafe())
      yield* release
      yield* Fiber.join(idle)
      assert.include(yield* host.close(ada), { _tag: "Waiting" })
      const before = [...ran]
      yield* Effect.sleep("1 minute")
      assert.deepStrictEqual(ran, before)
      yield* host.open(ada)
      yield* host.idle(ada)
      yield* approve(env)
      assert.deepStrictEqual(tagsOf(yield* (yield* found(env, "w")).ended), ["Succeeded", "Succeeded", "Succeeded"])
      assert.deepStrictEqual(ran.toSorted(), ["hold 0", "look 2", "save 1"])
      assert.isBelow(ran.indexOf("save 1"), ran.indexOf("look 2"))
    }))

  test("runs a call that was approved while it was suspended as soon as it is opened", (env) =>
    Effect.gen(function*() {
      const { host, ran, waves } = env
      yield* waves.submit(ada, { message: message("save"), wave: "w" })
      yield* host.idle(ada)
      yield* host.close(ada)
      yield* approve(env)
      assert.deepStrictEqual(yield* pending(env), [])
      assert.deepStrictEqual(ran, [])
      yield* host.open(ada)
      assert.deepStrictEqual(tagsOf(yield* (yield* found(env, "w")).ended), ["Succeeded"])
      assert.deepStrictEqual(ran, ["save 0"])
    }))

  test("is denied as expired once it is opened after the deadline", (env) =>
    Effect.gen(function*() {
      const { host, ran, waves } = env
      yield* waves.submit(ada, { message: message("save"), wave: "w" })
      yield* host.idle(ada)
      yield* host.close(ada)
      yield* Effect.sleep("25 hours")
      yield* host.open(ada)
      const wave = yield* (yield* found(env, "w")).ended
      assert.deepStrictEqual(tagsOf(wave), ["Denied"])
      assert.deepStrictEqual(ran, [])
    }))

  test("lets a call end that was approved between the decision to close and the close", (env) =>
    Effect.gen(function*() {
      const { host, ran, release, waves } = env
      yield* waves.submit(ada, { message: message("save", "hold"), wave: "w" })
      yield* host.idle(ada)
      yield* approve(env)
      const closed = yield* Effect.forkScoped(host.close(ada))
      yield* Effect.sleep("1 second")
      assert.isUndefined(closed.pollUnsafe())
      yield* release
      assert.deepStrictEqual(yield* Fiber.join(closed), { _tag: "Nothing" })
      assert.deepStrictEqual(ran, ["save 0", "hold 1"])
      assert.deepStrictEqual(tagsOf(yield* (yield* found(env, "w")).ended), ["Succeeded", "Succeeded"])
    }))

  test("stops what still runs after the time that it is given, and can then be continued at once", (env) =>
    Effect.gen(function*() {
      const { host, ran, release, waves } = env
      yield* waves.submit(ada, { message: message("hold", "save"), wave: "w" })
      assert.deepStrictEqual(yield* host.close(ada, "10 seconds"), { _tag: "Open" })
      assert.strictEqual(yield* VirtualTime.now, 10_000)
      yield* isEmpty(env)
      yield* release
      yield* host.open(ada)
      yield* host.idle(ada)
      yield* approve(env)
      const wave = yield* (yield* found(env, "w")).ended
      assert.deepStrictEqual(tagsOf(wave), ["Cancelled", "Succeeded"])
      assert.deepStrictEqual(ran, ["save 1"])
    }))

  test("that another process holds now is interrupted at once, writes nothing, and its readers connect again", (env) =>
    Effect.gen(function*() {
      const { host, ran, waves } = env
      const handle = yield* waves.submit(ada, { message: message("hold", "save"), wave: "w" })
      const read = yield* Effect.forkScoped(Stream.runCollect(handle.events(undefined)))
      yield* Effect.sleep("1 second")
      yield* host.lose(ada, "another process holds it")
      yield* isEmpty(env)
      assert.notIncludeMembers((yield* Fiber.join(read)).map(({ event }) => event), ["wave_suspended", "tools_end"])
      assert.deepStrictEqual(ran, [])
      assert.lengthOf(yield* pending(env), 0)
      // the wave has no end in the store
      yield* host.open(ada)
      assert.strictEqual((yield* (yield* found(env, "w")).info).status, "running")
    }))

  test("says nothing about other sessions", (env) =>
    Effect.gen(function*() {
      const { host, waves } = env
      const other = { ...ada, session: "two" }
      yield* waves.submit(ada, { message: message("save"), wave: "w" })
      yield* waves.submit(other, { message: message("hold"), wave: "w" })
      yield* host.idle(ada)
      yield* host.close(ada)
      assert.deepStrictEqual(yield* waves.counts, { sessions: 1, waves: 1 })
      assert.lengthOf(yield* waves.list, 1)
    }))
})

const go = ({ operations }: Env) => operations.start(ada, { agent: "helper", prompt: "Go", id: "x" })

const ended = Effect.fnUntraced(function*({ operations }: Env) {
  return yield* Option.getOrThrow(yield* operations.get(ada, "x")).ended
})

describe("a session with an operation", { tags: ["SV29", "SV31"] }, () => {
  test("is idle while its call waits for approval, not while the model works", (env) =>
    Effect.gen(function*() {
      const { host, ran } = env
      yield* go(env)
      yield* host.idle(ada)
      assert.strictEqual(yield* VirtualTime.now, 60_000)
      const asked = yield* pending(env)
      assert.lengthOf(asked, 1)
      assert.include(yield* host.close(ada), { _tag: "Waiting" })
      yield* isEmpty(env)
      yield* host.open(ada)
      yield* host.idle(ada)
      assert.deepStrictEqual(yield* pending(env), asked)
      yield* approve(env)
      assert.deepInclude((yield* ended(env)).end, { text: "saved" })
      assert.deepStrictEqual(ran, ["save 0"])
    }), { root: [{ ...call("save"), takes: "1 minute" }, { text: "saved" }] })

  test(
    "is idle with a sub-agent that waits, and the sub-agent continues where it was",
    (env) =>
      Effect.gen(function*() {
        const { host, ran } = env
        yield* go(env)
        yield* host.idle(ada)
        const asked = yield* pending(env)
        assert.lengthOf(asked, 1)
        assert.include(yield* host.close(ada), { _tag: "Waiting" })
        yield* isEmpty(env)
        yield* host.open(ada)
        yield* host.idle(ada)
        assert.deepStrictEqual(yield* pending(env), asked)
        yield* approve(env)
        assert.deepInclude((yield* ended(env)).end, { text: "done" })
        assert.deepStrictEqual(ran, ["look 0", "save 1"])
      }),
    {
      root: [call("clerk", { task: "work" }), { text: "done" }],
      below: { work: [call("look"), call("save", { index: 1 }), { text: "worked" }] }
    }
  )

  test(
    "is idle with agents in the background that wait, and not before all of them do",
    (env) =>
      Effect.gen(function*() {
        const { host, ran, release } = env
        yield* go(env)
        const idle = yield* Effect.forkScoped(host.idle(ada))
        yield* Effect.sleep("1 minute")
        assert.lengthOf(yield* pending(env), 1)
        assert.isUndefined(idle.pollUnsafe())
        yield* release
        yield* Fiber.join(idle)
        const asked = yield* pending(env)
        assert.lengthOf(asked, 2)
        assert.include(yield* host.close(ada), { _tag: "Waiting" })
        yield* isEmpty(env)
        yield* host.open(ada)
        yield* host.idle(ada)
        assert.sameDeepMembers(yield* pending(env), asked)
        yield* approve(env)
        const end = yield* ended(env)
        assert.deepInclude(end.end, { text: "both are done" })
        assert.deepStrictEqual(ran.toSorted(), ["hold 0", "save 1", "save 2"])
      }),
    {
      root: [
        { calls: [{ name: "scout", params: { task: "one" } }, { name: "scout", params: { task: "two" } }] },
        { text: "I wait" },
        { text: "one is done" },
        { text: "both are done" }
      ],
      below: {
        one: [call("save", { index: 1 }), { text: "one" }],
        two: [call("hold"), call("save", { index: 2 }), { text: "two" }]
      }
    }
  )

  test("goes on after one of two requests is answered, and is idle again", (env) =>
    Effect.gen(function*() {
      const { host, ran } = env
      yield* go(env)
      yield* host.idle(ada)
      yield* host.close(ada)
      yield* host.open(ada)
      yield* host.idle(ada)
      const [first] = yield* pending(env)
      yield* approve(env, (callId) => callId === first!.callId)
      yield* host.idle(ada)
      assert.lengthOf(yield* pending(env), 1)
      assert.include(yield* host.close(ada), { _tag: "Waiting" })
      yield* host.open(ada)
      yield* host.idle(ada)
      yield* approve(env)
      assert.deepInclude((yield* ended(env)).end, { text: "saved" })
      assert.deepStrictEqual(ran.toSorted(), ["save 0", "save 1"])
    }), {
    root: [
      { calls: [{ name: "save", params: { index: 0 } }, { name: "save", params: { index: 1 } }] },
      { text: "saved" }
    ]
  })

  test("is interrupted and writes nothing once another process holds it", (env) =>
    Effect.gen(function*() {
      const { host, ran } = env
      const handle = yield* go(env)
      const read = yield* Effect.forkScoped(Stream.runCollect(handle.events(undefined)))
      yield* Effect.sleep("90 seconds")
      yield* host.lose(ada, "another process holds it")
      yield* isEmpty(env)
      assert.notInclude((yield* Fiber.join(read)).map(({ event }) => event), "operation_end")
      yield* host.open(ada)
      assert.include((yield* ended(env)).end?.reason, { _tag: "Finished" })
      assert.deepStrictEqual(ran, ["look 0"])
    }), { root: [call("look"), { text: "done", takes: "3 minutes" }] })

  test(
    "has one log once it has ended: a client reads on wherever the operation is read from the store",
    (env) =>
      Effect.gen(function*() {
        const { host, operations } = env
        yield* go(env)
        yield* ended(env)
        const read = (after: string | undefined) =>
          Effect.gen(function*() {
            yield* host.close(ada)
            yield* host.open(ada)
            const handle = Option.getOrThrow(yield* operations.get(ada, "x"))
            return yield* Stream.runCollect(handle.events(after))
          })
        const all = yield* read(undefined)
        assert.strictEqual(all.at(-1)?.event, "operation_end")
        for (const [index, { id }] of all.entries()) assert.deepStrictEqual(yield* read(id), all.slice(index + 1))
      }),
    { root: [call("look"), { text: "done" }] }
  )
})

describe("a wave that has ended", { tags: ["SV31"] }, () => {
  test("has one log, wherever it is read from the store", (env) =>
    Effect.gen(function*() {
      const { host, waves } = env
      yield* (yield* waves.submit(ada, { message: message("look", "look"), wave: "w" })).ended
      const read = (after: string | undefined) =>
        Effect.gen(function*() {
          yield* host.close(ada)
          return yield* Stream.runCollect((yield* found(env, "w")).events(after))
        })
      const all = yield* read(undefined)
      assert.strictEqual(all.at(-1)?.event, "tools_end")
      for (const [index, { id }] of all.entries()) assert.deepStrictEqual(yield* read(id), all.slice(index + 1))
    }))
})
