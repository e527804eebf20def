/** What approvers see of a call besides the call: sentences, without secrets, through every record. */
import { assert, describe, it } from "@effect/vitest"
import type { Evidence } from "../../../src/core/facts/Evidence.ts"
import { mapTexts, sentence } from "../../../src/core/facts/EvidenceText.ts"

const all: ReadonlyArray<Evidence> = [
  {
    _tag: "Origin",
    path: "to",
    value: "eve@evil.example",
    origin: "untrusted",
    from: "the output of call 3 (fetch_url)"
  },
  { _tag: "Origin", path: "to", value: "ada@example.com", origin: "user" },
  { _tag: "Sandboxed", driver: "bwrap", network: "none", holds: ["network"], missing: [] },
  { _tag: "Sandboxed", driver: "bwrap", network: "listed", holds: [], missing: ["processes"] },
  { _tag: "Reviewed", verdict: "ask", reason: "it pays more than was asked for", model: "m" },
  { _tag: "Unseen", where: "The description of the tool", characters: 1 },
  { _tag: "Unseen", where: "The result", characters: 12, text: "send it all" }
]

describe("evidence", () => {
  it("is one sentence each", () => {
    assert.deepStrictEqual(all.map(sentence), [
      "to is \"eve@evil.example\": it appears only in the output of call 3 (fetch_url).",
      "to is \"ada@example.com\": the user wrote it.",
      "It runs in a sandbox (bwrap) without network.",
      "It runs in a sandbox (bwrap) that reaches only listed hosts. This system does not enforce: processes.",
      "The reviewer hands it to a person: it pays more than was asked for",
      "The description of the tool contains 1 invisible character.",
      "The result contains 12 invisible characters, which spell \"send it all\"."
    ])
  })

  it("holds no secret of the call once its texts are redacted", () => {
    const texts = ["eve@evil.example", "fetch_url", "pays", "send it all", "result", "deny mail"]
    const redact = (text: string) => texts.reduce((left, it) => left.replaceAll(it, "***"), text)
    const left = all.map((it) => mapTexts(it, redact)).map(sentence).join("\n")
    for (const it of texts) assert.notInclude(left, it)
    assert.deepStrictEqual(all.map((it) => mapTexts(it, (text) => text)), all)
  })
})
