import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as LeasedShards from "../../src/cluster/LeasedShards.ts"
import { SqlRunner } from "../../src/sql/SqlRunner.ts"
import { randomFrom } from "../../src/testing/SeededRandom.ts"
import * as Postgres from "../support/Postgres.ts"
import { seeds, timeout } from "../support/seeds.ts"
import { type Loss, pass, Process, virtualTime } from "../support/sessionWorld.ts"

const ids = ["default:1", "default:2", "default:3", "default:4"]

const turn = Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))

/** Processes over one database, in a time that the test makes pass. */
const world = Effect.fnUntraced(function*(rates: ReadonlyArray<number>) {
  const url = yield* (yield* Postgres.Postgres).database
  yield* Effect.provide(virtualTime, Postgres.clientOf(url), { local: true })
  const sql = Context.get(yield* Layer.build(Layer.fresh(Postgres.clientOf(url))), SqlClient.SqlClient)
  const all = yield* Effect.forEach(rates, (rate) => {
    const process = new Process(sql, rate)
    return Effect.map(process.stores, ({ registry: { runner } }) => {
      assert.instanceOf(runner, SqlRunner)
      return { process, runner, shards: runner.shards }
    })
  })
  yield* Effect.addFinalizer(() => Effect.sync(() => all.forEach(({ process }) => process.thaw())))
  /** Waits until nothing is under way. */
  const settle = Effect.gen(function*() {
    for (let quiet = 0; quiet < 3;) {
      yield* turn
      quiet = all.every(({ process }) => process.isQuiet) ? quiet + 1 : 0
    }
  })
  const advance = Effect.fnUntraced(function*(millis: number) {
    yield* pass(sql, millis)
    for (const { process } of all) process.clock.advance(millis)
    yield* settle
  })
  const start = <A, E>({ process }: typeof all[number], effect: Effect.Effect<A, E>) =>
    Effect.forkDetach(process.run(effect), { startImmediately: true })
  return { advance, all, settle, sql, start }
})

const ownAddress = (runner: SqlRunner) => Effect.scoped(LeasedShards.ownAddress(runner, "10.0.0.1:7421"))

const has = ({ runner, shards }: { readonly runner: SqlRunner; readonly shards: SqlRunner["shards"] }, id: string) =>
  runner.isHeld && shards.has(id)

