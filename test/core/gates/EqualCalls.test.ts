/**
 * Which equal calls run: by what their tool declares, over every store, across restarts, and what a refusal says.
 *
 * @module-tag D2
 * @module-tag D4
 */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as StateStore from "../../../src/core/store/StateStore.ts"
import * as ToolRefusal from "../../../src/core/vocabulary/ToolRefusal.ts"
import { Journal, ToolAnnotations, type ToolRule } from "../../../src/index.ts"
import * as Sqlite from "../../../src/sql/Sqlite.ts"
import * as SqlStateStore from "../../../src/sql/SqlStateStore.ts"
import { call, open, type Options, tags, type ToolSpec } from "../../support/Harness.ts"

type Entry = Journal.JournalEntry
type Store = StateStore.StateStore["Service"]

const handler = () => Effect.succeed("done")
const writer = (annotate?: ToolSpec["annotate"]): ToolSpec => ({
  class: "SerialMut",
  handler,
  ...annotate === undefined ? {} : { annotate }
})

const tools: Record<string, ToolSpec> = {
  pay: writer(),
  mail: writer(),
  put: writer((it) => it.annotate(Tool.Idempotent, true)),
  edit: writer((it) => it.annotate(ToolAnnotations.Edits, true)),
  shell: writer((it) => it.annotate(ToolAnnotations.Volatile, true)),
  look: { class: "ReadOnly", handler }
}

const stores: Record<string, Layer.Layer<StateStore.StateStore, unknown>> = {
  memory: Layer.sync(StateStore.StateStore, () => StateStore.makeMemory()),
  SQLite: SqlStateStore.layer().pipe(Layer.provide(Sqlite.layer({ filename: ":memory:" })))
}

const withStore = <A, E>(name: string, program: (store: Store) => Effect.Effect<A, E, Scope.Scope>) =>
  Effect.flatMap(
    Effect.orDie(Layer.build(Layer.fresh(stores[name]!))),
    (context) => program(Context.get(context, StateStore.StateStore))
  )

/** A wave of calls such as `pay` or `put 2`. */
const waveOf = (text: string, first: number) =>
  text.split(", ").map((it, index) => {
    const [name = "", n = "0"] = it.split(" ")
    return call(String(first + index), name, { n })
  })

/** Waves and pauses, and what the calls of each wave meet: `+` it runs, `-` it is a duplicate. */
const met = Effect.fnUntraced(function*(store: Store, script: ReadonlyArray<string | number>, options: Options) {
  const { process } = yield* open(tools, { ...options, store })
  const all: Array<string> = []
  let last = 0
  for (const it of script) {
    if (typeof it === "number") {
      yield* TestClock.adjust(it)
      continue
    }
    const wave = waveOf(it, last + 1)
    last += wave.length
    all.push(tags(yield* process.executeWave(wave)).map(signOf).join(""))
  }
  return all.join(" ")
})

const signOf = (tag: string) => tag === "Succeeded" ? "+" : tag === "DuplicateCall" ? "-" : tag

const always = (tool: string): ReadonlyArray<ToolRule.ToolRule> => [{ _tag: "AlwaysDedupe", tool }]

const minutes = 60_000

const cases: Readonly<
  Record<string, readonly [script: ReadonlyArray<string | number>, expected: string, options?: Options]>
> = {
  "a payment is refused for the whole window, whatever comes between": [["pay", "mail", "pay"], "+ + -"],
  "a payment runs again after the window": [["pay", 5 * minutes - 1, "pay", 1, "pay"], "+ - +"],
  "of two equal payments of one message one runs": [["pay, pay", "pay 1, mail, pay 1"], "+- ++-"],
  "writing 2, 1, 2 runs all, and 2, 2 the first": [["put 2", "put 1", "put 2", "put 2"], "+ + + -"],
  "editing there, back and there again runs all": [["edit 2, edit 1, edit 2", "edit 2"], "+++ -"],
  "a write is no change to itself, and other calls are": [["put", "put", "look", "put", "mail", "put"], "+ - + - + +"],
  "a poll of a ReadOnly tool runs in ten messages": [Array.from({ length: 10 }, () => "look"), "+ + + + + + + + + +"],
  "the same read twice in one message runs once, and again after a change": [
    ["look, look", "look, edit, look"],
    "+- +++"
  ],
  "test, edit, test runs all": [["shell", "edit", "shell", "shell"], "+ + + +"],
  "the same command runs once in one message": [["shell, shell", "shell 1, edit, shell 1"], "+- ++-"],
  "reads are saved over readWindow, until something changes": [
    ["look", "look", "edit", "look", minutes, "look"],
    "+ - + + +",
    { dedupe: { readWindow: "1 minute" } }
  ],
  "the scope of a wave compares calls of one message": [["pay", "pay, pay", "put", "put", "shell"], "+ +- + + +", {
    dedupe: { scope: "wave", window: "1 hour" }
  }],
  "AlwaysDedupe compares over the whole window": [["look", "edit", "look"], "+ + -", { rules: always("look") }],
  "AlwaysDedupe compares more than one message": [["pay", "pay", "mail", "mail"], "+ - + +", {
    dedupe: { scope: "wave" },
    rules: always("pay")
  }],
  "NeverDedupe compares nothing": [["pay, pay"], "++", { rules: [{ _tag: "NeverDedupe", tool: "pay" }] }]
}

