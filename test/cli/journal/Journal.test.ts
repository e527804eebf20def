import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import type { Journal } from "../../../src/index.ts"
import * as JournalContract from "../../../src/testing/JournalContract.ts"
import * as JournalFile from "../../../src/tools/folders/JournalFile.ts"
import { until } from "../../support/commandProcess.ts"
import { scripted, start } from "../../support/gatewayProcess.ts"
import { program } from "../../support/programs.ts"
import { folder, run } from "../harness.ts"

const { entry } = JournalContract

const native = (...calls: ReadonlyArray<readonly [id: string, name: string, params: unknown]>) =>
  JSON.stringify(calls.map(([id, name, params]) => ({ id, name, params })))

/** A root, and a journal of that name beside it; what has run in it. */
const setUp = Effect.fnUntraced(function*(name = "journal.ndjson") {
  const work = yield* folder({ "a.txt": "alpha\n" })
  const beside = yield* folder({})
  const at = beside.file(name)
  const flags = ["--root", work.root, "--checkpoints", "none", "--events", "none", "--journal", at]
  return {
    ...work,
    at,
    flags,
    runs: (stdin: string, ...args: ReadonlyArray<string>) => run(["run", ...flags, ...args], { stdin }),
    shows: (...args: ReadonlyArray<string>) => run(["journal", at, ...args])
  }
})

/** A journal in a file with these entries. */
const written = Effect.fnUntraced(function*(...entries: ReadonlyArray<Journal.JournalEntry>) {
  const { file } = yield* folder({})
  const path = file("journal.ndjson")
  yield* Effect.scoped(Effect.flatMap(
    JournalFile.make({ path }),
    (journal) => journal.append(entries.map((it) => ({ entry: it })), { durable: true })
  ))
  return path
})

const calls = native(
  ["1", "read_file", { path: "a.txt" }],
  ["2", "write_file", { path: "b.txt", content: "API_KEY=s3cr3t-99" }],
  ["3", "read_file", { path: "none.txt" }]
)

