/**
 * Records of operations and conversations as version 1 wrote them. The file is never edited again: a release that cannot
 * read it loses conversations in an upgrade. A new version gets a file of its own.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import { readFileSync } from "node:fs"
import * as OperationStore from "../../src/server/operations/OperationStore.ts"

/** A key and its record on each line. */
const recordsOf = (file: string) =>
  readFileSync(new URL(file, import.meta.url), "utf8").trimEnd().split("\n").map((it) =>
    JSON.parse(it) as readonly [key: string, record: { readonly v: number }]
  )

const records = recordsOf("operations.v1.jsonl")

const ada = { user: "ada", session: "s" }

const stored = Effect.gen(function*() {
  const memory = Context.get(yield* Layer.build(KeyValueStore.layerMemory), KeyValueStore.KeyValueStore)
  for (const [key, record] of records) yield* memory.set(key, JSON.stringify(record))
  return { memory, store: OperationStore.make(memory) }
})

describe("operations of version 1", () => {
  it.effect("are read under their names, and written again as they were", () =>
    Effect.gen(function*() {
      const { memory, store } = yield* stored
      const [conversation] = yield* store.conversations
      assert.deepInclude(conversation, { ...ada, open: ["two"], title: "Where is order 17?" })
      const one = yield* store.get(ada, "one")
      assert.deepInclude(one?.ended?.end?.reason, { _tag: "ModelFailed", error: "AuthenticationError" })
      const two = yield* store.get(ada, "two")
      assert.isUndefined(two?.ended)
      const [events] = yield* store.events(ada, "two")
      assert.deepEqual(events?.events.map(({ place }) => place), [2, 3])
      yield* store.keepConversation(conversation!)
      yield* store.submit(one!.submitted)
      yield* store.submit(two!.submitted)
      yield* store.end(ada, one!.ended!)
      yield* store.append(ada, "two", 0, events!)
      for (const [key, record] of records) assert.deepEqual(JSON.parse((yield* memory.get(key))!), record)
      assert.lengthOf(yield* memory.keys, records.length)
    }).pipe(Effect.scoped))

  it.effect("that were cancelled stay so", () =>
    Effect.gen(function*() {
      const { memory, store } = yield* stored
      const [[key, record]] = recordsOf("operations-cancelled.v1.jsonl") as [typeof records[number]]
      yield* memory.set(key, JSON.stringify(record))
      const { submitted } = (yield* store.get(ada, "two"))!
      assert.equal(submitted.cancelled, "The order was wrong")
      yield* store.submit(submitted)
      assert.deepEqual(JSON.parse((yield* memory.get(key))!), record)
    }).pipe(Effect.scoped))

  it.effect("of another version are not read, and do not hide others", () =>
    Effect.gen(function*() {
      const { memory, store } = yield* stored
      for (const [key, record] of records) {
        if (key.endsWith(".end")) yield* memory.set(key, JSON.stringify({ ...record, v: 7 }))
      }
      const error = yield* Effect.flip(store.get(ada, "one"))
      assert.include(String(error.cause), "version 7")
      assert.isDefined(yield* store.get(ada, "two"))
    }).pipe(Effect.scoped))
})
