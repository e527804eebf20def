import { assert, describe, it } from "@effect/vitest"
import type { KeyClaim } from "../../../src/core/store/Claims.ts"
import { Keys } from "../../../src/core/store/MemoryKeys.ts"

const claimOf = (key: string, more: Partial<KeyClaim> = {}): KeyClaim => ({
  _tag: "Key",
  scope: "batch",
  principal: "p",
  batch: "b",
  process: "process",
  tool: "t",
  key,
  wave: "wave",
  endsWithWave: false,
  endsWithChange: false,
  ignoreOtherProcesses: false,
  ...more
})

const kept = { started: true, key: "keep", windowMillis: 100, value: undefined } as const

describe("dedupe keys in memory", () => {
  it("tells keys apart that differ in one character, one text, or where a text ends", () => {
    const claims = [
      claimOf(""),
      claimOf("", { agent: "" }),
      claimOf("", { agent: "t" }),
      claimOf("", { tool: "" }),
      claimOf("", { scope: "process" }),
      claimOf("", { scope: "principal" }),
      claimOf("t", { tool: "" }),
      claimOf("ab", { tool: "c" }),
      claimOf("b", { tool: "ca" }),
      ...Array.from({ length: 20_000 }, (_, n) => claimOf(`{"path":"/src/file-${n}.ts","n":${n}}`)),
      ...Array.from({ length: 2_000 }, (_, n) => claimOf(`${"x".repeat(n)}y${"x".repeat(2_000 - n)}`)),
      ...Array.from({ length: 2_000 }, (_, n) => claimOf("\0".repeat(n + 1)))
    ]
    const keys = new Keys(0)
    for (const claim of claims) {
      assert.strictEqual(keys.find(claim), 0)
      keys.take(claim, 0, 1, { owner: claim.key, holder: 1, call: undefined }, 0)
    }
    for (const claim of claims) assert.strictEqual(keys.taken(keys.find(claim)).owner, claim.key)
  })

  it("finds, replaces, evicts and prunes as a map would", () => {
    const maxSettled = 50
    const keys = new Keys(maxSettled)
    interface Known {
      readonly holder: number
      readonly slot: number
      until: number | undefined
    }
    // in the order of settlement: a map has its entries in the order in which they were added
    const known = new Map<string, Known>()
    const settled = () => Array.from(known).filter(([, it]) => it.until !== undefined)
    let state = 7
    const random = (max: number) => (state = (state * 48_271) % 2_147_483_647) % max
    for (let now = 0, holder = 1; now < 20_000; now++) {
      const name = `k${random(120)}`
      const claim = claimOf(name)
      const slot = keys.find(claim)
      const before = known.get(name)
      assert.strictEqual(slot, before?.slot ?? 0, name)
      assert.strictEqual(
        slot !== 0 && keys.refuses(slot, claim, 1, now),
        before !== undefined && (before.until === undefined || now < before.until)
      )
      const what = random(4)
      if (what === 0 || before === undefined) {
        const taken = keys.take(claim, slot, 1, { owner: name, holder: ++holder, call: undefined }, now)
        known.set(name, { holder, slot: taken, until: undefined })
        // the one that had it changes nothing any more
        if (before !== undefined) keys.settle(before.slot, before.holder, kept, now)
      } else if (what === 1 && before.until === undefined) {
        keys.settle(slot, before.holder, kept, now)
        known.delete(name)
        known.set(name, { ...before, until: now + 100 })
        const [oldest] = settled()
        if (settled().length > maxSettled) known.delete(oldest![0])
      } else if (what === 2) {
        keys.release(slot, before.holder)
        known.delete(name)
      } else if (random(20) === 0) {
        const expired = settled().filter(([, it]) => now >= it.until!)
        for (const [name] of expired) known.delete(name)
        assert.strictEqual(keys.prune(now), expired.length)
      }
    }
    assert.isAbove(known.size, maxSettled)
  })
})
