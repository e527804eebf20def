/**
 * An HTTP backend with many users: an executor for each, waves of calls as
 * server-sent events, approval requests answered by the users they belong to.
 *
 * `docs/backend.md` explains it.
 */
import { NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { Config, Context, Effect, Layer, Option, Schedule, Schema, Stream } from "effect"
import {
  Approvals,
  LayerConfig,
  LocalExecutor,
  ToolContext,
  ToolEvent,
  ToolExecutors,
  ToolHandlers,
  WireFormat
} from "effect-tool-executor"
import { SqlJournal, SqlStateStore } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import { Tool, Toolkit } from "effect/ai"
import { Sse } from "effect/encoding"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"

// Tools. All users share the handlers; the context says whose call it is

const ListNotes = Tool.make("list_notes", { success: Schema.Array(Schema.String) }).annotate(Tool.Readonly, true)
const SaveNote = Tool.make("save_note", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })

export const toolkit = Toolkit.make(ListNotes, SaveNote)

const userOfCall = Effect.flatMap(
  ToolContext.ToolContext,
  ({ principal }) =>
    principal === undefined ? Effect.die(new Error("No executor runs this")) : Effect.succeed(principal)
)

export const Notes = toolkit.toLayer(Effect.sync(() => {
  const notes = new Map<string, ReadonlyArray<string>>()
  return {
    list_notes: () => Effect.map(userOfCall, (user) => notes.get(user) ?? []),
    save_note: ({ text }) =>
      Effect.map(userOfCall, (user) => {
        notes.set(user, [...notes.get(user) ?? [], text])
        return "saved"
      })
  }
}))

// An executor for each user, over shared tools and caps

export const Executors = ToolExecutors.layer({ idleTimeToLive: "30 minutes" }).pipe(
  Layer.provide(LocalExecutor.layerGates({
    policy: { ask: ["save_note"] },
    rules: [{ _tag: "MaxCalls", tool: "*", max: 20 }],
    turn: { timeout: "10 minutes" }
  })),
  Layer.provide(ToolHandlers.layer(toolkit)),
  Layer.provideMerge(Approvals.layer({ timeout: "5 minutes" }))
)

/** Counts, grants and records in a separate file that outlasts the program. */
export const Records = Layer.mergeAll(SqlStateStore.layer(), SqlJournal.layer()).pipe(
  Layer.provide(
    LayerConfig.from(Sqlite.layer, { filename: Config.withDefault(Config.String("RECORDS"), "records.db") })
  )
)

// Authentication. Replace it with yours: everything below trusts it

export class Users extends Context.Service<Users, {
  readonly byToken: (token: string) => Option.Option<string>
}>()("backend/Users") {}

export class User extends Context.Service<User, string>()("backend/User") {}

const Authenticated = HttpRouter.middleware<{ provides: User }>()(Effect.gen(function*() {
  const { byToken } = yield* Users
  return (handle) =>
    Effect.gen(function*() {
      const { headers } = yield* HttpServerRequest.HttpServerRequest
      const user = byToken(/^Bearer (.+)$/.exec(headers.authorization ?? "")?.[1] ?? "")
      if (Option.isNone(user)) return refusal(401, "Who are you?")
      return yield* Effect.provideService(handle, User, user.value)
    })
})).layer

// POST /messages: takes an assistant message, streams the events of its calls

/** The process of a request. The client names the turn, so that its calls can be found again. */
const processOfTurn = Effect.gen(function*() {
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  const { get } = yield* ToolExecutors.ToolExecutors
  return yield* (yield* get(yield* User)).process({ batch: headers["turn"] })
})

const encoder = new TextEncoder()

const toSse = (event: ToolEvent.ToolEvent) =>
  Sse.encoder.write({
    _tag: "Event",
    event: ToolEvent.sseName(event),
    id: undefined,
    data: JSON.stringify(ToolEvent.toWire(event))
  })

/** A comment that keeps quiet connections open while a person decides. */
const stillHere = Stream.fromSchedule(Schedule.spaced("15 seconds")).pipe(Stream.map(() => ":\n\n"))

const Messages = HttpRouter.add(
  "POST",
  "/messages",
  Effect.gen(function*() {
    const message = yield* HttpServerRequest.schemaBodyJson(Schema.Unknown)
    const { calls } = yield* Effect.fromResult(WireFormat.read(message))
    // the scope of the request ends when the response is sent or the client disconnects
    const process = yield* processOfTurn
    const events = process.stream(calls).pipe(
      Stream.map(toSse),
      Stream.merge(stillHere, { haltStrategy: "left" }),
      Stream.map((text) => encoder.encode(text))
    )
    return HttpServerResponse.stream(events, {
      contentType: "text/event-stream",
      headers: { "cache-control": "no-store", "x-accel-buffering": "no" }
    })
  }).pipe(
    Effect.catchTags({
      HttpServerError: () => Effect.succeed(refusal(400, "The body is not JSON.")),
      SchemaError: () => Effect.succeed(refusal(400, "The body is not JSON.")),
      WireFormatError: (error) => Effect.succeed(refusal(400, error.message))
    })
  )
)

