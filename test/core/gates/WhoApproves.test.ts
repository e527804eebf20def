/** Named approvers, four eyes, escalation, notes and forms, over the requests of one process. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import type { Approvers } from "../../../src/core/vocabulary/Approvers.ts"
import type { Person } from "../../../src/core/vocabulary/WhoApproves.ts"
import { ToolAnnotations, ToolContext } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { calls, type Env, open, type Options, tags, type ToolSpec } from "../../support/Harness.ts"

type People = Approvals.Approvals["Service"]

const ran: Array<unknown> = []

const pay: ToolSpec = {
  class: "SerialMut",
  handler: (params) =>
    Effect.map(ToolContext.ToolContext, ({ answer }) => {
      ran.push(params, ...(answer?.data === undefined ? [] : [answer.data]))
      return "paid"
    })
}

const withForm: ToolSpec = {
  ...pay,
  annotate: (tool) =>
    tool.annotate(
      ToolAnnotations.Form,
      Schema.Struct({ reason: Schema.NonEmptyString, limit: Schema.Int.check(Schema.isGreaterThan(0)) })
    )
}

/** A call above 100 needs these approvers, every other call anybody. */
const policyOf = (approvers: Approvers): NonNullable<Options["policy"]> => ({
  ask: [{ tool: "pay", when: { amount: { gt: 100 } }, approvers }]
})

const test = <A, E>(
  name: string,
  approvers: Approvers,
  program: (env: Env & { readonly people: People }) => Effect.Effect<A, E, Scope.Scope>,
  spec = pay
) =>
  it.effect(name, () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        ran.length = 0
        const people = yield* Approvals.make({ timeout: "1 hour" })
        const env = yield* open({ pay: spec }, {
          policy: policyOf(approvers),
          principal: "bob/home",
          approvals: people
        })
        return yield* program({ ...env, people })
      })),
      { limit: "1 day" }
    ))

const start = (env: Env, ...amounts: ReadonlyArray<number>) =>
  Effect.tap(
    Effect.forkChild(
      env.process.executeWave(calls(...amounts.map((amount) => ["pay", { amount }] as const))),
      { startImmediately: true }
    ),
    () => moment
  )

/** Time for a call to reach its next request. */
const moment = Effect.sleep("1 millis")

const only = (people: People) => Effect.map(people.list, ([it]) => it!)

const once = { _tag: "ApproveOnce" } as const

/** How an answer was taken: the reason of its rejection, or `taken`. */
const says = (people: People, person: string | Person | undefined, answer: Approvals.Answer = once) =>
  Effect.flatMap(only(people), ({ id }) =>
    Effect.tap(
      Effect.match(people.answer(id, answer, undefined, person), {
        onFailure: ({ problem, reason }) => `${reason}${problem === undefined ? "" : `: ${problem}`}`,
        onSuccess: () => "taken"
      }),
      () => moment
    ))

const ada = "ada"
const cy: Person = { name: "cy", roles: ["finance"] }

describe("named approvers", { tags: ["AP16"] }, () => {
  test(
    "are the only ones who approve, and the error says who they are",
    { people: ["ada"], roles: ["finance"] },
    (env) =>
      Effect.gen(function*() {
        const { people } = env
        const wave = yield* start(env, 500)
        const who = "NotNamed: It needs 1 person of: ada, anybody with the role finance."
        assert.strictEqual(yield* says(people, "dora"), who)
        assert.strictEqual(yield* says(people, { name: "dora", roles: ["Finance"] }), who)
        assert.strictEqual(yield* says(people, undefined), `${who} Say who answers.`)
        // permission is by the exact name
        for (const name of ["Ada", "ada ", "аda", "ada\u200b", ""]) assert.strictEqual(yield* says(people, name), who)
        assert.deepStrictEqual(ran, [])
        assert.strictEqual(yield* says(people, cy), "taken")
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
      })
  )

  test("do not limit who says no", { people: ["ada"] }, (env) =>
    Effect.gen(function*() {
      const wave = yield* start(env, 500)
      assert.strictEqual(yield* says(env.people, "dora", { _tag: "Deny", reason: "not this month" }), "taken")
      const { outcomes, toolMessages } = yield* Fiber.join(wave)
      assert.deepStrictEqual(tags({ outcomes } as never), ["PermissionDenied"])
      assert.include(toolMessages[0]!.text, "not this month")
    }))

  test("are not asked about calls of no such clause", { people: ["ada"] }, (env) =>
    Effect.gen(function*() {
      const wave = yield* start(env, 5)
      assert.isUndefined((yield* only(env.people)).approvers)
      assert.strictEqual(yield* says(env.people, undefined), "taken")
      assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
    }))

  test(
    "approve calls of others: their own only if they are listed by name",
    { roles: ["finance"] },
    (env) =>
      Effect.gen(function*() {
        const wave = yield* start(env, 500)
        const own = "NotNamed: It needs 1 person of: anybody with the role finance, other than bob."
        assert.strictEqual(yield* says(env.people, { name: "bob", roles: ["finance"] }), own)
        assert.strictEqual(yield* says(env.people, { name: "BOB", roles: ["finance"] }), own)
        assert.strictEqual(yield* says(env.people, cy), "taken")
        yield* Fiber.join(wave)
      })
  )
})

