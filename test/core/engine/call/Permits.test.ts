/** `ToolContext.permits`: what a running call may touch, by the policy that judged it. */
import { assert, describe, it } from "@effect/vitest"
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import { type Policy, ToolAnnotations, ToolContext, type ToolOutcome, type ToolRule } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import * as Harness from "../../../support/Harness.ts"

const { calls, tags, value } = Harness

type Touch = string | { readonly text: string; readonly kind?: "exact" | "protected" }

interface Params {
  /** What the call is about. */
  readonly path: string
  readonly touches: ReadonlyArray<Touch>
  /** What it says that they lie in; by default what it is about. */
  readonly within?: string
}

/** Gives what the policy says of each thing that a call touches. */
const look: Harness.Handler = (params) =>
  Effect.gen(function*() {
    const { path, touches, within = path } = params as unknown as Params
    const { permits } = yield* ToolContext.ToolContext
    return yield* Effect.forEach(touches, (it) => permits(it, { within }))
  })

const onPath = (tool: Tool.Any) =>
  tool.annotate(ToolAnnotations.Targets, (params) => [{ text: (params as Params).path }])

const search: Harness.ToolSpec = { handler: look, annotate: onPath }

/** A search that may not show what reading does not. */
const reader: Harness.ToolSpec = {
  handler: look,
  annotate: (tool) => onPath(tool).annotate(ToolAnnotations.ActsAs, ["read"]) as unknown as Tool.Any
}

const params = (path: string, ...touches: ReadonlyArray<Touch>) => ({ path, touches })

const tools = { search, reader, read: search }

const answers = (wave: ToolOutcome.WaveResult) => value(wave.outcomes[0])

/** What one call is told by a policy. */
const told = (policy: Policy.Policy, path: string, ...touches: ReadonlyArray<Touch>) =>
  Harness.run(
    tools,
    { policy },
    ({ process }) => Effect.map(process.executeWave(calls(["search", params(path, ...touches)])), answers)
  )

/** An executor with somebody to ask. */
const asking = <A, E>(
  options: Harness.Options,
  program: (env: Harness.Env & { readonly people: Approvals.Approvals["Service"] }) => Effect.Effect<A, E>
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const people = yield* Approvals.make()
      const env = yield* Harness.open(tools, { ...options, approvals: people, dedupe: false })
      return yield* program({ ...env, people })
    })),
    { limit: "1 day" }
  )

/** Runs calls and gives the same answer to every question. */
const answering = Effect.fnUntraced(function*(
  { people, process }: Harness.Env & { readonly people: Approvals.Approvals["Service"] },
  answer: Approvals.Answer,
  ...wave: ReadonlyArray<readonly [string, object]>
) {
  const running = yield* Effect.forkChild(process.executeWave(calls(...wave)), { startImmediately: true })
  const asked = yield* people.list
  yield* Effect.forEach(asked, ({ id }) => people.answer(id, answer))
  return { wave: yield* Fiber.join(running), asked: asked.length }
})

