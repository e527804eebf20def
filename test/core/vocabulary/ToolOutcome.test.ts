import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as ToolEvent from "../../../src/core/facts/ToolEvent.ts"
import * as ToolOutcome from "../../../src/core/vocabulary/ToolOutcome.ts"
import { ToolRefusal } from "../../../src/index.ts"

const common = { callId: "1", tool: "t", index: 0, attempt: 0, queuedAt: 0, commits: 0 }
const continuation = { requestsContinuation: false, hasContinueRule: false }

const refusals: {
  readonly [T in ToolRefusal.ToolRefusal["_tag"]]: Extract<ToolRefusal.ToolRefusal, { readonly _tag: T }>
} = {
  ToolNotFound: { _tag: "ToolNotFound", available: ["a", "b"] },
  InvalidParameters: { _tag: "InvalidParameters", issues: [{ path: "a.b", message: "Missing key" }] },
  PolicyDenied: { _tag: "PolicyDenied", rule: "deny t" },
  ToolBlocked: { _tag: "ToolBlocked", because: "it failed" },
  CircuitOpen: { _tag: "CircuitOpen", retryAfterMillis: 1_500 },
  GuardRejected: { _tag: "GuardRejected", guard: "quota", reason: "no more" },
  DuplicateCall: { _tag: "DuplicateCall", of: "0", running: false },
  RuleViolation: { _tag: "RuleViolation", rule: { _tag: "MaxCalls", tool: "t", max: 1 }, sentence: "Enough." },
  PermissionDenied: { _tag: "PermissionDenied", by: "user", reason: "not now" },
  WriteDenied: { _tag: "WriteDenied", by: "user" },
  TargetsChanged: { _tag: "TargetsChanged", from: ["src/a"], to: [".git/hooks/a"] },
  DeadlineExceeded: { _tag: "DeadlineExceeded", limitMillis: 1_000 },
  CallBudgetExhausted: { _tag: "CallBudgetExhausted", max: 3 },
  RateLimited: { _tag: "RateLimited", retryAfterMillis: 1_500 },
  StoreUnavailable: { _tag: "StoreUnavailable", operation: "reserve" },
  SandboxUnavailable: { _tag: "SandboxUnavailable", reason: "no container could be started" },
  DepthExceeded: { _tag: "DepthExceeded", max: 8 },
  ReentryRefused: { _tag: "ReentryRefused", waitsFor: "the read pool" }
}

const outcomes: ReadonlyArray<ToolOutcome.ToolOutcome> = [
  { _tag: "Succeeded", ...common, output: { _tag: "Inline", value: 1, modelText: "1" }, ...continuation },
  {
    _tag: "Succeeded",
    ...common,
    output: { _tag: "Artifact", ref: { id: "art", chars: 9 }, preview: "p", modelText: "p…" },
    ...continuation,
    replayOf: "0"
  },
  { _tag: "Failed", ...common, error: "no", origin: "handler", retryable: true, modelText: "no", ...continuation },
  { _tag: "TimedOut", ...common, limitMillis: 1_000, which: "idle", retryable: false },
  { _tag: "TimedOut", ...common, limitMillis: 1_000, which: "turn", retryable: true, commits: 2, openCommits: 1 },
  { _tag: "Cancelled", ...common, started: true, reason: "enough", commits: 1 },
  { _tag: "Cancelled", ...common, started: false, reason: "enough" },
  { _tag: "Skipped", ...common, because: "call 0 was refused" },
  { _tag: "Unknown", ...common, startedAt: 5 },
  ...Object.values(refusals).map((reason): ToolOutcome.ToolOutcome => ({ _tag: "Denied", ...common, reason }))
]

describe("ToolOutcome", () => {
  for (const outcome of outcomes) {
    const name = outcome._tag === "Denied" ? outcome.reason._tag : outcome._tag

    it.effect(`has a text and survives JSON: ${name}`, () =>
      Effect.gen(function*() {
        const message = ToolOutcome.toMessage(outcome)
        assert.isNotEmpty(message.text)
        assert.notInclude(message.text, "undefined")
        assert.notInclude(message.text, "[object")
        assert.strictEqual(message.isError, outcome._tag !== "Succeeded")
        const json: unknown = JSON.parse(
          JSON.stringify(yield* Schema.encodeUnknownEffect(ToolOutcome.ToolOutcome)(outcome))
        )
        assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(ToolOutcome.ToolOutcome)(json), outcome)
      }), { tags: ["O1"] })

    it.effect(`passes or becomes an error that keeps its reason: ${name}`, () =>
      Effect.gen(function*() {
        const passes = outcome._tag === "Succeeded" || outcome._tag === "Failed"
        const exit = yield* Effect.result(ToolOutcome.orFail(outcome))
        assert.strictEqual(exit._tag, passes ? "Success" : "Failure")
        if (exit._tag === "Failure") {
          assert.strictEqual(exit.failure.reason._tag, name)
          assert.strictEqual(exit.failure.message, ToolOutcome.toMessage(outcome).text)
          if (outcome._tag === "Denied") assert.deepStrictEqual(exit.failure.reason, outcome.reason)
        }
      }), { tags: ["O5"] })
  }
})

