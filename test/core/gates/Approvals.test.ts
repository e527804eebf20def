import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import * as Permissions from "../../../src/core/gates/Permissions.ts"
import type { WaveResult } from "../../../src/core/vocabulary/ToolOutcome.ts"
import { type StateStore, ToolAnnotations, ToolOutcome, type ToolRule } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, calls, type Env, open, type Options, run, tags, type ToolSpec, value } from "../../support/Harness.ts"

type People = Approvals.Approvals["Service"]

const consent = (tool: string, scope?: "call" | "resources" | "tool"): ToolRule.ToolRule => ({
  _tag: "RequiresConsent",
  tool,
  ...(scope === undefined ? {} : { scope })
})

const echo = (params: object) => Effect.succeed(params)
const mut = (handler: ToolSpec["handler"] = echo): ToolSpec => ({
  class: "ConcurrentMut",
  handler,
  annotate: (tool) =>
    tool.annotate(ToolAnnotations.Targets, (params) => {
      const { path } = params as { readonly path?: string }
      return path === undefined ? [] : [{ text: path }]
    })
})

/** An executor with somebody to ask. */
const asking = <A, E>(
  tools: Readonly<Record<string, ToolSpec>>,
  options: Options,
  program: (env: Env & { readonly people: People }) => Effect.Effect<A, E, Scope.Scope>
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const people = yield* Approvals.make()
      const env = yield* open(tools, { rules: [consent("w")], ...options, approvals: people })
      return yield* program({ ...env, people })
    })),
    { limit: "1 day" }
  )

const later = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

const pending = (people: People) => Effect.map(people.list, (all) => all.map((it) => it.callId))

const idOf = (people: People, callId: string) =>
  Effect.map(people.list, (all) => all.find((it) => it.callId === callId)?.id ?? "none")

const approve = (people: People, callId: string, answer: Approvals.Answer = { _tag: "ApproveOnce" }) =>
  Effect.flatMap(idOf(people, callId), (id) => people.answer(id, answer))

