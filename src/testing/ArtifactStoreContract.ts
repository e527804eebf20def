/** Checks for drivers of `ArtifactStore`. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as assert from "node:assert/strict"
import * as ArtifactStore from "../core/output/ArtifactStore.ts"
import * as Contract from "./Contract.ts"

/** Makes the checks of a driver. */
export const make = <Also = never, Needs = never>(
  driver: Contract.Driver<ArtifactStore.ArtifactStore, ArtifactStore.Options, Also, Needs>
): ReadonlyArray<Contract.Check<Needs>> => Contract.checks(ArtifactStore.ArtifactStore, driver, all)

type Store = ArtifactStore.ArtifactStore["Service"]

const owner = (principal: string, batch = "b"): ArtifactStore.Owner => ({ principal, batch })

const whole = { offset: 0, length: Number.MAX_SAFE_INTEGER }

/** Texts an encoding may damage. */
const odd = [
  "",
  "\0",
  "\ufeffé\r\n\u2028",
  "🙂",
  "\ud83d",
  "\ude42\ud83d",
  "\ud800a",
  "\ufffd",
  "ÿ\u0100",
  "'\"\\%_$1?"
]

/** A text without a repeating pattern. */
const long = (chars: number, alphabet: string): string => {
  let text = ""
  for (let n = 0; text.length < chars; n++) text += `${alphabet[n % alphabet.length]}${n}`
  return text.slice(0, chars)
}

/** The reason of an error, or the value. */
const reasonOr = <A>(effect: Effect.Effect<A, ArtifactStore.ArtifactError>) =>
  Effect.map(Effect.result(effect), (it) => Result.isFailure(it) ? it.failure.reason : it.success)

/** A store whose payloads have names. */
const named = (store: Store) => {
  const ids = new Map<string, string>()
  const textOf = (name: string, principal: string, chars: number) =>
    `${name} of ${principal} `.padEnd(chars, ".").slice(0, chars)
  const texts = new Map<string, string>()
  return {
    put: (principal: string, name: string, chars: number) => {
      const text = textOf(name, principal, chars)
      return Effect.map(reasonOr(store.put(owner(principal), text)), (it) => {
        if (typeof it === "string") return it
        ids.set(name, it.id)
        texts.set(name, text)
        return "kept"
      })
    },
    /** Which of these exist in full. */
    there: (principal: string, ...names: ReadonlyArray<string>) =>
      Effect.filter(
        names.filter((name) => ids.has(name)),
        (name) =>
          Effect.map(reasonOr(store.read(owner(principal), ids.get(name)!, whole)), (it) => {
            if (typeof it === "string") return false
            assert.equal(it.text, texts.get(name))
            return true
          })
      )
  }
}

const check = Contract.statement<Store, ArtifactStore.Options>

