// What is killed and resumed: tools of every replay class over an outside service, waves that follow from a name, and
// executors that share a database.
//
// Processes are begun and killed by the thousand, so that nothing is loaded which they do not need.
import { LocalExecutor, type Policy, ToolAnnotations, ToolCall, ToolContext, ToolExecutor } from "effect-tool-executor"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { SqlClient } from "effect/sql/SqlClient"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"

const Params = Schema.Struct({ id: Schema.String })

const tool = <Name extends string>(name: Name) => Tool.make(name, { parameters: Params, success: Schema.String })

/** At most so many payments are started in one batch. */
export const maxPayments = 3

/** So long after a process was killed others may take over. */
export const lease = "2 seconds"

/** What the service of the tools is asked. */
const ask = (service: string, path: string, query: Record<string, string>): Effect.Effect<string> =>
  Effect.promise(async (signal) => {
    const response = await fetch(`${service}/${path}?${new URLSearchParams(query)}`, { method: "POST", signal })
    return await response.text()
  })

/** Reads, what the service does once for one key, what the service can tell of, and what neither is true of. */
const kitFor = (service: string) =>
  Toolkit.make(
    tool("read").annotate(Tool.Readonly, true).annotate(Tool.OpenWorld, false),
    tool("keyed").annotate(ToolAnnotations.UsesIdempotencyKey, true).annotate(ToolAnnotations.Promoted, true),
    tool("told").annotate(ToolAnnotations.Promoted, true).annotate(
      ToolAnnotations.Reconcile,
      (_, { idempotencyKey }) =>
        Effect.map(
          ask(service, "happened", { key: idempotencyKey }),
          (answer) =>
            answer === "yes"
              ? { _tag: "Happened" as const, result: "done" }
              : { _tag: "DidNotHappen" as const }
        )
    ),
    tool("pay")
  )

/** Kind of a tool. */
export type Kind = "read" | "keyed" | "told" | "pay"

/** A layer with the client of a database: a file's path, or the URL of a PostgreSQL. */
const client = (database: string): Layer.Layer<SqlClient, unknown> =>
  database.startsWith("postgres")
    ? Layer.unwrap(Effect.map(
      Effect.promise(() => import("@effect/sql-pg/PgClient")),
      (it) => it.layer({ url: Redacted.make(database) })
    ))
    : Sqlite.layer({ filename: database })

/** An executor whose records are in a database, of a process that may stand still for so long. */
export const layer = (
  database: string,
  service: string,
  { lease, policy = { default: "allow" } }: { readonly lease: Duration.Input; readonly policy?: Policy.Policy }
) => {
  const kit = kitFor(service)
  const handler = (kind: Kind) => ({ id }: typeof Params.Type) =>
    Effect.flatMap(
      ToolContext.ToolContext,
      ({ idempotencyKey = "" }) => ask(service, kind, { id, key: idempotencyKey })
    )
  const handlers = kit.toLayer({
    read: handler("read"),
    keyed: handler("keyed"),
    told: handler("told"),
    pay: handler("pay")
  })
  const records = Layer.mergeAll(SqlStateStore.layer({ lease }), SqlJournal.layer({ lease }))
  return LocalExecutor.layer(kit, {
    policy,
    rules: [{ _tag: "MaxCalls", tool: "pay", max: maxPayments }]
  }).pipe(
    Layer.provide(handlers),
    Layer.provideMerge(records),
    Layer.provide(client(database))
  )
}

const kinds: ReadonlyArray<Kind> = ["read", "keyed", "told", "pay"]

/** Numbers from 0 to 1 that follow from a text. */
export const random = (seed: string): () => number => {
  let state = 2_166_136_261
  for (const character of seed) state = Math.imul(state ^ character.codePointAt(0)!, 16_777_619)
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** The wave of a batch: the same for everybody who knows its name. Ids are those of a provider that counts from 0. */
export const waveOf = (batch: string): ReadonlyArray<ToolCall.ToolCall> => {
  const next = random(batch)
  return Array.from({ length: 4 + Math.floor(next() * 8) }, (_, index) => {
    const kind = kinds[Math.floor(next() * kinds.length)]!
    return ToolCall.make(`call_${index}`, kind, { id: `${batch}/${index}` })
  })
}

export const processOf = (batch: string) =>
  Effect.flatMap(ToolExecutor.ToolExecutor, (it) => it.process({ batch, id: "turn" }))
