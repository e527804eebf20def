/**
 * Entries of sessions as version 1 wrote them. The file is never edited again: a release that cannot read it cannot
 * continue conversations after an upgrade. A new version gets a file of its own.
 */
import { assert, describe, it } from "@effect/vitest"
import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import { readFileSync } from "node:fs"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"

const lines = readFileSync(new URL("transcripts.v1.jsonl", import.meta.url), "utf8").trimEnd().split("\n")

const store = Effect.provide(KeyValueStore.KeyValueStore, KeyValueStore.layerMemory)

/** The names of the entries do not change either: 32 digits for the session and its principal, and a number. */
const keyOf = (index: number) => `d23965a531b8cffe2aeab4f65c5fd3a1.${index}`

const kept = Effect.gen(function*() {
  const values = yield* store
  for (const [index, line] of lines.entries()) yield* values.set(keyOf(index), line)
  return values
})

/** With what is stored of a sub-agent. */
const tree = readFileSync(new URL("transcripts-below.v1.jsonl", import.meta.url), "utf8").trimEnd().split("\n")

const partsOf = (messages: ReadonlyArray<Prompt.Message>) =>
  messages.flatMap(({ content, role }) =>
    typeof content === "string" ? [role] : [role, ...content.map((it) => `${role}/${it.type}`)]
  )

describe("a session of version 1", () => {
  it.effect("opens, with every kind of message and part", () =>
    Effect.gen(function*() {
      const transcripts = TranscriptStore.makeKeyed(yield* kept)
      const { messages } = yield* Effect.scoped(transcripts.open("chat-1", "ada"))
      assert.sameMembers(Array.from(new Set(partsOf(messages))), [
        "system",
        "user",
        "user/text",
        "user/file",
        "assistant",
        "assistant/reasoning",
        "assistant/text",
        "assistant/tool-call",
        "tool",
        "tool/tool-result"
      ])
      assert.deepStrictEqual((yield* transcripts.list).map(({ name, principal }) => [name, principal]), [
        ["chat-1", "ada"]
      ])
    }))

  it.effect("is written again as it was", () =>
    Effect.gen(function*() {
      const old = TranscriptStore.makeKeyed(yield* kept)
      const { messages } = yield* Effect.scoped(old.open("chat-1", "ada"))
      const values = yield* store
      yield* Effect.scoped(Effect.flatMap(TranscriptStore.makeKeyed(values).open("chat-1", "ada"), (it) =>
        Effect.andThen(it.append(messages.slice(0, 1)), it.append(messages.slice(1)))))
      for (const [index, line] of lines.entries()) {
        const { at: _, ...before } = JSON.parse(line)
        const { at: __, ...after } = JSON.parse((yield* values.get(keyOf(index)))!)
        assert.deepStrictEqual(after, before)
      }
    }))

  it.effect("has what sub-agents said, and how they ended", () =>
    Effect.gen(function*() {
      const values = yield* store
      for (const [index, line] of tree.entries()) yield* values.set(keyOf(index), line)
      const { append, appendBelow, below, messages } = yield* TranscriptStore.makeKeyed(values).open("chat-1", "ada")
      assert.deepStrictEqual(messages.map((it) => it.role), ["user"])
      assert.deepStrictEqual(below.map((it) => [it.of.length, it.messages.length, it.isNew, it.end?.ended]), [
        [2, 1, undefined, undefined],
        [2, 1, true, undefined],
        [2, 0, undefined, undefined],
        [2, 0, undefined, "Finished"]
      ])
      assert.deepStrictEqual(below[2]?.received, [{ id: "m1", text: "only big ones" }])
      yield* append(messages)
      yield* Effect.forEach(below, appendBelow)
      for (const [index, line] of tree.entries()) {
        const { at: _, ...before } = JSON.parse(line)
        const { at: __, ...after } = JSON.parse((yield* values.get(keyOf(tree.length + index)))!)
        assert.deepStrictEqual(after, before)
      }
    }).pipe(Effect.scoped))
})
