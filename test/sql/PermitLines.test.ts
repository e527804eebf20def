/**
 * The lines of shared permits against a plain model, asked by processes whose clocks run too fast or too slow, whose
 * answers get lost, and whose statements arrive late.
 */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import * as Migrations from "../../src/sql/Migrations.ts"
import * as Lines from "../../src/sql/PermitLines.ts"
import * as Postgres from "../support/Postgres.ts"
import { randomFrom } from "../support/randomCase.ts"
import { seeds } from "../support/seeds.ts"

/** Much longer than the test takes: what passes is said by the test, in steps that miss the ends of leases. */
const leaseMillis = 950_000
const stepMillis = 100_000

const sizes: Readonly<Record<string, number>> = { cap: 2, key: 1, other: 1 }

/** The same by hand. `now` is the time of the database. */
class Model {
  now = 0
  readonly lines = new Map<string, Array<{ readonly id: string; until: number }>>()

  change({ joins, keeps, leaves, pool }: Lines.Change): void {
    const line = (this.lines.get(pool) ?? []).filter((it) => it.until > this.now && !leaves.includes(it.id))
    for (const it of line) if (joins.includes(it.id) || keeps.includes(it.id)) it.until = this.now + leaseMillis
    for (const id of joins) {
      if (!line.some((it) => it.id === id)) line.push({ id, until: this.now + leaseMillis })
    }
    this.lines.set(pool, line)
  }
}

/** A place as its process sees it. */
interface Place {
  readonly id: string
  readonly pools: ReadonlyArray<string>
  since: number
  isGranted: boolean
}

/** A process with a clock of its own. */
class Process {
  readonly places = new Set<Place>()
  readonly left: Array<Place> = []
  private readonly speed: number

  constructor(speed: number) {
    this.speed = speed
  }

  now(time: number): number {
    return time * this.speed
  }

  /** The places whose permits it takes for its own. */
  held(time: number): ReadonlyArray<Place> {
    return Array.from(this.places).filter((it) => it.isGranted && this.now(time) < it.since + leaseMillis * 7 / 8)
  }
}

const trial = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, seed: number) {
  yield* sql`DELETE FROM tool_executor_permits`
  const { chance, int, pick } = randomFrom(seed)
  const model = new Model()
  const processes = Array.from({ length: 3 }, () => new Process(0.95 + int(11) / 100))
  const late: Array<ReadonlyArray<Lines.Change>> = []
  let ids = 0
  const made = Effect.fnUntraced(function*(changes: ReadonlyArray<Lines.Change>) {
    const lines = yield* Lines.change(sql, changes, leaseMillis)
    for (const it of changes) model.change(it)
    for (const { places, pool } of lines) {
      assert.deepStrictEqual(places.map((it) => it.id), model.lines.get(pool)!.map((it) => it.id), `seed ${seed}`)
    }
    assert.strictEqual(lines.length, changes.length)
    return lines
  })
  const ask = Effect.fnUntraced(function*(process: Process) {
    const changes = new Lines.Changes()
    const since = process.now(model.now)
    for (const { id, pools } of process.left) for (const pool of pools) changes.of(pool).leaves.push(id)
    const asked = Array.from(process.places).filter((it) => !it.isGranted || chance(0.7))
    for (const { id, isGranted, pools } of asked) {
      for (const pool of pools) changes.of(pool)[isGranted ? "keeps" : "joins"].push(id)
    }
    const all = changes.all
    // its answer is lost, and it may arrive any time later
    if (chance(0.15)) return void late.push(all)
    const lines = yield* made(all)
    if (chance(0.15)) return
    process.left.length = 0
    for (const place of asked) {
      const at = place.pools.map((pool) =>
        lines.find((it) => it.pool === pool)!.places.findIndex((it) => it.id === place.id)
      )
      if (at.some((it) => it < 0)) process.places.delete(place)
      place.since = since
      place.isGranted ||= place.pools.every((pool, index) => at[index]! < sizes[pool]!)
    }
  })
  for (let step = 0; step < 60; step++) {
    const process = pick(processes)
    const action = int(10)
    if (action < 3 && process.places.size < 4) {
      const pools = pick([["cap"], ["cap"], ["key"], ["key", "other"], ["other", "key"]])
      process.places.add({ id: `${seed}.${++ids}`, pools, since: -Infinity, isGranted: false })
    }
    if (action < 6) yield* ask(process)
    else if (action === 6 && process.places.size > 0) {
      const place = pick(Array.from(process.places))
      process.places.delete(place)
      process.left.push(place)
    } else if (action === 7 && late.length > 0) {
      yield* made(late.splice(int(late.length), 1)[0]!)
    } else if (action > 7) {
      const millis = stepMillis * (1 + int(4))
      model.now += millis
      yield* sql`UPDATE tool_executor_permits SET places = COALESCE((
        SELECT jsonb_agg(jsonb_set(it, '{until}', to_jsonb((it->>'until')::float8 - ${millis}::float8)) ORDER BY n)
        FROM jsonb_array_elements(places) WITH ORDINALITY AS a(it, n)), '[]')`
    }
    for (const [pool, size] of Object.entries(sizes)) {
      const held = processes.flatMap((it) => it.held(model.now)).filter((it) => it.pools.includes(pool))
      assert.isAtMost(held.length, size, `seed ${seed}, step ${step}: ${pool} is held by ${held.map((it) => it.id)}`)
    }
    // what a process no longer takes for its own it does not ask for under that name
    for (const it of processes) {
      for (const place of it.places) {
        if (place.isGranted && !it.held(model.now).includes(place)) it.places.delete(place)
      }
    }
  }
})

layer(Postgres.layer)("the lines of shared permits", (it) => {
  it.effect(
    "are what a plain model says, and nobody holds too many, whatever gets lost, comes late or goes too slow",
    () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* Migrations.run(sql, Lines.schema)
        for (const seed of seeds(100)) yield* trial(sql, seed)
      }).pipe(Effect.scoped, Effect.provide(Postgres.client)),
    120_000
  )
})
