import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Policy from "../../src/core/gates/Policy.ts"
import type { Subject } from "../../src/core/gates/ToolPolicy.ts"
import * as PolicyQuestion from "../../src/policy/PolicyQuestion.ts"
import * as PolicyReplay from "../../src/policy/PolicyReplay.ts"
import type { Recorded } from "../../src/policy/RecordedCalls.ts"
import * as Suggestions from "../../src/policy/Suggestions.ts"
import { randomFrom } from "../../src/testing/SeededRandom.ts"
import * as WiderTargets from "../../src/tools/workspace/WiderTargets.ts"
import * as Random from "../support/randomPolicies.ts"
import { seeds } from "../support/seeds.ts"

const recorded = (tool: string, target: string, more: Partial<Recorded> = {}): Recorded => ({
  at: 0,
  callId: "1",
  principal: "ada",
  tool,
  class: "SerialMut",
  args: { _tag: "None" },
  targets: [target],
  happened: "ask",
  why: "the tool changes things",
  answer: "approved",
  person: "ben",
  sandbox: "none",
  isGuarded: false,
  ...more
})

const times = (count: number, call: Recorded) => Array.from({ length: count }, () => call)

const subject: Subject = {
  name: "write_file",
  readOnly: false,
  openWorld: false,
  edits: true,
  guardsTargets: true,
  declaresTargets: true
}

const known: PolicyReplay.Known = {
  tool: (name) =>
    name === "write_file" || name === "run_command"
      ? { subject: { ...subject, name }, kinds: [undefined, "protected"], isSpelled: false }
      : undefined,
  targets: ({ targets, tool }) =>
    tool === "write_file"
      ? targets?.map((text) =>
        text.startsWith(".git") ? { text, kind: "protected" } : { text, wider: WiderTargets.folders(text) }
      )
      : tool === "run_command"
      ? targets?.map((text) => ({ text }))
      : undefined
}

const suggest = (calls: ReadonlyArray<Recorded>, policy: Policy.Policy = {}) =>
  Suggestions.suggest([{ name: "", policy }], calls, known)

const rules = (...given: Parameters<typeof suggest>) => suggest(...given).map(({ rule }) => rule)

describe("suggestions", () => {
  const paths = ["src/a.ts", "src/b.ts", "src/deep/c.ts"]

  it("propose the rule that people's approvals speak for, with who gave them", () => {
    const [only, ...others] = suggest(times(41, recorded("run_command", "npm test")))
    assert.deepStrictEqual(others, [])
    assert.deepInclude(only, { rule: "run_command(npm test)", approvals: 41, people: ["ben"], others: [] })
    assert.deepStrictEqual(only?.beyond.map(({ example }) => example.targets), [[{ text: "npm test" }]])
  })

  it("propose a folder only if enough different files speak for it, and say what else it lets run", () => {
    const approved = paths.map((it) => recorded("write_file", it))
    assert.deepStrictEqual(rules(approved), ["write_file(src/*)"])
    assert.deepStrictEqual(rules(times(5, approved[0]!)), ["write_file(src/a.ts)"])
    const [wide] = suggest([...approved, recorded("write_file", "src/late.ts", { answer: "other" })])
    assert.deepStrictEqual(wide?.others, [{ tool: "write_file", targets: ["src/late.ts"], count: 1 }])
  })

  it("propose nothing that would have let run what a person denied", { tags: ["PA3"] }, () => {
    const calls = [
      ...paths.map((it) => recorded("write_file", it)),
      recorded("write_file", "src/secret.ts", { answer: "denied" })
    ]
    assert.deepStrictEqual(rules(calls), [])
    assert.deepStrictEqual(rules([...times(3, calls[0]!), ...calls]), ["write_file(src/a.ts)"])
    assert.deepStrictEqual(
      rules([...times(3, calls[0]!), recorded("write_file", "src/a.ts", { answer: "denied" })]),
      []
    )
  })

  it("propose nothing for calls that are guarded, protected, approved by grants, or wanted approved by their tool", {
    tags: ["PA3"]
  }, () => {
    for (
      const more of [
        { isGuarded: true },
        { why: "the tool needs approval" },
        { answer: "grant" },
        { answer: "reviewer" },
        { answer: "other" },
        { targets: ["a", "b"] },
        { targets: ["src/*"] },
        { targets: undefined }
      ] satisfies ReadonlyArray<Partial<Recorded>>
    ) assert.deepStrictEqual(rules(times(9, recorded("write_file", "src/a.ts", more))), [], JSON.stringify(more))
    assert.deepStrictEqual(rules(times(9, recorded("write_file", ".git/hooks/a"))), [])
  })

  it("propose nothing that the policy would not follow, or lets run already", () => {
    const calls = times(9, recorded("run_command", "npm test"))
    assert.deepStrictEqual(rules(calls, { ask: ["run_command"] }), [])
    assert.deepStrictEqual(rules(calls, { askAlways: ["*(npm*)"] }), [])
    assert.deepStrictEqual(rules(calls, { deny: [{ tool: "run_command", when: { command: { like: "*" } } }] }), [])
    assert.deepStrictEqual(rules(calls, { allow: ["run_command(npm *)"] }), [])
    const locked = [{ name: "organisation", policy: { lock: true } }, { name: "project", policy: {} }]
    assert.deepStrictEqual(Suggestions.suggest(locked, calls, known), [])
  })
})

