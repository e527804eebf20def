/**
 * A process that stood still while another one took over its calls.
 *
 * @module-tag J3
 * @module-tag J4
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Journal, ToolContext, type ToolOutcome } from "../../src/index.ts"
import { call, open, tags, type ToolSpec } from "../support/Harness.ts"
import * as Postgres from "../support/Postgres.ts"
import * as SilentProxy from "../support/silentProxy.ts"

const { until } = SilentProxy

const clientOf = (layer: Layer.Layer<SqlClient.SqlClient, unknown>) =>
  Effect.map(Effect.orDie(Layer.build(Layer.fresh(layer))), (it) => Context.get(it, SqlClient.SqlClient))

/** What a call waits for, and what ran in which process. */
const world = () => {
  const ran: Array<string> = []
  const landed: Array<string> = []
  const gate: { open: () => void } = { open: () => {} }
  const specs = (name: string): Record<string, ToolSpec> => {
    const handler: ToolSpec["handler"] = ({ commits, waits }) =>
      Effect.gen(function*() {
        const { callId, commit } = yield* ToolContext.ToolContext
        ran.push(`${callId} in ${name}`)
        if (waits === true && name === "one") {
          yield* Effect.callback<void>((resume) => {
            gate.open = () => resume(Effect.void)
          })
        }
        if (commits === true) yield* commit(Effect.sync(() => landed.push(name)))
        return name
      })
    return { write: { class: "SerialMut", handler }, read: { class: "ReadOnly", handler } }
  }
  return { gate, landed, ran, specs }
}

