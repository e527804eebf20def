/** What providers are sent, as clients of the server may see it. */
import { assert, describe, it } from "@effect/vitest"
import { type ToolOutcome } from "effect-tool-executor"
import * as Messages from "../../../src/server/waves/Messages.ts"
import * as WireFormat from "../../../src/wire/WireFormat.ts"

const common = { tool: "t", index: 0, attempt: 1, queuedAt: 0, startedAt: 0, duration: 1, commits: 0 }

const failed = {
  ...common,
  _tag: "Failed",
  retryable: false,
  modelText: "it failed",
  requestsContinuation: false,
  hasContinueRule: false
} as const

const outcomes: ReadonlyArray<ToolOutcome.ToolOutcome> = [
  { ...failed, callId: "1", origin: "defect", error: new Error("hunter2") },
  { ...failed, callId: "2", origin: "result", error: { found: "hunter2" } },
  {
    ...failed,
    callId: "3",
    origin: "handler",
    error: { _tag: "Gone", message: "it is gone", cause: { name: "Error", message: "hunter2", stack: "at hunter2" } }
  },
  {
    ...common,
    _tag: "Denied",
    callId: "4",
    reason: {
      _tag: "RuleViolation",
      rule: { _tag: "RequiresPrecedingTools", tool: "t", tools: ["u"], args: { secret: "hunter2" } } as never,
      sentence: "Call u first."
    }
  }
]

describe("messages of a wave", () => {
  for (const format of WireFormat.Format.literals) {
    it(`say nothing of what broke inside of a tool: ${format}`, { tags: ["SV19"] }, () => {
      const text = JSON.stringify(Messages.of(format, outcomes))
      assert.include(text, "it failed")
      assert.notInclude(text, "hunter2")
    })
  }

  it("are outcomes as clients see them, with what the model is told, in the native format", () => {
    assert.deepInclude((Messages.of("native", outcomes) as ReadonlyArray<object>)[2], {
      _tag: "Failed",
      callId: "3",
      error: { _tag: "Gone", message: "it is gone" },
      text: "it failed"
    })
  })
})