describe("ToolRefusal", () => {
  it("tells a model that is told to wait how long, where that is known", () => {
    const text = (reason: ToolRefusal.ToolRefusal) => ToolRefusal.describe(reason, "t")
    assert.include(
      text({ _tag: "RateLimited", retryAfterMillis: 1_500 }),
      "Try it again in 1.5 s, or continue without it."
    )
    assert.include(text({ _tag: "RateLimited" }), "Try it again later, or continue without it.")
  })

  it("does not echo megabytes of a model's tool name", () => {
    for (const refusal of Object.values(refusals)) {
      assert.isBelow(ToolRefusal.describe(refusal, "x".repeat(1_000_000)).length, 2_000)
    }
  })

  it("names the tools of a large toolkit only in part", () => {
    const available = Array.from({ length: 5_000 }, (_, n) => `tool_${n}`)
    const text = ToolRefusal.describe({ _tag: "ToolNotFound", available }, "t")
    assert.isBelow(text.length, 2_000)
    assert.include(text, "4950 more")
  })
})

describe("ToolEvent", () => {
  const wave = { agentPath: [], batch: "b", process: "p", wave: 1, sequence: 1 }
  const end: ToolEvent.ToolEvent = {
    ...wave,
    _tag: "ToolsEnd",
    at: 0,
    toolMessages: outcomes.map(ToolOutcome.toMessage),
    executionResults: outcomes
  }
  const custom = (type: string): ToolEvent.ToolEvent => ({
    ...wave,
    _tag: "ToolCustom",
    callId: "1",
    tool: "t",
    index: 0,
    at: 0,
    type,
    data: { someKey: 1 }
  })

  it("has the names and fields of the wire", () => {
    assert.strictEqual(ToolEvent.sseName(end), "tools_end")
    assert.sameMembers(Object.keys(ToolEvent.toWire(end)), [
      "_tag",
      "agentPath",
      "batch",
      "process",
      "wave",
      "sequence",
      "at",
      "toolMessages",
      "executionResults"
    ])
    assert.strictEqual(ToolEvent.sseName(custom("diff")), "tool_diff")
    assert.deepInclude(ToolEvent.toWire(custom("diff")), { callId: "1", data: { someKey: 1 } })
  })

  it("shows clients every outcome, with its reason", () => {
    for (const outcome of outcomes) {
      const complete = {
        ...wave,
        _tag: "ToolCallComplete",
        callId: "1",
        tool: "t",
        index: 0,
        at: 0,
        outcome,
        dropped: 0
      }
      const json = JSON.stringify(ToolEvent.toWire(complete as ToolEvent.ToolEvent))
      const shown = Schema.decodeSync(Schema.fromJsonString(ToolEvent.Wire))(json)
      assert.deepStrictEqual(shown, JSON.parse(json))
      const seen = shown._tag === "ToolCallComplete" ? shown.outcome : undefined
      assert.strictEqual(seen?._tag, outcome._tag)
      if (outcome._tag === "Unknown") assert.deepInclude(seen, { startedAt: 5 })
      if (outcome._tag !== "Denied") continue
      const { reason } = seen as { readonly reason: object }
      assert.strictEqual(Object.keys(reason).length, Object.keys(outcome.reason).length)
    }
  })

  it("keeps its own names for itself", () => {
    for (
      const type of [
        "call_queued",
        "approval_request",
        "approval_resolved",
        "call_start",
        "progress",
        "status",
        "log",
        "options",
        "partial_result",
        "call_complete",
        "",
        "Upper",
        "with space",
        "new\nline",
        "x".repeat(65)
      ]
    ) {
      assert.isFalse(ToolEvent.isCustomType(type), type)
    }
    for (const type of ["diff", "a", "0_x", "x".repeat(64)]) assert.isTrue(ToolEvent.isCustomType(type), type)
  })

  it.effect("survives JSON", () =>
    Effect.gen(function*() {
      for (const event of [end, custom("diff")]) {
        const json: unknown = JSON.parse(JSON.stringify(yield* Schema.encodeUnknownEffect(ToolEvent.ToolEvent)(event)))
        assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(ToolEvent.ToolEvent)(json), event)
      }
    }))
})
