/**
 * Records of operations and conversations as version 1 wrote them. The file is never edited again: a release that cannot
 * read it loses conversations in an upgrade. A new version gets a file of its own.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import * as MemoryRows from "../../src/core/store/MemoryRows.ts"
import * as OperationStore from "../../src/server/operations/OperationStore.ts"
import { toPrincipal } from "../../src/server/users/Principals.ts"

/** A key and its record on each line. */
const recordsOf = (file: string) =>
  readFileSync(new URL(file, import.meta.url), "utf8").trimEnd().split("\n").map((it) =>
    JSON.parse(it) as readonly [key: string, record: { readonly v: number }]
  )

const records = recordsOf("operations.v1.jsonl")

const ada = { user: "ada", session: "s" }

const stored = Effect.gen(function*() {
  const rows = MemoryRows.make()
  const own = rows.of(toPrincipal(ada))
  const set = (key: string, record: unknown) => {
    const isListed = key.startsWith("served.conversation.")
    const listed = isListed ? { kind: OperationStore.kind, isOpen: true, at: 1_790_000_003_000 } : undefined
    return own.write([{ _tag: "Put", key, value: JSON.stringify(record), listed }])
  }
  for (const [key, record] of records) yield* set(key, record)
  const written = new Set<string>()
  const store = OperationStore.make({
    ...rows,
    of: (principal) => {
      const of = rows.of(principal)
      return {
        ...of,
        write: (changes) => {
          for (const { key } of changes) written.add(key)
          return of.write(changes)
        }
      }
    }
  })
  const get = (key: string) => Effect.map(own.read({ keys: [key] }), (it): unknown => JSON.parse(it.get(key)!))
  return { get, set, store, written }
})

describe("operations of version 1", () => {
  it.effect("are read under their names, and written again as they were", () =>
    Effect.gen(function*() {
      const { get, store, written } = yield* stored
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
      for (const [key, record] of records) assert.deepEqual(yield* get(key), record)
      assert.sameMembers(Array.from(written), records.map(([key]) => key))
    }))

  it.effect("that were cancelled stay so", () =>
    Effect.gen(function*() {
      const { get, set, store } = yield* stored
      const [[key, record]] = recordsOf("operations-cancelled.v1.jsonl") as [typeof records[number]]
      yield* set(key, record)
      const { submitted } = (yield* store.get(ada, "two"))!
      assert.equal(submitted.cancelled, "The order was wrong")
      yield* store.submit(submitted)
      assert.deepEqual(yield* get(key), record)
    }))

  it.effect("of another version are not read, and do not hide others", () =>
    Effect.gen(function*() {
      const { set, store } = yield* stored
      for (const [key, record] of records) {
        if (key.endsWith(".end")) yield* set(key, { ...record, v: 7 })
      }
      const error = yield* Effect.flip(store.get(ada, "one"))
      assert.include(String(error.cause), "version 7")
      assert.isDefined(yield* store.get(ada, "two"))
    }))
})
