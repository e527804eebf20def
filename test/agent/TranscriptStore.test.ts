import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as TestClock from "effect/testing/TestClock"
import { Transcripts } from "../../src/agent/Transcripts.ts"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"

const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

/** Every kind of part, with what providers bind to theirs. */
const every: ReadonlyArray<Prompt.Message> = [
  Prompt.systemMessage({ content: "Be brief.", options: { anthropic: { cacheControl: { type: "ephemeral" } } } }),
  Prompt.userMessage({
    content: [
      Prompt.textPart({ text: "a\ud800\u0000é" }),
      Prompt.filePart({ mediaType: "image/png", data: new Uint8Array([0, 255, 7]) }),
      Prompt.filePart({ mediaType: "image/png", data: new URL("https://example.com/a.png"), fileName: "a" }),
      Prompt.filePart({ mediaType: "text/plain", data: "aGk=" })
    ]
  }),
  Prompt.assistantMessage({
    content: [
      Prompt.reasoningPart({ text: "hm", options: { anthropic: { signature: "s+/=" } } }),
      Prompt.textPart({ text: "", options: { google: { thoughtSignature: "t" } } }),
      Prompt.toolCallPart({ id: "1", name: "f", params: { a: [1, null, { "": -1.5e-9 }] }, providerExecuted: false }),
      Prompt.toolCallPart({ id: "2", name: "g", params: "not {json", providerExecuted: false })
    ]
  }),
  Prompt.toolMessage({
    content: [
      Prompt.toolResultPart({ id: "1", name: "f", isFailure: false, result: "ok", providerExecuted: false }),
      Prompt.toolResultPart({
        id: "2",
        name: "g",
        isFailure: true,
        result: { why: null },
        modelOutput: [Prompt.filePart({ mediaType: "image/png", data: new Uint8Array([1]) })],
        providerExecuted: false
      })
    ]
  })
]

const store = Effect.provide(KeyValueStore.KeyValueStore, KeyValueStore.layerMemory)

const read = (transcripts: Transcripts["Service"], session: string) =>
  Effect.scoped(Effect.map(transcripts.open(session, "default"), ({ messages }) => messages))

const append = (transcripts: Transcripts["Service"], session: string, ...messages: ReadonlyArray<Prompt.Message>) =>
  Effect.scoped(Effect.flatMap(transcripts.open(session, "default"), (it) => it.append(messages)))

