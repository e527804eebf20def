/** Messages of a conversation as clients see them: arguments and, for readers other than the owner, texts are redacted. */
import type * as Prompt from "effect/ai/Prompt"
import type * as Schema from "effect/Schema"
import * as CompactedHistory from "../../agent/CompactedHistory.ts"
import * as Conversation from "../../agent/Conversation.ts"
import * as Redact from "../../internal/secrets/index.ts"
import * as PlainJson from "../../wire/PlainJson.ts"
import type { Message } from "../api/ApiOperations.ts"

/** How a message is shown. */
export interface Options {
  /** What a tool declares secret. */
  readonly redactorOf: (tool: string) => Redact.Redactor | undefined
  /** The reader is not the owner. */
  readonly isShared: boolean
}

/** The secrets in the arguments of calls, which other texts may repeat. */
export const secretsIn = (
  messages: ReadonlyArray<Prompt.Message>,
  redactorOf: Options["redactorOf"]
): ReadonlyArray<string> =>
  messages.flatMap((message) =>
    message.role === "assistant"
      ? Conversation.callsOf(message).flatMap(({ name, params }) =>
        (redactorOf(name) ?? Redact.usual).arguments(params).secrets
      )
      : []
  )

/** Converts messages for clients. */
export const toWire = (
  messages: ReadonlyArray<Prompt.Message>,
  { isShared, redactorOf }: Options
): ReadonlyArray<Message> => {
  const known = isShared ? secretsIn(messages, redactorOf) : []
  const shown = (text: string) => isShared ? Redact.usual.scrub(text, known) : text
  const all = inOrder(messages)
  return all.flatMap((message): ReadonlyArray<Message> => {
    switch (message.role) {
      case "user": {
        // what it stands for is shown itself
        if (CompactedHistory.isRecord(message)) return []
        const operation = Conversation.inputOf(message)
        const text = shown(Conversation.textOf(message))
        return [{ role: "user", text, ...operation === undefined ? {} : { operation } }]
      }
      case "assistant": {
        const calls = Conversation.callsOf(message).map(({ id, name, params }) => {
          const { value } = (redactorOf(name) ?? Redact.usual).arguments(params)
          return { id, name, params: PlainJson.shown(value) as Schema.Json }
        })
        const text = shown(Conversation.textOf(message))
        return [{ role: "assistant", text, ...calls.length === 0 ? {} : { calls } }]
      }
      case "tool": {
        const results = message.content.flatMap((it) =>
          it.type === "tool-result"
            ? [{ id: it.id, name: it.name, isError: it.isFailure, text: shown(resultText(it.result)) }]
            : []
        )
        return [{ role: "tool", text: "", results }]
      }
      default:
        return []
    }
  })
}

/** Answers directly after their calls: a message that arrived while the server stopped may stand between them. */
const inOrder = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const ordered: Array<Prompt.Message> = []
  let next = 0
  for (const message of messages) {
    if (message.role !== "tool") ordered.push(message)
    else ordered.splice(next, 0, message)
    if (message.role === "assistant") next = ordered.length
    else if (message.role === "tool") next++
  }
  return ordered
}

const resultText = (result: unknown): string => typeof result === "string" ? result : JSON.stringify(result) ?? ""
