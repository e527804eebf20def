/** Holds what a conversation looks like, however its events come: nothing is lost, twice or at the wrong place. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { eventsIn } from "../../src/page/conversationFeed.ts"
import { fits } from "../../src/page/evidence.ts"
import { after, callsOf, nothing, ofHistory, stateOf, type Thread, tokensOf } from "../../src/page/thread.ts"
import type { AgentItem } from "../../src/server/api/ApiOperations.ts"

const usage = { inputTokens: 3, outputTokens: 2, cachedInputTokens: 0, cacheWriteInputTokens: 0 }

const Ends = Schema.Literals(["Succeeded", "Failed", "open", "waiting", "suspended"])
const Leaf = Schema.Struct({ tool: Schema.Literals(["read", "write"]), end: Ends })
const SubAgent = Schema.Struct({
  tool: Schema.Literals(["reviewer", "tester"]),
  end: Schema.Literal("Succeeded"),
  /** Its call ends at once, and it works on. */
  isBehind: Schema.Boolean,
  turns: Schema.Array(Schema.Array(Leaf).check(Schema.isMaxLength(3))).check(Schema.isMaxLength(2))
})
const Turn = Schema.Struct({
  text: Schema.Literals(["", "one two", "three four five"]),
  thought: Schema.Literals(["", "hm"]),
  calls: Schema.Array(Schema.Union([Leaf, SubAgent])).check(Schema.isMaxLength(3)),
  /** The sub-agents whose calls start last begin first. */
  isReversed: Schema.Boolean,
  said: Schema.Boolean
})
const Turns = Schema.Array(Turn).check(Schema.isMinLength(1), Schema.isMaxLength(4))

type Call = typeof Leaf.Type | typeof SubAgent.Type

/** The events of an operation, in the order in which a server sends them. Sub-agents of one wave work at the same time. */
const eventsOf = (turns: typeof Turns.Type): ReadonlyArray<AgentItem> => {
  let operations = 0
  const operationOf = (
    agentPath: ReadonlyArray<string>,
    turns: ReadonlyArray<
      Pick<typeof Turn.Type, "calls" | "thought" | "isReversed"> & { readonly text: string; readonly said?: boolean }
    >,
    operation = `op${operations++}`
  ): ReadonlyArray<AgentItem> =>
    turns.flatMap(({ calls, isReversed, said, text, thought }, at) => {
      const own = { operation, agentPath, turn: at + 1, at: 1_000 * (at + 1) }
      const part = (type: "text-delta" | "reasoning-delta", delta: string): AgentItem => ({
        _tag: "AssistantMessagePart",
        ...own,
        part: { type, id: "p", delta }
      })
      // ids are those of the process, and several agents have the same
      const ids = calls.map((_, index) => `${at}-${index}`)
      const wave = { agentPath, batch: "op0", process: `${operation}-1`, wave: at + 1, at: own.at }
      const sequence = calls.map((_, index) => index * 10)
      const event = (index: number, fields: object): AgentItem =>
        ({
          ...wave,
          callId: ids[index],
          tool: calls[index]!.tool,
          index,
          sequence: ++sequence[index]!,
          ...fields
        }) as never
      const starts = calls.map(({ end }, index) =>
        end === "waiting" || end === "suspended" ?
          [] :
          [event(index, { _tag: "ToolCallStart", attempt: 1, limitMillis: 1 })]
      )
      const lives = calls.map((call: Call, index) => {
        const life: Array<AgentItem> = []
        const work: Array<AgentItem> = []
        if ("turns" in call) {
          const text = `for ${operation} ${ids[index]}`
          const below = call.turns.map((calls) => ({ text, thought: "" as const, calls, isReversed }))
          const id = `op${operations++}`
          const path = [...agentPath, call.tool]
          work.push({
            _tag: "SubAgentStarted",
            operation: id,
            agentPath: path,
            turn: 0,
            at: own.at,
            caller: { process: `${operation}-1`, callId: ids[index]! },
            process: `${id}-1`
          }, ...operationOf(path, below, id))
          if (!call.isBehind) life.push(...work.splice(0))
        }
        if (call.end === "waiting") {
          return [event(index, { _tag: "ToolApprovalRequested", requestId: `${operation}-${index}`, why: "" })]
        }
        if (call.end === "open" || call.end === "suspended") return call.end === "open" ? life : []
        life.push(
          event(index, { _tag: "ToolCallComplete", dropped: 0, outcome: { _tag: call.end, queuedAt: own.at } }),
          {
            _tag: "ToolResultReceived",
            ...own,
            callId: ids[index]!,
            tool: call.tool,
            isError: call.end === "Failed",
            text: `${operation} ${at} ${index}`
          }
        )
        return [...life, ...work]
      })
      const isSuspended = calls.some(({ end }) => end === "suspended")
      return [
        ...said === true ? [{ _tag: "MessageQueued", ...own, id: `m${at}`, text: "more" } as const] : [],
        ...thought === "" ? [] : [part("reasoning-delta", thought)],
        ...text.split(/(?<= )/).map((it) => part("text-delta", it)),
        {
          _tag: "AssistantMessageFinal",
          ...own,
          text,
          toolCalls: calls.map(({ tool }, index) => ({ id: ids[index]!, name: tool })),
          finish: "stop",
          usage,
          provider: "p",
          model: "m"
        },
        ...calls.map((_, index) => event(index, { _tag: "ToolCallQueued", params: { index } })),
        ...starts.flat(),
        ...(isReversed ? lives.toReversed() : lives).flat(),
        ...isSuspended
          ? [{ ...wave, _tag: "WaveSuspended", sequence: 999, calls: [], executionResults: [] } as const]
          : [],
        ...said === true ? [{ _tag: "MessageTaken", ...own, id: `m${at}`, text: "more" } as const] : []
      ]
    })
  return operationOf([], turns)
}