describe("sessions", () => {
  it.effect("keep the conversations of sub-agents apart from their own", () =>
    Effect.gen(function*() {
      const transcripts = TranscriptStore.makeKeyed(yield* store)
      const of = [{ process: "p", call: "c" }]
      const end = { ended: "Finished", message: "The agent is done.", text: "found", calls: 2 }
      yield* append(transcripts, "s", user("hello"))
      yield* Effect.scoped(Effect.gen(function*() {
        const { append, appendBelow } = yield* transcripts.open("s", "default")
        yield* appendBelow({ of, messages: every })
        yield* append([user("again")])
        yield* appendBelow({ of, messages: [], end })
      }))
      const { below, messages } = yield* Effect.scoped(transcripts.open("s", "default"))
      assert.deepStrictEqual(messages, [user("hello"), user("again")])
      assert.deepStrictEqual(below, [{ of, messages: every }, { of, messages: [], end }])
      assert.deepStrictEqual((yield* transcripts.list).map(({ words }) => words), ["hello"])
    }))

  it.effect("give back every message as it was, in order", () =>
    Effect.gen(function*() {
      const transcripts = TranscriptStore.makeKeyed(yield* store)
      yield* append(transcripts, "s", ...every.slice(0, 2))
      yield* append(transcripts, "s", ...every.slice(2))
      assert.deepStrictEqual(yield* read(transcripts, "s"), every)
    }))

  it.effect("grow while they are open, and show what was there before", () =>
    Effect.gen(function*() {
      const transcripts = yield* Transcripts
      yield* Effect.scoped(Effect.gen(function*() {
        const session = yield* transcripts.open("s", "default")
        yield* session.append([user("one")])
        yield* session.append([])
        yield* Effect.all([session.append([user("two")]), session.append([user("three")])], { concurrency: 2 })
        assert.deepStrictEqual(session.messages, [])
      }))
      assert.deepStrictEqual(yield* read(transcripts, "s"), [user("one"), user("two"), user("three")])
    }).pipe(Effect.provide(TranscriptStore.layerMemory())))

  const names = [
    "",
    "a",
    "A",
    "é",
    "e\u0301",
    ".",
    "..",
    "../a",
    "a/b",
    "a\\b",
    "a.0",
    "\ud800",
    "\ud801",
    "x".repeat(5_000)
  ]

  it.effect("have names of any text, none of which is another's", () =>
    Effect.gen(function*() {
      const kept = yield* store
      const transcripts = TranscriptStore.makeKeyed(kept)
      yield* Effect.forEach(names, (name) => append(transcripts, name, user(name)))
      for (const name of names) assert.deepStrictEqual(yield* read(transcripts, name), [user(name)])
      assert.sameMembers((yield* transcripts.list).map(({ name }) => name), names)
      const keys = yield* kept.keys
      assert.isTrue(keys.every((key) => /^[0-9a-f]{32}\.0$/.test(key)))
    }))

  it.effect("are listed with what was said first, the one written to last before all", () =>
    Effect.gen(function*() {
      const transcripts = TranscriptStore.makeKeyed(yield* store)
      yield* append(
        transcripts,
        "one",
        Prompt.systemMessage({ content: "Be brief." }),
        user("  first words\nand more ")
      )
      yield* TestClock.adjust("1 second")
      yield* append(transcripts, "two", user("second"))
      yield* TestClock.adjust("1 second")
      yield* append(transcripts, "one", user("third"))
      assert.deepStrictEqual(yield* transcripts.list, [
        { principal: "default", name: "one", at: 2_000, words: "first words\nand more" },
        { principal: "default", name: "two", at: 1_000, words: "second" }
      ])
    }))

  it.effect(
    "open wherever a crash has torn their last entry, without it, and go on in its place",
    () =>
      Effect.gen(function*() {
        const kept = yield* store
        const transcripts = TranscriptStore.makeKeyed(kept)
        yield* append(transcripts, "s", user("one"))
        yield* append(transcripts, "s", user("two"))
        const key = (yield* kept.keys).find((it) => it.endsWith(".1"))!
        const whole = (yield* kept.get(key))!
        for (const torn of ["\0\0\0", ...Array.from(whole, (_, length) => whole.slice(0, length))]) {
          yield* kept.set(key, torn)
          assert.deepStrictEqual(yield* read(transcripts, "s"), [user("one")])
          assert.lengthOf(yield* transcripts.list, 1)
        }
        yield* append(transcripts, "s", user("three"))
        assert.deepStrictEqual(yield* read(transcripts, "s"), [user("one"), user("three")])
      }),
    { tags: ["AG18"] }
  )

  it.effect("that are damaged do not open, as if they were shorter", () =>
    Effect.gen(function*() {
      const kept = yield* store
      const transcripts = TranscriptStore.makeKeyed(kept)
      for (const text of ["one", "two", "three"]) yield* append(transcripts, "s", user(text))
      const keys = (yield* kept.keys).toSorted()
      const fails = (message: string) =>
        Effect.map(Effect.flip(read(transcripts, "s")), (error) => assert.include(error.message, message))
      const whole = (yield* kept.get(keys[1]!))!
      yield* kept.set(keys[1]!, whole.slice(0, -1))
      yield* fails("Transcripts.open failed for session \"s\": entry 1 cannot be read")
      yield* kept.remove(keys[1]!)
      yield* fails("entry 1 is missing")
      yield* kept.set(keys[1]!, whole)
      // whole, and nobody's to write over
      yield* kept.set(keys[2]!, JSON.stringify({ v: 1, messages: [{ role: "oracle" }] }))
      yield* fails("entry 2 is not valid")
      yield* kept.set(keys[2]!, JSON.stringify({ v: 2 }))
      yield* fails("entry 2 is not valid: it has version 2, and this release reads 1")
      // one that cannot be read does not hide the others
      yield* append(transcripts, "t", user("one"))
      assert.include((yield* transcripts.list).map(({ name }) => name), "t")
    }), { tags: ["AG18"] })

  it.effect("are open once at a time, and a failure to open holds nothing", () =>
    Effect.gen(function*() {
      const kept = yield* store
      let isTaken = true
      const taken = new KeyValueStore.KeyValueStoreError({ method: "claim", message: "somebody has it" })
      const transcripts = TranscriptStore.makeKeyed(kept, {
        claim: () => Effect.suspend(() => isTaken ? Effect.fail(taken) : Effect.void)
      })
      yield* Effect.scoped(Effect.gen(function*() {
        assert.include((yield* Effect.flip(transcripts.open("s", "default"))).message, "somebody has it")
        isTaken = false
        yield* transcripts.open("s", "default")
        assert.include((yield* Effect.flip(transcripts.open("s", "default"))).message, "it is open already")
        yield* transcripts.open("t", "default")
      }))
      yield* read(transcripts, "s")
    }))

  it.effect("fail where they cannot be kept, and the next try takes the same place", () =>
    Effect.gen(function*() {
      const kept = yield* store
      let isFull = true
      const transcripts = TranscriptStore.makeKeyed({
        ...kept,
        set: (key, value) =>
          isFull
            ? Effect.andThen(
              kept.set(key, String(value).slice(0, 9)),
              Effect.fail(new KeyValueStore.KeyValueStoreError({ method: "set", message: "the disk is full" }))
            )
            : kept.set(key, value)
      })
      yield* Effect.scoped(Effect.gen(function*() {
        const session = yield* transcripts.open("s", "default")
        const error = yield* Effect.flip(session.append([user("one")]))
        assert.strictEqual(error.message, "Transcripts.append failed for session \"s\": the disk is full")
        isFull = false
        yield* session.append([user("two")])
      }))
      assert.deepStrictEqual(yield* read(transcripts, "s"), [user("two")])
    }))
})
