/** Stores whose process is killed in the middle of keeping something. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { DatabaseSync } from "node:sqlite"
import { ArtifactStore, Checkpoints } from "../../../src/index.ts"
import { type Line, storesIn, textOf } from "../../support/keeper.ts"
import { program } from "../../support/programs.ts"

const folders = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = mkdtempSync(`${tmpdir()}/killed-`)
    mkdirSync(`${folder}/root`)
    return folder
  }),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** Runs the keeper until it has said so many lines, and kills it at whatever it does then. */
const killedAfter = (folder: string, kind: string, lines: number) =>
  Effect.callback<ReadonlyArray<Line>>((resume) => {
    const child = spawn(process.execPath, [...program("test/support/keeper.ts"), folder, kind], {
      stdio: ["ignore", "pipe", "pipe"]
    })
    const written = { stdout: "", stderr: "" }
    child.stderr.on("data", (text) => written.stderr += text)
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      written.stdout += text
      if (written.stdout.split("\n").length > lines) child.kill("SIGKILL")
    })
    child.on("close", (_, signal) => {
      assert.strictEqual(signal, "SIGKILL", written.stderr)
      resume(Effect.succeed(written.stdout.split("\n").slice(0, -1).map((line) => JSON.parse(line) as Line)))
    })
    return Effect.sync(() => child.kill("SIGKILL"))
  })

const isWhole = (kind: keyof typeof storesIn) =>
  Effect.gen(function*() {
    const folder = yield* folders
    const stores = storesIn[kind](folder)
    yield* TestClock.setTime(yield* TestClock.withLive(Clock.currentTimeMillis))
    for (const lines of [3, 14]) {
      const kept = yield* killedAfter(folder, kind, lines)
      yield* Effect.gen(function*() {
        const artifacts = yield* ArtifactStore.ArtifactStore
        const checkpoints = yield* Checkpoints.Checkpoints
        const listed = yield* checkpoints.list("p")
        // the last one may be there before those that have to give way are gone
        assert.isAtMost(listed.length, 6)
        for (const checkpoint of listed) {
          const text = Buffer.from((yield* checkpoints.content(checkpoint, "a.txt"))!).toString()
          assert.strictEqual(text, textOf(Number.parseInt(text)))
        }
        for (const { artifact, checkpoint, n } of kept.slice(-4)) {
          assert.strictEqual(Buffer.from((yield* checkpoints.content(checkpoint, "a.txt"))!).toString(), textOf(n))
          const read = artifacts.read({ principal: "p", batch: "b" }, artifact, { offset: 0, length: 1e6 })
          assert.strictEqual((yield* read).text, textOf(n))
        }
      }).pipe(Effect.provide(stores))
    }
    yield* TestClock.adjust("8 days")
    yield* Effect.gen(function*() {
      yield* (yield* ArtifactStore.ArtifactStore).prune
      yield* (yield* Checkpoints.Checkpoints).prune
    }).pipe(Effect.provide(stores))
    return folder
  })

describe("data kept before its process was killed", () => {
  it.effect("is there whole in a folder, and nothing is left in it of what was not", () =>
    Effect.gen(function*() {
      const folder = yield* isWhole("folder")
      assert.deepStrictEqual([readdirSync(`${folder}/artifacts`), readdirSync(`${folder}/checkpoints`)], [[], []])
    }).pipe(Effect.scoped), { tags: ["ST10"] })

  it.effect(
    "is there whole in SQLite, and nothing is left in its tables of what was not",
    () =>
      Effect.gen(function*() {
        const folder = yield* isWhole("sqlite")
        const database = new DatabaseSync(`${folder}/kept.db`)
        for (const component of ["artifacts", "checkpoints"]) {
          const rows = (table: string) => database.prepare(`SELECT * FROM tool_executor_${component}${table}`).all()
          assert.deepStrictEqual([rows(""), rows("_parts")], [[], []])
          assert.strictEqual(rows("_total")[0]?.["size"], 0)
        }
        database.close()
      }).pipe(Effect.scoped),
    { tags: ["ST10"], timeout: 60_000 }
  )
})
