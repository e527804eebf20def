/** The backend that `docs/backend.md` explains, on a port of its own, with two users. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import type { Approvals } from "effect-tool-executor"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Draining, Executors, Notes, Records, Routes, toolkit, Users } from "../../scripts/examples/backend.ts"

const names = new Map([["token of ada", "ada"], ["token of bob", "bob"]])

const users = Layer.succeed(Users, { byToken: (token) => Option.fromUndefinedOr(names.get(token)) })

const backend = (notes: typeof Notes = Notes, records: typeof Records | Layer.Layer<never> = Layer.empty) =>
  Draining.pipe(
    Layer.provide(HttpRouter.serve(Routes, { disableLogger: true, disableListenLog: true })),
    Layer.provide([Layer.provide(Executors, [notes, records]), users]),
    Layer.provideMerge(NodeHttpServer.layerTest)
  )

const call = (id: string, name: string, args: unknown = {}) => ({
  id,
  type: "function",
  function: { name, arguments: JSON.stringify(args) }
})

const message = (...calls: ReadonlyArray<ReturnType<typeof call>>) => ({ role: "assistant", tool_calls: calls })

const request = (user: string, method: "DELETE" | "GET" | "POST", path: `/${string}`, body?: unknown) =>
  HttpClient.execute(
    HttpClientRequest.make(method)(path).pipe(
      HttpClientRequest.bearerToken(`token of ${user}`),
      HttpClientRequest.setHeader("turn", "turn 1"),
      body === undefined ? (it) => it : HttpClientRequest.bodyJsonUnsafe(body)
    )
  )

const json = (user: string, path: `/${string}`) => Effect.flatMap(request(user, "GET", path), (it) => it.json)

/** What the page of a user shows. */
interface Shown {
  readonly id: string
  readonly tool: string
  readonly hash: string
}

const pending = (user: string) => Effect.map(json(user, "/approvals"), (it) => it as unknown as ReadonlyArray<Shown>)

const answer = (user: string, { hash, id }: Shown, answer: Approvals.Answer) =>
  Effect.map(request(user, "POST", `/approvals/${id}`, { answer, hash }), (it) => it.status)

interface Event {
  readonly event: string
  readonly data: {
    readonly requestId?: string
    readonly toolMessages?: ReadonlyArray<{ readonly text: string }>
  }
}

/** What a user's stream of events brings; interrupting the reader hangs up. */
const events = (user: string, body: unknown) =>
  Stream.unwrap(Effect.map(request(user, "POST", "/messages", body), (it) => it.stream)).pipe(
    Stream.decodeText,
    Stream.pipeThroughChannel(Sse.decode()),
    Stream.filter((it) => it._tag === "Event"),
    Stream.map(({ data, event }): Event => ({ event, data: JSON.parse(data) as Event["data"] }))
  )

const textsOf = (seen: ReadonlyArray<Event>) => seen.at(-1)?.data.toolMessages?.map((it) => it.text)

const textsFor = (user: string, ...calls: ReadonlyArray<ReturnType<typeof call>>) =>
  Effect.map(Stream.runCollect(events(user, message(...calls))), textsOf)

/** Begins to read a user's stream, and waits until a person is asked. */
const ask = Effect.fnUntraced(function*(user: string, ...calls: ReadonlyArray<ReturnType<typeof call>>) {
  const seen = yield* Queue.unbounded<Event>()
  const reader = yield* Effect.forkChild(
    Stream.runCollect(Stream.tap(events(user, message(...calls)), (event) => Queue.offer(seen, event)))
  )
  const next = Effect.map(
    Effect.repeat(Queue.take(seen), { until: (it) => it.event === "tool_approval_request" }),
    (it) => it.data.requestId
  )
  return { reader, requestId: yield* next, next }
})

const soon = <A, E, R>(effect: Effect.Effect<A, E, R>, until: (value: A) => boolean) =>
  Effect.repeat(effect, { until, schedule: Schedule.spaced("10 millis") })

/** A program of its own over the records in a file. */
const life = (filename: string, notes?: typeof Notes) =>
  backend(notes, Records).pipe(
    Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ RECORDS: filename }))),
    Layer.fresh
  )

