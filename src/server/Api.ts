/**
 * The HTTP API of the server, as a value: a backend serves it (`Server.layer`), a client is made of
 * it (`HttpApiClient.make(Api)`), and so is its OpenAPI document. There is no server code here.
 *
 * @since 0.1.0
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { version } from "../internal/version.ts"
import { Authorization, Checks } from "./ApiAccess.ts"
import * as Approvals from "./ApiApprovals.ts"
import * as Models from "./ApiModels.ts"
import * as Problems from "./ApiProblems.ts"
import * as Records from "./ApiRecords.ts"

const { Invalid, NotAllowed, NotFound, TooMany, Unavailable, WaveUnreadable } = Problems

/** What a stream goes on behind; browsers send it as a header when they connect again. */
const cursor = {
  headers: { "last-event-id": Schema.optionalKey(Schema.String) },
  query: { after: Schema.optionalKey(Schema.String) }
}

const ofSession = { session: Models.Name }
const ofWave = { ...ofSession, wave: Models.Name }

/**
 * The page's way in: a token for a cookie.
 *
 * @category groups
 * @since 0.1.0
 */
export class LoginGroup extends HttpApiGroup.make("login")
  .add(
    HttpApiEndpoint.post("login", "/login", {
      payload: Schema.Struct({ token: Schema.String }),
      success: Models.Me,
      error: [Problems.Unauthorized, TooMany, Unavailable]
    }),
    HttpApiEndpoint.post("logout", "/logout", { payload: Schema.Struct({}), success: HttpApiSchema.NoContent })
  )
  .middleware(Checks)
  .prefix("/api")
{}

/**
 * Sessions of the user who asks, and their waves.
 *
 * @category groups
 * @since 0.1.0
 */
export class SessionsGroup extends HttpApiGroup.make("sessions")
  .add(
    HttpApiEndpoint.get("me", "/me", { success: Models.Me }),
    HttpApiEndpoint.get("list", "/sessions", { success: Schema.Array(Models.Session), error: NotAllowed }),
    HttpApiEndpoint.get("tools", "/sessions/:session/tools", {
      params: ofSession,
      success: Schema.Array(Models.Tool),
      error: [NotAllowed, TooMany, Unavailable]
    }),
    HttpApiEndpoint.delete("end", "/sessions/:session", {
      params: ofSession,
      success: HttpApiSchema.NoContent,
      error: [NotAllowed, NotFound]
    }),
    HttpApiEndpoint.post("submit", "/sessions/:session/waves", {
      params: ofSession,
      headers: { accept: Schema.optionalKey(Schema.String) },
      payload: Models.Submission,
      success: [Models.Wave, HttpApiSchema.StreamSse({ events: Models.WaveSse })],
      error: [Invalid, NotAllowed, Problems.WaveConflict, WaveUnreadable, TooMany, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      description:
        "Runs the calls of a provider's message as one wave. With `Accept: text/event-stream` what happens " +
        "is streamed; else the answer is the wave with its results, once it has ended. The wave goes on whether or not " +
        "the client stays: it is found again under its name."
    })),
    HttpApiEndpoint.get("wave", "/sessions/:session/waves/:wave", {
      params: ofWave,
      success: Models.Wave,
      error: [NotAllowed, NotFound, WaveUnreadable, Unavailable]
    }),
    HttpApiEndpoint.get("events", "/sessions/:session/waves/:wave/events", {
      params: ofWave,
      ...cursor,
      success: HttpApiSchema.StreamSse({ events: Models.WaveSse }),
      error: [NotAllowed, NotFound, WaveUnreadable, TooMany, Unavailable]
    }),
    HttpApiEndpoint.post("cancel", "/sessions/:session/waves/:wave/cancel", {
      params: ofWave,
      payload: Schema.Struct({
        /** The calls of that id; absent: all of the wave. */
        callId: Schema.optionalKey(Schema.String),
        reason: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(1_000)))
      }),
      success: HttpApiSchema.NoContent,
      error: [NotAllowed, NotFound, WaveUnreadable, Unavailable]
    }),
    HttpApiEndpoint.post("endTurn", "/sessions/:session/turns/:turn/end", {
      params: { ...ofSession, turn: Models.Name },
      payload: Schema.Struct({}),
      success: HttpApiSchema.NoContent,
      error: [NotAllowed, NotFound]
    }),
    HttpApiEndpoint.get("checkpoints", "/sessions/:session/checkpoints", {
      params: ofSession,
      success: Schema.Array(Records.Checkpoint),
      error: [NotAllowed, Unavailable]
    }),
    HttpApiEndpoint.get("undoPlan", "/sessions/:session/checkpoints/:checkpoint", {
      params: { ...ofSession, checkpoint: Schema.String },
      success: Records.UndoPlan,
      error: [NotAllowed, NotFound, Unavailable]
    }),
    HttpApiEndpoint.post("undo", "/sessions/:session/checkpoints/:checkpoint/undo", {
      params: { ...ofSession, checkpoint: Schema.String },
      payload: Schema.Struct({ force: Schema.optionalKey(Schema.Boolean) }),
      success: Records.UndoPlan,
      error: [NotAllowed, NotFound, Problems.NotUndone, Unavailable]
    })
  )
  .middleware(Checks)
  .middleware(Authorization)
  .prefix("/api")
{}

/**
 * Approval requests of those whom the user may approve for, and what they have allowed.
 *
 * @category groups
 * @since 0.1.0
 */