describe("an approval request", () => {
  it.effect("says what is asked, and is answered by its id in any order", () =>
    asking({ w: mut() }, {}, ({ people, process }) =>
      Effect.gen(function*() {
        const wave = yield* later(process.executeWave(calls(["w", { path: "a" }], ["w", { path: "b" }])))
        const [first] = yield* people.list
        assert.deepInclude(first, {
          callId: "1",
          tool: "w",
          class: "ConcurrentMut",
          args: { path: "a" },
          targets: [{ text: "a" }],
          why: "a rule requires consent",
          principal: "default"
        })
        yield* approve(people, "2")
        assert.deepStrictEqual(yield* pending(people), ["1"])
        yield* approve(people, "1", { _tag: "Deny", reason: "not today" })
        const { outcomes, toolMessages } = yield* Fiber.join(wave)
        assert.deepStrictEqual(tags({ outcomes } as never), ["PermissionDenied", "Succeeded"])
        assert.include(toolMessages[0]?.text, "not today")
      })))

  it.effect(
    "takes no answer that is forged, repeated, late or to another call",
    () =>
      asking({ w: mut() }, {}, ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(calls(["w", { path: "a" }])))
          const id = yield* idOf(people, "1")
          const answer = (to: string, of?: { readonly tool: string; readonly args: unknown }) =>
            Effect.map(Effect.flip(people.answer(to, { _tag: "ApproveOnce" }, of)), (error) => error.reason)
          assert.strictEqual(yield* answer("forged"), "NotPending")
          assert.strictEqual(yield* answer(id, { tool: "w", args: { path: "b" } }), "NotTheSame")
          assert.strictEqual(yield* answer(id, { tool: "x", args: { path: "a" } }), "NotTheSame")
          for (const duration of ["soon", "0 seconds", "Infinity", "366 days", "9007199254740991 weeks"]) {
            const endless = yield* Effect.flip(people.answer(id, { _tag: "ApproveForDuration", duration }))
            assert.strictEqual(endless.reason, "NoDuration", duration)
            assert.include(endless.message, "at most 365 days")
          }
          assert.deepStrictEqual(yield* pending(people), ["1"])
          yield* people.answer(id, { _tag: "ApproveOnce" }, { tool: "w", args: { path: "a" } })
          assert.strictEqual(yield* answer(id), "NotPending")
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])

          const silent = yield* later(process.executeWave(calls(["w", { path: "c" }])))
          const late = yield* idOf(people, "1")
          const refused = yield* Fiber.join(silent)
          assert.deepInclude(refused.outcomes[0], {
            reason: { _tag: "PermissionDenied", by: "timeout", permission: "w(c)", scope: "tool" }
          })
          assert.strictEqual(yield* VirtualTime.now, 300_000)
          assert.strictEqual(yield* answer(late), "NotPending")
        })),
    { tags: ["AP3"] }
  )

  it.effect("is not put for a call that an earlier gate refuses, and holds no permit and no sibling", () =>
    asking(
      { w: mut(), r: { handler: () => Effect.sleep(10) } },
      { rules: [consent("w"), { _tag: "MaxCalls", tool: "w", max: 1 }], pools: { concurrent: 1 } },
      ({ batch, people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(calls("w", "w")))
          assert.deepStrictEqual(yield* pending(people), ["1"])
          const other = yield* batch.process()
          assert.deepStrictEqual(tags(yield* other.executeWave(calls("r", "w"))), ["Succeeded", "RuleViolation"])
          yield* approve(people, "1")
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "RuleViolation"])
        })
    ), { tags: ["AP2"] })

  it.effect("gives back what its call reserved when the answer is no", () =>
    asking(
      { w: mut() },
      { rules: [consent("w"), { _tag: "MaxCalls", tool: "w", max: 1 }] },
      ({ people, process }) =>
        Effect.gen(function*() {
          for (const answer of ["Deny", "ApproveOnce"] as const) {
            const wave = yield* later(process.executeWave(calls(["w", {}])))
            yield* approve(people, "1", { _tag: answer })
            assert.deepStrictEqual(tags(yield* Fiber.join(wave)), [
              answer === "Deny" ? "PermissionDenied" : "Succeeded"
            ])
          }
        })
    ))

  it.effect(
    "is withdrawn when its call is cancelled or its caller interrupted",
    () =>
      asking({ w: mut() }, {}, ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(calls("w", "w")))
          yield* process.cancelCall("1")
          assert.deepStrictEqual(yield* pending(people), ["2"])
          yield* Fiber.interrupt(wave)
          assert.deepStrictEqual(yield* pending(people), [])
        })),
    { tags: ["AP5"] }
  )

  it.effect("is refused at once where nobody is there, and as closed when whoever was there leaves", () =>
    Effect.gen(function*() {
      yield* run(
        { w: mut() },
        { rules: [consent("w")] },
        ({ process }) =>
          Effect.map(process.executeWave(calls("w")), (wave) =>
            assert.deepInclude(wave.outcomes[0], {
              reason: {
                _tag: "PermissionDenied",
                by: "noApprover",
                reason: "a rule requires consent",
                permission: "w",
                scope: "tool"
              }
            }))
      )
      yield* VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const scope = yield* Scope.make()
        const people = yield* Scope.provide(Approvals.make(), scope)
        const { process } = yield* open({ w: mut() }, { rules: [consent("w")], approvals: people })
        const wave = yield* later(process.executeWave(calls("w")))
        yield* Scope.close(scope, Exit.void)
        assert.deepInclude((yield* Fiber.join(wave)).outcomes[0], {
          reason: { _tag: "PermissionDenied", by: "closed", permission: "w", scope: "tool" }
        })
      })))
    }))

  it.effect("may be answered the moment it is told", () =>
    asking({ w: mut() }, {}, ({ people, process }) =>
      Effect.gen(function*() {
        yield* later(Stream.runForEach(people.changes, (change) =>
          change._tag === "Requested"
            ? Effect.ignore(people.answer(change.request.id, { _tag: "ApproveOnce" }))
            : Effect.void))
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("w", "w"))), ["Succeeded", "Succeeded"])
      })))

  it.effect("is answered before its handler starts, and so are all others that the answer covers", () => {
    const log: Array<string> = []
    const handler = () => Effect.sync(() => void log.push("starts"))
    return asking(
      { w: { class: "ConcurrentMut", handler } },
      { pools: { concurrent: 100 } },
      ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(
            Array.from({ length: 101 }, (_, n) => call(String(n), "w", { n }))
          ))
          assert.lengthOf(yield* people.list, 101)
          yield* approve(people, "7", { _tag: "ApproveForScope" })
          log.push("answered")
          assert.deepStrictEqual([...new Set(tags(yield* Fiber.join(wave)))], ["Succeeded"])
          assert.strictEqual(log[0], "answered")
          assert.lengthOf(log, 102)
        })
    )
  }, { tags: ["AP4"] })

  it.effect("is told to whoever watches", () =>
    asking({ w: mut() }, {}, ({ people, process }) =>
      Effect.gen(function*() {
        const seen = yield* later(Stream.runCollect(Stream.take(people.changes, 2)))
        const wave = yield* later(Stream.runCollect(process.stream(calls("w"))))
        yield* Effect.sleep(1)
        yield* approve(people, "1")
        assert.deepStrictEqual((yield* Fiber.join(seen)).map((it) => it._tag), ["Requested", "Ended"])
        assert.deepStrictEqual((yield* Fiber.join(wave)).map((it) => it._tag), [
          "ToolCallQueued",
          "ToolApprovalRequested",
          "ToolApprovalResolved",
          "ToolCallStart",
          "ToolCallComplete",
          "ToolsEnd"
        ])
      })))
})

