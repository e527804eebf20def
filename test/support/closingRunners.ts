/** Two runners that close at once, with sessions in memory, at a random moment. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import { connect } from "node:net"
import { randomFrom } from "../../src/testing/SeededRandom.ts"
import { message as call } from "./directoryWorld.ts"
import * as Postgres from "./Postgres.ts"
import * as Runners from "./serviceRunners.ts"
import * as World from "./serviceWorld.ts"

/** Lets go of its runner at no time: it connects to the port for other runners, and says nothing. */
const silent = (address: string) =>
  Effect.acquireRelease(
    Effect.callback<ReturnType<typeof connect>>((resume) => {
      const [host = "", port] = address.split(":")
      const socket = connect(Number(port), host, () => resume(Effect.succeed(socket)))
      socket.on("error", () => undefined)
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

/** How they close; the teardown of a killed one takes longer. */
export const ways = ["both", "with the scope", "while one starts", "while one is killed"] as const

/** Closes two runners, and looks whether anything of a session is held then. */
export const trial = (seed: number, way: typeof ways[number] | "without a database") =>
  Effect.gen(function*() {
    const around = yield* Effect.scope
    const random = randomFrom(seed)
    const url = yield* (yield* Postgres.Postgres).database
    const ledger = new World.Ledger()
    yield* Effect.scoped(Effect.gen(function*() {
      const start = (name: string) => Runners.start(url, ledger, name)
      const runners = yield* Effect.all([start("r0"), start("r1")], { concurrency: "unbounded" })
      for (const { status } of runners) {
        yield* Scope.provide(silent((yield* status.now).address ?? ""), around)
      }
      const clients = Array.from({ length: 12 }, (_, n) => {
        const owner = { user: `ada${n % 3}`, session: `s${n}` }
        const { directory } = runners[n % 2]!
        const does = random.pick(["work", "slow", "hang"] as const)
        const message = call([`s${n}`, random.pick(["pay", "note", "look"] as const), { key: `s${n}`, does }])
        const asking = Effect.andThen(directory.submit(owner, { wave: "w", message }), directory.result(owner, "w"))
        return Effect.delay(Effect.exit(asking), random.int(150))
      })
      yield* Effect.forkChild(Effect.all(clients, { concurrency: "unbounded", discard: true }))
      yield* Effect.sleep(random.int(400))
      if (way === "with the scope") return
      if (way === "without a database") runners[0]!.proxy.cut()
      yield* Effect.all([
        way === "while one is killed" ? runners[0]!.kill : runners[0]!.close,
        runners[1]!.close,
        way === "while one starts" ? Effect.flatMap(start("r2"), ({ close }) => close) : Effect.void
      ], { concurrency: "unbounded" })
      for (const { life, status } of runners) {
        if (life.diedAt === undefined) assert.strictEqual((yield* status.now).sessions, 0)
      }
    }))
    ledger.freeAll()
  }).pipe(Effect.scoped)
