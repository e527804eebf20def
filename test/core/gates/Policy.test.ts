import { assert, describe, it } from "@effect/vitest"
import type * as Tool from "effect/ai/Tool"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as PermissionPattern from "../../../src/core/gates/PermissionPattern.ts"
import * as Policy from "../../../src/core/gates/Policy.ts"
import * as ToolPolicy from "../../../src/core/gates/ToolPolicy.ts"
import { LayerConfig, Permissions, ToolAnnotations, type ToolHandlers } from "../../../src/index.ts"
import { plainWords } from "../../../src/internal/plainWords.ts"
import { matches } from "../../../src/internal/wildcard.ts"
import { calls, run, tags, type ToolSpec } from "../../support/Harness.ts"

const tool = (name: string, more: Partial<ToolHandlers.RegisteredTool> = {}) =>
  ({
    name,
    class: "SerialMut",
    openWorld: false,
    edits: false,
    guardsTargets: false,
    readOnly: more?.class === "ReadOnly",
    ...more
  }) as ToolHandlers.RegisteredTool

const parsed = (policy: Policy.Policy) => Result.getOrThrow(Policy.parse(policy))

const decide = (policy: Policy.Policy, it: ToolHandlers.RegisteredTool, targets?: ReadonlyArray<string>) =>
  ToolPolicy.forTool(parsed(policy), { ...it, guardsTargets: true }).decide({
    targets: targets?.map((text) => ({ text })),
    needsApproval: it.needsApproval === true
  })._tag

describe("a wildcard", () => {
  /** The meaning of a pattern, spelt out. */
  const means = (pattern: string, text: string): boolean => {
    const [first, ...rest] = Array.from(pattern)
    const chars = Array.from(text)
    if (first === undefined) return text === ""
    if (first === "*") {
      return means(rest.join(""), text) || (chars.length > 0 && means(pattern, chars.slice(1).join("")))
    }
    return chars.length > 0 && (first === "?" || first === chars[0]) && means(rest.join(""), chars.slice(1).join(""))
  }
  const letters = Schema.Literals(["a", "b", "*", "?", "/", "\n", "🙂", "."])
  const short = Schema.Array(letters).check(Schema.isMaxLength(7))

  it.prop(
    "means what it says",
    [short, short],
    ([pattern, text]) => {
      assert.strictEqual(matches(pattern.join(""), text.join("")), means(pattern.join(""), text.join("")))
    },
    { arbitrary: { runs: 1_000 } }
  )

  it("takes no time that grows with a power of the text", () => {
    assert.isFalse(matches(`${"*a".repeat(50)}b`, "a".repeat(20_000)))
  })
})

describe("a command line", () => {
  it("is plain if it means the same to everybody", { tags: ["P4"] }, () => {
    for (const line of ["git status", "npm run test:unit", "./build.sh -j 4 --out=dist/a_b", "a.b-c", "cat x@1,2+3%"]) {
      assert.strictEqual(plainWords(line)?.join(" "), line)
    }
  })

  it("is not plain with anything that a shell reads, however it is hidden", () => {
    const hostile = [
      "",
      " ls",
      "ls ",
      "ls  -l",
      "ls\trm",
      "git status; rm -rf /",
      "git status && rm x",
      "git status & rm x",
      "git status | sh",
      "git status\nrm x",
      "git status\r\nrm x",
      "git status $(rm x)",
      "git status `rm x`",
      "git status > /etc/passwd",
      "git status < x",
      "git log $HOME",
      "git log ${IFS}x",
      "FOO=bar git status",
      "PATH=/evil git",
      "git status #",
      "git 'status'",
      "git \"status\"",
      "git st\\atus",
      "git status *",
      "git status ?",
      "git status [a-z]",
      "git status {a,b}",
      "~/x",
      "git ~root",
      "!git",
      "git !!",
      "(git status)",
      "git\u00a0status",
      "git\u2028status",
      "gіt status",
      "git status\u202e",
      "git\u0000status",
      "git status\u0007",
      "git\u200bstatus",
      "git st\u0430tus"
    ]
    for (const line of hostile) assert.isUndefined(plainWords(line), JSON.stringify(line))
  })
})