describe("a remembered answer", () => {
  const forScope = { _tag: "ApproveForScope" } as const
  const ask = (
    env: { readonly people: People; readonly process: Env["process"] },
    params: object,
    answer?: Approvals.Answer
  ) =>
    Effect.gen(function*() {
      const wave = yield* later(env.process.executeWave([call("x", "w", params)]))
      const isAsked = (yield* env.people.list).length > 0
      if (isAsked && answer !== undefined) yield* approve(env.people, "x", answer)
      return [isAsked, ...answer === undefined && isAsked ? [] : tags(yield* Fiber.join(wave))]
    })

  it.effect(
    "is for the targets of its call to the letter, unless the person says the whole tool",
    () =>
      asking({ w: mut() }, {}, (env) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* ask(env, { path: "a", n: 1 }, forScope), [true, "Succeeded"])
          assert.deepStrictEqual(yield* ask(env, { path: "a", n: 2 }), [false, "Succeeded"])
          for (const path of ["a ", "A", "ab", "./a", "a\n", "*"]) {
            assert.deepStrictEqual(yield* ask(env, { path }, { _tag: "ApproveOnce" }), [true, "Succeeded"], path)
          }
          assert.deepStrictEqual(yield* ask(env, {}, { _tag: "ApproveOnce" }), [true, "Succeeded"])
          assert.deepStrictEqual(yield* ask(env, { path: "b" }, { ...forScope, scope: "tool" }), [true, "Succeeded"])
          assert.deepStrictEqual(yield* ask(env, { path: "c" }), [false, "Succeeded"])
        })),
    { tags: ["AP8"] }
  )

  for (const approval of ["perCall", "upfront"] as const) {
    it.effect(`holds although its own call is cancelled the moment that it is given (${approval})`, () =>
      asking({ w: mut() }, { approval }, (env) =>
        Effect.gen(function*() {
          const wave = yield* later(env.process.executeWave([call("1", "w", { path: "a", n: 1 })]))
          yield* Effect.andThen(approve(env.people, "1", forScope), env.process.cancelCall("1"))
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Cancelled"])
          assert.strictEqual((yield* env.executor.grants).length, 1)
          assert.deepStrictEqual(yield* ask(env, { path: "a", n: 2 }), [false, "Succeeded"])
        })))
  }

  it.effect("is told with the outcome of what it let through, and never with another call's", () =>
    asking({ w: mut() }, { dedupe: { onDuplicate: "replay" } }, (env) =>
      Effect.gen(function*() {
        const granted = (wave: WaveResult) =>
          wave.outcomes.map((it) => it._tag === "Succeeded" ? it.grant?.targets : it._tag)
        const once = yield* later(env.process.executeWave([call("1", "w", { path: "a", n: 1 })]))
        yield* approve(env.people, "1")
        assert.deepStrictEqual(granted(yield* Fiber.join(once)), [undefined])
        const first = yield* later(env.process.executeWave([call("2", "w", { path: "a", n: 2 })]))
        yield* approve(env.people, "2", forScope)
        assert.deepStrictEqual(granted(yield* Fiber.join(first)), [["a"]])
        const [next, again] = (yield* env.process.executeWave([
          call("3", "w", { path: "a", n: 3 }),
          call("4", "w", { path: "a", n: 2 })
        ])).outcomes
        const [grant] = yield* env.executor.grants
        assert.deepInclude(next, { _tag: "Succeeded", grant: grant! })
        assert.deepInclude(again, { _tag: "Succeeded", replayOf: "2", grant: grant! })
        yield* env.executor.revoke({ tool: "w" })
        const replayed = yield* later(env.process.executeWave([call("5", "w", { path: "a", n: 2 })]))
        yield* approve(env.people, "5")
        const [ungranted] = (yield* Fiber.join(replayed)).outcomes
        assert.deepInclude(ungranted, { _tag: "Succeeded", replayOf: "2" })
        assert.notProperty(ungranted, "grant")
        assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(ToolOutcome.ToolOutcome)(next), next)
      })))

  for (
    const [what, answer] of [
      ["for what it is about", forScope],
      ["for a while", { _tag: "ApproveForDuration", duration: "1 hour" }],
      ["for the whole tool", { ...forScope, scope: "tool" }],
      ["for every agent", { ...forScope, agents: "all" }]
    ] as const
  ) {
    it.effect(`is none where the call was about nothing: allowed ${what}, it allows nothing else`, () =>
      asking({ w: mut() }, {}, (env) =>
        Effect.gen(function*() {
          const waiting = yield* later(env.process.executeWave([call("waiting", "w", { path: "b" })]))
          assert.deepStrictEqual(yield* ask(env, { n: 1 }, answer), [true, "Succeeded"])
          assert.deepStrictEqual(yield* env.executor.grants, [])
          assert.deepStrictEqual(yield* pending(env.people), ["waiting"])
          assert.deepStrictEqual(yield* ask(env, { path: "a" }, { _tag: "Deny" }), [true, "PermissionDenied"])
          assert.deepStrictEqual(yield* ask(env, { n: 2 }, { _tag: "Deny" }), [true, "PermissionDenied"])
          yield* Fiber.interrupt(waiting)
        })))
  }

  it.effect("is of the whole tool where the tool never says what its calls are about", () =>
    asking({ w: { class: "ConcurrentMut", handler: echo } }, {}, (env) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* ask(env, { n: 1 }, forScope), [true, "Succeeded"])
        assert.deepStrictEqual(yield* ask(env, { n: 2 }), [false, "Succeeded"])
      })))

  it.effect("goes no further than the rule lets it", () =>
    asking({ w: mut() }, { rules: [consent("w", "call")] }, (env) =>
      Effect.gen(function*() {
        yield* ask(env, { path: "a", n: 1 }, forScope)
        assert.deepStrictEqual(yield* env.executor.grants, [])
        assert.deepStrictEqual(yield* ask(env, { path: "a", n: 2 }, forScope), [true, "Succeeded"])
      })))

  it.effect("holds for its time, to the millisecond", () =>
    asking({ w: mut() }, {}, (env) =>
      Effect.gen(function*() {
        yield* ask(env, { path: "a", n: 1 }, { _tag: "ApproveForDuration", duration: "1 second" })
        yield* Effect.sleep(999)
        assert.deepStrictEqual(yield* ask(env, { path: "a", n: 2 }), [false, "Succeeded"])
        yield* Effect.sleep(1)
        assert.deepStrictEqual(yield* ask(env, { path: "a", n: 3 }, { _tag: "ApproveOnce" }), [true, "Succeeded"])
      })))

  describe("that expires while a call which it let through waits for its permits", () => {
    const waiting = (
      program: (env: Env & { readonly people: People }) => Effect.Effect<void, StateStore.StateStoreError>
    ) =>
      asking(
        { w: mut(), hold: mut(({ millis }) => Effect.sleep(Number(millis))) },
        { pools: { concurrent: 1 } },
        (env) =>
          Effect.gen(function*() {
            yield* ask(env, { path: "a", n: 1 }, { _tag: "ApproveForDuration", duration: "1 second" })
            yield* later((yield* env.batch.process()).executeWave([call("h", "hold", { millis: 3_000 })]))
            const wave = yield* later(env.process.executeWave([call("2", "w", { path: "a", n: 2 })]))
            yield* Effect.sleep(2_000)
            yield* program(env)
            assert.deepStrictEqual(yield* pending(env.people), [])
            return (yield* Fiber.join(wave)).outcomes[0]
          })
      )

    it.effect("holds for that call, and for no other", () =>
      Effect.map(
        waiting((env) => Effect.map(env.executor.grants, (grants) => assert.deepStrictEqual(grants, []))),
        (outcome) => assert.strictEqual(outcome?._tag, "Succeeded")
      ))

    it.effect("can still be taken back", () =>
      Effect.map(
        waiting((env) => Effect.map(env.executor.revoke({ tool: "w" }), (open) => assert.strictEqual(open, 0))),
        (outcome) =>
          assert.deepInclude(outcome, {
            reason: { _tag: "PermissionDenied", by: "user", reason: "revoked", permission: "w(a)", scope: "resources" }
          })
      ))
  })

  it.effect("is listed, and a revoke is seen by calls that wait, without a second question", () =>
    asking(
      { w: mut(), hold: mut(({ millis }) => Effect.sleep(Number(millis))) },
      { pools: { concurrent: 1 } },
      (env) =>
        Effect.gen(function*() {
          yield* ask(env, { path: "a" }, forScope)
          assert.deepStrictEqual((yield* env.executor.grants).map(({ targets, tool }) => ({ targets, tool })), [
            { targets: ["a"], tool: "w" }
          ])
          yield* later((yield* env.batch.process()).executeWave([call("h", "hold", { millis: 100 })]))
          const wave = yield* later(env.process.executeWave([call("2", "w", { path: "a", n: 2 })]))
          yield* Effect.sleep(10)
          assert.strictEqual(yield* env.executor.revoke({ tool: "w" }), 1)
          assert.deepInclude((yield* Fiber.join(wave)).outcomes[0], {
            reason: { _tag: "PermissionDenied", by: "user", reason: "revoked", permission: "w(a)", scope: "resources" }
          })
          assert.deepStrictEqual(yield* pending(env.people), [])
          assert.deepStrictEqual(yield* env.executor.grants, [])
        })
    ), { tags: ["G11"] })

  it.effect("settles the questions it covers, and no others", () =>
    asking({ w: mut() }, {}, ({ people, process }) =>
      Effect.gen(function*() {
        const wave = yield* later(process.executeWave([
          call("1", "w", { path: "a", n: 1 }),
          call("2", "w", { path: "b" }),
          call("3", "w", { path: "a", n: 3 })
        ]))
        yield* approve(people, "3", forScope)
        assert.deepStrictEqual(yield* pending(people), ["2"])
        yield* approve(people, "2")
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded", "Succeeded"])
      })))

  it.effect("is another user's never", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const people = yield* Approvals.make()
      const options = { rules: [consent("w")], approvals: people }
      const one = yield* open({ w: mut() }, { ...options, principal: "one" })
      const two = yield* open({ w: mut() }, { ...options, principal: "two" })
      const first = yield* later(one.process.executeWave([call("1", "w", { path: "a" })]))
      const second = yield* later(two.process.executeWave([call("2", "w", { path: "a" })]))
      yield* approve(people, "1", forScope)
      assert.deepStrictEqual(tags(yield* Fiber.join(first)), ["Succeeded"])
      assert.deepStrictEqual(yield* pending(people), ["2"])
      assert.deepStrictEqual(yield* two.executor.grants, [])
      yield* Fiber.interrupt(second)
    }))), { tags: ["AP8"] })

  it.effect("that was revoked lets no outcome be replayed before somebody is asked", () =>
    asking({ w: mut() }, { dedupe: { onDuplicate: "replay" } }, (env) =>
      Effect.gen(function*() {
        yield* ask(env, { path: "a" }, forScope)
        const [replayed] = (yield* env.process.executeWave([call("2", "w", { path: "a" })])).outcomes
        assert.strictEqual(replayed?._tag === "Succeeded" && replayed.replayOf, "x")
        yield* env.executor.revoke({ tool: "w" })
        const refused = yield* later(env.process.executeWave([call("3", "w", { path: "a" })]))
        yield* approve(env.people, "3", { _tag: "Deny" })
        assert.deepStrictEqual(tags(yield* Fiber.join(refused)), ["PermissionDenied"])
        const asked = yield* later(env.process.executeWave([call("4", "w", { path: "a" })]))
        yield* approve(env.people, "4", { _tag: "ApproveOnce" })
        assert.deepInclude((yield* Fiber.join(asked)).outcomes[0], { _tag: "Succeeded", replayOf: "x" })
      })))
})

