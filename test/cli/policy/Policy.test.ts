import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { folder, openai, run } from "../harness.ts"

const policy = {
  allow: ["run_command(npm test*)", "write_file(src/*)"],
  ask: [{ tool: "refund", when: { amount: { gt: 100 } } }],
  deny: ["*(*.env*)"]
}

describe("tool-executor policy explain", () => {
  it.live("prints each step up to the one that decides, and the clause", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({ "policy.json": policy })
      const { code, stdout } = yield* run(
        ["policy", "explain", "run_command(npm test)", "--policy", file("policy.json"), "--root", root]
      )
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(stdout.trimEnd().split("\n"), [
        "run_command(npm test)",
        "  1. deny          –  no clause denies it",
        "  2. mode          –  no mode denies it",
        "  3. ask           –  no clause asks about it",
        "  4. needsApproval –  the tool needs no approval for it",
        "  5. allow         allow  the policy allows it  ← allow[0]",
        "The call runs."
      ])
    }), { tags: ["PA4"] })

  it.live("computes the targets of its own tools: spellings, protected files, links", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({ "policy.json": policy })
      const explain = (call: string) =>
        Effect.map(
          run(["policy", "explain", call, "--policy", file("policy.json"), "--root", root]),
          ({ stdout }) => stdout.trimEnd().split("\n").slice(-2)
        )
      assert.deepStrictEqual(yield* explain("run_command(sh -c 'cat .env')"), [
        "  1. deny          deny  deny *(*.env*)  ← deny[0]",
        "The call is denied."
      ])
      assert.deepStrictEqual(yield* explain("write_file(.git/config)"), [
        "  4. protected     ask  \".git/config\" is protected",
        "The call needs approval."
      ])
      // the policy itself is protected
      assert.deepStrictEqual(yield* explain("write_file(policy.json)"), [
        "  4. protected     ask  \"policy.json\" is protected",
        "The call needs approval."
      ])
      assert.strictEqual((yield* explain("write_file(src/../src/a.ts)"))[1], "The call runs.")
    }))

  it.live("says which conditions never hold, as policy test does", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({
        "policy.json": { deny: [{ tool: "write_file", when: { pth: ".env" } }] },
        "cases.json": { cases: [] }
      })
      for (const args of [["explain", "write_file(a)"], ["test", file("cases.json")]]) {
        const { code, stderr } = yield* run(["policy", ...args, "--policy", file("policy.json"), "--root", root])
        assert.strictEqual(code, 0)
        assert.include(
          stderr,
          "The condition deny[0].when.pth never holds: the tool write_file takes no such argument, expected one of path"
        )
      }
    }))

  it.live("decides every nature that an unknown tool may have, and conditions on arguments", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({ "policy.json": policy })
      const explain = (call: unknown) =>
        run(["policy", "explain", JSON.stringify(call), "--policy", file("policy.json"), "--json"])
      const large = yield* explain({ tool: "refund", args: { amount: 300 } })
      assert.deepStrictEqual(
        (JSON.parse(large.stdout) as ReadonlyArray<{ outcome: string }>).map((it) => it.outcome),
        ["ask", "ask", "ask", "ask", "ask"]
      )
      const small = yield* run(
        ["policy", "explain", "{\"tool\":\"refund\",\"args\":{\"amount\":3}}", "--policy", file("policy.json")]
      )
      assert.include(small.stdout, "If refund only reads:\n")
      assert.include(small.stdout, "The call runs.")
      assert.include(
        small.stdout,
        "If refund changes things, or changes things and reaches outside, or only edits files:"
      )
      const known = yield* explain({ tool: "refund", args: { amount: 3 }, readOnly: true, openWorld: false })
      assert.strictEqual((JSON.parse(known.stdout) as ReadonlyArray<unknown>).length, 1)
    }))

  it.live("merges the tiers of several files, and names them", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "organisation.json": { policy: { askAlways: ["deploy"], lock: true } },
        "project.json": { allow: ["deploy", "run_command"] }
      })
      const tiers = ["--policy", file("organisation.json"), "--policy", file("project.json")]
      const deploy = yield* run(["policy", "explain", "deploy", ...tiers])
      assert.include(deploy.stdout, "← organisation askAlways[0]\n")
      assert.include(deploy.stdout, "The call needs approval each time.")
      const command = yield* run(["policy", "explain", "run_command(npm test)", ...tiers])
      assert.include(
        command.stdout,
        "Not in effect: project allow[1] run_command, because the policy of organisation is locked.\n" +
          "The call needs approval."
      )
    }))

  it.live("takes roles for unknown and a command for unconfined, unless the call says so", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "policy.json": { deny: [{ tool: "read_file", roles: ["guest"] }], sandboxed: "allow" }
      })
      const explain = (call: unknown) =>
        Effect.map(
          run(["policy", "explain", JSON.stringify(call), "--policy", file("policy.json")]),
          ({ stdout }) => stdout.trimEnd().split("\n").at(-1)
        )
      const read = { tool: "read_file", args: { path: "a" } }
      assert.strictEqual(yield* explain(read), "The call is denied.")
      assert.strictEqual(yield* explain({ ...read, roles: [] }), "The call runs.")
      const command = { tool: "run_command", args: { command: "npm test" } }
      assert.strictEqual(yield* explain(command), "The call needs approval.")
      assert.strictEqual(yield* explain({ ...command, sandbox: "none" }), "The call runs.")
      assert.strictEqual(yield* explain({ ...command, sandbox: "open" }), "The call needs approval.")
      // the sandbox of a config is not looked at, so the output names what it would change
      const unsaid = yield* run(["policy", "explain", "run_command(npm test)", "--policy", file("policy.json")])
      const hint = "In a sandbox without network, the call runs."
      assert.include(unsaid.stdout, hint)
      const write = yield* run(["policy", "explain", "write_file(a)", "--policy", file("policy.json")])
      assert.notInclude(write.stdout, hint)
    }))

  it.live("ends with 2 and every mistake where a policy or a call is wrong", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "policy.json": { alow: [], deny: ["x("] },
        "config.json": { policy: { alow: [] } },
        "good.json": {}
      })
      const wrong = yield* run(["policy", "explain", "x", "--policy", file("policy.json")])
      assert.strictEqual(wrong.code, 2)
      assert.include(wrong.stderr, "alow: this key is unknown")
      const config = yield* run(["policy", "explain", "x", "--config", file("config.json")])
      assert.include(config.stderr, "  policy.alow: this key is unknown")
      for (const call of ["x(", "{", "{\"tool\":\"\"}", "{\"tool\":\"x\",\"argz\":1}"]) {
        assert.strictEqual((yield* run(["policy", "explain", call, "--policy", file("good.json")])).code, 2, call)
      }
    }))
})

