import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ToolContext, ToolMeta } from "../../../src/index.ts"
import { call, calls, run, value } from "../../support/Harness.ts"

const Tenant = ToolMeta.make("tenant", Schema.Struct({ id: Schema.NonEmptyString, since: Schema.Date }))
const Trace = ToolMeta.make("trace", Schema.NonEmptyString)

const acme = { id: "acme", since: new Date(5) }

const told = (error: ToolMeta.MetaError) => Effect.succeed(error.message)

describe("ToolMeta", () => {
  it.effect("is read by handlers as the host gave it, several by spreading them", () =>
    run(
      {
        t: () =>
          Effect.gen(function*() {
            const tenant = yield* Tenant.require
            expectTypeOf(tenant).toEqualTypeOf<{ readonly id: string; readonly since: Date }>()
            return [tenant.id, tenant.since.getTime(), yield* Trace.require]
          })
      },
      {},
      ({ batch }) =>
        Effect.gen(function*() {
          const process = yield* batch.process({ meta: { ...Tenant.of(acme), ...Trace.of("t-1"), other: 1 } })
          assert.deepStrictEqual((yield* process.executeWave(calls("t"))).outcomes.map(value), [["acme", 5, "t-1"]])
        })
    ))

  it.effect("is plain JSON in the context, and none of another name", () =>
    run(
      {
        t: () =>
          Effect.gen(function*() {
            const { meta } = yield* ToolContext.ToolContext
            return [meta, Option.isNone(yield* Trace.get), yield* Effect.catch(Trace.require, told)]
          })
      },
      {},
      ({ batch }) =>
        Effect.gen(function*() {
          const process = yield* batch.process({ meta: Tenant.of(acme) })
          assert.deepStrictEqual((yield* process.executeWave(calls("t"))).outcomes.map(value), [[
            { tenant: { id: "acme", since: "1970-01-01T00:00:00.005Z" } },
            true,
            "The metadata \"trace\" of this operation cannot be used: the host gave none."
          ]])
        })
    ))

  it.effect("that is not what its schema says fails where it is read, and is not made", () =>
    run({ t: () => Effect.catch(Tenant.get, told) }, {}, ({ batch }) =>
      Effect.gen(function*() {
        const process = yield* batch.process({ meta: { tenant: { id: "" } } })
        const [outcome] = (yield* process.executeWave([call("1", "t")])).outcomes
        assert.match(String(value(outcome)), /^The metadata "tenant" of this operation cannot be used: /)
        assert.throws(() => Trace.of(""))
      })))

  it.effect("is a sub-agent's, too, and its own goes over it", () =>
    run(
      {
        inner: () => Effect.all([Effect.map(Tenant.require, (it) => it.id), Trace.require]),
        outer: () =>
          Effect.gen(function*() {
            const { executor } = yield* ToolContext.ToolContext
            const child = yield* executor!.fork()
            const process = yield* child.process({ meta: Trace.of("inner") })
            return value((yield* process.executeWave([call("1", "inner")])).outcomes[0])
          }).pipe(Effect.scoped, Effect.orDie)
      },
      {},
      ({ batch }) =>
        Effect.gen(function*() {
          const process = yield* batch.process({ meta: { ...Tenant.of(acme), ...Trace.of("outer") } })
          const { outcomes } = yield* process.executeWave([call("1", "outer")])
          assert.deepStrictEqual(outcomes.map(value), [["acme", "inner"]])
        })
    ))

  it.effect("is none outside an executor", () => Effect.map(Tenant.get, (it) => assert.isTrue(Option.isNone(it))))
})
