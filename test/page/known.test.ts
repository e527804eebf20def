/** Holds what the page makes of the stream: nothing is lost, and nothing counts twice. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import type { Wire } from "../../src/core/facts/ToolEvent.ts"
import { after, keyOf, type Known, type KnownWave, nothing, ofLists, withEvents } from "../../src/page/known.ts"
import type { ApprovalSummary, LiveItem, ResolvedApproval } from "../../src/server/api/ApiApprovals.ts"

const asked = (id: string, requestedAt: number): LiveItem => ({
  _tag: "ApprovalRequested",
  approval: { id, requestedAt, hash: id } as ApprovalSummary
})
const over = (id: string): LiveItem => ({
  _tag: "ApprovalResolved",
  approval: { id, how: "suspended", endedAt: 9 } as ResolvedApproval
})
const wave = {
  user: "ada",
  session: "s",
  turn: "t",
  wave: "w",
  status: "running",
  calls: 1,
  tools: ["look"],
  beganAt: 1
} as const
const event = (sequence: number): LiveItem =>
  ({
    ...wave,
    _tag: "WaveEvent",
    event: { _tag: "ToolStatus", process: "p", wave: 1, sequence, agentPath: [] }
  }) as never

const ids = (known: Known) => known.open.map((it) => it.id)

const Id = Schema.Literals(["a", "b", "c"])

const Step = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("asked"), id: Id, at: Schema.Literals([0, 1, 2]) }),
  Schema.Struct({ kind: Schema.Literal("over"), id: Id }),
  Schema.Struct({ kind: Schema.Literal("began") }),
  Schema.Struct({ kind: Schema.Literal("event"), sequence: Schema.Literals([1, 2, 3]) })
])

const itemOf = (step: typeof Step.Type): LiveItem => {
  switch (step.kind) {
    case "asked":
      return asked(step.id, step.at)
    case "over":
      return over(step.id)
    case "began":
      return { _tag: "WaveBegan", wave }
    case "event":
      return event(step.sequence)
  }
}

const Steps = Schema.Array(Step)

describe("what the page knows", () => {
  it.prop("is the same however often the last item comes", [Steps], ([steps]) => {
    const known = steps.map(itemOf).reduce<Known>(after, nothing)
    const last = steps.at(-1)
    if (last !== undefined) assert.deepStrictEqual(after(known, itemOf(last)), known)
  })

  it.prop("has an approval request once, open or over, and the oldest first", [Steps], ([steps]) => {
    const known = steps.map(itemOf).reduce<Known>(after, nothing)
    const each = [...ids(known), ...known.ended.map((it) => it.id)]
    assert.strictEqual(new Set(each).size, each.length)
    const times = known.open.map((it) => it.requestedAt)
    assert.deepStrictEqual(times, times.toSorted((a, b) => a - b))
  })

  it("has an approval request again that was suspended and is asked under its id", () => {
    const known = [asked("a", 1), over("a"), asked("a", 1)].reduce<Known>(after, nothing)
    assert.deepStrictEqual(ids(known), ["a"])
    assert.deepStrictEqual(known.ended, [])
  })

  it("has of a wave what it was told and what it read, each once, and knows when there is more", () => {
    const statusOf = (sequence: number) => (event(sequence) as unknown as { readonly event: Wire }).event
    const lists = ofLists({ open: [], ended: [], pending: 0, cursor: "1-1" }, { waves: [wave], cursor: "1-1" })
    const seen = (known: Known) => {
      const [{ events, missing }] = Array.from(known.waves.values()) as [KnownWave]
      return [events.map((it) => it.sequence), missing]
    }
    const told = [event(2), event(3)].reduce<Known>(after, lists)
    assert.deepStrictEqual(seen(told), [[2, 3], 1])
    assert.deepStrictEqual(seen(withEvents(told, keyOf(wave), [statusOf(1), statusOf(2)], 1)), [[1, 2, 3], 0])
    // what is left out while it is read is read once more
    const more = after(told, { ...wave, _tag: "WaveEventLeftOut" })
    assert.deepStrictEqual(seen(withEvents(more, keyOf(wave), [statusOf(1), statusOf(2)], 1)), [[1, 2, 3], 2])
  })

  it("loses nothing that happens while the lists are read", () => {
    const lists = ofLists({ open: [], ended: [], pending: 0, cursor: "1-1" }, { waves: [], cursor: "1-1" })
    assert.deepStrictEqual(ids([asked("b", 2), asked("a", 1)].reduce<Known>(after, lists)), ["a", "b"])
  })
})
