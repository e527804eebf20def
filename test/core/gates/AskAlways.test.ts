import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import { Permissions, ToolAnnotations } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { calls, type Env, open, type Options, tags, type ToolSpec } from "../../support/Harness.ts"

const tool = (more: Partial<ToolSpec> = {}): ToolSpec => ({
  class: "ConcurrentMut",
  handler: (params) => Effect.succeed(params),
  annotate: (tool) =>
    tool.annotate(ToolAnnotations.Targets, (params) => {
      const { path } = params as { readonly path?: string }
      const folder = path?.slice(0, path.lastIndexOf("/")) ?? ""
      return path === undefined ? [] : [{ text: path, ...(folder === "" ? {} : { wider: [`${folder}/*`] }) }]
    }),
  ...more
})

type People = Approvals.Approvals["Service"]

const asking = <A, E>(
  options: Options,
  program: (env: Env & { readonly people: People }) => Effect.Effect<A, E, Scope.Scope>,
  spec = tool()
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const people = yield* Approvals.make()
      const env = yield* open({ w: spec }, { dedupe: false, ...options, approvals: people })
      return yield* program({ ...env, people })
    })),
    { limit: "1 day" }
  )

/** Runs a call and answers each request for it; gives how it ended and what was asked. */
const answered = (
  { people, process }: Env & { readonly people: People },
  params: object,
  answer: Approvals.Answer = { _tag: "ApproveOnce" }
) =>
  Effect.gen(function*() {
    const wave = yield* Effect.forkChild(process.executeWave(calls(["w", params])), { startImmediately: true })
    const asked: Array<Approvals.ApprovalRequest> = []
    while (true) {
      yield* Effect.yieldNow
      yield* Effect.yieldNow
      const [request] = yield* people.list
      if (request === undefined) break
      asked.push(request)
      yield* people.answer(request.id, answer)
    }
    return { asked, tags: tags(yield* Fiber.join(wave)) }
  })

const always: Approvals.Answer = { _tag: "ApproveForScope", scope: "tool" }

describe("askAlways", () => {
  it.effect(
    "requests approval of each call, whatever was approved before",
    () =>
      asking({ policy: { askAlways: ["w"] } }, (env) =>
        Effect.gen(function*() {
          for (const path of ["src/a", "src/a"]) {
            const { asked, tags } = yield* answered(env, { path }, always)
            assert.deepStrictEqual(tags, ["Succeeded"])
            assert.deepStrictEqual(asked.map((it) => [it.isAlways, it.remember, it.wider]), [[true, "call", undefined]])
          }
          assert.deepStrictEqual(yield* env.executor.grants, [])
        })),
    { tags: ["P9"] }
  )

  it.effect("is not covered by a grant that was made for calls with other arguments", () =>
    asking({ policy: { askAlways: [{ tool: "w", when: { amount: { gt: 100 } } }] } }, (env) =>
      Effect.gen(function*() {
        const first = yield* answered(env, { path: "src/a", amount: 1 }, always)
        assert.strictEqual(first.asked.length, 1)
        assert.strictEqual((yield* answered(env, { path: "src/a", amount: 2 })).asked.length, 0)
        assert.strictEqual((yield* answered(env, { path: "src/a", amount: 200 })).asked.length, 1)
        // what cannot be compared is asked about
        assert.strictEqual((yield* answered(env, { path: "src/a", amount: "2" })).asked.length, 1)
      })))

  it.effect(
    "holds beside acceptEdits, for a rule's consent and for a wave that is asked up front",
    () =>
      Effect.gen(function*() {
        const edits = tool({ annotate: (it) => it.annotate(ToolAnnotations.Edits, true) })
        const twice = (options: Options, spec?: ToolSpec) =>
          asking(options, (env) =>
            Effect.gen(function*() {
              const one = yield* answered(env, { path: "a" }, always)
              const two = yield* answered(env, { path: "a" }, always)
              return one.asked.length + two.asked.length
            }), spec)
        const policy = { askAlways: ["w"] }
        assert.strictEqual(yield* twice({ policy: { ...policy, mode: "acceptEdits" } }, edits), 2)
        assert.strictEqual(yield* twice({ policy, approval: "upfront" }), 2)
        assert.strictEqual(yield* twice({ policy, rules: [{ _tag: "RequiresConsent", tool: "w", scope: "tool" }] }), 2)
      }),
    { tags: ["P9"] }
  )

  it.effect("is refused where nobody can be asked, even with a grant in the store", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const { process } = yield* open({ w: tool() }, { policy: { askAlways: ["w"], allow: ["w"], default: "allow" } })
      assert.deepStrictEqual(tags(yield* process.executeWave(calls(["w", { path: "a" }]))), ["PermissionDenied"])
    }))))

  it.effect(
    "is not loosened by a sub-agent's policy",
    () =>
      asking({ policy: { askAlways: ["w"] } }, (env) =>
        Effect.gen(function*() {
          const sub = yield* env.executor.fork({ name: "sub", policy: { default: "allow", allow: ["w"] } })
          const process = yield* sub.process()
          for (const _ of [1, 2]) {
            assert.strictEqual((yield* answered({ ...env, process }, { path: "a" }, always)).asked.length, 1)
          }
        })),
    { tags: ["P9"] }
  )
})

