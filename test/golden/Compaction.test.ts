/**
 * A session that was compacted, as version 1 wrote it. The file is never edited again: a release that reads it otherwise
 * sends a model more than fits, or forgets what a summary has cost.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import { readFileSync } from "node:fs"
import * as CompactedHistory from "../../src/agent/CompactedHistory.ts"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"
import { words } from "../support/Agents.ts"

const lines = readFileSync(new URL("compaction.v1.jsonl", import.meta.url), "utf8").trimEnd().split("\n")

describe("a compacted session of version 1", () => {
  it.effect("has every message, shows a model what is left, and knows what the summary has cost", () =>
    Effect.gen(function*() {
      const values = yield* KeyValueStore.KeyValueStore
      for (const [index, line] of lines.entries()) yield* values.set(`d23965a531b8cffe2aeab4f65c5fd3a1.${index}`, line)
      const { messages } = yield* TranscriptStore.makeKeyed(values).open("chat-1", "ada")
      assert.strictEqual(messages.length, 8)
      assert.deepStrictEqual(words(Prompt.fromMessages([...CompactedHistory.view(messages)])), [
        "user: Read all.",
        "user: The older part of this conversation was replaced with this summary.\n\nDone: read c1.",
        "user: Be quick.",
        "calls read c2",
        "result c2: text of c2",
        "assistant: Done."
      ])
      const used = CompactedHistory.originsIn(messages, new Set(["operation-1-1"])).map((
        it
      ) => [it.model, it.usage?.inputTokens])
      assert.deepStrictEqual(used, [["claude-sonnet-4-5", 900]])
    }).pipe(Effect.scoped, Effect.provide(KeyValueStore.layerMemory)))
})