describe("tool-executor policy diff", () => {
  const files = {
    "old.json": policy,
    "new.json": { ...policy, allow: ["run_command(npm *)", "write_file(src/*)"], askAlways: ["run_command(git push*)"] }
  }
  const inFolder = ({ stdout }: { readonly stdout: string }, root: string) =>
    stdout.trimEnd().replaceAll(`${root}/`, "").split("\n")

  it.live("lists what is decided differently, the looser first, with examples and clauses", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder(files)
      const ran = yield* run(["policy", "diff", file("old.json"), file("new.json")])
      assert.strictEqual(ran.code, 1)
      assert.deepStrictEqual(inFolder(ran, root), [
        "Under new.json it runs; under old.json it needs approval:",
        "  run_command(npm example)",
        "    old.json: default: the tool changes things",
        "    new.json: allow[0] run_command(npm *)",
        "",
        "Under new.json it needs approval each time; under old.json it runs:",
        "  run_command(npm test)  [also written git push]",
        "    old.json: allow[0] run_command(npm test*)",
        "    new.json: askAlways[0] run_command(git push*)",
        "",
        "Under new.json it needs approval each time; under old.json it needs approval:",
        "  run_command(git push)",
        "    old.json: default: the tool changes things",
        "    new.json: askAlways[0] run_command(git push*)",
        "  run_command(git push)  [a host that a running call wants to reach]",
        "    old.json: protected: \"git push\" is a host that no pattern names",
        "    new.json: askAlways[0] run_command(git push*)"
      ])
      const looser = yield* run(["policy", "diff", file("old.json"), file("new.json"), "--only", "looser", "--json"])
      assert.strictEqual(looser.code, 1)
      const { differences } = JSON.parse(looser.stdout) as {
        readonly differences: ReadonlyArray<{ readonly tool: string; readonly to: { readonly outcome: string } }>
      }
      assert.deepStrictEqual(differences.map(({ to, tool }) => [tool, to.outcome]), [["run_command", "allow"]])
    }))

  it.live("ends with 0 where nothing differs, however it is written", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "one.json": { allow: ["run_command(npm *)", "run_command(npm test)"] },
        "other.json": { policy: { default: "cautious", allow: ["run_command(npm*)", "run_command(npm *)"] } },
        "same.json": { allow: ["run_command(npm *)"] }
      })
      const same = yield* run(["policy", "diff", file("one.json"), file("same.json")])
      assert.deepStrictEqual([same.code, same.stdout], [0, "No call is decided differently.\n"])
      assert.strictEqual((yield* run(["policy", "diff", file("one.json"), file("other.json")])).code, 1)
    }))
})