describe("equal calls", () => {
  for (const [sentence, [script, expected, options = {}]] of Object.entries(cases)) {
    it.effect(sentence, () =>
      Effect.gen(function*() {
        for (const name of Object.keys(stores)) {
          assert.strictEqual(yield* withStore(name, (store) => met(store, script, options)), expected, name)
        }
      }).pipe(Effect.scoped))
  }
})

describe("a refusal of an equal call", () => {
  const refusal = (script: ReadonlyArray<string | number>, options: Options = {}) =>
    withStore("memory", (store) =>
      Effect.gen(function*() {
        const { process } = yield* open(tools, { ...options, store })
        let outcomes: ReadonlyArray<unknown> = []
        let last = 0
        let text = ""
        for (const it of script) {
          if (typeof it === "number") {
            yield* TestClock.adjust(it)
            continue
          }
          const wave = waveOf(it, last + 1)
          last += wave.length
          const result = yield* process.executeWave(wave)
          outcomes = result.outcomes
          text = result.toolMessages.at(-1)!.text
        }
        const outcome = outcomes.at(-1) as { readonly reason: ToolRefusal.ToolRefusal }
        return { reason: outcome.reason, text }
      })).pipe(Effect.scoped)

  it.effect(
    "says how long ago the other one ended, when an equal one runs, and whether something ran since",
    () =>
      Effect.gen(function*() {
        const { reason, text } = yield* refusal(["pay", 2_000, "mail", "pay"])
        assert.deepStrictEqual(reason, {
          _tag: "DuplicateCall",
          of: "1",
          running: false,
          endedMillisAgo: 2_000,
          runsAgain: "afterWindow",
          retryAfterMillis: 298_000,
          changedSince: true
        })
        assert.strictEqual(
          text,
          "This call of \"pay\" was not run: it is the same as call 1, which ended 2 s ago. Other calls that may change " +
            "things have run since. Use that result. An equal call runs again in 298 s."
        )
      }),
    { tags: ["D9"] }
  )

  it.effect("says what has to happen first", () =>
    Effect.gen(function*() {
      assert.deepInclude((yield* refusal(["put", "put"])).reason, {
        runsAgain: "afterChange",
        retryAfterMillis: 300_000
      })
      const { reason, text } = yield* refusal(["shell, edit, shell"])
      assert.deepInclude(reason, { runsAgain: "nextMessage", changedSince: true })
      assert.notProperty(reason, "retryAfterMillis")
      assert.include(text, "If you need it once more, call it in your next message.")
      const once = yield* refusal(["pay, pay"], { dedupe: { scope: "wave" } })
      assert.deepInclude(once.reason, { runsAgain: "nextMessage", changedSince: false })
    }))

  it("never tells the model to change the arguments", { tags: ["D9"] }, () => {
    const known = {
      _tag: "DuplicateCall",
      of: "1",
      endedMillisAgo: 1,
      retryAfterMillis: 1,
      changedSince: true
    } as const
    for (const running of [true, false]) {
      for (const runsAgain of ToolRefusal.RunsAgain.literals) {
        assert.notInclude(ToolRefusal.describe({ ...known, running, runsAgain }, "t"), "argument")
      }
    }
  })
})

