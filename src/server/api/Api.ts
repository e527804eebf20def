/**
 * The HTTP API of the server as a value. `Server.layer` serves it, `HttpApiClient.make(Api)` makes a client, and the
 * OpenAPI document is made from it. This module contains no server code.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { version } from "../../internal/version.ts"
import { Authorization, Checks } from "./ApiAccess.ts"
import * as Approvals from "./ApiApprovals.ts"
import * as Models from "./ApiModels.ts"
import * as Problems from "./ApiProblems.ts"
import * as Records from "./ApiRecords.ts"
import { FormatsGroup } from "./FormatsGroup.ts"
import { OperationsGroup } from "./OperationsGroup.ts"
import { PushGroup } from "./PushGroup.ts"

const { Invalid, NotAllowed, NotFound, TooMany, Unavailable, WaveUnreadable } = Problems

const { cursor } = Models

const text = Schema.optionalKey(Schema.String)

const number = Schema.optionalKey(Schema.FiniteFromString)

const ofSession = { session: Models.Name }

/** The user of the session, for those who approve calls of that user. Default: the current user. */
const ofUser = { user: text }
const ofWave = { ...ofSession, wave: Models.Name }

/** Which records to list. */
const recorded = {
  user: text,
  session: text,
  batch: text,
  tool: text,
  call: text,
  /** Text that an entry must contain, in any case. */
  search: text,
  /** Epoch milliseconds. */
  since: number
}

/** Login of the page: exchanges a token for a cookie. */
export class LoginGroup extends HttpApiGroup.make("login")
  .add(
    HttpApiEndpoint.post("login", "/login", {
      payload: Schema.Struct({ token: Schema.String }),
      success: Models.Me,
      error: [Problems.Unauthorized, TooMany, Unavailable]
    }).annotate(OpenApi.Summary, "Log in"),
    HttpApiEndpoint.post("logout", "/logout", {
      payload: Schema.Struct({}),
      success: HttpApiSchema.NoContent,
      error: Unavailable
    }).annotate(OpenApi.Summary, "Log out")
  )
  .middleware(Checks)
  .prefix("/api")
{}

