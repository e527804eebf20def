/** Sessions over PostgreSQL rows, in one process after another and in two at once. */
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { SessionRegistry } from "../../../src/core/store/SessionRegistry.ts"
import { PendingApprovals } from "../../../src/server/approvals/PendingApprovals.ts"
import { SessionHost } from "../../../src/server/sessions/SessionHost.ts"
import { type Owner, toPrincipal } from "../../../src/server/users/Principals.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import type { ToolSpec } from "../../support/Harness.ts"
import * as Postgres from "../../support/Postgres.ts"
import { message, shared } from "../../support/Served.ts"

const bob = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

/** A process of a cluster. */
const runner = Effect.fnUntraced(function*(url: string, ran: Array<string>) {
  const noting = (name: string, first: Effect.Effect<void> = Effect.void): ToolSpec["handler"] => ({ index }) =>
    Effect.andThen(first, Effect.sync(() => (ran.push(`${name} ${String(index)}`), name)))
  const tools = {
    save: { class: "SerialMut", handler: noting("save") },
    look: { class: "ReadOnly", handler: noting("look") },
    slow: { class: "ReadOnly", handler: noting("slow", Effect.sleep("1 hour")) }
  } as const
  const context = yield* Layer.build(Layer.fresh(shared(url, tools, { policy: { default: "allow", ask: ["save"] } })))
  const [host, waves, approvals, registry] = [
    Context.get(context, SessionHost),
    Context.get(context, Waves),
    Context.get(context, PendingApprovals),
    Context.get(context, SessionRegistry)
  ]
  /** Holds a session until nothing of it runs. */
  const serve = Effect.fnUntraced(function*<A, E>(owner: Owner, program: Effect.Effect<A, E>) {
    const epoch = yield* registry.activate(toPrincipal(owner))
    yield* host.open(owner)
    const result = yield* program
    yield* host.idle(owner)
    yield* registry.release(epoch, yield* host.close(owner))
    return result
  })
  return { host, waves, approvals, registry, serve }
})

type Runner = Effect.Success<ReturnType<typeof runner>>

const approve = Effect.fnUntraced(function*({ approvals }: Runner, { session, user }: Owner) {
  for (const it of (yield* approvals.list(bob)).open) {
    if (it.user !== user || it.session !== session) continue
    yield* approvals.answer(bob, { id: it.id, hash: it.hash, answer: { _tag: "ApproveOnce" } })
  }
})

const megabytes = Effect.promise(async () => {
  setFlagsFromString("--expose-gc")
  const gc = runInNewContext("gc") as () => void
  for (let n = 0; n < 5; n++) {
    gc()
    await new Promise((resolve) => setImmediate(resolve))
  }
  return process.memoryUsage().heapUsed / 1024 / 1024
})

/** Sessions that wait. */
const waiting = Number(process.env["WAITING"] ?? 1_000)