describe("an approval under a condition", () => {
  it.effect("is of one call: it covers no other amount", () =>
    Effect.gen(function*() {
      const amounts = (options: Options, spec?: ToolSpec) =>
        asking(options, (env) =>
          Effect.gen(function*() {
            const one = yield* answered(env, { amount: 101 }, always)
            assert.deepStrictEqual(one.asked.map((it) => it.remember), ["call"])
            assert.strictEqual((yield* answered(env, { amount: 1_000_000 }, always)).asked.length, 1)
            assert.deepStrictEqual(yield* env.executor.grants, [])
          }), spec)
      const when = { amount: { gt: 100 } }
      yield* amounts({ policy: { allow: ["w"], ask: [{ tool: "w", when }] } }, tool({ annotate: (it) => it }))
      yield* amounts({ policy: { default: "allow", ask: ["w", { tool: "*", when }] } })
      // the tool's own condition
      const needsApproval = (it: unknown) => (it as { readonly amount: number }).amount > 100
      yield* amounts({ policy: { allow: ["w"] } }, tool({ annotate: (it) => Object.assign(it, { needsApproval }) }))
    }), { tags: ["AP23"] })

  it.effect("does not come from one for calls that the condition is not about", () =>
    asking({ policy: { ask: ["w", { tool: "w", when: { amount: { gt: 100 } } }] } }, (env) =>
      Effect.gen(function*() {
        yield* answered(env, { path: "a", amount: 1 }, always)
        assert.strictEqual((yield* answered(env, { path: "a", amount: 2 })).asked.length, 0)
        assert.strictEqual((yield* answered(env, { path: "a", amount: 200 })).asked.length, 1)
      })))
})

describe("tiers of permissions", () => {
  it.effect(
    "refuse with the clause and the tier, and what a model reads names both",
    () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const permissions = Layer.orDie(Permissions.layerTiers([
          { name: "organisation", policy: { deny: [{ tool: "w", when: { amount: { gt: 100 } } }] } },
          { name: "project", policy: { allow: ["w"] } }
        ]))
        const { process } = yield* open({ w: tool() }, { permissions })
        const { outcomes, toolMessages } = yield* process.executeWave(
          calls(["w", { path: "a", amount: 7 }], ["w", { path: "a", amount: 700 }])
        )
        assert.deepStrictEqual(outcomes.map((it) => it._tag), ["Succeeded", "Denied"])
        assert.include(toolMessages[1]?.text, "deny w when amount > 100 (organisation)")
      }))),
    { tags: ["P10"] }
  )

  it.effect("know the roles of the principal, and hold edited arguments to the policy again", () =>
    Effect.gen(function*() {
      const policy = { allow: [{ tool: "w", roles: ["lead"] }], deny: ["w(secret)"] }
      const asked = (options: Options) =>
        asking({ policy, ...options }, (env) => Effect.map(answered(env, { path: "a" }), (it) => it.asked.length))
      assert.strictEqual(yield* asked({ roles: ["lead"] }), 0)
      assert.strictEqual(yield* asked({ roles: ["guest"] }), 1)
      assert.strictEqual(yield* asked({}), 1)
      const edited = yield* asking(
        { policy },
        (env) => answered(env, { path: "a" }, { _tag: "ApproveOnce", params: { path: "secret" } })
      )
      assert.deepStrictEqual(edited.tags, ["PolicyDenied"])
    }))
})