describe("permits", () => {
  it.effect("says what a call about that alone would meet", () =>
    Effect.gen(function*() {
      const policy: Policy.Policy = {
        deny: ["*(*.env*)"],
        ask: ["search(*.key)"],
        allow: ["search(open/*)"],
        default: "cautious"
      }
      const guarded = { text: "open/.git", kind: "protected" } as const
      assert.deepStrictEqual(
        yield* told(policy, "open", "open/a", "open/.env", "open/x.env.local", "open/a.key", guarded),
        ["allow", "deny", "deny", "ask", "ask"]
      )
      assert.deepStrictEqual(yield* told({ default: "deny", allow: ["search(open*)"] }, "open", "open/a", "shut/a"), [
        "allow",
        "deny"
      ])
    }), { tags: ["P5"] })

  it.effect("takes no pattern about another tool for one about this, but where the tool acts as that", () =>
    Harness.run(
      tools,
      { policy: { deny: ["read(*.env)"], ask: ["read(*.key)"], allow: ["read(*)"], default: "allow" } },
      ({ process }) =>
        Effect.gen(function*() {
          const about = params(".", "a", ".env", "b.key")
          const { outcomes } = yield* process.executeWave(calls(["search", about], ["reader", about]))
          assert.deepStrictEqual(outcomes.map(value), [["allow", "allow", "allow"], ["allow", "deny", "ask"]])
          const direct = yield* process.executeWave(calls(["reader", params(".env")], ["search", params(".env")]))
          assert.deepStrictEqual(tags(direct), ["PolicyDenied", "Succeeded"])
        })
    ))

  it.effect("takes a pattern that allows another tool for none about this one", () =>
    Harness.run(
      tools,
      { policy: { allow: ["read(*)", "reader(.)"], default: "deny" } },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls(["reader", params(".", "a")]))
          assert.deepStrictEqual(answers(wave), ["deny"])
        })
    ))

  it.effect("takes what a person said to the call for what is in it, and for nothing else", () =>
    asking(
      { policy: { default: "ask", ask: ["search(*.key)", "search(secret*)"], deny: ["search(*.env)"] } },
      (env) =>
        Effect.gen(function*() {
          const touches = ["src/a", "src/b.key", "src/.env", { text: "src/.git", kind: "protected" } as const]
          const once = { _tag: "ApproveOnce" } as const
          const { asked, wave } = yield* answering(env, once, ["search", params("src", ...touches)])
          assert.strictEqual(asked, 1)
          assert.deepStrictEqual(answers(wave), ["allow", "ask", "deny", "ask"])
          // elsewhere than what was asked about: the person said nothing to that
          const elsewhere = { ...params("src", "other/a", "other"), within: "other" }
          assert.deepStrictEqual(answers((yield* answering(env, once, ["search", elsewhere])).wave), ["ask", "ask"])
          // what was asked about for its own sake is in it for the same
          const secret = params("secret", "secret/a", "secret/b.key", "secret")
          assert.deepStrictEqual(answers((yield* answering(env, once, ["search", secret])).wave), [
            "allow",
            "ask",
            "allow"
          ])
        })
    ))

  it.effect("counts a grant of this principal and agent that covers the target, until it is revoked", () =>
    asking({ policy: { default: "ask" } }, (env) =>
      Effect.gen(function*() {
        yield* answering(env, { _tag: "ApproveForScope" }, ["search", params("a")])
        const other = { ...params("b", "a", "b", "c"), within: "elsewhere" }
        const { wave } = yield* answering(env, { _tag: "ApproveOnce" }, ["search", other])
        assert.deepStrictEqual(answers(wave), ["allow", "ask", "ask"])
        yield* env.executor.revoke({ tool: "search" })
        const again = yield* answering(env, { _tag: "ApproveOnce" }, ["search", other])
        assert.deepStrictEqual(answers(again.wave), ["ask", "ask", "ask"])
      })))

  it.effect("is no way round a rule that requires consent to each thing", () => {
    const rule: ToolRule.ToolRule = { _tag: "RequiresConsent", tool: "search", scope: "resources" }
    return asking(
      { policy: { default: "allow", ask: ["search(*.key)"] }, rules: [rule] },
      (env) =>
        Effect.gen(function*() {
          const { wave } = yield* answering(env, { _tag: "ApproveOnce" }, [
            "search",
            params("src", "src/a", "src/b.key")
          ])
          assert.deepStrictEqual(answers(wave), ["allow", "ask"])
        })
    )
  })

  it.effect("allows a sub-agent what its caller and its own policy allow", () =>
    Harness.run(
      tools,
      { policy: { default: "allow", deny: ["search(*.env)"] } },
      ({ executor }) =>
        Effect.gen(function*() {
          const child = yield* executor.fork({ policy: { default: "allow", ask: ["search(*.key)"] } })
          const process = yield* child.process()
          const wave = yield* process.executeWave(calls(["search", params("src", "src/a", "src/.env", "src/b.key")]))
          assert.deepStrictEqual(answers(wave), ["allow", "deny", "ask"])
        })
    ))

  it.effect("reads the grants once, however much a call touches", () => {
    const store = StateStore.makeMemory()
    let reads = 0
    const counting: typeof store = {
      ...store,
      grants: (...of) => {
        reads++
        return store.grants(...of)
      }
    }
    const touches = Array.from({ length: 300 }, (_, index) => `src/${index}`)
    return Harness.run(
      tools,
      { policy: { allow: ["search(src)"], default: "ask" }, store: counting },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls(["search", { ...params("src", ...touches), within: "x" }]))
          assert.deepStrictEqual(new Set(answers(wave) as ReadonlyArray<string>), new Set(["ask"]))
          assert.strictEqual(reads, 1)
        })
    )
  })

  it.effect("denies everything once the call has its outcome, and allows everything outside an executor", () => {
    let kept: ToolContext.Service | undefined
    const keep: Harness.Handler = () =>
      Effect.gen(function*() {
        kept = yield* ToolContext.ToolContext
        assert.strictEqual(yield* kept.permits("a"), "allow")
      })
    return Harness.run({ keep }, {}, ({ process }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("keep"))), ["Succeeded"])
        assert.strictEqual(yield* kept!.permits("a"), "deny")
        const outside = yield* ToolContext.ToolContext
        assert.strictEqual(yield* outside.permits({ text: ".git/config", kind: "protected" }), "allow")
      }))
  })
})
