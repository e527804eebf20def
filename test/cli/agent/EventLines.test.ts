import { assert, describe, it } from "@effect/vitest"
import * as EventLines from "../../../src/cli/agent/EventLines.ts"
import type { ToolEvent } from "../../../src/core/facts/ToolEvent.ts"
import type { ToolOutcome } from "../../../src/core/vocabulary/ToolOutcome.ts"

const hostile = "rm\u001b[31m\u202e\nrf"

const wave = { agentPath: [], batch: "b", process: "p", wave: 1, sequence: 1 }

const common = { ...wave, callId: "1", tool: hostile, index: 0 }

const outcome: ToolOutcome = {
  callId: "1",
  tool: hostile,
  index: 0,
  _tag: "Failed",
  attempt: 1,
  queuedAt: 0,
  startedAt: 0,
  duration: 1500,
  commits: 0,
  error: "no",
  origin: "handler",
  retryable: true,
  modelText: `${hostile} failed`,
  requestsContinuation: false,
  hasContinueRule: false
}

const events: ReadonlyArray<ToolEvent> = [
  { ...common, _tag: "ToolCallQueued", at: 0, params: { path: hostile } },
  { ...common, _tag: "ToolCallStart", at: 0, attempt: 1, limitMillis: 1000 },
  { ...common, _tag: "ToolProgress", at: 10, progress: 1, total: 3, message: `one\n${hostile}\n` },
  { ...common, _tag: "ToolProgress", at: 400, progress: 2, total: 3 },
  { ...common, _tag: "ToolStatus", at: 510, status: hostile },
  { ...common, _tag: "ToolLog", at: 520, level: "warn", message: hostile },
  { ...common, _tag: "ToolCustom", at: 530, type: "mood", data: hostile },
  { ...common, _tag: "ToolCallComplete", at: 1500, outcome, dropped: 2 },
  { ...wave, _tag: "ToolsEnd", at: 1500, toolMessages: [], executionResults: [outcome] }
]

const shown = "rm\\u001b[31m\\u202e\\nrf"

describe("EventLines", () => {
  it("shows one line per call, and progress at most twice a second", () => {
    const write = EventLines.pretty({ color: false })
    assert.strictEqual(
      events.map(write).join(""),
      [
        `… ${shown}  1 of 3  rf`,
        `… ${shown}  ${shown}`,
        `… ${shown}  warn: ${shown}`,
        `✗ ${shown}  {"path":"rm\\u001b[31m\\u202e\\nrf"}  1.5 s  Failed: handler, ${shown} failed  (2 progress reports omitted)`,
        "1 call, 1 Failed, 1.5 s",
        ""
      ].join("\n")
    )
  })

  it("shows what a reviewer said, and a shadow policy would decide", () => {
    const write = EventLines.pretty({ color: false })
    const said = { verdict: "deny", reason: hostile, model: hostile, millis: 5, decides: true } as const
    const would = { policy: "next", would: "allow", decided: "ask" } as const
    assert.strictEqual(
      write({ ...common, _tag: "ToolReviewed", at: 0, ...said }) +
        write({ ...common, _tag: "ToolShadowed", at: 0, ...would }),
      `… ${shown}  reviewer: deny, ${shown}\n… ${shown}  shadow policy next: allow, not ask\n`
    )
  })

  it("gives a wave of no calls no time", () => {
    const write = EventLines.pretty({ color: false })
    assert.strictEqual(
      write({ ...wave, _tag: "ToolsEnd", at: 1_795_000_000_000, toolMessages: [], executionResults: [] }),
      "0 calls\n"
    )
  })

  it("colours its own words only, and only if it is told to", () => {
    const text = events.map(EventLines.pretty({ color: true })).join("")
    assert.include(text, "\u001b[31m✗\u001b[0m")
    assert.notInclude(text, "rm\u001b")
  })

  it("bounds every line", () => {
    const long = "x".repeat(100_000)
    const write = EventLines.pretty({ color: false })
    write({ ...common, tool: long, _tag: "ToolCallQueued", at: 0, params: { path: long } })
    const line = write({
      ...common,
      tool: long,
      _tag: "ToolCallComplete",
      at: 0,
      outcome: { ...outcome, modelText: long },
      dropped: 0
    })
    assert.isBelow(line.length, 300)
  })

  it("writes one JSON object per line, safe to show, with the event's name", () => {
    const lines = events.map(EventLines.ndjson)
    for (const line of lines) assert.match(line, /^[^\p{C}]*\n$/u)
    const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
    assert.deepStrictEqual(parsed.map((it) => it["event"]), [
      "tool_call_queued",
      "tool_call_start",
      "tool_progress",
      "tool_progress",
      "tool_status",
      "tool_log",
      "tool_mood",
      "tool_call_complete",
      "tools_end"
    ])
    assert.strictEqual(parsed[0]?.["callId"], "1")
    assert.strictEqual(parsed[0]?.["tool"], hostile)
  })

  it("writes server-sent events", () => {
    const [text] = events.map(EventLines.sse)
    assert.match(text ?? "", /^event: tool_call_queued\ndata: \{[^\n]*"callId":"1",[^\n]*\}\n\n$/)
  })

  it("writes nothing when it is told so", () => {
    assert.strictEqual(events.map(EventLines.none).join(""), "")
  })
})
