/** What a tool declares to be a secret, where people are asked about its calls. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { LocalExecutor, ToolAnnotations, ToolHandlers } from "../../../src/index.ts"
import type { LiveItem } from "../../../src/server/api/ApiApprovals.ts"
import * as Server from "../../../src/server/api/Server.ts"
import * as PendingApprovals from "../../../src/server/approvals/PendingApprovals.ts"
import * as LiveLog from "../../../src/server/live/LiveLog.ts"
import * as Access from "../../../src/server/users/Access.ts"
import * as Waves from "../../../src/server/waves/Waves.ts"

const ada = { user: "ada", session: "s" }
const bob = { name: "bob", run: false, approve: ["ada"], records: [], operate: false }

const Params = Schema.Struct({
  card: Schema.String,
  to: Schema.String,
  pin: Schema.RedactedFromValue(Schema.String),
  notes: Schema.Array(Schema.String)
})
type Params = typeof Params.Encoded

const Pay = Tool.make("pay", { parameters: Params, success: Schema.String })
  .annotate(ToolAnnotations.Redact, ["card"])
  .annotate(ToolAnnotations.Targets, (params) => [{ text: `card ${(params as Params).card}` }])
  .annotate(ToolAnnotations.Preview, (params) => {
    const { card } = params as Params
    return Effect.succeed([{ path: "paid.txt", before: `was ${card}`, after: `is ${card}` }])
  })

const kit = Toolkit.make(Pay)

const params: Params = { card: "4111-1111", to: "the shop", pin: "77665", notes: ["by 4111-1111"] }

/** A call that waits for an answer, and what becomes of it. */
const asked = Effect.gen(function*() {
  const paid: Array<unknown> = []
  const handlers = kit.toLayer({
    pay: (it) => Effect.sync(() => String(paid.push(JSON.stringify({ ...it, pin: it.pin.toString() }))))
  })
  const tools = ToolHandlers.layer(kit).pipe(Layer.provide(handlers))
  const services = yield* Layer.build(
    Server.layerExecutors().pipe(
      Layer.provide(LocalExecutor.layerGates({ policy: { default: "ask" } })),
      Layer.provide([tools, Access.layer({ users: [] })])
    )
  )
  const live = Context.get(services, LiveLog.LiveLog)
  const approvals = Context.get(services, PendingApprovals.PendingApprovals)
  const from = yield* live.cursor
  const wave = yield* Context.get(services, Waves.Waves).submit(ada, {
    message: [{ id: "1", name: "pay", params }]
  })
  const told = yield* live.stream(from, () => true).pipe(
    Stream.map(({ data }): LiveItem => data),
    Stream.takeUntil(({ _tag }) => _tag === "ApprovalRequested"),
    Stream.runCollect
  )
  const { open: [approval] } = yield* approvals.list(bob)
  return { paid, approval: approval!, approvals, told, wave }
})

describe("a declared secret", () => {
  it.live(
    "is in nothing that people are shown of an approval request, who see that it is there",
    () =>
      Effect.gen(function*() {
        const { approval, approvals, told } = yield* asked
        const whole = Option.getOrThrow(yield* approvals.get(bob, approval.id))
        const parts = yield* Effect.forEach(
          ["before", "after"] as const,
          (side) => approvals.part(bob, { id: approval.id, index: 0, side, from: 0 })
        )
        const text = JSON.stringify([approval, whole, parts, told])
        assert.notInclude(text, "4111-1111")
        assert.notInclude(text, "77665")
        assert.deepInclude(whole, {
          args: { card: "[redacted]", to: "the shop", pin: "[redacted]", notes: ["by [redacted]"] }
        })
        assert.include(JSON.stringify(parts), "is [redacted]")
      }).pipe(Effect.scoped),
    { tags: ["SV14"] }
  )

  it.live("is what the call has, also where people edit the rest of its arguments", () =>
    Effect.gen(function*() {
      const { paid, approval: { hash, id }, approvals, wave } = yield* asked
      const { args } = Option.getOrThrow(yield* approvals.get(bob, id)) as {
        readonly args: Record<string, Schema.Json>
      }
      const edited = (params: Schema.Json) =>
        approvals.answer(bob, { id, hash, answer: { _tag: "ApproveOnce", params } })
      // nobody can tell what stands there
      const moved = yield* Effect.flip(edited({ ...args, to: "[redacted]" }))
      assert.strictEqual(moved._tag, "NotAnswered")
      yield* edited({ ...args, to: "the other shop" })
      yield* wave.ended
      assert.deepStrictEqual(paid, [JSON.stringify({ ...params, to: "the other shop", pin: "<redacted>" })])
    }).pipe(Effect.scoped), { tags: ["SV14"] })
})
