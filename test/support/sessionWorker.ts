/**
 * A process that holds sessions over a PostgreSQL that others use, too. A call of each session writes again and again;
 * it prints each write when it lands, and how the call ended.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import { ToolContext } from "effect-tool-executor"
import { SqlJournal } from "effect-tool-executor/sql"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import { ExecutorSettings, ToolCall } from "../../src/index.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import { open, tag } from "./Harness.ts"
import type { Line } from "./stateWorker.ts"

export interface Options {
  readonly url: string
  readonly lease: Duration.Input
  readonly sessions: ReadonlyArray<string>
  /** So many writes of each call. */
  readonly writes: number
}

const { lease, sessions, url, writes } = JSON.parse(process.argv[2]!) as Options

const print = (line: Line) => void process.stdout.write(`${JSON.stringify(line)}\n`)

const program = Effect.gen(function*() {
  const registry = yield* SqlSessionRegistry.make({ lease })
  const [journal, store] = yield* Effect.provideService(
    Effect.all([SqlJournal.make(), SqlStateStore.make()]),
    SessionRegistry,
    registry
  )
  print({ _tag: "Ready" })
  yield* Effect.forEach(sessions, (principal) =>
    Effect.gen(function*() {
      yield* registry.activate(principal)
      const handler = () =>
        Effect.gen(function*() {
          const { commit } = yield* ToolContext.ToolContext
          for (let left = writes; left > 0; left--) {
            yield* commit(Effect.sync(() => print({ _tag: "Wrote", call: principal, at: Date.now() })))
            yield* Effect.sleep(5)
          }
        })
      // nothing but the session could be lost
      const { process } = yield* open({ write: { class: "ConcurrentMut", handler } }, {
        journal,
        store,
        dedupe: false
      }).pipe(Effect.provide(ExecutorSettings.layer({ principal })))
      const { outcomes } = yield* process.executeWave([ToolCall.make("a", "write", {})])
      print({ _tag: "Ended", batch: principal, outcomes: { [tag(outcomes[0]!)]: 1 } })
    }), { concurrency: "unbounded" })
}).pipe(
  Effect.scoped,
  Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 5 }))
)

await Effect.runPromise(program)