describe("edited arguments", () => {
  const edit = (
    params: Approvals.Answer extends infer A ? A extends { readonly params?: infer P } ? P : never : never
  ) => ({ _tag: "ApproveForScope", params }) as Approvals.Answer

  it.effect("pass the gates again, without a second request, and are not remembered", () =>
    asking(
      { w: mut() },
      {
        rules: [consent("w"), { _tag: "MaxCalls", tool: "w", max: 1 }],
        policy: { default: "allow", deny: ["w(.env)"] }
      },
      ({ executor, people, process }) =>
        Effect.gen(function*() {
          for (const [path, expected] of [[".env", "PolicyDenied"], ["b", "Succeeded"]] as const) {
            const wave = yield* later(process.executeWave(calls(["w", { path: "a" }])))
            yield* approve(people, "1", edit({ path }))
            assert.deepStrictEqual(yield* pending(people), [])
            const result = yield* Fiber.join(wave)
            assert.deepStrictEqual(tags(result), [expected])
            if (expected === "Succeeded") assert.deepStrictEqual(value(result.outcomes[0]), { path })
          }
          assert.deepStrictEqual(yield* executor.grants, [])
        })
    ), { tags: ["AP11"] })

  it.effect("take the place of the first in dedupe", () =>
    asking({ w: mut() }, {}, ({ people, process }) =>
      Effect.gen(function*() {
        const wave = yield* later(process.executeWave(calls(["w", { path: "a" }])))
        yield* approve(people, "1", edit({ path: "b" }))
        yield* Fiber.join(wave)
        const again = yield* later(process.executeWave([call("2", "w", { path: "b" }), call("3", "w", { path: "a" })]))
        assert.deepStrictEqual(yield* pending(people), ["3"])
        yield* approve(people, "3")
        assert.deepStrictEqual(tags(yield* Fiber.join(again)), ["DuplicateCall", "Succeeded"])
      })))
})

