/**
 * Questions at the terminal as people meet them: a process of its own behind a
 * real pseudo-terminal.
 */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "@lydell/node-pty"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { execFileSync, spawn as spawnPlain } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { userInfo } from "node:os"
import { program } from "../../support/programs.ts"
import { either } from "../../support/seeds.ts"
import { folder, openai } from "../harness.ts"

const bin = program("src/cli/bin.ts")

/** Whether the message comes from a file or through standard input. */
type Way = "file" | "pipe"

const ways = either<Way>(["file", "pipe"])

type Call = readonly [tool: string, params: unknown]

interface Options {
  readonly calls?: ReadonlyArray<Call>
  /** Default: the calls in their native shape. */
  readonly message?: string
  readonly files?: Readonly<Record<string, string>>
  readonly args?: ReadonlyArray<string>
  readonly way?: Way
  /** Where standard error goes; default the terminal. */
  readonly stderr?: "file"
}

interface Outcome {
  readonly _tag: string
  readonly reason?: { readonly by?: string; readonly reason?: string } | string
}

interface Ended {
  readonly code: number
  /** Everything that the terminal got. */
  readonly screen: string
  /** Outcomes of the calls in their order. */
  readonly outcomes: ReadonlyArray<Outcome>
  readonly tags: ReadonlyArray<string>
  /** What `stty -a` says after the command. */
  readonly modes: string
}

/** What moves the cursor while a line is edited. */
const moves = /\p{Cc}\[(?:\d+[AG]|0[JK])/gu

const wholeChoices = "[v] view all "

const environment = (state: string) => ({ ...process.env, NO_COLOR: "1", TERM: "xterm", XDG_STATE_HOME: state })

const native = (calls: ReadonlyArray<Call>) =>
  JSON.stringify(calls.map(([name, params], index) => ({ id: `c${index}`, name, params })))

/** Everything a run needs, apart from its root. */
const setUp = Effect.fnUntraced(function*(options: Options) {
  const work = yield* folder(options.files ?? {})
  const message = options.message ?? native(options.calls ?? [])
  const beside = yield* folder({ "message.json": message })
  const args = ["--root", work.root, ...options.args ?? []]
  return { work, beside, args, message, env: environment(beside.file("state")) }
})

/** Runs the command in a terminal of its own, which ends with the scope. */
const start = Effect.fnUntraced(function*(options: Options) {
  const { args, beside, env, work } = yield* setUp(options)
  const streams = `> "$OUT"${options.stderr === "file" ? ` 2> "$ERR"` : ""}`
  const script = [
    `tty > "$TTY"`,
    options.way === "pipe"
      ? `cat "$MESSAGE" | "$NODE" "$BIN" run "$@" ${streams}`
      : `"$NODE" "$BIN" run "$MESSAGE" "$@" ${streams}`,
    "code=$?",
    `stty -a > "$MODES"`,
    "exit $code"
  ].join("\n")
  const named = {
    NODE: process.execPath,
    BIN: bin.at(-1),
    MESSAGE: beside.file("message.json"),
    OUT: beside.file("out.json"),
    ERR: beside.file("err.txt"),
    MODES: beside.file("modes.txt"),
    TTY: beside.file("tty.txt")
  }
  const terminal = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn("sh", ["-c", script, "sh", ...args], { cols: 80, rows: 30, cwd: work.root, env: { ...env, ...named } })
    ),
    (it) => Effect.sync(() => it.kill("SIGKILL"))
  )
  let screen = ""
  let seen = 0
  let code: number | undefined
  const watchers = new Set<() => void>()
  const wake = () => {
    for (const watcher of Array.from(watchers)) watcher()
  }
  terminal.onData((text) => {
    screen += text
    wake()
  })
  terminal.onExit(({ exitCode }) => {
    code = exitCode
    wake()
  })
  /** Waits until there is something. */
  const until = <A>(look: () => A | undefined) =>
    Effect.callback<A>((resume) => {
      const watcher = () => {
        const found = look()
        if (found !== undefined) {
          watchers.delete(watcher)
          return resume(Effect.succeed(found))
        }
        if (code === undefined) return
        watchers.delete(watcher)
        resume(Effect.die(new Error(`the command ended with ${code} before; the terminal got:\n${screen}`)))
      }
      watchers.add(watcher)
      watcher()
      return Effect.sync(() => watchers.delete(watcher))
    })
  const read = (path: string) => existsSync(path) ? readFileSync(path, "utf8") : ""
  return {
    work,
    err: () => read(named.ERR),
    out: () => read(named.OUT),
    /** What the terminal's modes are now. */
    modes: Effect.sync(() =>
      execFileSync("sh", ["-c", `stty -a < "$0"`, read(named.TTY).trim()], { encoding: "utf8" })
    ),
    /** Waits until the text is shown, after what was waited for before, and gives all up to its end. */
    shows: (wanted: string) =>
      until(() => {
        const text = screen.replace(moves, "")
        const at = text.indexOf(wanted, seen)
        if (at < 0) return undefined
        const shown = text.slice(seen, at + wanted.length)
        seen = at + wanted.length
        return shown
      }),
    type: (keys: string) => Effect.sync(() => terminal.write(keys)),
    ended: Effect.map(until(() => code), (code): Ended => {
      const written = read(named.OUT)
      const outcomes = written === "" ? [] : JSON.parse(written) as ReadonlyArray<Outcome>
      return { code, screen, outcomes, tags: outcomes.map((it) => it._tag), modes: read(named.MODES) }
    })
  }
})

