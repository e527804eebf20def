/**
 * Random policies, reviewers, people and crashes: nothing runs that the policy and people would not have allowed, and
 * what the policy allows never waits for a reviewer.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Approvals from "../../../../../src/core/gates/Approvals.ts"
import { Journal, Permissions, type Policy, ToolAnnotations, ToolContext } from "../../../../../src/index.ts"
import * as Reviewer from "../../../../../src/review/Reviewer.ts"
import { randomFrom } from "../../../../../src/testing/SeededRandom.ts"
import * as VirtualTime from "../../../../../src/testing/VirtualTime.ts"
import { call, open, type Options, type ToolSpec } from "../../../../support/Harness.ts"
import { seeds, timeout } from "../../../../support/seeds.ts"

type Name = "read" | "look" | "write" | "send"

const isReader = (tool: Name): boolean => tool === "read" || tool === "look"

interface About {
  readonly tool: Name
  /** Its target; `p` is protected. */
  readonly t: string
}

/** A policy as a test reads it: no wildcards but `*` for all tools. */
interface Plain {
  readonly default: "allow" | "ask" | "deny" | "cautious"
  readonly deny: ReadonlyArray<string>
  readonly ask: ReadonlyArray<string>
  readonly askAlways: ReadonlyArray<string>
  readonly allow: ReadonlyArray<string>
  /** Tools whose calls a certain person approves. */
  readonly byAda: ReadonlyArray<Name>
  readonly review: { readonly allow: ReadonlyArray<string>; readonly deny: ReadonlyArray<string> }
}

const fits = (patterns: ReadonlyArray<string>, { t, tool }: About): boolean =>
  patterns.some((it) => it === "*" || it === tool || it === `${tool}(${t})`)

const denies = (plain: Plain, about: About): boolean => fits(plain.deny, about)

const asksAnyway = (plain: Plain, about: About): boolean =>
  fits(plain.ask, about) || fits(plain.askAlways, about) || plain.byAda.includes(about.tool)

const allows = (plain: Plain, about: About, consent: string | undefined): boolean =>
  !denies(plain, about) && !asksAnyway(plain, about) && about.t !== "p" && consent !== about.tool &&
  (fits(plain.allow, about) || plain.default === "allow" || (plain.default === "cautious" && isReader(about.tool)))

/** Whether the reviewer may allow a call instead of a person. */
const leavesIt = (plain: Plain, about: About, consent: string | undefined): boolean =>
  !denies(plain, about) && fits(plain.review.allow, about) && !fits(plain.askAlways, about) &&
  !plain.byAda.includes(about.tool) && about.t !== "p" && consent !== about.tool

const policyOf = ({ allow, ask, askAlways, byAda, default: rest, deny, review }: Plain): Policy.Policy => ({
  default: rest,
  deny,
  ask: [...ask, ...byAda.map((tool) => ({ tool, approvers: { people: ["ada"] } }))],
  askAlways,
  allow,
  review
})

const world = (seed: number) => {
  const random = randomFrom(seed)
  const { chance, int, pick } = random
  const readsOnly = chance(0.4)
  const names: ReadonlyArray<Name> = readsOnly ? ["read", "look"] : ["read", "look", "write", "send"]
  const patterns = ["*", ...names, ...names.flatMap((it) => [`${it}(a)`, `${it}(b)`, `${it}(p)`])]
  const some = (likely: number) => Array.from({ length: 3 }, () => chance(likely) ? [pick(patterns)] : []).flat()
  const plain = (): Plain => ({
    default: pick(["allow", "ask", "ask", "ask", "cautious", "deny"] as const),
    deny: some(0.05),
    ask: some(0.4),
    askAlways: some(0.07),
    allow: some(0.15),
    byAda: names.filter(() => chance(0.1)),
    review: { allow: [...some(0.5), ...chance(0.6) ? ["*"] : []], deny: some(0.5) }
  })
  const calls = Array.from(
    { length: 2 + int(6) },
    (_, index) => call(String(index), pick(names), { t: pick(["a", "a", "a", "b", "b", "p"]), n: index })
  )
  return {
    readsOnly,
    calls,
    policies: [plain(), chance(0.2) ? plain() : undefined, chance(0.3) ? plain() : undefined] as const,
    changesAt: int(30_000),
    consent: chance(0.15) ? pick(names) : undefined,
    approval: chance(0.4) ? "upfront" as const : "perCall" as const,
    hasPeople: chance(0.8),
    breaker: chance(0.3) ? { inARow: 2 } : false as const,
    diesAfter: chance(0.5) ? 3 + int(50) : Infinity,
    verdicts: random
  }
}

interface Seen {
  readonly life: number
  readonly what: "ran" | "reviewer" | "person" | "asked again"
  readonly id: string
  readonly about: About
  readonly isWide?: boolean
  readonly at: number
}

const aboutOf = (tool: string, args: unknown): About => ({
  tool: tool as Name,
  t: (args as { readonly t: string }).t
})

