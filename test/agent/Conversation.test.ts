/** What a model is sent of a history, whatever the history is. */
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import * as Conversation from "../../src/agent/Conversation.ts"
import * as CarriedPart from "../../src/wire/CarriedPart.ts"
import { randomFrom, type SeededRandom } from "../support/randomCase.ts"

const origins = ["one", "other"].map((model) => ({ provider: "anthropic", model, run: { batch: "b", process: "p" } }))
const [one, other] = origins as unknown as readonly [Conversation.Origin, Conversation.Origin]

const ids = ["", "call_0", "call_1", "toolu_01", "functions.read:0", "röd 🎈", "c".repeat(64), "__proto__"]
const toolNames = ["read", "9lives", "functions.read", "write file!", "", "x".repeat(200), "constructor"]
const texts = ["", " \n", "Hello", "Wörld"]

/** What is bound to a model says so, so that it can be found. */
const bound = ({ chance }: SeededRandom, model: string): Prompt.ProviderOptions =>
  chance(0.5) ? { anthropic: { signature: `signed by ${model}` } } : {}

/** A provider's own call, or a result that `effect/ai` has no type for, as an empty text. */
const carried = (type: "tool-call" | "tool-result", toolCallId: string, modelId: string): Prompt.TextPart =>
  Prompt.textPart({
    text: "",
    options: CarriedPart.pack({ provider: "anthropic", modelId }, { type, toolCallId, toolName: "search" })
  })

const part = (random: SeededRandom, model: string): Prompt.AssistantMessagePart => {
  const { chance, int, pick } = random
  const options = bound(random, model)
  const [id, name] = [pick(ids), pick(toolNames)]
  switch (int(8)) {
    case 0:
    case 1:
      return Prompt.toolCallPart({ id, name, params: { n: int(9) }, providerExecuted: chance(0.2), options })
    case 2:
      return Prompt.toolResultPart({
        id,
        name,
        isFailure: chance(0.5),
        result: "in place",
        providerExecuted: chance(0.5),
        options
      })
    case 3:
      return Prompt.reasoningPart({ text: `thought by ${model}`, options })
    case 4:
      return carried(pick(["tool-call", "tool-result"]), id, model)
    case 5:
      return Prompt.makePart("tool-approval-request", { approvalId: "a", toolCallId: id })
    default:
      return Prompt.textPart({ text: pick(texts), options })
  }
}

const many = <A>({ int }: SeededRandom, most: number, make: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: int(most + 1) }, (_, index) => make(index))

const message = (random: SeededRandom): Prompt.Message => {
  const { chance, int, pick } = random
  switch (int(5)) {
    case 0:
      return Prompt.userMessage({ content: many(random, 2, () => Prompt.textPart({ text: pick(texts) })) })
    case 1:
    case 2: {
      const origin = pick([undefined, one, other])
      const said = Prompt.assistantMessage({ content: many(random, 6, () => part(random, origin?.model ?? "nobody")) })
      return origin === undefined ? said : Conversation.mark(said, origin)
    }
    case 3:
      return Prompt.toolMessage({
        content: many(random, 4, (index) =>
          chance(0.1)
            ? Prompt.makePart("tool-approval-response", { approvalId: "a", approved: true })
            : Prompt.toolResultPart({
              id: pick(ids),
              name: pick(toolNames),
              isFailure: false,
              result: `answer ${index}`,
              providerExecuted: false
            }))
      })
    default:
      return Prompt.systemMessage({ content: pick(["Be good", "Be brief"]) })
  }
}

/** Mistral and vLLM with its templates take no others. */
const everyId = /^[a-zA-Z0-9]{9}$/

const history = (seed: number): ReadonlyArray<Prompt.Message> => {
  const random = randomFrom(seed)
  return many(random, 8, () => message(random))
}

const callsIn = (message: Prompt.Message | undefined) =>
  message?.role === "assistant" ? Conversation.callsOf(message) : []

