/** Whatever people do in whatever order, approval requests end as a plain model of them says. */
import { assert, describe, it } from "@effect/vitest"
import { Approvals } from "effect-tool-executor"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import * as PendingApprovals from "../../../src/server/approvals/PendingApprovals.ts"
import { approval, layer, user } from "../../support/Asking.ts"
import { ApprovalOracle, approvers, type Asked, type Given, Step, type Told } from "../../support/questionOracle.ts"
import { runs } from "../../support/seeds.ts"

const answers: { readonly [K in Given["answer"]]: Approvals.Answer } = {
  once: { _tag: "ApproveOnce" },
  deny: { _tag: "Deny" },
  scope: { _tag: "ApproveForScope" },
  endless: { _tag: "ApproveForDuration", duration: "for ever" }
}

interface Known {
  readonly id: string
  readonly hash: string
  readonly fiber: Fiber.Fiber<Approvals.Resolution>
}

const cy = user("cy", ["*"])

const ask = Effect.fnUntraced(function*({ minutes, remember, target, tool, user }: Asked, n: number) {
  const approvals = yield* Approvals.Approvals
  const now = yield* Clock.currentTimeMillis
  const request = yield* approvals.request(approval({
    callId: `c${n}`,
    principal: `${user}/home`,
    tool,
    targets: [{ text: target }],
    args: { target },
    remember,
    expiresAt: minutes === 0 ? "unlimited" : now + minutes * 60_000
  }))
  const fiber = yield* Effect.forkScoped(approvals.submit(request), { startImmediately: true })
  const { open } = yield* PendingApprovals.PendingApprovals.use((it) => it.list(cy))
  return { id: request.id, hash: open.find((it) => it.id === request.id)!.hash, fiber }
})

/** What whoever answers is told, in the words of the model. */
const answer = Effect.fnUntraced(function*(
  known: ReadonlyArray<Known>,
  by: keyof typeof approvers,
  given: ReadonlyArray<Given>,
  isOne: boolean
) {
  const approvals = yield* PendingApprovals.PendingApprovals
  const person = user(by, approvers[by])
  const real = given.map(({ answer, at, isOther }) => ({
    id: known[at]?.id ?? `unknown ${at}`,
    hash: isOther ? "0".repeat(64) : known[at]?.hash ?? "",
    answer: answers[answer]
  }))
  const said = isOne
    ? Effect.map(approvals.answer(person, real[0]!), (it) => [it])
    : approvals.answerAll(person, real)
  return yield* Effect.match(said, {
    onSuccess: (all): Told => ({ _tag: "Taken", how: all.map(({ how }) => how) }),
    onFailure: (error): Told =>
      error._tag === "NotFound"
        ? { _tag: "NotFound" }
        : error._tag === "NotAnswered"
        ? { _tag: "NotAnswered", reasons: error.errors.map(({ reason }) => reason) }
        : error._tag === "AlreadyEnded"
        ? { _tag: "AlreadyEnded", how: error.how!, at: error.at!, ...(error.by === undefined ? {} : { by: error.by }) }
        : assert.fail(error.message)
  })
})

/** What the one who asked gets. */
const resolutionOf = (how: string): string =>
  ({ approved: "Approved", covered: "Approved", denied: "user", expired: "timeout", withdrawn: "interrupted" })[how] ??
    ""

/** Everything that anybody can see is as the model has it. */
const compare = Effect.fnUntraced(function*(known: ReadonlyArray<Known>, model: ApprovalOracle) {
  const approvals = yield* PendingApprovals.PendingApprovals
  for (const by of ["ada", "dora", "cy", "eve"] as const) {
    const { ended, open } = yield* approvals.list(user(by, approvers[by]))
    const seen = model.open.filter(({ id }) => model.mayAnswer(by, id))
    assert.deepStrictEqual(open.map(({ id }) => id), seen.map(({ id }) => known[id]!.id))
    const over = Array.from(model.ended).filter(([id]) => model.mayAnswer(by, id))
    assert.deepStrictEqual(
      new Map(ended.map((it) => [it.id, { how: it.how, by: it.by, at: it.endedAt }])),
      new Map(over.map(([id, it]) => [known[id]!.id, { how: it.how as never, by: it.by, at: it.at }]))
    )
    const times = ended.map((it) => it.endedAt)
    assert.deepStrictEqual(times, times.toSorted((a, b) => b - a), "newest first")
  }
  yield* TestClock.adjust(0)
  for (const [index, { fiber }] of known.entries()) {
    const exit = fiber.pollUnsafe()
    const end = model.ended.get(index)
    if (end === undefined) {
      assert.isUndefined(exit, "it still waits")
      continue
    }
    const got = exit === undefined
      ? "waits"
      : Exit.isFailure(exit)
      ? "interrupted"
      : exit.value._tag === "Denied"
      ? exit.value.by
      : exit.value._tag
    assert.strictEqual(got, resolutionOf(end.how))
    const person = exit !== undefined && Exit.isSuccess(exit) && exit.value._tag !== "Suspended"
      ? exit.value.person
      : undefined
    assert.strictEqual(person, end.by)
  }
})

describe("approval requests", () => {
  it.effect.prop(
    "end as a plain model of them says, in any order of any users' actions",
    [Schema.Array(Step).check(Schema.isMinLength(20), Schema.isMaxLength(60))],
    ([steps]) =>
      Effect.gen(function*() {
        const context = yield* Layer.build(Layer.fresh(layer()))
        yield* Effect.gen(function*() {
          const model = new ApprovalOracle()
          const known: Array<Known> = []
          for (const step of steps) {
            const now = yield* Clock.currentTimeMillis
            const place = <A extends { readonly at: number }>(it: A): A => ({ ...it, at: it.at % (known.length + 1) })
            switch (step._tag) {
              case "Ask": {
                if (known.length === 12) break
                model.ask(step, now)
                known.push(yield* ask(step, known.length))
                break
              }
              case "Answer": {
                const told = yield* answer(known, step.by, [place(step.given)], true)
                assert.deepStrictEqual(told, model.answer(step.by, place(step.given), now))
                break
              }
              case "AnswerAll": {
                const told = yield* answer(known, step.by, step.given.map(place), false)
                assert.deepStrictEqual(told, model.answerAll(step.by, step.given.map(place), now))
                break
              }
              case "Withdraw": {
                if (step.at >= known.length) break
                model.withdraw(step.at, now)
                yield* Fiber.interrupt(known[step.at]!.fiber)
                break
              }
              case "Pass": {
                yield* TestClock.adjust(step.minutes * 60_000)
                model.pass(now + step.minutes * 60_000)
              }
            }
            yield* compare(known, model)
          }
        }).pipe(Effect.provide(context))
      }).pipe(Effect.scoped),
    { tags: ["SV10"], arbitrary: { runs: runs(400) } }
  )
})