layer(Postgres.layer, { timeout: 60_000 })("shards that processes over one PostgreSQL share", (it) => {
  const test = (
    name: string,
    run: (it: Effect.Success<ReturnType<typeof world>>) => Effect.Effect<void, unknown>,
    options?: { tags: Array<string> }
  ) =>
    it.effect(
      name,
      () => Effect.flatMap(world([1, 1]), run).pipe(Effect.scoped, Effect.provide(Postgres.realTime)),
      options
    )

  test(
    "are of one process until its lease has expired, and it finds that it lost them",
    ({ advance, all }) =>
      Effect.gen(function*() {
        const [one, two] = [all[0]!, all[1]!]
        assert.deepStrictEqual(yield* one.process.run(one.shards.acquire(ids)), ids)
        assert.deepStrictEqual(yield* two.process.run(two.shards.acquire(ids)), [])
        // it renews its lease, however long it has them
        for (let n = 0; n < 8; n++) yield* advance(1_000)
        assert.deepStrictEqual(yield* two.process.run(two.shards.acquire(ids)), [])
        one.process.freeze()
        for (let n = 0; n < 4; n++) yield* advance(1_000)
        assert.isFalse(has(one, ids[0]!))
        assert.deepStrictEqual(yield* two.process.run(two.shards.acquire(ids)), ids)
        one.process.thaw()
        assert.isTrue(yield* one.process.run(one.runner.renew))
        assert.isFalse(has(one, ids[0]!))
        assert.deepStrictEqual(one.shards.kept(ids), [])
        yield* two.process.run(two.shards.release([ids[0]!]))
        assert.deepStrictEqual(yield* one.process.run(one.shards.acquire(ids)), ids.slice(0, 1))
      }),
    { tags: ["CL6"] }
  )

  test("are known to be free to those who wait for their process, unless it left in time", ({ advance, all, start }) =>
    Effect.gen(function*() {
      const [one, two] = [all[0]!, all[1]!]
      for (const { process, runner } of [one, two]) yield* process.run(runner.join(`place of ${runner.name}`))
      yield* two.process.run(two.runner.members)
      const departed = yield* start(two, two.runner.departed)
      yield* one.process.run(one.runner.leave)
      for (let n = 0; n < 4; n++) yield* advance(1_000)
      assert.lengthOf(yield* two.process.run(two.runner.members), 1)
      assert.isUndefined(departed.pollUnsafe())
      yield* one.process.run(one.runner.join("place again"))
      for (let n = 0; n < 4; n++) yield* advance(1_000)
      assert.lengthOf(yield* two.process.run(two.runner.members), 2)
      one.process.freeze()
      for (let n = 0; n < 4; n++) yield* advance(1_000)
      assert.lengthOf(yield* two.process.run(two.runner.members), 1)
      yield* Fiber.join(departed)
    }))

  test("are not expected of a process that has left, however late the database hears of it", ({ advance, all }) =>
    Effect.gen(function*() {
      const [one, two] = [all[0]!, all[1]!]
      for (const { process, runner } of [one, two]) yield* process.run(runner.join(`place of ${runner.name}`))
      // it goes on with its lease until its sessions have moved
      one.process.loss = { text: "UPDATE tool_executor_runners", what: "statement" }
      yield* Effect.exit(one.process.run(one.runner.leave))
      for (let n = 0; n < 4; n++) yield* advance(1_000)
      assert.isTrue(one.runner.isHeld)
      const members = yield* two.process.run(two.runner.members)
      assert.deepStrictEqual(members.map(({ place }) => place), [`place of ${two.runner.name}`])
    }))

  test("are free again if the answer was lost, or nobody uses them", ({ advance, all }) =>
    Effect.gen(function*() {
      const [one, two] = [all[0]!, all[1]!]
      one.process.loss = { text: "INSERT INTO tool_executor_shards", what: "answer" }
      yield* Effect.exit(one.process.run(one.shards.acquire(ids)))
      assert.deepStrictEqual(yield* two.process.run(two.shards.acquire(ids)), [])
      yield* advance(1_100)
      yield* advance(1_100)
      assert.deepStrictEqual(yield* two.process.run(two.shards.acquire(ids)), ids)
      for (const kept of [1, 1]) assert.lengthOf(two.shards.kept([ids[0]!]), kept)
      yield* advance(1_100)
      yield* advance(1_100)
      assert.deepStrictEqual(yield* one.process.run(one.shards.acquire(ids)), ids.slice(1))
    }), { tags: ["CL6"] })

  test("are of processes that all see alike, from the end of a lease on", ({ advance, all }) =>
    Effect.gen(function*() {
      const seen = Effect.forEach(all, ({ process, runner }) =>
        Effect.map(process.run(runner.members), (members) =>
          members.map(({ isReachable, place }) =>
            isReachable ? place : `(${place})`
          )))
      for (const [n, { process, runner }] of all.entries()) {
        yield* process.run(runner.namesakes(`at ${n}`))
        assert.isNumber(yield* process.run(runner.join(`place ${n}`)))
      }
      yield* advance(1_100)
      assert.deepStrictEqual(yield* seen, [["place 0", "place 1"], ["place 0", "place 1"]])
      const [one, two] = [all[0]!, all[1]!]
      yield* one.process.run(one.runner.reach("at 1", false))
      yield* advance(1_100)
      assert.deepStrictEqual(yield* seen, [["place 0", "(place 1)"], ["place 0", "(place 1)"]])
      two.process.freeze()
      yield* advance(1_000)
      assert.deepStrictEqual(
        (yield* Effect.forEach([one], ({ process, runner }) => process.run(runner.members)))
          .flat().map(({ place }) => place),
        ["place 0", "place 1"]
      )
      for (let n = 0; n < 2; n++) yield* advance(1_000)
      assert.deepStrictEqual((yield* one.process.run(one.runner.members)).map(({ place }) => place), ["place 0"])
      // who was frozen is there again, once it says where it is or renews its lease
      two.process.thaw()
      yield* advance(1_100)
      yield* one.process.run(one.runner.leave)
      assert.deepStrictEqual((yield* one.process.run(one.runner.members)).map(({ place }) => place), ["place 1"])
    }), { tags: ["CL6"] })

  test("are not of a process at the address of one that lives, which is refused", ({ advance, all, start }) =>
    Effect.gen(function*() {
      const [one, two] = [all[0]!, all[1]!]
      yield* one.process.run(ownAddress(one.runner))
      const refused = yield* start(two, ownAddress(two.runner))
      for (let n = 0; n < 6; n++) yield* advance(500)
      assert.match(String(yield* Fiber.join(refused).pipe(Effect.flip)), /another runner is up at 10\.0\.0\.1:7421/)
    }))

  test("stay with an address whose process was killed and is started again before they are free", ({ advance, all, start }) =>
    Effect.gen(function*() {
      const [one, two] = [all[0]!, all[1]!]
      const places = Effect.map(two.process.run(two.runner.members), (all) => all.map((it) => it.machine))
      yield* one.process.run(ownAddress(one.runner))
      const first = yield* one.process.run(one.runner.join("10.0.0.1:7421"))
      assert.deepStrictEqual(yield* one.process.run(one.shards.acquire(ids)), ids)
      assert.deepStrictEqual(yield* places, [first])
      one.process.freeze()
      const starts = yield* start(two, ownAddress(two.runner))
      yield* advance(500)
      assert.isUndefined(starts.pollUnsafe())
      for (let n = 0; n < 2; n++) yield* advance(500)
      yield* Fiber.join(starts)
      // who waits for an answer of the first one asks the second one
      yield* two.process.run(two.runner.members)
      const departed = yield* start(two, two.runner.departed)
      const second = yield* two.process.run(two.runner.join("10.0.0.1:7421"))
      assert.deepStrictEqual(yield* places, [second])
      yield* Fiber.join(departed)
      assert.deepStrictEqual(yield* two.process.run(two.shards.acquire(ids)), [])
      for (let n = 0; n < 4; n++) yield* advance(500)
      assert.deepStrictEqual(yield* places, [second])
      assert.deepStrictEqual(yield* two.process.run(two.shards.acquire(ids)), ids)
      // the earlier one has no say in it
      one.process.thaw()
      yield* one.process.run(ownAddress(one.runner))
    }))

  const play = Effect.fnUntraced(function*(seed: number, steps: number) {
    const random = randomFrom(seed)
    const { advance, all, settle, start } = yield* world([0.9 + random.int(25) / 100, 1, 0.9 + random.int(25) / 100])
    const waiting: Array<Fiber.Fiber<unknown, unknown>> = []
    let step = 0
    const check = (): void => {
      for (const id of ids) {
        const holders = all.filter((it) => has(it, id)).length
        assert.isAtMost(holders, 1, `seed ${seed}, step ${step}: two processes take ${id} for theirs`)
      }
    }
    for (; step < steps; step++) {
      const one = random.pick(all)
      const { process, runner, shards } = one
      const some = ids.filter(() => random.chance(0.5))
      const doing = random.pick<Effect.Effect<unknown, unknown>>([
        shards.acquire(some),
        shards.acquire(some),
        shards.release(some),
        runner.renew,
        shards.tidy
      ])
      const action = random.int(8)
      if (process.clock.isFrozen) {
        if (random.chance(0.4)) process.thaw()
      } else if (action < 4) waiting.push(yield* start(one, doing))
      else if (action === 4) {
        const texts = ["tool_executor_shards", "SET lease_until", "AS members"]
        process.loss = { text: random.pick(texts), what: random.pick<Loss["what"]>(["statement", "answer"]) }
      } else if (action === 5) {
        // in the middle of something, before or after the database has heard of it
        if (random.chance(0.5)) process.freeze()
        waiting.push(yield* start(one, doing))
        process.freeze()
      } else if (action === 6) shards.kept(some)
      check()
      yield* settle
      check()
      yield* advance(random.pick([0, 100, 500, 1_000]))
      check()
    }
    for (const { process } of all) process.thaw()
    yield* settle
    for (let n = 0; n < 12; n++) yield* advance(500)
    for (const fiber of waiting) assert.isDefined(fiber.pollUnsafe(), `seed ${seed}: something does not end`)
    // nothing is left behind
    const [last] = all
    for (const { process, shards } of all) {
      shards.kept([])
      shards.kept([])
      yield* process.run(shards.release([]))
    }
    for (let n = 0; n < 4; n++) yield* advance(1_100)
    assert.lengthOf(yield* last!.process.run(last!.shards.acquire(ids)), ids.length, `seed ${seed}: a shard is lost`)
  })

  it.effect(
    "have one owner, whatever freezes, is late or gets lost",
    () =>
      Effect.forEach(seeds(8), (seed) => Effect.scoped(play(seed, 60)), { discard: true }).pipe(
        Effect.provide(Postgres.realTime)
      ),
    { tags: ["CL6"], timeout }
  )
})
