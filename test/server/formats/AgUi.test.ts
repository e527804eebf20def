/** AG-UI's own client against a server. */
import { buildResumeArray, HttpAgent, type Interrupt, type Message, type RunErrorEvent } from "@ag-ui/client"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type AgentServer, others, start, token } from "../../support/AgentServer.ts"

const agentOf = ({ url }: AgentServer, threadId = "t") =>
  new HttpAgent({
    url: `${url}/api/sessions/${threadId}/ag-ui`,
    threadId,
    headers: { authorization: `Bearer ${token}` }
  })

const ask = (agent: HttpAgent, content: string, runId?: string) =>
  Effect.promise(() => {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content })
    return agent.runAgent(runId === undefined ? {} : { runId })
  })

/** Answers all interrupts. */
const resume = (agent: HttpAgent, payload: unknown) =>
  Effect.promise(() =>
    agent.runAgent({
      resume: buildResumeArray(
        agent.pendingInterrupts,
        Object.fromEntries(agent.pendingInterrupts.map((it) => [it.id, { status: "resolved", payload }]))
      )
    })
  )

const contents = (messages: ReadonlyArray<Message>, role: Message["role"]) =>
  messages.flatMap((it) => it.role === role && typeof it.content === "string" ? [it.content] : [])

const callsOf = (messages: ReadonlyArray<Message>) =>
  messages.flatMap((it) => it.role === "assistant" ? it.toolCalls ?? [] : [])

describe("a client of AG-UI with an agent", () => {
  it.live("runs an operation under the name of the run", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const agent = agentOf(server)
      const { newMessages, result } = yield* ask(agent, "hello", "r1")
      assert.strictEqual(result, "You said: hello")
      assert.deepStrictEqual(contents(newMessages, "assistant"), ["You said: hello"])
      const operation = yield* Effect.promise(() =>
        fetch(`${server.url}/api/sessions/t/operations/r1`, { headers: agent.headers })
      )
      assert.strictEqual(operation.status, 200)
    }))

  it.live("is interrupted by an approval request, and continues with the answer", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const agent = agentOf(server)
      const { newMessages } = yield* ask(agent, "refund")
      assert.deepStrictEqual(contents(newMessages, "reasoning"), ["Is that so?"])
      const [interrupt] = agent.pendingInterrupts as ReadonlyArray<Interrupt>
      assert.deepInclude(interrupt, { reason: "tool_call", toolCallId: callsOf(newMessages)[0]!.id })
      assert.isDefined(interrupt?.expiresAt)
      assert.deepStrictEqual(server.refunds, [])
      const { newMessages: more } = yield* resume(agent, { approved: true })
      assert.deepStrictEqual(server.refunds, [5])
      assert.deepStrictEqual(contents(more, "tool"), ["{\"refunded\":5}"])
      assert.include(contents(more, "assistant").join(), "I have read: result")
      // the call is in the messages once
      assert.lengthOf(callsOf(agent.messages), 1)
      assert.deepStrictEqual(agent.pendingInterrupts, [])
    }), { tags: ["SV27"] })

  it.live("stays interrupted while others have to approve, and continues once they have", () =>
    Effect.gen(function*() {
      const server = yield* start({}, {
        default: "allow",
        ask: [{ tool: "refund", approvers: { people: ["ada", "cy"], count: 2 } }]
      })
      const agent = agentOf(server)
      yield* ask(agent, "refund")
      yield* resume(agent, { approved: true, note: "Mine." })
      assert.lengthOf(agent.pendingInterrupts, 1)
      assert.deepStrictEqual(server.refunds, [])
      const again = yield* Effect.flip(Effect.tryPromise({
        try: () =>
          agent.runAgent({
            resume: agent.pendingInterrupts.map((it) => ({
              interruptId: it.id,
              status: "resolved",
              payload: { approved: true }
            }))
          }),
        catch: String
      }))
      assert.include(again, "AlreadyApproved")
      const headers = { authorization: `Bearer ${others.cy}`, "content-type": "application/json" }
      const list = yield* Effect.promise(() =>
        fetch(`${server.url}/api/approvals`, { headers }).then((it) => it.json())
      )
      const [{ hash, id }] = (list as { readonly open: ReadonlyArray<{ readonly id: string; readonly hash: string }> })
        .open as [
          { readonly id: string; readonly hash: string }
        ]
      const body = JSON.stringify({ hash, answer: { _tag: "ApproveOnce" } })
      yield* Effect.promise(() => fetch(`${server.url}/api/approvals/${id}/answer`, { method: "POST", headers, body }))
      const { newMessages } = yield* resume(agent, { approved: true })
      assert.deepStrictEqual(server.refunds, [5])
      assert.include(contents(newMessages, "tool").join(), "{\"refunded\":5}")
    }))

  it.live("denies with a reason, or approves other arguments", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const agent = agentOf(server)
      yield* ask(agent, "refund")
      const denied = yield* resume(agent, { approved: false, reason: "not without a receipt" })
      assert.include(contents(denied.newMessages, "tool").join(), "not without a receipt")
      yield* ask(agent, "refund")
      yield* resume(agent, { approved: true, editedArgs: { order: "o5", amount: 3 } })
      assert.deepStrictEqual(server.refunds, [3])
    }))

  it.live("names the run of a sub-agent in everything that it does", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const agent = agentOf(server)
      const seen: Array<string> = []
      agent.subscribe({
        onEvent: ({ event }) => {
          if (/^SUBAGENT_|_RESULT$/.test(event.type)) seen.push(event.type)
        }
      })
      yield* ask(agent, "delegate")
      const [interrupt] = agent.pendingInterrupts
      const own = agent.messages.filter((it) => it.subagentRunId === interrupt?.subagentRunId)
      assert.deepStrictEqual(contents(own, "assistant"), ["I refund it."])
      yield* resume(agent, { approved: true })
      assert.deepStrictEqual(server.refunds, [7])
      assert.deepStrictEqual(seen, [
        "SUBAGENT_STARTED",
        "SUBAGENT_FINISHED",
        "SUBAGENT_STARTED",
        "TOOL_CALL_RESULT",
        "SUBAGENT_FINISHED",
        "TOOL_CALL_RESULT"
      ])
    }))

  it.live("gets errors of the model as errors of the run, and problems of a request by their names", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const agent = agentOf(server)
      const errors: Array<RunErrorEvent> = []
      agent.subscribe({ onRunErrorEvent: ({ event }) => void errors.push(event) })
      yield* Effect.ignore(Effect.tryPromise(() => {
        agent.addMessage({ id: "m", role: "user", content: "fail" })
        return agent.runAgent()
      }))
      assert.deepInclude(errors[0], { code: "ModelFailed" })
      const other = agentOf(server)
      other.addMessage({ id: "m", role: "user", content: "refund" })
      const problem = yield* Effect.flip(Effect.tryPromise({
        try: () => other.runAgent({ resume: [{ interruptId: "made up", status: "resolved", payload: {} }] }),
        catch: (error) => String(error)
      }))
      assert.include(problem, "urn:tool-executor:problem:invalid")
      // a run that does not answer what is pending is refused
      yield* ask(agentOf(server), "refund")
      const refused = yield* Effect.flip(Effect.tryPromise({
        try: () => {
          const stranger = agentOf(server)
          stranger.addMessage({ id: "m", role: "user", content: "never mind" })
          return stranger.runAgent()
        },
        catch: (error) => String(error)
      }))
      assert.include(refused, "urn:tool-executor:problem:session-busy")
      assert.include(refused, "Answer its pending approval requests")
    }))
})
