/** The protocol servers themselves: they speak as their protocols do, and take sound conversations alone. */
import type { LanguageModelV4Prompt } from "@ai-sdk/provider"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Name, names, provider, providers } from "../support/providers/providers.ts"
import type { Quirks, Script, Turn } from "../support/providers/script.ts"
import {
  type Assistant,
  conversation,
  converse,
  type Message,
  results,
  say,
  stream,
  streamed,
  streamUntil,
  toolsOf,
  user,
  type Way
} from "../support/providers/talk.ts"

const script: ReadonlyArray<Turn> = [
  {
    reasoning: "I shall add twice",
    text: "Adding…",
    calls: [{ name: "add", args: { a: 1 } }, { name: "add", args: { a: "zwölf 🎈" } }]
  },
  { reasoning: "And once more", calls: [{ name: "add", args: {} }] },
  { reasoning: "That is all", text: "All done" },
  { text: "Bye" }
]

/** What a message says, without what is bound to a provider. */
const saidIn = ({ content }: Assistant) =>
  content.flatMap((part): ReadonlyArray<unknown> => {
    if (part.type === "tool-call") return [[part.toolName, part.input]]
    return (part.type === "text" || part.type === "reasoning") && part.text !== "" ? [part.text] : []
  })

const lastOf = (history: LanguageModelV4Prompt) => history.at(-1) as Assistant

/** What a loop leaves out for another model: what is bound to the one that said it. */
const unbound = (history: LanguageModelV4Prompt): LanguageModelV4Prompt =>
  history.map((message): Message =>
    message.role !== "assistant" ? message : {
      role: "assistant",
      content: message.content.flatMap((part) => {
        if (part.type === "reasoning") return []
        const { providerOptions: _, ...rest } = part
        return [rest as typeof part]
      })
    }
  )

