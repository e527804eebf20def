/** Sentences about approval requests and grants. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { type Env, eventually, message, type Sentence } from "./directoryWorld.ts"

const pay = (env: Env, ...keys: ReadonlyArray<string>) =>
  message(...keys.map((key, index) => [`c${index}`, "pay", { key: env.key(key) }] as const))

export const sentences: ReadonlyArray<Sentence> = [
  ["a request has its arguments and its diff, and its call runs once it is approved", (env) =>
    Effect.gen(function*() {
      const path = env.key("file")
      const save = message(["c1", "save", { path, text: "after\n" }])
      yield* env.at.submit(env.owner, { wave: "w", message: save })
      const [summary] = yield* env.pending()
      assert.deepInclude(summary, { ...env.owner, tool: "save", callId: "c1" })
      yield* env.between
      const request = yield* env.at.approval(env.boss, summary!.id)
      assert.deepInclude(request, { args: { path, text: "after\n" }, hash: summary!.hash })
      if ("preview" in request && request.preview?._tag === "Files") {
        const part = { id: summary!.id, index: 0, from: 0 } as const
        assert.deepEqual((yield* env.at.approvalPart(env.boss, { ...part, side: "before" })).text, "before\n")
        assert.deepEqual((yield* env.at.approvalPart(env.boss, { ...part, side: "after" })).text, "after\n")
      } else assert.include(JSON.stringify(request), "+after")
      assert.strictEqual(env.runsOf("file"), 0)
      yield* env.answer({ _tag: "ApproveOnce" })
      yield* env.at.result(env.owner, "w")
      assert.strictEqual(env.runsOf("file"), 1)
    })],

  [
    "a request returns under its id, and is answered with its hash, after the session was closed or moved",
    (env) =>
      Effect.gen(function*() {
        yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a") })
        const [before] = yield* env.pending()
        yield* env.between
        const [after] = yield* env.pending()
        assert.strictEqual(after!.id, before!.id)
        const answer = { id: before!.id, hash: before!.hash, answer: { _tag: "ApproveOnce" } } as const
        assert.deepInclude(yield* env.at.answer(env.boss, answer), { how: "approved", by: env.boss.name })
        yield* env.at.result(env.owner, "w")
        assert.strictEqual(env.runsOf("a"), 1)
      })
  ],

  ["the second answer is told who was first and what they said", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a") })
      const [request] = yield* env.pending()
      yield* env.between
      const answer = { id: request!.id, hash: request!.hash }
      yield* env.at.answer(env.boss, { ...answer, answer: { _tag: "ApproveOnce" } })
      const second = { ...env.boss, name: `${env.boss.name}-2` }
      const refused = yield* Effect.flip(env.at.answer(second, { ...answer, answer: { _tag: "Deny" } }))
      assert.deepInclude(refused, { _tag: "AlreadyEnded", id: request!.id, how: "approved", by: env.boss.name })
      yield* env.between
      yield* env.at.result(env.owner, "w")
      assert.strictEqual(env.runsOf("a"), 1)
      const resolved = yield* env.at.approval(env.boss, request!.id)
      assert.deepInclude(resolved, { how: "approved", by: env.boss.name })
    })],

  ["of four answers at the same moment one counts", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a") })
      const [request] = yield* env.pending()
      yield* env.between
      const answers = yield* Effect.forEach(
        Array.from({ length: 4 }, (_, index) => [index, env.at] as const),
        ([index, at]) =>
          Effect.exit(at.answer({ ...env.boss, name: `${env.boss.name}-${index}` }, {
            id: request!.id,
            hash: request!.hash,
            answer: { _tag: "ApproveOnce" }
          })),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(answers.filter(Exit.isSuccess), 1)
      yield* env.at.result(env.owner, "w")
      assert.strictEqual(env.runsOf("a"), 1)
    })],

  ["an answer to other content than the request has is refused", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a") })
      const [request] = yield* env.pending()
      yield* env.between
      const wrong = {
        id: request!.id,
        hash: "0".repeat(request!.hash.length),
        answer: { _tag: "ApproveOnce" }
      } as const
      assert.strictEqual((yield* Effect.flip(env.at.answer(env.boss, wrong)))._tag, "NotAnswered")
      assert.strictEqual(env.runsOf("a"), 0)
      assert.lengthOf(yield* env.pending(), 1)
    })],

  ["a request does not exist for those who may not answer it", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a") })
      const [request] = yield* env.pending()
      yield* env.between
      for (const user of [env.user, env.stranger]) {
        assert.lengthOf((yield* env.at.approvals(user)).open, 0)
        assert.strictEqual((yield* Effect.flip(env.at.approval(user, request!.id)))._tag, "NotFound")
        const answer = { id: request!.id, hash: request!.hash, answer: { _tag: "ApproveOnce" } } as const
        assert.strictEqual((yield* Effect.flip(env.at.answer(user, answer)))._tag, "NotFound")
      }
      assert.strictEqual(env.runsOf("a"), 0)
    })],

  ["the model reads why a call was denied", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a") })
      yield* env.pending()
      yield* env.between
      yield* env.answer({ _tag: "Deny", reason: "far too much" })
      assert.include(JSON.stringify((yield* env.at.result(env.owner, "w")).messages), "far too much")
      assert.strictEqual(env.runsOf("a"), 0)
    })],

  ["arguments that the approver edits are those that run", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a") })
      yield* env.pending()
      yield* env.between
      yield* env.answer({ _tag: "ApproveOnce", params: { key: env.key("b") } })
      yield* env.at.result(env.owner, "w")
      assert.deepEqual([env.runsOf("a"), env.runsOf("b")], [0, 1])
    })],

  ["several requests are answered together, or none of them", (env) =>
    Effect.gen(function*() {
      yield* Effect.forEach(["a", "b"], (it) => env.at.submit(env.owner, { wave: it, message: pay(env, it) }))
      const open = yield* env.pending(2)
      yield* env.between
      const given = open.map(({ hash, id }) => ({ id, hash, answer: { _tag: "ApproveOnce" } as const }))
      const stale = [given[0]!, { ...given[1]!, hash: "0".repeat(given[1]!.hash.length) }]
      assert.strictEqual((yield* Effect.flip(env.at.answerAll(env.boss, stale)))._tag, "NotAnswered")
      const unknown = [given[0]!, { ...given[1]!, id: "nobody" }]
      assert.strictEqual((yield* Effect.flip(env.at.answerAll(env.boss, unknown)))._tag, "NotFound")
      assert.lengthOf(yield* env.pending(2), 2)
      assert.lengthOf(yield* env.at.answerAll(env.boss, given), 2)
      yield* Effect.forEach(["a", "b"], (it) => env.at.result(env.owner, it))
      assert.deepEqual([env.runsOf("a"), env.runsOf("b")], [1, 1])
    })],

  ["an approval for the session becomes a grant, until it is revoked", (env) =>
    Effect.gen(function*() {
      const { owner } = env
      yield* env.at.submit(owner, { wave: "first", message: pay(env, "a") })
      yield* env.answer({ _tag: "ApproveForScope", scope: "tool" })
      yield* env.at.result(owner, "first")
      yield* env.between
      yield* env.at.submit(owner, { wave: "second", message: pay(env, "b") })
      yield* env.at.result(owner, "second")
      assert.strictEqual(env.runsOf("b"), 1)
      const [grant, ...others] = yield* env.at.grants(env.boss)
      assert.deepEqual(others, [])
      assert.deepInclude(grant, { ...owner, tool: "pay", answer: "ApproveForScope" })
      assert.deepEqual(yield* env.at.grants(env.stranger), [])
      assert.strictEqual((yield* Effect.flip(env.at.revoke(env.theirs, grant!.id)))._tag, "NotFound")
      yield* env.between
      yield* env.at.revoke(owner, grant!.id)
      assert.deepEqual(yield* env.at.grants(env.boss), [])
      assert.strictEqual((yield* Effect.flip(env.at.revoke(owner, grant!.id)))._tag, "NotFound")
      yield* env.at.submit(owner, { wave: "third", message: pay(env, "c") })
      yield* env.answer({ _tag: "Deny" })
      yield* env.at.result(owner, "third")
      assert.strictEqual(env.runsOf("c"), 0)
    })],

  ["an answer applies to other requests that it covers", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a", "b") })
      const [request] = yield* eventually(
        () => Effect.map(env.at.approvals(env.boss), ({ open }) => open),
        (open) => open.length >= 1
      )
      yield* env.between
      const answer = { _tag: "ApproveForScope", scope: "tool" } as const
      yield* env.at.answer(env.boss, { id: request!.id, hash: request!.hash, answer })
      yield* env.at.result(env.owner, "w")
      assert.deepEqual([env.runsOf("a"), env.runsOf("b")], [1, 1])
    })]
]
