/** Users, their tokens, and what a list of them may not be. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/testing/TestClock"
import { found } from "../../../src/internal/secrets/texts.ts"
import * as Access from "../../../src/server/users/Access.ts"
import * as Tokens from "../../../src/server/users/Tokens.ts"

const problems = (users: ReadonlyArray<Access.UserOptions>) =>
  Effect.map(Effect.flip(Access.make({ users })), (error) => error.problems.map((it) => `${it.path}: ${it.problem}`))

const hashOf = (text: string) => Tokens.hash(Redacted.make(text))

describe("a token", () => {
  it.effect("is another one each time, has 256 bits, and is known when it is typed with a mistake", () =>
    Effect.gen(function*() {
      const tokens = yield* Effect.replicateEffect(Effect.map(Tokens.make, Redacted.value), 50)
      assert.strictEqual(new Set(tokens).size, 50)
      for (const token of tokens) {
        assert.match(token, /^tex_[A-Za-z0-9]{49}$/)
        assert.isTrue(Tokens.isToken(token))
        const at = 4 + (token.charCodeAt(9) % 49)
        assert.isFalse(Tokens.isToken(token.slice(0, at) + (token[at] === "a" ? "b" : "a") + token.slice(at + 1)))
      }
    }))

  it.effect("does not stay in a text that is kept, nor does the page's cookie", () =>
    Effect.gen(function*() {
      const token = Redacted.value(yield* Tokens.make)
      const cookie = Tokens.secret("texs_")
      const { text } = found(`curl ${token}, then ${cookie}.`, () => false, true)
      assert.strictEqual(text, "curl [redacted], then [redacted].")
    }))
})

describe("a list of users", () => {
  it.effect("knows each token's user, and nobody by a hash", () =>
    Effect.gen(function*() {
      const access = yield* Access.make({
        users: [
          { name: "ada", run: true, approve: ["*"], tokens: [{ hash: hashOf("old") }, { hash: hashOf("new") }] },
          { name: "bob", tokens: [{ hash: hashOf("bob's") }] }
        ]
      })
      const nameOf = (token: string) =>
        Effect.map(access.userOf(Redacted.make(token)), (user) => Option.getOrUndefined(user)?.name)
      assert.deepStrictEqual(
        yield* Effect.forEach(["old", "new", "bob's", "other", "", hashOf("old")], nameOf),
        ["ada", "ada", "bob", undefined, undefined, undefined]
      )
      // by name: who is in the list, and may
      assert.deepStrictEqual(
        yield* Effect.forEach(["ada", "bob", "eve"], (name) => access.mayRun(name)),
        [true, false, false]
      )
      assert.deepInclude(Option.getOrThrow(yield* access.userOf(Redacted.make("bob's"))), {
        run: false,
        approve: [],
        records: [],
        operate: false
      })
    }))

  it.effect("forgets a token at its time, and not the other one of the same user", () =>
    Effect.gen(function*() {
      const access = yield* Access.make({
        users: [{ name: "ada", tokens: [{ hash: hashOf("short"), expiresAt: 1_000 }, { hash: hashOf("long") }] }]
      })
      yield* TestClock.setTime(999)
      assert.isTrue(Option.isSome(yield* access.userOf(Redacted.make("short"))))
      yield* TestClock.setTime(1_000)
      assert.isTrue(Option.isNone(yield* access.userOf(Redacted.make("short"))))
      assert.isTrue(Option.isSome(yield* access.userOf(Redacted.make("long"))))
    }))

  it.effect("is refused with everything that is wrong, and a token that stands there by mistake is not repeated", () =>
    Effect.gen(function*() {
      const token = Redacted.value(yield* Tokens.make)
      const found = yield* problems([
        { name: "a/b", tokens: [] },
        { name: "ada", tokens: [{ hash: hashOf("x") }, { hash: token, expiresAt: Number.NaN }] },
        { name: "ada", tokens: [{ hash: hashOf("x") }], approve: ["*", "", "a/b"] },
        { name: "*", tokens: [{ hash: hashOf("") }] }
      ])
      assert.deepStrictEqual(found, [
        "users[0].name: it is \"a/b\"",
        "users[0].tokens: there is none",
        "users[1].tokens[1].hash: it is not the hash of a token",
        "users[1].tokens[1].expiresAt: it is NaN",
        "users[2].name: ada is there twice",
        "users[2].tokens[0].hash: it is there twice",
        "users[2].approve[1]: it is \"\"",
        "users[2].approve[2]: it is \"a/b\"",
        "users[3].name: it is \"*\"",
        "users[3].tokens[0].hash: it is the hash of an empty text"
      ])
      assert.notInclude(found.join(), token)
    }))
})