layer(Postgres.layer, { excludeTestServices: true })("sessions over PostgreSQL", (it) => {
  const test = <A, E>(
    name: string,
    program: (url: string) => Effect.Effect<A, E, Scope.Scope>,
    options?: { tags: Array<string> }
  ) =>
    it.effect(name, () =>
      Effect.scoped(Effect.gen(function*() {
        return yield* program(yield* (yield* Postgres.Postgres).database)
      })), { timeout: 600_000, ...options })

  test("are answered in one process while none holds them, and continue in another", (url) =>
    Effect.gen(function*() {
      const ran: Array<string> = []
      const [one, two] = [yield* runner(url, ran), yield* runner(url, ran)]
      const owner = { user: "ada", session: "s" }
      yield* one.serve(owner, one.waves.submit(owner, { message: message("look", "save"), wave: "w" }))
      assert.deepStrictEqual(yield* one.waves.list, [])
      yield* approve(two, owner)
      const wave = yield* two.serve(
        owner,
        Effect.gen(function*() {
          return yield* Option.getOrThrow(yield* two.waves.get(owner, "w")).ended
        })
      )
      assert.strictEqual(wave.status, "ended")
      assert.deepStrictEqual(ran, ["look 0", "save 1"])
    }))

  test("continue with an answer, also if they are closed as soon as they are opened", (url) =>
    Effect.gen(function*() {
      const ran: Array<string> = []
      const [one, two] = [yield* runner(url, ran), yield* runner(url, ran)]
      const owner = { user: "ada", session: "s" }
      yield* one.serve(owner, one.waves.submit(owner, { message: message("save", "look"), wave: "w" }))
      yield* approve(two, owner)
      yield* two.serve(owner, Effect.void)
      assert.deepStrictEqual(ran, ["save 0", "look 1"])
    }))

  test("are ended with their turns, also after they have left memory", (url) =>
    Effect.gen(function*() {
      const [one, two] = [yield* runner(url, []), yield* runner(url, [])]
      const owner = { user: "ada", session: "s" }
      yield* one.serve(owner, one.waves.submit(owner, { message: message("look"), wave: "w", turn: "t" }))
      assert.isTrue(yield* two.serve(owner, two.waves.endSession(owner)))
      assert.isFalse(yield* one.serve(owner, one.waves.endTurn(owner, "t")))
      assert.isFalse(
        yield* one.serve({ user: "bob", session: "s" }, one.waves.endSession({ user: "bob", session: "s" }))
      )
    }))

  test(
    "that another process takes are lost at once, and nothing of them is written or run twice",
    (url) =>
      Effect.gen(function*() {
        const ran: Array<string> = []
        const [one, two] = [yield* runner(url, ran), yield* runner(url, ran)]
        const owners = Array.from({ length: 20 }, (_, n) => ({ user: "ada", session: `s${n}` }))
        yield* Effect.forEach(
          owners,
          Effect.fnUntraced(function*(owner) {
            const epoch = yield* one.registry.activate(toPrincipal(owner))
            epoch.onOver(() => Effect.runFork(one.host.lose(owner, "another process has taken the session")))
            yield* one.waves.submit(owner, { message: message("look", "save", "save"), wave: owner.session })
            yield* one.host.idle(owner)
            // the first call is approved where the session is, and here as well
            yield* Effect.all([
              approve(one, owner),
              Effect.gen(function*() {
                yield* two.registry.activate(toPrincipal(owner))
                yield* two.host.open(owner)
              })
            ], { concurrency: 2 })
            yield* Effect.gen(function*() {
              const handle = Option.getOrThrow(yield* two.waves.get(owner, owner.session))
              while ((yield* handle.info).status !== "ended") {
                yield* two.host.idle(owner)
                yield* approve(two, owner)
                yield* Effect.sleep("20 millis")
              }
            })
          }),
          { concurrency: 10, discard: true }
        )
        yield* Effect.sleep("100 millis")
        assert.deepStrictEqual(yield* one.waves.counts, { sessions: 0, waves: 0 })
        assert.strictEqual(ran.filter((it) => it === "save 1").length, owners.length)
        assert.strictEqual(ran.filter((it) => it === "save 2").length, owners.length)
      }),
    { tags: ["SV31"] }
  )

  test(`add at most 5 MB of heap after ${waiting} of them wait for people`, (url) =>
    Effect.gen(function*() {
      const one = yield* runner(url, [])
      const serve = (from: number, to: number) =>
        Effect.forEach(
          Array.from({ length: to - from }, (_, n) => ({ user: `user${(from + n) % 50}`, session: `s${from + n}` })),
          (owner) => one.serve(owner, one.waves.submit(owner, { message: message("save"), wave: "w" })),
          { concurrency: 20, discard: true }
        )
      yield* serve(0, 500)
      const before = yield* megabytes
      yield* serve(500, 500 + waiting)
      const after = yield* megabytes
      console.log(`${waiting} sessions that wait for people: heap ${before.toFixed(1)} MB, then ${after.toFixed(1)} MB`)
      assert.deepStrictEqual(yield* one.waves.counts, { sessions: 0, waves: 0 })
      assert.isBelow(after - before, 5)
    }), { tags: ["SV30"] })
})