describe("asking up front", () => {
  it.effect("asks about what would run if those before it did, and runs nothing until all is answered", () =>
    asking(
      { w: mut(), r: { handler: () => Effect.succeed(1) }, x: mut() },
      {
        approval: "upfront",
        rules: [consent("w"), consent("x"), { _tag: "RequiresPrecedingTools", tool: "x", tools: ["w"] }]
      },
      ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(calls("x", "r", "w", "x")))
          assert.deepStrictEqual(yield* pending(people), ["3", "4"])
          yield* Effect.sleep(50)
          yield* approve(people, "4")
          yield* Effect.sleep(50)
          yield* approve(people, "3")
          const { outcomes } = yield* Fiber.join(wave)
          assert.deepStrictEqual(outcomes.map((it) => it.startedAt), [undefined, 100, 100, 100])
          assert.deepStrictEqual(tags({ outcomes } as never), ["RuleViolation", "Succeeded", "Succeeded", "Succeeded"])
        })
    ))

  it.effect("goes on with the others when calls are cancelled, refused or edited meanwhile", () =>
    asking({ w: mut() }, { approval: "upfront" }, ({ people, process }) =>
      Effect.gen(function*() {
        const wave = yield* later(process.executeWave(calls("w", "w", "w", "w")))
        yield* process.cancelCall("1")
        yield* approve(people, "2", { _tag: "Deny" })
        yield* approve(people, "3", { _tag: "ApproveOnce", params: { edited: true } })
        yield* approve(people, "4")
        const result = yield* Fiber.join(wave)
        assert.deepStrictEqual(tags(result), ["Cancelled", "PermissionDenied", "Succeeded", "Succeeded"])
        assert.deepStrictEqual(value(result.outcomes[2]), { edited: true })
      })))

  for (const mode of ["classes", "parallel", "sequential"] as const) {
    it.effect(`asks about what its dispatch would let through, and nothing that it would not (${mode})`, () =>
      asking(
        { a: mut(() => Effect.sleep(10)), w: mut(), x: mut() },
        {
          approval: "upfront",
          mode,
          rules: [
            consent("w"),
            consent("x"),
            { _tag: "RequiresPrecedingTools", tool: "w", tools: ["a"] },
            { _tag: "RequiresFollowingTools", tool: "x", tools: ["a"] }
          ]
        },
        ({ people, process }) =>
          Effect.gen(function*() {
            const wave = yield* later(process.executeWave(calls("a", "w", "x")))
            const isTogether = mode === "parallel"
            assert.deepStrictEqual(yield* pending(people), [isTogether ? "3" : "2"])
            yield* Effect.sleep(50)
            yield* approve(people, isTogether ? "3" : "2")
            const { outcomes } = yield* Fiber.join(wave)
            assert.isTrue(outcomes.every(({ startedAt = 50 }) => startedAt >= 50))
            assert.deepStrictEqual(
              tags({ outcomes } as never),
              isTogether ? ["Succeeded", "RuleViolation", "Succeeded"] : ["Succeeded", "Succeeded", "RuleViolation"]
            )
          })
      ))
  }

  it.effect("starts nothing while an approval is pending that came up later", () =>
    asking(
      { a: mut(() => Effect.fail("no")), w: mut(), r: mut() },
      {
        approval: "upfront",
        mode: "classes",
        rules: [consent("w"), { _tag: "RequiresFollowingTools", tool: "w", tools: ["a"] }]
      },
      ({ people, process }) =>
        Effect.gen(function*() {
          // nobody could know that `a` fails, after which `w` may run
          const wave = yield* later(process.executeWave(calls("a", "r", "r", "w", "w", "r")))
          assert.deepStrictEqual(yield* pending(people), ["4"])
          yield* Effect.sleep(50)
          yield* approve(people, "4")
          yield* Effect.sleep(50)
          yield* approve(people, "5")
          const { outcomes } = yield* Fiber.join(wave)
          assert.deepStrictEqual(outcomes.map((it) => it.startedAt), [0, 50, 50, 50, 100, 100])
        })
    ))

  it.effect("reserves nothing while people think", () =>
    asking(
      { w: mut() },
      { approval: "upfront", rules: [consent("w"), { _tag: "MaxCalls", tool: "w", max: 1 }], turn: { maxCalls: 3 } },
      ({ batch, people, process }) =>
        Effect.gen(function*() {
          const slow = yield* later(process.executeWave([call("1", "w", { n: 1 })]))
          const other = yield* batch.process()
          const fast = yield* later(other.executeWave([call("2", "w", { n: 2 })]))
          assert.deepStrictEqual(yield* pending(people), ["1", "2"])
          yield* approve(people, "2")
          assert.deepStrictEqual(tags(yield* Fiber.join(fast)), ["Succeeded"])
          yield* approve(people, "1")
          assert.deepStrictEqual(tags(yield* Fiber.join(slow)), ["RuleViolation"])
        })
    ), { tags: ["AP12"] })
})

