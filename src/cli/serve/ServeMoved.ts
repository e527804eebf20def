/**
 * The records of a server without a cluster, read over when the database becomes that of a cluster: submitted waves with
 * their results and turns, conversations with their operations, transcripts. Grants, the journal and what calls have
 * reserved are in the same tables for both.
 *
 * Records are moved, not copied: a server without a cluster that starts there again runs nothing a second time.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as TranscriptStore from "../../agent/TranscriptStore.ts"
import type { Listed } from "../../core/store/SessionRows.ts"
import * as OperationStore from "../../server/operations/OperationStore.ts"
import { toPrincipal } from "../../server/users/Principals.ts"
import * as WaveStore from "../../server/waves/WaveStore.ts"
import * as WaveText from "../../server/waves/WaveText.ts"
import { own, transaction } from "../../sql/OwnConnection.ts"
import * as SessionRowTables from "../../sql/SessionRowTables.ts"
import * as WireFormat from "../../wire/WireFormat.ts"

/** The table of the records of a server without a cluster. */
export const table = "tool_executor_server"

/** Moves the records, once; of runners that start together one does, and the others wait for it. */
export const move: Effect.Effect<void, SqlError, SqlClient.SqlClient> = Effect.gen(function*() {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  const run = own(sql, patience)
  const [is] = yield* run(sql<{ readonly there: boolean }>`SELECT to_regclass(${table}) IS NOT NULL AS there`)
  if (is?.there !== true) return
  const moved = yield* transaction(sql, patience)(Effect.gen(function*() {
    yield* sql`LOCK TABLE ${sql(table)} IN ACCESS EXCLUSIVE MODE`
    const ids = yield* sql<{ readonly id: string }>`SELECT id FROM ${sql(table)} WHERE id NOT LIKE 'served.ended.%'`
    if (ids.length === 0) return undefined
    const { heads, parts } = sorted(ids.map(({ id }) => id))
    const rows = new Map<string, SessionRowTables.Moved>()
    for (const keys of pagesOf(heads)) {
      const wanted = keys.flatMap((key) => [key, ...endOf(key)])
      const found = yield* SessionRowTables.valuesIn(sql, table, wanted)
      for (const it of keys.flatMap((key) => read(key, found))) {
        rows.set(it.key, joined(it, rows.get(it.key)?.listed))
        for (const key of parts.get(it.key) ?? []) rows.set(key, { key, principal: it.principal })
      }
    }
    let count = 0
    const all = Array.from(rows.values())
    const taken = yield* SessionRowTables.taken(sql, new Set(all.map(({ principal }) => principal)))
    for (const page of pagesOf(all.filter(({ principal }) => !taken.has(principal)))) {
      count += yield* SessionRowTables.move(sql, table, page)
    }
    return { count, left: ids.length - count }
  }))
  if (moved === undefined) return
  const left = moved.left === 0 ?
    "" :
    `. ${moved.left} were left in ${table}: they cannot be read, or the cluster has ` +
    "other records of their sessions"
  yield* Effect.logInfo(`${moved.count} records of a server without a cluster were moved to the cluster${left}`)
})

// Utilities

/** Milliseconds that it may take. */
const patience = 600_000

/** Records of one statement. */
const most = 500

const pagesOf = <A>(all: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  Array.from({ length: Math.ceil(all.length / most) }, (_, at) => all.slice(at * most, (at + 1) * most))

/** Records that say whose they are; and by those, the rows of a sequence that do not. */
const sorted = (ids: ReadonlyArray<string>) => {
  const heads: Array<string> = []
  const parts = new Map<string, Array<string>>()
  for (const id of ids) {
    const [, name, rest] = /^((?:served\.operation\.)?[0-9a-f]{32})(\..+)$/.exec(id) ?? []
    if (rest === ".0" && !id.startsWith("served.")) heads.push(id)
    else if (name !== undefined) {
      const head = name.startsWith("served.") ? name : `${name}.0`
      parts.set(head, [...parts.get(head) ?? [], id])
    } else if (/^served\.(?:wave|conversation|operation)\.[0-9a-f]{32}$/.test(id)) heads.push(id)
  }
  return { heads, parts }
}

/** A turn is in rows of all its waves: it is open while one of them is, and as old as the latest. */
const joined = (row: SessionRowTables.Moved, other: Listed | undefined): SessionRowTables.Moved =>
  row.listed === undefined || other === undefined ? row : {
    ...row,
    listed: { ...row.listed, isOpen: row.listed.isOpen || other.isOpen, at: Math.max(row.listed.at, other.at) }
  }

const endOf = (key: string): ReadonlyArray<string> =>
  key.startsWith(waveKey) ? [`served.end.${key.slice(waveKey.length)}`] : []

const waveKey = "served.wave."

/** The rows that a record and the rest of the same wave become. None if it cannot be read. */
const read = (key: string, found: ReadonlyMap<string, string>): ReadonlyArray<SessionRowTables.Moved> => {
  const text = found.get(key) ?? ""
  if (key.startsWith(waveKey)) {
    const [wave, ended] = [WaveText.submitted.decode(text), found.get(endOf(key)[0]!)]
    return Result.isSuccess(wave) ? ofWave(key, wave.success, ended) : []
  }
  if (key.startsWith("served.conversation.")) {
    return listedBy(key, OperationStore.texts.conversation.decode(text), toPrincipal, (it) => ({
      kind: OperationStore.kind,
      isOpen: it.open.length > 0,
      at: it.updatedAt,
      summary: () => OperationStore.summary.encode(OperationStore.summaryOf(it))
    }))
  }
  if (key.startsWith("served.operation.")) {
    return listedBy(key, OperationStore.texts.submitted.decode(text), toPrincipal, () => undefined)
  }
  return listedBy(key, TranscriptStore.decode(text), ({ principal }) => principal, ({ at }) => ({
    kind: TranscriptStore.kind,
    isOpen: false,
    at
  }))
}

const listedBy = <A>(
  key: string,
  decoded: Result.Result<A, Error>,
  principalOf: (value: A) => string,
  listedOf: (value: A) => Listed | undefined
): ReadonlyArray<SessionRowTables.Moved> =>
  Result.isFailure(decoded)
    ? []
    : [{ key, principal: principalOf(decoded.success), listed: listedOf(decoded.success) }]

const ofWave = (
  key: string,
  wave: WaveStore.SubmittedWave,
  text: string | undefined
): ReadonlyArray<SessionRowTables.Moved> => {
  const principal = toPrincipal(wave)
  const { format: _, message, ...of } = wave
  const ended = text === undefined ? undefined : Result.getOrUndefined(WaveText.ended.decode(text))
  const calls = Result.getOrElse(Result.map(WireFormat.read(message, wave.format), (it) => it.calls), () => [])
  const isOpen = text === undefined
  const at = ended?.at ?? wave.beganAt
  const status = isOpen ? "running" : ended?.events.at(-1)?._tag === "WaveSuspended" ? "suspended" : "ended"
  const summary = () =>
    WaveText.info.encode({
      ...of,
      status,
      calls: calls.length,
      tools: calls.slice(0, 100).map(({ name }) => name.slice(0, 200)),
      ...ended === undefined ? {} : { endedAt: ended.at }
    })
  return [
    { key, principal, listed: { kind: WaveStore.kinds.wave, isOpen, at, summary } },
    ...isOpen ? [] : endOf(key).map((it) => ({ key: it, principal })),
    {
      key: `served.turn.${WaveStore.idOf(wave, wave.turn)}`,
      principal,
      listed: { kind: WaveStore.kinds.turn, isOpen, at }
    }
  ]
}
