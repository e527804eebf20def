/** Random sessions that are opened, suspended and lost at random moments, against the same ones that run through. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { PendingApprovals } from "../../../src/server/approvals/PendingApprovals.ts"
import { Operations } from "../../../src/server/operations/Operations.ts"
import { SessionHost } from "../../../src/server/sessions/SessionHost.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import * as ScriptedModel from "../../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { problemsOf, words } from "../../support/Agents.ts"
import { randomFrom } from "../../support/randomCase.ts"
import { sample, seeds, timeout } from "../../support/seeds.ts"
import { ada, inMemory } from "../../support/Served.ts"
import { answerOf, type Kind, script, toolsOf } from "../../support/stoppedTrees.ts"

/** What is done to a session: nothing, or it is suspended when only approvals are left, or at any moment, or lost. */
type Plan = "none" | "waiting" | "anytime" | "lost"

interface Seen {
  readonly history: ReadonlyArray<string>
  readonly reason: string | undefined
  /** The outcomes of the calls of each wave. */
  readonly waves: ReadonlyArray<ReadonlyArray<string>>
  /** What the calls changed. */
  readonly ran: ReadonlyArray<string>
  /** The ids that the approval requests of each call had. */
  readonly asked: ReadonlyMap<string, ReadonlySet<string>>
  readonly suspended: number
}

const bob = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

/** The messages of the waves: a random list of calls each. */
const messagesOf = (seed: number) => {
  const { int, pick } = randomFrom(seed + 77)
  return Array.from({ length: 1 + int(3) }, (_, wave) => ({
    wave: `w${wave}`,
    ...int(2) === 0 ? { turn: "t" } : {},
    message: {
      role: "assistant",
      tool_calls: Array.from({ length: 1 + int(4) }, (_, index) => ({
        id: `${wave}.${index}`,
        type: "function",
        function: {
          name: pick(["look", "slow", "write", "asks", "asks"]),
          arguments: JSON.stringify({ task: `wave ${wave}.${index}` })
        }
      }))
    }
  }))
}

const play = Effect.fnUntraced(function*(seed: number, kind: Kind, plan: Plan) {
  const { chance, int, pick } = randomFrom(seed + 1_000_003)
  const ran: Array<string> = []
  const asked = new Map<string, Set<string>>()
  const tools = yield* toolsOf(({ task }) => Effect.sync(() => (ran.push(String(task)), "done")))
  const model = yield* ScriptedModel.make(script(kind, seed))
  const layer = inMemory(tools, {
    policy: { default: "allow", ask: ["asks"] },
    agents: { helper: { model: model.layer } }
  })
  return yield* Effect.gen(function*() {
    const host = yield* SessionHost
    const [waves, operations, approvals] = [yield* Waves, yield* Operations, yield* PendingApprovals]
    const messages = messagesOf(seed)
    yield* operations.start(ada, { agent: "helper", prompt: "root", id: "x" })
    for (const it of messages) yield* waves.submit(ada, it)
    let suspended = 0
    const answer = Effect.gen(function*() {
      for (const { hash, id } of (yield* approvals.list(bob)).open) {
        const request = Option.getOrThrow(yield* approvals.get(bob, id))
        const { task } = ("args" in request ? request.args : {}) as { readonly task: string }
        asked.set(task, (asked.get(task) ?? new Set()).add(id))
        if (chance(0.5)) yield* Effect.ignore(approvals.answer(bob, { id, hash, answer: answerOf(seed, task).answer }))
      }
    })
    const isOver = Effect.gen(function*() {
      const operation = yield* Option.getOrThrow(yield* operations.get(ada, "x")).info
      const all = yield* Effect.forEach(
        messages,
        ({ wave }) => Effect.flatMap(waves.get(ada, wave), (it) => Option.getOrThrow(it).info)
      )
      return operation.state === "ended" && all.every(({ status }) => status === "ended")
    })
    while (!(yield* isOver)) {
      yield* Effect.sleep(int(1_000))
      yield* answer
      if (plan === "none" || chance(0.3)) continue
      if (plan === "waiting") yield* host.idle(ada)
      if (plan === "lost") yield* host.lose(ada, "another process holds it")
      else if ((yield* host.close(ada, pick([0, "10 seconds"])))._tag !== "Nothing") suspended++
      if (chance(0.5)) yield* answer
      yield* Effect.sleep(int(1_000))
      yield* host.open(ada)
    }
    const { end } = yield* Option.getOrThrow(yield* operations.get(ada, "x")).info
    const history = yield* operations.history(ada)
    const outcomes = yield* Effect.forEach(
      messages,
      ({ wave }) =>
        Effect.map(
          Effect.flatMap(waves.get(ada, wave), (it) => Option.getOrThrow(it).wave),
          ({ end }) => end !== undefined && "executionResults" in end ? end.executionResults.map((it) => it._tag) : []
        )
    )
    return {
      history: [...words(history), ...problemsOf(history)],
      reason: end?.reason._tag,
      waves: outcomes,
      ran: ran.toSorted(),
      asked,
      suspended
    } satisfies Seen
  }).pipe(Effect.provide(layer))
}, (played) => Effect.orDie(VirtualTime.run(Effect.scoped(Effect.orDie(played)), { limit: "10 days" })))

