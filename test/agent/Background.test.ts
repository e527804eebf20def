/** Agents in the background: their callers go on, and read what comes of them. */
import { assert, describe, it } from "@effect/vitest"
import type * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Options } from "../../src/agent/AgentExecutor.ts"
import {
  type AgentEvent,
  AgentExecutor,
  BackgroundAgents,
  SubAgent,
  type Transcripts,
  TranscriptStore
} from "../../src/agent/index.ts"
import { Transcripts as Stored } from "../../src/agent/Transcripts.ts"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import { Journal } from "../../src/index.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { agentTool, backgroundTools, problemsOf, reading, words } from "../support/Agents.ts"
import * as Harness from "../support/Harness.ts"

type Turns = ReadonlyArray<ModelTurn.Turn>

/** What the root says, and what each agent below says whose prompt is a key. */
interface Script {
  readonly root: Turns
  readonly below?: { readonly [task: string]: Turns }
}

const scripted = ({ below = {}, root }: Script): ScriptedModel.Script => ({ prompt }) => {
  const task = words(prompt)[0]!.replace("user: ", "")
  const turns = task === "Go" ? root : below[task] ?? [{ text: `about ${task}`, takes: "10 seconds" as const }]
  return turns[prompt.content.filter((it) => it.role === "assistant").length] ?? { text: "nothing more" }
}

/** What outlives a host. */
interface Left {
  readonly transcripts: Transcripts.Transcripts["Service"]
  readonly journal: Journal.Journal["Service"]
  readonly ran: Array<string>
}

const nothing = Effect.gen(function*(): Effect.fn.Return<Left, never, Scope.Scope> {
  const kept = yield* Effect.orDie(Layer.build(Layer.mergeAll(TranscriptStore.layerMemory(), Journal.layerMemory())))
  return { transcripts: Context.get(kept, Stored), journal: Context.get(kept, Journal.Journal), ran: [] }
})

const host = Effect.fnUntraced(function*(script: Script, { journal, ran, transcripts }: Left) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  const research = SubAgent.make("research", {
    description: "Researches.",
    parameters: Schema.Struct({ topic: Schema.String }),
    prompt: ({ topic }) => topic,
    background: true
  })
  const noting = (name: string): Harness.Handler => () => Effect.sync(() => (ran.push(name), name))
  const tools: Record<string, Harness.ToolSpec> = {
    research: agentTool(research),
    look: { class: "ReadOnly", handler: noting("look") },
    write: { class: "SerialMut", handler: noting("write") },
    asks: { class: "SerialMut", handler: noting("asks") },
    ...backgroundTools(yield* Layer.build(BackgroundAgents.layer))
  }
  const { approvals, suspend } = yield* Effect.orDie(Approvals.makeRecorded({ begin: () => undefined }))
  const model = yield* Effect.orDie(ScriptedModel.make(scripted(script)))
  const executor = Harness.layer(tools, { journal, policy: { default: "allow", ask: ["asks"] } })
  const context = yield* Scope.provide(
    Effect.orDie(Layer.build(AgentExecutor.layer.pipe(
      Layer.provide([Layer.fresh(executor), model.layer]),
      Layer.provide(Layer.mergeAll(
        Layer.succeed(Stored, transcripts),
        Layer.succeed(Approvals.Approvals, approvals)
      ))
    ))),
    scope
  )
  const agents = Context.get(context, AgentExecutor.AgentExecutor)
  return {
    model,
    suspend: suspend("the host stops"),
    start: (prompt: Prompt.RawInput = "Go", options: Partial<Options> = {}) =>
      Effect.orDie(Scope.provide(agents.start({ prompt, session: "s", mode: "Interactive", ...options }), scope)),
    stop: Scope.close(scope, Exit.void)
  }
})

const test = <A, E>(name: string, program: () => Effect.Effect<A, E, Scope.Scope>, options?: { tags: Array<string> }) =>
  it.effect(name, () => VirtualTime.run(Effect.scoped(Effect.suspend(program)), { limit: "1 day" }), options)