export class ApprovalsGroup extends HttpApiGroup.make("approvals")
  .add(
    HttpApiEndpoint.get("list", "/approvals", { success: Approvals.Approvals, error: NotAllowed }),
    HttpApiEndpoint.get("get", "/approvals/:id", {
      params: { id: Schema.String },
      success: [Approvals.ApprovalRequest, Approvals.ResolvedApproval],
      error: [NotAllowed, NotFound]
    }),
    HttpApiEndpoint.get("part", "/approvals/:id/files/:index/:side", {
      params: {
        id: Schema.String,
        index: Schema.FiniteFromString,
        side: Schema.Literals(["before", "after"])
      },
      query: { from: Schema.optionalKey(Schema.FiniteFromString) },
      success: Approvals.Part,
      error: [NotAllowed, NotFound]
    }),
    HttpApiEndpoint.post("answer", "/approvals/:id/answer", {
      params: { id: Schema.String },
      payload: Approvals.ApprovalAnswer,
      success: Approvals.ResolvedApproval,
      error: [NotAllowed, NotFound, Problems.AlreadyEnded, Problems.NotAnswered]
    }),
    HttpApiEndpoint.post("answerAll", "/approvals/answers", {
      payload: Approvals.BulkAnswers,
      success: Schema.Array(Approvals.ResolvedApproval),
      error: [NotAllowed, NotFound, Problems.NotAnswered]
    }),
    HttpApiEndpoint.get("grants", "/grants", {
      success: Schema.Array(Records.Grant),
      error: [NotAllowed, Unavailable]
    }),
    HttpApiEndpoint.delete("revoke", "/grants/:id", {
      params: { id: Schema.String },
      success: HttpApiSchema.NoContent,
      error: [NotAllowed, NotFound, Unavailable]
    })
  )
  .middleware(Checks)
  .middleware(Authorization)
  .prefix("/api")
{}

/**
 * What happens and happened, of those whom the user may see.
 *
 * @category groups
 * @since 0.1.0
 */
export class RecordsGroup extends HttpApiGroup.make("records")
  .add(
    HttpApiEndpoint.get("live", "/live", {
      ...cursor,
      success: HttpApiSchema.StreamSse({ events: Approvals.LiveSse }),
      error: [TooMany, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      description:
        "One stream for everything that a page shows: approvals and waves. It goes on behind `Last-Event-ID`, " +
        "or `after`; where that is not known any more a `reset` says that lists are to be read anew."
    })),
    HttpApiEndpoint.get("waves", "/waves", { success: Models.Waves }),
    HttpApiEndpoint.get("happened", "/waves/:user/:session/:wave", {
      params: { user: Schema.String, session: Schema.String, wave: Schema.String },
      /** Those behind this place: the `next` of another page. */
      query: { after: Schema.optionalKey(Schema.FiniteFromString) },
      success: Models.WaveEvents,
      error: NotFound
    }).annotateMerge(OpenApi.annotations({
      description: "What happened in a wave that runs or ended lately, of those whom the user may see: in pages."
    })),
    HttpApiEndpoint.get("journal", "/journal", {
      query: {
        user: Schema.optionalKey(Schema.String),
        session: Schema.optionalKey(Schema.String),
        batch: Schema.optionalKey(Schema.String),
        tool: Schema.optionalKey(Schema.String),
        call: Schema.optionalKey(Schema.String),
        /** A text that has to be in the entry, whatever its case. */
        search: Schema.optionalKey(Schema.String),
        /** Epoch milliseconds. */
        since: Schema.optionalKey(Schema.FiniteFromString),
        /** Which come first: default `newest`. The `next` of a page is then the next one's `before`, and else its `after`. */
        order: Schema.optionalKey(Schema.Literals(["newest", "oldest"])),
        /** Those behind this place. */
        after: Schema.optionalKey(Schema.FiniteFromString),
        /** Those before this place. */
        before: Schema.optionalKey(Schema.FiniteFromString),
        /** At most 1000, which is also the default. */
        limit: Schema.optionalKey(Schema.FiniteFromString)
      },
      success: Records.Entries,
      error: [Invalid, NotAllowed, Unavailable]
    }),
    HttpApiEndpoint.get("rules", "/rules", { success: Records.Rules }),
    HttpApiEndpoint.get("status", "/status", { success: Records.Status })
  )
  .middleware(Checks)
  .middleware(Authorization)
  .prefix("/api")
{}

/**
 * How the server is, for whoever watches it.
 *
 * @category groups
 * @since 0.1.0
 */
export class SystemGroup extends HttpApiGroup.make("system")
  .add(
    HttpApiEndpoint.get("health", "/health", { success: Schema.Struct({ status: Schema.Literal("ok") }) }),
    HttpApiEndpoint.get("ready", "/ready", {
      success: [Records.Ready, Records.NotReady.pipe(HttpApiSchema.status(503))]
    }),
    HttpApiEndpoint.get("metrics", "/metrics", {
      success: Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/plain; version=0.0.4" })),
      error: NotAllowed
    }).middleware(Authorization)
  )
{}

/**
 * The API.
 *
 * @category api
 * @since 0.1.0
 */
export class Api extends HttpApi.make("tool-executor")
  .add(LoginGroup, SessionsGroup, ApprovalsGroup, RecordsGroup, SystemGroup)
  .annotateMerge(OpenApi.annotations({
    title: "tool-executor",
    version,
    description:
      "Runs the tool calls of language models behind rules, permissions and limits; asks people; keeps records."
  }))
{}