/** Runs the command in a session without a terminal. */
const runWithout = Effect.fnUntraced(function*(options: Options) {
  const { args, beside, env, message, work } = yield* setUp(options)
  const file = options.way === "pipe" ? "-" : beside.file("message.json")
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawnPlain(process.execPath, [...bin, "run", file, ...args], { detached: true, stdio: "pipe", env })
    ),
    (it) => Effect.sync(() => it.kill("SIGKILL"))
  )
  child.stdin.on("error", () => undefined).end(message)
  const ran = yield* Effect.callback<
    { readonly code: number | null; readonly stdout: string; readonly stderr: string }
  >(
    (resume) => {
      const written = { stdout: "", stderr: "" }
      for (const name of ["stdout", "stderr"] as const) {
        child[name].setEncoding("utf8").on("data", (text: string) => written[name] += text)
      }
      child.on("close", (code) => resume(Effect.succeed({ code, ...written })))
    }
  )
  const outcomes = JSON.parse(ran.stdout) as ReadonlyArray<Outcome>
  return { ...ran, work, outcomes, tags: outcomes.map((it) => it._tag) }
})

const write = (path: string, content: string): Call => ["write_file", { path, content }]
const command = (text: string): Call => ["run_command", { command: text }]

/** The same command twice, said in two ways, so that the second is no duplicate. */
const asLine = (folder: string): Call => ["run_command", { command: `mkdir -p ${folder}` }]
const asWords = (folder: string): Call => ["run_command", { argv: ["mkdir", "-p", folder] }]

const controlC = "\u0003"
const controlU = "\u0015"

/** Lines that a question is made of, and those of the events. */
const ours =
  /^(?:$|\? (?:write_file|run_command) wants to run|  (?:why|because|target|kind|pending)  |  \|  |  \| |  (?:arguments|diff)$|  \+ \d+ more lines: v shows all$|\[[yhsndev1-9]\] |arguments: |denied$|✗ (?:write_file|run_command)  |\d+ calls?, )/

