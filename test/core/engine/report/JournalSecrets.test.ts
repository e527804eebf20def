/** What is on record of calls whose arguments, outputs, errors and previews are full of secrets. */
import { assert, describe, it } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as SqlClient from "effect/sql/SqlClient"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Journal, ToolAnnotations, ToolCall } from "../../../../src/index.ts"
import * as JournalFile from "../../../../src/tools/folders/JournalFile.ts"
import { open, type ToolSpec } from "../../../support/Harness.ts"

const secrets = Array.from(
  { length: 200 },
  (_, index) => `Kx${index * 7_919 + 104_729}-${(index * 31_337).toString(36)}q`
)

const text = (value: unknown) => JSON.stringify(value)

const tools: Record<string, ToolSpec> = {
  gives: { handler: (params) => Effect.succeed({ echo: params, said: `It was ${text(params)}` }) },
  fails: { class: "ConcurrentMut", handler: (params) => Effect.fail(`It failed with ${text(params)}`) },
  dies: { class: "ConcurrentMut", handler: (params) => Effect.die(new Error(text(params))) },
  declared: {
    annotate: (tool) => tool.annotate(ToolAnnotations.Redact, ["pin"]),
    handler: ({ pin }) => Effect.succeed([`the pin is ${String(pin)}`])
  }
}

/** A secret in one of the ways in which arguments have it. */
const callOf = (secret: string, index: number): ToolCall.ToolCall => {
  const tool = ["gives", "fails", "dies", "declared"][index % 4]!
  const ways: ReadonlyArray<unknown> = [
    { password: secret },
    { headers: { Authorization: `Bearer ${secret}` } },
    { env: [{ name: "API_KEY", value: secret }] },
    { url: `postgres://app:${secret}@db/x` },
    { body: text({ nested: { access_token: secret } }) },
    { command: `login --token ${secret}` },
    { content: `SECRET_KEY=${secret}\n` }
  ]
  return ToolCall.make(String(index), tool, tool === "declared" ? { pin: secret } : ways[index % ways.length])
}

const records = (journal: Journal.Journal["Service"]) => {
  const logged: Array<string> = []
  const logger = Logger.layer([Logger.map(Logger.formatLogFmt, (line) => void logged.push(line))])
  return Effect.gen(function*() {
    const { process } = yield* open(tools, { journal })
    const { outcomes } = yield* process.executeWave(secrets.map(callOf))
    assert.strictEqual(outcomes.length, secrets.length)
    assert.isAtLeast(logged.length, secrets.length / 4)
    assert.deepStrictEqual(found(logged.join("\n")), [])
  }).pipe(Effect.provide(logger))
}

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "journal-secrets-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const found = (record: string) => secrets.filter((it) => record.includes(it))

describe("what is on record", () => {
  it.live(
    "contains none of 200 secrets in the journal's file, nor has the log",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const at = yield* folder
        yield* Effect.scoped(Effect.flatMap(JournalFile.make({ path: join(at, "journal.ndjson") }), records))
        const record = readdirSync(at).map((it) => readFileSync(join(at, it), "utf8")).join("\n")
        assert.include(record, "[redacted]")
        assert.isAbove(record.split("\"_tag\":\"Settled\"").length, secrets.length)
        assert.deepStrictEqual(found(record), [])
      })),
    { tags: ["TE4"] }
  )

  it.live("contains none of 200 secrets in the journal's tables", () =>
    Effect.scoped(Effect.gen(function*() {
      const context = yield* Layer.build(Sqlite.layer({ filename: ":memory:" }))
      yield* Effect.provideContext(
        Effect.gen(function*() {
          yield* Effect.scoped(Effect.flatMap(SqlJournal.make(), records))
          const sql = yield* SqlClient.SqlClient
          const rows = yield* sql`SELECT * FROM tool_executor_journal_entries`
          assert.isAtLeast(rows.length, 3 * secrets.length)
          assert.deepStrictEqual(found(text(rows)), [])
        }),
        context
      )
    })), { tags: ["TE4"] })
})