describe("tool-executor journal", () => {
  for (const name of ["journal.ndjson", "journal.db"]) {
    it.live(`shows what \`run\` has put on record in ${name}`, () =>
      Effect.gen(function*() {
        const { at, runs, shows } = yield* setUp(name)
        assert.strictEqual((yield* runs(calls, "--allow", "write_file")).code, 1)
        const table = yield* shows()
        assert.strictEqual(table.code, 0, table.stderr)
        const lines = table.stdout.trimEnd().split("\n")
        assert.match(lines[0]!, /^arrived +principal +id +tool +outcome/)
        assert.match(lines[1]!, /^\d{4}-\d\d-\d\dT[\d:.]+Z +default +1 +read_file +Succeeded +\d+ ms$/)
        assert.deepStrictEqual(lines.slice(1).map((it) => it.split(/ {2,}/)[4]), [
          "Succeeded",
          "Succeeded",
          "Failed: handler"
        ])

        const ids = (stdout: string) => stdout.trimEnd().split("\n").slice(1).map((it) => it.split(/ {2,}/)[2])
        assert.deepStrictEqual(ids((yield* shows("--tool", "read_file")).stdout), ["1", "3"])
        assert.deepStrictEqual(ids((yield* shows("--outcome", "Failed")).stdout), ["3"])
        assert.deepStrictEqual(ids((yield* shows("--principal", "default", "--since", "1 hour")).stdout), [
          "1",
          "2",
          "3"
        ])
        const none = yield* shows("--batch", "none")
        assert.deepStrictEqual([none.code, none.stdout, none.stderr], [0, "", "No matching calls.\n"])

        const whole = (yield* shows("--call", "2")).stdout
        for (
          const it of ["2 write_file: Succeeded", "started, attempt 1", "\"path\": \"b.txt\"", "[redacted]", "told: "]
        ) {
          assert.include(whole, it)
        }
        assert.notInclude((yield* shows("--json")).stdout, "s3cr3t")
        const json = (yield* shows("--json", "--outcome", "Failed")).stdout.trimEnd().split("\n").map((it) =>
          JSON.parse(it) as Record<string, unknown>
        )
        assert.deepStrictEqual(json.map((it) => it["callId"]), json.map(() => "3"))
        assert.include(json.map((it) => it["_tag"]), "Settled")

        const picture = (yield* shows("--timeline")).stdout
        assert.match(picture, /batch .*, wave 1\n {2}1 read_file {2,}/)
        assert.include(picture, "█ running")
        const check = yield* shows("--verify")
        assert.strictEqual(check.code, 0)
        assert.match(
          check.stdout,
          /^Hash chain: whole up to entry \d+\n3 calls, 3 of them started: each has exactly one end\n$/
        )
        // a checkpoint matches until somebody changes an entry
        const checkpoint = yield* shows("--checkpoint")
        const kept = `${at}.checkpoint`
        writeFileSync(kept, checkpoint.stdout)
        const against = yield* shows("--verify", "--against", kept)
        assert.match(against.stdout, /^Hash chain: whole up to entry (\d+), matches the checkpoint at entry \1\n/)
        if (name === "journal.db") {
          const db = new DatabaseSync(at)
          db.exec("UPDATE tool_executor_journal_entries SET tool = 'other' WHERE place = 2")
          db.close()
        } else writeFileSync(at, readFileSync(at, "utf8").replace("\"default\"", "\"Default\""))
        const changed = yield* shows("--verify")
        assert.strictEqual(changed.code, 1)
        assert.match(changed.stdout, /^entr(y|ies) \d+.* changed.*\n(.*\n)*Hash chain: broken\n/)
        const refused = yield* shows("--checkpoint")
        assert.deepStrictEqual([refused.code, refused.stdout], [1, ""])
      }))
  }

  it.live("names what does not go together", () =>
    Effect.gen(function*() {
      const path = yield* written(
        entry("Arrived", { key: "1", callId: "open" }),
        entry("Started", { key: "1", callId: "open" }),
        entry("Arrived", { key: "2", callId: "twice" }),
        entry("Settled", { key: "2", callId: "twice" }),
        entry("Settled", { key: "2", callId: "twice" }),
        entry("Arrived", { key: "3", callId: "waits" }),
        // the same call anew is no second end
        entry("Arrived", { key: "4", callId: "again" }),
        entry("Settled", { key: "4", callId: "again" }),
        entry("Arrived", { key: "4", callId: "again" }),
        entry("Settled", { key: "4", callId: "again" }),
        { _tag: "Gap", at: 1, principal: "p", session: "s", lost: 2 }
      )
      const { code, stdout } = yield* run(["journal", path, "--verify"])
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(stdout.trimEnd().split("\n").map((it) => it.replace(/ of p.*Z?: /, ": ")), [
        "Hash chain: whole up to entry 12",
        "2 entries are missing before place 12",
        "open t: it was started and has no end",
        "twice t: it has 2 ends",
        "5 calls, 1 of them started: 3 need attention"
      ])
      const table = (yield* run(["journal", path])).stdout
      assert.match(table, /open {2,}t {2,}started, no end on record/)
      assert.match(table, /waits {2,}t {2,}not started/)
      assert.match((yield* run(["journal", path, "--outcome", "Running"])).stdout, /open(?!.*twice)/s)
    }))

  it.live("prints what comes while it follows, until it is stopped", () =>
    Effect.gen(function*() {
      const { at, runs } = yield* setUp()
      yield* runs(native(["1", "read_file", { path: "a.txt" }]))
      const followed = yield* run(["journal", at, "--follow"], {
        interruption: Effect.andThen(
          runs(native(["2", "list_directory", {}])),
          Effect.as(Effect.sleep("1200 millis"), "stopped")
        )
      })
      assert.strictEqual(followed.code, 0)
      assert.match(
        followed.stdout,
        /1 read_file {2}arrived\n(.*\n)*.*2 list_directory {2}arrived\n(.*\n)*.*2 list_directory {2}Succeeded/
      )
    }))

  it.live("is refused where it is not, or tools could change it", () =>
    Effect.gen(function*() {
      const { at, root, runs } = yield* setUp()
      const absent = yield* run(["journal", at])
      assert.deepStrictEqual([absent.code, absent.stderr], [2, `${at}: there is no such file\n`])
      const inside = yield* runs("[]", "--journal", `${root}/journal.ndjson`)
      assert.strictEqual(inside.code, 2)
      const views = yield* run(["journal", at, "--follow", "--verify"])
      assert.strictEqual(views.code, 2)
      const against = yield* run(["journal", at, "--against", at])
      assert.deepStrictEqual([against.code, against.stderr], [2, "--against works only with --verify. Add --verify.\n"])
      const outcome = yield* run(["journal", at, "--outcome", "failed"])
      assert.strictEqual(outcome.code, 2)
      assert.include(outcome.stderr, `"Failed"`)
      const none = join(root, "..", "none.ndjson")
      writeFileSync(none, "no journal\n")
      const other = yield* run(["journal", none])
      assert.deepStrictEqual([other.code, other.stderr], [
        2,
        `${none}: the line after entry 0 is not a journal entry: no journal\n`
      ])
      const time = yield* run(["journal", at, "--since", "soon"])
      assert.include(time.stderr, "--since is soon, expected a time")
    }))
})