for (const way of ways) {
  describe(`a question at the terminal, the message from a ${way}`, { concurrent: true }, () => {
    it.live("shows the tool, the arguments, the diff, why and how many more wait", () =>
      Effect.gen(function*() {
        const edit = (path: string): Call => ["edit_file", { path, oldText: "beta", newText: "gamma" }]
        const terminal = yield* start({
          way,
          calls: [edit("a.txt"), edit("b.txt")],
          files: { "a.txt": "alpha\nbeta\n", "b.txt": "alpha\nbeta\n" }
        })
        const first = yield* terminal.shows(wholeChoices)
        const path = /target {4}(a\.txt|b\.txt)/.exec(first)?.[1]
        assert.strictEqual(
          first.replaceAll("\r\n", "\n"),
          `
? edit_file wants to run
  pending   1 more
  why       the tool changes things
  kind      changes things
  target    ${path}
  arguments
  | {
  |   "path": "${path}",
  |   "oldText": "beta",
  |   "newText": "gamma"
  | }
  diff
  | --- ${path}
  | +++ ${path}
  | @@ -1,2 +1,2 @@
  |  alpha
  | -beta
  | +gamma
[y] approve once  [h] approve for 1 hour: ${path}
[s] approve until this ends: ${path}  [n] deny  [d] deny with a reason
[e] edit the arguments  [v] view all `
        )
        yield* terminal.type("n")
        const second = yield* terminal.shows(wholeChoices)
        assert.include(second, "? edit_file wants to run\r\n")
        yield* terminal.type("n")
        const { code, tags } = yield* terminal.ended
        assert.strictEqual(code, 1)
        assert.deepStrictEqual(tags, ["Denied", "Denied"])
      }))

    it.live("runs the call once at y, and asks about the next of its kind", () =>
      Effect.gen(function*() {
        const terminal = yield* start({ way, calls: [asLine("one"), asWords("one")] })
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("y")
        yield* terminal.shows("approved once\r\n")
        assert.include(yield* terminal.shows(wholeChoices), "target    mkdir -p one\r\n")
        yield* terminal.type("n")
        yield* terminal.shows("denied\r\n")
        const { code, outcomes, tags } = yield* terminal.ended
        assert.strictEqual(code, 1)
        assert.deepStrictEqual(tags, ["Succeeded", "Denied"])
        assert.deepInclude(outcomes[1]?.reason, { by: "user" })
        assert.isTrue(yield* terminal.work.exists("one"))
      }))

    for (
      const [key, said] of [["h", "approved for 1 hour"], ["s", "approved until this ends"]] as const
    ) {
      it.live(`asks no more about what ${key} covers, and about what it does not`, () =>
        Effect.gen(function*() {
          const terminal = yield* start({ way, calls: [asLine("one"), asWords("one"), asLine("two")] })
          assert.include(yield* terminal.shows(wholeChoices), "target    mkdir -p one\r\n")
          yield* terminal.type(key)
          yield* terminal.shows(`${said}\r\n`)
          assert.include(yield* terminal.shows(wholeChoices), "target    mkdir -p two\r\n")
          yield* terminal.type("n")
          const { code, screen, tags } = yield* terminal.ended
          assert.strictEqual(code, 1)
          assert.deepStrictEqual(tags, ["Succeeded", "Succeeded", "Denied"])
          assert.lengthOf(screen.split(" wants to run"), 3)
          assert.isTrue(yield* terminal.work.exists("one"))
          assert.isFalse(yield* terminal.work.exists("two"))
        }))
    }

    it.live("ends with 0 when everything was allowed", () =>
      Effect.gen(function*() {
        const terminal = yield* start({ way, calls: [command("echo made > a.txt")] })
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("y")
        assert.strictEqual((yield* terminal.ended).code, 0)
        assert.strictEqual(yield* terminal.work.read("a.txt"), "made\n")
      }))

    it.live("takes a reason at d, and lets one think better of it", () =>
      Effect.gen(function*() {
        const terminal = yield* start({ way, calls: [write("a.txt", "one")] })
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("d")
        yield* terminal.shows("reason: ")
        yield* terminal.type(controlC)
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("d")
        yield* terminal.shows("reason: ")
        yield* terminal.type("use b.txt instead\r")
        yield* terminal.shows("denied: use b.txt instead\r\n")
        const { code, outcomes, tags } = yield* terminal.ended
        assert.strictEqual(code, 1)
        assert.deepStrictEqual(tags, ["Denied"])
        assert.deepInclude(outcomes[0]?.reason, { by: "user", reason: "use b.txt instead" })
        assert.isFalse(yield* terminal.work.exists("a.txt"))
      }))

    it.live("runs the call with other arguments at e, once they are JSON", () =>
      Effect.gen(function*() {
        const terminal = yield* start({ way, calls: [write("a.txt", "one")] })
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("e")
        yield* terminal.shows(`arguments: {"path":"a.txt","content":"one"}`)
        // an emptied line goes back
        yield* terminal.type(`${controlU}\r`)
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("e")
        yield* terminal.shows(`arguments: {"path":"a.txt","content":"one"}`)
        yield* terminal.type(`${controlU}{"path":\r`)
        yield* terminal.shows("This is not valid JSON.")
        yield* terminal.shows(`arguments: {"path":`)
        yield* terminal.type(`${controlU}{"path":"b.txt","content":"two"}\r`)
        yield* terminal.shows("approved once, with edited arguments\r\n")
        const { code, tags } = yield* terminal.ended
        assert.strictEqual(code, 0)
        assert.deepStrictEqual(tags, ["Succeeded"])
        assert.isFalse(yield* terminal.work.exists("a.txt"))
        assert.strictEqual(yield* terminal.work.read("b.txt"), "two")
      }))

    it.live("shows all of long arguments and diffs at v", () =>
      Effect.gen(function*() {
        const lines = Array.from({ length: 60 }, (_, index) => `line ${index + 1} of the file`)
        const terminal = yield* start({ way, calls: [write("a.txt", lines.join("\n"))] })
        const cut = yield* terminal.shows(wholeChoices)
        assert.lengthOf(cut.split(/\+ \d+ more lines: v shows all/), 3)
        assert.notInclude(cut, "line 60 of the file")
        yield* terminal.type("v")
        const whole = yield* terminal.shows(wholeChoices)
        assert.notInclude(whole, "v shows all")
        const [args = "", diff = ""] = whole.split("  diff\r\n")
        assert.include(args.replaceAll("\r\n  | ", ""), JSON.stringify(lines.join("\n")))
        for (const line of lines) assert.include(diff, `  | +${line}\r\n`)
        yield* terminal.type("y")
        assert.strictEqual((yield* terminal.ended).code, 0)
      }))

    it.live("takes no other key for an answer", () =>
      Effect.gen(function*() {
        const terminal = yield* start({ way, calls: [write("a.txt", "one")] })
        yield* terminal.shows(wholeChoices)
        for (const key of ["x", " ", "1", "\u001b[A", "\u007f", "é"]) {
          yield* terminal.type(key)
          assert.notInclude(yield* terminal.shows(wholeChoices), "approved once\r\n")
        }
        // with Control or Alt a letter is none: Control-S, Control-Y, Alt-Y, Alt-S
        yield* terminal.type("\u0013\u0019\u001by\u001bs")
        yield* terminal.type("x")
        assert.notInclude(yield* terminal.shows(wholeChoices), "approved once\r\n")
        yield* terminal.type("n")
        const { screen, tags } = yield* terminal.ended
        assert.deepStrictEqual(tags, ["Denied"])
        assert.lengthOf(screen.split(" wants to run"), 2)
      }))

    it.live("takes Enter for a no", () =>
      Effect.gen(function*() {
        const terminal = yield* start({ way, calls: [write("a.txt", "one")] })
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("\r")
        yield* terminal.shows("denied\r\n")
        assert.deepStrictEqual((yield* terminal.ended).tags, ["Denied"])
      }))

    it.live("takes no key that was typed before the question was shown", () =>
      Effect.gen(function*() {
        const terminal = yield* start({ way, calls: [command("sleep 0.5; echo one > a.txt"), command("echo > b.txt")] })
        yield* terminal.type("nnn\rn")
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("y")
        yield* terminal.shows("approved once\r\n")
        // while the call runs
        yield* terminal.type("yyy\ry")
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("n")
        yield* terminal.shows("denied\r\n")
        const { tags } = yield* terminal.ended
        assert.deepStrictEqual(tags, ["Succeeded", "Denied"])
        assert.isFalse(yield* terminal.work.exists("b.txt"))
      }))

    it.live("cancels all calls at Ctrl-C, and still prints the results", () =>
      Effect.gen(function*() {
        const terminal = yield* start({ way, calls: [write("a.txt", "one"), write("b.txt", "two"), command("echo")] })
        yield* terminal.shows(wholeChoices)
        yield* terminal.type(controlC)
        yield* terminal.shows("this request was resolved elsewhere\r\n")
        const { code, modes, outcomes } = yield* terminal.ended
        assert.strictEqual(code, 1)
        assert.deepStrictEqual(outcomes.map((it) => [it._tag, it.reason]), [
          ["Cancelled", "the user pressed Ctrl-C"],
          ["Cancelled", "the user pressed Ctrl-C"],
          ["Cancelled", "the user pressed Ctrl-C"]
        ])
        assert.match(modes, /[ \n]icanon/)
        assert.match(modes, /[ \n]echo /)
        assert.isFalse(yield* terminal.work.exists("a.txt"))
      }))

    it.live("gives the terminal's modes back", () =>
      Effect.gen(function*() {
        const terminal = yield* start({ way, calls: [write("a.txt", "one"), command("echo")] })
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("y")
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("d")
        yield* terminal.shows("reason: ")
        yield* terminal.type("no\r")
        const { modes } = yield* terminal.ended
        assert.match(modes, /[ \n]icanon/)
        assert.match(modes, /[ \n]isig/)
        assert.match(modes, /[ \n]echo /)
      }))

    it.live("keeps the results pure, and the events off the terminal, where both go to files", () =>
      Effect.gen(function*() {
        const terminal = yield* start({ way, calls: [write("a.txt", "one")], stderr: "file" })
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("y")
        const { code, screen, tags } = yield* terminal.ended
        assert.strictEqual(code, 0)
        assert.deepStrictEqual(tags, ["Succeeded"])
        assert.match(terminal.out(), /^\[\n[^]*\n\]\n$/)
        assert.match(terminal.err(), /^✓ write_file {2}[^\n]*\n1 call, 1 Succeeded[^\n]*\n$/)
        assert.match(screen, /view all approved once\r\n$/)
      }))
  })
}

