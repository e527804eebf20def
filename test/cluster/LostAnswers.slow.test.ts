/** Two runners that share a PostgreSQL, where answers between them are lost, or a table is away. */
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SessionDirectory } from "../../src/server/sessions/SessionDirectory.ts"
import { Env, eventually, message, world } from "../support/directoryWorld.ts"
import * as Postgres from "../support/Postgres.ts"
import { runner } from "../support/twoRunners.ts"

/** A way between the runners that loses the answer to the next message of a name, once its runner has done it. */
const lossy = () => {
  const state = { sent: 0, lost: 0, loses: "" }
  const fetch: typeof globalThis.fetch = async (url, init) => {
    const response = await globalThis.fetch(url, init)
    state.sent++
    const sent = init?.body instanceof Uint8Array ? new TextDecoder().decode(init.body) : String(init?.body)
    if (state.loses === "" || !sent.includes(`"tag":"${state.loses}"`)) return response
    await response.text()
    state.loses = ""
    state.lost++
    throw new TypeError("the connection is lost")
  }
  return { fetch, state }
}

const make = Effect.gen(function*() {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "lost-"))),
    (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
  )
  const tools = yield* world(folder)
  const url = yield* (yield* Postgres.Postgres).database
  const { fetch, state } = lossy()
  const start = Effect.gen(function*() {
    const scope = yield* Scope.make()
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    const services = yield* Layer.buildWithScope(runner(url, tools, folder, {}), scope)
    return { at: Context.get(services, SessionDirectory), close: Scope.close(scope, Exit.void) }
  })
  const runners = yield* Effect.provideService(
    Effect.all([start, start], { concurrency: "unbounded" }),
    FetchHttpClient.Fetch,
    fetch
  )
  const sql = Context.get(yield* Layer.build(Postgres.clientOf(url)), SqlClient.SqlClient)
  // sessions stay where they are once both have their part of the shards
  const shards = sql<{ readonly count: number }>`
    SELECT count(*)::int AS count FROM tool_executor_shards GROUP BY runner`
  yield* eventually(() => shards, (parts) => parts.length === 2 && parts.every(({ count }) => count === 60))
  const env = (...directories: ReadonlyArray<SessionDirectory["Service"]>) =>
    new Env(tools, { directories: directories as [SessionDirectory["Service"]], between: () => Effect.void })
  /** A user, and the runners: the first holds their session, and the other passes its requests on. */
  const session = Effect.gen(function*() {
    const [one, two] = runners
    const it = env(one.at)
    yield* it.at.tools(it.owner)
    const { sent } = state
    yield* one.at.tools(it.owner)
    const [here, there] = state.sent === sent ? [one, two] : [two, one]
    return { env: it, here, there }
  })
  return { session, sql, state }
})

class Runners extends Context.Service<Runners, Effect.Success<typeof make>>()("test/cluster/LostAnswers/Runners") {}

layer(Layer.effect(Runners, make).pipe(Layer.provide(Postgres.layer)), {
  timeout: "60 seconds",
  excludeTestServices: true
})("two runners", (it) => {
  const once = Effect.fnUntraced(function*<A>(
    name: string,
    asked: Effect.Effect<A, { readonly _tag: string }>
  ) {
    const { state } = yield* Runners
    const { lost } = state
    state.loses = name
    const answer = yield* asked
    assert.strictEqual(state.lost, lost + 1, `no answer to ${name} was lost`)
    assert.strictEqual((yield* Effect.flip(asked))._tag, "NotFound")
    return answer
  })

  it.effect("end a turn, and a session, whose first answer is lost", () =>
    Effect.gen(function*() {
      const { env, there } = yield* (yield* Runners).session
      yield* there.at.submit(env.owner, { wave: "w", turn: "t", message: message(["c1", "look", { key: "a" }]) })
      yield* there.at.result(env.owner, "w")
      yield* once("endTurn", there.at.endTurn(env.owner, "t"))
      yield* once("endSession", there.at.endSession(env.owner))
    }), { tags: ["CL1", "CL2"] })

  it.effect("revoke a grant where the first answer is lost", () =>
    Effect.gen(function*() {
      const { env, there } = yield* (yield* Runners).session
      yield* there.at.submit(env.owner, { wave: "w", message: message(["c1", "pay", { key: env.key("a") }]) })
      yield* env.answer({ _tag: "ApproveForScope" })
      yield* there.at.result(env.owner, "w")
      const [grant] = yield* there.at.grants(env.boss)
      yield* once("revoke", there.at.revoke(env.owner, grant!.id))
      assert.deepStrictEqual(yield* there.at.grants(env.boss), [])
    }))

  it.effect("undo a write where the first answer is lost, and say what that did", () =>
    Effect.gen(function*() {
      const { env, there } = yield* (yield* Runners).session
      const path = `${env.owner.user}.txt`
      const write = message(["c1", "write_file", { path, content: "written\n" }])
      yield* there.at.submit(env.owner, { wave: "w", message: write })
      yield* there.at.result(env.owner, "w")
      const [checkpoint] = yield* there.at.checkpoints(env.owner)
      const { steps } = yield* once("undo", there.at.undo(env.owner, checkpoint!.id, false))
      assert.deepStrictEqual(steps, [{ path, action: "remove" }])
    }))

  it.effect("keep a request while its table is away and its session moves", () =>
    Effect.gen(function*() {
      const { session, sql } = yield* Runners
      const { env, here, there } = yield* session
      yield* here.at.submit(env.owner, { wave: "w", message: message(["c1", "pay", { key: env.key("a") }]) })
      const open = Effect.map(there.at.approvals(env.boss), ({ open }) => open)
      const [before] = yield* eventually(() => open, (it) => it.length === 1)
      yield* sql`ALTER TABLE tool_executor_approvals RENAME TO away`
      yield* here.close
      // it has been resumed by then, and waits
      yield* eventually(() => there.at.wave(env.owner, "w"), ({ status }) => status === "running")
      yield* sql`ALTER TABLE away RENAME TO tool_executor_approvals`
      const [request] = yield* open
      assert.strictEqual(request!.id, before!.id)
      const answer = { _tag: "ApproveOnce" } as const
      yield* there.at.answer(env.boss, { id: request!.id, hash: request!.hash, answer })
      const { messages } = yield* there.at.result(env.owner, "w")
      assert.include(JSON.stringify(messages), `paid ${env.key("a")}`)
      assert.strictEqual(env.runsOf("a"), 1)
    }), 30_000)
})
