/** The protocol servers themselves: they speak as their protocols do, and take sound conversations alone. */
import type { LanguageModelV4, LanguageModelV4Prompt } from "@ai-sdk/provider"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { names, provider } from "../support/providers/providers.ts"
import type { Script } from "../support/providers/script.ts"
import {
  type Assistant,
  generated,
  type Message,
  results,
  stream,
  streamed,
  toolsOf,
  user
} from "../support/providers/talk.ts"

const tools = toolsOf("add")

const ways = {
  streamed: async (model: LanguageModelV4, prompt: LanguageModelV4Prompt) =>
    streamed(await stream(model, { prompt, tools })),
  whole: async (model: LanguageModelV4, prompt: LanguageModelV4Prompt) =>
    generated((await model.doGenerate({ prompt, tools })).content)
}

type Way = keyof typeof ways

/** Talks until the model calls nothing, then once more for each text. */
const talk = (way: Way, model: LanguageModelV4, ...texts: ReadonlyArray<string>) =>
  Effect.promise(async () => {
    const history: Array<Message> = [{ role: "system", content: "Be brief" }]
    for (const text of texts) {
      history.push(user(text))
      for (let open = true; open;) {
        const said: Assistant = await ways[way](model, history)
        history.push(said)
        open = said.content.some((part) => part.type === "tool-call" && part.providerExecuted !== true)
        if (open) history.push(results(said))
      }
    }
    return history
  })

const textOf = ({ content }: Assistant) => content.map((part) => part.type === "text" ? part.text : "").join("")

const script: Script = [
  {
    reasoning: "I shall add twice",
    text: "Adding…",
    calls: [{ name: "add", args: { a: 1 } }, { name: "add", args: { a: "zwölf 🎈" } }]
  },
  { reasoning: "And once more", calls: [{ name: "add", args: {} }] },
  { reasoning: "That is all", text: "All done" },
  { text: "Bye" }
]

describe.each(names)("%s", (name) => {
  it.effect.each(["streamed", "whole"] as const)("a sound conversation is taken, %s", (way) =>
    Effect.gen(function*() {
      const { model, server } = yield* provider(name, script)
      const history = yield* talk(way, model, "Go", "Thanks")
      expect(server.refusals).toEqual([])
      expect(server.asked.map(({ turn, stream }) => [turn, stream])).toEqual(
        [0, 1, 2, 3].map((turn) => [turn, way === "streamed"])
      )
      expect(textOf(history.at(-1) as Assistant)).toBe("Bye")
      const { messages, system, tools } = server.asked.at(-1)!
      expect({ system, tools }).toEqual({ system: "Be brief", tools: ["add"] })
      const args = messages.flatMap((message) =>
        message.role === "assistant" ? message.calls.map(({ args }) => args) : []
      )
      expect(args).toEqual([{ a: 1 }, { a: "zwölf 🎈" }, {}])
      expect(messages.map((message) =>
        message.role === "tool" ? message.results.map(({ name, text }) => [name, text]) : message.text
      ))
        .toEqual([
          "Go",
          "Adding…",
          [["add", "add: ok"], ["add", "add: ok"]],
          "",
          [["add", "add: ok"]],
          "All done",
          "Thanks"
        ])
    }))
})
