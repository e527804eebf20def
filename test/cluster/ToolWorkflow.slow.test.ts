/** Workflows on the engine of `effect/cluster` over PostgreSQL, whose process is killed in the middle. */
import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { until } from "../support/commandProcess.ts"
import * as Postgres from "../support/Postgres.ts"
import { start } from "../support/stateWorkers.ts"
import type { Line, Options } from "../support/workflowWorker.ts"

const setUp = Effect.fnUntraced(function*(isAsked: boolean) {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "workflow-"))),
    (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
  )
  const url = yield* Effect.flatMap(Postgres.Postgres, ({ database }) => database)
  const ledger = join(folder, "ledger.txt")
  const worker = (what: Options["what"]) => start<Line>({ url, ledger, isAsked, what }, "workflowWorker")
  /** How often the workflow has done a thing, by its name. */
  const steps = Effect.gen(function*() {
    const sql = yield* PgClient.PgClient
    const rows = yield* sql<{ name: string }>`
      SELECT payload::json ->> 'name' AS name FROM cluster_messages WHERE tag IN ('activity', 'deferred')`
    return rows.map(({ name }) => name).filter((it) => !it.startsWith("raceAll/")).sort()
  }).pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })))
  return { worker, steps, ran: () => readFileSync(ledger, "utf8") }
})

describe("a workflow whose process is killed", () => {
  it.layer(Postgres.layer, { timeout: "60 seconds", excludeTestServices: true })((it) => {
    for (const isAsked of [true, false]) {
      it.effect(
        isAsked
          ? "while approval is pending has submitted its wave once, and ends with it after a restart"
          : "while its call runs ends after a restart, and the call does not run again",
        () =>
          Effect.gen(function*() {
            const { ran, steps, worker } = yield* setUp(isAsked)
            const first = yield* worker("begin")
            first.child.kill("SIGKILL")
            yield* first.over
            const second = yield* worker("finish")
            yield* until(() => second.lines.some(({ _tag }) => _tag === "Ended") || second.child.exitCode !== null)
            const ended = second.lines.find((it) => it._tag === "Ended")
            assert.strictEqual(ended?.status, "ended", second.written.errors)
            const messages = JSON.stringify(ended?.messages)
            assert.include(messages, isAsked ? "refunded 17" : "It may or may not have happened", messages)
            if (isAsked) assert.deepStrictEqual(second.lines[0], first.lines[0])
            assert.strictEqual(ran(), "ran\n")
            assert.deepStrictEqual(yield* steps, ["end", "submit/1"])
          }).pipe(Effect.scoped),
        120_000
      )
    }
  })
})
