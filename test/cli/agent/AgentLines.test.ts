import { assert, describe, it } from "@effect/vitest"
import type * as AgentEvent from "../../../src/agent/AgentEvent.ts"
import * as AgentLines from "../../../src/cli/agent/AgentLines.ts"

const common = { operation: "o", turn: 1, at: 0, agentPath: [] as ReadonlyArray<string> }

const delta = (text: string, agentPath: ReadonlyArray<string> = []): AgentEvent.AgentEvent => ({
  ...common,
  _tag: "AssistantMessagePart",
  agentPath,
  part: { type: "text-delta", id: "1", delta: text } as AgentEvent.AssistantMessagePart["part"]
})

const end: AgentEvent.AgentEvent = {
  ...common,
  _tag: "AssistantMessagePart",
  part: { type: "text-end", id: "1" } as AgentEvent.AssistantMessagePart["part"]
}

const written = (isShown: boolean, ...events: ReadonlyArray<AgentEvent.AgentEvent>) => {
  const write = AgentLines.text({ color: false, isShown })
  return events.map((event) => write(event).stdout ?? "").join("")
}

describe("what a model says", () => {
  it("is written as it is where nobody looks, and ends its line once", () => {
    const said = "a\u001b[2J\u202e\tb\r\n"
    assert.strictEqual(written(false, delta(said), end), said)
    assert.strictEqual(written(false, delta("a"), delta("b"), end, end), "ab\n")
  })

  it("does not make a terminal do anything", () => {
    assert.strictEqual(written(true, delta("a\u001b[2J\u202e\tb\r\n⚠️ é"), end), "a\\u001b[2J\\u202e\tb\\r\n⚠️ é\n")
  })

  it("is whole where a character comes in two halves", () => {
    const [high, low] = ["😀".slice(0, 1), "😀".slice(1)]
    const write = AgentLines.text({ color: false, isShown: true })
    assert.deepStrictEqual([write(delta(`a${high}`)), write(delta(`${low}b`))].map(({ stdout }) => stdout), [
      "a",
      "😀b"
    ])
  })

  it("is its caller's alone where it is a sub-agent", () => {
    assert.strictEqual(written(false, delta("secret", ["dispatch_agent"]), delta("open"), end), "open\n")
  })
})

describe("a conversation that is compacted", () => {
  const event = {
    ...common,
    _tag: "HistoryCompacted",
    by: "drop",
    beforeTokens: 9_000,
    afterTokens: 2_000,
    messages: 12,
    usage: { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0, cacheWriteInputTokens: 0 }
  } as const

  it("is one line, with why there is no summary", () => {
    const { stderr } = AgentLines.text({ color: false, isShown: true })({
      ...event,
      problem: "overloaded\u001b[2J\nTry later."
    })
    assert.strictEqual(stderr, "… dropped older turns: 9000 → 2000 tokens (no summary: overloaded\\u001b[2J)\n")
    const { stdout } = AgentLines.json(event)
    assert.deepInclude(JSON.parse(stdout!), { event: "history_compacted", by: "drop", afterTokens: 2_000 })
  })
})

describe("a request that is repeated", () => {
  it("is one line, without the advice that comes with its error", () => {
    const write = AgentLines.text({ color: false, isShown: true })
    const error = { message: "Cannot connect\u001b[2J (POST http://127.0.0.1)\n\nCheck your network connection." }
    const { stderr } = write({
      ...common,
      _tag: "ModelRetry",
      error: error as AgentEvent.ModelRetry["error"],
      afterMillis: 1
    })
    assert.strictEqual(stderr, "… retrying the model: Cannot connect\\u001b[2J (POST http://127.0.0.1)\n")
  })
})