describe("a pattern", () => {
  it("is a tool, or a tool and a target", () => {
    assert.deepInclude(PermissionPattern.parseUnsafe("run(git status*)"), { tool: "run", target: "git status*" })
    assert.deepInclude(PermissionPattern.parseUnsafe("mcp_*"), { tool: "mcp_*", target: undefined })
    assert.deepInclude(PermissionPattern.parseUnsafe("run(a (b) c)"), { tool: "run", target: "a (b) c" })
  })

  it("is nothing else, and says why", () => {
    for (const wrong of ["", "(x)", "run(", "run()", "run(x", "run(x) y", "run x", "run)"]) {
      assert.isTrue(Result.isFailure(PermissionPattern.parse(wrong)), wrong)
    }
    assert.throws(() => PermissionPattern.parseUnsafe("run()"), RangeError, "between ( and )")
  })
})

describe("a policy", () => {
  it("denies if one target fits, and allows only if all are covered", { tags: ["P1"] }, () => {
    const policy = { default: "ask", deny: ["w(.env*)"], allow: ["w(src/*)", "w(docs/*)"] } as const
    assert.strictEqual(decide(policy, tool("w"), ["src/a", "docs/b"]), "Allow")
    assert.strictEqual(decide(policy, tool("w"), ["src/a", "package.json"]), "Ask")
    assert.strictEqual(decide(policy, tool("w"), ["src/a", ".env"]), "Deny")
    assert.strictEqual(decide(policy, tool("w"), []), "Ask")
    assert.strictEqual(decide(policy, tool("other"), ["src/a"]), "Ask")
  })

  it("takes a call whose targets are not known for one that may be about anything", () => {
    assert.strictEqual(decide({ default: "allow", deny: ["w(.env)"] }, tool("w")), "Deny")
    assert.strictEqual(decide({ default: "allow", ask: ["w(.env)"] }, tool("w")), "Ask")
    assert.strictEqual(decide({ default: "ask", allow: ["w(*)"] }, tool("w")), "Ask")
    // what may be protected nothing allows
    for (const policy of [{ allow: ["w"] }, { default: "allow" }, { mode: "acceptEdits" }] as const) {
      assert.strictEqual(decide(policy, tool("w", { edits: true })), "Ask")
    }
    assert.strictEqual(decide({ default: "readOnly" }, tool("w")), "Deny")
    assert.strictEqual(decide({ allow: ["w"], default: "deny" }, tool("w")), "Deny")
    // a tool that has no such targets
    assert.strictEqual(
      ToolPolicy.forTool(parsed({ allow: ["w"] }), tool("w")).decide({ targets: undefined, needsApproval: false })._tag,
      "Allow"
    )
  })

  it("decides in the order deny, mode, ask, the tool's needsApproval, allow, default", { tags: ["P1"] }, () => {
    const w = tool("w", { needsApproval: true })
    assert.strictEqual(decide({ deny: ["w"], ask: ["w"], allow: ["w"] }, w, []), "Deny")
    assert.strictEqual(decide({ mode: "readOnly", ask: ["w"], allow: ["w"] }, w, []), "Deny")
    assert.strictEqual(decide({ ask: ["w"], allow: ["w"], default: "deny" }, w, []), "Ask")
    assert.strictEqual(decide({ allow: ["w"] }, w, []), "Ask")
    assert.strictEqual(decide({ allow: ["w"], default: "deny" }, w, []), "Ask")
    assert.strictEqual(decide({ allow: ["w"], default: "deny" }, tool("w"), []), "Allow")
    assert.strictEqual(decide({ default: "allow" }, w, []), "Ask")
    assert.strictEqual(decide({ default: "allow" }, tool("w"), []), "Allow")
    assert.strictEqual(decide({ default: "ask" }, tool("w"), []), "Ask")
    assert.strictEqual(decide({}, tool("w"), []), "Ask")
    assert.strictEqual(decide({}, tool("w", { class: "ReadOnly", openWorld: true }), []), "Ask")
    assert.strictEqual(decide({ default: "readOnly" }, tool("w"), []), "Deny")
    assert.strictEqual(decide({ default: "deny" }, w, []), "Deny")
    assert.strictEqual(decide({}, tool("w", { class: "ReadOnly" }), []), "Allow")
  })

  it("keeps a tool's own needsApproval unless skipApproval names the tool", { tags: ["P1"] }, () => {
    const w = tool("w", { needsApproval: true, edits: true })
    const all: ReadonlyArray<Policy.Policy> = [
      { allow: ["w"] },
      { allow: ["w(x)"] },
      { allow: ["*"] },
      { default: "allow" },
      { mode: "acceptEdits" },
      { allow: ["w"], default: "deny" },
      { allow: ["w"], default: "readOnly" }
    ]
    for (const policy of all) {
      assert.strictEqual(decide(policy, w, ["x"]), "Ask")
      assert.strictEqual(decide({ ...policy, skipApproval: ["other"] }, w, ["x"]), "Ask")
      assert.strictEqual(decide({ ...policy, skipApproval: ["w"] }, w, ["x"]), "Allow")
      assert.strictEqual(decide({ ...policy, skipApproval: ["w"], ask: ["w"] }, w, ["x"]), "Ask")
      assert.strictEqual(decide({ ...policy, skipApproval: ["w"], deny: ["w(x)"] }, w, ["x"]), "Deny")
    }
    // it allows nothing by itself
    assert.strictEqual(decide({ skipApproval: ["w"] }, tool("w", { needsApproval: true }), ["x"]), "Ask")
    assert.strictEqual(decide({ skipApproval: ["w"], default: "deny" }, w, ["x"]), "Deny")
  })

  it("takes exact names of tools for skipApproval", () => {
    for (const name of ["*", "w*", "w(x)", "?"]) {
      assert.deepStrictEqual(
        Policy.parse({ skipApproval: ["w", name] }, ["w"]),
        Result.fail([{
          path: "skipApproval[1]",
          problem: `${JSON.stringify(name)}: a tool's own condition is skipped by its exact name`,
          expected: "the name of one tool"
        }])
      )
    }
    assert.deepStrictEqual(
      Policy.parse({ skipApproval: ["v"] }, ["w"]),
      Result.fail([{
        path: "skipApproval[0]",
        problem: "\"v\": there is no such tool",
        expected: "one of w"
      }])
    )
  })

  it("has modes", () => {
    const read = tool("r", { class: "ReadOnly" })
    const far = tool("f", { class: "ReadOnly", openWorld: true })
    const edit = tool("e", { edits: true })
    const all = { allow: ["*"] }
    const answers = (mode: Policy.Policy["mode"]) => [read, far, edit].map((it) => decide({ ...all, mode }, it, ["x"]))
    assert.deepStrictEqual(answers("ask"), ["Allow", "Allow", "Allow"])
    assert.deepStrictEqual(answers("readOnly"), ["Allow", "Allow", "Deny"])
    assert.deepStrictEqual(answers("plan"), ["Allow", "Allow", "Deny"])
    assert.deepStrictEqual(answers("offline"), ["Allow", "Deny", "Allow"])
    assert.deepStrictEqual(answers("denyAll"), ["Deny", "Deny", "Deny"])
    assert.strictEqual(decide({ mode: "acceptEdits" }, edit, ["x"]), "Allow")
    assert.strictEqual(decide({ mode: "acceptEdits", default: "ask" }, tool("w"), ["x"]), "Ask")
    assert.strictEqual(decide({ mode: "acceptEdits", ask: ["e"] }, edit, ["x"]), "Ask")
    assert.strictEqual(decide({ mode: "acceptEdits", default: "deny" }, edit, ["x"]), "Deny")
  })

  it("never lets go without asking what is protected", { tags: ["P3"] }, () => {
    for (
      const policy of [{ allow: ["*"] }, { allow: ["w(*)"] }, { default: "allow" }, { mode: "acceptEdits" }] as const
    ) {
      const decision = ToolPolicy.forTool(parsed(policy), tool("w", { guardsTargets: true, edits: true })).decide({
        targets: [{ text: "src/a" }, { text: ".git/config", kind: "protected" }],
        needsApproval: false
      })
      assert.strictEqual(decision._tag, "Ask", JSON.stringify(policy))
    }
  })

  it("denies what is protected where it would deny it anyway", () => {
    const decide = (policy: Policy.Policy) =>
      ToolPolicy.forTool(parsed(policy), tool("w", { guardsTargets: true })).decide({
        targets: [{ text: ".git/config", kind: "protected" }],
        needsApproval: false
      })._tag
    assert.strictEqual(decide({ default: "readOnly" }), "Deny")
    assert.strictEqual(decide({ default: "readOnly", allow: ["w(src/*)"] }), "Deny")
    assert.strictEqual(decide({ default: "readOnly", allow: ["w(.git/*)"] }), "Ask")
  })

  it("lets a shell line run by a pattern for the whole tool only", () => {
    const shell = [{ text: "git status; rm x", kind: "exact" }] as const
    assert.strictEqual(
      ToolPolicy.forTool(
        parsed({ allow: ["w(git status*)", "w(*)"], default: "ask" }),
        tool("w", { guardsTargets: true })
      )
        .decide({ targets: shell, needsApproval: false })._tag,
      "Ask"
    )
    assert.strictEqual(
      ToolPolicy.forTool(parsed({ allow: ["w"] }), tool("w", { guardsTargets: true })).decide({
        targets: shell,
        needsApproval: false
      })._tag,
      "Allow"
    )
    assert.strictEqual(
      ToolPolicy.forTool(parsed({ allow: ["w"], deny: ["w(*rm *)"] }), tool("w", { guardsTargets: true })).decide({
        targets: shell,
        needsApproval: false
      })._tag,
      "Deny"
    )
  })

  it("shows an agent the tools of which some call may run", () => {
    const sees = (policy: Policy.Policy) => ToolPolicy.sees(parsed(policy), tool("w"))
    assert.isTrue(sees({}))
    assert.isFalse(sees({ default: "readOnly" }))
    assert.isTrue(sees({ allow: ["w(src/*)"] }))
    assert.isTrue(sees({ ask: ["w"] }))
    assert.isFalse(sees({ allow: ["w"], deny: ["w"] }))
    assert.isTrue(sees({ allow: ["w"], deny: ["w(.env)"] }))
    assert.isFalse(sees({ allow: ["w"], mode: "plan" }))
  })

  it("tells every pattern that is none, and those about no tool", () => {
    const problems = Policy.parse({ allow: ["read", "rea(d", "reed"], deny: ["r*", "x*(y)"] }, ["read"])
    assert.deepStrictEqual(
      Result.isFailure(problems) && problems.failure.map((it) => it.path),
      ["allow[1]", "allow[2]", "deny[1]"]
    )
  })
})

