/** A connection to PostgreSQL that is cut after so many bytes, anywhere in what is said. */
import * as PgClient from "@effect/sql-pg/PgClient"
import { SqlStateStore } from "effect-tool-executor/sql"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import { connect, createServer, type Socket } from "node:net"
import * as StateStore from "../../src/core/store/StateStore.ts"
import type { Found } from "./stateWorkers.ts"

/** Forwards to a server for the rest of the scope; cuts once, when so many bytes have passed in either direction. */
const proxy = (port: number) =>
  Effect.gen(function*() {
    const state = { left: Infinity, isSilent: false, passed: 0, cuts: 0 }
    const sockets = new Set<Socket>()
    const server = createServer((client) => {
      const upstream = connect(port, "127.0.0.1")
      let isOpen = true
      const pass = (to: Socket) => (data: Buffer) => {
        if (!isOpen) return
        state.passed += data.length
        const part = data.subarray(0, state.left)
        state.left -= data.length
        to.write(part)
        if (state.left > 0) return
        isOpen = false
        state.left = Infinity
        state.cuts++
        if (state.isSilent) return
        // what was let through arrives before the end
        to.end()
        client.destroySoon()
        upstream.destroySoon()
      }
      client.on("data", pass(upstream))
      upstream.on("data", pass(client))
      for (const [one, other] of [[client, upstream], [upstream, client]] as const) {
        sockets.add(one)
        one.on("error", () => undefined)
        one.once("close", () => {
          sockets.delete(one)
          other.destroy()
        })
      }
    })
    yield* Effect.acquireRelease(
      Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
      () =>
        Effect.sync(() => {
          server.close()
          for (const it of sockets) it.destroy()
        })
    )
    const address = server.address()
    return { state, port: typeof address === "object" && address !== null ? address.port : 0 }
  })

const unstarted = { started: false, key: "release", windowMillis: 0, value: undefined } as const
const started = { ...unstarted, started: true } as const

const slot = (batch: string, max: number): StateStore.Claim => ({ _tag: "Calls", batch, tool: "t", max })

/** Two calls of a batch, of which one runs. */
const use = Effect.fnUntraced(function*(store: StateStore.StateStore["Service"], batch: string) {
  const request = { owner: "a", session: "s", claims: [slot(batch, 2)] }
  const [one, other] = yield* store.reserve([request, request], 0)
  if (one === undefined || other === undefined || "_tag" in one || "_tag" in other) return "refused"
  if ((yield* store.start([one], 0)).length !== 1) return "not started"
  const settled = yield* Effect.all([store.settle(one, started, 0), store.settle(other, unstarted, 0)], {
    concurrency: 2
  })
  return settled.every(Boolean) ? undefined : "not settled"
})

const storeAt = (url: string, maxConnections: number) =>
  Layer.build(Layer.fresh(
    SqlStateStore.layer({ patience: "2 seconds" }).pipe(
      Layer.provideMerge(PgClient.layer({ url: Redacted.make(url), maxConnections, connectTimeout: "1 second" }))
    )
  ))

/** Cuts the connection so often, spread evenly over what is said when it is not cut; one in ten falls silent instead. */
export const cuts = (url: string, count: number) =>
  Effect.gen(function*() {
    const direct = yield* storeAt(url, 2)
    const through = yield* proxy(Number(new URL(url).port))
    // one that fell silent is given up by its pool after five seconds, no sooner
    const cut = yield* storeAt(url.replace(/:\d+\//, `:${through.port}/`), 20)
    const store = Context.get(cut, StateStore.StateStore)
    const { state } = through
    yield* use(store, "warm")
    state.passed = 0
    yield* use(store, "measured")
    const bytes = state.passed
    const problems: Array<string> = []
    for (let n = 0; n < count; n++) {
      const batch = `cut-${n}`
      const at = Math.floor(bytes * n / count)
      state.left = at + 1
      state.isSilent = n % 10 === 9
      const what = yield* use(store, batch).pipe(
        Effect.timeout("20 seconds"),
        Effect.match({ onFailure: (error) => `${error._tag} ${String(error.cause)}`, onSuccess: (it) => it })
      )
      if (what !== undefined) problems.push(`cut at byte ${at} of ${bytes}: ${what}`)
      const other = Context.get(direct, StateStore.StateStore)
      const [all, one] = [yield* other.check([slot(batch, 1)], 0), yield* other.check([slot(batch, 2)], 0)]
      if (all?._tag !== "CallsUsedUp" || one !== undefined) problems.push(`cut at byte ${at}: not one start is spent`)
    }
    const sql = Context.get(direct, SqlClient.SqlClient)
    const left = yield* sql`SELECT id FROM tool_executor_reservations`
    if (left.length > 0) problems.push(`${left.length} reservations are left`)
    if (state.cuts < count) problems.push(`${state.cuts} of ${count} cuts were made`)
    const found: Found = {
      summary: `${state.cuts} cuts over ${bytes} bytes, ${left.length} reservations left`,
      problems
    }
    return found
  }).pipe(Effect.scoped, Effect.orDie)