const fold = (items: ReadonlyArray<AgentItem>, from: Thread = nothing) => items.reduce(after, from)

const isFragment = (item: AgentItem) => item._tag === "AssistantMessagePart"

/** What a reader sees, without the thoughts, which are only in fragments. */
const seen = ({ calls, works }: Thread) => [
  Array.from(works.values(), ({ parts, ...work }) => ({
    ...work,
    parts: parts.map((it) => it._tag === "Answer" ? { ...it, thought: "" } : it)
  })),
  Array.from(calls.values(), (it) => [it.key, it.tool, it.params, it.result, it.operation, stateOf(it)])
]

describe("a conversation", () => {
  it.prop(
    "has each call once, under its answer and its agent, in the state that its events tell",
    [Turns],
    ([turns]) => {
      const thread = fold(eventsOf(turns))
      const shown = Array.from(thread.works.values()).flatMap((it) => callsOf(thread, it))
      assert.strictEqual(shown.length, thread.calls.size)
      assert.strictEqual(new Set(shown.map(({ key }) => key)).size, shown.length)
      const states = {
        Succeeded: "succeeded",
        Failed: "failed",
        open: "running",
        waiting: "approval",
        suspended: "suspended"
      }
      const root = thread.works.get("op0")!
      assert.deepStrictEqual(
        callsOf(thread, root).map(({ tool }) => tool),
        turns.flatMap(({ calls }) => calls.map(({ tool }) => tool))
      )
      for (const [at, { calls }] of turns.entries()) {
        const answer = root.parts.filter((it) => it._tag === "Answer")[at]!
        for (const [index, call] of calls.entries()) {
          const found = thread.calls.get(answer.calls[index]!)!
          assert.deepStrictEqual(found.params, { index })
          // what a suspended wave leaves open is suspended, too
          const isLeft = call.end !== "Succeeded" && call.end !== "Failed" &&
            calls.some(({ end }) => end === "suspended")
          assert.strictEqual(stateOf(found), isLeft ? "suspended" : states[call.end])
          if (call.end === "Succeeded") assert.strictEqual(found.result?.text, `op0 ${at} ${index}`)
          if ("turns" in call) assert.isDefined(found.operation)
        }
      }
      for (const work of thread.works.values()) {
        for (const { callId, operation } of callsOf(thread, work)) {
          const said = thread.works.get(operation ?? "")?.parts.map(({ text }) => text) ?? []
          for (const text of said) assert.strictEqual(text, `for ${work.id} ${callId}`)
        }
      }
      const finals = eventsOf(turns).filter(({ _tag }) => _tag === "AssistantMessageFinal").length
      assert.strictEqual(tokensOf(thread, "op0"), 5 * finals)
    }
  )

  it.prop("is the same whichever fragments are missing, and from the start after a reset", [
    Turns,
    Schema.Array(Schema.Boolean),
    Schema.Int
  ], ([turns, kept, cut]) => {
    const items = eventsOf(turns)
    const whole = seen(fold(items))
    assert.deepStrictEqual(
      seen(fold(items.filter((it, at) => !isFragment(it) || kept[at % kept.length] === true))),
      whole
    )
    const some = items.slice(0, Math.abs(cut) % (items.length + 1))
    assert.deepStrictEqual(seen(fold([...some, { _tag: "Reset" }, ...items])), whole)
    // a connection that continues at its place
    assert.deepStrictEqual(seen(fold(items.slice(some.length), fold(some))), whole)
  })

  it.prop("does not change if an event comes again", [Turns, Schema.Int], ([turns, at]) => {
    const items = eventsOf(turns)
    // a call that arrives again was continued; results name their call by an id that others may have
    const lasting = items.filter((it) => !isFragment(it) && !/^(ToolCallQueued|ToolResultReceived)$/.test(it._tag))
    const again = lasting[Math.abs(at) % lasting.length]!
    assert.deepStrictEqual(seen(fold([...items, again])), seen(fold(items)))
  })

  it("says once where the model reads a summary of it, also if that is sent again", () => {
    const compaction: AgentItem = {
      _tag: "HistoryCompacted",
      operation: "op0",
      agentPath: [],
      turn: 1,
      at: 5,
      by: "summary",
      beforeTokens: 9_000,
      afterTokens: 2_000,
      messages: 12,
      usage
    }
    const remarks = fold([compaction, compaction]).works.get("op0")!.parts.map(({ text }) => text)
    assert.strictEqual(remarks.length, 1)
    assert.include(remarks[0], "9000 → 2000 tokens")
  })

  it("shows a queued message where the model has read it", () => {
    const own = { operation: "a", agentPath: [], turn: 1, at: 1 }
    const message = { ...own, id: "m", text: "wait" }
    const answer: AgentItem = {
      _tag: "AssistantMessageFinal",
      ...own,
      text: "yes",
      toolCalls: [],
      finish: "stop",
      usage,
      provider: "p",
      model: "m"
    }
    const items: ReadonlyArray<AgentItem> = [{ _tag: "MessageQueued", ...message }, answer, {
      _tag: "MessageTaken",
      ...message
    }]
    const parts = (items: ReadonlyArray<AgentItem>) =>
      fold(items).works.get("a")!.parts.map((it) => it._tag === "Said" ? [it.text, it.isQueued] : [it.text])
    assert.deepStrictEqual(parts(items.slice(0, 2)), [["wait", true], ["yes"]])
    assert.deepStrictEqual(parts(items), [["yes"], ["wait", false]])
  })

  it("keeps both lives of an operation that was suspended, whose turns count anew", () => {
    const own = { operation: "a", agentPath: [], turn: 1, at: 1 }
    const answer = (text: string): AgentItem => ({
      _tag: "AssistantMessageFinal",
      ...own,
      text,
      toolCalls: [],
      finish: "stop",
      usage,
      provider: "p",
      model: "m"
    })
    const end: AgentItem = {
      _tag: "OperationEnd",
      ...own,
      reason: { _tag: "Suspended", calls: [] },
      message: "",
      text: "",
      usage,
      turns: 1,
      calls: 0
    }
    const { end: now, parts } = fold([answer("before"), end, answer("after")]).works.get("a")!
    assert.deepStrictEqual(parts.map(({ text }) => text), ["before", "after"])
    assert.isUndefined(now)
  })

  it("shows a sub-agent that was resumed as the same, also if another one of its name resumed first", () => {
    const root = { operation: "a", agentPath: [], turn: 1, at: 1 }
    const call = (callId: string, _tag: "ToolCallQueued" | "ToolCallStart", sequence: number): AgentItem =>
      ({
        _tag,
        agentPath: [],
        batch: "a",
        process: "a-1",
        wave: 1,
        index: Number(callId),
        callId,
        tool: "clerk",
        sequence,
        at: 1,
        params: {}
      }) as never
    const calls = (sequence: number) =>
      ["1", "2"].flatMap((it) => [
        call(it, "ToolCallQueued", sequence + Number(it)),
        call(it, "ToolCallStart", sequence + 2 + Number(it))
      ])
    const final = (of: typeof root | object, text: string, toolCalls: ReadonlyArray<string> = []): AgentItem => ({
      _tag: "AssistantMessageFinal",
      ...root,
      ...of,
      text,
      toolCalls: toolCalls.map((id) => ({ id, name: "clerk" })),
      finish: "stop",
      usage,
      provider: "p",
      model: "m"
    })
    const below = (callId: string, operation: string): ReadonlyArray<AgentItem> => {
      const own = { operation, agentPath: ["clerk"], turn: 1, at: 2 }
      const caller = { process: "a-1", callId }
      return [
        { _tag: "SubAgentStarted", ...own, turn: 0, caller, process: `clerk-of-${callId}` },
        final(own, `${operation} for ${callId}`)
      ]
    }
    const thread = fold([
      final(root, "", ["1", "2"]),
      ...calls(0),
      ...below("2", "x"),
      ...below("1", "y"),
      {
        _tag: "OperationEnd",
        ...root,
        reason: { _tag: "Suspended", calls: [] },
        message: "",
        text: "",
        usage,
        turns: 1,
        calls: 2
      },
      ...calls(0),
      ...below("1", "v"),
      ...below("2", "w")
    ])
    const seen = callsOf(thread, thread.works.get("a")!).map(({ operation }) =>
      thread.works.get(operation!)!.parts.map(({ text }) => text)
    )
    assert.deepStrictEqual(seen, [["y for 1", "v for 1"], ["x for 2", "w for 2"]])
    assert.strictEqual(thread.works.size, 3)
  })

  it("shows a message that was read before with its calls and what the model read", () => {
    const { calls, parts } = ofHistory([
      { role: "user", text: "go" },
      {
        role: "assistant",
        text: "",
        calls: [{ id: "1", name: "look", params: {} }, { id: "2", name: "look", params: {} }]
      },
      { role: "tool", text: "", results: [{ id: "1", name: "look", isError: false, text: "one" }] },
      { role: "tool", text: "", results: [{ id: "2", name: "look", isError: true, text: "two" }] },
      { role: "assistant", text: "again", calls: [{ id: "1", name: "look", params: {} }] }
    ])
    assert.deepStrictEqual(parts.map(({ _tag }) => _tag), ["Said", "Answer", "Answer"])
    assert.deepStrictEqual(Array.from(calls.values(), (it) => [it.result?.text, stateOf(it)]), [
      ["one", "succeeded"],
      ["two", "failed"],
      [undefined, "queued"]
    ])
  })
})

