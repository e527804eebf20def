/** What lists over several processes say of sessions that others hold. */
import { assert, describe, it } from "@effect/vitest"
import type { WaveInfo } from "../../../src/server/api/ApiModels.ts"
import type { Conversation } from "../../../src/server/api/ApiOperations.ts"
import { latest, waiting } from "../../../src/server/sessions/SharedLists.ts"

const conversation = (session: string, operation?: string): Conversation => ({
  user: "ada",
  session,
  agent: "support",
  title: "Where is order 17?",
  state: operation === undefined ? "ended" : "running",
  pending: 0,
  ...operation === undefined ? {} : { operation },
  usage: { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0, cacheWriteInputTokens: 0 },
  updatedAt: 1
})

describe("waves of other processes", () => {
  it("are listed by their age, and unfinished ones however old they are", { tags: ["SE10"] }, () => {
    const wave = (beganAt: number, status: WaveInfo["status"]): WaveInfo => ({
      user: "ada",
      session: "s",
      turn: "t",
      wave: `w${beganAt}`,
      status,
      calls: 1,
      tools: ["read"],
      beganAt
    })
    const all = [wave(5, "ended"), wave(1, "running"), wave(2, "ended"), wave(4, "ended"), wave(3, "running")]
    const listed = (limit: number) => latest(all, limit).map((it) => it.beganAt)
    assert.deepStrictEqual(listed(9), [1, 2, 3, 4, 5])
    assert.deepStrictEqual(listed(4), [1, 3, 4, 5])
    assert.deepStrictEqual(listed(3), [1, 3, 5])
    assert.deepStrictEqual(listed(1), [3])
  })
})

describe("conversations of other processes", () => {
  it(
    "wait where requests of their open operation are pending, and those of others do not count",
    { tags: ["SE10"] },
    () => {
      const all = [conversation("s", "one"), conversation("t", "one"), conversation("u"), conversation("v", "two")]
      const of = (session: string, operation?: string) => ({
        user: "ada",
        session,
        ...operation === undefined ? {} : { operation }
      })
      const requests = [of("s", "one"), of("s", "one"), of("t", "before"), of("u"), of("v"), {
        ...of("v", "two"),
        user: "bob"
      }]
      assert.deepStrictEqual(waiting(all, requests).map(({ pending, state }) => [state, pending]), [
        ["waiting", 2],
        ["running", 0],
        ["ended", 0],
        ["running", 0]
      ])
    }
  )
})
