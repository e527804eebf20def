import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Policy from "../../../src/core/gates/Policy.ts"
import * as ToolPolicy from "../../../src/core/gates/ToolPolicy.ts"
import * as Grant from "../../../src/core/vocabulary/Grant.ts"
import type { TargetKind } from "../../../src/core/vocabulary/TargetKind.ts"

const tool = {
  name: "run_command",
  readOnly: false,
  openWorld: true,
  edits: false,
  guardsTargets: true,
  declaresTargets: true
}

const confined = { _tag: "Confined", driver: "box", network: "none", holds: [], missing: [] } as const

const decide = (policy: Policy.Policy, text: string, kind: TargetKind, spellings: ReadonlyArray<string> = []) =>
  ToolPolicy.forTool(Result.getOrThrow(Policy.parse(policy)), tool).decide({
    targets: [{ text, kind, spellings }],
    needsApproval: false,
    sandbox: confined
  })

const grant = (targets?: ReadonlyArray<string>): Grant.Grant => ({
  id: "g",
  principal: "ada",
  tool: "run_command",
  agentPath: [],
  answer: "ApproveForScope",
  grantedAt: 0,
  ...targets === undefined ? {} : { targets }
})

const covers = (given: Grant.Grant, text: string, kind: TargetKind) =>
  Grant.covers(given, { tool: "run_command", agentPath: [], targets: [{ text, kind }] }, 1)

describe("a target that is asked about each time", () => {
  const outside = "without sandbox: npm test"
  for (
    const policy of [
      { allow: ["run_command"] },
      { allow: ["run_command(*)"] },
      { allow: ["run_command(npm *)"] },
      { allow: ["run_command(without sandbox: *)"] },
      { default: "allow" },
      { sandboxed: "allow" },
      { ask: ["run_command"] }
    ] as ReadonlyArray<Policy.Policy>
  ) {
    it(`needs an approval of its own under ${JSON.stringify(policy)}`, () => {
      assert.deepInclude(decide(policy, outside, "always", ["npm test"]), { _tag: "Ask", isAlways: true })
    })
  }

  it("can be denied, by its own text and by that of the command", () => {
    assert.strictEqual(decide({ deny: ["run_command(without sandbox: *)"] }, outside, "always")._tag, "Deny")
    assert.strictEqual(decide({ deny: ["run_command(npm *)"] }, outside, "always", ["npm test"])._tag, "Deny")
    assert.strictEqual(decide({ default: "deny" }, outside, "always")._tag, "Deny")
  })

  it("is not covered by an approval of the whole tool", { tags: ["SB7"] }, () => {
    assert.isFalse(covers(grant(), outside, "always"))
    assert.isTrue(covers(grant(), "npm test", "exact"))
  })
})

describe("a host that a running call wants to reach", () => {
  const host = "host:api.example.com"
  it("needs a pattern that names hosts", () => {
    for (const allow of ["run_command", "run_command(*)", "run_command(*example.com)"]) {
      assert.strictEqual(decide({ allow: [allow] }, host, "host")._tag, "Ask", allow)
    }
    assert.strictEqual(decide({ default: "allow" }, host, "host")._tag, "Ask")
    assert.strictEqual(decide({ sandboxed: "allow" }, host, "host")._tag, "Ask")
    for (const allow of ["run_command(host:api.example.com)", "run_command(host:*.example.com)"]) {
      assert.strictEqual(decide({ allow: [allow] }, host, "host")._tag, "Allow", allow)
    }
    assert.strictEqual(
      decide({ allow: ["run_command(host:*)"], deny: [`run_command(${host})`] }, host, "host")._tag,
      "Deny"
    )
  })

  it("is covered by an approval that names it, and by no approval of the whole tool", () => {
    assert.isFalse(covers(grant(), host, "host"))
    assert.isTrue(covers(grant([host]), host, "host"))
    assert.isFalse(covers(grant(["host:other.example"]), host, "host"))
  })
})
