/** Operations on a server whose store is slow or fails, whose clients leave meanwhile, and whose limits are reached. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { OperationSubmission } from "../../../src/server/api/ApiOperations.ts"
import type * as Agents from "../../../src/server/operations/Agents.ts"
import { Operations } from "../../../src/server/operations/Operations.ts"
import * as OperationStore from "../../../src/server/operations/OperationStore.ts"
import { ServedConversation } from "../../../src/server/operations/ServedConversation.ts"
import * as ScriptedModel from "../../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ada, inMemory, type Options } from "../../support/Served.ts"

const tools = {
  save: { class: "SerialMut", handler: () => Effect.succeed("saved") },
  slow: { class: "ReadOnly", handler: () => Effect.as(Effect.sleep("1 minute"), "slow") }
} as const

const call = (name: string) => ({ calls: [{ name, params: { index: 0 } }] })

type Store = OperationStore.OperationStore["Service"]

interface Env {
  readonly operations: Operations["Service"]
  readonly model: ScriptedModel.Scripted
  readonly store: Store
  /** What happens before and after each write. */
  readonly writes: {
    before: (what: keyof Store) => Effect.Effect<void, OperationStore.OperationStoreError>
    after: (what: keyof Store) => Effect.Effect<void>
  }
  readonly start: (
    prompt: string,
    id: string,
    how?: Partial<OperationSubmission>
  ) => ReturnType<Operations["Service"]["start"]>
}

const test = <A, E>(
  name: string,
  script: ScriptedModel.Script,
  program: (env: Env) => Effect.Effect<A, E, Scope.Scope>,
  options: Options = {},
  agent: Partial<Agents.Options> = {}
) =>
  it.effect(name, () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const model = yield* ScriptedModel.make(script)
        const store = Context.get(yield* Layer.build(OperationStore.layerMemory()), OperationStore.OperationStore)
        const writes: Env["writes"] = { before: () => Effect.void, after: () => Effect.void }
        const write = (what: keyof Store, effect: Effect.Effect<void, OperationStore.OperationStoreError>) =>
          Effect.suspend(() => writes.before(what)).pipe(
            Effect.andThen(effect),
            Effect.andThen(Effect.suspend(() => writes.after(what)))
          )
        const slow = Layer.succeed(OperationStore.OperationStore, {
          ...store,
          submit: (it) => write("submit", store.submit(it)),
          keepConversation: (it) => write("keepConversation", store.keepConversation(it)),
          end: (owner, it) => write("end", store.end(owner, it)),
          removeConversation: (it) => write("removeConversation", store.removeConversation(it))
        })
        const policy = { default: "allow", ask: ["save"] } as const
        const agents = { helper: { ...agent, model: model.layer } }
        const context = yield* Layer.build(
          Layer.provideMerge(inMemory(tools, { policy, agents, ...options }), slow)
        )
        const operations = Context.get(context, Operations)
        const start: Env["start"] = (prompt, id, how) => operations.start(ada, { agent: "helper", prompt, id, ...how })
        return yield* program({ operations, model, store, writes, start })
      })),
      { limit: "60 days" }
    ))

const fails = (what: keyof Store, times = 1): Env["writes"]["before"] => {
  let left = times
  return (it) =>
    it === what && left-- > 0
      ? Effect.fail(new OperationStore.OperationStoreError({ operation: it, cause: "the disk is full" }))
      : Effect.void
}

const open = ({ store }: Env) => Effect.map(store.conversations, (all) => all.flatMap((it) => it.open))

describe("a conversation whose operations are no longer in memory", () => {
  test(
    "still says why its last operation ended",
    [{ text: "done" }],
    ({ operations, start, store }) =>
      Effect.gen(function*() {
        yield* (yield* start("go", "x")).ended
        const [listed] = yield* operations.conversations
        assert.deepInclude(listed, { state: "ended", ended: "Finished" })
        // as after a restart
        const [kept] = yield* store.conversations
        const { summary } = new ServedConversation(ada, kept!)
        assert.deepInclude(summary, { state: "ended", ended: "Finished" })
      })
  )
})

