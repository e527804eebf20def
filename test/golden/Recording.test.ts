/**
 * A recording of a model as version 1 wrote it. The file is never edited again: recordings are kept with the tests of
 * others, who cannot make them again without their provider. A new version gets a file of its own.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { readFileSync } from "node:fs"
import * as Recording from "../../src/testing/Recording.ts"

const text = readFileSync(new URL("recording.v1.json", import.meta.url), "utf8")

describe("a recording of version 1", () => {
  const { exchanges, ...names } = Result.getOrThrow(Recording.read(text))

  it("is read, with what each request continues and every delta", () => {
    assert.deepStrictEqual(names, { provider: "anthropic.messages", model: "claude-sonnet-4-5" })
    assert.deepStrictEqual(exchanges.map((it) => [it.method, it.prompt.length, it.tools.length]), [
      ["streamText", 2, 1],
      ["streamText", 4, 1],
      ["generateText", 1, 0]
    ])
    const parts = Recording.partsOf(exchanges[0]!.response!)
    assert.deepStrictEqual(parts.flatMap((it) => it.type === "tool-params-delta" ? [it.delta] : []), [
      "{\"query\":",
      "\"fish\"}"
    ])
    assert.strictEqual(Recording.partsOf(exchanges[2]!.response!)[0]?.type, "text")
  })

  it("is written again as it was", () => {
    assert.strictEqual(Recording.write({ ...names, exchanges }, { secrets: [], volatile: [] }), text)
  })
})