/** What providers refuse of a conversation, each in a word. */
const refused = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<string> => {
  const seen = new Set<string>()
  const asked = messages.findLastIndex((it) => it.role === "user")
  return messages.flatMap((message, index) => {
    const problems: Array<string> = []
    const before = messages[index - 1]
    if (message.role !== "system" && message.content.length === 0) problems.push("empty")
    if (message.role === "assistant") {
      for (const part of message.content) {
        const provided = CarriedPart.providedOf(part)
        const has = (type: string) =>
          messages.some((it) =>
            it.role === "assistant" && it.content.some((other) => {
              const found = CarriedPart.providedOf(other)
              return found?.type === type && found.id === provided?.id
            })
          )
        if (provided?.type === "tool-result" && !has("tool-call")) problems.push("a provider's result without its call")
        if (provided?.type === "tool-call" && index < asked && !has("tool-result")) {
          problems.push("a provider's call without its result")
        }
        const isBlank = part.type === "text" && part.text.trim() === "" && Object.keys(part.options).length === 0
        if (isBlank) problems.push("blank")
        if (part.type === "tool-result" && !part.providerExecuted) problems.push("misplaced answer")
      }
      if (message.content.at(-1)?.type === "reasoning") problems.push("reasoning for an end")
      const calls = callsIn(message)
      for (const { id, name } of calls) {
        if (seen.has(id)) problems.push("id twice")
        seen.add(id)
        if (!/^[\w-]{1,128}$/.test(name)) problems.push("name")
      }
      if (calls.length > 0 && messages[index + 1]?.role !== "tool") problems.push("unanswered")
    }
    if (message.role === "tool") {
      const calls = callsIn(before)
      const pairs = (them: ReadonlyArray<{ readonly id: string; readonly name: string }>) =>
        JSON.stringify(them.map(({ id, name }) => [id, name]))
      const answers = message.content.flatMap((it) => it.type === "tool-result" ? [it] : [])
      if (answers.length !== message.content.length || pairs(answers) !== pairs(calls)) problems.push("answers")
    }
    return problems
  })
}

const law = (name: string, holds: (messages: ReadonlyArray<Prompt.Message>, random: SeededRandom) => void) =>
  it.prop(
    name,
    [Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 31 - 1 }))],
    ([seed]) => holds(history(seed), randomFrom(seed + 1)),
    { arbitrary: { runs: 400 } }
  )

const freeze = <A>(value: A): A => {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const it of Object.values(value)) freeze(it)
  }
  return value
}

