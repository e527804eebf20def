/** `useChat` of the AI SDK against a server: the same chat that its React hook has, without a page. */
import { Chat } from "@ai-sdk/react"
import { assert, describe, it } from "@effect/vitest"
import {
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  type UIMessage
} from "ai"
import * as Effect from "effect/Effect"
import { type AgentServer, others, start, token } from "../../support/AgentServer.ts"

const headers = { authorization: `Bearer ${token}` }

const chatOf = ({ url }: AgentServer, session = "s", messages: Array<UIMessage> = []) =>
  new Chat<UIMessage>({
    id: session,
    messages,
    transport: new DefaultChatTransport({ api: `${url}/api/sessions/${session}/chat`, headers }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses
  })

const historyOf = ({ url }: AgentServer, session = "s"): Effect.Effect<Array<UIMessage>> =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/api/sessions/${session}/chat`, { headers })
    return (await response.json() as { readonly messages: Array<UIMessage> }).messages
  })

const send = (chat: Chat<UIMessage>, text: string) => Effect.promise(() => chat.sendMessage({ text }))

const textOf = (message: UIMessage | undefined) =>
  message?.parts.flatMap((it) => it.type === "text" ? [it.text] : []).join(" ")

const toolsOf = (message: UIMessage | undefined) => message?.parts.filter(isToolUIPart) ?? []

const pendingIn = (chat: Chat<UIMessage>) =>
  toolsOf(chat.lastMessage).flatMap((it) => it.state === "approval-requested" ? [it.approval.id] : [])

/** Answers all that is asked, and waits until the chat is at rest. */
const answer = (chat: Chat<UIMessage>, approved: boolean, reason?: string) =>
  Effect.promise(async () => {
    for (const id of pendingIn(chat)) {
      await chat.addToolApprovalResponse({ id, approved, ...reason === undefined ? {} : { reason } })
    }
    await settled(chat)
  })

/** The automatic request is not awaited by the SDK. */
const settled = async (chat: Chat<UIMessage>) => {
  while (pendingIn(chat).length === 0 && toolsOf(chat.lastMessage).some((it) => it.state === "approval-responded")) {
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  while (chat.status === "submitted" || chat.status === "streaming") {
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

describe("a chat of the AI SDK with an agent", () => {
  it.live("asks and reads the answer, with what it cost", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      yield* send(chat, "hello")
      assert.strictEqual(chat.status, "ready")
      assert.strictEqual(textOf(chat.lastMessage), "You said: hello")
      assert.deepInclude(chat.lastMessage?.metadata, {
        operation: chat.messages[0]!.id,
        end: "Finished",
        usage: { inputTokens: 3, outputTokens: 4, cachedInputTokens: 0, cacheWriteInputTokens: 0 }
      })
      yield* send(chat, "and again")
      assert.strictEqual(textOf(chat.lastMessage), "You said: and again")
      assert.deepStrictEqual(
        (yield* historyOf(server)).map(({ id, role }) => [id, role]),
        chat.messages.map((it) => [it.id, it.role])
      )
    }))

  it.live("approves a call, which then runs, and continues the same message", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      yield* send(chat, "refund")
      assert.deepInclude(toolsOf(chat.lastMessage)[0], {
        type: "tool-refund",
        state: "approval-requested",
        input: { order: "o5", amount: 5 }
      })
      assert.deepStrictEqual(server.refunds, [])
      yield* answer(chat, true)
      assert.deepStrictEqual(server.refunds, [5])
      assert.lengthOf(chat.messages, 2)
      assert.deepInclude(toolsOf(chat.lastMessage)[0], { state: "output-available", output: { refunded: 5 } })
      assert.include(textOf(chat.lastMessage), "One moment. I have read: result")
      assert.deepStrictEqual(chat.lastMessage!.parts.map((it) => it.type), [
        "step-start",
        "reasoning",
        "text",
        "step-start",
        "tool-refund",
        "step-start",
        "step-start",
        "text"
      ])
    }))

  it.live("denies a call with a reason, which the model reads", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      yield* send(chat, "refund")
      yield* answer(chat, false, "not without a receipt")
      assert.deepStrictEqual(server.refunds, [])
      const [call] = toolsOf(chat.lastMessage)
      assert.strictEqual(call?.state, "output-denied")
      assert.deepInclude(call?.approval, { approved: false, reason: "not without a receipt" })
      assert.include(textOf(chat.lastMessage), "not without a receipt")
    }))

  it.live("answers several requests together, each in its own way", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      yield* send(chat, "refund two")
      const [one, two] = pendingIn(chat)
      yield* Effect.promise(async () => {
        await chat.addToolApprovalResponse({ id: one!, approved: true })
        await chat.addToolApprovalResponse({ id: two!, approved: false })
        await settled(chat)
      })
      assert.deepStrictEqual(server.refunds, [1])
      assert.deepStrictEqual(toolsOf(chat.lastMessage).map((it) => it.state), ["output-available", "output-denied"])
    }))

  it.live("answers for a sub-agent, whose text reads as reasoning", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      yield* send(chat, "delegate")
      const [, refund] = toolsOf(chat.lastMessage)
      assert.deepInclude(refund, { type: "tool-refund", state: "approval-requested" })
      assert.deepStrictEqual(refund?.toolMetadata, { agentPath: ["clerk"] })
      yield* answer(chat, true)
      assert.deepStrictEqual(server.refunds, [7])
      assert.deepStrictEqual(toolsOf(chat.lastMessage).map((it) => it.state), ["output-available", "output-available"])
      assert.notInclude(textOf(chat.lastMessage), "I refund it.")
      const thoughts = chat.lastMessage!.parts.flatMap((it) => it.type === "reasoning" ? [it.text] : [])
      assert.include(thoughts, "I refund it.")
    }))

  it.live("has the same after a reload in the middle", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      void chat.sendMessage({ text: "hold" })
      yield* Effect.promise(async () => {
        while (toolsOf(chat.lastMessage).length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
        await chat.stop()
      })
      const again = chatOf(server, "s", yield* historyOf(server))
      const resumed = again.resumeStream()
      yield* server.release
      yield* Effect.promise(() => resumed)
      assert.deepStrictEqual(again.messages.map((it) => it.id), chat.messages.map((it) => it.id))
      assert.include(textOf(again.lastMessage), "Wait for it. I have read: result")
      // nothing runs any more
      yield* Effect.promise(() => again.resumeStream())
      assert.strictEqual(again.status, "ready")
      assert.lengthOf(again.messages, 2)
    }))

  it.live("has its approval requests after a reload, and the second of two tabs continues where it is", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      yield* send(chat, "refund")
      const tab = chatOf(server, "s", yield* historyOf(server))
      yield* Effect.promise(() => tab.resumeStream())
      assert.lengthOf(pendingIn(tab), 1)
      yield* answer(chat, true)
      // too late, and the other way round: the first answer counts
      yield* answer(tab, false)
      assert.deepStrictEqual(server.refunds, [5])
      assert.deepStrictEqual(toolsOf(tab.lastMessage), toolsOf(chat.lastMessage))
      assert.strictEqual(textOf(tab.lastMessage), textOf(chat.lastMessage))
    }))

  it.live("denies pending requests by a new message, which the model reads next", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      yield* send(chat, "refund")
      yield* send(chat, "never mind")
      assert.deepStrictEqual(server.refunds, [])
      assert.strictEqual(textOf(chat.lastMessage), "You said: never mind")
      assert.strictEqual(chat.lastMessage!.id, `${chat.messages[2]!.id}-reply`)
      assert.deepStrictEqual((yield* historyOf(server)).map((it) => it.id), chat.messages.map((it) => it.id))
    }))

  it.live("takes a message while the agent works as its next turn, with a reply of its own", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      const first = chat.sendMessage({ text: "hold" })
      yield* Effect.promise(async () => {
        while (toolsOf(chat.lastMessage).length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
      })
      const second = chat.sendMessage({ text: "hurry" })
      yield* server.release
      yield* Effect.promise(() => Promise.all([first, second]))
      assert.deepStrictEqual(chat.messages.map(({ role }) => role), ["user", "assistant", "user", "assistant"])
      assert.deepStrictEqual(toolsOf(chat.messages[1]).map((it) => it.state), ["output-available"])
      assert.strictEqual(textOf(chat.lastMessage), "You said: hurry")
      assert.deepStrictEqual((yield* historyOf(server)).map((it) => it.id), chat.messages.map((it) => it.id))
    }))

  it.live("is its user's alone, and only approvers answer", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      yield* send(chat, "refund")
      const [id] = pendingIn(chat)
      // eve may run agents, and approve nothing
      const eve = new Chat<UIMessage>({
        id: "s",
        messages: structuredClone(chat.messages),
        transport: new DefaultChatTransport({
          api: `${server.url}/api/sessions/s/chat`,
          headers: { authorization: `Bearer ${others.eve}` }
        })
      })
      yield* Effect.promise(async () => {
        await eve.resumeStream()
        await eve.addToolApprovalResponse({ id: id!, approved: true })
        await eve.sendMessage()
      })
      assert.include(eve.error?.message, "Not found")
      const own = new Chat<UIMessage>({
        transport: new DefaultChatTransport({
          api: `${server.url}/api/sessions/s/chat`,
          headers: { authorization: `Bearer ${others.eve}` }
        })
      })
      yield* send(own, "refund")
      yield* Effect.promise(async () => {
        await own.addToolApprovalResponse({ id: pendingIn(own)[0]!, approved: true })
        await own.sendMessage()
      })
      assert.include(own.error?.message, "You do not have permission")
      assert.deepStrictEqual(server.refunds, [])
    }), { tags: ["SV28"] })

  it.live("runs once, however often a message is sent", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      const message = { id: "m1", role: "user", parts: [{ type: "text", text: "hello" }] } as const
      const post = () =>
        Effect.promise(async () => {
          const response = await fetch(`${server.url}/api/sessions/s/chat`, {
            method: "POST",
            headers: { ...headers, "content-type": "application/json" },
            body: JSON.stringify({ id: "s", messages: [message], trigger: "submit-message" })
          })
          return { status: response.status, headers: response.headers, text: await response.text() }
        })
      const first = yield* post()
      assert.strictEqual(first.headers.get("x-vercel-ai-ui-message-stream"), "v1")
      assert.strictEqual((yield* post()).text, first.text)
      assert.strictEqual(yield* server.requests, 1)
      assert.strictEqual(chat.status, "ready")
    }), { tags: ["SV28"] })

  it.live("answers only requests of the operation that a client names", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      yield* send(chat, "refund")
      const [, place, hash, request] = pendingIn(chat)[0]!.split("~")
      const other = chatOf(server, "other")
      yield* send(other, "hello")
      const operation = other.messages[0]!.id
      const post = (approvals: ReadonlyArray<object>) =>
        Effect.promise(async () => {
          const parts = approvals.map((approval) => ({ state: "approval-responded", approval }))
          const response = await fetch(`${server.url}/api/sessions/other/chat`, {
            method: "POST",
            headers: { ...headers, "content-type": "application/json" },
            body: JSON.stringify({ messages: [{ id: `${operation}-reply`, role: "assistant", parts }] })
          })
          await response.text()
          return response.status
        })
      const of = (operation: string) => ({ id: `${operation}~${place}~${hash}~${request}`, approved: true })
      assert.strictEqual(yield* post([of(operation)]), 200)
      assert.strictEqual(yield* post([of(chat.messages[0]!.id)]), 404)
      yield* Effect.sleep("300 millis")
      assert.deepStrictEqual(server.refunds, [])
      yield* answer(chat, true)
      assert.deepStrictEqual(server.refunds, [5])
    }), { tags: ["SV28"] })

  it.live("tells what went wrong with the model, and what is wrong with a request", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const chat = chatOf(server)
      yield* send(chat, "fail")
      assert.strictEqual(chat.status, "error")
      assert.include(chat.error?.message, "The model request failed")
      yield* send(chat, "hello")
      assert.strictEqual(textOf(chat.lastMessage), "You said: hello")
      yield* Effect.promise(() => chat.regenerate())
      assert.include(chat.error?.message, "The request is invalid")
    }))
})