describe("an operation on a server whose store is slow or fails", { tags: ["SV22"] }, () => {
  for (const what of ["submit", "keepConversation"] as const) {
    for (const when of ["before", "after"] as const) {
      test(
        `runs once when its client leaves ${when} ${what} and comes again`,
        [{ text: "done" }],
        (env) =>
          Effect.gen(function*() {
            const { model, operations, start, store, writes } = env
            writes[when] = (it) => it === what ? Effect.sleep("1 second") : Effect.void
            const client = yield* Effect.forkChild(start("go", "x"))
            yield* Effect.sleep("500 millis")
            yield* Fiber.interrupt(client)
            const kept = yield* store.conversations
            // what the next start would run, this one runs
            assert.equal(Option.isSome(yield* operations.get(ada, "x")), kept.length > 0)
            const again = yield* start("go", "x")
            assert.equal((yield* again.ended).state, "ended")
            assert.lengthOf(yield* model.requests, 1)
            assert.lengthOf(yield* operations.list(ada), 1)
            assert.deepEqual(yield* open(env), [])
          })
      )
    }

    test(
      `that could not be stored (${what}) did not begin, and can be sent again`,
      [{ text: "done" }],
      (env) =>
        Effect.gen(function*() {
          const { model, operations, start, writes } = env
          writes.before = fails(what)
          assert.equal((yield* Effect.flip(start("go", "x")))._tag, "Unavailable")
          assert.deepEqual(yield* operations.list(ada), [])
          // what is stored next knows nothing of it
          yield* (yield* start("other", "y")).ended
          assert.deepEqual(yield* open(env), [])
          assert.lengthOf(yield* model.requests, 1)
        })
    )
  }

  test(
    "joins no message that could not be stored, and takes it when it comes again",
    [call("slow"), { text: "done" }],
    (
      { model, start, store, writes }
    ) =>
      Effect.gen(function*() {
        const running = yield* start("go", "x")
        yield* Effect.sleep("1 second")
        writes.before = fails("submit")
        assert.equal((yield* Effect.flip(start("more", "y")))._tag, "Unavailable")
        yield* start("more", "y")
        yield* running.ended
        const kept = yield* store.get(ada, "x")
        assert.deepEqual(kept?.submitted.inputs.map(({ id }) => id), ["x", "y"])
        assert.lengthOf(yield* model.requests, 2)
      })
  )

  test("takes a message once whose client leaves while it is stored", [call("slow"), { text: "done" }], (
    { model, start, store, writes }
  ) =>
    Effect.gen(function*() {
      const running = yield* start("go", "x")
      yield* Effect.sleep("1 second")
      writes.after = () => Effect.sleep("1 second")
      const client = yield* Effect.forkChild(start("more", "y"))
      yield* Effect.sleep("500 millis")
      yield* Fiber.interrupt(client)
      yield* running.ended
      assert.include(JSON.stringify((yield* model.requests).at(-1)?.prompt), "more")
      assert.equal((yield* start("more", "y")).id, "x")
      const kept = yield* store.get(ada, "x")
      assert.deepEqual(kept?.submitted.inputs.map(({ id }) => id), ["x", "y"])
    }))

  test(
    "of a new conversation is found, however long it takes to store",
    [call("slow"), { text: "done" }],
    ({ operations, start, writes }) =>
      Effect.gen(function*() {
        yield* Effect.sleep("1 hour")
        writes.before = (it) => it === "submit" ? Effect.sleep("5 minutes") : Effect.void
        const one = yield* start("go", "x")
        assert.isTrue(Option.isSome(yield* operations.get(ada, "x")))
        writes.before = () => Effect.void
        assert.equal((yield* start("more", "y")).id, one.id)
        assert.deepInclude((yield* one.ended).end, { text: "done" })
      }),
    { operations: { retention: "30 minutes" } }
  )

  test(
    "that ended without being stored does not run again, and is stored later",
    [{ text: "done" }],
    (env) =>
      Effect.gen(function*() {
        const { model, start, store, writes } = env
        writes.before = fails("end", 10)
        yield* (yield* start("go", "x")).ended
        yield* Effect.sleep("3 hours")
        yield* (yield* start("go", "x")).ended
        assert.lengthOf(yield* model.requests, 1)
        assert.deepInclude((yield* store.get(ada, "x"))?.ended?.end, { text: "done" })
        assert.deepEqual(yield* open(env), [])
      })
  )
})

