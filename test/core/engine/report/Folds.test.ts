/** Which fact each fold has something for: one row a fact. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { CallTimes } from "../../../../src/core/engine/report/CallTimes.ts"
import * as EventFold from "../../../../src/core/engine/report/EventFold.ts"
import * as JournalFold from "../../../../src/core/engine/report/JournalFold.ts"
import * as MetricFold from "../../../../src/core/engine/report/MetricFold.ts"
import * as SpanFold from "../../../../src/core/engine/report/SpanFold.ts"
import * as Fact from "../../../../src/core/facts/Fact.ts"

const denied = {
  _tag: "Denied",
  callId: "c",
  tool: "t",
  index: 0,
  attempt: 0,
  queuedAt: 1,
  commits: 0,
  reason: { _tag: "ToolNotFound", available: [] }
} as const

const grant = { id: "g", principal: "p", tool: "t", agentPath: [], answer: "ApproveForScope", grantedAt: 1 } as const

const start = {
  at: 1,
  attempt: 1,
  limitMillis: Infinity,
  mutates: false,
  allowedBy: "policy",
  input: { params: {}, args: {} },
  idempotencyKey: undefined,
  reservation: undefined
}

const request = {
  id: "r",
  why: "w",
  expiresAt: "unlimited",
  tool: "t",
  args: {},
  targets: [],
  preview: undefined
} as const

interface Row<F> {
  readonly fact: F
  readonly event?: string
  readonly entry?: string
  readonly metrics?: true
  readonly spans?: true
}

const calls: { readonly [T in Fact.CallFact["_tag"]]: ReadonlyArray<Row<Fact.Of<T>>> } = {
  Queued: [{ fact: { _tag: "Queued", at: 1, params: {} }, event: "ToolCallQueued" }],
  Resumed: [{ fact: { _tag: "Resumed", at: 1 }, spans: true }],
  Arrived: [{ fact: { _tag: "Arrived", at: 1, isResumed: false }, entry: "Arrived" }],
  Decided: [{ fact: { _tag: "Decided", at: 1, reason: denied.reason }, entry: "Decided" }],
  Shadowed: [
    { fact: { _tag: "Shadowed", at: 1, policy: "p", would: "allow", decided: "allow" }, metrics: true },
    {
      fact: { _tag: "Shadowed", at: 1, policy: "p", would: "deny", decided: "allow", because: "b" },
      event: "ToolShadowed",
      entry: "Shadowed",
      metrics: true
    }
  ],
  Reviewed: [{
    fact: { _tag: "Reviewed", at: 1, verdict: "allow", reason: "r", model: "m", millis: 5, decides: true, request },
    event: "ToolReviewed",
    entry: "Reviewed",
    metrics: true,
    spans: true
  }],
  Asked: [{ fact: { _tag: "Asked", at: 1, request }, entry: "Asked" }],
  Withdrawn: [{ fact: { _tag: "Withdrawn", at: 1, requestId: "r" }, entry: "Answered" }],
  Presented: [{
    fact: { _tag: "Presented", at: 1, requestId: "r", why: "w", diff: "d" },
    event: "ToolApprovalRequested",
    metrics: true,
    spans: true
  }],
  ApprovedBy: [{
    fact: { _tag: "ApprovedBy", at: 1, requestId: "r", approval: { person: "ada", at: 1, answer: "ApproveOnce" } },
    entry: "ApprovedBy",
    spans: true
  }],
  Answered: [{
    fact: { _tag: "Answered", at: 1, requestId: "r", answer: "Deny", by: "user" },
    event: "ToolApprovalResolved",
    entry: "Answered",
    metrics: true,
    spans: true
  }],
  Granted: [{ fact: { _tag: "Granted", at: 1, grant }, entry: "Granted" }],
  Starting: [{ fact: { _tag: "Starting", ...start, mutates: true }, entry: "Started" }],
  Started: [
    { fact: { _tag: "Started", ...start }, event: "ToolCallStart", entry: "Started", metrics: true, spans: true },
    // `Starting` has put it on record
    { fact: { _tag: "Started", ...start, mutates: true }, event: "ToolCallStart", metrics: true, spans: true },
    {
      fact: { _tag: "Started", ...start, mutates: true, attempt: 2 },
      event: "ToolCallStart",
      entry: "Started",
      metrics: true,
      spans: true
    }
  ],
  AttemptFailed: [{ fact: { _tag: "AttemptFailed", at: 1, attempt: 1 }, metrics: true, spans: true }],
  Recalled: [{ fact: { _tag: "Recalled", at: 1, attempt: 1, args: {} }, metrics: true, spans: true }],
  Reported: [
    { fact: { _tag: "Reported", at: 1, report: { _tag: "ToolProgress", progress: 1 } }, event: "ToolProgress" },
    { fact: { _tag: "Reported", at: 1, report: { _tag: "ToolCustom", type: "x", data: 1 } }, event: "ToolCustom" }
  ],
  Committed: [{ fact: { _tag: "Committed", at: 1, commits: 1 }, entry: "Committed" }],
  LateWriteBlocked: [{ fact: { _tag: "LateWriteBlocked", at: 1 }, entry: "LateWriteBlocked", spans: true }],
  Settled: [{ fact: { _tag: "Settled", at: 1, outcome: denied }, entry: "Settled", metrics: true, spans: true }],
  Suspended: [{
    fact: { _tag: "Suspended", at: 1, reason: "s", outcome: denied, isStarted: false },
    entry: "Suspended",
    metrics: true,
    spans: true
  }],
  GivenBack: [{ fact: { _tag: "GivenBack", at: 1, reason: "s" }, entry: "Suspended" }],
  Concluded: [{ fact: { _tag: "Concluded", at: 1, outcome: denied, dropped: 2 }, event: "ToolCallComplete" }],
  Orphaned: [{ fact: { _tag: "Orphaned", at: 1 }, metrics: true }],
  OrphanEnded: [{ fact: { _tag: "OrphanEnded", at: 1 }, entry: "OrphanEnded", metrics: true }]
}

const about: EventFold.About = { callId: "c", tool: "t", index: 3 }

/** A record that gives what makes its entries. */
const subject: JournalFold.Subject = {
  name: "t",
  isRefused: false,
  span: undefined,
  keeps: { arguments: "full", outputs: "full" },
  arrival: { args: { _tag: "None" } },
  common: (at) => ({ at, principal: "p", session: "s" }),
  entry: (at, body) => ({
    at,
    principal: "p",
    session: "s",
    agentPath: [],
    batch: "b",
    process: "x",
    wave: 1,
    index: 3,
    callId: "c",
    tool: "t",
    key: "k",
    ...body
  }),
  grant: (it) => it,
  idempotencyKey: () => "i",
  isEdited: () => false,
  outcome: (it) => ({ outcome: it }),
  scrub: (text) => text,
  shown: () => "h"
}