const research = (id: string, topic: string) => ({ id, name: "research", params: { topic } })
const wait = (id: string, params: object = {}) => ({ id, name: "agent_wait", params })
const started = (id: string, name: string) =>
  `result ${id}: "research" runs in the background as "${name}". Its result will arrive as a message.`
const ended = (name: string) => `"${name}" has ended. Its result follows as a message, unless you have it.`

/** Runs an operation in one host and gives its end, with its history in words. */
const whole = Effect.fnUntraced(function*(script: Script, options: Partial<Options> = {}) {
  const left = yield* nothing
  const { start } = yield* host(script, left)
  const agent = yield* start("Go", options)
  const seen = yield* reading(agent)
  const end = yield* agent.result
  assert.deepStrictEqual(problemsOf(end.history), [])
  return { end, said: words(end.history), seen, ran: left.ran }
})

describe("an agent in the background", () => {
  test("is answered with its name at once, and its result is a message in a later turn", () =>
    Effect.gen(function*() {
      const { end, said } = yield* whole({
        root: [
          { calls: [research("1", "fish"), { id: "2", name: "look", params: {} }] },
          { text: "I wait." },
          { text: "Fish swim." }
        ]
      })
      assert.deepStrictEqual(said, [
        "user: Go",
        "calls research 1",
        "calls look 2",
        started("1", "research-1"),
        "result 2: look",
        "assistant: I wait.",
        "user: Result of \"research-1\": about fish",
        "assistant: Fish swim."
      ])
      assert.deepStrictEqual([end.reason._tag, end.text, end.at], ["Finished", "Fish swim.", 10_000])
    }), { tags: ["AG22"] })

  test("works while its caller does, next to others of its kind", () =>
    Effect.gen(function*() {
      const { end, said } = yield* whole({
        root: [
          { calls: [research("1", "fish"), research("2", "birds")] },
          { calls: [{ id: "3", name: "write", params: {} }], takes: "20 seconds" },
          { text: "Done." }
        ]
      })
      assert.deepStrictEqual(said.filter((it) => it.startsWith("user")), [
        "user: Go",
        "user: Result of \"research-1\": about fish",
        "user: Result of \"research-2\": about birds"
      ])
      assert.strictEqual(end.at, 20_000)
    }))

  test("is cancelled with its caller's end, where the host says so", () =>
    Effect.gen(function*() {
      const script = { root: [{ calls: [research("1", "fish")] }, { text: "Done." }] }
      const { end, said } = yield* whole(script, { background: "cancel" })
      assert.deepStrictEqual([end.reason._tag, end.at], ["Finished", 0])
      assert.match(said.at(-1)!, /^user: Result of "research-1": "research" was cancelled/)
    }), { tags: ["AG22"] })

  test("is cancelled when its caller reaches a limit", () =>
    Effect.gen(function*() {
      const script = { root: [{ calls: [research("1", "fish")] }, { calls: [research("2", "birds")] }] }
      const { end, said } = yield* whole(script, { limits: { turns: 2 } })
      assert.deepStrictEqual([end.reason._tag, end.at], ["LimitReached", 0])
      assert.lengthOf(said.filter((it) => /^user: Result of "research-[12]": "research" was cancelled/.test(it)), 2)
    }), { tags: ["AG22"] })

  test("is cancelled with its caller, and its requests are withdrawn", () =>
    Effect.gen(function*() {
      const left = yield* nothing
      const { start } = yield* host({
        root: [{ calls: [research("1", "fish")] }, { text: "I wait." }],
        below: { fish: [{ calls: [{ id: "1", name: "asks", params: {} }] }] }
      }, left)
      const agent = yield* start()
      yield* Effect.forkScoped(Stream.runDrain(agent.events), { startImmediately: true })
      yield* Effect.sleep("1 second")
      assert.lengthOf(yield* agent.pending, 1)
      yield* agent.cancel("enough")
      const { history, reason } = yield* agent.result
      assert.deepStrictEqual([reason, problemsOf(history)], [{ _tag: "Cancelled", reason: "enough" }, []])
      assert.match(
        words(history).at(-1)!,
        /^user: Result of "research-1": "research" was cancelled while it ran: enough/
      )
      assert.deepStrictEqual([yield* agent.pending, left.ran], [[], []])
    }), { tags: ["AG22"] })

  test("counts for its caller", () =>
    Effect.gen(function*() {
      const usage = { input: 10, output: 10 }
      const { end } = yield* whole({
        root: [{ calls: [research("1", "fish")], usage }, { text: "I wait.", usage }, { text: "Done.", usage }],
        below: { fish: [{ calls: [{ id: "1", name: "look", params: {} }], usage }, { text: "It swims.", usage }] }
      })
      assert.deepStrictEqual([end.usage.inputTokens, end.calls], [50, 2])
    }), { tags: ["AG22"] })

  test("asks as its caller would, and shows its events among its caller's", () =>
    Effect.gen(function*() {
      const left = yield* nothing
      const { start } = yield* host({
        root: [{ calls: [research("1", "fish")] }, { text: "I wait." }, { text: "Done." }],
        below: { fish: [{ calls: [{ id: "1", name: "asks", params: {} }] }, { text: "It swims." }] }
      }, left)
      const agent = yield* start("Go", { limits: { time: "1 minute" } })
      const seen = yield* reading(agent)
      yield* Effect.sleep("4 minutes")
      const [request] = yield* agent.pending
      assert.deepStrictEqual([request?.tool, request?.agentPath], ["asks", ["research"]])
      yield* Effect.orDie(agent.answer(request!.id, { _tag: "ApproveOnce" }))
      const end = yield* agent.result
      // the clock of the caller stands still while people are asked
      assert.deepStrictEqual([end.reason._tag, end.text, left.ran], ["Finished", "Done.", ["asks"]])
      const tags = seen.filter((it) => it.agentPath.length > 0).map((it) => it._tag)
      assert.includeMembers(tags, ["AssistantMessageFinal", "RequestToolApprovals", "ToolCallComplete"])
    }), { tags: ["AG22"] })

  test("fails with its own words", () =>
    Effect.gen(function*() {
      const endless = Array.from({ length: 200 }, (_, n) => ({ calls: [{ id: `l${n}`, name: "look", params: { n } }] }))
      const { said } = yield* whole({
        root: [{ calls: [research("1", "fish")] }, { text: "I wait." }, { text: "Done." }],
        below: { fish: endless }
      })
      assert.match(said.at(-2)!, /^user: Result of "research-1": "research" failed: The agent did not finish/)
    }))
})