describe("a message to a busy session", { tags: ["SV23"] }, () => {
  test(
    "that is refused for a limit interrupts nothing",
    [call("slow"), { text: "done" }],
    ({ operations, start }) =>
      Effect.gen(function*() {
        const running = yield* start("go", "x")
        yield* Effect.sleep("1 second")
        const refused = yield* Effect.flip(start("stop", "y", { onBusy: "interrupt" }))
        assert.equal(refused._tag, "TooMany")
        assert.deepInclude((yield* running.ended).end, { text: "done" })
        assert.lengthOf(yield* operations.list(ada), 1)
      }),
    { operations: { maxOperationsPerUser: 1 } }
  )

  test(
    "has an id of its own, whatever ids clients choose",
    [call("slow"), { text: "done" }],
    ({ start, store }) =>
      Effect.gen(function*() {
        const running = yield* start("go", "x")
        yield* Effect.sleep("1 second")
        yield* start("two", "x-said-2")
        assert.equal(yield* running.say("three"), "x-said-3")
        yield* running.ended
        const ids = (yield* store.get(ada, "x"))!.submitted.inputs.map(({ id }) => id)
        assert.deepEqual(ids, ["x", "x-said-2", "x-said-3"])
      })
  )

  test(
    "that cannot be stored interrupts nothing",
    [call("slow"), { text: "done" }],
    ({ start, writes }) =>
      Effect.gen(function*() {
        const running = yield* start("go", "x")
        yield* Effect.sleep("1 second")
        writes.before = fails("submit")
        assert.equal((yield* Effect.flip(start("stop", "y", { onBusy: "interrupt" })))._tag, "Unavailable")
        assert.deepInclude((yield* running.ended).end, { text: "done" })
      })
  )

  test(
    "is refused once the server stops",
    [call("slow"), { text: "done" }],
    ({ operations, start }) =>
      Effect.gen(function*() {
        const running = yield* start("go", "x")
        yield* Effect.sleep("1 second")
        yield* Effect.forkChild(operations.drain("2 minutes"))
        yield* Effect.sleep("1 second")
        assert.equal((yield* Effect.flip(running.say("more")))._tag, "Unavailable")
      })
  )

  test(
    "is refused above the limits of an operation, which continues",
    [call("slow"), { text: "done" }],
    ({ operations, start, store }) =>
      Effect.gen(function*() {
        const running = yield* start("go", "x")
        yield* Effect.sleep("1 second")
        assert.equal((yield* Effect.flip(running.say("x".repeat(100))))._tag, "TooMany")
        yield* running.say("one")
        yield* start("two", "two")
        assert.equal((yield* Effect.flip(running.say("three")))._tag, "TooMany")
        assert.equal((yield* Effect.flip(start("three", "three")))._tag, "TooMany")
        assert.deepInclude((yield* running.ended).end, { text: "done" })
        assert.lengthOf((yield* store.get(ada, "x"))!.submitted.inputs, 3)
        assert.lengthOf(yield* operations.list(ada), 1)
      }),
    { operations: { maxMessages: 3, maxMessageChars: 100 } }
  )

  test(
    "is refused if its prompt is longer than the limit, and starts nothing",
    [{ text: "done" }],
    ({ operations, start }) =>
      Effect.gen(function*() {
        const refused = yield* Effect.flip(start("x".repeat(101), "x"))
        assert.deepInclude(refused, { _tag: "Invalid" })
        assert.include(JSON.stringify(refused), "at most 100 characters")
        assert.deepEqual(yield* operations.list(ada), [])
        assert.deepInclude((yield* (yield* start("x".repeat(100), "x")).ended).end, { text: "done" })
      }),
    { operations: { maxMessageChars: 100 } }
  )
})
