/** Endpoints for clients of other libraries: `useChat` of the AI SDK, and AG-UI. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import * as AgUi from "../formats/AgUi.ts"
import * as UiMessageStream from "../formats/UiMessageStream.ts"
import { Authorization, Checks } from "./ApiAccess.ts"
import * as Formats from "./ApiFormats.ts"
import { Name } from "./ApiModels.ts"
import * as Problems from "./ApiProblems.ts"

const { Invalid, NotAllowed, NotAnswered, NotFound, OperationConflict, SessionBusy, TooMany, Unavailable } = Problems

const ofSession = { session: Name }
const chunks = HttpApiSchema.StreamSse({ data: UiMessageStream.Chunk })
const refusals = [
  Invalid,
  NotAllowed,
  NotFound,
  NotAnswered,
  OperationConflict,
  SessionBusy,
  TooMany,
  Unavailable
] as const

/** Sessions of the current user in the formats of other libraries. */
export class FormatsGroup extends HttpApiGroup.make("formats")
  .add(
    HttpApiEndpoint.get("chat", "/sessions/:session/chat", {
      params: ofSession,
      success: Formats.Chat,
      error: [NotAllowed, TooMany, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      summary: "Read a chat (AI SDK)",
      description: "The messages of a session as `UIMessage`s of the AI SDK. Arguments are redacted."
    })),
    HttpApiEndpoint.post("sendChat", "/sessions/:session/chat", {
      params: ofSession,
      payload: Formats.ChatSubmission,
      success: chunks,
      error: refusals
    }).annotateMerge(OpenApi.annotations({
      summary: "Send a chat message (AI SDK)",
      description: "Sends a message, or answers to approval requests, as `useChat` of the AI SDK does. The response " +
        "is its UI message stream. The id of the message names the operation, so that a repeated request runs once."
    })),
    HttpApiEndpoint.get("resumeChat", "/sessions/:session/chat/stream", {
      params: ofSession,
      success: [chunks, HttpApiSchema.NoContent],
      error: [NotAllowed, TooMany, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      summary: "Resume a chat stream (AI SDK)",
      description: "The answers of the running operation from their beginning; 204 if none runs."
    })),
    HttpApiEndpoint.get("resumeNamedChat", "/sessions/:session/chat/:chat/stream", {
      params: { ...ofSession, chat: Schema.String },
      success: [chunks, HttpApiSchema.NoContent],
      error: [NotAllowed, TooMany, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      summary: "Resume the stream of a named chat (AI SDK)",
      description: "The same, where the transport of the AI SDK looks for it. The id of the chat may be anything."
    })),
    HttpApiEndpoint.post("runAgUi", "/sessions/:session/ag-ui", {
      params: ofSession,
      payload: Formats.AgUiInput,
      success: HttpApiSchema.StreamSse({ data: AgUi.Event }),
      error: refusals
    }).annotateMerge(OpenApi.annotations({
      summary: "Run an agent (AG-UI)",
      description: "A run of AG-UI 1.0: sends the last message, or answers interrupts (`resume`). Pending approval " +
        "requests are interrupts."
    }))
  )
  .middleware(Checks)
  .middleware(Authorization)
  .prefix("/api")
{}