/** A handler that cannot continue is cancelled with its host. */
const softened = (seen: Seen): Pick<Seen, "history" | "waves"> => ({
  history: seen.history.map((it) => /"slow" was cancelled while it ran|seen late/.test(it) ? "slow" : it),
  waves: seen.waves.map((it) => it.map((tag) => tag === "Cancelled" ? "Succeeded" : tag))
})

describe("a random session", () => {
  const once = (seen: Seen, about: string) => {
    assert.deepStrictEqual(seen.ran, Array.from(new Set(seen.ran)), about)
    for (const [task, ids] of seen.asked) assert.strictEqual(ids.size, 1, `${about}: ${task}`)
  }

  it.effect(
    "that is suspended whenever only approvals are left ends like one that runs through, with the same requests",
    () =>
      Effect.gen(function*() {
        let suspended = 0
        for (const seed of seeds(20)) {
          const about = `seed ${seed}`
          const [whole, parts] = [yield* play(seed, "foreground", "none"), yield* play(seed, "foreground", "waiting")]
          once(parts, about)
          assert.deepStrictEqual({ ...parts, asked: 0, suspended: 0 }, { ...whole, asked: 0, suspended: 0 }, about)
          suspended += parts.suspended
        }
        assert.isAbove(suspended, 0)
      }),
    { tags: ["SV30"], timeout }
  )

  it.effect(
    "that is suspended at any moment does nothing twice, and loses only what ran",
    () =>
      Effect.gen(function*() {
        let suspended = 0
        for (const seed of seeds(20)) {
          const about = `seed ${seed}`
          const [whole, parts] = [yield* play(seed, "foreground", "none"), yield* play(seed, "foreground", "anytime")]
          once(parts, about)
          assert.deepStrictEqual(softened(parts), softened(whole), about)
          assert.deepStrictEqual(parts.ran, whole.ran, about)
          suspended += parts.suspended
        }
        assert.isAbove(suspended, 0)
      }),
    { tags: ["SV30"], timeout }
  )

  it.effect(
    "with agents in the background, suspended or lost at any moment, does nothing twice, and comes to its end",
    () =>
      Effect.gen(function*() {
        for (const seed of seeds(20)) {
          for (const plan of sample(["waiting", "anytime", "lost"] as const)) {
            const parts = yield* play(seed, "background", plan)
            const about = `seed ${seed}, ${plan}`
            once(parts, about)
            assert.strictEqual(parts.reason, "Finished", about)
          }
        }
      }),
    timeout
  )
})
