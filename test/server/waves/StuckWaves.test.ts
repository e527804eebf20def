/** Waves that cannot continue: they are tried again after growing pauses, are told of once, and can be cancelled. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import type { Wave } from "../../../src/server/api/ApiModels.ts"
import { SessionHost } from "../../../src/server/sessions/SessionHost.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ada, begin, type Life, message, type Options, type Tools } from "../../support/Served.ts"

const tools: Tools = { save: { class: "SerialMut", handler: () => Effect.succeed("saved") } }

const asking: Options = { policy: { default: "allow", ask: ["save"] } }

const file = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "stuck-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) => join(folder, "server.db")
)

/** The errors that were logged. */
const errors: Array<string> = []

const logger = Logger.make<unknown, void>(({ logLevel, message }) => {
  if (logLevel === "Error") errors.push(String(Array.isArray(message) ? message[0] : message))
})

const test = <A, E>(name: string, program: (filename: string) => Effect.Effect<A, E, Scope.Scope>) =>
  it.effect(name, () =>
    VirtualTime.run(
      Effect.scoped(Effect.flatMap(file, (filename) => {
        errors.length = 0
        return program(filename)
      })).pipe(Effect.provide(Logger.layer([logger]))),
      { limit: "10 days" }
    ))

/** Changes records of waves in a database that nobody has open. */
const change = (filename: string, of: string, from: string, to: string) =>
  Effect.sync(() => {
    const db = new DatabaseSync(filename)
    const { changes } = db.prepare(
      "UPDATE tool_executor_session_rows SET value = replace(value, ?, ?) WHERE key LIKE ?"
    ).run(from, to, of)
    assert.strictEqual(Number(changes), 1)
    db.close()
  })

const wavesOf = ({ context }: Life) => Context.get(context, Waves)

const hostOf = ({ context }: Life) => Context.get(context, SessionHost)

const found = (life: Life) => Effect.map(wavesOf(life).get(ada, "w"), Option.getOrThrow)

const waveOf = (life: Life) => Effect.flatMap(found(life), ({ wave }) => wave)

const tagsOf = (wave: Wave): ReadonlyArray<string> =>
  wave.end !== undefined && "executionResults" in wave.end ? wave.end.executionResults.map((it) => it._tag) : []

/** A server whose wave waits for a person, and was changed while the server was stopped. */
const stuck = Effect.fnUntraced(function*(filename: string, options: Parameters<typeof begin>[2] = asking) {
  const first = yield* begin(filename, tools, options)
  yield* wavesOf(first).submit(ada, { message: message("save"), wave: "w" })
  yield* hostOf(first).idle(ada)
  yield* first.close
  yield* change(filename, "served.wave.%", `"arguments":"{\\"index\\":0}"`, `"arguments":"{\\"index\\":9}"`)
  const second = yield* begin(filename, tools, options)
  yield* Effect.flatMap(found(second), ({ ended }) => ended)
  return second
})

const minute = 60_000

