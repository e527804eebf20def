/** What people have said before a crash holds after it, as long as they would be shown the same. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import { Journal, ToolAnnotations, type ToolCall, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, type Env, open, type Options, tags, type ToolSpec } from "../../../support/Harness.ts"

type Entry = Journal.JournalEntry

interface Life {
  readonly specs: Record<string, ToolSpec>
  readonly options?: Options
  /** What people say, by the call; `undefined` is nothing, and without it nobody is there. */
  readonly says?: ((callId: string) => Approvals.Answer | undefined) | undefined
}

/** A life over what is on record, that ends after a minute. */
const live = Effect.fnUntraced(function*(
  { options, says, specs }: Life,
  entries: ReadonlyArray<Entry>,
  run: (env: Env) => Effect.Effect<unknown>
) {
  const journal = Context.get(
    yield* Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory({ entries })))),
    Journal.Journal
  )
  const asked: Array<string> = []
  const approvals = says === undefined ? undefined : yield* Effect.orDie(Approvals.makeApprover(({ callId }) => {
    asked.push(callId)
    const answer = says(callId)
    return answer === undefined ? Effect.never : Effect.succeed(answer)
  }, { timeout: "1 hour" }))
  const env = yield* open(specs, { ...options, journal, ...(approvals === undefined ? {} : { approvals }) })
  yield* Effect.forkScoped(run(env))
  yield* Effect.sleep("1 minute")
  const all = yield* Effect.orDie(Stream.runCollect(journal.read({})))
  return { asked, entries: all.map(({ entry }) => entry) }
})

const dies = (life: Life, wave: ReadonlyArray<ToolCall.ToolCall>, then?: (env: Env) => Effect.Effect<unknown>) =>
  live(life, [], (env) =>
    Effect.gen(function*() {
      const process = yield* env.executor.process({ batch: "b" })
      yield* Effect.forkChild(process.executeWave(wave))
      yield* Effect.sleep("1 second")
      if (then !== undefined) yield* then(env)
      return yield* Effect.never
    }).pipe(Effect.scoped))

const resumes = Effect.fnUntraced(function*(
  life: Life,
  wave: ReadonlyArray<ToolCall.ToolCall>,
  entries: ReadonlyArray<Entry>,
  options?: { readonly onUnknown: "ask" }
) {
  let outcomes: ReadonlyArray<string> = []
  const after = yield* live(life, entries, ({ executor }) =>
    Effect.gen(function*() {
      const process = yield* executor.process({ batch: "b" })
      outcomes = tags(yield* Effect.orDie(process.resume(wave, options)))
    }).pipe(Effect.scoped))
  return { ...after, outcomes }
})

const test = <A, E>(name: string, program: () => Effect.Effect<A, E, Scope.Scope>, options?: { tags: Array<string> }) =>
  it.effect(name, () => VirtualTime.run(Effect.scoped(Effect.suspend(program)), { limit: "1 day" }), options)

const yes = () => ({ _tag: "ApproveOnce" as const })

/** A serial tool of which the call `1` never ends when it first runs, and what has run. */
const world = (annotate?: ToolSpec["annotate"]) => {
  const ran: Array<string> = []
  const write: ToolSpec = {
    class: "SerialMut",
    handler: () =>
      Effect.flatMap(ToolContext.ToolContext, ({ callId }) => {
        ran.push(String(callId))
        return callId === "1" && ran.length === 1 ? Effect.never : Effect.succeed(callId)
      }),
    ...(annotate === undefined ? {} : { annotate })
  }
  return { ran, specs: { write } }
}

const five = Array.from({ length: 5 }, (_, n) => call(String(n + 1), "write", { n }))
const options: Options = { approval: "upfront", policy: { default: "ask" } }

