// A model that answers by what it is asked, without a script: the last message of a user names the work, and the answers
// after it say how far it is.
import { Effect, Layer, Stream } from "effect"
import { LanguageModel, type Prompt, type Response } from "effect/ai"

type Part = Response.StreamPartEncoded

const usage = {
  inputTokens: { uncached: 10, total: 10, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 5, text: 5, reasoning: 0 }
}

const finish = (reason: Response.FinishReason): Part => ({ type: "finish", reason, usage, response: undefined })

const said = (text: string): ReadonlyArray<Part> => [
  { type: "text-start", id: "t" },
  ...text.split(" ").map((delta): Part => ({ type: "text-delta", id: "t", delta: `${delta} ` })),
  { type: "text-end", id: "t" }
]

const call = (id: string, name: string, params: unknown): ReadonlyArray<Part> => [
  { type: "tool-call", id, name, params, providerExecuted: false },
  finish("tool-calls")
]

const textOf = (message: Prompt.Message): string =>
  typeof message.content === "string"
    ? message.content
    : message.content.map((it) => it.type === "text" ? it.text : "").join("")

const answer = ({ content }: Prompt.Prompt): ReadonlyArray<Part> => {
  const at = content.findLastIndex(({ role }) => role === "user")
  const key = textOf(content[at]!)
  const answered = content.slice(at).filter(({ role }) => role === "assistant").length
  if (key.startsWith("sub ")) {
    const own = key.slice(4)
    return answered === 0
      ? call(`${own}.ask`, "ask", { key: `${own}.ask`, millis: 5 })
      : [...said(`asked about ${own}`), finish("stop")]
  }
  switch (answered) {
    case 0:
      return [...said(`I note ${key}`), ...call(`${key}.note`, "note", { key: `${key}.note`, millis: 20 })]
    case 1:
      return [...said("now the writer"), ...call(`${key}.writer`, "writer", { prompt: `sub ${key}` })]
    default:
      return [...said(`${key} is done`), finish("stop")]
  }
}

export const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: ({ prompt }) => Effect.sync(() => answer(prompt) as never),
    streamText: ({ prompt }) => Stream.unwrap(Effect.as(Effect.sleep("10 millis"), Stream.fromIterable(answer(prompt))))
  })
)