/** Lives one life and adds what is seen of it. */
const live = (
  it: ReturnType<typeof world>,
  life: number,
  entries: ReadonlyArray<Journal.JournalEntry>,
  seen: Array<Seen>,
  written: Array<Journal.JournalEntry>
) =>
  Effect.gen(function*() {
    const { chance, int, pick } = it.verdicts
    const note = (what: Seen["what"], id: string, about: About, isWide = false) =>
      Effect.map(Clock.currentTimeMillis, (at) => void seen.push({ life, what, id, about, at, isWide }))
    const memory = Context.get(
      yield* Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory({ entries })))),
      Journal.Journal
    )
    const journal: Journal.Journal["Service"] = {
      ...memory,
      append: (lines, options) =>
        Effect.tap(memory.append(lines, options), () => Effect.sync(() => written.push(...lines.map((it) => it.entry))))
    }
    const reviewer = yield* Effect.orDie(Reviewer.make(({ args, tool }) => {
      const { n } = args as { readonly n: number }
      const millis = chance(0.5) ? 0 : int(30_000)
      const says = pick(["Allow", "Allow", "Allow", "Person", "Deny", "Deny", "malformed", "fails", "dies", "never"])
      const verdict = Effect.suspend((): Effect.Effect<Reviewer.Verdict, unknown> => {
        switch (says) {
          case "malformed":
            return Effect.succeed(pick([null, "Allow", { _tag: "allow" }, { _tag: "Allow", reason: 1 }]) as never)
          case "fails":
            return Effect.fail("no")
          case "dies":
            return Effect.die("no")
          case "never":
            return Effect.never
          default: {
            const given = Effect.succeed({ _tag: says as Reviewer.Verdict["_tag"], reason: "r" })
            return says === "Allow" && millis < 20_000
              ? Effect.andThen(note("reviewer", String(n), aboutOf(tool, args)), given)
              : given
          }
        }
      })
      const delayed = millis === 0 ? verdict : Effect.delay(verdict, millis)
      return chance(0.2) ? Effect.uninterruptible(delayed) : delayed
    }, { breaker: it.breaker }))
    const approvals = yield* Effect.orDie(Approvals.makeApprover((request) => {
      const { args, callId, tool, why } = request
      const about = aboutOf(tool, args)
      const says = pick(["ApproveOnce", "ApproveOnce", "ApproveForScope", "Deny", "Deny", "edits", "never"] as const)
      if (says === "never") return Effect.never
      const wait = chance(0.5) ? 0 : int(30_000)
      const again = why.startsWith("it was started before")
      const answer = Effect.gen(function*() {
        if (says === "Deny") return { _tag: says } as const
        if (again) yield* note("asked again", callId, about)
        if (says === "edits" && !request.isRunning) {
          const params = { ...args as object, t: pick(["a", "b"]) }
          yield* note("person", callId, aboutOf(tool, params))
          return { _tag: "ApproveOnce", params } as const
        }
        yield* note("person", callId, about, says === "ApproveForScope")
        return { _tag: says === "edits" ? "ApproveOnce" as const : says }
      })
      return wait === 0 ? answer : Effect.delay(answer, wait)
    }, { timeout: "1 minute" }))
    const spec = (name: Name): ToolSpec => ({
      class: isReader(name) ? "ReadOnly" : name === "write" ? "SerialMut" : "ConcurrentMut",
      handler: (params) =>
        Effect.flatMap(ToolContext.ToolContext, ({ callId }) => note("ran", String(callId), aboutOf(name, params))),
      annotate: (tool) =>
        tool.annotate(ToolAnnotations.Targets, (params: unknown) => {
          const { t } = params as { readonly t: string }
          return [t === "p" ? { text: t, kind: "protected" as const } : { text: t }]
        })
    })
    const [first, later, afterwards] = it.policies
    const policy = policyOf(life === 2 && afterwards !== undefined ? afterwards : first)
    const ref = yield* Effect.sync(() => ({ set: (_: Policy.Policy): Effect.Effect<void> => Effect.void }))
    const permissions = Layer.effect(
      Permissions.Permissions,
      Effect.gen(function*() {
        let now = yield* made(policy)
        ref.set = (next) => Effect.map(made(next), (it) => void (now = it))
        return Permissions.Permissions.of({
          decide: (call) => now.decide(call),
          sees: () => true,
          needsTargets: () => true
        })
      })
    )
    const options: Options = {
      permissions,
      journal,
      reviewer,
      dedupe: false,
      approval: it.approval,
      ...(it.consent === undefined ? {} : { rules: [{ _tag: "RequiresConsent", tool: it.consent }] }),
      ...(it.hasPeople ? { approvals } : {})
    }
    const specs = { read: spec("read"), look: spec("look"), write: spec("write"), send: spec("send") }
    const { executor } = yield* open(specs, options)
    const process = yield* executor.process({ batch: "b", id: "p" })
    if (life === 1 && later !== undefined) {
      yield* Effect.forkScoped(Effect.andThen(Effect.sleep(it.changesAt), ref.set(policyOf(later))))
    }
    return life === 1
      ? yield* process.executeWave(it.calls)
      : yield* process.resume(it.calls, { onUnknown: "ask" })
  }).pipe(Effect.scoped, Effect.provide(Logger.layer([])))