describe.each(names)("%s", (name) => {
  it.effect.each<readonly [Way, boolean]>([["streamed", false], ["whole", false], ["streamed", true], ["whole", true]])(
    "takes a sound conversation (%s, stored: %s) and says what was asked",
    ([way, store]) =>
      Effect.gen(function*() {
        const { model, server } = yield* provider(name, script, { store })
        const tools = toolsOf("add")
        const from: LanguageModelV4Prompt = [{ role: "system", content: "Be brief" }]
        const history = yield* Effect.promise(() => conversation(model, ["Go", "Thanks"], { from, tools, way }))
        expect(server.refusals).toEqual([])
        expect(server.asked.map(({ stream, turn }) => [turn, stream])).toEqual(
          [0, 1, 2, 3].map((turn) => [turn, way === "streamed"])
        )
        expect(saidIn(lastOf(history))).toEqual(["Bye"])
        const { messages, system, tools: named } = server.asked.at(-1)!
        expect({ system, named }).toEqual({ system: "Be brief", named: ["add"] })
        const ids = messages.flatMap((message) => message.role === "assistant" ? message.calls.map(({ id }) => id) : [])
        const call = (id: number, args: object) => ({ id: ids[id], name: "add", args })
        const result = (id: number) => ({ id: ids[id], name: "add", text: "add: ok" })
        expect(messages).toEqual([
          { role: "user", text: "Go" },
          { role: "assistant", text: "Adding…", calls: [call(0, { a: 1 }), call(1, { a: "zwölf 🎈" })] },
          { role: "tool", results: [result(0), result(1)] },
          { role: "assistant", text: "", calls: [call(2, {})] },
          { role: "tool", results: [result(2)] },
          { role: "assistant", text: "All done", calls: [] },
          { role: "user", text: "Thanks" }
        ])
      })
  )

  it.effect.each<Way>(["streamed", "whole"])(
    "says its reasoning, its text, its calls and its usage (%s)",
    (way) =>
      Effect.gen(function*() {
        const turn = { ...script[0]!, usage: { input: 100, output: 20, reasoning: 5, cached: 40 } }
        const { model } = yield* provider(name, [turn, turn])
        const reasoning = name === "openai-chat" ? [] : ["I shall add twice"]
        const said = yield* Effect.promise(() => say(model, [user("Go")], { way }))
        expect(saidIn(said)).toEqual([...reasoning, "Adding…", ["add", { a: 1 }], ["add", { a: "zwölf 🎈" }]])
        const options = { prompt: [user("Go")], tools: toolsOf("add") }
        const [finish] = way === "whole"
          ? [yield* Effect.promise(async () => await model.doGenerate(options))]
          : (yield* Effect.promise(() => stream(model, options))).flatMap((part) =>
            part.type === "finish" ? [part] : []
          )
        expect(finish).toMatchObject({
          finishReason: { unified: "tool-calls" },
          usage: { inputTokens: { total: 100, noCache: 60, cacheRead: 40 }, outputTokens: { total: 20 } }
        })
      })
  )

  it.effect.each<Way>(["streamed", "whole"])(
    "says something after its calls, and takes it back (%s)",
    (way) =>
      Effect.gen(function*() {
        const turn = { reasoning: "Hm", text: "First ", calls: [{ name: "add" }, { name: "take" }], after: "then this" }
        const { model, server } = yield* provider(name, [turn, { text: "Done" }, { text: "Bye" }])
        yield* Effect.promise(() => conversation(model, ["Go", "Thanks"], { way }))
        expect(server.refusals).toEqual([])
        expect(server.asked.at(-1)!.messages[1]).toMatchObject({
          text: "First then this",
          calls: [{ name: "add" }, { name: "take" }]
        })
      })
  )

  it.effect("says arguments that are broken as they are", () =>
    Effect.gen(function*() {
      const { model } = yield* provider(name, [{ calls: [{ name: "add", rawArgs: "{\"a\": 1" }] }])
      const parts = yield* Effect.promise(() => stream(model, { prompt: [user("Go")], tools: toolsOf("add") }))
      const calls = parts.flatMap((part) => part.type === "tool-call" ? [part.input] : [])
      const raw = parts.flatMap((part) => part.type === "finish" ? [part.finishReason.raw] : [])
      // Gemini has no arguments that are broken: it says that the call was
      expect(calls).toEqual(name === "google" ? [] : ["{\"a\": 1"])
      if (name === "google") expect(raw).toEqual(["MALFORMED_FUNCTION_CALL"])
    }))

  it.effect("says ids that the script gives, and refuses when the script is over", () =>
    Effect.gen(function*() {
      const { model, server } = yield* provider(name, [{ calls: [{ name: "add", id: "my_id" }] }])
      const { broken } = yield* Effect.promise(() =>
        converse(model, "Go").then(() => ({ broken: undefined }), (broken: unknown) => ({ broken }))
      )
      expect(broken).toMatchObject({ statusCode: 400 })
      expect(server.refusals.map(({ message }) => message)).toEqual(["The script has no turn 1"])
    }))

  it.effect("is asked by a function of what was asked", () =>
    Effect.gen(function*() {
      const echo: Script = ({ messages }) => {
        const last = messages.at(-1)!
        if (last.role === "tool") return { text: last.results.map(({ name, text }) => `${name} said ${text}`).join() }
        return { calls: [{ name: "add" }, { name: "take" }] }
      }
      const { model } = yield* provider(name, echo)
      const history = yield* Effect.promise(() => converse(model, "Go"))
      expect(saidIn(lastOf(history))).toEqual(["add said add: ok,take said take: ok"])
    }))
})

describe("a change of model", () => {
  const pairs = names.flatMap((one) => names.filter((other) => other !== one).map((other) => [one, other] as const))

  it.effect.each(pairs)(
    "from %s to %s and back is taken, after a turn and in the middle of a loop",
    ([one, other]) =>
      Effect.gen(function*() {
        const first = yield* provider(one, ({ turn }) => script[turn % 4]!)
        const second = yield* provider(other, ({ turn }) => script[turn % 4]!)
        const own = yield* Effect.promise(() => converse(first.model, "Go"))
        const went = yield* Effect.promise(() => conversation(second.model, ["And you?"], { from: unbound(own) }))
        const back = [...own, ...unbound(went.slice(own.length)), user("Back")]
        yield* Effect.promise(() => say(first.model, back))
        // in the middle: the calls of one are answered, and the other goes on
        const asked = yield* Effect.promise(() => say(first.model, [user("Go")]))
        yield* Effect.promise(() => say(second.model, unbound([user("Go"), asked, results(asked)])))
        expect([...first.server.refusals, ...second.server.refusals]).toEqual([])
      })
  )

  it.effect("of Gemini's to a compatible server is refused with the signatures of the calls", () =>
    Effect.gen(function*() {
      const first = yield* provider("google", script)
      const second = yield* provider("openai-compatible", script)
      const own = yield* Effect.promise(() => converse(first.model, "Go"))
      const { broken } = yield* Effect.promise(() =>
        streamUntil(second.model, { prompt: [...own, user("And you?")], tools: toolsOf("add") })
      )
      expect(broken).toMatchObject({ statusCode: 400, message: "Corrupted thought signature." })
    }))
})