describe("what a model is sent of any history", () => {
  law("is what no provider refuses: each call has one answer right behind it, and nothing is empty", (messages) => {
    assert.deepStrictEqual(refused(Conversation.forModel(messages, one).content), [])
  })

  law("has the first answer to each call that the history has, and else that nobody knows", (messages) => {
    const sent = Conversation.forModel(messages, one).content
    for (const it of sent.flatMap((it) => it.role === "tool" ? it.content : [])) {
      assert.isTrue(it.type === "tool-result")
      if (it.type !== "tool-result") continue
      assert.match(String(it.result), /^(answer \d|in place|This call has no result)/)
      assert.strictEqual(String(it.result).startsWith("This"), it.result !== "in place" && it.isFailure)
    }
  })

  law("has nothing that another model bound to itself, and ids and names that every provider takes", (messages) => {
    const foreign = messages.filter((it) => it.role !== "assistant" || Conversation.originOf(it) !== undefined)
    const sent = Conversation.forModel(foreign, { provider: "openai", model: "third" }).content
    assert.notMatch(JSON.stringify(sent), /signed by|thought by/)
    for (const { id, name } of sent.flatMap((it) => callsIn(it))) {
      assert.match(id, everyId)
      assert.match(name, /^[a-zA-Z_][\w-]{0,63}$/)
    }
  })

  law("has what is its own as it came, but for reasoning that nothing came of", (messages) => {
    const sent = Conversation.forModel(messages, one).content.filter((it) => it.role === "assistant")
    const parts = (all: ReadonlyArray<Prompt.AssistantMessage>) =>
      all.flatMap(({ content }) => content.slice(0, content.findLastIndex(isKept) + 1))
        .flatMap((it) => it.type === "reasoning" && it.text === "thought by one" ? [JSON.stringify(it.options)] : [])
    const asked = messages.findLastIndex((it) => it.role === "user")
    const own = messages.flatMap((it, index) =>
      it.role === "assistant" && Conversation.originOf(it)?.model === "one"
        ? [executed(it, messages, index >= asked)]
        : []
    )
    const bare = own.map((it) => ({
      ...it,
      content: it.content.map((part) => ({
        ...part,
        options: Object.fromEntries(
          Object.entries(part.options).filter(([name]) => name !== Conversation.key)
        )
      }))
    })) as ReadonlyArray<Prompt.AssistantMessage>
    assert.deepStrictEqual(parts(sent), parts(bare.map(sound)))
  })

  it("has no call that a provider executed, if its only result is another model's", () => {
    const call = Prompt.toolCallPart({ id: "a", name: "search", params: {}, providerExecuted: true })
    const result = Prompt.toolResultPart({
      id: "a",
      name: "search",
      isFailure: false,
      result: "in place",
      providerExecuted: true
    })
    const messages = [
      Conversation.mark(Prompt.assistantMessage({ content: [call] }), one),
      Conversation.mark(Prompt.assistantMessage({ content: [result] }), other),
      Prompt.userMessage({ content: [Prompt.textPart({ text: "go" })] })
    ]
    assert.deepStrictEqual(Conversation.forModel(messages, one).content.map((it) => it.role), ["user"])
  })

  law("is the same when it is sent again", (messages) => {
    const sent = Conversation.forModel(messages, one)
    const own = sent.content.map((it) => it.role === "assistant" ? Conversation.mark(it, one) : it)
    assert.deepStrictEqual(Conversation.forModel(own, one), sent)
  })

  law("has ids that every provider takes, but for those that its own provider gave", (messages) => {
    const nobodys = messages.map((it): Prompt.Message =>
      it.role !== "assistant" || Conversation.originOf(it) !== undefined
        ? it
        : { ...it, content: it.content.map((part) => ({ ...part, options: {} }) as Prompt.AssistantMessagePart) }
    )
    const given = new Set(
      nobodys.flatMap((it) =>
        it.role === "assistant" && Conversation.originOf(it)?.model === "one" ? callsIn(it).map(({ id }) => id) : []
      )
    )
    for (const { id } of Conversation.forModel(nobodys, one).content.flatMap((it) => callsIn(it))) {
      if (!given.has(id)) assert.match(id, everyId)
    }
  })

  law("leaves the history as it is", (messages) => {
    const before = structuredClone(messages)
    Conversation.forModel(freeze(messages), one)
    assert.deepStrictEqual(structuredClone(messages), before)
  })
})

describe("the open calls of any history", () => {
  law("are those of the last message of a model that have no answer, and none are left once they are answered", (
    messages
  ) => {
    const { calls, origin } = Conversation.open(messages)
    const last = messages.findLast((it) => it.role === "assistant")
    assert.deepStrictEqual(origin, last && Conversation.originOf(last))
    for (const call of calls) assert.include(callsIn(last), call)
    const answered = [...messages, Conversation.answerAll(calls, "answer 9")]
    assert.deepStrictEqual(Conversation.open(answered).calls, [])
    const sent = Conversation.forModel(answered, one).content.findLast((it) => it.role === "assistant")
    const behind = Conversation.forModel(answered, one).content.findLast((it) => it.role === "tool")
    if (calls.length > 0 && callsIn(sent).length > 0) {
      const told = behind!.content.filter((it) => it.type === "tool-result" && it.result === "answer 9")
      assert.strictEqual(told.length, new Set(calls.map(({ id }) => id)).size)
    }
  })
})

describe("ids of calls", () => {
  law("are each one's own afterwards, and those that were stay", (messages, random) => {
    const taken = new Set(many(random, 4, () => random.pick(ids)))
    const before = new Set(taken)
    let made = 0
    for (const message of messages) {
      if (message.role !== "assistant") continue
      const given = new Set(taken)
      const own = Conversation.withOwnIds(message, taken, () => `made-${++made}`)
      assert.deepStrictEqual(
        own.content.map((it) => it.type === "tool-call" && !it.providerExecuted ? { ...it, id: "" } : it),
        message.content.map((it) => it.type === "tool-call" && !it.providerExecuted ? { ...it, id: "" } : it)
      )
      for (const [index, { id }] of Conversation.callsOf(own).entries()) {
        const asked = Conversation.callsOf(message)[index]!.id
        assert.isFalse(given.has(id) || id === "")
        assert.strictEqual(id === asked, asked !== "" && !given.has(asked))
        given.add(id)
      }
      assert.deepStrictEqual(taken, given)
    }
    for (const id of before) assert.isTrue(taken.has(id))
  })
})