const made = (policy: Policy.Policy): Effect.Effect<Permissions.Permissions["Service"]> =>
  Effect.map(
    Effect.orDie(Layer.build(Layer.fresh(Permissions.layer(policy)))),
    (context) => Context.get(context, Permissions.Permissions)
  ).pipe(Effect.scoped)

/** Says what ran that should not have. */
const problemsIn = (it: ReturnType<typeof world>, seen: ReadonlyArray<Seen>): ReadonlyArray<string> => {
  const [first, later, afterwards] = it.policies
  const inForce = (life: number): ReadonlyArray<Plain> =>
    life === 1 ? later === undefined ? [first] : [first, later] : [afterwards ?? first]
  return seen.filter(({ what }) => what === "ran").flatMap((ran) => {
    const { about, at, id, life } = ran
    const policies = inForce(life)
    const before = seen.slice(0, seen.indexOf(ran))
    const isSame = (other: Seen) => other.about.tool === about.tool && other.about.t === about.t
    const wrong = (
      problem: string
    ) => [`${about.tool}(${about.t}), call ${id}, ran at ${at} in life ${life}: ${problem}`]
    if (policies.every((plain) => denies(plain, about))) return wrong("it is denied")
    const ranBefore = before.some((other) => other.what === "ran" && other.id === id && other.life < life)
    if (ranBefore && !isReader(about.tool)) {
      return before.some((other) => other.what === "asked again" && other.id === id && other.life === life)
        ? []
        : wrong("it ran before, and no person was asked")
    }
    if (policies.some((plain) => allows(plain, about, it.consent))) return []
    if (before.some((other) => other.what === "person" && other.id === id && isSame(other))) return []
    const isGranted = before.some((other) => other.what === "person" && other.isWide === true && isSame(other))
    if (isGranted && policies.some((plain) => !fits(plain.askAlways, about))) return []
    const isReviewed = before.some((other) => other.what === "reviewer" && other.id === id && isSame(other))
    if (!isReviewed) return wrong("nobody allowed it")
    return policies.some((plain) => leavesIt(plain, about, it.consent))
      ? []
      : wrong("the policy does not leave it to the reviewer")
  })
}

describe("a reviewer that says anything, at any time", () => {
  it(
    "lets nothing run that policy and people would not have allowed, and never delays what the policy allows",
    { tags: ["RV1"], timeout },
    async () => {
      const counts = { verdicts: 0, ran: 0, byReviewer: 0, lives: 0 }
      for (const seed of seeds(6_500)) {
        const it = world(seed)
        const seen: Array<Seen> = []
        const written: Array<Journal.JournalEntry> = []
        let steps = 0
        const first = await Effect.runPromise(Effect.exit(VirtualTime.run(live(it, 1, [], seen, written), {
          limit: "1 day",
          killed: () => ++steps > it.diesAfter
        })))
        if (first._tag === "Success" && it.readsOnly && it.approval === "perCall" && it.policies[1] === undefined) {
          for (const outcome of first.value.outcomes) {
            const about = aboutOf(outcome.tool, it.calls[outcome.index]!.params)
            const isFree = allows(it.policies[0], about, it.consent)
            if (isFree) assert.strictEqual(outcome.startedAt, outcome.queuedAt, `seed ${seed}, call ${outcome.callId}`)
          }
        }
        if (first._tag === "Failure") {
          assert.isAbove(steps, it.diesAfter, `seed ${seed}: ${String(first.cause)}`)
          const second = await Effect.runPromise(
            Effect.exit(VirtualTime.run(live(it, 2, written.slice(), seen, []), { start: 100_000, limit: "1 day" }))
          )
          assert.strictEqual(second._tag, "Success", `seed ${seed}: ${String(second)}`)
          counts.lives++
        }
        assert.deepStrictEqual(problemsIn(it, seen), [], `seed ${seed}`)
        counts.verdicts += written.filter(({ _tag }) => _tag === "Reviewed").length
        counts.ran += seen.filter(({ what }) => what === "ran").length
        counts.byReviewer += written.filter((it) => it._tag === "Started" && it.allowedBy === "reviewer").length
      }
      // it tries what it says
      const share = seeds(6_500).length / 6_500
      assert.isAbove(counts.verdicts, 9_500 * share, JSON.stringify(counts))
      assert.isAbove(counts.byReviewer, 1_500 * share, JSON.stringify(counts))
      assert.isAbove(counts.lives, 800 * share, JSON.stringify(counts))
    }
  )
})
