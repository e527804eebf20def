/** A way to a server on which connections fall silent without being closed, as after a failover. */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as TestClock from "effect/testing/TestClock"
import { connect, createServer, type Socket } from "node:net"
import * as Postgres from "./Postgres.ts"

interface Link {
  readonly client: Socket
  readonly upstream: Socket
  isSilent: boolean
  /** It was opened while nothing answered. */
  readonly isNew: boolean
  /** What the server is told late. */
  held: Array<Buffer> | undefined
  /** Nothing of what the server answers arrives. */
  isDeaf: boolean
}

/** Forwards to a server for the rest of the scope. */
export const make = (port: number) =>
  Effect.gen(function*() {
    const links = new Set<Link>()
    const state = { isDown: false, isCut: false, lateMillis: 0, swallowed: 0, opened: 0 }
    /** Passes something on, late where the way is slow. */
    const pass = (to: Socket, data: Buffer): void => {
      if (state.lateMillis === 0) to.write(data)
      else setTimeout(() => to.write(data), state.lateMillis)
    }
    const server = createServer((client) => {
      state.opened++
      if (state.isCut) return void client.destroy()
      const upstream = connect(port, "127.0.0.1")
      const link: Link = {
        client,
        upstream,
        isSilent: state.isDown,
        isNew: state.isDown,
        held: undefined,
        isDeaf: false
      }
      links.add(link)
      client.on("data", (data: Buffer) => {
        if (link.isSilent || link.held !== undefined) state.swallowed++
        if (link.held !== undefined) link.held.push(data)
        else if (!link.isSilent) pass(upstream, data)
      })
      upstream.on("data", (data: Buffer) => {
        if (link.isDeaf) state.swallowed++
        else if (!link.isSilent) pass(client, data)
      })
      for (const [one, other] of [[client, upstream], [upstream, client]] as const) {
        one.on("error", () => undefined)
        // what was held is said even if nobody listens any more
        one.once("close", () => {
          if (link.held === undefined) other.destroy()
        })
      }
    })
    yield* Effect.acquireRelease(
      Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
      () =>
        Effect.sync(() => {
          server.close()
          for (const { client, upstream } of links) {
            client.destroy()
            upstream.destroy()
          }
        })
    )
    const address = server.address()
    return {
      port: typeof address === "object" && address !== null ? address.port : 0,
      state,
      /** Every connection that is open falls silent; new ones work. */
      silence: () => links.forEach((it) => it.isSilent = true),
      /** The server hears what is said on the connections that are open, and no answer arrives. */
      deafen: () => links.forEach((it) => it.isDeaf = true),
      /** The server hears what is said on the connections that are open later; gives when. */
      hold: () => {
        const all = Array.from(links)
        for (const it of all) it.held = []
        return () => {
          for (const it of all) {
            for (const data of it.held ?? []) it.upstream.write(data)
          }
        }
      },
      /** Nothing answers, whoever connects, until it is up again. */
      down: () => {
        state.isDown = true
        links.forEach((it) => it.isSilent = true)
      },
      /** Every connection ends, and none can be opened until it is up again. */
      cut: () => {
        state.isCut = true
        links.forEach((it) => it.client.destroy())
      },
      /** What is said either way arrives so many milliseconds later, until it is up again. */
      slow: (millis: number) => {
        state.lateMillis = millis
      },
      up: () => {
        Object.assign(state, { isDown: false, isCut: false, lateMillis: 0 })
        // whoever tried to connect meanwhile need not wait for that to time out
        links.forEach((it) => it.isNew && it.client.destroy())
      }
    }
  })

export type Proxy = Effect.Success<ReturnType<typeof make>>

/** Waits, by the time of the machine, whatever the clock of the test says. */
export const until = <E>(condition: Effect.Effect<boolean, E>): Effect.Effect<unknown, E> =>
  Effect.provide(
    Effect.repeat(condition, { until: (it) => it, schedule: Schedule.spaced("5 millis") }),
    Postgres.realTime
  )

/** Lets a second of the clock of a test pass, and what goes by the time of the machine have a little of that. */
export const second: Effect.Effect<void> = Effect.andThen(
  TestClock.adjust("1 second"),
  Effect.provide(Effect.sleep("30 millis"), Postgres.realTime)
)
