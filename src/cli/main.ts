/** The platform of all commands: files, processes and HTTP of Node. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { ServeError } from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import { createServer } from "node:http"
import { runCommand } from "./runCommand.ts"
import { type Http, HttpPort } from "./serve/HttpPort.ts"

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

runCommand(Layer.merge(NodeServices.layer, Layer.succeed(HttpPort, http)))