describe("Permissions", () => {
  const about = (kind?: "protected"): ToolSpec => ({
    class: "SerialMut",
    handler: () => Effect.void,
    annotate: (it) =>
      it.annotate(ToolAnnotations.Targets, (params) => {
        const { path } = params as { readonly path?: string }
        if (path === undefined) throw new Error("no path")
        return path === "later" ? Effect.succeed([{ text: path }]).pipe(Effect.delay(10)) : [{ text: path, kind }]
      })
  })

  it.effect("looks at what a call is about, at once or later, and fails closed", () =>
    run(
      { w: about() },
      { policy: { default: "ask", allow: ["w(src/*)", "w(later)"], deny: ["w(*.env)"] } },
      ({ process }) =>
        Effect.map(
          process.executeWave(calls(["w", { path: "src/a" }], ["w", { path: "later" }], ["w", { path: "src/.env" }], [
            "w",
            { path: "x" }
          ], ["w", {}])),
          (wave) =>
            assert.deepStrictEqual(tags(wave), [
              "Succeeded",
              "Succeeded",
              "PolicyDenied",
              "PermissionDenied",
              "PolicyDenied"
            ])
        )
    ))

  it.effect("asks about what is protected, whatever allows the tool", () =>
    run({ w: about("protected") }, { policy: { default: "allow", allow: ["w"] } }, ({ process }) =>
      Effect.map(
        process.executeWave(calls(["w", { path: ".git/config" }])),
        (wave) => assert.deepStrictEqual(tags(wave), ["PermissionDenied"])
      )))

  it.effect("takes the texts of resource keys where a tool says nothing else", () =>
    run(
      {
        w: {
          class: "SerialMut",
          handler: () => Effect.void,
          annotate: (it: Tool.Any) =>
            it.annotate(ToolAnnotations.Resources, (params) => [(params as { readonly env: string }).env])
        }
      },
      { policy: { default: "allow", deny: ["w(prod*)"] } },
      ({ process }) =>
        Effect.map(
          process.executeWave(calls(["w", { env: "dev" }], ["w", { env: "prod-eu" }])),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "PolicyDenied"])
        )
    ))

  it.effect("cannot be built from a pattern that is none", () =>
    Effect.map(
      Effect.flip(Effect.scoped(Layer.build(Permissions.layer({ allow: ["w("] })))),
      (error) => assert.deepStrictEqual(error.problems.map((it) => it.path), ["allow[0]"])
    ))

  it.effect("reads a policy from the configuration", () =>
    Effect.gen(function*() {
      const layer = LayerConfig.from(Permissions.layer, {
        default: Config.Literals(["allow", "ask", "deny"], "DEFAULT"),
        deny: Config.Array(Schema.String, "DENY")
      })
      const provider = ConfigProvider.layer(ConfigProvider.fromEnv({ env: { DEFAULT: "allow", DENY: "w,x(y)" } }))
      const permissions = yield* Effect.provide(Permissions.Permissions, layer.pipe(Layer.provide(provider)))
      assert.isFalse(permissions.sees(tool("w")))
      assert.isTrue(permissions.sees(tool("x")))
    }))
})