describe("four eyes", { tags: ["AP16", "AP17", "AP18", "AP21"] }, () => {
  test("are two different people, and the call waits for the second", { count: 2 }, (env) =>
    Effect.gen(function*() {
      const { people } = env
      const wave = yield* start(env, 500)
      assert.strictEqual(yield* says(people, ada), "taken")
      assert.isUndefined(wave.pollUnsafe())
      assert.deepStrictEqual((yield* only(people)).approvals?.map((it) => it.person), ["ada"])
      const more = "It needs 1 more person, other than bob."
      for (const name of ["ada", "Ada", "ADA", "ａｄａ", "a\u200bda", " ada "]) {
        assert.strictEqual(yield* says(people, name), `AlreadyApproved: ${more}`)
      }
      // whose call it is does not count, however the name is spelled
      for (const name of ["bob", "Bob", "ｂob"]) assert.strictEqual(yield* says(people, name), `NotNamed: ${more}`)
      assert.deepStrictEqual(ran, [])
      assert.strictEqual(yield* says(people, cy), "taken")
      assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
      assert.deepStrictEqual(ran, [{ amount: 500 }])
    }))

  test(
    "may include whose call it is, if listed by name",
    { people: ["bob", "ada"], count: 2 },
    (env) =>
      Effect.gen(function*() {
        const wave = yield* start(env, 500)
        assert.strictEqual(yield* says(env.people, "bob"), "taken")
        assert.strictEqual(yield* says(env.people, ada), "taken")
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
      })
  )

  test("end with one no, also of somebody who had said yes", { count: 2 }, (env) =>
    Effect.gen(function*() {
      const wave = yield* start(env, 500)
      yield* says(env.people, ada)
      assert.strictEqual(yield* says(env.people, ada, { _tag: "Deny" }), "taken")
      assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["PermissionDenied"])
    }))

  test("expire like every request: one approval is none", { count: 2 }, (env) =>
    Effect.gen(function*() {
      const wave = yield* start(env, 500)
      yield* Effect.sleep("30 minutes")
      yield* says(env.people, ada)
      yield* Effect.sleep("31 minutes")
      assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["PermissionDenied"])
      assert.deepStrictEqual(ran, [])
    }))

  test("of a clause with conditions approve one call: for longer, it would be about arguments that they did not see", {
    count: 2
  }, (env) =>
    Effect.gen(function*() {
      const { people } = env
      for (const amount of [500, 501]) {
        const big = yield* start(env, amount)
        assert.strictEqual((yield* only(people)).remember, "call")
        yield* says(people, ada, { _tag: "ApproveForScope", scope: "tool", agents: "all" })
        yield* says(people, cy, { _tag: "ApproveForScope", scope: "tool", agents: "all" })
        assert.deepStrictEqual(tags(yield* Fiber.join(big)), ["Succeeded"])
      }
      assert.deepStrictEqual(yield* env.executor.grants, [])
    }))

  test(
    "make a grant of what both allow, which covers calls of the same approvers only",
    { count: 2 },
    (alone) =>
      Effect.gen(function*() {
        const { people } = alone
        const opened = yield* open({
          pay: {
            ...pay,
            annotate: (tool) =>
              tool.annotate(ToolAnnotations.Targets, (params) => [
                { text: (params as { readonly amount: number }).amount > 100 ? "big" : "small" }
              ])
          }
        }, {
          policy: { ask: [{ tool: "pay", target: "big", approvers: { count: 2 } }] },
          principal: "bob/home",
          approvals: people
        })
        const env = { ...opened, people }
        // a grant of one person for the whole tool
        const small = yield* start(env, 5)
        assert.strictEqual(yield* says(people, "dora", { _tag: "ApproveForScope", scope: "tool" }), "taken")
        yield* Fiber.join(small)
        const big = yield* start(env, 500)
        assert.lengthOf(yield* people.list, 1)
        yield* says(people, ada, { _tag: "ApproveForScope", scope: "tool", agents: "all" })
        assert.lengthOf(yield* env.executor.grants, 1)
        yield* says(people, cy, { _tag: "ApproveForDuration", duration: "10 minutes", scope: "tool" })
        yield* Fiber.join(big)
        const [, grant] = yield* env.executor.grants
        assert.deepInclude(grant, { answer: "ApproveForDuration", approvers: [{ count: 2 }] })
        assert.strictEqual(grant!.expiresAt! - grant!.grantedAt, 600_000)
        assert.deepStrictEqual(tags(yield* env.process.executeWave(calls(["pay", { amount: 900 }]))), ["Succeeded"])
        yield* Effect.sleep("11 minutes")
        yield* start(env, 500)
        assert.lengthOf(yield* people.list, 1)
      })
  )

  test("are not covered by the answer to another call", { count: 2 }, (env) =>
    Effect.gen(function*() {
      const { people } = env
      yield* start(env, 500, 5)
      const small = (yield* people.list).find((it) => it.approvers === undefined)
      const all = yield* people.list
      // the calls run one after the other, and wait together
      assert.isAtLeast(all.length, 1)
      if (small !== undefined) yield* people.answer(small.id, { _tag: "ApproveForScope", scope: "tool" })
      assert.isDefined((yield* people.list).find((it) => it.approvers !== undefined))
    }))

  test(
    "see edited arguments again: an edit under the limit runs, one above needs a second person",
    { count: 2 },
    (env) =>
      Effect.gen(function*() {
        const { people } = env
        const big = yield* start(env, 500)
        yield* says(people, ada)
        const { id } = yield* only(people)
        assert.strictEqual(yield* says(people, cy, { _tag: "ApproveOnce", params: { amount: 700 } }), "taken")
        const next = yield* only(people)
        assert.notStrictEqual(next.id, id)
        assert.deepStrictEqual(next.args, { amount: 700 })
        // what ada approved were other arguments
        assert.deepStrictEqual(next.approvals?.map((it) => it.person), ["cy"])
        assert.include(yield* says(people, cy), "AlreadyApproved")
        assert.strictEqual(yield* says(people, ada), "taken")
        yield* Fiber.join(big)
        const less = yield* start(env, 500)
        assert.strictEqual(yield* says(people, ada, { _tag: "ApproveOnce", params: { amount: 50 } }), "taken")
        yield* Fiber.join(less)
        assert.deepStrictEqual(ran, [{ amount: 700 }, { amount: 50 }])
      })
  )

  test(
    "hold where one person edits a call that anybody may approve into one that two must",
    { count: 2 },
    (env) =>
      Effect.gen(function*() {
        const { people } = env
        const wave = yield* start(env, 5)
        assert.strictEqual(yield* says(people, ada, { _tag: "ApproveOnce", params: { amount: 5_000 } }), "taken")
        assert.isUndefined(wave.pollUnsafe())
        assert.deepStrictEqual((yield* only(people)).args, { amount: 5_000 })
        assert.strictEqual(yield* says(people, ada), "taken")
        assert.strictEqual(yield* says(people, cy), "taken")
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
      })
  )

  test(
    "hold where all approvals of a wave come first, also for arguments that one of them edits",
    { count: 2 },
    (env) =>
      Effect.gen(function*() {
        const { people } = env
        const other = yield* open({ pay }, {
          approval: "upfront",
          policy: policyOf({ count: 2 }),
          principal: "bob/home",
          approvals: people
        })
        const wave = yield* start(other, 500, 5)
        assert.lengthOf(yield* people.list, 2)
        assert.strictEqual(yield* says(people, ada), "taken")
        assert.strictEqual(yield* says(people, cy), "taken")
        assert.strictEqual(yield* says(people, ada, { _tag: "ApproveOnce", params: { amount: 900 } }), "taken")
        assert.deepStrictEqual((yield* only(people)).args, { amount: 900 })
        assert.strictEqual(yield* says(people, ada), "taken")
        assert.strictEqual(yield* says(people, cy), "taken")
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded"])
        assert.deepStrictEqual(ran, [{ amount: 500 }, { amount: 900 }])
      })
  )

  test(
    "are checked by the executor, whatever a driver of the host says",
    { count: 2 },
    (env) =>
      Effect.gen(function*() {
        const { people } = env
        const careless: People = {
          ...people,
          submit: () => Effect.succeed({ _tag: "Approved", grant: undefined, isOwn: true, edited: undefined })
        }
        const other = yield* open({ pay }, {
          policy: policyOf({ count: 2 }),
          principal: "bob/home",
          approvals: careless
        })
        const wave = yield* other.process.executeWave(calls(["pay", { amount: 500 }], ["pay", { amount: 5 }]))
        assert.deepStrictEqual(tags(wave), ["PermissionDenied", "Succeeded"])
        assert.include(wave.toolMessages[0]!.text, "It needs 2 different people")
      })
  )

  test(
    "take a person of each group where several groups must approve",
    { people: ["ada"] },
    (env) =>
      Effect.gen(function*() {
        const people = env.people
        const other = yield* open({ pay }, {
          policy: {
            ask: [{ tool: "pay", approvers: { roles: ["finance"] } }],
            askAlways: [{ tool: "pay", when: { amount: { gt: 100 } }, approvers: { people: ["ada", "cy"] } }]
          },
          principal: "bob/home",
          approvals: people
        })
        const wave = yield* start(other, 500)
        const { approvers } = yield* only(people)
        assert.lengthOf(approvers!, 2)
        assert.strictEqual(yield* says(people, ada), "taken")
        assert.strictEqual(
          yield* says(people, "dora"),
          "NotNamed: It needs 1 more person of: anybody with the role finance, other than bob."
        )
        assert.strictEqual(yield* says(people, cy), "taken")
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
        // one person of both groups is enough
        const second = yield* start(other, 600)
        assert.strictEqual(yield* says(people, cy), "taken")
        yield* Fiber.join(second)
      })
  )
})

