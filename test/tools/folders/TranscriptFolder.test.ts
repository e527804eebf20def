import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as TranscriptFolder from "../../../src/tools/folders/TranscriptFolder.ts"
import { program } from "../../support/programs.ts"

const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

const somewhere = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "sessions-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

const read = (directory: string, session: string) =>
  Effect.gen(function*() {
    const transcripts = yield* TranscriptFolder.make({ directory })
    return (yield* transcripts.open(session, "default")).messages
  }).pipe(Effect.scoped)

/** A process that writes to a session until it is killed; ready once it has written. */
const writer = (directory: string, session: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const child = spawn(process.execPath, [
        ...program("test/support/transcriptWriter.ts"),
        directory,
        session
      ], { stdio: ["ignore", "pipe", "inherit"] })
      let told = ""
      child.stdout.setEncoding("utf8").on("data", (text: string) => told += text)
      await once(child.stdout, "data")
      const kill = async () => {
        child.kill("SIGKILL")
        if (child.exitCode === null && child.signalCode === null) await once(child, "close")
        return Number(told.trim().split("\n").at(-1))
      }
      return { pid: child.pid, kill }
    }),
    ({ kill }) => Effect.promise(kill)
  )

describe("sessions in a folder", () => {
  it.live("are there for the next process, and for their owner alone", () =>
    Effect.gen(function*() {
      const directory = join(yield* somewhere, "in", "sessions")
      const transcripts = yield* TranscriptFolder.make({ directory })
      assert.deepStrictEqual(yield* transcripts.list, [])
      const name = "../../etc/passwd"
      yield* Effect.scoped(Effect.flatMap(transcripts.open(name, "default"), ({ append }) => append([user("hi")])))
      assert.deepStrictEqual(yield* read(directory, name), [user("hi")])
      assert.deepStrictEqual((yield* transcripts.list).map(({ name, words }) => [name, words]), [[name, "hi"]])
      assert.strictEqual(statSync(directory).mode & 0o777, 0o700)
      for (const file of readdirSync(directory)) {
        assert.match(file, /^[0-9a-f]{32}\.(0|lock|pid)$/)
        assert.strictEqual(statSync(join(directory, file)).mode & 0o777, 0o600, file)
      }
    }))

  it.live("lie apart from the root that tools work in", () =>
    Effect.gen(function*() {
      const root = yield* somewhere
      const error = yield* Effect.flip(TranscriptFolder.make({ directory: join(root, "sessions"), root }))
      assert.include(error.problems[0]?.problem, "lies in the root")
    }))

  it.live("open after a kill at any moment with all that was kept, and go on from there", () =>
    Effect.gen(function*() {
      const directory = yield* somewhere
      let kept = 0
      for (let round = 0; round < 3; round++) {
        const { kill } = yield* writer(directory, "s")
        const last = yield* Effect.promise(kill)
        const messages = yield* read(directory, "s")
        assert.isAtLeast(messages.length, last + 1)
        assert.isAbove(messages.length, kept)
        assert.deepStrictEqual(messages, messages.map((_, index) => user(`${index} ${"x".repeat(index)}`)))
        kept = messages.length
      }
    }), { tags: ["AG18"] })

  it.live("take no notice of what a process left that was killed while it wrote", () =>
    Effect.gen(function*() {
      const directory = yield* somewhere
      const transcripts = yield* TranscriptFolder.make({ directory })
      const append = (text: string) =>
        Effect.scoped(Effect.flatMap(transcripts.open("s", "default"), ({ append }) => append([user(text)])))
      yield* append("one")
      const [first] = readdirSync(directory)
      writeFileSync(join(directory, first!.replace(/\..*$/, ".1.new")), "{\"session\"")
      assert.deepStrictEqual(yield* read(directory, "s"), [user("one")])
      yield* append("two")
      assert.deepStrictEqual(yield* read(directory, "s"), [user("one"), user("two")])
      assert.notInclude(readdirSync(directory).join(" "), ".new")
    }))

  it.live("tell a second process who has them, and nobody once that one is gone", () =>
    Effect.gen(function*() {
      const directory = yield* somewhere
      const { kill, pid } = yield* writer(directory, "s")
      const error = yield* Effect.flip(read(directory, "s"))
      assert.strictEqual(error.message, `Transcripts.open failed for session "s": process ${pid} has it open`)
      assert.deepStrictEqual(yield* read(directory, "another"), [])
      yield* Effect.promise(kill)
      assert.isNotEmpty(yield* read(directory, "s"))
    }))
})