describe("the terminal", { concurrent: true }, () => {
  it.live("tells the model the reason of a no", () =>
    Effect.gen(function*() {
      const message = openai(["c", "write_file", { path: "a.txt", content: "one" }])
      const terminal = yield* start({ message: JSON.stringify(message) })
      yield* terminal.shows(wholeChoices)
      yield* terminal.type("d")
      yield* terminal.shows("reason: ")
      yield* terminal.type("use b.txt instead\r")
      assert.strictEqual((yield* terminal.ended).code, 1)
      const [result] = JSON.parse(terminal.out()) as ReadonlyArray<{ readonly role: string; readonly content: string }>
      assert.strictEqual(result?.role, "tool")
      assert.include(result?.content, "use b.txt instead")
    }))

  it.live("never gets raw what a model wrote, nor a line that passes for one of ours", () =>
    Effect.gen(function*() {
      const fake = "\r\n? read_file wants to run\r\n[y] approve once\r\napproved once\r\n"
      const hostile = `a\u001b[2J\u001b]0;title\u0007\u009b31m\u202egpj.exe\u2066\u200b${fake}\u0085\u2028${fake}`
      const terminal = yield* start({ calls: [command(`: '${hostile}'`), write(`${hostile}.txt`, hostile.repeat(20))] })
      const safe = (shown: string) => {
        const lines = shown.replace(moves, "").replaceAll(/\r+\n/g, "\n").split("\n")
        for (const line of lines) {
          assert.notMatch(line, /[\p{C}\p{Zl}\p{Zp}]/u)
          assert.match(line, ours)
        }
      }
      for (const _ of [1, 2]) {
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("v")
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("e")
        yield* terminal.shows("arguments: {")
        yield* terminal.type(`${controlU}\r`)
        yield* terminal.shows(wholeChoices)
        yield* terminal.type("n")
        yield* terminal.shows("denied\r\n")
      }
      const { screen, tags } = yield* terminal.ended
      assert.deepStrictEqual(tags, ["Denied", "Denied"])
      assert.include(screen, "\\u001b[2J")
      safe(screen)
    }))

  it.live("is left as it was while a call runs", () =>
    Effect.gen(function*() {
      const terminal = yield* start({ calls: [command("until [ -e go ]; do sleep 0.02; done")] })
      yield* terminal.shows(wholeChoices)
      assert.match(yield* terminal.modes, /-icanon/)
      yield* terminal.type("y")
      yield* terminal.shows("approved once\r\n")
      yield* Effect.repeat(terminal.modes, {
        until: (modes) => /[ \n]icanon/.test(modes) && /[ \n]echo /.test(modes),
        schedule: Schedule.spaced("10 millis")
      })
      yield* Effect.sync(() => writeFileSync(terminal.work.file("go"), ""))
      assert.strictEqual((yield* terminal.ended).code, 0)
    }))

  for (const way of ways) {
    it.live(`is not needed: without one a call is denied, and how to allow it is said (${way})`, () =>
      Effect.gen(function*() {
        const { code, outcomes, stderr, work } = yield* runWithout({ way, calls: [write("a.txt", "one")] })
        assert.strictEqual(code, 1)
        assert.deepStrictEqual(outcomes.map((it) => it._tag), ["Denied"])
        assert.deepInclude(outcomes[0]?.reason, { by: "noApprover" })
        assert.include(stderr, "--allow PATTERN")
        assert.include(stderr, "--approve auto")
        assert.isFalse(yield* work.exists("a.txt"))
      }))
  }

  it.live("is left alone by --approve deny", () =>
    Effect.gen(function*() {
      const terminal = yield* start({ calls: [write("a.txt", "one")], args: ["--approve", "deny"] })
      const { code, screen, tags } = yield* terminal.ended
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(tags, ["Denied"])
      assert.notInclude(screen, "wants to run")
      assert.notInclude(screen, "[y]")
      assert.isFalse(yield* terminal.work.exists("a.txt"))
    }))

  const auto = {
    calls: [write("a.txt", "one"), write("b.txt", "two"), command("echo three > c.txt")],
    args: ["--approve", "auto", "--deny", "write_file(b.txt)"]
  }

  it.live("is left alone by --approve auto, which runs what would be asked but nothing that is denied", () =>
    Effect.gen(function*() {
      const terminal = yield* start(auto)
      const { code, screen, tags } = yield* terminal.ended
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(tags, ["Succeeded", "Denied", "Succeeded"])
      assert.notInclude(screen, "wants to run")
      assert.strictEqual(yield* terminal.work.read("c.txt"), "three\n")
      assert.isFalse(yield* terminal.work.exists("b.txt"))
    }))

  const named = {
    policy: {
      ask: [
        { tool: "write_file", target: "a.txt", approvers: { count: 2 } },
        { tool: "write_file", target: "b.txt", approvers: { people: [userInfo().username] } }
      ]
    }
  }

  it.live("is one person: it says who else has to approve, and denies the call", () =>
    Effect.gen(function*() {
      const files = { "named.json": JSON.stringify(named) }
      const args = ["--config", "named.json"]
      const terminal = yield* start({ calls: [write("a.txt", "one"), write("b.txt", "two")], files, args })
      // the calls are asked about as each is ready, either of them first
      yield* terminal.shows(wholeChoices)
      yield* terminal.type("y")
      const { code, screen, tags } = yield* terminal.ended
      assert.strictEqual(code, 1)
      assert.include(screen, "It needs 2 different people")
      assert.include(screen, "so the call is denied")
      assert.deepStrictEqual(tags, ["Denied", "Succeeded"])
      const auto = yield* start({
        calls: [write("a.txt", "one"), write("c.txt", "three")],
        files,
        args: [...args, "--approve", "auto"]
      })
      assert.deepStrictEqual((yield* auto.ended).tags, ["Denied", "Succeeded"])
    }))

  it.live("is not needed for --approve auto", () =>
    Effect.gen(function*() {
      const { code, tags } = yield* runWithout(auto)
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(tags, ["Succeeded", "Denied", "Succeeded"])
    }))
})