describe("a wider target", () => {
  const folder: Approvals.Answer = { _tag: "ApproveForScope", scope: { pattern: "src/*" } }

  it.effect("is offered, and an answer to it covers what it fits", () =>
    asking({ policy: { default: "ask" } }, (env) =>
      Effect.gen(function*() {
        const { asked } = yield* answered(env, { path: "src/a" }, folder)
        assert.deepStrictEqual(asked.map((it) => it.wider), [["src/*"]])
        const [grant] = yield* env.executor.grants
        assert.deepInclude(grant, { targets: ["src/a"], patterns: ["src/*"] })
        assert.strictEqual((yield* answered(env, { path: "src/deep/b" })).asked.length, 0)
        assert.strictEqual((yield* answered(env, { path: "test/b" })).asked.length, 1)
        assert.strictEqual((yield* answered(env, { path: "src" })).asked.length, 1)
      })))

  it.effect("also settles the requests that it covers", () =>
    asking({ policy: { default: "ask" }, mode: "parallel" }, ({ people, process }) =>
      Effect.gen(function*() {
        const all = calls(["w", { path: "src/a" }], ["w", { path: "src/b" }], ["w", { path: "test/c" }])
        const wave = yield* Effect.forkChild(process.executeWave(all), { startImmediately: true })
        const [first] = yield* people.list
        yield* people.answer(first!.id, folder)
        assert.deepStrictEqual((yield* people.list).map((it) => it.targets[0]?.text), ["test/c"])
        yield* Fiber.interrupt(wave)
      })))

  it.effect(
    "is taken to the letter, as the request offers it",
    () =>
      asking({ policy: { default: "ask" } }, ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* Effect.forkChild(process.executeWave(calls(["w", { path: "src/a" }])), {
            startImmediately: true
          })
          const [request] = yield* people.list
          for (const pattern of ["*", "src/**", ""]) {
            const error = yield* Effect.flip(
              people.answer(request!.id, { _tag: "ApproveForScope", scope: { pattern } })
            )
            assert.strictEqual(error.reason, "NotAnAnswer")
            assert.include(error.message, "src/*")
          }
          yield* people.answer(request!.id, { _tag: "Deny" })
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["PermissionDenied"])
        })),
    { tags: ["P11"] }
  )

  it.effect("covers neither what is protected or exact nor what a command runs, and is not offered where only these targets count", () =>
    Effect.gen(function*() {
      const kinds = tool({
        annotate: (it) =>
          it.annotate(
            ToolAnnotations.Targets,
            (params) => [params as { readonly text: string; readonly wider: ReadonlyArray<string> }]
          )
      })
      const first = { text: "src/a", wider: ["src/*"] }
      for (const more of [{ kind: "protected" }, { kind: "exact" }, { runBy: "run_command" }]) {
        yield* asking({ policy: { default: "ask" } }, (env) =>
          Effect.gen(function*() {
            yield* answered(env, first, folder)
            const { asked } = yield* answered(env, { ...first, text: "src/b", ...more })
            assert.deepStrictEqual(asked.map((it) => it.wider), [undefined])
          }), kinds)
      }
      const { asked } = yield* asking(
        { rules: [{ _tag: "RequiresConsent", tool: "w", scope: "resources" }], policy: { default: "allow" } },
        (env) => answered(env, first),
        kinds
      )
      assert.deepStrictEqual(asked.map((it) => [it.remember, it.wider]), [["resources", undefined]])
    }))
})
