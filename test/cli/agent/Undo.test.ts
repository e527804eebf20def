import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { mkdirSync, readdirSync, writeFileSync } from "node:fs"
import { escape } from "../../../src/internal/escape.ts"
import { folder, run } from "../harness.ts"

type Call = readonly [tool: string, params: unknown]

const write = (path: string, content: string): Call => ["write_file", { path, content }]
const edit = (path: string, oldText: string, newText: string): Call => ["edit_file", { path, oldText, newText }]
const command = (text: string): Call => ["run_command", { command: text }]

/** A root with its files, checkpoints beside it, and the two commands on both. */
const setUp = Effect.fnUntraced(function*(files: Readonly<Record<string, string>> = {}) {
  const work = yield* folder(files)
  const beside = yield* folder({})
  const flags = ["--root", work.root, "--checkpoints", beside.file("checkpoints")]
  const allowed = ["write_file", "edit_file", "run_command"].flatMap((tool) => ["--allow", tool])
  const undo = (...args: ReadonlyArray<string>) => run(["undo", ...flags, ...args])
  return {
    ...work,
    beside,
    put: (name: string, content: string) => Effect.sync(() => writeFileSync(work.file(name), content)),
    undo,
    /** The ids that can be undone, newest first. */
    ids: Effect.map(
      undo("--list"),
      ({ stdout }) => stdout.trimEnd().split("\n").map((line) => line.split("  ")[0] ?? "")
    ),
    /** Runs calls one after the other, and waits until each is on the list. */
    change: Effect.fnUntraced(function*(...calls: ReadonlyArray<Call>) {
      for (const [name, params] of calls) {
        const { stdout: before } = yield* undo("--list")
        const stdin = JSON.stringify([{ id: "c", name, params }])
        const { code, stderr } = yield* run(["run", ...flags, ...allowed, "--events", "none"], { stdin })
        assert.strictEqual(code, 0, stderr)
        yield* Effect.repeat(undo("--list"), {
          until: ({ stdout }) => stdout !== before,
          schedule: Schedule.spaced("5 millis")
        })
      }
    })
  }
})