describe("after a restart", () => {
  const journalOf = (entries: ReadonlyArray<Entry>) =>
    Effect.map(
      Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory({ entries })))),
      (context) => Context.get(context, Journal.Journal)
    )
  const entriesOf = (journal: Journal.Journal["Service"]): Effect.Effect<ReadonlyArray<Entry>> =>
    Effect.map(Effect.orDie(Stream.runCollect(journal.read({}))), (all) => all.map(({ entry }) => entry))
  /** The outcomes of a wave, and of the same resumed from its record up to the end of the first call. */
  const lives = Effect.fnUntraced(function*(text: string, options: Options, second: Store, first = second) {
    const wave = waveOf(text, 1)
    const before = yield* journalOf([])
    const one = yield* open(tools, { ...options, store: first, journal: before })
    const done = tags(yield* (yield* one.executor.process({ batch: "b" })).executeWave(wave))
    const entries = yield* entriesOf(before)
    const end = entries.findIndex((it) => it._tag === "Settled" && it.callId === "1")
    const other = yield* open(tools, {
      ...options,
      store: second,
      journal: yield* journalOf(entries.slice(0, end + 1))
    })
    const process = yield* other.executor.process({ batch: "b" })
    return { done, again: tags(yield* Effect.orDie(process.resume(wave))), process }
  })

  const modes: ReadonlyArray<Options["dedupe"] & object> = [
    {},
    { scope: "wave" },
    { scope: "principal", readWindow: "1 minute" },
    { onDuplicate: "replay" },
    { inFlight: "join" },
    { onDuplicate: "replay", inFlight: "join", scope: "wave" }
  ]

  it.effect("a message meets what it had met, whatever its calls declare", () =>
    Effect.gen(function*() {
      const texts = ["pay, pay", "shell, shell", "look, look", "put, put", "put 2, put 1, put 2", "shell, edit, shell"]
      for (const text of texts) {
        for (const dedupe of modes) {
          const what = `${text} ${JSON.stringify(dedupe)}`
          const { again, done } = yield* lives(text, { dedupe }, StateStore.makeMemory(), StateStore.makeMemory())
          assert.deepStrictEqual(again, done, `${what}, with nothing kept`)
        }
      }
    }).pipe(Effect.scoped), { tags: ["D10"] })

  it.effect("what is compared within a message runs in the next one", () =>
    Effect.gen(function*() {
      const { process } = yield* lives("shell, look", {}, StateStore.makeMemory())
      assert.deepStrictEqual(tags(yield* process.executeWave(waveOf("shell, look", 3))), ["Succeeded", "Succeeded"])
    }).pipe(Effect.scoped))

  const awaited: Record<string, ToolRule.ToolRule> = {
    RequiresPrecedingTools: { _tag: "RequiresPrecedingTools", tool: "mail", tools: ["pay"], scope: "session" },
    RequiredBeforeExit: { _tag: "RequiredBeforeExit", tool: "pay", scope: "session" }
  }
  for (const [name, rule] of Object.entries(awaited)) {
    const asked: ReadonlyArray<readonly [string, Options]> = [
      ["session", { dedupe: { scope: "session" }, rules: [rule] }],
      ["principal", { dedupe: { scope: "principal" }, rules: [rule] }],
      ["AlwaysDedupe", { rules: [rule, { _tag: "AlwaysDedupe", tool: "pay", scope: "session" }] }]
    ]
    it.effect(
      `a payment is not paid again where ${name} names it in the session, in no server`,
      () =>
        Effect.gen(function*() {
          for (const store of Object.keys(stores)) {
            for (const [what, options] of asked) {
              yield* withStore(store, (shared) =>
                Effect.gen(function*() {
                  const journal = yield* journalOf([])
                  const first = yield* open(tools, { ...options, store: shared, journal })
                  assert.deepStrictEqual(tags(yield* first.process.executeWave(waveOf("pay", 1))), ["Succeeded"], what)
                  const same = yield* first.executor.process()
                  assert.deepStrictEqual(tags(yield* same.executeWave(waveOf("pay", 2))), ["DuplicateCall"], what)
                  const second = yield* open(tools, { ...options, store: shared, journal })
                  assert.deepStrictEqual(
                    tags(yield* second.process.executeWave(waveOf("pay", 3))),
                    ["DuplicateCall"],
                    what
                  )
                  const third = yield* open(tools, { ...options, store: shared, journal })
                  const resumed = yield* Effect.orDie(third.process.resume(waveOf("pay", 4)))
                  assert.deepStrictEqual(tags(resumed), ["DuplicateCall"], what)
                }))
            }
          }
        }).pipe(Effect.scoped),
      { tags: ["D10"] }
    )
  }
})
