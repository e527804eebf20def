/** Random writes, owners and take-overs, told to rows in PostgreSQL, to rows in memory, and to a plain model of both. */
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as SqlClient from "effect/sql/SqlClient"
import * as MemoryRows from "../../src/core/store/MemoryRows.ts"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import type { Change, Listed, Rows } from "../../src/core/store/SessionRows.ts"
import * as Sqlite from "../../src/sql/Sqlite.ts"
import * as SqlOwnRows from "../../src/sql/SqlOwnRows.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlSessionRows from "../../src/sql/SqlSessionRows.ts"
import { randomFrom, type SeededRandom } from "../../src/testing/SeededRandom.ts"
import * as Postgres from "../support/Postgres.ts"
import { seeds, timeout } from "../support/seeds.ts"

/** What a row is, said plainly. */
interface Row {
  value: string
  listed?: { kind: string; isOpen: boolean; at: number; summary?: string | undefined } | undefined
}

/** Somebody who held a session once, and may think that they still do. */
interface Holder {
  readonly session: string
  readonly rows: Rows
  readonly process: number
}

const heads = ["h1", "h2", "h3"]
const others = ["a", "p1", "p2.x", "p2", "p", "s.0", "s.1", "s.2", "s.10", "s.x", "s/0", "s"]

const changesOf = (random: SeededRandom, kind: string, at: number): ReadonlyArray<Change> => {
  const listed = (): Listed => {
    const text = JSON.stringify({ at })
    return { kind, isOpen: random.chance(0.5), at, ...random.chance(0.7) ? { summary: () => text } : {} }
  }
  const isEmptied = random.chance(0.2)
  const keys = [...heads, ...others].filter((it) => random.chance(0.3) && !(isEmptied && it.startsWith("s.")))
  const changes = keys.map((key): Change => {
    const isHead = heads.includes(key)
    if (random.chance(0.2)) return { _tag: "Remove", key }
    if (isHead && random.chance(0.3)) return { _tag: "List", key, listed: listed() }
    return {
      _tag: "Put",
      key,
      value: `${key}@${at}`,
      ...random.chance(0.2) ? { isNew: true } : {},
      ...isHead && random.chance(0.8) ? { listed: listed() } : {}
    }
  })
  return isEmptied ? [...changes, { _tag: "RemoveSequence", key: "s" }] : changes
}

/** Applies changes to the rows of a session; gives the key of a row that should have been new. */
const apply = (rows: Map<string, Row>, changes: ReadonlyArray<Change>): ReadonlyArray<string> => {
  const taken = changes.flatMap((it) => it._tag === "Put" && it.isNew === true && rows.has(it.key) ? [it.key] : [])
  if (taken.length > 0) return taken
  for (const it of changes) {
    const before = rows.get(it.key)
    const listedOf = ({ summary, ...listed }: Listed) => ({
      ...listed,
      summary: summary?.() ?? before?.listed?.summary
    })
    switch (it._tag) {
      case "Put":
        rows.set(it.key, {
          value: it.value,
          listed: it.listed === undefined ? before?.listed : listedOf(it.listed)
        })
        break
      case "List":
        if (before !== undefined) before.listed = listedOf(it.listed)
        break
      case "Remove":
        rows.delete(it.key)
        break
      case "RemoveSequence":
        for (const key of Array.from(rows.keys())) if (/^s\.\d/.test(key)) rows.delete(key)
    }
  }
  return []
}

