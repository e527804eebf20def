/** Endpoints of agents, operations and conversations. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { Authorization, Checks } from "./ApiAccess.ts"
import * as Models from "./ApiModels.ts"
import * as Operations from "./ApiOperations.ts"
import * as Problems from "./ApiProblems.ts"

const { Invalid, NotAllowed, NotFound, TooMany, Unavailable } = Problems

const ofSession = { session: Models.Name }
const ofOperation = { ...ofSession, operation: Models.Name }
const ofConversation = { user: Schema.String, session: Schema.String }

/** Operations of the current user, and the conversations that the user may see. */
export class OperationsGroup extends HttpApiGroup.make("operations")
  .add(
    HttpApiEndpoint.get("agents", "/agents", { success: Schema.Array(Operations.Agent), error: NotAllowed }).annotate(
      OpenApi.Summary,
      "List agents"
    ),
    HttpApiEndpoint.post("start", "/sessions/:session/operations", {
      params: ofSession,
      headers: { accept: Schema.optionalKey(Schema.String) },
      payload: Operations.OperationSubmission,
      success: [Operations.Operation, HttpApiSchema.StreamSse({ events: Operations.AgentSse })],
      error: [Invalid, NotAllowed, Problems.OperationConflict, Problems.SessionBusy, TooMany, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      summary: "Send a message to an agent",
      description: "Sends a message to an agent. It starts an operation, or joins the one that runs in the session " +
        "(`onBusy`). With `Accept: text/event-stream` the events are streamed; otherwise the response is the " +
        "operation in its current state. The operation continues without the client."
    })),
    HttpApiEndpoint.get("list", "/sessions/:session/operations", {
      params: ofSession,
      success: Schema.Array(Operations.Operation),
      error: [NotAllowed, Unavailable]
    }).annotate(OpenApi.Summary, "List operations"),
    HttpApiEndpoint.get("operation", "/sessions/:session/operations/:operation", {
      params: ofOperation,
      success: Operations.Operation,
      error: [NotAllowed, NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "Read an operation"),
    HttpApiEndpoint.get("events", "/sessions/:session/operations/:operation/events", {
      params: ofOperation,
      ...Models.cursor,
      success: HttpApiSchema.StreamSse({ events: Operations.AgentSse }),
      error: [NotAllowed, NotFound, TooMany, Unavailable]
    }).annotate(OpenApi.Summary, "Stream the events of an operation"),
    HttpApiEndpoint.post("say", "/sessions/:session/operations/:operation/messages", {
      params: ofOperation,
      payload: Schema.Struct({
        text: Schema.NonEmptyString,
        /** Sending the same id and text twice says it once. Default: a random id. */
        id: Schema.optionalKey(Models.Name),
        /** Denies pending approval requests, so that the model reads the message immediately. */
        settle: Schema.optionalKey(Schema.Boolean)
      }),
      success: Schema.Struct({ id: Schema.String }),
      error: [NotAllowed, NotFound, Problems.OperationConflict, Problems.OperationEnded, TooMany, Unavailable]
    }).annotate(OpenApi.Summary, "Send a message to a running operation"),
    HttpApiEndpoint.post("cancelOperation", "/sessions/:session/operations/:operation/cancel", {
      params: ofOperation,
      payload: Schema.Struct({ reason: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(1_000))) }),
      success: HttpApiSchema.NoContent,
      error: [NotAllowed, NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "Cancel an operation"),
    HttpApiEndpoint.get("history", "/sessions/:session/history", {
      params: ofSession,
      success: Operations.History,
      error: [NotAllowed, Unavailable]
    }).annotate(OpenApi.Summary, "Read the history of a session"),
    HttpApiEndpoint.get("conversations", "/conversations", {
      success: Schema.Array(Operations.Conversation),
      error: Unavailable
    }).annotate(OpenApi.Summary, "List conversations"),
    HttpApiEndpoint.get("conversation", "/conversations/:user/:session", {
      params: ofConversation,
      success: Operations.ConversationDetail,
      error: [NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "Read a conversation"),
    HttpApiEndpoint.get("conversationEvents", "/conversations/:user/:session/events", {
      params: ofConversation,
      ...Models.cursor,
      success: HttpApiSchema.StreamSse({ events: Operations.AgentSse }),
      error: [NotFound, TooMany, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      summary: "Stream the events of a conversation",
      description: "The events of all operations of a conversation, from the one that runs now. Those of other users " +
        "are redacted and have no fragments of texts. After a `reset`, read the conversation again."
    }))
  )
  .middleware(Checks)
  .middleware(Authorization)
  .prefix("/api")
{}
