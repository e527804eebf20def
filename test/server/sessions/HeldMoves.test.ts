/** Sessions that leave while one of their stores or gates holds a call up that has not started: it is suspended. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Gate from "../../../src/core/gates/Gate.ts"
import * as Journal from "../../../src/core/store/Journal.ts"
import * as MemoryRows from "../../../src/core/store/MemoryRows.ts"
import * as StateStore from "../../../src/core/store/StateStore.ts"
import { PendingApprovals } from "../../../src/server/approvals/PendingApprovals.ts"
import { SessionHost } from "../../../src/server/sessions/SessionHost.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import * as WaveStore from "../../../src/server/waves/WaveStore.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ada, inMemory, message, type Tools } from "../../support/Served.ts"

const tools: Tools = { save: { class: "SerialMut", handler: () => Effect.succeed("saved") } }

const bob = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

const points = [
  "openOf",
  "begin",
  "arrive",
  "read",
  "claim",
  "guard",
  "append",
  "grants",
  "admit",
  "renew",
  "everything"
] as const

interface Held {
  point: typeof points[number] | "nothing"
  isInDoubt: boolean
}

/** Stores and gates of which one is late by six seconds, longer than a journal may take. */
const around = (held: Held) => {
  const late = <A, E, R>(name: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => held.point === name || held.point === "everything" ? Effect.delay(effect, 6_000) : effect)
  const slow = <S extends object>(service: S): S =>
    new Proxy(service, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key)
        if (typeof value !== "function") return value
        return (...args: Array<unknown>) => {
          const answer: unknown = Reflect.apply(value, target, args)
          if (Stream.isStream(answer)) return Stream.unwrap(late(String(key), Effect.succeed(answer)))
          return Effect.isEffect(answer) ? late(String(key), answer) : answer
        }
      }
    })
  const term: Journal.Term = {
    get isHeld() {
      return !held.isInDoubt
    },
    isOver: false,
    renew: Effect.suspend(() => late("renew", Effect.succeed(true))),
    onOver: () => () => {}
  }
  const ask = (name: "admit" | "arrive" | "guard") => () => late(name, Effect.void)
  return Layer.mergeAll(
    Gate.layer({ name: "held", arrive: ask("arrive"), guard: ask("guard"), admit: ask("admit") }),
    Layer.effect(
      Journal.Journal,
      Effect.map(Journal.Journal, (journal) => {
        const { append, claim, read } = slow(journal)
        return { ...journal, append, claim, read, term: () => term }
      })
    ).pipe(Layer.provide(Journal.layerMemory())),
    Layer.effect(StateStore.StateStore, Effect.map(StateStore.StateStore, slow)).pipe(
      Layer.provide(StateStore.layerMemory())
    ),
    Layer.effect(WaveStore.WaveStore, Effect.map(WaveStore.WaveStore, slow)).pipe(
      Layer.provide(WaveStore.layer),
      Layer.provide(Layer.fresh(MemoryRows.layer))
    )
  )
}

type Kind = "was closed before" | "was lost before" | "is new"

/** Opens a session while one point is late, closes it some time afterwards, and opens it again. */
const trial = (kind: Kind, hold: Held, after: number, within: number) =>
  VirtualTime.run(
    Effect.suspend(() => {
      const held: Held = { point: "nothing", isInDoubt: false }
      return Effect.gen(function*() {
        const [host, waves, approvals] = [yield* SessionHost, yield* Waves, yield* PendingApprovals]
        const ids = Effect.map(approvals.list(bob), ({ open }) => open.map(({ id }) => id))
        const submit = waves.submit(ada, { message: message("save"), wave: "w" })
        let before: ReadonlyArray<string> | undefined
        if (kind === "is new") {
          Object.assign(held, hold)
          yield* Effect.forkChild(Effect.ignore(submit))
          yield* Effect.yieldNow
        } else {
          yield* submit
          yield* host.idle(ada)
          before = yield* ids
          if (kind === "was closed before") yield* host.close(ada)
          else yield* host.lose(ada, "another process has it")
          Object.assign(held, hold)
          yield* host.open(ada)
        }
        yield* Effect.sleep(after)
        yield* host.close(ada, within)
        Object.assign(held, { point: "nothing", isInDoubt: false })
        yield* Effect.sleep("1 hour")
        yield* host.open(ada)
        yield* host.idle(ada)
        const found = yield* waves.get(ada, "w")
        // its client was told that it could not be submitted
        if (kind === "is new" && Option.isNone(found)) return
        const [request] = (yield* approvals.list(bob)).open
        const { messages, status } = yield* Option.getOrThrow(found).wave
        assert.isDefined(request, `the call waits on, but its wave is ${status}: ${JSON.stringify(messages)}`)
        if (before !== undefined) assert.deepStrictEqual(yield* ids, before)
        yield* approvals.answer(bob, { id: request.id, hash: request.hash, answer: { _tag: "ApproveOnce" } })
        const wave = yield* Effect.flatMap(waves.get(ada, "w"), (it) => Option.getOrThrow(it).ended)
        assert.include(JSON.stringify(wave.messages), "saved")
      }).pipe(Effect.provide(inMemory(tools, { policy: { default: "allow", ask: ["save"] } }, around(held))))
    }),
    { limit: "10 days" }
  )

describe("a session that leaves while one of its stores or gates is late", () => {
  for (const kind of ["was closed before", "was lost before", "is new"] as const) {
    for (const point of points) {
      // a request that could not be recorded is never shown
      if (kind === "is new" ? point === "append" || point === "everything" : point === "begin") continue
      it.effect(`keeps its call: one that ${kind}, with ${point} late`, () =>
        Effect.gen(function*() {
          for (const isInDoubt of point === "renew" || point === "everything" ? [true, false] : [false]) {
            for (const [after, within] of [[0, 0], [500, 0], [5_500, 0], [500, 20_000]] as const) {
              yield* trial(kind, { point, isInDoubt }, after, within)
            }
          }
        }))
    }
  }
})