layer(Postgres.layer, { timeout })("rows of sessions", (it) => {
  it.effect("are what their owners wrote, whoever else writes", () =>
    Effect.gen(function*() {
      const url = yield* (yield* Postgres.Postgres).database
      const sql = Context.get(yield* Layer.build(Postgres.clientOf(url)), SqlClient.SqlClient)
      const processes = yield* Effect.forEach([0, 1, 2], () =>
        Effect.gen(function*() {
          const registry = yield* SqlSessionRegistry.make()
          return { registry, rows: yield* Effect.provideService(SqlSessionRows.make, SessionRegistry, registry) }
        }).pipe(Effect.provideService(SqlClient.SqlClient, sql)))
      const inSqlite = yield* Effect.provide(
        SqlOwnRows.make,
        yield* Layer.build(Sqlite.layer({ filename: ":memory:" }))
      )
      const other = yield* Layer.build(Postgres.clientOf(yield* (yield* Postgres.Postgres).database))
      const inPostgres = yield* Effect.provide(SqlOwnRows.make, other)
      for (const seed of seeds(60)) {
        const random = randomFrom(seed)
        const kind = `k${seed}`
        const users = [`u${seed}`, `v${seed}`]
        const sessions = [`${users[0]}/1`, `${users[0]}/2`, `${users[1]}/1`]
        const model = new Map(sessions.map((it) => [it, new Map<string, Row>()]))
        const holders: Array<Holder> = []
        const owners = new Map<string, Holder>()
        // those of a process that has all sessions
        const alone = [MemoryRows.make(), inSqlite, inPostgres]
        const about = (step: number) => `seed ${seed}, step ${step}`

        const activate = Effect.fnUntraced(function*(session: string) {
          // whoever held it is taken from without a word
          yield* sql`UPDATE tool_executor_sessions SET state = 'free', epoch = epoch + 1 WHERE principal = ${session}`
          const process = random.int(processes.length)
          yield* processes[process]!.registry.activate(session)
          const holder: Holder = { session, process, rows: processes[process]!.rows.of(session) }
          holders.push(holder)
          owners.set(session, holder)
        })
        const write = Effect.fnUntraced(function*(at: number) {
          const holder = random.pick(holders)
          const changes = changesOf(random, kind, at)
          if (changes.length === 0) return
          const isOwner = owners.get(holder.session) === holder
          const taken = isOwner ? apply(model.get(holder.session)!, changes) : []
          // somebody who has lost it writes at the same moment
          const stale = holders.filter((it) => it.session === holder.session && owners.get(it.session) !== it)
          const [exit, ...lost] = yield* Effect.forEach(
            [holder, ...stale.slice(-1)],
            ({ rows }) => Effect.result(rows.write(changes)),
            { concurrency: "unbounded" }
          )
          for (const it of isOwner ? lost : [exit!, ...lost]) {
            assert.strictEqual(Result.isFailure(it) ? it.failure._tag : "written", "SessionLost", about(at))
          }
          if (!isOwner) return
          if (taken.length > 0) {
            const error = Result.isFailure(exit!) ? exit.failure : undefined
            assert.strictEqual(error?._tag, "RowExists", about(at))
            assert.include(taken, error?._tag === "RowExists" ? error.key : "", about(at))
            for (const it of alone) {
              const refused = yield* Effect.result(it.of(holder.session).write(changes))
              assert.strictEqual(Result.isFailure(refused) ? refused.failure._tag : "written", "RowExists", about(at))
            }
            return
          }
          assert.isTrue(Result.isSuccess(exit!), about(at))
          for (const it of alone) yield* it.of(holder.session).write(changes)
        })
        const read = Effect.fnUntraced(function*(at: number) {
          const session = random.pick(sessions)
          const rows = model.get(session)!
          const keys = [...heads, ...others].filter(() => random.chance(0.3))
          const sequences = random.chance(0.5) ? ["s"] : []
          const head = random.chance(0.3) ? random.pick(heads) : undefined
          const expected = head !== undefined && !rows.has(head) ? [] : [
            ...head === undefined ? [] : [head],
            ...keys.filter((it) => it !== head && rows.has(it)),
            ...sequences.flatMap(() => ["s.0", "s.1", "s.2", "s.10"].filter((it) => rows.has(it) && !keys.includes(it)))
          ]
          const open = Array.from(rows).flatMap(([key, it]) => it.listed?.isOpen === true ? [key] : [])
          for (const it of [random.pick(processes).rows, ...alone]) {
            const found = yield* it.of(session).read({ head, keys, sequences })
            assert.sameMembers(
              Array.from(found, ([key, value]) => `${key}=${value}`),
              expected.map((key) => `${key}=${rows.get(key)!.value}`),
              about(at)
            )
            const unfinished = yield* it.of(session).open(kind)
            assert.sameMembers(unfinished.map(({ key }) => key), open, about(at))
          }
          const all = sessions.flatMap((it) =>
            Array.from(model.get(it)!.values(), ({ listed, value }) => listed?.isOpen === true ? value : "")
          )
          for (const it of alone) {
            const found = yield* it.found(kind)
            assert.sameMembers(found.map(({ value }) => value), all.filter((it) => it !== ""), about(at))
          }
        })
        const list = Effect.fnUntraced(function*(at: number) {
          const wanted = random.pick([undefined, [users[0]!], users, ["nobody"]])
          const limit = 1 + random.int(6)
          const all = sessions.flatMap((session) =>
            wanted !== undefined && !wanted.includes(session.split("/")[0]!) ? [] : Array.from(model.get(session)!)
          ).flatMap(([key, { listed }]) => listed?.summary === undefined ? [] : [{ key, ...listed }])
          const found = yield* random.pick(processes).rows.summaries!({ kind, users: wanted, limit })
          const order = (it: { readonly isOpen: boolean; readonly at: number }) => `${it.isOpen ? 1 : 0} ${it.at}`
          const sorted = all.sort((one, other) => Number(other.isOpen) - Number(one.isOpen) || other.at - one.at)
          // rows of one write have one time
          assert.deepStrictEqual(found.map(order), sorted.slice(0, limit).map(order), about(at))
          for (const it of found) {
            assert.isTrue(all.some((one) => one.key === it.key && one.at === it.at && one.summary === it.summary))
          }
        })
        const prune = Effect.fnUntraced(function*(at: number) {
          const before = at - random.int(20)
          const parts = random.pick([undefined, { prefix: "p" }, { prefix: "p", insteadOf: "h" }])
          for (const rows of model.values()) {
            for (const [head, { listed }] of Array.from(rows)) {
              if (listed === undefined || listed.isOpen || listed.at >= before) continue
              const prefix = parts?.insteadOf === undefined ? parts?.prefix : `p${head.slice(1)}`
              for (const key of Array.from(rows.keys())) {
                if (prefix !== undefined && key.startsWith(prefix)) rows.delete(key)
              }
              rows.delete(head)
            }
          }
          yield* random.pick(processes).rows.prune({ kind, before, parts })
          for (const it of alone) yield* it.prune({ kind, before, parts })
        })
        for (const session of sessions) yield* activate(session)
        for (let step = 1; step <= 60; step++) {
          const chance = random.int(20)
          if (chance < 10) yield* write(step)
          else if (chance < 15) yield* read(step)
          else if (chance < 17) yield* list(step)
          else if (chance < 18) yield* prune(step)
          else yield* activate(random.pick(sessions))
        }
        for (let step = 61; step < 70; step++) yield* read(step)
      }
    }).pipe(Effect.scoped, Effect.provide(Postgres.realTime)), { tags: ["SE8"], timeout })
})