describe("a wave that cannot continue", () => {
  test("says why and when it is tried again, and is told of once in the log", (filename) =>
    Effect.gen(function*() {
      const life = yield* stuck(filename)
      const { status, stuck: first } = yield* waveOf(life)
      assert.strictEqual(status, "suspended")
      assert.deepInclude(first, { tries: 1, retryAt: first!.since + minute })
      assert.include(first!.problem, "submitted before with other arguments")
      assert.strictEqual(yield* wavesOf(life).stuck, 1)
      yield* life.close
      // the next start tries it again
      const next = yield* begin(filename, tools, asking)
      const again = yield* Effect.flatMap(found(next), ({ ended }) => ended)
      assert.deepInclude(again.stuck, { tries: 2, since: first!.since })
      assert.lengthOf(errors, 1)
    }))

  test("is tried again after growing pauses of a day at most", (filename) =>
    Effect.gen(function*() {
      const alone = { ...asking, lease: "10 days", isAlone: true } as const
      const host = hostOf(yield* stuck(filename, alone))
      const pauses: Array<number> = []
      /** Whoever opens the session before its time does not try it. */
      const next = Effect.gen(function*() {
        const left = yield* host.close(ada)
        const until = left._tag === "Waiting" ? left.until! : 0
        const now = yield* Clock.currentTimeMillis
        pauses.push((until - now) / minute)
        yield* Effect.sleep(until - now - 1)
        yield* host.open(ada)
        assert.deepStrictEqual(yield* host.close(ada), left)
        yield* Effect.sleep(1)
        yield* host.open(ada)
        yield* host.idle(ada)
      })
      for (let tries = 1; tries < 5; tries++) yield* next
      yield* host.close(ada)
      yield* change(filename, "served.wave.%", `"tries":5`, `"tries":500`)
      yield* Effect.sleep(16 * minute)
      yield* host.open(ada)
      yield* host.idle(ada)
      const left = yield* host.close(ada)
      pauses.push(left._tag === "Waiting" ? (left.until! - (yield* Clock.currentTimeMillis)) / minute : 0)
      assert.deepStrictEqual(pauses, [1, 2, 4, 8, 24 * 60])
      assert.lengthOf(errors, 1)
    }))

  test("says so while another process may still run it, and continues afterwards", (filename) =>
    Effect.gen(function*() {
      const first = yield* begin(filename, tools, { ...asking, lease: "10 days" })
      yield* wavesOf(first).submit(ada, { message: message("save"), wave: "w" })
      yield* hostOf(first).idle(ada)
      yield* first.kill
      const life = yield* begin(filename, tools, asking)
      yield* Effect.sleep(10_000)
      const { status, stuck: early } = yield* waveOf(life)
      assert.strictEqual(status, "running")
      assert.include(early!.problem, "another process works on these calls")
      assert.isAbove(early!.tries, 3)
      assert.deepStrictEqual([errors.length, yield* wavesOf(life).stuck], [0, 0])
      yield* Effect.sleep(3 * minute)
      assert.deepInclude((yield* waveOf(life)).stuck, { since: early!.since })
      assert.deepStrictEqual([errors.length, yield* wavesOf(life).stuck], [1, 1])
      const db = new DatabaseSync(filename)
      db.exec("UPDATE tool_executor_journal_terms SET expires_at = 0 WHERE id = 1")
      db.close()
      yield* Effect.sleep(3_000)
      yield* hostOf(life).idle(ada)
      const { status: now, stuck: late } = yield* waveOf(life)
      assert.deepStrictEqual([now, late, errors.length], ["running", undefined, 1])
    }))

  test("is tried at once when it is submitted again", (filename) =>
    Effect.gen(function*() {
      const life = yield* stuck(filename)
      yield* change(filename, "served.wave.%", `{\\"index\\":9}`, `{\\"index\\":0}`)
      assert.strictEqual((yield* waveOf(life)).status, "suspended")
      const handle = yield* wavesOf(life).submit(ada, { message: message("save"), wave: "w" })
      yield* hostOf(life).idle(ada)
      const { status, stuck: now } = yield* handle.wave
      assert.deepStrictEqual([status, now], ["running", undefined])
    }))

  test("ends when it is cancelled, and stays ended", (filename) =>
    Effect.gen(function*() {
      const life = yield* stuck(filename)
      yield* (yield* found(life)).cancel({ reason: "of no use" })
      const ended = yield* Effect.flatMap(found(life), ({ ended }) => ended)
      assert.deepInclude(ended, { status: "ended" })
      assert.isUndefined(ended.stuck)
      assert.deepStrictEqual(tagsOf(ended), ["Unknown"])
      assert.deepStrictEqual(yield* hostOf(life).close(ada), { _tag: "Nothing" })
      yield* life.close
      const next = yield* begin(filename, tools, asking)
      assert.deepStrictEqual(yield* wavesOf(next).list, [])
      assert.deepStrictEqual(tagsOf(yield* waveOf(next)), ["Unknown"])
      assert.lengthOf(errors, 1)
    }))

  test("is ended by whoever discards it, if its record cannot be read", (filename) =>
    Effect.gen(function*() {
      const first = yield* begin(filename, tools, asking)
      yield* wavesOf(first).submit(ada, { message: message("save"), wave: "w" })
      yield* hostOf(first).idle(ada)
      yield* first.close
      yield* change(filename, "served.wave.%", `"v":1`, `"v":7`)
      const second = yield* begin(filename, tools, asking)
      assert.strictEqual((yield* Effect.flip(wavesOf(second).get(ada, "w")))._tag, "WaveUnreadable")
      yield* wavesOf(second).discard(ada, "w")
      yield* second.close
      errors.length = 0
      yield* begin(filename, tools, asking)
      assert.deepStrictEqual(errors, [])
    }))
})