describe("a rule that requires consent", { tags: ["AP16"] }, () => {
  test("names who approves, together with the policy", { people: ["ada"] }, ({ people }) =>
    Effect.gen(function*() {
      const other = yield* open({ pay }, {
        rules: [
          { _tag: "RequiresConsent", tool: "pay", approvers: { count: 2 } },
          { _tag: "RequiresConsent", tool: "*", scope: "call", approvers: { roles: ["finance"] } }
        ],
        policy: { allow: ["pay"] },
        principal: "bob/home",
        approvals: people
      })
      const wave = yield* start(other, 5)
      assert.deepStrictEqual((yield* only(people)).approvers, [{ count: 2 }, { roles: ["finance"] }])
      assert.strictEqual(yield* says(people, ada), "taken")
      assert.include(yield* says(people, "dora"), "taken")
      assert.strictEqual(yield* says(people, cy), "taken")
      assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
    }))
})

describe("escalation and reminders", { tags: ["AP20"] }, () => {
  const changesOf = (people: People) =>
    Effect.gen(function*() {
      const seen: Array<string> = []
      yield* Effect.forkScoped(
        Stream.runForEach(people.changes, (it) => Effect.sync(() => seen.push(it._tag))),
        { startImmediately: true }
      )
      return seen
    })

  test(
    "let others answer after a time, and the deadline goes on",
    { people: ["ada"], escalate: { after: "15 minutes", to: { roles: ["finance"] } } },
    (env) =>
      Effect.gen(function*() {
        const { people } = env
        const seen = yield* changesOf(people)
        const wave = yield* start(env, 500)
        const { escalatesAt, expiresAt, requestedAt } = yield* only(people)
        assert.strictEqual(escalatesAt! - requestedAt, 900_000)
        assert.strictEqual((expiresAt as number) - requestedAt, 3_600_000)
        yield* Effect.sleep("899998 millis")
        const who = "NotNamed: It needs 1 person of: ada, and after 15 minutes also anybody with the role finance."
        assert.strictEqual(yield* says(people, cy), who)
        yield* moment
        assert.deepStrictEqual(seen, ["Requested", "Escalated"])
        // not whose call it is, whatever their roles
        assert.strictEqual(yield* says(people, { name: "bob", roles: ["finance"] }), who)
        assert.strictEqual(yield* says(people, cy), "taken")
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded"])
      })
  )

  test(
    "still let the first ones answer",
    { people: ["ada"], escalate: { after: "1 minute", to: { people: ["cy"] } } },
    (env) =>
      Effect.gen(function*() {
        const wave = yield* start(env, 500)
        yield* Effect.sleep("5 minutes")
        assert.strictEqual(yield* says(env.people, ada), "taken")
        yield* Fiber.join(wave)
      })
  )

  test("remind in their interval until the request ends", { remind: "20 minutes" }, (env) =>
    Effect.gen(function*() {
      const seen = yield* changesOf(env.people)
      const wave = yield* start(env, 500)
      yield* Effect.sleep("41 minutes")
      assert.deepStrictEqual(seen, ["Requested", "Reminded", "Reminded"])
      // a rule that only reminds names nobody
      assert.strictEqual(yield* says(env.people, undefined), "taken")
      yield* Fiber.join(wave)
      yield* Effect.sleep("2 hours")
      assert.deepStrictEqual(seen, ["Requested", "Reminded", "Reminded", "Ended"])
    }))
})

