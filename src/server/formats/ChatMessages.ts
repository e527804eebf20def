/** Messages of the AI SDK: what a client has sent, and what it is shown of a history. */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Conversation from "../../agent/Conversation.ts"
import * as Shape from "../../wire/Shape.ts"
import type { UiMessage } from "../api/ApiFormats.ts"
import type { Message } from "../api/ApiOperations.ts"
import { type Handle, readHandle } from "./FormattedOperation.ts"

/** The id of the message that answers a message of the user. */
export const replyOf = (message: string): string => `${message}-reply`

/** The text of a user's message; `undefined` if it has anything but texts, or none. */
export const textOf = ({ parts }: UiMessage): string | undefined => {
  const texts = parts.map((it) => Shape.own(it, "type") === "text" ? Shape.own(it, "text") : undefined)
  const text = texts.filter((it) => typeof it === "string").join("\n\n")
  return texts.length === 0 || texts.includes(undefined) || text.trim() === "" ? undefined : text
}

/** An approval request in a message, with the answer of the user. */
export interface Asked extends Handle {
  readonly answer: { readonly isApproved: boolean; readonly reason: string | undefined } | undefined
}

/** The approval requests in a message of the assistant. */
export const askedIn = ({ parts }: UiMessage): ReadonlyArray<Asked> =>
  parts.flatMap((part) => {
    const approval = Shape.own(part, "approval")
    const id = Shape.own(approval, "id")
    const handle = typeof id === "string" ? readHandle(id) : undefined
    if (handle === undefined) return []
    const [isApproved, reason] = [Shape.own(approval, "approved"), Shape.own(approval, "reason")]
    const isAnswered = Shape.own(part, "state") === "approval-responded" && typeof isApproved === "boolean"
    const answer = isAnswered ? { isApproved, reason: typeof reason === "string" ? reason : undefined } : undefined
    return [{ ...handle, answer }]
  })

/** Tells whether a message has a call. */
export const knows = ({ parts }: UiMessage) => {
  const calls = new Set(parts.map((it) => Shape.own(it, "toolCallId")))
  return (call: string): boolean => calls.has(call)
}

/**
 * The messages of a history. Everything between two messages of the user is one message of the assistant, with the id
 * that its stream has: a stream that is resumed replaces it.
 */
export const fromHistory = (messages: ReadonlyArray<Message>): ReadonlyArray<UiMessage> => {
  const results = new Map(messages.flatMap((it) => it.results ?? []).map((it) => [it.id, it]))
  const chat: Array<UiMessage> = []
  let asked = "history"
  let parts: Array<Schema.Json> = []
  const answered = () => {
    if (parts.length > 0) chat.push({ id: replyOf(asked), role: "assistant", parts })
    parts = []
  }
  for (const [index, { calls = [], operation, role, text }] of messages.entries()) {
    // the result of a background agent is no message of a person
    if (role === "user" && operation !== undefined && Conversation.isResult(operation)) continue
    if (role === "user") {
      answered()
      asked = operation ?? `message-${index}`
      chat.push({ id: asked, role, parts: [textPart(text)] })
    } else if (role === "assistant") {
      const made = calls.map(({ id: toolCallId, name, params: input }) => ({
        type: `tool-${name}`,
        toolCallId,
        input,
        ...stateOf(results.get(toolCallId))
      }))
      parts.push({ type: "step-start" }, ...text === "" ? [] : [textPart(text)], ...made)
    }
  }
  answered()
  return chat
}

const textPart = (text: string) => ({ type: "text", text, state: "done" })

const stateOf = (result: NonNullable<Message["results"]>[number] | undefined) => {
  if (result === undefined) return { state: "input-available" }
  const { isError, text } = result
  return isError ? { state: "output-error", errorText: text } : { state: "output-available", output: valueOf(text) }
}

/** The value that the text for the model was made of. */
const valueOf = (text: string): Schema.Json => {
  const value = Result.getOrUndefined(Result.try(() => JSON.parse(text) as Schema.Json))
  return value !== undefined && JSON.stringify(value) === text ? value : text
}
