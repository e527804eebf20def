/** What the designs that the executor joins have, and callers of theirs look for. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import type { Given } from "../../../../src/core/vocabulary/Grant.ts"
import { ToolAnnotations, ToolContext, type ToolEvent, type ToolOutcome } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, calls, type Env, open, type Options, run, tags, type ToolSpec } from "../../../support/Harness.ts"

const timed = (spec: Partial<ToolSpec> = {}): ToolSpec => ({
  class: "SerialMut",
  handler: ({ takes }) => Effect.sleep(Number(takes ?? 10)),
  ...spec
})
const wave = (...tools: ReadonlyArray<string>) => calls(...tools)
const times = ({ outcomes }: ToolOutcome.WaveResult) =>
  outcomes.map((it) => "startedAt" in it ? [it.startedAt, it.startedAt! + it.duration!] : [])

describe("the mode of a wave", () => {
  const tools = { w: timed(), other: timed(), r: timed({ class: "ReadOnly" }) }

  it.effect(
    "is what its caller says, else that of the settings",
    () =>
      run(tools, { mode: "sequential" }, ({ process }) =>
        Effect.gen(function*() {
          const own = (mode: "classes" | "parallel" | "sequential" | undefined) =>
            Effect.map(process.executeWave(calls(["r", { mode, n: 1 }], ["r", { mode, n: 2 }]), { mode }), (it) => {
              const [first, second] = times(it)
              return second![0]! - first![0]!
            })
          assert.deepStrictEqual(
            yield* Effect.all([own("parallel"), own("classes"), own("sequential"), own(undefined)]),
            [
              0,
              0,
              10,
              10
            ]
          )
        })),
    { tags: ["C8"] }
  )

  it.effect("lets writers overlap where it is parallel, and nowhere else", () =>
    run(tools, {}, ({ process }) =>
      Effect.gen(function*() {
        const parallel = yield* process.executeWave(wave("w", "r", "w", "other"), { mode: "parallel" })
        assert.deepStrictEqual(times(parallel), [[0, 10], [0, 10], [0, 10], [0, 10]])
        const usual = yield* process.executeWave(calls(["w", { n: 5 }], ["w", { n: 6 }]))
        assert.deepStrictEqual(times(usual), [[10, 20], [20, 30]])
        // calls of different waves, too
        const both = yield* Effect.all(
          [7, 8].map((n) => process.execute(call(String(n), "w", { n }), { mode: "parallel" })),
          { concurrency: 2 }
        )
        assert.deepStrictEqual(both.map((it) => "startedAt" in it && it.startedAt), [30, 30])
      })))

  it.effect("that is parallel keeps caps, resource keys and the pool of concurrent writers", () => {
    const keyed = timed({
      annotate: (tool) => tool.annotate(ToolAnnotations.Resources, () => ["one"])
    })
    return run(
      { ...tools, keyed },
      { pools: { concurrent: 2 }, tools: { w: { maxConcurrent: 1 } } },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(times(yield* process.executeWave(wave("w", "w"), { mode: "parallel" })), [
            [0, 10],
            [10, 20]
          ])
          assert.deepStrictEqual(times(yield* process.executeWave(wave("keyed", "keyed"), { mode: "parallel" })), [
            [20, 30],
            [30, 40]
          ])
          const three = calls(["other", { n: 4 }], ["other", { n: 5 }], ["other", { n: 6 }])
          assert.deepStrictEqual(times(yield* process.executeWave(three, { mode: "parallel" })), [
            [40, 50],
            [40, 50],
            [50, 60]
          ])
        })
    )
  }, { tags: ["C8"] })

  it.effect("is refused before anything runs where it is none", () =>
    run(tools, {}, ({ process }) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(process.execute(call("1", "w"), { mode: "all" as "parallel" }))
        assert.include(error.message, "mode")
      })))
})

const asking = <A>(
  spec: ToolSpec,
  options: Options,
  program: (env: Env & { readonly people: Approvals.Approvals["Service"] }) => Effect.Effect<A, unknown, Scope.Scope>
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const people = yield* Effect.orDie(Approvals.make({ timeout: "1 minute" }))
      const env = yield* open({ pay: spec, r: timed() }, {
        policy: { default: "allow", ask: ["pay"] },
        ...options,
        approvals: people
      })
      return yield* Effect.orDie(program({ ...env, people }))
    })),
    { limit: "1 day" }
  )

const about = (spec: ToolSpec): ToolSpec => ({
  ...spec,
  annotate: (tool) => tool.annotate(ToolAnnotations.Targets, (params) => [{ text: (params as { to: string }).to }])
})

describe("an approval request", () => {
  it.effect("says the place of its call in the wave", () =>
    asking(timed({ class: "ConcurrentMut" }), {}, ({ people, process }) =>
      Effect.gen(function*() {
        const fiber = yield* Effect.forkChild(process.executeWave(wave("r", "pay", "pay")))
        yield* Effect.sleep(20)
        assert.deepStrictEqual((yield* people.list).map(({ callId, index }) => [callId, index]), [["2", 1], ["3", 2]])
        yield* Fiber.interrupt(fiber)
      })))
})

describe("the refusal of an unapproved call", () => {
  const reason = ({ outcomes: [outcome] }: ToolOutcome.WaveResult) => outcome?._tag === "Denied" && outcome.reason

  it.effect(
    "names the permission that it needed, and for what an answer could have held",
    () =>
      asking(about(timed()), {}, ({ batch, executor, people, process }) =>
        Effect.gen(function*() {
          const named = { _tag: "PermissionDenied", permission: "pay(bank)", scope: "tool" } as const
          const pay = (n: number) => [call("1", "pay", { to: "bank", n })]
          const late = yield* process.executeWave(pay(1))
          assert.deepInclude(reason(late), { ...named, by: "timeout" })
          const nobody = yield* batch.process({ approvals: "nobody" })
          assert.deepInclude(reason(yield* nobody.executeWave(pay(2))), { ...named, by: "noApprover" })
          const said = yield* Effect.forkChild(process.executeWave(pay(3)))
          yield* Effect.sleep(1)
          yield* people.answer((yield* people.list)[0]!.id, { _tag: "Deny", reason: "not today" })
          assert.deepInclude(reason(yield* Fiber.join(said)), { ...named, by: "user", reason: "not today" })
          assert.deepStrictEqual(yield* executor.grants, [])
        })),
    { tags: ["AP7"] }
  )

  it.effect("has the scope of the rule that required consent", () =>
    asking(
      about(timed()),
      { policy: { default: "allow" }, rules: [{ _tag: "RequiresConsent", tool: "pay", scope: "resources" }] },
      ({ batch }) =>
        Effect.gen(function*() {
          const nobody = yield* batch.process({ approvals: "nobody" })
          assert.deepInclude(reason(yield* nobody.executeWave([call("1", "pay", { to: "ada" })])), {
            permission: "pay(ada)",
            scope: "resources"
          })
        })
    ))
})

describe("what a person allowed", () => {
  for (const approval of ["perCall", "upfront"] as const) {
    it.effect(`reaches the handler, also where it is this call alone (${approval})`, () => {
      const seen: Array<Given | undefined> = []
      const spec = about({
        class: "SerialMut",
        handler: () => Effect.map(ToolContext.ToolContext, ({ grant }) => void seen.push(grant))
      })
      return asking(spec, { approval }, ({ executor, people, process }) =>
        Effect.gen(function*() {
          const pay = (n: number, answer: Approvals.Answer) =>
            Effect.gen(function*() {
              const fiber = yield* Effect.forkChild(process.executeWave([call(String(n), "pay", { to: "bank", n })]))
              yield* Effect.sleep(1)
              const [request] = yield* people.list
              if (request !== undefined) yield* people.answer(request.id, answer)
              assert.deepStrictEqual(tags(yield* Fiber.join(fiber)), ["Succeeded"])
              return request?.id
            })
          const id = yield* pay(1, { _tag: "ApproveOnce" })
          assert.deepInclude(seen[0], {
            id: id!,
            answer: "ApproveOnce",
            principal: "default",
            tool: "pay",
            targets: ["bank"]
          })
          // it is nothing that stands
          assert.deepStrictEqual(yield* executor.grants, [])
          yield* pay(2, { _tag: "ApproveForScope" })
          assert.deepInclude(seen[1], { answer: "ApproveForScope" })
          yield* pay(3, { _tag: "ApproveOnce" })
          assert.deepInclude(seen[2], { answer: "ApproveForScope" })
        }))
    }, { tags: ["AP7"] })
  }
})

describe("a status", () => {
  it.effect("has a message beside its text, where its tool says one", () => {
    const told: Array<ToolEvent.ToolEvent> = []
    const handler = () =>
      Effect.flatMap(
        ToolContext.ToolContext,
        ({ status }) => Effect.andThen(status("indexing"), status("indexing", "src/index.ts, 3 of 40"))
      )
    return run({ t: { handler } }, {}, ({ process }) =>
      Effect.scoped(Effect.gen(function*() {
        yield* process.listen((event) => {
          if (event._tag === "ToolStatus") told.push(event)
          return true
        })
        yield* process.execute(call("1", "t"))
        assert.deepStrictEqual(
          told.map((it) =>
            it._tag === "ToolStatus" && { status: it.status, ...("message" in it ? { message: it.message } : {}) }
          ),
          [{ status: "indexing" }, { status: "indexing", message: "src/index.ts, 3 of 40" }]
        )
      })))
  })
})