describe("the turn's number of calls", () => {
  it.effect("is not used by calls that people think about up front", () =>
    asking(
      { w: mut(), r: { handler: () => Effect.succeed(1) } },
      { approval: "upfront", turn: { maxCalls: 1 } },
      ({ people, process }) =>
        Effect.gen(function*() {
          const thinking = yield* later(process.executeWave(calls("w")))
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("r"))), ["Succeeded"])
          yield* approve(people, "1")
          assert.deepStrictEqual(tags(yield* Fiber.join(thinking)), ["CallBudgetExhausted"])
        })
    ))
})

describe("a policy that allows all", () => {
  const tools = { w: mut(), x: mut() }
  const permissions = Permissions.layerAllowAll

  it.effect("asks nobody, whatever rules require, nor do its sub-agents", () =>
    asking(tools, { permissions }, ({ executor, people, process }) =>
      Effect.gen(function*() {
        const child = yield* executor.fork({ policy: { default: "allow", deny: ["x"] } })
        const wave = yield* process.executeWave(calls(["w", { path: "a" }]))
        const below = yield* (yield* child.process()).executeWave(calls("w", "x"))
        assert.deepStrictEqual([...tags(wave), ...tags(below)], ["Succeeded", "Succeeded", "PolicyDenied"])
        assert.deepStrictEqual(yield* people.list, [])
      })))

  it.effect("silences nobody else's policy by narrowing it", () =>
    Effect.gen(function*() {
      const careful = yield* Permissions.make({ default: "allow" })
      const all = yield* Effect.provide(Permissions.Permissions, permissions)
      assert.isUndefined(Permissions.both(careful, all).waivesConsent)
    }))
})