describe("tool-executor undo", () => {
  it.live("lists what can be undone, newest first, and names what cannot", () =>
    Effect.gen(function*() {
      const { change, undo } = yield* setUp({ "a.txt": "alpha\n" })
      yield* change(edit("a.txt", "alpha", "beta"), command("echo hi"), write("b.txt", "made\n"))
      const { code, stderr, stdout } = yield* undo("--list")
      assert.strictEqual(code, 0)
      assert.strictEqual(stderr, "")
      const lines = stdout.trimEnd().split("\n").map((line) => line.split("  "))
      assert.deepStrictEqual(lines.map(([, , ...rest]) => rest), [
        ["write_file", "b.txt"],
        ["run_command", "cannot be undone: the tool does not declare what it changes"],
        ["edit_file", "a.txt"]
      ])
      for (const [id = "", at = ""] of lines) {
        assert.match(id, /^\S+$/)
        assert.match(at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
      }
      assert.lengthOf(new Set(lines.map(([id]) => id)), 3)
    }))

  it.live("lists nothing where nothing was written", () =>
    Effect.gen(function*() {
      const { undo } = yield* setUp()
      const { code, stdout } = yield* undo("--list")
      assert.strictEqual(code, 0)
      assert.strictEqual(stdout, "There is nothing to undo.\n")
    }))

  it.live("shows what it would change, and changes nothing", () =>
    Effect.gen(function*() {
      const { change, exists, ids, read, undo } = yield* setUp({ "a.txt": "alpha\n" })
      yield* change(edit("a.txt", "alpha", "beta"), write("b.txt", "made\n"))
      const before = yield* ids
      const made = yield* undo("--dry-run")
      assert.strictEqual(made.code, 0)
      assert.include(made.stdout, "would remove  b.txt\n")
      assert.include(made.stdout, "--- b.txt\n+++ /dev/null\n")
      assert.include(made.stdout, "\n-made\n")
      const edited = yield* undo(before[1] ?? "", "--dry-run")
      assert.strictEqual(edited.code, 0)
      assert.strictEqual(
        edited.stdout,
        "would restore a.txt\n\n--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-beta\n+alpha\n"
      )
      assert.isTrue(yield* exists("b.txt"))
      assert.strictEqual(yield* read("a.txt"), "beta\n")
      assert.deepStrictEqual(yield* ids, before)
    }))

  it.live("undoes the last write, the one before it, and so on to the first", () =>
    Effect.gen(function*() {
      const { change, exists, read, undo } = yield* setUp({ "a.txt": "alpha\n" })
      yield* change(edit("a.txt", "alpha", "beta"), write("a.txt", "gamma\n"), write("b.txt", "made\n"))
      const removed = yield* undo()
      assert.deepStrictEqual([removed.code, removed.stdout, removed.stderr], [0, "removed      b.txt\n", ""])
      assert.isFalse(yield* exists("b.txt"))
      assert.strictEqual(yield* read("a.txt"), "gamma\n")
      const restored = yield* undo()
      assert.deepStrictEqual([restored.code, restored.stdout], [0, "restored     a.txt\n"])
      assert.strictEqual(yield* read("a.txt"), "beta\n")
      assert.strictEqual((yield* undo()).code, 0)
      assert.strictEqual(yield* read("a.txt"), "alpha\n")
      const none = yield* undo()
      assert.strictEqual(none.code, 1)
      assert.include(none.stderr, "There is nothing to undo.")
      assert.strictEqual(yield* read("a.txt"), "alpha\n")
    }))

  it.live("undoes the write that is named, and no other", () =>
    Effect.gen(function*() {
      const { change, exists, ids, read, undo } = yield* setUp({ "a.txt": "alpha\n" })
      yield* change(edit("a.txt", "alpha", "beta"), write("b.txt", "made\n"))
      const [, first = ""] = yield* ids
      assert.strictEqual((yield* undo(first)).code, 0)
      assert.strictEqual(yield* read("a.txt"), "alpha\n")
      assert.isTrue(yield* exists("b.txt"))
      const again = yield* undo(first)
      assert.strictEqual(again.code, 2)
    }), { tags: ["W7"] })

  it.live("brings a change back by the id of its undoing", () =>
    Effect.gen(function*() {
      const { change, exists, ids, read, undo } = yield* setUp({ "a.txt": "alpha\n" })
      yield* change(edit("a.txt", "alpha", "beta"), write("b.txt", "made\n"))
      yield* undo()
      yield* undo()
      const [second = "", first = "", ...others] = yield* ids
      assert.deepStrictEqual(others, [])
      assert.include((yield* undo("--list")).stdout, `${second}  `)
      assert.include((yield* undo("--list")).stdout, "  undo  a.txt\n")
      const back = yield* undo(second)
      assert.deepStrictEqual([back.code, back.stdout], [0, "restored     a.txt\n"])
      assert.strictEqual(yield* read("a.txt"), "beta\n")
      assert.strictEqual((yield* undo(first)).code, 0)
      assert.isTrue(yield* exists("b.txt"))
      assert.strictEqual(yield* read("b.txt"), "made\n")
    }))

  it.live("overwrites no later change unless forced", () =>
    Effect.gen(function*() {
      const { change, ids, put, read, undo } = yield* setUp({ "a.txt": "alpha\n" })
      yield* change(edit("a.txt", "alpha", "beta"))
      yield* put("a.txt", "of a person\n")
      const before = yield* ids
      const planned = yield* undo("--dry-run")
      assert.strictEqual(planned.code, 1)
      assert.include(planned.stdout, "needs --force a.txt: it changed after that write\n")
      assert.include(planned.stdout, "-of a person\n+alpha\n")
      const refused = yield* undo()
      assert.strictEqual(refused.code, 1)
      assert.strictEqual(refused.stdout, "")
      assert.include(refused.stderr, "Nothing was changed:\n  a.txt: it changed after that write\n")
      assert.include(refused.stderr, "--force overwrites it.")
      assert.strictEqual(yield* read("a.txt"), "of a person\n")
      assert.deepStrictEqual(yield* ids, before)
      const forced = yield* undo("--force")
      assert.deepStrictEqual([forced.code, forced.stdout], [0, "overwritten  a.txt: it changed after that write\n"])
      assert.strictEqual(yield* read("a.txt"), "alpha\n")
      // what was overwritten is kept as well
      const [id = ""] = yield* ids
      assert.strictEqual((yield* undo(id)).code, 0)
      assert.strictEqual(yield* read("a.txt"), "of a person\n")
    }), { tags: ["W7"] })

  it.live("removes no file that somebody wrote over meanwhile", () =>
    Effect.gen(function*() {
      const { change, put, read, undo } = yield* setUp()
      yield* change(write("a.txt", "made\n"))
      yield* put("a.txt", "of a person\n")
      assert.strictEqual((yield* undo()).code, 1)
      assert.strictEqual(yield* read("a.txt"), "of a person\n")
    }))

  it.live("does not do by force what cannot be done", () =>
    Effect.gen(function*() {
      const { change, exists, file, undo } = yield* setUp()
      yield* change(["write_file", { path: "folder/a.txt", content: "made\n", createDirectories: true }])
      yield* change(command("rm -r folder && ln -s /nowhere folder"))
      const { code, stderr } = yield* undo("--force")
      assert.strictEqual(code, 1)
      assert.include(stderr, "Nothing was changed:\n  folder/a.txt: ")
      assert.notInclude(stderr, "--force")
      assert.isFalse(yield* exists("folder/a.txt"))
      assert.include(readdirSync(file(".")), "folder")
    }))

  it.live("says that it does not undo what a later command did", () =>
    Effect.gen(function*() {
      const { change, exists, ids, undo } = yield* setUp()
      yield* change(write("a.txt", "made\n"), command("echo > b.txt"), command("echo > c.txt"))
      const note = "\nNot undone: what 2 later calls may have changed (run_command).\n"
      assert.include((yield* undo("--dry-run")).stdout, note)
      const [last = ""] = yield* ids
      const refused = yield* undo(last)
      assert.strictEqual(refused.code, 1)
      assert.include(refused.stderr, "run_command cannot be undone: the tool does not declare what it changes.")
      const { code, stdout } = yield* undo()
      assert.strictEqual(code, 0)
      assert.strictEqual(stdout, `removed      a.txt\n${note}`)
      assert.isFalse(yield* exists("a.txt"))
      assert.isTrue(yield* exists("b.txt"))
      // what is left are commands and an undoing
      assert.strictEqual((yield* undo()).code, 1)
    }))

  it.live("ends with 2 for a write that there is not", () =>
    Effect.gen(function*() {
      const { change, read, undo } = yield* setUp()
      yield* change(write("a.txt", "made\n"))
      for (const id of ["nope", "../a", "\u001b[2J"]) {
        const { code, stderr, stdout } = yield* undo(id)
        assert.strictEqual(code, 2)
        assert.strictEqual(stdout, "")
        assert.include(stderr, `Unknown write ${escape(id)}.`)
        assert.include(stderr, "undo --list")
      }
      assert.strictEqual(yield* read("a.txt"), "made\n")
    }))

  for (const name of ["undo", "run"]) {
    it.live(`ends with 2 where checkpoints would lie in the root, or around it (${name})`, () =>
      Effect.gen(function*() {
        const { exists, file, root } = yield* setUp()
        mkdirSync(file("inner"))
        for (
          const [at, checkpoints] of [
            [root, file("checkpoints")],
            [root, root],
            [file("inner"), root]
          ] as const
        ) {
          const stdin = JSON.stringify([{ name: "write_file", params: { path: "a.txt", content: "made" } }])
          const flags = ["--root", at, "--checkpoints", checkpoints]
          const args = name === "undo" ? [name, ...flags] : [name, ...flags, "--allow", "write_file"]
          const { code, stderr, stdout } = yield* run(args, { stdin })
          assert.strictEqual(code, 2)
          assert.strictEqual(stdout, "")
          assert.include(stderr, "lies in the root")
          assert.include(stderr, "a folder apart from the root")
        }
        assert.isFalse(yield* exists("a.txt"))
        assert.isFalse(yield* exists("checkpoints"))
      }))
  }

  it.live("keeps nothing, and so undoes nothing, with --checkpoints none", () =>
    Effect.gen(function*() {
      const { beside, exists, read, root } = yield* setUp()
      const stdin = JSON.stringify([{ name: "write_file", params: { path: "a.txt", content: "made" } }])
      const flags = ["--root", root, "--checkpoints", "none"]
      assert.strictEqual((yield* run(["run", ...flags, "--allow", "write_file"], { stdin })).code, 0)
      assert.strictEqual(yield* read("a.txt"), "made")
      assert.deepStrictEqual(readdirSync(beside.root), [])
      assert.isFalse(yield* exists("none"))
      const { code, stderr } = yield* run(["undo", ...flags])
      assert.strictEqual(code, 2)
      assert.include(stderr, "--checkpoints none keeps nothing, so there is nothing to undo.")
    }))

  it.live("has no checkpoints of another root in a folder of its own", () =>
    Effect.gen(function*() {
      const { change, read } = yield* setUp()
      yield* change(write("a.txt", "made\n"))
      const other = yield* setUp()
      assert.strictEqual((yield* other.undo()).code, 1)
      assert.strictEqual(yield* read("a.txt"), "made\n")
    }))

  it.live("shows names of files without obeying them", () =>
    Effect.gen(function*() {
      const name = "a\u001b[2J\u202e\nremoved      b.txt"
      const { change, exists, ids, put, read, undo } = yield* setUp()
      yield* change(write(name, "one\u001b[31m\u202e\n"), write(name, "two\n"))
      const shown = "a\\u001b[2J\\u202e\\nremoved      b.txt"
      const safe = (text: string) => {
        for (const line of text.split("\n")) assert.notMatch(line, /[\p{C}\p{Zl}\p{Zp}]|^removed {6}b/u)
        assert.include(text, shown)
      }
      safe((yield* undo("--list")).stdout)
      const planned = (yield* undo("--dry-run")).stdout
      safe(planned)
      assert.include(planned, "+one\\u001b[31m\\u202e\n")
      yield* put(name, "three\n")
      const refused = yield* undo()
      assert.strictEqual(refused.code, 1)
      safe(refused.stderr)
      safe((yield* undo("--force")).stdout)
      assert.strictEqual(yield* read(name), "one\u001b[31m\u202e\n")
      safe((yield* undo()).stdout)
      assert.isFalse(yield* exists(name))
      for (const id of yield* ids) assert.notInclude(id, "\u001b")
    }))
})