describe("what approvers say besides yes", { tags: ["AP17", "AP22"] }, () => {
  test("is a note that the model reads with the result", { count: 2 }, (env) =>
    Effect.gen(function*() {
      const wave = yield* start(env, 500)
      yield* says(env.people, ada, { ...once, note: "Pay it from the second account." })
      yield* says(env.people, cy, { ...once, note: "And tell Bob." })
      const { toolMessages } = yield* Fiber.join(wave)
      assert.strictEqual(
        toolMessages[0]!.text,
        "paid\n\nNote of the approver: ada: Pay it from the second account.\ncy: And tell Bob."
      )
      const small = yield* start(env, 5)
      yield* says(env.people, undefined, { ...once, note: "Fine." })
      assert.strictEqual((yield* Fiber.join(small)).toolMessages[0]!.text, "paid\n\nNote of the approver: Fine.")
    }))

  test(
    "is the data of a form, which must fit, and which the handler gets",
    { count: 1 },
    (env) =>
      Effect.gen(function*() {
        const { people } = env
        const wave = yield* start(env, 5)
        const { form, remember } = yield* only(people)
        assert.deepInclude(form as object, { type: "object", required: ["reason", "limit"] })
        assert.strictEqual(remember, "call")
        assert.include(yield* says(people, undefined), "WrongData: `data` is missing")
        const wrong = yield* says(people, undefined, { ...once, data: { reason: "", limit: -1 } })
        assert.match(wrong, /^WrongData: .*reason.*limit|^WrongData: .*limit.*reason/)
        assert.strictEqual(
          yield* says(people, undefined, { _tag: "ApproveForScope", scope: "tool", data: { reason: "r", limit: 7 } }),
          "taken"
        )
        yield* Fiber.join(wave)
        assert.deepStrictEqual(ran, [{ amount: 5 }, { reason: "r", limit: 7 }])
        assert.deepStrictEqual(yield* env.executor.grants, [])
      }),
    withForm
  )

  test(
    "must be the same data from all: other data starts again",
    { count: 2 },
    (env) =>
      Effect.gen(function*() {
        const { people } = env
        const wave = yield* start(env, 500)
        yield* says(people, ada, { ...once, data: { reason: "r", limit: 7 } })
        yield* says(people, cy, { ...once, data: { reason: "r", limit: 8 } })
        assert.deepStrictEqual((yield* only(people)).approvals?.map((it) => it.person), ["cy"])
        yield* says(people, ada, { ...once, data: { limit: 8, reason: "r" } })
        yield* Fiber.join(wave)
        assert.deepStrictEqual(ran, [{ amount: 500 }, { limit: 8, reason: "r" }])
      }),
    withForm
  )
})
