/**
 * Sends a server 10,000 requests that nobody in their right mind sends, from a seed: none of them may get an
 * answer of the 500s or a word of what is not theirs, and the memory has to be back where it was. Ends with 1 where that is broken.
 *
 *     npm run try -- hostile [seed] [count]
 */
import { Effect } from "effect"
import * as Hostile from "../test/support/hostile.ts"
import { secretDefect, start, tokens } from "../test/support/Server.ts"

const [seed = 1, count = 10_000] = process.argv.slice(2).map(Number)

const heap = Effect.gen(function*() {
  yield* Effect.sleep("3 seconds")
  for (let time = 0; time < 4; time++) {
    globalThis.gc?.()
    yield* Effect.sleep("100 millis")
  }
  return Math.round(process.memoryUsage().heapUsed / 1e5) / 10
})

const program = Effect.gen(function*() {
  const server = yield* start({
    server: { limits: { perAddress: { burst: 1e6 }, perUser: { burst: 1e6 } }, bodyTimeout: "1 second" }
  })
  const port = Number(new URL(server.url).port)
  const choices = Hostile.choices(seed)
  const secrets = [secretDefect, tokens.ada, tokens.ops]
  const statuses = new Map<string, number>()
  const found: Array<string> = []
  const attack = (times: number) =>
    Effect.forEach(
      Array.from({ length: times }, () => Hostile.request(choices)),
      (bytes) =>
        Effect.map(Effect.promise(() => Hostile.send(port, bytes, 500)), (answer) => {
          const status = /^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? "closed"
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
          const problem = Hostile.wrong(answer, secrets)
          if (problem !== undefined) found.push(`${problem}\n${bytes.slice(0, 600)}\n---\n${answer.slice(0, 600)}`)
        }),
      { concurrency: 40, discard: true }
    )
  // sessions that were made on the way end here, as their user would end them
  const tidy = Effect.gen(function*() {
    const { json } = yield* server.request("bob", "GET", "/api/sessions")
    for (const { session } of json) {
      yield* server.request("bob", "DELETE", `/api/sessions/${encodeURIComponent(session)}`)
    }
  })
  yield* attack(Math.round(count / 5))
  yield* tidy
  const before = yield* heap
  yield* attack(count - Math.round(count / 5))
  yield* tidy
  const after = yield* heap
  const { status } = yield* server.request("ada", "GET", "/api/me")
  for (const it of found.slice(0, 10)) console.log(`${it}\n======`)
  console.log(`seed ${seed}: ${count} requests, ${found.length} wrong answers; then /api/me: ${status}`)
  console.log(Array.from(statuses).sort().map(([code, times]) => `${code}: ${times}`).join(", "))
  console.log(`heap ${before} MB after a fifth of them, ${after} MB at the end`)
  if (found.length > 0 || status !== 200 || after > before * 1.2 + 5) process.exitCode = 1
})

await Effect.runPromise(Effect.scoped(program))
