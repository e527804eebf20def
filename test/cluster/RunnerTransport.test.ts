import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Logger, Redacted } from "effect"
import * as MessageStorage from "effect/cluster/MessageStorage"
import { HttpClient, HttpClientRequest } from "effect/http"
import { TestClock } from "effect/testing"
import * as ClusterRunner from "../../src/cluster/ClusterRunner.ts"
import * as RunnerOptions from "../../src/cluster/RunnerOptions.ts"
import * as RunnerTransport from "../../src/cluster/RunnerTransport.ts"

const secret = Redacted.make("a secret of all runners")

const serverWith = (secret: RunnerTransport.Secret) =>
  Layer.unwrap(
    Effect.map(RunnerOptions.read({ secret }), (settings) =>
      RunnerTransport.layerServer(secret).pipe(
        Layer.provide([
          ClusterRunner.layerSingle(settings),
          RunnerTransport.layerSerialization,
          MessageStorage.layerNoop
        ]),
        Layer.provideMerge(NodeHttpServer.layerTest)
      ))
  )

const send = Effect.fnUntraced(function*(
  authorization: string | undefined,
  body: string,
  headers: Readonly<Record<string, string>> = {}
) {
  const { status } = yield* HttpClientRequest.post("/").pipe(
    HttpClientRequest.bodyText(body),
    HttpClientRequest.setHeaders(headers),
    authorization === undefined ? (it) => it : HttpClientRequest.setHeader("authorization", authorization),
    HttpClient.execute
  )
  return status
})

const ping = `{"_tag":"Request","id":"1","tag":"Ping","payload":null,"headers":[]}\n`

describe("messages between runners", () => {
  it.effect("are refused without the secret, before anything of them is decoded", () =>
    Effect.gen(function*() {
      const right = `Bearer ${Redacted.value(secret)}`
      assert.strictEqual(yield* send(right, ping), 200)
      const others = [undefined, "", "Bearer", "Bearer another", `${right}x`, right.slice(0, -1), right.toLowerCase()]
      for (const it of others) {
        assert.strictEqual(yield* send(it, ping), 401)
        assert.strictEqual(yield* send(it, "{ malformed"), 401)
      }
    }).pipe(Effect.provide(serverWith(secret))), { tags: ["CL8"] })

  it.effect(
    "are refused from a page in a browser, also where a runner of this machine has no secret",
    () =>
      Effect.gen(function*() {
        assert.strictEqual(yield* send(undefined, ping), 200)
        for (const origin of ["https://example.com", "http://127.0.0.1:7420", "null", ""]) {
          assert.strictEqual(yield* send(undefined, ping, { origin }), 401)
        }
      }).pipe(Effect.provide(serverWith(undefined))),
    { tags: ["CL8"] }
  )
})

describe("a runner with another secret", () => {
  /** What is logged while an effect runs. */
  const logged = <E, R>(effect: Effect.Effect<void, E, R>) =>
    Effect.gen(function*() {
      const lines: Array<string> = []
      const logger = Logger.make(({ message }) => void lines.push(String(message)))
      yield* Effect.provide(effect, Logger.layer([logger]))
      return lines
    })

  it.effect("is named in the log of the runner that refuses it, once a minute", () =>
    Effect.gen(function*() {
      const lines = yield* logged(
        Effect.gen(function*() {
          yield* send("Bearer swordfish", ping)
          yield* send("Bearer of another", ping)
          yield* TestClock.adjust("61 seconds")
          yield* send("Bearer swordfish", ping)
        }).pipe(Effect.provide(serverWith(secret)))
      )
      assert.lengthOf(lines, 2)
      for (const it of lines) {
        assert.match(it, /was refused \(from .+\): its secret is missing or wrong\. Give all runners the same secret/)
        assert.notInclude(it, "swordfish")
      }
    }))

  it.effect("logs which runner refuses it", () =>
    Effect.gen(function*() {
      const lines: Array<string> = []
      yield* HttpClientRequest.post("/").pipe(
        HttpClientRequest.bodyText(ping),
        RunnerTransport.withSecret(
          Redacted.make("yet another"),
          (line) => Effect.sync(() => void lines.push(line))
        )(yield* HttpClient.HttpClient).execute
      )
      assert.lengthOf(lines, 1)
      assert.match(lines[0]!, /^The runner at 127\.0\.0\.1:\d+ refuses the secret of this runner\. Give all runners/)
    }).pipe(Effect.provide(serverWith(secret))))
})

describe("a runner", () => {
  const problemsOf = (options: RunnerOptions.Options) =>
    Effect.map(Effect.exit(RunnerOptions.read(options)), (exit) => Exit.isSuccess(exit) ? "" : String(exit.cause))

  it.effect("does not start without a secret where other machines reach it", () =>
    Effect.gen(function*() {
      for (const host of ["0.0.0.0", "::", "10.0.0.7", "runner-1.internal", "127.0.0.1.example.com"]) {
        assert.match(yield* problemsOf({ host }), /secret: it is missing, and .* can be reached from other machines/)
        assert.strictEqual(yield* problemsOf({ host, secret }), "")
      }
      for (const host of ["127.0.0.1", "127.1.2.3", "::1", "localhost"]) {
        assert.strictEqual(yield* problemsOf({ host }), "")
      }
    }))

  it.effect("does not start with a lease that any hiccup would end", () =>
    Effect.gen(function*() {
      assert.match(yield* problemsOf({ shards: 0 }), /shards/)
      yield* RunnerOptions.checkLease(1_000)
      assert.match(
        String(yield* Effect.flip(RunnerOptions.checkLease(999))),
        /lease: the lease of the session registry is 999 ms.*1000 ms or more/s
      )
    }), { tags: ["CL8"] })
})