// POST /resume: takes the same message again after a crash, returns the results of its calls

const Resume = HttpRouter.add(
  "POST",
  "/resume",
  Effect.gen(function*() {
    const message = yield* HttpServerRequest.schemaBodyJson(Schema.Unknown)
    const { calls, format } = yield* Effect.fromResult(WireFormat.read(message))
    const { outcomes } = yield* (yield* processOfTurn).resume(calls)
    return HttpServerResponse.jsonUnsafe(WireFormat.write(format, outcomes))
  }).pipe(
    Effect.catchTags({
      HttpServerError: () => Effect.succeed(refusal(400, "The body is not JSON.")),
      SchemaError: () => Effect.succeed(refusal(400, "The body is not JSON.")),
      WireFormatError: (error) => Effect.succeed(refusal(400, error.message)),
      ResumeError: (error) => Effect.succeed(refusal(409, error.message))
    })
  )
)

// GET /approvals, POST /approvals/:id: the user's pending requests, and their answers

const pendingOf = (user: string) =>
  Effect.gen(function*() {
    const { list } = yield* Approvals.Approvals
    return (yield* list).filter((request) => request.principal === user)
  })

const PendingApprovals = HttpRouter.add(
  "GET",
  "/approvals",
  Effect.gen(function*() {
    const pending = yield* pendingOf(yield* User)
    return HttpServerResponse.jsonUnsafe(pending.map((request) => ({
      id: request.id,
      tool: request.tool,
      args: request.args,
      about: request.targets.map((it) => it.text),
      why: request.why,
      diff: request.preview?._tag === "Diff" ? request.preview.diff : undefined,
      expiresAt: request.expiresAt,
      hash: Approvals.hash(request)
    })))
  })
)

/** The client returns the hash of the request it showed. */
const Answered = Schema.Struct({ answer: Approvals.Answer, hash: Schema.String })

const AnswerApproval = HttpRouter.add(
  "POST",
  "/approvals/:id",
  Effect.gen(function*() {
    const { id = "" } = yield* HttpRouter.params
    const { answer, hash } = yield* HttpServerRequest.schemaBodyJson(Answered)
    // another user's id looks like an unknown id
    const isOwn = (yield* pendingOf(yield* User)).some((request) => request.id === id)
    if (!isOwn) return refusal(404, "There is no such request.")
    yield* Effect.flatMap(Approvals.Approvals, (approvals) => approvals.answer(id, answer, { hash }))
    return HttpServerResponse.empty()
  }).pipe(
    Effect.catchTags({
      HttpServerError: () => Effect.succeed(refusal(400, "The body is not JSON.")),
      SchemaError: (error) => Effect.succeed(refusal(400, error.message)),
      ApprovalError: (error) => Effect.succeed(refusal(409, error.message))
    })
  )
)

// GET /grants, DELETE /grants/:id: the user's lasting approvals

const Grants = HttpRouter.add(
  "GET",
  "/grants",
  Effect.gen(function*() {
    const executor = yield* (yield* ToolExecutors.ToolExecutors).get(yield* User)
    return HttpServerResponse.jsonUnsafe(yield* executor.grants)
  })
)

const RevokeGrant = HttpRouter.add(
  "DELETE",
  "/grants/:id",
  Effect.gen(function*() {
    const { id = "" } = yield* HttpRouter.params
    const executor = yield* (yield* ToolExecutors.ToolExecutors).get(yield* User)
    const revoked = yield* executor.revoke({ id })
    return revoked === 0 ? refusal(404, "There is no such grant.") : HttpServerResponse.empty()
  })
)

const refusal = (status: number, message: string) => HttpServerResponse.jsonUnsafe({ message }, { status })

// All routes

export const Routes = Layer.mergeAll(Messages, Resume, PendingApprovals, AnswerApproval, Grants, RevokeGrant).pipe(
  Layer.provide(Authenticated)
)

/** Runs before the server closes: no new call starts, and every stream reaches its `tools_end`. */
export const Draining = Layer.effectDiscard(Effect.gen(function*() {
  const { close } = yield* ToolExecutors.ToolExecutors
  yield* Effect.addFinalizer(() => close("the server stops"))
}))

if (import.meta.main) {
  // USERS='{"a secret":"ada"}'
  const Tokens = Layer.effect(
    Users,
    Effect.gen(function*() {
      const users = yield* Config.schema(Schema.fromJsonString(Schema.Record(Schema.String, Schema.String)), "USERS")
      const byToken = new Map(Object.entries(users))
      return Users.of({ byToken: (token) => Option.fromUndefinedOr(byToken.get(token)) })
    })
  )
  // the layer built last closes first
  Draining.pipe(
    Layer.provide(HttpRouter.serve(Routes)),
    Layer.provide(
      NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 3000, gracefulShutdownTimeout: "5 seconds" })
    ),
    Layer.provide([Executors.pipe(Layer.provide([Notes, Records])), Tokens]),
    Layer.launch,
    NodeRuntime.runMain
  )
}