/** Sessions of the current user, and their waves. */
export class SessionsGroup extends HttpApiGroup.make("sessions")
  .add(
    HttpApiEndpoint.get("me", "/me", { success: Models.Me }).annotate(OpenApi.Summary, "Read the current user"),
    HttpApiEndpoint.get("list", "/sessions", {
      success: Schema.Array(Models.Session),
      error: [NotAllowed, Unavailable]
    }).annotate(OpenApi.Summary, "List sessions"),
    HttpApiEndpoint.get("tools", "/sessions/:session/tools", {
      params: ofSession,
      success: Schema.Array(Models.Tool),
      error: [NotAllowed, TooMany, Unavailable]
    }).annotate(OpenApi.Summary, "List the tools of a session"),
    HttpApiEndpoint.delete("end", "/sessions/:session", {
      params: ofSession,
      success: HttpApiSchema.NoContent,
      error: [NotAllowed, NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "End a session"),
    HttpApiEndpoint.post("submit", "/sessions/:session/waves", {
      params: ofSession,
      headers: { accept: text, prefer: text },
      payload: Models.Submission,
      success: [Models.Wave, HttpApiSchema.StreamSse({ events: Models.WaveSse })],
      error: [Invalid, NotAllowed, Problems.WaveConflict, WaveUnreadable, TooMany, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      summary: "Run a wave of calls",
      description: "Runs the calls of a provider's message as one wave. With `Accept: text/event-stream` " +
        "the events are streamed, and with `Prefer: respond-async` the response is the wave in its current state; " +
        "otherwise it is the ended wave with its results. The wave continues without the client and can be read again " +
        "under its name."
    })),
    HttpApiEndpoint.get("wave", "/sessions/:session/waves/:wave", {
      params: ofWave,
      success: Models.Wave,
      error: [NotAllowed, NotFound, WaveUnreadable, Unavailable]
    }).annotate(OpenApi.Summary, "Read a wave"),
    HttpApiEndpoint.get("events", "/sessions/:session/waves/:wave/events", {
      params: ofWave,
      ...cursor,
      success: HttpApiSchema.StreamSse({ events: Models.WaveSse }),
      error: [NotAllowed, NotFound, WaveUnreadable, TooMany, Unavailable]
    }).annotate(OpenApi.Summary, "Stream the events of a wave"),
    HttpApiEndpoint.post("cancel", "/sessions/:session/waves/:wave/cancel", {
      params: ofWave,
      query: ofUser,
      payload: Schema.Struct({
        /** Cancels only the calls with this id. Default: the whole wave. */
        callId: text,
        reason: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(1_000)))
      }),
      success: HttpApiSchema.NoContent,
      error: [NotAllowed, NotFound, WaveUnreadable, Unavailable]
    }).annotate(OpenApi.Summary, "Cancel a wave or one of its calls"),
    HttpApiEndpoint.post("endTurn", "/sessions/:session/turns/:turn/end", {
      params: { ...ofSession, turn: Models.Name },
      payload: Schema.Struct({}),
      success: HttpApiSchema.NoContent,
      error: [NotAllowed, NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "End a turn"),
    HttpApiEndpoint.get("checkpoints", "/sessions/:session/checkpoints", {
      params: ofSession,
      query: ofUser,
      success: Schema.Array(Records.Checkpoint),
      error: [NotAllowed, Unavailable]
    }).annotate(OpenApi.Summary, "List checkpoints"),
    HttpApiEndpoint.get("undoPlan", "/sessions/:session/checkpoints/:checkpoint", {
      params: { ...ofSession, checkpoint: Schema.String },
      query: ofUser,
      success: Records.UndoPlan,
      error: [NotAllowed, NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "Read what undoing a checkpoint would change"),
    HttpApiEndpoint.post("undo", "/sessions/:session/checkpoints/:checkpoint/undo", {
      params: { ...ofSession, checkpoint: Schema.String },
      query: ofUser,
      payload: Schema.Struct({ force: Schema.optionalKey(Schema.Boolean) }),
      success: Records.UndoPlan,
      error: [NotAllowed, NotFound, Problems.NotUndone, Unavailable]
    }).annotate(OpenApi.Summary, "Undo a checkpoint")
  )
  .middleware(Checks)
  .middleware(Authorization)
  .prefix("/api")
{}

/** Approval requests that the user may answer, and grants. */
export class ApprovalsGroup extends HttpApiGroup.make("approvals")
  .add(
    HttpApiEndpoint.get("list", "/approvals", { success: Approvals.Approvals, error: [NotAllowed, Unavailable] })
      .annotate(OpenApi.Summary, "List approval requests"),
    HttpApiEndpoint.get("get", "/approvals/:id", {
      params: { id: Schema.String },
      success: [Approvals.ApprovalRequest, Approvals.ResolvedApproval],
      error: [NotAllowed, NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "Read an approval request"),
    HttpApiEndpoint.get("part", "/approvals/:id/files/:index/:side", {
      params: {
        id: Schema.String,
        index: Schema.FiniteFromString,
        side: Schema.Literals(["before", "after"])
      },
      query: { from: number },
      success: Approvals.Part,
      error: [NotAllowed, NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "Read a part of a file of an approval request"),
    HttpApiEndpoint.post("answer", "/approvals/:id/answer", {
      params: { id: Schema.String },
      payload: Approvals.ApprovalAnswer,
      success: Approvals.AnsweredApproval,
      error: [NotAllowed, NotFound, Problems.AlreadyEnded, Problems.NotAnswered, Unavailable]
    }).annotate(OpenApi.Summary, "Answer an approval request"),
    HttpApiEndpoint.post("answerAll", "/approvals/answers", {
      payload: Approvals.BulkAnswers,
      success: Schema.Array(Approvals.AnsweredApproval),
      error: [NotAllowed, NotFound, Problems.NotAnswered, Unavailable]
    }).annotate(OpenApi.Summary, "Answer several approval requests"),
    HttpApiEndpoint.get("grants", "/grants", {
      success: Schema.Array(Records.Grant),
      error: [NotAllowed, Unavailable]
    }).annotate(OpenApi.Summary, "List grants"),
    HttpApiEndpoint.delete("revoke", "/grants/:id", {
      params: { id: Schema.String },
      success: HttpApiSchema.NoContent,
      error: [NotAllowed, NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "Revoke a grant")
  )
  .middleware(Checks)
  .middleware(Authorization)
  .prefix("/api")
{}

/** Live events, waves and the journal, as far as the user may see them. */
export class RecordsGroup extends HttpApiGroup.make("records")
  .add(
    HttpApiEndpoint.get("live", "/live", {
      ...cursor,
      success: HttpApiSchema.StreamSse({ events: Approvals.LiveSse }),
      error: [TooMany, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      summary: "Stream approval requests and waves",
      description: "One stream of approval requests and waves. It continues after `Last-Event-ID` " +
        "or `after`. A `reset` means that the position is unknown: read the lists again."
    })),
    HttpApiEndpoint.get("waves", "/waves", { success: Models.Waves, error: Unavailable }).annotate(
      OpenApi.Summary,
      "List waves"
    ),
    HttpApiEndpoint.get("happened", "/waves/:user/:session/:wave", {
      params: { user: Schema.String, session: Schema.String, wave: Schema.String },
      /** Events after this position: the `next` of another page. */
      query: { after: number },
      success: Models.WaveEvents,
      error: [NotFound, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      summary: "Read the events of a wave",
      description: "The events of a wave, in pages."
    })),
    HttpApiEndpoint.get("journal", "/journal", {
      query: {
        ...recorded,
        /**
         * Which entries come first; default `newest`. The `next` of a page is `before` of the next page, or `after`
         * with the oldest first.
         */
        order: Schema.optionalKey(Schema.Literals(["newest", "oldest"])),
        /** Entries after this position. */
        after: number,
        /** Entries before this position. */
        before: number,
        /** At most 1000, which is the default. */
        limit: number
      },
      success: Records.Entries,
      error: [Invalid, NotAllowed, Unavailable]
    }).annotate(OpenApi.Summary, "List journal entries"),
    HttpApiEndpoint.get("journalCalls", "/journal/calls", {
      query: {
        ...recorded,
        /** Name of the sub-agent that called; empty: the root. */
        agent: text,
        state: Schema.optionalKey(Records.CallState),
        /** Calls before this position. */
        before: number,
        /** At most 200; default 100. */
        limit: number
      },
      success: Records.RecordedCalls,
      error: [Invalid, NotAllowed, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      summary: "List recorded calls",
      description: "The journal as a list of calls, newest first. A page may be empty and still have a `next`."
    })),
    HttpApiEndpoint.get("journalCall", "/journal/calls/:place", {
      params: { place: Schema.FiniteFromString },
      success: Records.RecordedCallDetail,
      error: [NotAllowed, NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "Read a recorded call"),
    HttpApiEndpoint.get("rules", "/rules", { success: Records.Rules }).annotate(OpenApi.Summary, "List policy rules"),
    HttpApiEndpoint.get("suggestions", "/suggestions", {
      success: Records.Suggestions,
      error: [NotAllowed, Unavailable]
    }).annotate(OpenApi.Summary, "List suggested rules"),
    HttpApiEndpoint.post("acceptSuggestion", "/suggestions/accept", {
      payload: Schema.Struct({ rule: Schema.String }),
      success: Records.AcceptedRule,
      error: [NotAllowed, NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "Accept a suggested rule"),
    HttpApiEndpoint.get("status", "/status", { success: Records.Status }).annotate(
      OpenApi.Summary,
      "Read the status of the server"
    )
  )
  .middleware(Checks)
  .middleware(Authorization)
  .prefix("/api")
{}

/** Health and metrics, for monitoring. */
export class SystemGroup extends HttpApiGroup.make("system")
  .add(
    HttpApiEndpoint.get("health", "/health", { success: Schema.Struct({ status: Schema.Literal("ok") }) }).annotate(
      OpenApi.Summary,
      "Check that the server is alive"
    ),
    HttpApiEndpoint.get("ready", "/ready", {
      success: [Records.Ready, Records.NotReady.pipe(HttpApiSchema.status(503))]
    }).annotate(OpenApi.Summary, "Check that the server is ready"),
    HttpApiEndpoint.get("metrics", "/metrics", {
      success: Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/plain; version=0.0.4" })),
      error: NotAllowed
    }).annotate(OpenApi.Summary, "Read the metrics").middleware(Authorization)
  )
{}

/** The API. */
export class Api extends HttpApi.make("tool-executor")
  .add(LoginGroup, SessionsGroup, OperationsGroup, FormatsGroup, ApprovalsGroup, PushGroup, RecordsGroup, SystemGroup)
  .annotateMerge(OpenApi.annotations({
    title: "tool-executor",
    version,
    // the document lies at the root of the server
    servers: [{ url: "/" }],
    description:
      "Runs agents and the tool calls of language models within rules, permissions and limits, with approval requests " +
      "and records."
  }))
{}
