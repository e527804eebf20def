/** Platform, signals and the end of the process around `Cli`. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { ServeError } from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import * as Stdio from "effect/Stdio"
import { createServer } from "node:http"
import process, { exit } from "node:process"
import { version } from "../internal/version.ts"
import * as Cli from "./Cli.ts"
import { type Http, HttpPort } from "./HttpPort.ts"
import { Interruption, reasons } from "./Interruption.ts"
import { Terminal } from "./Keyboard.ts"
import * as TtyKeyboard from "./TtyKeyboard.ts"

/** Hands a signal to the first who waits for one. */
const makeInterruption = () => {
  const waiting = new Set<(reason: string) => void>()
  return {
    next: Effect.callback<string>((resume) => {
      const take = (reason: string) => resume(Effect.succeed(reason))
      waiting.add(take)
      return Effect.sync(() => waiting.delete(take))
    }),
    /** False if nothing waits. */
    hand: (reason: string): boolean => {
      const [first] = waiting
      if (first === undefined) return false
      waiting.delete(first)
      first(reason)
      return true
    }
  }
}

const interruption = makeInterruption()

/** Who sends slowly, or much before anything is known of them, does not hold a connection. */
const connectionLimits = {
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16_384
}

/** Loaded only where it is used: an editor waits for the first answer of a gateway. */
const nodeHttp = Effect.promise(() => import("@effect/platform-node/NodeHttpServer"))

const http: Http = {
  server: ({ host, port, tls }) =>
    Layer.unwrap(Effect.gen(function*() {
      const { layerServer } = yield* nodeHttp
      const https = yield* Effect.promise(() => import("node:https"))
      const server = yield* Effect.try({
        // a certificate, or a key, may be none
        try: () =>
          tls === undefined
            ? createServer(connectionLimits)
            : https.createServer({ ...connectionLimits, ...tls, minVersion: "TLSv1.2" }),
        catch: (cause) => new ServeError({ cause })
      })
      server.maxConnections = 4_000
      return layerServer(() => server, { host, port, gracefulShutdownTimeout: "1 second" })
    })),
  services: Layer.unwrap(Effect.map(nodeHttp, ({ layerHttpServices }) => layerHttpServices))
}

const main = Effect.gen(function*() {
  const stdio = yield* Stdio.Stdio
  return yield* Cli.run(yield* stdio.args, { version })
}).pipe(
  Effect.provideService(Interruption, interruption.next),
  Effect.provideService(Terminal, TtyKeyboard.take),
  Effect.provideService(HttpPort, http),
  Effect.provide(NodeServices.layer)
)

/** Ends the process once all output is with its reader. A handler that cannot be stopped must not keep it alive. */
const end = (code: number): void => {
  process.stdout.write("", () => process.stderr.write("", () => exit(code)))
}

const runMain = Runtime.makeRunMain(({ fiber }) => {
  const onSignal = (signal: keyof typeof reasons) => {
    if (!interruption.hand(reasons[signal])) fiber.interruptUnsafe(fiber.id)
  }
  const names = Object.keys(reasons) as ReadonlyArray<keyof typeof reasons>
  for (const name of names) process.on(name, onSignal)
  // a write finds out that the reader went away
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})
  fiber.addObserver((ended) => {
    for (const name of names) process.off(name, onSignal)
    end(Exit.isSuccess(ended) ? Number(ended.value) : 130)
  })
})

runMain(main, { disableErrorReporting: true })