describe("calls that a provider was to execute", () => {
  const providerExecuted = true
  const called = Prompt.toolCallPart({ id: "s1", name: "search", params: {}, providerExecuted })
  const result = Prompt.toolResultPart({
    id: "s1",
    name: "search",
    isFailure: false,
    result: "found",
    providerExecuted
  })
  const text = Prompt.textPart({ text: "I look." })
  const says = (...content: ReadonlyArray<Prompt.AssistantMessagePart>) =>
    Conversation.mark(Prompt.assistantMessage({ content }), one)
  const asks = Prompt.userMessage({ content: [Prompt.textPart({ text: "Go" })] })
  const sent = (...messages: ReadonlyArray<Prompt.Message>) =>
    Conversation.forModel(messages, one).content.map((it) =>
      it.role === "system" ? it.role : [it.role, ...it.content.map((part) => part.type)].join(" ")
    )

  it("go back as long as they may still be executed", () => {
    assert.deepStrictEqual(sent(asks, says(text, called)), ["user text", "assistant text tool-call"])
    const own = Prompt.toolCallPart({ id: "1", name: "read", params: {}, providerExecuted: false })
    assert.deepStrictEqual(sent(asks, says(called, own), Conversation.answerAll([own], "read")), [
      "user text",
      "assistant tool-call tool-call",
      "tool tool-result"
    ])
  })

  it("go back with their results, in the same message or a later one", () => {
    assert.deepStrictEqual(sent(asks, says(called, result), asks), [
      "user text",
      "assistant tool-call tool-result",
      "user text"
    ])
    assert.deepStrictEqual(sent(asks, says(text, called), says(result, text), asks), [
      "user text",
      "assistant text tool-call",
      "assistant tool-result text",
      "user text"
    ])
  })

  it("are left out once somebody has said something else", { tags: ["AG4"] }, () => {
    assert.deepStrictEqual(sent(asks, says(text, called), asks), ["user text", "assistant text", "user text"])
    assert.deepStrictEqual(sent(asks, says(called), asks), ["user text", "user text"])
  })

  it("are waited for where a message ends with one", () => {
    const wants = Prompt.makePart("tool-approval-request", { approvalId: "a", toolCallId: "s1" })
    assert.include(Conversation.unexecuted(says(text, called)), "no result for its own call of \"search\"")
    assert.include(Conversation.unexecuted(says(called, wants)), "requires approval")
    const read = Prompt.toolCallPart({ id: "1", name: "read", params: {}, providerExecuted: false })
    for (const content of [[called, result], [called, text], [called, read], [text], []]) {
      assert.isUndefined(Conversation.unexecuted(says(...content)))
    }
  })
})

// Utilities

/** A message without results of a provider that have no call and, once the user has gone on, calls without a result. */
const executed = (
  message: Prompt.AssistantMessage,
  messages: ReadonlyArray<Prompt.Message>,
  isOpen: boolean
): Prompt.AssistantMessage => {
  const all = messages.flatMap((it) =>
    it.role === "assistant" && (Conversation.originOf(it)?.model ?? "one") === "one" ? it.content : []
  )
  return {
    ...message,
    content: message.content.filter((part) => {
      const provided = CarriedPart.providedOf(part)
      if (provided === undefined || (isOpen && provided.type === "tool-call")) return true
      const other = provided.type === "tool-call" ? "tool-result" : "tool-call"
      return all.map(CarriedPart.providedOf).some((it) => it?.type === other && it.id === provided.id)
    })
  }
}

/** Whether something comes of reasoning before it. */
const isKept = (part: Prompt.AssistantMessagePart): boolean => part.type !== "reasoning"

/** A message without the parts that nobody is sent. */
const sound = (message: Prompt.AssistantMessage): Prompt.AssistantMessage => {
  const called = new Set<string>()
  return {
    ...message,
    content: message.content.filter((part) => {
      if (part.type === "tool-approval-request") return false
      if (part.type === "text") return part.text.trim() !== "" || Object.keys(part.options).length > 0
      if (part.type === "tool-result") return part.providerExecuted
      if (part.type !== "tool-call" || part.providerExecuted) return true
      return !called.has(part.id) && called.add(part.id)
    })
  }
}