describe("the turn's clock", () => {
  it.effect("stands still while an approval is pending and nothing executes", () =>
    asking(
      { w: mut(), r: { handler: ({ millis }) => Effect.sleep(Number(millis)) } },
      { turn: { timeout: 1_000, minimumSlice: 1 }, mode: "parallel" },
      ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(calls(["r", { millis: 600 }], "w")))
          yield* Effect.sleep(10_000)
          yield* approve(people, "2")
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded"])
          // 600 ms are used: it stood still from then on
          const next = yield* process.executeWave([call("3", "r", { millis: 399 }), call("4", "r", { millis: 500 })])
          assert.deepStrictEqual(tags(next), ["Succeeded", "TimedOut"])
        })
    ), { tags: ["T7"] })

  it.effect("goes on while something executes, and then ends the question", () =>
    asking(
      { w: mut(), r: { handler: () => Effect.never } },
      { turn: { timeout: 1_000, minimumSlice: 1 }, mode: "parallel" },
      ({ people, process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("r", "w"))
          assert.deepStrictEqual(tags(wave), ["TimedOut", "DeadlineExceeded"])
          assert.deepStrictEqual(yield* pending(people), [])
          assert.strictEqual(yield* VirtualTime.now, 1_000)
        })
    ), { tags: ["T7"] })
})