describe("a caller of agents in the background", () => {
  test("waits for one of them, and then reads its result", () =>
    Effect.gen(function*() {
      const { end, said } = yield* whole({
        root: [
          { calls: [research("1", "fish"), research("2", "birds")] },
          { calls: [wait("3", { names: ["research-2"] })] },
          { text: "Birds fly.", takes: "1 second" },
          { text: "Fish swim." }
        ],
        below: { birds: [{ text: "They fly.", takes: "5 seconds" }] }
      })
      assert.deepStrictEqual(said.slice(5), [
        "calls agent_wait 3",
        `result 3: ${ended("research-2")}`,
        "user: Result of \"research-2\": They fly.",
        "assistant: Birds fly.",
        "user: Result of \"research-1\": about fish",
        "assistant: Fish swim."
      ])
      assert.strictEqual(end.at, 10_000)
    }), { tags: ["AG22"] })

  test("looks at them without waiting, and is told when it has waited long enough", () =>
    Effect.gen(function*() {
      const { said } = yield* whole({
        root: [
          { calls: [research("1", "fish")] },
          { calls: [wait("2", { seconds: 0 })], takes: "1 second" },
          { calls: [wait("3", { seconds: 3 })] },
          { calls: [wait("4", { names: ["nobody"] })] },
          { text: "Done." }
        ]
      })
      assert.deepStrictEqual(said.filter((it) => /^(result|error) [2-4]/.test(it)), [
        "result 2: \"research-1\" is running, in turn 1.",
        "result 3: \"research-1\" is running, in turn 1.",
        "error 4: \"agent_wait\" failed: There is no agent \"nobody\" in the background. Agents: \"research-1\"."
      ])
    }))

  test("sends them messages, which they read before their next turn", () =>
    Effect.gen(function*() {
      const { said } = yield* whole({
        root: [
          { calls: [research("1", "fish")] },
          { calls: [{ id: "2", name: "agent_send", params: { name: "research-1", message: "only big ones" } }] },
          { text: "I wait." },
          { text: "Done." }
        ],
        below: {
          fish: [
            { calls: [{ id: "1", name: "look", params: {} }], takes: "5 seconds" },
            { text: "Whales.", expect: { user: "only big ones" } }
          ]
        }
      })
      assert.include(said, "result 2: \"research-1\" reads the message before its next turn.")
      assert.include(said, "user: Result of \"research-1\": Whales.")
    }), { tags: ["AG22"] })

  test("stops them", () =>
    Effect.gen(function*() {
      const stop = (id: string) => ({ id, name: "agent_stop", params: { name: "research-1", reason: "no more fish" } })
      const { end, said } = yield* whole({
        root: [{ calls: [research("1", "fish")] }, { calls: [stop("2")], takes: "1 second" }, { calls: [stop("3")] }, {
          text: "Done."
        }]
      })
      assert.include(said, "result 2: \"research-1\" was stopped.")
      assert.include(said, "result 3: \"research-1\" had ended already.")
      assert.match(said.find((it) => it.startsWith("user: Result"))!, /was cancelled while it ran: no more fish/)
      assert.deepStrictEqual([end.reason._tag, end.at], ["Finished", 1_000])
    }), { tags: ["AG22"] })
})

