/** How much of waves and turns there is at once: bounded for each user, and nothing of a turn is lost for it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ToolExecutors, ToolRule } from "../../../src/index.ts"
import type { Wave } from "../../../src/server/api/ApiModels.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ada, inMemory, message, type Options, type Tools } from "../../support/Served.ts"

const run = <A, E>(
  program: Effect.Effect<A, E, Scope.Scope | Waves | ToolExecutors.ToolExecutors>,
  options: Options
) => VirtualTime.run(Effect.scoped(Effect.provide(program, inMemory(tools, options))), { limit: "3 days" })

const tools: Tools = {
  read: { handler: () => Effect.succeed("text") },
  write: { class: "SerialMut", handler: () => Effect.succeed("written") },
  slow: { class: "SerialMut", handler: () => Effect.sleep("1 minute") }
}

const tagsOf = (wave: Wave): ReadonlyArray<string> =>
  wave.end !== undefined && "executionResults" in wave.end ? wave.end.executionResults.map((it) => it._tag) : []

/** Hands calls over as a wave of a turn, and gives what becomes of them. */
const inTurn = Effect.fnUntraced(function*(turn: string, ...names: ReadonlyArray<string>) {
  const waves = yield* Waves
  return tagsOf(yield* (yield* waves.submit(ada, { message: message(...names), turn })).ended)
})

const rules: ReadonlyArray<ToolRule.ToolRule> = [
  { _tag: "MaxCalls", tool: "write", max: 1 },
  { _tag: "RequiresPrecedingTools", tool: "write", tools: ["read"] }
]

describe("turns beyond the open ones", () => {
  it.effect("keep their limits and their order", () =>
    run(
      Effect.gen(function*() {
        for (let n = 0; n < 6; n++) assert.deepStrictEqual(yield* inTurn(`t${n}`, "read"), ["Succeeded"])
        // what was read in one of them was read in no other
        assert.deepStrictEqual(yield* inTurn("other", "write"), ["Denied"])
        for (let n = 0; n < 6; n++) assert.deepStrictEqual(yield* inTurn(`t${n}`, "write"), ["Succeeded"])
        for (let n = 0; n < 6; n++) assert.deepStrictEqual(yield* inTurn(`t${n}`, "write"), ["Denied"])
        // each of them is there to be ended, and begins anew then
        const waves = yield* Waves
        assert.isTrue(yield* waves.endTurn(ada, "t0"))
        assert.isFalse(yield* waves.endTurn(ada, "t0"))
        assert.deepStrictEqual(yield* inTurn("t0", "read", "write"), ["Succeeded", "Succeeded"])
      }),
      { rules, waves: { maxTurnsPerUser: 2 } }
    ), { tags: ["SV15"] })

  it.effect("are forgotten with their session, once they were idle, and where they are far too many", () =>
    run(
      Effect.gen(function*() {
        const waves = yield* Waves
        const anew = (turn: string) => Effect.map(inTurn(turn, "write"), ([tag]) => tag === "Denied")
        for (const turn of ["a", "b", "c"]) yield* inTurn(turn, "read")
        yield* waves.endSession(ada)
        for (const turn of ["a", "b", "c"]) assert.isTrue(yield* anew(turn), turn)
        for (const turn of ["d", "e", "f"]) yield* inTurn(turn, "read")
        yield* Effect.sleep("2 hours")
        for (const turn of ["d", "e", "f"]) assert.isTrue(yield* anew(turn), turn)
        // of three that are put away only the latest two are kept
        for (const turn of ["g", "h", "i", "j"]) yield* inTurn(turn, "read")
        yield* inTurn("k", "read")
        assert.isTrue(yield* anew("g"))
        assert.isFalse(yield* anew("j"))
      }),
      { rules, waves: { maxTurnsPerUser: 1, maxTurnsAway: 2 } }
    ))

  it.effect("are not put away while something runs in them", () =>
    run(
      Effect.gen(function*() {
        const waves = yield* Waves
        const held = yield* waves.submit(ada, { message: message("read", "slow", "write"), turn: "held" })
        yield* Effect.sleep("1 second")
        for (let n = 0; n < 4; n++) yield* inTurn(`t${n}`, "read")
        assert.deepStrictEqual(tagsOf(yield* held.ended), ["Succeeded", "Succeeded", "Succeeded"])
        assert.deepStrictEqual(yield* inTurn("held", "write"), ["Denied"])
      }),
      { rules, waves: { maxTurnsPerUser: 2 } }
    ))
})

describe("the running waves of a user", () => {
  const large = (chars: number) => [{ id: "1", name: "slow", params: { index: 0, text: "x".repeat(chars) } }]

  it.effect("have so many calls and characters together, and one user never uses another's share", () =>
    run(
      Effect.gen(function*() {
        const waves = yield* Waves
        const refused = (owner: typeof ada, of: unknown) =>
          Effect.map(
            Effect.exit(waves.submit(owner, { message: of as never })),
            (exit) => exit._tag === "Failure" ? "refused" : "taken"
          )
        const bob = { user: "bob", session: "one" }
        const first = yield* waves.submit(ada, { message: large(1_000) })
        assert.strictEqual(yield* refused(ada, large(1_000)), "refused")
        assert.strictEqual(yield* refused(ada, message("slow", "slow", "slow", "slow")), "refused")
        assert.strictEqual(yield* refused(ada, message("slow")), "taken")
        assert.strictEqual(yield* refused(bob, large(1_000)), "taken")
        // all together have too many, whoever asks
        assert.strictEqual(yield* refused({ user: "eve", session: "one" }, large(1_200)), "refused")
        yield* first.ended
        yield* Effect.sleep("5 minutes")
        // one that is larger than what a user may have is taken alone
        assert.strictEqual(yield* refused(ada, large(5_000)), "taken")
      }),
      { waves: { maxOpenCallsPerUser: 4, maxOpenCharsPerUser: 1_500, maxOpenChars: 3_000 } }
    ), { tags: ["SV5"] })
})
