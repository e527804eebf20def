/** Random lives of sessions, told to the store in memory and to the one in SQL: both count the same. */
import { assert, describe, it } from "@effect/vitest"
import { SqlStateStore } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as StateStore from "../../src/core/store/StateStore.ts"
import { randomFrom, type SeededRandom } from "../../src/testing/SeededRandom.ts"
import { seeds } from "../support/seeds.ts"

type Store = StateStore.StateStore["Service"]

/** One of the two stores, with the reservations that it has given, by the number of their request. */
interface Side {
  readonly store: Store
  readonly given: Map<number, StateStore.Reservation>
}

const sessions = ["s1", "s2"]
const batches = ["b1", "b2"]

const claimsOf = (random: SeededRandom): ReadonlyArray<StateStore.Claim> => {
  const [batch, tool] = [random.pick(batches), random.pick(["t", "u"])]
  const all: ReadonlyArray<StateStore.Claim> = [
    {
      _tag: "Key",
      scope: random.pick(["wave", "process", "batch", "principal"]),
      principal: "p",
      batch,
      process: "process",
      tool,
      key: random.pick(["1", "2"]),
      wave: random.pick(["1", "2"]),
      endsWithWave: random.chance(0.3),
      endsWithChange: random.chance(0.3),
      ignoreOtherProcesses: false,
      ...random.chance(0.5) ? { windowMillis: 40 } : {}
    },
    { _tag: "Calls", batch, tool, max: random.pick([1, 2]) },
    { _tag: "Group", batch, group: "g", tool },
    { _tag: "Cooldown", principal: "p", tool, millis: 30 },
    // what counts in a process or a conversation besides
    { _tag: "Calls", batch, tool, max: 2, scope: "process", process: random.pick(["x", "y"]) },
    { _tag: "Calls", batch: "c", tool, max: 3, scope: "session" },
    { _tag: "Group", batch: "c", group: "h", tool, scope: "session" },
    { _tag: "Cooldown", principal: "p", batch: "c", tool, millis: 20, scope: "session" }
  ]
  const some = all.filter(() => random.chance(0.6))
  return some.length === 0 ? [all[1]!] : some
}

/** What an answer says, but for the ids that each store gives. */
const plain = (refused: StateStore.Refused | undefined) =>
  refused?._tag === "KeyTaken" ? { ...refused, reservation: "", value: undefined } : refused

describe("the stores of states", () => {
  it.effect("count alike in memory and in SQL, however sessions end", () =>
    Effect.gen(function*() {
      for (const seed of seeds(100)) {
        const layer = SqlStateStore.layer({ batchTimeToLive: 50 }).pipe(
          Layer.provide(Sqlite.layer({ filename: ":memory:" }))
        )
        const memory: Side = { store: StateStore.makeMemory({ batchTimeToLive: 50 }), given: new Map() }
        yield* Effect.flatMap(StateStore.StateStore, (store) => live(seed, [memory, { store, given: new Map() }])).pipe(
          Effect.provide(layer, { local: true })
        )
      }
    }))
})

const live = Effect.fnUntraced(function*(seed: number, sides: readonly [Side, Side]) {
  const random = randomFrom(seed)
  const said: Array<string> = []
  let now = 1_000
  let requests = 0
  const both = Effect.fnUntraced(function*<A>(
    what: string,
    ask: (side: Side) => Effect.Effect<A, StateStore.StateStoreError>
  ) {
    if (!what.startsWith("check")) said.push(`${now} ${what}`)
    const answers = yield* Effect.forEach(sides, ask)
    assert.deepStrictEqual(answers[1], answers[0], `seed ${seed}:\n${said.join("\n")}`)
  })
  const of = (number: number) => ({ given }: Side): ReadonlyArray<StateStore.Reservation> => {
    const it = given.get(number)
    return it === undefined ? [] : [it]
  }
  for (let step = 0; step < 40; step++) {
    now += random.pick([0, 1, 7, 20, 51])
    const number = 1 + random.int(Math.max(1, requests))
    switch (random.pick(["reserve", "reserve", "start", "settle", "release", "abandon", "close", "mutated"])) {
      case "reserve": {
        const [claims, owner, session] = [claimsOf(random), `call ${++requests}`, random.pick(sessions)]
        const mine = requests
        yield* both(
          `reserve ${mine} ${session} ${JSON.stringify(claims)}`,
          ({ given, store }) =>
            Effect.map(store.reserve([{ owner, session, claims }], now), ([it]) => {
              if (it === undefined || "_tag" in it) return plain(it)
              given.set(mine, it)
              return undefined
            })
        )
        break
      }
      case "start":
        yield* both(`start ${number}`, (side) => Effect.map(side.store.start(of(number)(side), now), (it) => it.length))
        break
      case "settle": {
        const [started, key] = [random.chance(0.6), random.pick(["keep", "release", "running"] as const)]
        yield* both(
          `settle ${number} ${started} ${key}`,
          (side) =>
            Effect.forEach(
              of(number)(side),
              (it) => side.store.settle(it, { started, key, windowMillis: 25, value: undefined }, now)
            )
        )
        break
      }
      case "release":
        yield* both(
          `release ${number}`,
          (side) => Effect.forEach(of(number)(side), (it) => side.store.release(it, now))
        )
        break
      case "abandon": {
        const session = random.pick(sessions)
        const known = random.chance(0.5)
        yield* both(
          `abandon ${session} ${known ? number : ""}`,
          (side) => side.store.abandon(session, now, known ? of(number)(side) : [])
        )
        break
      }
      case "close": {
        if (random.chance(0.7)) break
        const batch = random.pick(batches)
        yield* both(`close ${batch}`, ({ store }) => store.closeBatch(batch))
        break
      }
      case "mutated":
        yield* both("mutated", ({ store }) => store.mutated("p"))
    }
    const claims = claimsOf(random)
    yield* both(`check ${JSON.stringify(claims)}`, ({ store }) => Effect.map(store.check(claims, now), plain))
  }
})
