/** A conversation that is restored from its record, whatever the record left out. */
import { assert, describe, it } from "@effect/vitest"
import * as RecordedConversation from "../../../../src/core/engine/state/RecordedConversation.ts"
import type * as Journal from "../../../../src/core/store/Journal.ts"
import * as Declared from "../../../../src/provenance/Declared.ts"
import * as Ledger from "../../../../src/provenance/Ledger.ts"
import * as Provenance from "../../../../src/provenance/Provenance.ts"
import { seeds } from "../../../support/seeds.ts"

const list = Declared.make("list", { effect: "read", output: { id: "own:file", name: "label", address: "own" } })
const send = Declared.make("send", { effect: "write", parameters: { to: "target" } })
const remove = Declared.make("remove", { effect: "write", parameters: { id: "object:file" } })

const names = ["report", "budget", "ada@example.com", "mark@evil.example", "4711", "4712"]
const calls = names.flatMap((it) => [[send, { to: it }], [remove, { id: it }]] as const)

const random = (seed: number) => {
  let state = seed + 1
  return (most: number): number => {
    state = Math.imul(state ^ (state >>> 15), 0x2C1B3C6D) + 0x6D2B79F5 | 0
    return ((state ^ (state >>> 13)) >>> 0) % most
  }
}

const common = { at: 1, principal: "ada", session: "x", batch: "b" }

describe("a conversation that is restored", () => {
  it("lets nothing run that the live one did not, and all of it if nothing was left out", { tags: ["PV7"] }, () => {
    for (const seed of seeds(500)) {
      const next = random(seed)
      const live = Ledger.make()
      const entries: Array<Journal.JournalEntry> = []
      let isWhole = true
      const omits = (): boolean => {
        const omitted = next(4) === 0 && seed % 2 === 0
        if (omitted) isWhole = false
        return omitted
      }
      const units: Array<number> = []
      for (let n = next(8), ordinal = 0; n >= 0; n--, ordinal++) {
        units.push(entries.length)
        if (next(3) === 0) {
          const text = `the ${names[next(names.length)]!} please`
          live.heard(text)
          entries.push({
            _tag: "Heard",
            ...common,
            conversation: "talk",
            ordinal,
            from: "user",
            ...(omits() ? {} : { text })
          })
          continue
        }
        const args = { query: names[next(names.length)]! }
        const output = [0, 1].map(() => ({
          id: names[next(names.length)]!,
          name: names[next(names.length)]!,
          address: names[next(names.length)]!
        }))
        // what ran, where a person edited what arrived
        const isEdited = omits()
        const ran = isEdited ? { query: names[next(names.length)]! } : args
        live.received({ tool: list, callId: "1", args: ran, output })
        const call = {
          ...common,
          agentPath: [],
          process: "p",
          wave: 1,
          index: 0,
          callId: "1",
          tool: "list",
          key: `k${n}`
        }
        entries.push({
          _tag: "Arrived",
          ...call,
          conversation: "talk",
          ordinal,
          class: "ReadOnly",
          args: omits() ? { _tag: "None" } : { _tag: "Full", value: args }
        })
        if (isEdited) {
          entries.push({
            _tag: "Started",
            ...call,
            attempt: 1,
            limitMillis: 1,
            idempotencyKey: "",
            mutates: false,
            allowedBy: "answer",
            isEdited: true
          })
        }
        entries.push({
          _tag: "Settled",
          ...call,
          ...(omits() ? { isIncomplete: true } : {}),
          outcome: {
            _tag: "Succeeded",
            output: { _tag: "Inline", modelText: JSON.stringify(output), value: output }
          } as never
        })
      }
      // the last one at least is left
      const pruned = seed % 3 === 0 ? next(units.length) : 0
      if (pruned > 0) isWhole = false
      const restored = Ledger.make()
      RecordedConversation.read(entries.slice(units[pruned]), { batch: "b", session: "talk" }, {
        witness: Provenance.witness(restored, () => list),
        heard: (text, from) => restored.heard(text, from),
        reviewed: () => undefined,
        approved: () => undefined,
        settled: () => undefined,
        counted: (count) => assert.strictEqual(count, units.length),
        toolOf: () => undefined
      })
      // what is listed next depends on whether a stranger may have chosen the query
      const more = {
        tool: list,
        callId: "2",
        args: { query: names[next(names.length)]! },
        output: [{ id: names[next(names.length)]!, name: "other", address: names[next(names.length)]! }]
      }
      live.received(more)
      restored.received(more)
      for (const [tool, args] of calls) {
        const [now, before] = [restored.decide(tool, args)._tag, live.decide(tool, args)._tag]
        if (isWhole) assert.strictEqual(now, before, `seed ${seed}`)
        else if (now === "Proved") assert.strictEqual(before, "Proved", `seed ${seed}`)
      }
    }
  })
})
