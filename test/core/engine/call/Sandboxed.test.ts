import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as LocalExecutor from "../../../../src/assembly/LocalExecutor.ts"
import { ToolExecutor } from "../../../../src/core/engine/ToolExecutor.ts"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as Journal from "../../../../src/core/store/Journal.ts"
import * as ToolAnnotations from "../../../../src/core/vocabulary/ToolAnnotations.ts"
import * as ToolCall from "../../../../src/core/vocabulary/ToolCall.ts"

const confined: ToolAnnotations.Sandboxing = {
  _tag: "Confined",
  driver: "box",
  network: "none",
  holds: ["files"],
  missing: ["syscalls"]
}

/** A tool whose calls run as `says` says. */
const kitOf = (says: (params: unknown) => ToolAnnotations.Sandboxing) =>
  Toolkit.make(
    Tool.make("work", { parameters: Schema.Struct({ how: Schema.optionalKey(Schema.String) }), success: Schema.String })
      .annotate(ToolAnnotations.Sandboxed, says)
  )

const run = (kit: ReturnType<typeof kitOf>, options: LocalExecutor.Options, params: object = {}) =>
  Effect.gen(function*() {
    const process = yield* (yield* ToolExecutor).process()
    return (yield* process.executeWave([ToolCall.make("1", "work", params)])).outcomes[0]
  }).pipe(
    Effect.scoped,
    Effect.provide(
      LocalExecutor.layer(kit, options).pipe(Layer.provide(kit.toLayer({ work: () => Effect.succeed("done") })))
    )
  )

describe("a tool that says how its calls run", () => {
  it.effect("has a call refused that requires a sandbox which is not there, with the reason", () =>
    Effect.gen(function*() {
      const says = ({ how }: { readonly how?: string }): ToolAnnotations.Sandboxing =>
        how === "required" ? { _tag: "Unavailable", reason: "bwrap is not installed" } : confined
      const kit = kitOf(says as (params: unknown) => ToolAnnotations.Sandboxing)
      assert.strictEqual((yield* run(kit, { policy: { default: "allow" } }))?._tag, "Succeeded")
      const refused = yield* run(kit, { policy: { default: "allow" } }, { how: "required" })
      assert.deepInclude(refused, {
        _tag: "Denied",
        reason: { _tag: "SandboxUnavailable", reason: "bwrap is not installed" }
      })
    }))

  it.effect("has its call refused if it cannot say so", () =>
    Effect.gen(function*() {
      const kit = kitOf(() => {
        throw new Error("no idea")
      })
      const refused = yield* run(kit, { policy: { default: "allow" } })
      assert.strictEqual(refused?._tag === "Denied" ? refused.reason._tag : undefined, "SandboxUnavailable")
    }))

  it.effect("has it shown to approvers and put on record", () =>
    Effect.gen(function*() {
      const seen = yield* Deferred.make<Approvals.ApprovalRequest>()
      const approvals = Approvals.layerApprover((request) =>
        Effect.as(Deferred.succeed(seen, request), { _tag: "ApproveOnce" as const })
      )
      const entries = yield* Effect.gen(function*() {
        const outcome = yield* run(kitOf(() => confined), { policy: { default: "ask" } })
        assert.strictEqual(outcome?._tag, "Succeeded")
        return yield* Stream.runCollect((yield* Journal.Journal).read({}))
      }).pipe(Effect.provide(Layer.merge(approvals, Journal.layerMemory())))
      const { _tag: _, ...how } = confined
      assert.deepStrictEqual((yield* Deferred.await(seen)).evidence, [{ _tag: "Sandboxed", ...how }])
      const started = entries.find(({ entry }) => entry._tag === "Started")?.entry
      assert.deepStrictEqual(started?._tag === "Started" ? started.sandbox : undefined, {
        driver: confined.driver,
        network: confined.network
      })
    }), { tags: ["SB3"] })
})