describe("an answer of a wrong form", () => {
  it.effect("changes nothing, and says what is wrong", () =>
    Effect.scoped(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const question = {
        principal: "p",
        agentPath: [],
        batch: "b",
        process: "p",
        callId: "1",
        tool: "t",
        class: "SerialMut",
        args: {},
        targets: [],
        index: 0,
        why: "why",
        preview: undefined,
        isRunning: false,
        remember: "tool"
      } as const
      const request = yield* approvals.request(question)
      yield* later(approvals.submit(request))
      for (
        const wrong of [
          null,
          "ApproveOnce",
          { _tag: "Yes" },
          { _tag: "ApproveForScope", scope: "bogus" },
          { _tag: "ApproveOnce", of: { tool: "t", args: {} } },
          { _tag: "ApproveForDuration" }
        ]
      ) {
        const error = yield* Effect.flip(approvals.answer(request.id, wrong as never))
        assert.strictEqual(error.reason, "NotAnAnswer")
      }
      assert.lengthOf(yield* approvals.list, 1)
    })))

  it.effect("is none with a time that is none", () =>
    Effect.scoped(Effect.gen(function*() {
      const error = yield* Effect.flip(Approvals.make({ timeout: "nope" as never }))
      assert.include(error.message, "timeout: it is \"nope\"")
    })))
})
