/** Sentences about the journal and about undoing writes. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { message, type Sentence } from "./directoryWorld.ts"

export const sentences: ReadonlyArray<Sentence> = [
  ["the journal is read in pages, by those who may", (env) =>
    Effect.gen(function*() {
      yield* Effect.forEach(["a", "b", "c"], (key) =>
        env.at.submit(env.owner, { wave: key, message: message(["c1", "pay", { key: env.key(key) }]) }))
      const open = yield* env.pending(3)
      const given = open.map(({ hash, id }) => ({ id, hash, answer: { _tag: "ApproveOnce" } as const }))
      yield* env.at.answerAll(env.boss, given)
      yield* Effect.forEach(["a", "b", "c"], (key) =>
        env.at.result(env.owner, key))
      yield* env.between
      const query = { user: env.owner.user }
      const { entries } = yield* env.at.journal(env.boss, query)
      assert.isAtLeast(entries.length, 3)
      const first = yield* env.at.journal(env.boss, { ...query, limit: 2 })
      const rest = yield* env.at.journal(env.boss, { ...query, before: first.next! })
      assert.deepEqual([...first.entries, ...rest.entries], entries)
      assert.deepEqual((yield* env.at.journal(env.stranger, query)).entries, [])
      const { calls } = yield* env.at.journalCalls(env.boss, { ...query, state: "succeeded" })
      assert.deepEqual(calls.map(({ tool }) => tool), ["pay", "pay", "pay"])
      const detail = yield* env.at.journalCall(env.boss, calls[0]!.place)
      assert.deepInclude(detail, { tool: "pay", state: "succeeded" })
      assert.deepInclude(detail.decidedBy, { kind: "person", name: env.boss.name })
      assert.strictEqual((yield* Effect.flip(env.at.journalCall(env.stranger, calls[0]!.place)))._tag, "NotFound")
      assert.strictEqual((yield* Effect.flip(env.at.journal(env.boss, { limit: 0 })))._tag, "Invalid")
    })],

  ["a write is undone by its owner, once, and its plan says before what that does", (env) =>
    Effect.gen(function*() {
      const path = `${env.owner.user}.txt`
      const write = message(["c1", "write_file", { path, content: "written\n" }])
      yield* env.at.submit(env.owner, { wave: "w", message: write })
      assert.strictEqual((yield* env.at.result(env.owner, "w")).status, "ended")
      yield* env.between
      const [checkpoint, ...others] = yield* env.at.checkpoints(env.owner)
      assert.deepEqual(others, [])
      assert.deepInclude(checkpoint, { tool: "write_file", paths: [path] })
      assert.deepEqual(yield* env.at.checkpoints(env.theirs), [])
      assert.strictEqual((yield* Effect.flip(env.at.undo(env.theirs, checkpoint!.id, true)))._tag, "NotFound")
      const plan = yield* env.at.undoPlan(env.owner, checkpoint!.id)
      assert.deepEqual(plan.steps, [{ path, action: "remove" }])
      yield* env.at.undo(env.owner, checkpoint!.id, false)
      yield* env.between
      assert.strictEqual((yield* Effect.flip(env.at.undo(env.owner, checkpoint!.id, true)))._tag, "NotFound")
    })]
]
