/** Executors of sessions that another process takes by force, while calls run. */
import { assert, layer } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import { ExecutorSettings, ToolContext } from "../../src/index.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import { call, open, tags, type ToolSpec } from "../support/Harness.ts"
import * as Postgres from "../support/Postgres.ts"
import { until } from "../support/silentProxy.ts"

/** What calls wait for, by principal, and which of their writes have landed. */
const world = () => {
  const ran: Array<string> = []
  const landed: Array<{ readonly principal: string; readonly name: string; readonly isLate: boolean }> = []
  const gates = new Map<string, () => void>()
  /** Sessions whose activation elsewhere has ended. */
  const taken = new Set<string>()
  const specs = (name: string, principal: string): Record<string, ToolSpec> => ({
    write: {
      class: "ConcurrentMut",
      handler: ({ waits }) =>
        Effect.gen(function*() {
          const { commit } = yield* ToolContext.ToolContext
          ran.push(`${principal} in ${name}`)
          if (waits === true) {
            yield* Effect.callback<void>((resume) => void gates.set(principal, () => resume(Effect.void)))
          }
          yield* commit(Effect.sync(() => landed.push({ principal, name, isLate: taken.has(principal) })))
          return name
        })
    }
  })
  return { ran, landed, taken, specs, open: (principal: string) => gates.get(principal)?.() }
}

layer(Postgres.layer)("sessions whose owner is forced out", (it) => {
  /** Two processes over a database; their leases count by real time. */
  const processes = Effect.gen(function*() {
    const url = yield* (yield* Postgres.Postgres).database
    const sql = Context.get(
      yield* Layer.build(Layer.fresh(Postgres.clientOf(url).pipe(Layer.provide(Postgres.realTime)))),
      SqlClient.SqlClient
    )
    const it = world()
    const start = (name: string) =>
      Effect.gen(function*() {
        const registry = yield* Effect.provide(
          SqlSessionRegistry.make({ lease: "900 millis" }),
          Postgres.realTime
        )
        const stores = Effect.provideService(
          Effect.all([SqlJournal.make(), SqlStateStore.make()]),
          SessionRegistry,
          registry
        )
        const [journal, store] = yield* stores
        const activate = (principal: string) => Effect.provide(registry.activate(principal), Postgres.realTime)
        /** An executor of a session; every other one has nothing that could be lost but its session. */
        const executor = (principal: string, isBare = false) =>
          Effect.map(
            open(it.specs(name, principal), { journal, store, ...isBare ? { dedupe: false } : {} }).pipe(
              Effect.provide(ExecutorSettings.layer({ principal }))
            ),
            ({ executor }) => executor.process({ batch: "b" })
          ).pipe(Effect.flatten)
        return { registry, activate, executor }
      }).pipe(Effect.provideService(SqlClient.SqlClient, sql))
    return { ...it, one: yield* start("one"), two: yield* start("two") }
  })

  const wave = [call("a", "write", { waits: true })]

  it.effect("have no write of it behind the next owner's activation", () =>
    Effect.gen(function*() {
      const { landed, one, open: go, ran, taken, two } = yield* processes
      const all = Array.from({ length: 20 }, (_, n) => `ann/${n}`)
      const running = yield* Effect.forEach(all, (principal, n) =>
        Effect.gen(function*() {
          yield* one.activate(principal)
          const process = yield* one.executor(principal, n % 2 === 0)
          return yield* Effect.forkChild(process.executeWave(wave))
        }))
      yield* until(Effect.sync(() => ran.length === all.length))
      const taking = yield* Effect.forEach(all, (principal, n) =>
        Effect.forkChild(Effect.tap(two.activate(principal), () =>
          Effect.sync(() => {
            taken.add(principal)
            if (n % 4 > 0) {
              go(principal)
            }
          }))))
      // these want to write while their session is taken
      for (const [n, principal] of all.entries()) {
        if (n % 4 === 0) {
          go(principal)
        }
      }
      yield* Effect.forEach(taking, Fiber.join)
      const results = yield* Effect.forEach(running, Fiber.join)
      assert.deepStrictEqual(
        landed.filter((it) =>
          it.isLate
        ),
        []
      )
      const written = new Set(landed.map((it) => it.principal))
      for (const [n, result] of results.entries()) {
        if (!written.has(all[n]!)) assert.deepStrictEqual(tags(result), ["Unknown"])
      }
      // the next owner runs nothing a second time
      const process = yield* two.executor(all[1]!)
      assert.deepStrictEqual(tags(yield* process.resume(wave)), ["Unknown"])
      assert.lengthOf(ran, all.length)
    }).pipe(Effect.scoped, Effect.provide(Postgres.realTime)), { tags: ["SE2"] })

  it.effect("end in it at once, and leave its other sessions alone", () =>
    Effect.gen(function*() {
      const { landed, one, open: go, ran, two } = yield* processes
      const [lost, kept] = ["ann/lost", "ann/kept"] as const
      yield* one.activate(lost)
      yield* one.activate(kept)
      const scope = yield* Scope.make()
      const losing = yield* Scope.provide(one.executor(lost), scope)
      const keeping = yield* one.executor(kept)
      const running = yield* Effect.forEach([losing, keeping], (it) => Effect.forkChild(it.executeWave(wave)))
      yield* until(Effect.sync(() => ran.length === 2))
      yield* two.activate(lost)
      go(lost)
      go(kept)
      const [first, second] = yield* Effect.forEach(running, Fiber.join)
      assert.deepStrictEqual([tags(first!), tags(second!)], [["Unknown"], ["Succeeded"]])
      // nothing of it starts any more
      assert.deepStrictEqual(tags(yield* losing.executeWave([call("b", "write")])), ["Unknown"])
      assert.lengthOf(ran, 2)
      // the clock of the test stands still: it does not wait for another try
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(tags(yield* keeping.executeWave([call("c", "write")])), ["Succeeded"])
      assert.deepStrictEqual(landed.map(({ name, principal }) => `${principal} in ${name}`), [
        `${kept} in one`,
        `${kept} in one`
      ])
      const process = yield* two.executor(lost)
      assert.deepStrictEqual(tags(yield* process.executeWave([call("d", "write")])), ["Succeeded"])
    }).pipe(Effect.scoped), { tags: ["SE3"] })
})
