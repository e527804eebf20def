import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { duration, lanesOf, stateOf, summary, timeOf } from "../../../src/core/facts/Lanes.ts"
import type { Wire } from "../../../src/core/facts/ToolEvent.ts"

const wave = { agentPath: [] as ReadonlyArray<string>, batch: "t", process: "p", wave: 1 }

const event = (sequence: number, at: number, rest: object, call = 0): Wire =>
  ({ ...wave, sequence, at, callId: `c${call}`, tool: "write", index: call, ...rest }) as unknown as Wire

const common = {
  callId: "c0",
  tool: "write",
  index: 0,
  attempt: 2,
  queuedAt: 1000,
  startedAt: 1500,
  duration: 300,
  commits: 1
}

const story: ReadonlyArray<Wire> = [
  event(1, 1000, { _tag: "ToolCallQueued", params: {} }),
  event(2, 1100, { _tag: "ToolApprovalRequested", requestId: "q", why: "writes" }),
  event(3, 1400, { _tag: "ToolApprovalResolved", requestId: "q", answer: "ApproveOnce" }),
  event(4, 1500, { _tag: "ToolCallStart", attempt: 1, limitMillis: null }),
  event(5, 1550, { _tag: "ToolProgress", progress: 1, total: 3, message: "half" }),
  event(6, 1600, { _tag: "ToolCallStart", attempt: 2, limitMillis: null }),
  event(7, 1700, { _tag: "ToolLog", level: "info", message: "x" }),
  event(8, 1800, {
    _tag: "ToolCallComplete",
    dropped: 0,
    outcome: { _tag: "Failed", ...common, origin: "handler", error: null }
  }),
  { ...wave, sequence: 9, at: 1800, _tag: "ToolsEnd", toolMessages: [], executionResults: [] } as unknown as Wire
]

describe("lanesOf", () => {
  it("tells waiting, asking, permits and attempts apart", () => {
    const [lane, ...others] = lanesOf(story)
    assert.deepStrictEqual(others, [])
    assert.deepStrictEqual(lane?.spans, [
      { kind: "waiting", attempt: 0, from: 1000, to: 1100 },
      { kind: "permits", attempt: 0, from: 1400, to: 1500 },
      { kind: "running", attempt: 1, from: 1500, to: 1600 },
      { kind: "running", attempt: 2, from: 1600, to: 1800 },
      { kind: "asking", attempt: 0, from: 1100, to: 1400 }
    ])
    assert.strictEqual(stateOf(lane!), "Failed: handler")
    assert.strictEqual(timeOf(lane!, "running", 5000), 300)
  })

  it.prop("is the same in whatever order events come, and however often", [Schema.Array(Schema.Int)], ([salts]) => {
    const mixed = [...story, ...salts.map((salt) => story[Math.abs(salt) % story.length]!)]
      .map((it, at) => [Math.abs((salts[at % Math.max(1, salts.length)] ?? at) * 31 + at * 17) % 97, it] as const)
      .sort(([a], [b]) => a - b).map(([, it]) => it)
    assert.deepStrictEqual(lanesOf(mixed), lanesOf(story))
  })

  it("tells where a call stands at each point", () => {
    const states = story.map((_, at) => stateOf(lanesOf(story.slice(0, at + 1))[0]!))
    assert.deepStrictEqual(states, [
      "Waiting",
      "Waiting for approval",
      "Waiting for permits",
      "Running",
      "Running",
      "Running, attempt 2",
      "Running, attempt 2",
      "Failed: handler",
      "Failed: handler"
    ])
    assert.strictEqual(lanesOf(story.slice(0, 5))[0]?.status, "1 of 3: half")
  })

  it("shows an approval request of a call that runs, and a call that was suspended", () => {
    const running = [
      story[0]!,
      event(2, 1200, { _tag: "ToolCallStart", attempt: 1, limitMillis: null }),
      event(3, 1300, { _tag: "ToolApprovalRequested", requestId: "q", why: "w" })
    ]
    assert.deepStrictEqual(lanesOf(running)[0]?.spans.map(({ kind }) => kind), ["waiting", "running", "asking"])
    assert.strictEqual(stateOf(lanesOf(running)[0]!), "Waiting for approval")
    const ended = {
      ...wave,
      sequence: 4,
      at: 1400,
      _tag: "WaveSuspended",
      calls: ["c0"],
      executionResults: []
    } as unknown as Wire
    const [lane] = lanesOf([...running, ended])
    assert.strictEqual(stateOf(lane!), "Suspended")
    assert.isTrue(lane?.spans.every(({ to }) => to === 1400 || to === 1200))
  })

  it("puts calls in their order, and those of sub-agents behind those of their agent", () => {
    const of = (path: ReadonlyArray<string>, index: number) =>
      ({ ...event(1, 1000, { _tag: "ToolCallQueued" }, index), agentPath: path }) as Wire
    const lanes = lanesOf([of(["b"], 0), of(["a", "x"], 0), of([], 1), of(["a"], 0), of([], 0)])
    assert.deepStrictEqual(lanes.map(({ agentPath, index }) => [...agentPath, index].join("/")), [
      "0",
      "1",
      "a/0",
      "a/x/0",
      "b/0"
    ])
  })

  it("takes 500 calls with 20 events each quickly enough to be made anew for each event", () => {
    const events = Array.from(
      { length: 500 },
      (_, call) =>
        Array.from(
          { length: 20 },
          (_, at) =>
            event(call * 20 + at + 1, 1000 + at, at === 0 ? { _tag: "ToolCallQueued" } : { _tag: "ToolLog" }, call)
        )
    ).flat()
    assert.strictEqual(lanesOf(events).length, 500)
  })
})

describe("words", () => {
  it("are those of terminals", () => {
    assert.strictEqual(
      summary({ _tag: "Skipped", because: "x" } as Parameters<typeof summary>[0]),
      "Skipped: x"
    )
    assert.deepStrictEqual([350, 4200, 185_000, 3_600_000, 59_990].map(duration), [
      "350 ms",
      "4.2 s",
      "3 min 5 s",
      "1 h",
      "1 min"
    ])
  })
})