describe("tool-executor policy test", () => {
  it.live("ends with 0 where all cases hold", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "policy.json": policy,
        "cases.json": {
          cases: [
            { call: "run_command(npm test)", expect: "allow" },
            { call: "read_file(.env)", expect: "deny" },
            { call: { tool: "refund", args: { amount: 101 } }, expect: "ask" }
          ]
        }
      })
      const { code, stdout } = yield* run(["policy", "test", file("cases.json"), "--policy", file("policy.json")])
      assert.strictEqual(code, 0)
      assert.strictEqual(stdout, "3 cases, 0 failed\n")
    }))

  it.live("ends with 1 and prints what differs", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "policy.json": { allow: [{ tool: "run_command", roles: ["ops"] }] },
        "cases.json": {
          cases: [
            { name: "everybody deploys", call: "run_command(make deploy)", expect: "allow" },
            { call: "run_command(make deploy)", roles: ["ops"], expect: "allow" },
            // only one of the natures that this tool may have is decided otherwise
            { call: { tool: "refund", args: { amount: 3 } }, expect: "ask" }
          ]
        }
      })
      const { code, stdout } = yield* run(["policy", "test", file("cases.json"), "--policy", file("policy.json")])
      assert.strictEqual(code, 1)
      assert.strictEqual(
        stdout,
        "everybody deploys\n- allow\n+ ask  run_command(make deploy): default: the tool changes things\n\n" +
          "{\"tool\":\"refund\",\"args\":{\"amount\":3}}\n- ask\n" +
          "+ allow  refund  [arguments {\"amount\":3}]: default: allowed (if it only reads)\n\n3 cases, 2 failed\n"
      )
    }))
})

/** A folder in which a model's calls were approved and recorded, in so many runs. */
const approved = Effect.fnUntraced(function*(runs: number) {
  const outer = yield* folder({
    "message.json": openai(
      ["1", "run_command", { command: "echo done" }],
      ["2", "read_file", { path: "a.txt" }]
    ),
    "new.json": { allow: ["run_command(echo *)"], deny: ["read_file"], default: "ask" }
  })
  const { root } = yield* folder({ "a.txt": "a" })
  const journal = outer.file("journal.ndjson")
  for (let index = 0; index < runs; index++) {
    const ran = yield* run([
      "run",
      outer.file("message.json"),
      "--root",
      root,
      "--journal",
      journal,
      "--approve",
      "auto",
      "--checkpoints",
      "none"
    ])
    assert.strictEqual(ran.code, 0, ran.stderr)
  }
  return { ...outer, journal, root }
})

describe("tool-executor policy replay", () => {
  it.live("decides what is on record by another policy, and counts what differs", () =>
    Effect.gen(function*() {
      const { file, journal, root } = yield* approved(2)
      const ran = yield* run(["policy", "replay", journal, "--policy", file("new.json"), "--root", root])
      assert.strictEqual(ran.code, 0, ran.stderr)
      assert.deepStrictEqual(ran.stdout.trimEnd().split("\n"), [
        "tool         calls  would run  approval  denied  undecidable",
        "run_command      2          2         0       0            0",
        "read_file        2          0         0       2            0",
        "",
        "Decided differently:",
        "  2 × run_command(echo done): approval was requested, it would have run",
        "    allow[0] run_command(echo *)",
        "  2 × read_file(a.txt): it ran, it would have been denied",
        "    deny[0] read_file"
      ])
      const asData = yield* run(["policy", "replay", journal, "--policy", file("new.json"), "--root", root, "--json"])
      assert.deepInclude(JSON.parse(asData.stdout), { calls: 4, undecidable: [] })
    }))
})

describe("tool-executor policy suggest", () => {
  it.live("proposes rules for what was approved again and again", () =>
    Effect.gen(function*() {
      const { journal, root } = yield* approved(3)
      const ran = yield* run(["policy", "suggest", journal, "--root", root])
      assert.strictEqual(ran.code, 0, ran.stderr)
      assert.include(
        ran.stdout,
        "3 approvals in 14 days, none denied. Add this rule?\n  \"allow\": [\"run_command(echo done)\"]"
      )
      const asData = yield* run(["policy", "suggest", journal, "--root", root, "--json"])
      assert.deepStrictEqual(
        (JSON.parse(asData.stdout) as ReadonlyArray<{ readonly policy: unknown }>).map((it) => it.policy),
        [{ allow: ["run_command(echo done)"] }]
      )
      const few = yield* run(["policy", "suggest", journal, "--root", root, "--approvals", "4"])
      assert.strictEqual(few.stdout, "No rule has enough approvals to speak for it.\n")
    }))
})
