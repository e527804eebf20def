/** What `tool-executor serve --cluster` refuses before it serves. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it, layer } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as SqlClient from "effect/sql/SqlClient"
import { createServer } from "node:http"
import { type Http, HttpPort } from "../../../src/cli/serve/HttpPort.ts"
import * as ServeCluster from "../../../src/cli/serve/ServeCluster.ts"
import * as SqlSessionRegistry from "../../../src/sql/SqlSessionRegistry.ts"
import * as Postgres from "../../support/Postgres.ts"
import { folder, run } from "../harness.ts"

const http: Http = {
  server: (at) => NodeHttpServer.layerServer(createServer, at),
  services: NodeHttpServer.layerHttpServices
}

const users = { ada: { tokens: [{ hash: `sha256:${"0".repeat(64)}` }], run: true } }

/** What the command says about a cluster that is refused. */
const refused = Effect.fnUntraced(function*(
  cluster: object,
  environment: Readonly<Record<string, string>>,
  flags: ReadonlyArray<string> = ["--cluster"]
) {
  const { file } = yield* folder({ "serve.json": { server: { users, cluster } } })
  const { code, stderr, stdout } = yield* run(["serve", ...flags, "--config", file("serve.json"), "--port", "0"])
    .pipe(
      Effect.provideService(HttpPort, http),
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(environment))
    )
  assert.strictEqual(code, 2, stderr)
  assert.strictEqual(stdout, "")
  return stderr
})

const TOOL_EXECUTOR_POSTGRES = "postgres://nobody@127.0.0.1:1/none"
const secret = "x".repeat(32)

describe("a cluster that cannot be", () => {
  const runner: ServeCluster.Runner = {
    postgres: Redacted.make(TOOL_EXECUTOR_POSTGRES),
    listen: { host: "10.0.0.7", port: 7421 },
    lease: 9_000,
    options: {}
  }

  it("says which setting makes a runner listen elsewhere", () => {
    const taken = ServeCluster.unheard(runner, Object.assign(new Error("listen"), { code: "EADDRINUSE" }))
    assert.match(taken, /^Cannot listen for other runners at 10\.0\.0\.7:7421 \(.*set TOOL_EXECUTOR_CLUSTER_PORT\.$/)
    for (const code of ["EADDRNOTAVAIL", "ENOTFOUND"]) {
      const elsewhere = ServeCluster.unheard(runner, Object.assign(new Error("listen"), { code }))
      assert.match(elsewhere, /Set TOOL_EXECUTOR_CLUSTER_HOST to one that the other runners reach/)
    }
  })
})

describe("a cluster that must not be", () => {
  it.live("is refused without PostgreSQL", () =>
    Effect.gen(function*() {
      assert.include(yield* refused({}, {}), "--cluster needs PostgreSQL")
    }), { tags: ["CL8"] })

  it.live("is refused where other machines reach a runner that has no secret", () =>
    Effect.gen(function*() {
      for (
        const cluster of [{ host: "0.0.0.0", advertise: "10.0.0.7" }, { host: "10.0.0.7" }, { advertise: "runner-1" }]
      ) {
        const said = yield* refused(cluster, { TOOL_EXECUTOR_POSTGRES })
        assert.include(said, "TOOL_EXECUTOR_CLUSTER_SECRET: it is not set, and other machines can reach this runner")
      }
      const said = yield* refused({}, { TOOL_EXECUTOR_POSTGRES, TOOL_EXECUTOR_CLUSTER_HOST: "10.0.0.7" })
      assert.include(said, "TOOL_EXECUTOR_CLUSTER_SECRET: it is not set")
    }), { tags: ["CL8"] })

  it.live("is refused with a secret that can be guessed, and does not repeat it", () =>
    Effect.gen(function*() {
      const said = yield* refused({}, { TOOL_EXECUTOR_POSTGRES, TOOL_EXECUTOR_CLUSTER_SECRET: "swordfish" })
      assert.include(said, "TOOL_EXECUTOR_CLUSTER_SECRET: it is too short")
      assert.notInclude(said, "swordfish")
    }), { tags: ["CL8"] })

  it.live("is refused where no other runner could reach it", () =>
    Effect.gen(function*() {
      const environment = { TOOL_EXECUTOR_POSTGRES, TOOL_EXECUTOR_CLUSTER_SECRET: secret }
      assert.include(
        yield* refused({ host: "0.0.0.0" }, environment),
        "server.cluster.advertise: 0.0.0.0 stands for every"
      )
      for (const advertise of ["http://10.0.0.7", "10.0.0.7:7421", "runner-1/", "ada@runner-1", "[::1]"]) {
        const said = yield* refused({ advertise }, environment)
        assert.include(
          said,
          `server.cluster.advertise: it is ${JSON.stringify(advertise)}; expected a host name or an IP`
        )
      }
      const said = yield* refused({}, { ...environment, TOOL_EXECUTOR_CLUSTER_PORT: "many" })
      assert.include(said, "TOOL_EXECUTOR_CLUSTER_PORT: it is not a port")
    }))

  it.live("is refused with settings that are not there, or out of bounds", () =>
    Effect.gen(function*() {
      const said = yield* refused({ shards: 0, lease: "soon", other: 1 }, { TOOL_EXECUTOR_POSTGRES })
      for (const it of ["server.cluster.shards", "server.cluster.lease", "server.cluster.other"]) {
        assert.include(said, it)
      }
    }))
})

layer(Postgres.layer)("a cluster and a server without one", (it) => {
  it.effect("do not run on the same database", () =>
    Effect.gen(function*() {
      const url = yield* (yield* Postgres.Postgres).database
      const sql = yield* Layer.build(Postgres.clientOf(url))
      const environment = { TOOL_EXECUTOR_POSTGRES: url }
      const beside = <A, E>(
        other: Layer.Layer<A, E, SqlClient.SqlClient>,
        flags: ReadonlyArray<string>
      ) =>
        Effect.scoped(
          Effect.andThen(Layer.build(Layer.provide(other, Layer.succeedContext(sql))), refused({}, environment, flags))
        )
      const single = yield* beside(SqlSessionRegistry.layer(), [])
      assert.include(single, "runners of a cluster are up on this database")
      const short = yield* Effect.scoped(refused({ lease: "500 millis" }, environment))
      assert.include(short, "server.cluster.lease: the lease of the session registry is 500 ms")
      const runner = yield* beside(SqlSessionRegistry.layerAlone, ["--cluster"])
      assert.include(runner, "a server without a cluster is up on this database")
    }).pipe(Effect.scoped, Effect.provide(Postgres.realTime)))
})
