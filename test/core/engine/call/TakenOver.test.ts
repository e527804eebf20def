/** A journal whose term another process can end. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { JournalError } from "../../../../src/core/store/Journal.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import { Approvals, Journal, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, open, type Options, tags } from "../../../support/Harness.ts"

/** A journal in memory, and a term that is as a test says. */
const journalOf = Effect.gen(function*() {
  const context = yield* Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory())))
  const state = { isOver: false, isHeld: true, asked: 0, answer: Effect.succeed<boolean | undefined>(true) }
  const watchers = new Set<() => void>()
  const term: Journal.Term = {
    get isOver() {
      return state.isOver
    },
    get isHeld() {
      return state.isHeld
    },
    renew: Effect.suspend(() => {
      state.asked++
      return state.answer
    }),
    onOver: (run) => {
      watchers.add(run)
      return () => void watchers.delete(run)
    }
  }
  const driver = Context.get(context, Journal.Journal)
  const append: typeof driver.append = (lines, options) =>
    driver.append(lines.filter((line) => line.term?.isOver !== true), options)
  const journal: Journal.Journal["Service"] = { ...driver, append, term: () => term }
  const end = () => {
    state.isOver = true
    state.isHeld = false
    state.answer = Effect.succeed(false)
    for (const run of Array.from(watchers)) run()
  }
  return { journal, state, watchers, end }
})

const test = <A, E>(
  name: string,
  program: (
    it: Effect.Success<typeof journalOf> & {
      readonly landed: Array<string>
      readonly run: (params?: object) => Effect.Effect<ReadonlyArray<string>>
    }
  ) => Effect.Effect<A, E>,
  options?: { tags: Array<string> }
) =>
  it.effect(name, () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const world = yield* journalOf
        const landed: Array<string> = []
        const { process } = yield* open({
          write: {
            class: "ConcurrentMut",
            handler: ({ commits }) =>
              Effect.gen(function*() {
                const { commit } = yield* ToolContext.ToolContext
                yield* Effect.sleep("1 second")
                if (commits === true) yield* commit(Effect.sync(() => landed.push("landed")))
                return "done"
              })
          }
        }, { journal: world.journal })
        const run = (params: object = {}) =>
          Effect.map(Effect.orDie(process.executeWave([call("1", "write", params)])), tags)
        return yield* program({ ...world, landed, run })
      })),
      { limit: "1 day" }
    ), options)