describe("what a person has said before a crash", () => {
  for (const [list, again] of [["ask", []], ["askAlways", ["1"]]] as const) {
    test(`to a call that ran and runs again ${list === "ask" ? "holds" : "does not hold"} under ${list}`, () => {
      let runs = 0
      const write: ToolSpec = {
        class: "SerialMut",
        annotate: (tool) => tool.annotate(Tool.Idempotent, true),
        handler: () =>
          Effect.gen(function*() {
            const { confirmTarget } = yield* ToolContext.ToolContext
            const may = yield* confirmTarget({ text: "host:api.example.com", kind: "host" })
            return ++runs === 1 ? yield* Effect.never : may
          })
      }
      const specs = { write }
      const options: Options = { policy: { allow: ["write"], [list]: ["write(host:*)"] } }
      return Effect.gen(function*() {
        const { asked, entries } = yield* dies({ specs, options, says: yes }, [call("1", "write", {})])
        assert.deepStrictEqual([asked, runs], [["1"], 1])
        const after = yield* resumes({ specs, options, says: yes }, [call("1", "write", {})], entries)
        assert.deepStrictEqual<ReadonlyArray<string>>(after.asked, again)
        assert.deepStrictEqual([after.outcomes, runs], [["Succeeded"], 2])
      })
    }, { tags: ["AP23"] })
  }

  for (const [who, says] of [["who is there", yes], ["nobody there", undefined]] as const) {
    test(`is not asked again, with ${who}`, () => {
      const { ran, specs } = world()
      return Effect.gen(function*() {
        const { entries } = yield* dies({ specs, options, says: yes }, five)
        assert.deepStrictEqual(ran, ["1"])
        const after = yield* resumes({ specs, options, says }, five, entries)
        assert.deepStrictEqual(after.asked, [])
        assert.deepStrictEqual(after.outcomes, ["Unknown", "Succeeded", "Succeeded", "Succeeded", "Succeeded"])
      })
    }, { tags: ["K11"] })
  }

  test("holds where it was no, too", () => {
    const { ran, specs } = world()
    return Effect.gen(function*() {
      const says = (id: string): Approvals.Answer => id === "3" ? { _tag: "Deny", reason: "not that" } : yes()
      const { entries } = yield* dies({ specs, options, says }, five)
      const after = yield* resumes({ specs, options, says: yes }, five, entries)
      assert.deepStrictEqual(after.asked, [])
      assert.strictEqual(after.outcomes[2], "PermissionDenied")
      assert.deepStrictEqual(ran, ["1", "2", "4", "5"])
    })
  }, { tags: ["K11"] })

  test("is asked again where people would be shown something else", () => {
    const { specs } = world()
    const moved = world((tool) =>
      tool.annotate(ToolAnnotations.Targets, (params: unknown) => [{ text: `file-${(params as { n: number }).n}` }])
    )
    return Effect.gen(function*() {
      const { entries } = yield* dies({ specs, options, says: yes }, five)
      const after = yield* resumes({ specs: moved.specs, options, says: yes }, five, entries)
      assert.deepStrictEqual(after.asked, ["2", "3", "4", "5"])
    })
  }, { tags: ["K11"] })

  test("is asked again where they have edited the arguments", () => {
    const { specs } = world()
    const says = (id: string): Approvals.Answer => id === "2" ? { _tag: "ApproveOnce", params: { n: 9 } } : yes()
    return Effect.gen(function*() {
      const { entries } = yield* dies({ specs, options, says }, five)
      const after = yield* resumes({ specs, options, says: yes }, five, entries)
      assert.deepStrictEqual(after.asked, ["2"])
    })
  }, { tags: ["K11"] })

  const standing: Record<string, readonly [Approvals.Answer, isRevoked: boolean, asked: ReadonlyArray<string>]> = {
    "holds": [{ _tag: "ApproveForScope" }, false, []],
    "was taken back": [{ _tag: "ApproveForScope" }, true, ["2", "3", "4", "5"]],
    "is over": [{ _tag: "ApproveForDuration", duration: "30 seconds" }, false, ["2", "3", "4", "5"]]
  }
  for (const [what, [answer, isRevoked, asked]] of Object.entries(standing)) {
    test(`counts as long as it does where it holds for longer: one that ${what}`, () => {
      const { specs } = world((tool) =>
        tool.annotate(ToolAnnotations.Targets, (params: unknown) => [{ text: `file-${(params as { n: number }).n}` }])
      )
      const takeBack = ({ executor }: Env) =>
        Effect.gen(function*() {
          for (const { id } of yield* executor.grants) yield* executor.revoke({ id })
        }).pipe(Effect.orDie)
      return Effect.gen(function*() {
        const { entries } = yield* dies({ specs, options, says: () => answer }, five, isRevoked ? takeBack : undefined)
        const open = entries.filter((it) => !("callId" in it) || it._tag !== "Settled")
        const after = yield* resumes({ specs, options, says: yes }, five, open)
        assert.deepStrictEqual(after.asked, asked)
      })
    }, { tags: ["K11"] })
  }

  test("was said to one start: whether it may run once more is asked for each", () => {
    const { ran, specs } = world()
    const [one] = five
    return Effect.gen(function*() {
      const first = yield* dies({ specs, options, says: yes }, [one!])
      // it is asked whether it may run again; before anybody answers that is over, too
      const second = yield* resumes({ specs, options, says: () => undefined }, [one!], first.entries, {
        onUnknown: "ask"
      })
      assert.deepStrictEqual(second.asked, ["1"])
      ran.length = 0
      const third = yield* resumes({ specs, options, says: yes }, [one!], second.entries, { onUnknown: "ask" })
      assert.deepStrictEqual(third.asked, ["1"])
      assert.deepStrictEqual(ran, ["1"])
      const fourth = yield* resumes({ specs, options, says: yes }, [one!], third.entries, { onUnknown: "ask" })
      assert.deepStrictEqual(fourth.asked, ["1"])
      assert.deepStrictEqual(fourth.outcomes, ["Succeeded"])
    })
  }, { tags: ["K11"] })
})