const all: ReadonlyArray<Contract.Statement<Store, ArtifactStore.Options>> = [
  check("gives back what was put, whole and in parts, character for character", function*(store) {
    for (const text of [...odd, odd.join("|"), long(10_000, "aé🙂")]) {
      const ref = yield* store.put(owner("p"), text)
      assert.equal(ref.chars, text.length)
      assert.deepEqual(yield* store.read(owner("p"), ref.id, whole), { text, chars: text.length })
      for (let offset = 0; offset <= Math.min(text.length, 12); offset++) {
        for (const length of [0, 1, 2, 5]) {
          assert.deepEqual(yield* store.read(owner("p"), ref.id, { offset, length }), {
            text: text.slice(offset, offset + length),
            chars: text.length
          })
        }
      }
    }
  }),
  check("reads any part of a payload of millions of characters, narrow or wide", function*(store) {
    for (const alphabet of ["az", "aé🙂"]) {
      const text = long(3_000_000, alphabet)
      const { chars, id } = yield* store.put(owner("p"), text)
      assert.equal(chars, 3_000_000)
      for (let offset = 0; offset < text.length; offset += 261_119) {
        const part = yield* store.read(owner("p"), id, { offset, length: 1_000 })
        assert.equal(part.text, text.slice(offset, offset + 1_000))
      }
      const rest = yield* store.read(owner("p"), id, { offset: 1_234_567, length: 4_000_000 })
      assert.equal(rest.text === text.slice(1_234_567), true)
    }
  }),
  check("gives what there is of a part that is not all there, or that makes no sense", function*(store) {
    const { id } = yield* store.put(owner("p"), "0123456789")
    const rows: ReadonlyArray<readonly [number, number, string]> = [
      [8, 5, "89"],
      [10, 5, ""],
      [99, 5, ""],
      [0, 0, ""],
      [3, -1, ""],
      [-3, 5, "01234"],
      [Number.NaN, 2, "01"],
      [2, Number.NaN, ""],
      [2, Infinity, "23456789"],
      [Infinity, 2, ""],
      [1.7, 2.9, "12"],
      [2 ** 53, 2 ** 53, ""]
    ]
    for (const [offset, length, text] of rows) {
      assert.deepEqual(
        yield* store.read(owner("p"), id, { offset, length }),
        { text, chars: 10 },
        `${offset}, ${length}`
      )
    }
  }),
  check("keeps equal payloads apart", function*(store) {
    const ids = yield* Effect.forEach([1, 2, 3], () => Effect.map(store.put(owner("p"), "same"), (it) => it.id))
    assert.equal(new Set(ids).size, 3)
  }),
  check("shows a payload to no other principal and no other batch, by no id", function*(store, later) {
    const { id } = yield* store.put(owner("p"), "secret")
    const notFound = (who: ArtifactStore.Owner, id: string) =>
      Effect.map(Effect.flip(store.read(who, id, whole)), (error) => {
        assert.deepEqual([error.reason, error.id], ["NotFound", id])
        assert.equal(error.message.includes("secret"), false)
      })
    const strangers = [
      owner("q"),
      owner("p", "c"),
      owner("q", "c"),
      owner("b", "p"),
      owner(""),
      owner("P"),
      owner("p ", "b")
    ]
    for (const stranger of strangers) yield* notFound(stranger, id)
    const tricks = [
      "",
      ".",
      "..",
      "/etc/passwd",
      "\0",
      "constructor",
      "%",
      "_".repeat(id.length),
      "x".repeat(100_000),
      "' OR '1'='1",
      `../${id}`,
      `./${id}`,
      `${id}/`,
      `${id}/../${id}`,
      `${id}\0`,
      `${id} `,
      ` ${id}`,
      `${id}0`,
      id.slice(0, -1),
      id.slice(4),
      id.toUpperCase()
    ]
    for (const trick of tricks) yield* notFound(owner("p"), trick)
    yield* later(60_000)
    // nor whether it ever existed
    for (const stranger of strangers) yield* notFound(stranger, id)
  }, { timeToLive: 60_000 }),
  check("tells owners of any text apart", function*(store) {
    const names = [...odd, "constructor", "__proto__", "../x", "a/b", "a", "b", "x".repeat(5_000), "[\"a\"]"]
    const owners = names.flatMap((
      principal
    ) => [owner(principal, "a"), owner(principal, "\ud801"), owner("a", principal)])
    const ids = yield* Effect.forEach(owners, (who, index) => Effect.map(store.put(who, `${index}`), (it) => it.id))
    for (const [index, id] of ids.entries()) {
      const { batch, principal } = owners[index]!
      assert.equal((yield* store.read({ batch, principal }, id, whole)).text, `${index}`)
      for (const other of owners) {
        if (other.batch === batch && other.principal === principal) continue
        assert.equal(yield* reasonOr(Effect.as(store.read(other, id, whole), "read")), "NotFound")
      }
    }
  }),
  check("keeps a payload for its time, and forgets it then", function*(store, later) {
    const { put, there } = named(store)
    yield* put("p", "a", 10)
    yield* later(2_400_000)
    yield* put("p", "b", 10)
    yield* put("q", "theirs", 10)
    yield* later(1_000_000)
    assert.equal(yield* store.prune, 0)
    assert.deepEqual(yield* there("p", "a", "b"), ["a", "b"])
    const { id } = yield* store.put(owner("r"), "late")
    yield* later(200_000)
    assert.deepEqual(yield* there("p", "a", "b"), ["b"])
    assert.equal(yield* store.prune, 1)
    assert.equal(yield* store.prune, 0)
    assert.deepEqual(yield* there("p", "a", "b"), ["b"])
    yield* later(3_400_000)
    assert.equal(yield* reasonOr(Effect.as(store.read(owner("r"), id, whole), "read")), "Expired")
    assert.equal(yield* store.prune, 3)
    const gone = yield* reasonOr(Effect.as(store.read(owner("r"), id, whole), "read"))
    assert.equal(["NotFound", "Expired"].includes(gone), true)
  }, { timeToLive: "1 hour" }),
  check("evicts the oldest of a principal above its characters, and no other principal's", function*(store) {
    const { put, there } = named(store)
    yield* put("q", "theirs", 90)
    for (const name of ["a", "b", "c", "d"]) assert.equal(yield* put("p", name, 30), "kept")
    assert.deepEqual(yield* there("p", "a", "b", "c", "d"), ["b", "c", "d"])
    assert.equal(yield* put("p", "e", 100), "kept")
    assert.deepEqual(yield* there("p", "b", "c", "d", "e"), ["e"])
    assert.equal(yield* put("p", "f", 101), "TooLarge")
    assert.deepEqual(yield* there("p", "e"), ["e"])
    assert.deepEqual(yield* there("q", "theirs"), ["theirs"])
  }, { maxChars: 100 }),
  check(
    "evicts the oldest of a principal above its count, and no other principal's, whatever its batches",
    function*(store) {
      const { put, there } = named(store)
      yield* put("q", "theirs", 10)
      const other = yield* store.put(owner("p", "other"), "other batch")
      for (const name of ["a", "b", "c"]) yield* put("p", name, 10)
      assert.deepEqual(yield* there("p", "a", "b", "c"), ["b", "c"])
      assert.equal(yield* reasonOr(Effect.as(store.read(owner("p", "other"), other.id, whole), "read")), "NotFound")
      for (let n = 0; n < 20; n++) yield* put("p", "d", 10)
      assert.deepEqual(yield* there("q", "theirs"), ["theirs"])
    },
    { maxCount: 2 }
  ),
  check("keeps nothing for anybody where it may keep none", function*(store) {
    assert.equal(yield* named(store).put("p", "a", 1), "TooLarge")
  }, { maxCount: 0 }),
  check("refuses a payload that others have left no room for, and takes none from them", function*(store, later) {
    const { put, there } = named(store)
    yield* put("q", "theirs", 90)
    yield* put("p", "a", 20)
    yield* later(1_800_000)
    // the principal's own are evicted first
    assert.equal(yield* put("p", "b", 20), "kept")
    assert.deepEqual(yield* there("p", "a", "b"), ["b"])
    assert.equal(yield* put("p", "c", 31), "Full")
    assert.equal(yield* put("r", "d", 11), "Full")
    assert.deepEqual(yield* there("p", "b"), ["b"])
    assert.deepEqual(yield* there("q", "theirs"), ["theirs"])
    yield* later(1_800_000)
    // the others have expired
    assert.equal(yield* put("p", "e", 100), "kept")
    assert.deepEqual(yield* there("p", "b", "e"), ["e"])
  }, { maxChars: 100, maxTotalChars: 120, timeToLive: "1 hour" }),
  check("keeps its bounds under concurrent puts, and every payload is whole", function*(store) {
    const { put, there } = named(store)
    yield* put("q", "theirs", 100)
    const names = Array.from({ length: 24 }, (_, index) => `n${index}`)
    yield* Effect.forEach(names, (name) => put("p", name, 30), { concurrency: "unbounded" })
    assert.equal((yield* there("p", ...names)).length, 5)
    assert.deepEqual(yield* there("q", "theirs"), ["theirs"])
    const many = Array.from({ length: 12 }, (_, index) => `p${index}`)
    yield* Effect.forEach(many, (name) => put(name, name, 30), { concurrency: "unbounded" })
    const kept = yield* Effect.filter(many, (name) => Effect.map(there(name, name), (it) => it.length > 0))
    assert.equal(100 + 5 * 30 + kept.length * 30 <= 400, true, `${kept.length} of 30 with 250 of 400`)
  }, { maxCount: 5, maxChars: 150, maxTotalChars: 400 }),
  check("gives a whole part or none while payloads go", function*(store) {
    const text = long(600_000, "aé")
    const { id } = yield* store.put(owner("p"), text)
    const read = Effect.repeat(
      Effect.map(reasonOr(store.read(owner("p"), id, { offset: 100, length: 500_000 })), (it) => {
        if (typeof it === "string") assert.equal(it, "NotFound")
        else assert.equal(it.text === text.slice(100, 500_100), true)
      }),
      { times: 10 }
    )
    yield* Effect.all([read, read, store.put(owner("p"), text), read], { concurrency: "unbounded", discard: true })
    assert.equal(yield* reasonOr(Effect.as(store.read(owner("p"), id, whole), "read")), "NotFound")
  }, { maxCount: 1 })
]