describe("a stream of events", () => {
  it.prop("is the same wherever it is cut", [Schema.Array(Schema.Int)], ([cuts]) => {
    const text =
      ": note\n\nid: 1\nevent: a\ndata: {\"a\":1}\n\nevent: heartbeat\ndata: {}\n\nid: 2\r\ndata: x\r\ndata: y\r\n\r\nid: 3\ndata: left"
    const places = cuts.map((it) => Math.abs(it) % text.length).sort((a, b) => a - b)
    let rest = ""
    const found = [...places, text.length].flatMap((end, at) => {
      const { events, left } = eventsIn(rest + text.slice(places[at - 1] ?? 0, end))
      rest = left
      return events
    })
    assert.deepStrictEqual(found, [
      { id: "1", data: "{\"a\":1}" },
      { id: undefined, data: "{}" },
      { id: "2", data: "x\ny" }
    ])
    assert.strictEqual(rest, "id: 3\ndata: left")
  })
})

describe("an approval in a conversation", () => {
  const request = (args: { readonly [name: string]: string }) => ({
    args,
    preview: null,
    targets: [],
    facts: { readOnly: false, openWorld: false, undoable: false }
  })

  it("is answered there only if 20 lines show all of it, and nothing in it is marked", () => {
    assert.isTrue(fits(request({ command: "npm test" }), undefined))
    assert.isTrue(fits(request({ text: "line\n".repeat(18) }), undefined))
    assert.isFalse(fits(request({ text: "line\n".repeat(20) }), undefined))
    assert.isFalse(fits(request({ text: "x".repeat(2_000) }), undefined))
    assert.isFalse(fits(request({ to: "bob@ex\u0430mple.com" }), undefined))
    assert.isFalse(fits(request({ path: "a\u202Eb" }), undefined))
    const files = { ...request({}), preview: { _tag: "Files", files: [] } as const }
    const lines = (added: number) => ({
      ...files.facts,
      files: { changed: 1, created: 0 },
      lines: { added, removed: 0 }
    })
    assert.isTrue(fits({ ...files, facts: lines(14) }, undefined))
    assert.isFalse(fits({ ...files, facts: lines(15) }, undefined))
    assert.isFalse(fits({ ...files, facts: { ...lines(1), files: { changed: 2, created: 0 } } }, undefined))
    assert.isFalse(fits(files, undefined))
  })
})