const holds = <Needs>(
  clients: Effect.Effect<readonly [SqlClient.SqlClient, SqlClient.SqlClient], never, Needs | Scope.Scope>,
  check: (name: string, effect: Effect.Effect<void, unknown, Needs | Scope.Scope>) => void
) => {
  const processes = Effect.gen(function*() {
    const [mine, other] = yield* clients
    const it = world()
    const start = (name: string, sql: SqlClient.SqlClient) =>
      Effect.gen(function*() {
        const journal: Journal.Journal["Service"] = yield* Effect.provideService(
          SqlJournal.make(),
          SqlClient.SqlClient,
          sql
        )
        const { executor } = yield* open(it.specs(name), { journal })
        return { journal, executor, process: yield* executor.process({ batch: "b" }) }
      })
    const one = yield* start("one", mine)
    const expire = Effect.orDie(other`UPDATE tool_executor_journal_terms SET expires_at = 0`)
    /** The other process takes over the wave, and runs what it may; this one has stood still for so long. */
    const takeOver = (wave: Parameters<typeof one.process.executeWave>[0], seconds = 31) =>
      Effect.gen(function*() {
        yield* expire
        const two = yield* start("two", other)
        const result = yield* two.process.resume(wave)
        yield* Effect.repeat(SilentProxy.second, { times: seconds })
        return result
      })
    return { ...it, one, start, takeOver, other }
  })

  const ended = (fiber: Fiber.Fiber<ToolOutcome.WaveResult, unknown>) =>
    Effect.andThen(until(Effect.sync(() => fiber.pollUnsafe() !== undefined)), Fiber.join(fiber))

  const wave = [call("a", "write", { waits: true }), call("b", "write", { n: 2 })]

  check(
    "reports the record of a call that the other process ran, and nothing more than it knows itself",
    Effect.gen(function*() {
      const { gate, one, ran, takeOver } = yield* processes
      const running = yield* Effect.forkChild(one.process.executeWave(wave))
      yield* until(Effect.sync(() => ran.length === 1))
      assert.deepStrictEqual(tags(yield* takeOver(wave)), ["Unknown", "Succeeded"])
      gate.open()
      const { outcomes } = yield* ended(running)
      assert.deepStrictEqual(outcomes.map((it) => it._tag), ["Unknown", "Succeeded"])
      assert.deepStrictEqual(outcomes[1]?._tag === "Succeeded" && outcomes[1].output.modelText, "two")
      assert.deepStrictEqual(ran, ["a in one", "b in two"])
    })
  )

  check(
    "continues if its calls were not taken over while it was paused",
    Effect.gen(function*() {
      const { gate, landed, one, ran } = yield* processes
      const running = yield* Effect.forkChild(
        one.process.executeWave([call("a", "write", { waits: true, commits: true })])
      )
      yield* until(Effect.sync(() => ran.length === 1))
      yield* Effect.repeat(SilentProxy.second, { times: 40 })
      gate.open()
      assert.deepStrictEqual(tags(yield* ended(running)), ["Succeeded"])
      assert.deepStrictEqual(landed, ["one"])
    })
  )

  check(
    "has a new term for waves that come later, and counts the one that it lost",
    Effect.gen(function*() {
      const { gate, one, other, ran, start, takeOver } = yield* processes
      const lost = Effect.map(Metric.snapshot, (all) => {
        const found = all.find(({ id }) => id === "tool_executor.journal.terms_lost")
        return found?.type === "Counter" ? Number(found.state.count) : 0
      })
      const before = yield* lost
      const running = yield* Effect.forkChild(one.process.executeWave(wave))
      yield* until(Effect.sync(() => ran.length === 1))
      const term = one.journal.term!("p")
      yield* takeOver(wave)
      gate.open()
      yield* ended(running)
      assert.isTrue(term.isOver)
      const later = [call("c", "write", { n: 3 })]
      assert.deepStrictEqual(tags(yield* one.process.executeWave(later)), ["Succeeded"])
      assert.isTrue(one.journal.term!("p").isHeld)
      const third = yield* start("three", other)
      assert.deepStrictEqual(tags(yield* third.process.resume(later)), ["Succeeded"])
      assert.deepStrictEqual(ran, ["a in one", "b in two", "c in one"])
      assert.strictEqual((yield* lost) - before, 1)
    })
  )

  check(
    "takes calls over itself at its first try, though its own term is over",
    Effect.gen(function*() {
      const { gate, one, ran, takeOver } = yield* processes
      const running = yield* Effect.forkChild(one.process.executeWave(wave))
      yield* until(Effect.sync(() => ran.length === 1))
      yield* takeOver(wave, 1)
      const again = yield* one.executor.process({ batch: "b" })
      assert.deepStrictEqual(tags(yield* again.resume([call("d", "write", { n: 4 })])), ["Succeeded"])
      gate.open()
      yield* ended(running)
    })
  )

  check(
    "keeps the answer of a read, which nobody else can have spoiled",
    Effect.gen(function*() {
      const { gate, one, ran, takeOver } = yield* processes
      const reads = [call("a", "read", { waits: true })]
      const running = yield* Effect.forkChild(one.process.executeWave(reads))
      yield* until(Effect.sync(() => ran.length === 1))
      assert.deepStrictEqual(tags(yield* takeOver(reads)), ["Succeeded"])
      gate.open()
      assert.deepStrictEqual(tags(yield* ended(running)), ["Succeeded"])
    })
  )

  check(
    "says of a call that waited and was cancelled what the other one has on record",
    Effect.gen(function*() {
      const { gate, one, ran, takeOver } = yield* processes
      const running = yield* Effect.forkChild(one.process.executeWave(wave))
      yield* until(Effect.sync(() => ran.length === 1))
      yield* takeOver(wave)
      yield* one.process.cancel("enough")
      gate.open()
      assert.deepStrictEqual(tags(yield* ended(running)), ["Unknown", "Succeeded"])
    })
  )
}

describe("a process that stood still, over a journal in SQLite", () => {
  const clients = Effect.gen(function*() {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "taken-over-"))),
      (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
    )
    const one = clientOf(Sqlite.layer({ filename: join(folder, "journal.db") }))
    return [yield* one, yield* one] as const
  })
  holds(clients, (name, check) => it.effect(name, () => check))
})

layer(Postgres.layer)("a process that stood still, over a journal in PostgreSQL", (it) => {
  const clients = Effect.gen(function*() {
    const url = yield* (yield* Postgres.Postgres).database
    const one = clientOf(Postgres.clientOf(url).pipe(Layer.provide(Postgres.realTime)))
    return [yield* one, yield* one] as const
  })
  holds(clients, (name, check) => it.effect(name, () => check))
})
