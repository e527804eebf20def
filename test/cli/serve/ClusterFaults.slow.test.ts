/** Two servers of a cluster, one of which reaches its database over a way that is cut, falls silent and gets slow. */
import { assert, layer } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { mkdirSync, readdirSync } from "node:fs"
import * as Journal from "../../../src/core/store/Journal.ts"
import * as Postgres from "../../support/Postgres.ts"
import { asking, start, user } from "../../support/serveProcess.ts"
import * as SilentProxy from "../../support/silentProxy.ts"
import { folder, openai } from "../harness.ts"

/** Milliseconds that a fault lasts: longer than the lease of a session. */
const faultMillis = 12_000

/** Milliseconds within which every request is answered: messages between servers end after 30 seconds. */
const answerMillis = 40_000

type Faults = Readonly<Record<string, (proxy: SilentProxy.Proxy) => void>>

const faults: Faults = {
  cut: (proxy) => proxy.cut(),
  silent: (proxy) => proxy.down(),
  slow: (proxy) => proxy.slow(300)
}

const world = Effect.gen(function*() {
  const { database } = yield* Postgres.Postgres
  const url = yield* database
  const proxy = yield* SilentProxy.make(Number(new URL(url).port))
  const { config, token } = yield* user
  const { file } = yield* folder({
    "serve.json": {
      workspace: { root: "files" },
      policy: { allow: ["write_file(*)"] },
      tools: { write_file: { maxConcurrent: 4, timeout: "20 seconds" } },
      server: { users: { ada: config }, cluster: { port: 0 } }
    }
  })
  mkdirSync(file("files"))
  const server = (postgres: string) =>
    Effect.gen(function*() {
      const args = ["serve", "--config", file("serve.json"), "--port", "0", "--cluster"]
      const it = yield* start(args, { TOOL_EXECUTOR_POSTGRES: postgres })
      const at = (yield* it.url).replace(/\/$/, "")
      return { ...it, ...asking(at, token), at }
    })
  const [one, two] = yield* Effect.all(
    [server(url.replace(/:\d+\//, `:${proxy.port}/`)), server(url)],
    { concurrency: 2 }
  )
  return { url, proxy, one, two, files: () => readdirSync(file("files")) }
})

type World = Effect.Success<typeof world>

/** Submits a wave with a write of a file; gives the status, or what it said instead, and how long that took. */
const submit = ({ at, send }: World["one"], name: string) =>
  Effect.gen(function*() {
    const since = Date.now()
    const body = {
      message: openai(["1", "write_file", { path: `${name}.txt`, content: name }]),
      turn: name,
      wave: name
    }
    const asked = send(`/api/sessions/${name}/waves`, { method: "POST", body: JSON.stringify(body) })
    const status = yield* Effect.timeoutOption(
      Effect.catchCause(Effect.map(asked, (it) => it.status), () => Effect.succeed(0)),
      2 * answerMillis
    )
    return { name, at, status: status._tag === "Some" ? status.value : -1, millis: Date.now() - since }
  })

/** Submits it again until a server has its end, and gives the messages for the model. */
const ended = (server: World["one"], name: string) =>
  Effect.repeat(
    Effect.flatMap(submit(server, name), (it) =>
      it.status === 200 ? Effect.as(server.json(`/api/sessions/${name}/waves/${name}`), true) : Effect.succeed(false)),
    {
      until: (it) =>
        it,
      schedule: Schedule.spaced("200 millis"),
      times: 60
    }
  )

const isReady = ({ send }: World["one"]) =>
  Effect.catchCause(Effect.map(send("/ready"), (it) => it.status === 200), () => Effect.succeed(false))

/** What is on record of calls that started. */
const started = (url: string) =>
  Effect.gen(function*() {
    const journal = yield* SqlJournal.make()
    const all = yield* Stream.runCollect(journal.read({}))
    return new Set(
      all.flatMap(({ entry }) => Journal.isOfCall(entry) && entry._tag === "Started" ? [JSON.stringify(entry)] : [])
    )
  }).pipe(Effect.scoped, Effect.provide(Postgres.clientOf(url)))

layer(Postgres.layer)("servers of a cluster", (it) => {
  for (const [fault, begin] of Object.entries(faults)) {
    it.effect(
      `start nothing that could not be recorded while the way to the database is ${fault}, and say all when it is back`,
      () =>
        Effect.gen(function*() {
          const it = yield* world
          const { files, one, proxy, two, url } = it
          const names = (part: string) => Array.from({ length: 8 }, (_, n) => `${fault}-${part}-${n}`)
          const all = (server: World["one"], part: string) =>
            Effect.forEach(names(part), (name) => submit(server, name), { concurrency: 4 })
          yield* Effect.repeat(Effect.all([isReady(one), isReady(two)]), {
            until: (all) => all.every((it) => it),
            schedule: Schedule.spaced("200 millis")
          })
          const before = yield* all(one, "before")
          assert.deepStrictEqual(before.filter((it) => it.status !== 200), [])
          begin(proxy)
          const during = yield* Effect.forkChild(
            Effect.all([all(one, "one"), all(two, "two")], { concurrency: 2 })
          )
          yield* Effect.sleep(faultMillis)
          proxy.up()
          const answers = (yield* Fiber.join(during)).flat()
          assert.deepStrictEqual(answers.filter((it) => it.millis > answerMillis), [])
          yield* Effect.repeat(isReady(one), { until: (it) => it, schedule: Schedule.spaced("200 millis") })
          // every wave has an end, wherever one asks
          for (const name of [...names("one"), ...names("two")]) {
            assert.isTrue(yield* ended(one, name), name)
            assert.isTrue(yield* ended(two, name), name)
          }
          const recorded = Array.from(yield* started(url)).join("\n")
          assert.deepStrictEqual(files().filter((it) => !recorded.includes(it.replace(".txt", "\""))), [])
        }).pipe(Effect.scoped, Effect.provide(Postgres.realTime)),
      180_000
    )
  }
})