describe("an agent in the background whose host stops", () => {
  const tree: Script = {
    root: [
      { calls: [research("1", "fish"), research("2", "birds")] },
      { calls: [{ id: "3", name: "look", params: {} }], takes: "1 second" },
      { calls: [wait("4", { names: ["research-1"], seconds: 600 })] },
      { text: "I wait." },
      { text: "Done." }
    ],
    below: {
      fish: [
        { calls: [{ id: "1", name: "look", params: {} }], takes: "2 seconds" },
        { calls: [{ id: "2", name: "asks", params: {} }] },
        { text: "They swim.", takes: "2 seconds" }
      ],
      birds: [{ calls: [{ id: "1", name: "asks", params: {} }], takes: "1 second" }, { text: "They fly." }]
    }
  }

  /** Approves what is asked, a second after it is. */
  const approving = (agent: AgentExecutor.Agent, seen: Array<AgentEvent.AgentEvent>) =>
    Stream.runForEach(
      Stream.tap(agent.events, (event) => Effect.sync(() => seen.push(event))),
      (event) =>
        event._tag !== "RequestToolApprovals" ?
          Effect.void :
          Effect.forEach(event.requests, ({ id }) =>
            Effect.forkScoped(
              Effect.delay(Effect.ignore(agent.answer(id, { _tag: "ApproveOnce" })), "1 second")
            ))
    )

  /** What agents below do, with the call of the root that each is said to work for. */
  const workOf = (seen: ReadonlyArray<AgentEvent.AgentEvent>) => {
    const callers = new Map<string, string>()
    return seen.flatMap((it) => {
      if (it._tag === "SubAgentStarted") {
        callers.set(it.operation, it.caller.callId).set(it.process, it.caller.callId)
      }
      if (it.agentPath.length === 0) return []
      if (it._tag === "AssistantMessageFinal" && it.finish === "stop") {
        const text = it.message.content.map((part) => part.type === "text" ? part.text : "").join("")
        return [`${text} for ${callers.get(it.operation)}`]
      }
      return it._tag === "ToolCallComplete" ? [`${it.callId} ${it.tool} for ${callers.get(it.process)}`] : []
    })
  }
  const work = ["1 look for 1", "2 asks for 1", "They swim. for 1", "1 asks for 2", "They fly. for 2"]

  const run = Effect.fnUntraced(function*(
    stops: ReadonlyArray<readonly [how: "suspended" | "closed", after: number]>,
    perHeartbeat = false
  ) {
    const left = yield* nothing
    const worked: Array<string> = []
    for (const [index, [how, after]] of [...stops, ["whole", 0] as const].entries()) {
      const { start, stop, suspend } = yield* host(tree, left)
      const agent = yield* start(index === 0 ? "Go" : [], { perHeartbeat })
      const seen: Array<AgentEvent.AgentEvent> = []
      yield* Effect.forkScoped(approving(agent, seen), { startImmediately: true })
      if (how !== "whole") yield* Effect.sleep(after)
      if (how === "suspended") yield* suspend
      if (how === "closed") yield* stop
      const ended = yield* Effect.exit(agent.result)
      yield* stop
      worked.push(...workOf(seen))
      if (Exit.isFailure(ended) || ended.value.reason._tag === "Suspended") continue
      const end = ended.value
      return { said: words(end.history), problems: problemsOf(end.history), end, ran: left.ran, worked }
    }
    return yield* Effect.die("it does not end")
  })

  test("is continued by the next one, with the same result", () =>
    Effect.gen(function*() {
      const through = yield* run([])
      assert.deepStrictEqual(through.ran.toSorted(), ["asks", "asks", "look", "look"])
      assert.sameMembers(through.worked, work)
      for (const how of ["suspended", "closed"] as const) {
        for (let after = 0; after < 7_000; after += 500) {
          const parts = yield* run([[how, after]])
          const about = `${how} after ${after}`
          assert.deepStrictEqual(parts.problems, [], about)
          assert.sameMembers(Array.from(new Set(parts.worked)), work, about)
          assert.deepStrictEqual(parts.ran.toSorted(), through.ran.toSorted(), about)
          assert.sameMembers([...parts.said], [...through.said], about)
          assert.strictEqual(parts.end.text, through.end.text, about)
        }
      }
    }), { tags: ["AG14", "AG22"] })

  for (const perHeartbeat of [false, true]) {
    test(`is not continued by one that begins cancelled, ${perHeartbeat ? "in its own process" : "in its process"}`, () =>
      Effect.gen(function*() {
        const left = yield* nothing
        const script: Script = {
          root: [{ calls: [research("1", "a")] }, { calls: [{ id: "3", name: "asks", params: {} }] }],
          below: { a: [{ calls: [{ id: "2", name: "look", params: {} }], takes: "10 seconds" }] }
        }
        const first = yield* host(script, left)
        yield* first.start("Go", { perHeartbeat })
        yield* Effect.sleep("5 seconds")
        yield* first.suspend
        yield* first.stop
        const second = yield* host(script, left)
        const agent = yield* second.start([], { perHeartbeat, cancelled: "wrong order" })
        const { history, reason } = yield* agent.result
        assert.deepStrictEqual(reason, { _tag: "Cancelled", reason: "wrong order" })
        assert.deepStrictEqual([left.ran, (yield* second.model.requests).length], [[], 0])
        assert.deepStrictEqual(problemsOf(history), [])
      }))
  }

  test("is continued in its own process, where each turn has another one", () =>
    Effect.gen(function*() {
      const through = yield* run([], true)
      for (let after = 125; after < 7_000; after += 1_000) {
        for (const how of ["suspended", "closed"] as const) {
          const parts = yield* run([[how, after]], true)
          assert.sameMembers([...parts.said], [...through.said], `${how} after ${after}`)
          assert.deepStrictEqual(parts.ran.toSorted(), through.ran.toSorted())
        }
      }
    }))
})
