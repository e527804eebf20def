import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { folder, run } from "./harness.ts"

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
    }))

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
      assert.include(deploy.stdout, "← organisation askAlways[0]\nThe call needs approval each time.")
      const command = yield* run(["policy", "explain", "run_command(npm test)", ...tiers])
      assert.include(command.stdout, "The call needs approval.")
    }))

  it.live("ends with 2 and every mistake where a policy or a call is wrong", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({ "policy.json": { alow: [], deny: ["x("] }, "good.json": {} })
      const wrong = yield* run(["policy", "explain", "x", "--policy", file("policy.json")])
      assert.strictEqual(wrong.code, 2)
      assert.include(wrong.stderr, "alow: this key is unknown")
      for (const call of ["x(", "{", "{\"tool\":\"\"}", "{\"tool\":\"x\",\"argz\":1}"]) {
        assert.strictEqual((yield* run(["policy", "explain", call, "--policy", file("good.json")])).code, 2, call)
      }
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
            { call: "run_command(make deploy)", roles: ["ops"], expect: "allow" }
          ]
        }
      })
      const { code, stdout } = yield* run(["policy", "test", file("cases.json"), "--policy", file("policy.json")])
      assert.strictEqual(code, 1)
      assert.strictEqual(
        stdout,
        "everybody deploys\n- allow\n+ ask  run_command(make deploy): default: the tool changes things\n\n2 cases, 1 failed\n"
      )
    }))
})