describe("a journal whose term another process can end", () => {
  test("is not asked while its term is held", ({ landed, run, state, watchers }) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* run({ commits: true }), ["Succeeded"])
      assert.deepStrictEqual(landed, ["landed"])
      assert.strictEqual(state.asked, 0)
      assert.strictEqual(watchers.size, 0)
    }))

  test("is asked before a write whose lease has expired, and lets it land where nobody has taken over", (it) =>
    Effect.gen(function*() {
      const running = yield* Effect.forkChild(it.run({ commits: true }))
      yield* Effect.sleep("500 millis")
      it.state.isHeld = false
      assert.deepStrictEqual(yield* Fiber.join(running), ["Succeeded"])
      assert.deepStrictEqual(it.landed, ["landed"])
      assert.isAbove(it.state.asked, 0)
    }))

  for (const [how, answer] of [["taken over", false], ["perhaps taken over", undefined]] as const) {
    test(`lets nothing land of a call that was ${how}`, (it) =>
      Effect.gen(function*() {
        const running = yield* Effect.forkChild(it.run({ commits: true }))
        yield* Effect.sleep("500 millis")
        it.state.isHeld = false
        it.state.answer = Effect.succeed(answer)
        assert.deepStrictEqual(yield* Fiber.join(running), ["Unknown"])
        assert.deepStrictEqual(it.landed, [])
      }), { tags: ["J4"] })
  }

  test("stops what runs as soon as its term is known to be over", (it) =>
    Effect.gen(function*() {
      const running = yield* Effect.forkChild(it.run({ commits: true }))
      yield* Effect.sleep("500 millis")
      it.end()
      assert.deepStrictEqual(yield* Fiber.join(running), ["Unknown"])
      assert.deepStrictEqual(it.landed, [])
      assert.strictEqual(it.watchers.size, 0)
    }))

  test("does not hold up an end for longer than its patience", (it) =>
    Effect.gen(function*() {
      const running = yield* Effect.forkChild(it.run())
      yield* Effect.sleep("500 millis")
      it.state.isHeld = false
      it.state.answer = Effect.never
      assert.deepStrictEqual(yield* Fiber.join(running), ["Unknown"])
    }))

  const unbegun: ReadonlyArray<
    readonly [
      what: string,
      answer: boolean | "none" | "closed" | "cancelled" | "cancelledFirst",
      timeout: Options["turn"],
      ends: string,
      recorded: ReadonlyArray<string>
    ]
  > = [
    ["ends as it was decided, once the journal says that it is ours", true, {}, "PermissionDenied", ["Denied"]],
    ["is unknown, once the journal says that it is not ours", false, {}, "Unknown", ["Unknown"]],
    ["is unknown, once its turn is over", "none", { timeout: "30 seconds" }, "Unknown", ["Unknown"]],
    ["is suspended, once its executor closes", "closed", {}, "Cancelled", []],
    ["is unknown, once somebody cancels it", "cancelled", {}, "Unknown", ["Unknown"]],
    ["is not suspended, where it was cancelled before its executor closes", "cancelledFirst", {}, "Unknown", [
      "Unknown"
    ]]
  ]
  for (const [what, answer, turn, ends, recorded] of unbegun) {
    it.effect(`asks on whose a call is that has not begun: it ${what}`, () =>
      VirtualTime.run(
        Effect.scoped(Effect.gen(function*() {
          const { journal, state } = yield* journalOf
          const approvals = yield* Effect.orDie(Layer.build(Approvals.layer({ timeout: "10 seconds" })))
          const scope = yield* Scope.make()
          const { executor } = yield* open({
            write: { class: "SerialMut", handler: () => Effect.die("it must not run") }
          }, {
            journal,
            approvals: Context.get(approvals, Approvals.Approvals),
            policy: { default: "ask" },
            turn
          }).pipe(Scope.provide(scope))
          const process = yield* executor.process({ batch: "b", id: "p" })
          const running = yield* Effect.forkChild(process.executeWave([call("1", "write")]))
          yield* Effect.sleep("5 seconds")
          Object.assign(state, { isHeld: false, answer: Effect.undefined })
          yield* Effect.sleep("20 seconds")
          assert.isUndefined(running.pollUnsafe(), "nobody knows its end yet")
          if (answer === "closed") yield* Scope.close(scope, Exit.void)
          else if (answer === "cancelled") yield* process.cancel("enough")
          else if (answer === "cancelledFirst") {
            yield* process.cancel("enough")
            yield* Scope.close(scope, Exit.void)
          } else if (answer !== "none") state.answer = Effect.succeed(answer)
          yield* Effect.sleep("30 seconds")
          assert.isDefined(running.pollUnsafe())
          assert.deepStrictEqual(tags(yield* Fiber.join(running)), [ends])
          const settled = yield* Stream.runCollect(journal.read({ tag: "Settled" }))
          assert.deepStrictEqual(
            settled.flatMap(({ entry }) => entry._tag === "Settled" ? [entry.outcome._tag as string] : []),
            recorded
          )
        })),
        { limit: "1 day" }
      ), { tags: ["J4"] })
  }

  it.effect(
    "reserves nothing for a call whose start it could not record: it runs where it is resumed",
    () =>
      VirtualTime.run(
        Effect.scoped(Effect.gen(function*() {
          const { end, journal } = yield* journalOf
          const store = StateStore.makeMemory()
          const ran: Array<string> = []
          const start = Effect.fnUntraced(function*(name: string, of: Journal.Journal["Service"]) {
            const handler = () => Effect.as(Effect.sync(() => ran.push(name)), name)
            const { executor } = yield* open({ write: { class: "SerialMut", handler } }, { journal: of, store })
            return yield* executor.process({ batch: "b", id: "p" })
          })
          // another process takes over while it records the start
          const first = yield* start("first", {
            ...journal,
            append: (lines, options) => {
              if (!lines.some(({ entry }) => entry._tag === "Started" && entry.callId === "2")) {
                return journal.append(lines, options)
              }
              end()
              return Effect.fail(new JournalError({ operation: "append", cause: "the term is over" }))
            }
          })
          const wave = [call("1", "write", { n: 1 }), call("2", "write", { n: 2 })]
          assert.deepStrictEqual(tags(yield* first.executeWave(wave)), ["Succeeded", "Unknown"])
          assert.deepStrictEqual(ran, ["first"])
          const { term: _, ...rest } = journal
          const second = yield* start("second", {
            ...rest,
            // the term of the first is over, which this driver knows nothing of
            claim: (keys) =>
              Effect.map(Stream.runCollect(journal.read({ keys, tag: "Settled" })), (found) => ({
                _tag: "Claimed",
                ended: found.flatMap(({ entry }) => "key" in entry ? [entry.key] : [])
              }))
          })
          assert.deepStrictEqual(tags(yield* second.resume(wave)), ["Succeeded", "Succeeded"])
          assert.deepStrictEqual(ran, ["first", "second"])
        })),
        { limit: "1 day" }
      ),
    { tags: ["J4"] }
  )
})