describe("a fact", () => {
  for (const [tag, rows] of Object.entries(calls)) {
    for (const { entry, event, fact, metrics, spans } of rows as ReadonlyArray<Row<Fact.CallFact>>) {
      it(`${tag}: event ${event ?? "-"}, entry ${entry ?? "-"}${metrics ? ", metrics" : ""}${spans ? ", spans" : ""}`, () => {
        assert.isTrue(Schema.is(Fact.Fact)(fact))
        const body = EventFold.ofCall(fact, about)
        assert.strictEqual(body?._tag, event)
        if (body !== undefined) assert.deepInclude(body, { ...about, at: 1 })
        const make = JournalFold.of(fact)
        const made = make?.(subject, fact as never)
        assert.strictEqual(made?._tag, entry)
        assert.strictEqual(made?.at, entry === undefined ? undefined : 1)
        assert.strictEqual(MetricFold.of(fact) !== undefined, metrics === true)
        assert.strictEqual(SpanFold.of(fact) !== undefined, spans === true)
      })
    }
  }

  it("about a wave is its end, or that calls may be resumed", () => {
    const end = { _tag: "WaveEnded", at: 1, toolMessages: [], executionResults: [denied] } as const
    assert.strictEqual(EventFold.ofWave({ _tag: "WaveStarted", at: 1, calls: 1 }), undefined)
    assert.deepStrictEqual(EventFold.ofWave(end), {
      _tag: "ToolsEnd",
      at: 1,
      toolMessages: [],
      executionResults: [denied]
    })
    assert.deepStrictEqual(EventFold.ofWave({ ...end, suspended: ["c"] }), {
      _tag: "WaveSuspended",
      at: 1,
      calls: ["c"],
      executionResults: [denied]
    })
  })

  it("says how long a call waited, was asked about and ran", () => {
    const times = new CallTimes(10n)
    const [presented, answered, failed, started, settled] = [
      calls.Presented,
      calls.Answered,
      calls.AttemptFailed,
      calls.Started,
      calls.Settled
    ].map((rows) => rows[0]!.fact)
    times.add(presented!, 20n)
    times.add(answered!, 50n)
    times.add(started!, 60n)
    assert.deepInclude(times, { asked: 30n, queued: 20n, isFirst: true })
    times.add(failed!, 65n)
    assert.strictEqual(times.ran, 5n)
    times.add(started!, 70n)
    assert.deepInclude(times, { queued: 20n, isFirst: false })
    times.add(settled!, 90n)
    assert.strictEqual(times.ran, 20n)
    times.add(settled!, 95n)
    assert.strictEqual(times.ran, undefined)
  })
})
