import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import { ToolAnnotations, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import * as Harness from "../../../support/Harness.ts"

const host = (name: string) => ({ text: `host:${name}`, kind: "host" as const })

const reach = (name: string) => Effect.flatMap(ToolContext.ToolContext, (it) => it.confirmTarget(host(name)))

const world = (more?: Harness.Options) =>
  Effect.gen(function*() {
    const approvals = yield* Approvals.make()
    const env = yield* Harness.open({
      fetch: {
        class: "SerialMut",
        annotate: (tool) => tool.annotate(ToolAnnotations.Timeout, "1 minute"),
        handler: () => Effect.map(reach("api.example.com"), (may) => may ? "reached" : "refused")
      },
      twice: {
        class: "SerialMut",
        handler: () =>
          Effect.map(
            Effect.all([reach("a.example"), reach("b.example")], { concurrency: 2 }),
            (answers) => answers.join(" ")
          )
      }
    }, { approvals, policy: { allow: ["fetch", "twice"] }, ...more })
    return { ...env, approvals }
  })

type World = Effect.Success<ReturnType<typeof world>>

const run = <A, E>(program: (it: World) => Effect.Effect<A, E, Scope.Scope>, more?: Harness.Options) =>
  VirtualTime.run(Effect.scoped(Effect.flatMap(world(more), program)), { limit: "1 day" })

const asked = (approvals: World["approvals"]): Effect.Effect<Approvals.ApprovalRequest> =>
  Effect.flatMap(
    approvals.list,
    ([request]) =>
      request === undefined ? Effect.andThen(Effect.sleep("10 millis"), asked(approvals)) : Effect.succeed(request)
  )

const valueOf = ({ toolMessages }: { readonly toolMessages: ReadonlyArray<{ readonly text: string }> }) =>
  toolMessages[0]?.text

describe("one more target of a running call", () => {
  it.live(
    "is asked about although the policy allows the tool, and the call continues with the answer",
    () =>
      run((it) =>
        Effect.gen(function*() {
          const fiber = yield* Effect.forkChild(it.process.executeWave([Harness.call("1", "fetch", {})]))
          const request = yield* asked(it.approvals)
          assert.deepInclude(request, { isRunning: true, targets: [host("api.example.com")], remember: "resources" })
          // longer than the call may run
          yield* Effect.sleep("3 minutes")
          yield* it.approvals.answer(request.id, { _tag: "ApproveForScope", scope: "resources" })
          assert.strictEqual(valueOf(yield* Fiber.join(fiber)), "reached")
          // the answer holds for the host from now on
          const again = yield* it.process.executeWave([Harness.call("2", "fetch", { again: true })])
          assert.strictEqual(valueOf(again), "reached")
        })
      ),
    { tags: ["SB6"] }
  )

  it.live("is refused by a denial, and the call continues", () =>
    run((it) =>
      Effect.gen(function*() {
        const fiber = yield* Effect.forkChild(it.process.executeWave([Harness.call("1", "fetch", {})]))
        const request = yield* asked(it.approvals)
        yield* it.approvals.answer(request.id, { _tag: "Deny" })
        assert.strictEqual(valueOf(yield* Fiber.join(fiber)), "refused")
      })
    ))

  it.live("is asked about one at a time", () =>
    run((it) =>
      Effect.gen(function*() {
        const fiber = yield* Effect.forkChild(it.process.executeWave([Harness.call("1", "twice", {})]))
        const first = yield* asked(it.approvals)
        assert.lengthOf(yield* it.approvals.list, 1)
        yield* it.approvals.answer(first.id, { _tag: "ApproveOnce" })
        const second = yield* asked(it.approvals)
        yield* it.approvals.answer(second.id, { _tag: "Deny" })
        assert.strictEqual(valueOf(yield* Fiber.join(fiber)), "true false")
      })
    ))

  for (
    const [policy, expected] of [
      [{ allow: ["fetch", "fetch(host:*.example.com)"] }, "reached"],
      [{ allow: ["fetch"], deny: ["fetch(host:api.example.com)"] }, "refused"]
    ] as const
  ) {
    it.live(`is ${expected} as the policy says: ${JSON.stringify(policy)}`, () =>
      run((it) =>
        Effect.gen(function*() {
          const wave = yield* it.process.executeWave([Harness.call("1", "fetch", {})])
          assert.strictEqual(valueOf(wave), expected)
        }), { policy }))
  }

  it.live("is refused without an approver, and outside an executor", () =>
    Effect.gen(function*() {
      assert.isFalse(yield* reach("api.example.com"))
    }))
})