describe("tool-executor run --resume", () => {
  it.live(
    "goes on where a run was killed, and runs nothing twice that may have happened",
    () =>
      Effect.gen(function*() {
        const { file, flags, runs, shows } = yield* setUp()
        const message = native(
          ["1", "write_file", { path: "first.txt", content: "1" }],
          ["2", "run_command", { command: "echo ran >> log.txt; sleep 30" }],
          ["3", "write_file", { path: "last.txt", content: "3" }]
        )
        const allowed = ["--allow", "write_file", "--allow", "run_command"]
        const child = spawn(process.execPath, [...program("src/cli/bin.ts"), "run", ...flags, ...allowed], {
          stdio: ["pipe", "ignore", "ignore"]
        })
        child.stdin.end(message)
        yield* Effect.sync(() => existsSync(file("log.txt"))).pipe(
          Effect.repeat({ until: (isThere) => isThere, schedule: Schedule.spaced("20 millis") })
        )
        const busy = yield* runs(message, "--resume", ...allowed)
        assert.strictEqual(busy.code, 1)
        assert.include(busy.stderr, "another process works on these calls")
        const gone = once(child, "exit")
        child.kill("SIGKILL")
        yield* Effect.promise(() => gone)

        const resumed = yield* runs(message, "--resume", ...allowed)
        assert.strictEqual(resumed.code, 1, resumed.stderr)
        const tags = (stdout: string) =>
          (JSON.parse(stdout) as ReadonlyArray<{ readonly _tag: string }>).map((it) => it._tag)
        assert.deepStrictEqual(tags(resumed.stdout), ["Succeeded", "Unknown", "Succeeded"])
        assert.strictEqual(readFileSync(file("log.txt"), "utf8"), "ran\n")
        assert.strictEqual(readFileSync(file("last.txt"), "utf8"), "3")
        const check = yield* shows("--verify")
        assert.strictEqual(check.code, 0, check.stdout)
        const again = yield* runs(message, "--resume", ...allowed)
        assert.deepStrictEqual(tags(again.stdout), ["Succeeded", "Unknown", "Succeeded"])
        assert.strictEqual(readFileSync(file("log.txt"), "utf8"), "ran\n")
      }),
    30_000
  )

  it.live("takes nothing for done that was done in another folder", () =>
    Effect.gen(function*() {
      const { flags, root, runs } = yield* setUp()
      const message = native(["1", "write_file", { path: "b.txt", content: "here" }])
      const allowed = ["--allow", "write_file"]
      yield* runs(message, ...allowed)
      const other = yield* folder({})
      const elsewhere = flags.map((it) => it === root ? other.root : it)
      const resumed = yield* run(["run", ...elsewhere, "--resume", ...allowed], { stdin: message })
      assert.include(resumed.stderr, "The journal contains none of these calls")
      assert.strictEqual(readFileSync(other.file("b.txt"), "utf8"), "here")
    }))

  it.live("needs a journal", () =>
    Effect.gen(function*() {
      const { code, stderr } = yield* run(["run", "--resume"], { stdin: "[]" })
      assert.strictEqual(code, 2)
      assert.include(stderr, "add --journal")
    }))
})

describe("tool-executor journal, of what is no journal,", () => {
  it.live("changes no database, and makes nothing beside it", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({ "empty.db": "" })
      const foreign = new DatabaseSync(file("foreign.db"))
      foreign.exec("CREATE TABLE things (name TEXT)")
      foreign.close()
      const before = readFileSync(file("foreign.db"))
      for (const name of ["foreign.db", "empty.db"]) {
        const { code, stderr } = yield* run(["journal", file(name)])
        assert.strictEqual(code, 2)
        assert.include(stderr, "no such table")
      }
      assert.deepStrictEqual(readFileSync(file("foreign.db")), before)
      assert.strictEqual(readFileSync(file("empty.db"), "utf8"), "")
      assert.deepStrictEqual(readdirSync(root).sort(), ["empty.db", "foreign.db"])
    }))

  for (const at of ["POSTGRES://ada:s3cr3t@127.0.0.1:1/agent", "mysql://ada:s3cr3t@127.0.0.1:1/agent"]) {
    it.live(`repeats no password: ${at.slice(0, 8)}`, () =>
      Effect.gen(function*() {
        const { root } = yield* folder({})
        for (const args of [["journal", at], ["run", "--root", root, "--journal", at]]) {
          const { code, stderr, stdout } = yield* run(args, { stdin: "[]" })
          assert.strictEqual(code, 2, stderr)
          assert.notInclude(stdout + stderr, "s3cr3t")
        }
        assert.deepStrictEqual(readdirSync(root), [])
      }))
  }
})

describe("tool-executor mcp --journal", () => {
  it.live(
    "puts the calls of its client on record, a call that it answered with its end",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { file } = yield* folder({})
        const { file: config } = yield* folder({
          "gateway.json": { mcpServers: { s: scripted({ notes: file("notes") }) }, policy: { default: "allow" } }
        })
        const at = file("journal.db")
        const { call, child, ended, find, initialize, written } = yield* start(
          "--config",
          config("gateway.json"),
          "--journal",
          at
        )
        initialize()
        call(1, "s__act", [["text", "written"]])
        yield* until(() => find("id", 1) !== undefined)
        child.stdin.end()
        assert.strictEqual(yield* ended, 0, written.stderr)
        assert.match((yield* run(["journal", at])).stdout, /s__act +Succeeded/)
        assert.strictEqual((yield* run(["journal", at, "--verify"])).code, 0)
      })),
    30_000
  )
})
