/** Sessions that are moved while their stores are slow: what waits for a person waits on. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Journal from "../../../src/core/store/Journal.ts"
import { PendingApprovals } from "../../../src/server/approvals/PendingApprovals.ts"
import { SessionHost } from "../../../src/server/sessions/SessionHost.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ada, inMemory, message, type Tools } from "../../support/Served.ts"

const tools: Tools = { save: { class: "SerialMut", handler: () => Effect.succeed("saved") } }

/** A journal that answers after a while. */
const slow = (wait: { millis: number }) =>
  Layer.effect(
    Journal.Journal,
    Effect.map(Journal.Journal, (journal): Journal.Journal["Service"] => {
      const late = <A, E>(effect: Effect.Effect<A, E>) =>
        Effect.suspend(() => wait.millis === 0 ? effect : Effect.delay(effect, wait.millis))
      return {
        ...journal,
        append: (lines, options) => late(journal.append(lines, options)),
        claim: (keys, principal) => late(journal.claim(keys, principal)),
        read: (query) => Stream.unwrap(late(Effect.succeed(journal.read(query))))
      }
    })
  ).pipe(Layer.provide(Journal.layerMemory()))

const bob = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

describe("a session that is moved while its journal is slow", () => {
  for (const millis of [1_000, 4_000, 6_000]) {
    for (const after of [0, 500, 1_500, 3_500, 5_500, 8_500]) {
      it.effect(`keeps its request, ${after} ms after it was opened, with answers after ${millis} ms`, () =>
        VirtualTime.run(
          Effect.suspend(() => {
            const wait = { millis: 0 }
            return Effect.gen(function*() {
              const [host, waves, approvals] = [yield* SessionHost, yield* Waves, yield* PendingApprovals]
              yield* waves.submit(ada, { message: message("save"), wave: "w" })
              yield* host.idle(ada)
              const before = (yield* approvals.list(bob)).open.map(({ id }) => id)
              assert.lengthOf(before, 1)
              yield* host.close(ada)
              wait.millis = millis
              yield* host.open(ada)
              yield* Effect.sleep(after)
              const closing = yield* Effect.forkChild(host.close(ada, 0))
              yield* Effect.sleep("1 minute")
              wait.millis = 0
              const isClosed = closing.pollUnsafe() !== undefined
              const left = yield* Fiber.join(closing)
              assert.isTrue(isClosed, "the journal stays slow, and the session is left all the same")
              assert.notStrictEqual(left._tag, "Nothing")
              yield* Effect.sleep("1 hour")
              yield* host.open(ada)
              yield* host.idle(ada)
              const { hash, id } = (yield* approvals.list(bob)).open[0]!
              assert.deepStrictEqual([id], before)
              yield* approvals.answer(bob, { id, hash, answer: { _tag: "ApproveOnce" } })
              const wave = yield* Effect.flatMap(waves.get(ada, "w"), (it) => Option.getOrThrow(it).ended)
              assert.strictEqual(wave.status, "ended")
            }).pipe(Effect.provide(inMemory(tools, { policy: { default: "allow", ask: ["save"] } }, slow(wait))))
          }),
          { limit: "10 days" }
        ))
    }
  }
})
