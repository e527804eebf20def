/**
 * What is left of an operation of `tool-executor agent` that ends from outside, and the
 * sessions that go on from it: processes of their own, killed for real.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { writeFileSync } from "node:fs"
import { sample } from "../../support/seeds.ts"
import { command, events, modesIn, read, resultsIn, world } from "../agents.ts"
import { folder } from "../harness.ts"
import * as Process from "../process.ts"

describe("a session", () => {
  it.live("is gone on with by its name, or as the last one, and nobody else can read it", () =>
    Effect.gen(function*() {
      const { aside, here, run, server } = yield* world(
        Array.from({ length: 6 }, (_, index) => ({ text: `answer ${index}` }))
      )
      yield* run(["--print", "one", "--session", "a/../b"])
      yield* here(["--print", "two", "--session", "other"])
      yield* here(["--print", "three", "--resume=a/../b"])
      yield* here(["--print", "four", "--resume"])
      assert.deepStrictEqual(
        server.asked.at(-1)?.messages.map((it) => "text" in it ? it.text : ""),
        ["one", "answer 0", "three", "answer 2", "four"]
      )
      const again = yield* here(["--print", "five", "--session", "other"])
      assert.strictEqual(again.code, 2)
      assert.include(again.stderr, "The session \"other\" already exists. Continue it with --resume=NAME.")
      const unknown = yield* here(["--print", "five", "--resume=none"])
      assert.strictEqual(unknown.code, 2)
      assert.match(unknown.stderr, /There is no session "none".*\n {2}a\/\.\.\/b .* one\n {2}other .* two\n$/)
      assert.deepStrictEqual(server.refusals, [])
      for (const { mode, name, type } of yield* modesIn(aside.file("state"))) {
        assert.strictEqual(mode, type === "Directory" ? 0o700 : 0o600, name)
      }
      // those of another root are its own
      const elsewhere = yield* here(["--print", "six", "--resume"], { at: (yield* folder({})).root })
      assert.strictEqual(elsewhere.code, 2)
      assert.include(elsewhere.stderr, "There is no session for this root. Start one with --session NAME.")
    }))

  it.live("is one process's at a time, and the second is told whose", () =>
    Effect.gen(function*() {
      const { run } = yield* world([{ text: "ready now", fault: { hang: 6 } }, { text: "late" }])
      const second: Array<{ readonly code: number | null; readonly stderr: string }> = []
      yield* run(["--print", "one", "--session", "s"], {
        onOutput: Process.once(({ stdout }) => stdout.includes("ready"), (child) => {
          Effect.runPromise(run(["--print", "two", "--resume=s"])).then((it) => {
            second.push(it)
            child.signal("SIGINT")
          }, () => undefined)
        })
      })
      assert.strictEqual(second[0]?.code, 2)
      assert.match(second[0]?.stderr ?? "", /process \d+ has it open/)
    }))

  it.live("goes on after a kill in the middle of a call by what is on record, and repeats nothing that may not be", () =>
    Effect.gen(function*() {
      const { aside, file, read: readBack, run, server } = yield* world([
        {
          text: "I run it.",
          calls: [read, command("echo once >> log.txt; echo ready; sleep 1"), command("echo then >> log.txt")]
        },
        { text: "I see." }
      ], { "a.txt": "alpha" })
      const args = ["--journal", aside.file("journal.ndjson"), "--allow", "run_command"]
      const killed = yield* run(["--print", "go", "--session", "s", ...args], {
        onOutput: Process.once(({ stderr }) => stderr.includes("ready"), (child) => child.signal("SIGKILL"))
      })
      assert.isNull(killed.code)
      // what has an outcome is not done again: this would be another one
      writeFileSync(file("a.txt"), "beta")
      const { code, stdout } = yield* run(["--print", "and now?", "--resume", ...args])
      assert.deepStrictEqual([code, stdout], [0, "I see.\n"])
      assert.strictEqual(yield* readBack("log.txt"), "once\nthen\n")
      assert.deepStrictEqual(server.refusals, [])
      const [found, ran, then] = resultsIn(server.asked.at(-1))
      assert.include(found, "alpha")
      assert.match(ran ?? "", /may or may not have happened/)
      assert.match(then ?? "", /"exitCode":0/)
      assert.deepStrictEqual(
        server.asked.at(-1)?.messages.map(({ role }) => role),
        ["user", "assistant", "tool", "user"]
      )
    }))

  const moments = [
    "assistant_message_part",
    "assistant_message_final",
    "tool_call_start",
    "tool_call_complete",
    "tools_end"
  ]

  it.live("goes on wherever it is killed, with a history that its provider takes", () =>
    Effect.forEach(sample(moments), (moment) =>
      Effect.gen(function*() {
        const { aside, here, read: readBack, run, server } = yield* world(
          ({ messages }) =>
            messages.some(({ role }) => role === "tool")
              ? { text: "Done." }
              : {
                reasoning: "hm",
                text: "I begin.",
                calls: [read, command("echo 1 >> log.txt"), command("echo 2 >> log.txt")]
              },
          { "a.txt": "alpha", "log.txt": "" },
          "anthropic"
        )
        const args = ["--json", "--journal", aside.file("journal.ndjson"), "--allow", "run_command"]
        yield* run(["--print", "go", "--session", "s", ...args], {
          onOutput: Process.once(({ stdout }) => stdout.includes(moment), (child) => child.signal("SIGKILL"))
        })
        const { code, stdout } = yield* here(["--print", "and now?", "--resume", ...args])
        assert.strictEqual(code, 0)
        assert.deepInclude(events(stdout).at(-1), { event: "operation_end", text: "Done." })
        assert.deepStrictEqual(server.refusals, [])
        const log = (yield* readBack("log.txt")).trim().split("\n")
        assert.strictEqual(
          log.filter((it) => it === "1").length <= 1 && log.filter((it) => it === "2").length <= 1,
          true
        )
      }), { concurrency: 2 }))

  it.live("goes on without a journal, and the model is told that nobody knows", () =>
    Effect.gen(function*() {
      const { read, run, server } = yield* world([
        { calls: [command("echo once >> log.txt; echo ready; sleep 1")] },
        { text: "I see." }
      ])
      yield* run(["--print", "go", "--session", "s", "--allow", "run_command"], {
        onOutput: Process.once(({ stderr }) => stderr.includes("ready"), (child) => child.signal("SIGKILL"))
      })
      const { code } = yield* run(["--print", "and now?", "--resume", "--allow", "run_command"])
      assert.strictEqual(code, 0)
      assert.strictEqual(yield* read("log.txt"), "once\n")
      assert.include(resultsIn(server.asked.at(-1)).join(), "It may or may not have happened.")
      assert.deepStrictEqual(server.refusals, [])
    }))
})

describe("an end from outside", () => {
  it.live("Ctrl-C cancels, every call is answered, and the session can be gone on with", () =>
    Effect.gen(function*() {
      const { read, run, server } = yield* world([
        { calls: [command("trap 'echo cleaned > done.txt; exit' TERM; echo ready; while :; do sleep 0.05; done")] },
        { text: "I see." }
      ])
      const args = ["--session", "s", "--allow", "run_command"]
      const stopped = yield* run(["--print", "go", ...args], {
        onOutput: Process.once(({ stderr }) => stderr.includes("ready\n"), (child) => child.signal("SIGINT"))
      })
      assert.strictEqual(stopped.code, 130)
      assert.include(stopped.stderr, "It was cancelled: the user pressed Ctrl-C.")
      assert.strictEqual(yield* read("done.txt"), "cleaned\n")
      const { code } = yield* run(["--print", "and now?", "--resume"])
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(server.refusals, [])
      assert.deepStrictEqual(server.asked.at(-1)?.messages.map(({ role }) => role), [
        "user",
        "assistant",
        "tool",
        "user"
      ])
    }))

  it.live("Ctrl-C while the model speaks keeps what it said", () =>
    Effect.gen(function*() {
      const { run, server } = yield* world([{ text: "ready to speak for long", fault: { hang: 6 } }, { text: "ok" }])
      const stopped = yield* run(["--print", "go", "--session", "s", "--json"], {
        onOutput: Process.once(({ stdout }) => stdout.includes("\"ready"), (child) => child.signal("SIGINT"))
      })
      assert.strictEqual(stopped.code, 130)
      assert.deepInclude(events(stopped.stdout).at(-1), { event: "operation_end" })
      assert.strictEqual((yield* run(["--print", "and now?", "--resume"])).code, 0)
      assert.deepStrictEqual(server.refusals, [])
    }))

  it.live("a second Ctrl-C ends it at once", () =>
    Effect.gen(function*() {
      const { run } = yield* world([{ calls: [command("trap '' TERM; echo ready; while :; do sleep 0.05; done")] }])
      const { code } = yield* run(["--print", "go", "--allow", "run_command"], {
        onOutput: Process.once(({ stderr }) => stderr.includes("ready\n"), (child) => {
          child.signal("SIGINT")
          child.signal("SIGTERM")
        })
      })
      assert.strictEqual(code, 130)
    }))

  it.live("ends without a word when nobody takes what it says any more, with every call answered", () =>
    Effect.gen(function*() {
      const { exists, run, server } = yield* world([
        { text: "ready", calls: [command("sleep 0.5")] },
        { text: "nobody reads this", calls: [command("echo no > late.txt")] },
        { text: "ok" },
        { text: "ok" }
      ])
      const args = ["--allow", "run_command"]
      const { code, stderr } = yield* run(["--print", "go", "--session", "s", ...args], {
        onOutput: Process.once(({ stdout }) => stdout.includes("ready"), (child) => child.closeStdout())
      })
      assert.strictEqual(code, 1)
      assert.notInclude(stderr, "standard output")
      assert.notInclude(stderr, "EPIPE")
      assert.isFalse(yield* exists("late.txt"))
      assert.strictEqual((yield* run(["--print", "and now?", "--resume", ...args])).code, 0)
      assert.deepStrictEqual(server.refusals, [])
    }))
})