describe("records of which a secret was taken out", () => {
  const redacted = "curl -H 'Authorization: [redacted]' https://example.net"

  it("are undecidable, whether it is missing in an argument or a target", { tags: ["PA2"] }, () => {
    const policy = Result.getOrThrow(Policy.parse({ deny: ["run_command(*secret*)"], allow: ["run_command"] }))
    const replay = (call: Recorded) => PolicyReplay.replay(policy, [call], known)[0]
    assert.deepInclude(replay(recorded("run_command", redacted)), {
      would: "undecidable",
      missing: "a secret was taken out of its arguments or targets"
    })
    const args = { _tag: "Full", value: { env: [{ token: "[redacted]" }] } } as const
    assert.strictEqual(replay(recorded("run_command", "curl", { args }))?.would, "undecidable")
    assert.strictEqual(replay(recorded("run_command", "curl"))?.would, "allow")
  })

  it("speak for no rule, and one that a person denied speaks against every rule of its tool", { tags: ["PA3"] }, () => {
    assert.deepStrictEqual(rules(times(9, recorded("run_command", redacted))), [])
    const approved = times(3, recorded("run_command", "npm test"))
    const denied = (target: string) => recorded("run_command", target, { answer: "denied" })
    assert.deepStrictEqual(rules([...approved, denied("[redacted]")]), [])
    assert.deepStrictEqual(rules([...approved, denied("npm run deploy")]), ["run_command(npm test)"])
  })
})

describe("a replay", () => {
  it("decides as the policy does, or says that it cannot", { tags: ["PA2"] }, () => {
    let decided = 0
    for (const seed of seeds(500)) {
      const random = randomFrom(seed)
      const policy = Result.getOrThrow(Policy.parseTiers(Random.tiers(random)))
      const tool = Random.tool(random)
      const { args, needsApproval, roles, targets } = Random.call(random, tool)
      const isKnown = random.chance(0.5)
      const network = random.pick(["none", "listed"] as const)
      const sandbox = random.chance(0.5)
        ? undefined
        : { _tag: "Confined" as const, driver: "box", network, holds: [], missing: [] }
      const call: Recorded = {
        ...recorded(tool.name, ""),
        args: random.chance(0.7) ? { _tag: "Full", value: args } : { _tag: "Hash", hash: "x" },
        class: tool.readOnly ? "ReadOnly" : "SerialMut",
        why: undefined,
        // it may not be on record
        sandbox: random.chance(0.3) ? undefined : sandbox ?? "none",
        targets: targets?.map(({ text }) => text)
      }
      const plain = targets?.map(({ text }) => ({ text }))
      const [only] = PolicyReplay.replay(policy, [call], {
        tool: () => isKnown ? { subject: tool } : undefined,
        targets: () => isKnown && plain !== undefined && plain.length > 0 ? plain : undefined
      })
      if (only?.would === "undecidable") continue
      decided++
      const isEmpty = plain === undefined || plain.length === 0
      const { decision } = PolicyQuestion.judge(policy)({
        tool: isKnown ? tool : { ...tool, actsAs: [], guardsTargets: false },
        args,
        needsApproval,
        roles,
        sandbox,
        targets: isEmpty ? undefined : plain
      })
      assert.strictEqual(only?.would, decision._tag.toLowerCase(), `seed ${seed}`)
    }
    assert.isAbove(decided, 10)
  })

  it("knows how a call was confined, or says that it does not", () => {
    const policy = Result.getOrThrow(Policy.parse({ sandboxed: "allow" }))
    const confined = { _tag: "Confined", driver: "box", network: "none", holds: [], missing: [] } as const
    const would = (sandbox: Recorded["sandbox"]) =>
      PolicyReplay.replay(policy, [{ ...recorded("run_command", "npm test"), sandbox }], known)[0]?.would
    assert.strictEqual(would(confined), "allow")
    assert.strictEqual(would({ ...confined, network: "listed" }), "ask")
    assert.strictEqual(would("none"), "ask")
    assert.strictEqual(would(undefined), "undecidable")
  })

  it("guesses no arguments that were not kept", { tags: ["PA2"] }, () => {
    const policy = Result.getOrThrow(
      Policy.parse({ deny: [{ tool: "run_command", when: { command: { like: "rm *" } } }] })
    )
    const replay = (args: Recorded["args"]) =>
      PolicyReplay.replay(policy, [{ ...recorded("run_command", "rm x"), args }], known)[0]
    assert.strictEqual(replay({ _tag: "Full", value: { command: "rm x" } })?.would, "deny")
    assert.strictEqual(replay({ _tag: "Full", value: { command: "ls" } })?.would, "ask")
    assert.deepInclude(replay({ _tag: "None" }), {
      would: "undecidable",
      missing: "its arguments are not on record"
    })
  })
})
