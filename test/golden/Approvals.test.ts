/** Approval requests that a release has stored are read by every later one. */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { readFileSync } from "node:fs"
import * as RedactedRequest from "../../src/server/approvals/RedactedRequest.ts"
import * as StoredApproval from "../../src/server/approvals/StoredApproval.ts"
import { approval } from "../support/Asking.ts"

const lines = readFileSync(new URL("approvals.v1.jsonl", import.meta.url), "utf8").trimEnd().split("\n")

const changes = [{ path: "a.txt", before: "a\n", after: "b\n" }]

const request = {
  ...approval({ revision: "r1", operation: "op", preview: { _tag: "Diff", diff: "-a\n+b\n", changes } }),
  id: "6d8f0c1e-0000-4000-8000-000000000001",
  requestedAt: 1_000,
  expiresAt: 2_000
}

/** Without the id and the hash, which are columns of the row. */
const bare = readFileSync(new URL("approvals-columns.v1.jsonl", import.meta.url), "utf8").trimEnd().split("\n")

const facts = { readOnly: false, openWorld: false, undoable: true, files: { changed: 1, created: 0 } }

const shown = RedactedRequest.make(request, facts)!

const endings: ReadonlyArray<Parameters<typeof StoredApproval.writeEnd>[0]> = [
  { _tag: "Approved", grant: undefined, isOwn: true, edited: { params: { path: "b.txt" } }, person: "ada" },
  {
    _tag: "Approved",
    grant: {
      id: "g",
      principal: "bob/home",
      tool: "write",
      revision: "r1",
      agentPath: [],
      targets: ["a.txt"],
      answer: "ApproveForDuration",
      grantedAt: 1_500,
      expiresAt: 9_000
    },
    isOwn: true
  },
  { _tag: "Denied", by: "user", reason: "no", person: "ada" },
  { _tag: "Denied", by: "timeout" },
  { _tag: "Withdrawn" }
]

const named = readFileSync(new URL("approvals-named.v2.jsonl", import.meta.url), "utf8").trimEnd().split("\n")

const approvals = [{
  person: "ada",
  roles: ["lead"],
  at: 1_500,
  answer: "ApproveForDuration",
  duration: "1 hour",
  scope: { pattern: "a*" },
  agents: "all",
  note: "go on",
  data: { code: 1 }
}] as const

const several = {
  ...request,
  evidence: [{ _tag: "Origin", path: "path", value: "a.txt", origin: "user" }],
  isAlways: true,
  wider: ["write(a*)"],
  approvers: [{
    people: ["ada"],
    roles: ["lead"],
    count: 2,
    escalate: { after: "1 hour", to: { people: ["cy"] } },
    remind: "5 minutes"
  }],
  form: { type: "object" },
  escalatesAt: 3_601_000,
  approvals
} as const

describe("stored approval requests that say who approves", () => {
  const { kept } = RedactedRequest.make(several, facts)!
  const ending = {
    _tag: "Approved",
    grant: undefined,
    isOwn: true,
    person: "bob",
    note: "go on",
    data: { code: 1 },
    approvals
  } as const

  it("are written in a version that older releases refuse", () => {
    const { writeApprovals, writeEnd, writeRequest } = StoredApproval
    assert.deepStrictEqual([writeRequest(kept), writeApprovals(approvals), writeEnd(ending, kept)], [
      bare[2],
      ...named.slice(1)
    ])
  })

  it("are read as they were, the approvals from their own record", () => {
    const { readApprovals, readEnd, readRequest } = StoredApproval
    const given = Result.getOrThrow(readApprovals(named[1]!))
    for (const line of [named[0]!, bare[2]!]) {
      const read = Result.getOrThrow(readRequest(line, kept.summary))
      assert.deepStrictEqual({ ...read, summary: { ...read.summary, approvals: given } }, kept)
    }
    assert.deepStrictEqual(Result.getOrThrow(readEnd(named[2]!)), ending)
  })
})

describe("stored approval requests", () => {
  it("are written as this version says", () => {
    const { details, kept } = shown
    assert.deepStrictEqual([
      StoredApproval.writeRequest(kept),
      StoredApproval.writeRequest({ ...kept, salt: "s", redacted: "some", targets: [{ text: "card 4111" }] }),
      StoredApproval.writeDetails(details()),
      ...endings.map((it) => StoredApproval.writeEnd(it, kept))
    ], [...bare.slice(0, 2), ...lines.slice(2)])
  })

  it("are read as they were", () => {
    const { details, kept } = shown
    const [plain, secret, rest, ...ends] = lines
    const read = (line: string) => Result.getOrThrow(StoredApproval.readRequest(line, kept.summary))
    for (const line of [plain!, bare[0]!]) assert.deepStrictEqual(read(line), kept)
    for (const line of [secret!, bare[1]!]) {
      assert.deepInclude(read(line), { salt: "s", redacted: "some", targets: undefined })
    }
    assert.deepStrictEqual(Result.getOrThrow(StoredApproval.readDetails(rest!)), details())
    assert.deepStrictEqual(
      ends.map((it) => JSON.stringify(Result.getOrThrow(StoredApproval.readEnd(it)))).map((it) => JSON.parse(it)),
      endings.map((it) => JSON.parse(JSON.stringify(it)))
    )
  })

  it("of another version are refused, not guessed", () => {
    const { readDetails, readEnd, readRequest } = StoredApproval
    const isRefused = (text: string) =>
      Result.isFailure(readRequest(text, { id: "a", hash: "b" })) && Result.isFailure(readDetails(text)) &&
      Result.isFailure(readEnd(text))
    assert.isTrue(isRefused(lines[0]!.replace("\"v\":1", "\"v\":3")))
    assert.isTrue(isRefused("{}"))
  })
})