describe("the backend of the guide", () => {
  it.live("gives the calls of a turn their answers after a restart, and runs none of them again", () =>
    Effect.gen(function*() {
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "backend-"))),
        (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
      )
      const file = join(folder, "records.db")
      const calls = message(call("1", "list_notes"), call("2", "save_note", { text: "mine" }))
      yield* Effect.gen(function*() {
        const { reader } = yield* ask("ada", ...calls.tool_calls)
        const [shown] = yield* pending("ada")
        yield* answer("ada", shown!, { _tag: "ApproveOnce" })
        assert.deepStrictEqual(textsOf(yield* Fiber.join(reader)), ["[]", "saved"])
      }).pipe(Effect.provide(life(file)))
      let ran = 0
      const count = Effect.sync(() => {
        ran++
        return "again"
      })
      const notes = toolkit.toLayer({ list_notes: () => Effect.as(count, []), save_note: () => count })
      const answers = yield* Effect.flatMap(request("ada", "POST", "/resume", calls), (it) => it.json).pipe(
        Effect.provide(life(file, notes))
      )
      assert.deepStrictEqual((answers as ReadonlyArray<{ readonly content: string }>).map((it) => it.content), [
        "[]",
        "saved"
      ])
      assert.strictEqual(ran, 0)
    }).pipe(Effect.scoped))

  it.live("streams what happens to the calls of a message, by the names of the wire", () =>
    Effect.gen(function*() {
      const seen = yield* Stream.runCollect(events("ada", message(call("1", "list_notes"), call("2", "nothing"))))
      assert.deepStrictEqual(seen.map((it) => it.event), [
        "tool_call_queued",
        "tool_call_queued",
        "tool_call_complete",
        "tool_call_start",
        "tool_call_complete",
        "tools_end"
      ])
      assert.strictEqual(textsOf(seen)?.[0], "[]")
      assert.include(textsOf(seen)?.[1], "There is no tool \"nothing\"")
    }).pipe(Effect.provide(backend())))

  it.live("asks a user, and nobody else can see the question or answer it", () =>
    Effect.gen(function*() {
      const { reader, requestId } = yield* ask("ada", call("1", "save_note", { text: "mine" }))
      assert.deepStrictEqual(yield* pending("bob"), [])
      const [shown] = yield* pending("ada")
      assert.strictEqual(shown?.id, requestId)
      assert.strictEqual(yield* answer("bob", shown!, { _tag: "ApproveOnce" }), 404)
      assert.strictEqual(yield* answer("ada", { ...shown!, hash: "0" }, { _tag: "ApproveOnce" }), 409)
      assert.lengthOf(yield* pending("ada"), 1)
      assert.strictEqual(yield* answer("ada", shown!, { _tag: "ApproveOnce" }), 204)
      assert.deepStrictEqual(textsOf(yield* Fiber.join(reader)), ["saved"])
      assert.strictEqual(yield* answer("ada", shown!, { _tag: "ApproveOnce" }), 404)
    }).pipe(Effect.provide(backend())))

  it.live("keeps notes and grants of one user from another", () =>
    Effect.gen(function*() {
      const save = call("1", "save_note", { text: "note" })
      const { reader } = yield* ask("ada", save)
      const [shown] = yield* pending("ada")
      assert.strictEqual(yield* answer("ada", shown!, { _tag: "ApproveForScope" }), 204)
      assert.deepStrictEqual(textsOf(yield* Fiber.join(reader)), ["saved"])

      // the same call again is allowed for ada and a new question for bob
      assert.deepStrictEqual(yield* textsFor("ada", save), ["saved"])
      const of = yield* ask("bob", save)
      assert.deepStrictEqual((yield* pending("bob")).map((it) => it.id), [of.requestId])
      yield* answer("bob", (yield* pending("bob"))[0]!, { _tag: "Deny", reason: "not now" })
      assert.include(textsOf(yield* Fiber.join(of.reader))?.[0], "not now")
      assert.deepStrictEqual(yield* textsFor("ada", call("2", "list_notes")), ["[\"note\",\"note\"]"])
      assert.deepStrictEqual(yield* textsFor("bob", call("2", "list_notes")), ["[]"])

      const [grant] = (yield* json("ada", "/grants")) as unknown as ReadonlyArray<{ readonly id: string }>
      assert.deepStrictEqual(yield* json("bob", "/grants"), [])
      assert.strictEqual((yield* request("bob", "DELETE", `/grants/${grant!.id}`)).status, 404)
      assert.lengthOf((yield* json("ada", "/grants")) as unknown as ReadonlyArray<unknown>, 1)
      assert.strictEqual((yield* request("ada", "DELETE", `/grants/${grant!.id}`)).status, 204)
      assert.deepStrictEqual(yield* json("ada", "/grants"), [])
      const again = yield* ask("ada", call("3", "save_note", { text: "another" }))
      assert.lengthOf(yield* pending("ada"), 1)
      yield* Fiber.interrupt(again.reader)
    }).pipe(Effect.provide(backend())))

  it.live("cancels the calls of a client that goes away, and withdraws what it was asked", () =>
    Effect.gen(function*() {
      const started = yield* Deferred.make<void>()
      const stopped = yield* Deferred.make<void>()
      const notes = toolkit.toLayer({
        list_notes: () =>
          Effect.onInterrupt(
            Effect.andThen(Deferred.succeed(started, undefined), Effect.never),
            () => Deferred.succeed(stopped, undefined)
          ),
        save_note: () => Effect.succeed("saved")
      })
      yield* Effect.gen(function*() {
        const reading = yield* Effect.forkChild(textsFor("ada", call("1", "list_notes")))
        yield* Deferred.await(started)
        yield* Fiber.interrupt(reading)
        yield* Deferred.await(stopped)

        const { reader } = yield* ask("bob", call("1", "save_note", { text: "note" }))
        assert.lengthOf(yield* pending("bob"), 1)
        yield* Fiber.interrupt(reader)
        assert.deepStrictEqual(yield* soon(pending("bob"), (it) => it.length === 0), [])
      }).pipe(Effect.provide(backend(notes)))
    }))

  it.live("ends every stream with outcomes when it is told to stop", () =>
    Effect.gen(function*() {
      const started = yield* Deferred.make<void>()
      const notes = toolkit.toLayer({
        list_notes: () => Effect.andThen(Deferred.succeed(started, undefined), Effect.never),
        save_note: () => Effect.succeed("saved")
      })
      const scope = yield* Scope.make()
      const services = yield* Scope.provide(Layer.build(backend(notes)), scope)
      yield* Effect.gen(function*() {
        const running = yield* Effect.forkChild(
          textsFor("ada", call("1", "list_notes"), call("2", "save_note", { text: "never" }))
        )
        const { reader: asked } = yield* ask("bob", call("1", "save_note", { text: "note" }))
        yield* Deferred.await(started)
        yield* Effect.forkChild(Scope.close(scope, Exit.void))
        const [first, second] = (yield* Fiber.join(running)) ?? []
        assert.include(first, "was cancelled while it ran: the server stops")
        assert.include(second, "was cancelled before it started: the server stops")
        const seen = yield* Fiber.join(asked)
        assert.deepStrictEqual(seen.slice(-3).map((it) => it.event), [
          "tool_approval_resolved",
          "tool_call_complete",
          "tools_end"
        ])
        assert.include(textsOf(seen)?.[0], "the server stops")
      }).pipe(Effect.provideContext(services))
    }))

  it.live("says what is wrong with a request", () =>
    Effect.gen(function*() {
      const status = (user: string, method: "GET" | "POST", path: `/${string}`, body?: unknown) =>
        Effect.map(request(user, method, path, body), (it) => it.status)
      assert.strictEqual(yield* status("eve", "GET", "/approvals"), 401)
      assert.strictEqual(yield* status("eve", "POST", "/messages", message(call("1", "list_notes"))), 401)
      const wrong = yield* request("ada", "POST", "/messages", { role: "assistant", tool_calls: [{}] })
      assert.strictEqual(wrong.status, 400)
      assert.include(yield* wrong.text, "tool_calls[0]")
      assert.strictEqual(yield* status("ada", "POST", "/messages"), 400)
      assert.strictEqual(yield* status("ada", "POST", "/approvals/x", { answer: { _tag: "Yes" }, hash: "" }), 400)
    }).pipe(Effect.provide(backend())))
})
