/** Requests of `useChat` of the AI SDK, and of AG-UI clients. */
import * as Schema from "effect/Schema"
import { OnBusy } from "./ApiOperations.ts"

/** What both formats take in addition to their own fields. */
const options = {
  /** Name of the agent. Default: the agent of the session, or the only one. */
  agent: Schema.optionalKey(Schema.String),
  /**
   * Default: as the agent is configured. While approval is pending, `queue` does not make the user wait: a message of a
   * chat denies the requests (`settle`), and AG-UI demands answers first (`reject`).
   */
  onBusy: Schema.optionalKey(OnBusy)
}

/** Schema of the options. */
export const FormatOptions = Schema.Struct(options)

/** The options. */
export type FormatOptions = typeof FormatOptions.Type

/** Schema of a message of the AI SDK. */
export const UiMessage = Schema.Struct({
  id: Schema.String,
  role: Schema.Literals(["system", "user", "assistant"]),
  parts: Schema.Array(Schema.Json)
}).annotate({ identifier: "UiMessage" })

/** A message of the AI SDK. */
export type UiMessage = typeof UiMessage.Type

/** Schema of the messages of a session, for `useChat`. */
export const Chat = Schema.Struct({ messages: Schema.Array(UiMessage) }).annotate({ identifier: "Chat" })

/**
 * Schema of the body that `useChat` sends. The server has the history: of the messages it reads a new message of the
 * user, and answers to approval requests in the last message of the assistant.
 */
export const ChatSubmission = Schema.Struct({
  messages: Schema.Array(UiMessage),
  trigger: Schema.optionalKey(Schema.String),
  ...options
}).annotate({ identifier: "ChatSubmission" })

/** The body that `useChat` sends. */
export type ChatSubmission = typeof ChatSubmission.Type

/** Schema of an answer to an interrupt. */
export const Resume = Schema.Struct({
  interruptId: Schema.String,
  status: Schema.Literals(["resolved", "cancelled"]),
  payload: Schema.optionalKey(Schema.Json)
})

/**
 * Schema of the input of a run of AG-UI. The thread is the session, and the run names the operation that it starts.
 * `forwardedProps` may have the options of `FormatOptions`.
 */
export const AgUiInput = Schema.Struct({
  threadId: Schema.String,
  runId: Schema.String,
  messages: Schema.Array(Schema.Struct({
    id: Schema.String,
    role: Schema.String,
    content: Schema.optionalKey(Schema.Json),
    toolCalls: Schema.optionalKey(Schema.Array(Schema.Struct({ id: Schema.String })))
  })),
  resume: Schema.optionalKey(Schema.Array(Resume)),
  forwardedProps: Schema.optionalKey(Schema.Json)
}).annotate({ identifier: "AgUiInput" })

/** The input of a run of AG-UI. */
export type AgUiInput = typeof AgUiInput.Type