describe("a compatible server", () => {
  const odd: Record<string, Quirks> = {
    "calls whole": { whole: true },
    "calls without index": { noIndex: true },
    "empty ids after the first": { ids: "empty" },
    "ids on each delta": { ids: "repeated" },
    "no ids at all": { noIds: true },
    "no ids, calls whole": { noIds: true, whole: true },
    "no usage": { noUsage: true }
  }

  it.effect.each(Object.keys(odd))("that is odd (%s) says the same", (key) =>
    Effect.gen(function*() {
      const { model, server } = yield* provider("openai-compatible", script, { quirks: odd[key]! })
      const history = yield* Effect.promise(() => converse(model, "Go"))
      expect(saidIn(history[1] as Assistant)).toEqual(
        ["I shall add twice", "Adding…", ["add", { a: 1 }], ["add", { a: "zwölf 🎈" }]]
      )
      expect(server.refusals).toEqual([])
    }))

  it.effect("that gives no reason why it ended ends in an error", () =>
    Effect.gen(function*() {
      const { model } = yield* provider("openai-compatible", [{ text: "Hm", quirks: { noFinish: true } }])
      const parts = yield* Effect.promise(() => stream(model, { prompt: [user("Go")] }))
      expect(parts.at(-1)).toMatchObject({ type: "finish", finishReason: { unified: "error" } })
    }))
})

describe("a search that the provider runs", () => {
  const searching: Script = [{ reasoning: "Look", search: "news", calls: [{ name: "add" }] }, { text: "Done" }, {
    text: "Bye"
  }]
  const searches: ReadonlyArray<readonly [Name, object]> = [
    ["anthropic", { id: "anthropic.web_search_20250305" }],
    ["openai-responses", { id: "openai.web_search" }]
  ]

  it.effect.each(searches.flatMap(([name, tool]) => [[name, tool, false], [name, tool, true]] as const))(
    "of %s comes with its result, and goes back",
    ([name, tool, store]) =>
      Effect.gen(function*() {
        const { model, server } = yield* provider(name, searching, { store })
        const search = { type: "provider" as const, name: "web_search", args: {}, ...tool }
        const tools = [...toolsOf("add"), search as typeof search & { id: `${string}.${string}` }]
        const history = yield* Effect.promise(() => conversation(model, ["Go", "Thanks"], { tools }))
        const kinds = (history[1] as Assistant).content.map(({ type }) => type)
        expect(kinds).toEqual(["reasoning", "tool-call", "tool-result", "tool-call"])
        expect(JSON.stringify(server.requests.at(-1)!.body)).toMatch(/web_search_tool_result|web_search_call|"ws_/)
        expect(server.refusals).toEqual([])
      })
  )
})

describe("an answer that was broken off", () => {
  const turns: Script = [{ ...script[0]!, fault: { cut: "end" } }, { text: "Done" }]

  const goOn = (store: boolean) =>
    Effect.gen(function*() {
      const { model, server } = yield* provider("openai-responses", turns, { store })
      const { parts } = yield* Effect.promise(() => streamUntil(model, { prompt: [user("Go")] }))
      const said = streamed(parts)
      const prompt = [user("Go"), said, results(said)]
      const { broken } = yield* Effect.promise(() => streamUntil(model, { prompt, tools: toolsOf("add") }))
      return { broken, server }
    })

  it.effect("is not stored: OpenAI refuses what refers to it", () =>
    Effect.gen(function*() {
      const { broken } = yield* goOn(true)
      expect(broken).toMatchObject({
        statusCode: 404,
        message: expect.stringMatching(/^Item with id 'rs_\w+' not found\.$/)
      })
    }))

  it.effect("goes back where it carries all that it needs", () =>
    Effect.gen(function*() {
      const { broken, server } = yield* goOn(false)
      expect([broken, ...server.refusals]).toEqual([undefined])
    }))
})

it.effect("all servers follow one script", () =>
  Effect.gen(function*() {
    const all = yield* providers(script)
    const histories = yield* Effect.promise(() => Promise.all(all.map(({ model }) => converse(model, "Go", "Thanks"))))
    const visible = histories.map((history) =>
      history.map((message) =>
        message.role === "assistant"
          ? saidIn({ ...message, content: message.content.filter(({ type }) => type !== "reasoning") })
          : message.role
      )
    )
    for (const one of visible) expect(one).toEqual(visible[0])
    expect(all.flatMap(({ server }) => server.refusals)).toEqual([])
  }))
