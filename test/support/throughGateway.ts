/**
 * Plays scenarios through the MCP gateway: the official client in front of it, in
 * memory. A process of the scenario is a session; the client says which calls are
 * one turn, and asks for whole outcomes.
 */
import { Client } from "@modelcontextprotocol/client"
import { Approvals, ToolOutcome } from "effect-tool-executor"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { type Service, ToolExecutor } from "../../src/core/engine/ToolExecutor.ts"
import { isEnd, type ToolEvent } from "../../src/core/facts/ToolEvent.ts"
import * as McpGateway from "../../src/mcp/McpGateway.ts"
import * as SessionCalls from "../../src/mcp/SessionCalls.ts"
import type { ConnectedProcess, ScenarioTransport } from "../../src/testing/ScenarioTransport.ts"
import { serve } from "./mcpServer.ts"

const decodeOutcome = Schema.decodeUnknownSync(ToolOutcome.ToolOutcome)

type Play = ConnectedProcess["play"]

const connect: ScenarioTransport["connect"] = Effect.fnUntraced(function*({ executor, approver, process }) {
  const context = yield* Effect.context<never>()
  // whoever begins a session of the gateway begins with this process
  const session: Service = {
    ...executor,
    process: () => Effect.succeed(process)
  }
  const registrations = McpGateway.layer().pipe(
    Layer.provide(Layer.succeed(ToolExecutor, session)),
    Layer.provide(approver === undefined ? Layer.empty : Layer.succeed(Approvals.Approvals, approver.approvals))
  )
  const client = new Client({ name: "scenario", version: "1" }, { capabilities: { elicitation: {} } })
  client.setRequestHandler("elicitation/create", async ({ params }, { mcpReq }) => {
    const tool = /May (\S+) (?:run|write this)\?/.exec(params.message)?.[1] ?? ""
    const answer = await Effect.runPromiseWith(context)(approver!.next(tool), { signal: mcpReq.signal })
    return { action: "accept", content: contentOf(answer) }
  })
  // nothing is cancelled that has not been sent
  let unsentCalls = 0
  let allSent = Deferred.makeUnsafe<void>()
  const connect = yield* Effect.orDie(serve(registrations))
  yield* connect(client, (message) => {
    if ("method" in message && message.method === "tools/call" && --unsentCalls === 0) {
      Deferred.doneUnsafe(allSent, Effect.void)
    }
  })
  const { tools } = yield* Effect.promise(() => client.listTools())
  const listed = new Set(tools.map((it) => it.name))
  const controllers = new Map<string, AbortController>()
  let waves = 0

  const play: Play = Effect.fnUntraced(function*(calls, gone) {
    // a name that is not listed, or arguments that are no object, never reach a server
    const sent = calls.flatMap((call, index) =>
      listed.has(call.name) && typeof (call.params ?? {}) === "object" && !Array.isArray(call.params)
        ? [{ call, index }]
        : []
    )
    const seen: Array<ToolEvent> = []
    const observer = yield* process.events.pipe(
      Stream.takeUntil((event) => event._tag === "ToolsEnd"),
      Stream.runForEach((event) => Effect.sync(() => seen.push(event))),
      Effect.forkChild({ startImmediately: true })
    )
    unsentCalls = sent.length
    // a client that goes away waits for nothing
    const leaving = yield* gone.pipe(
      Effect.andThen(Effect.sync(() => {
        for (const controller of controllers.values()) controller.abort("the client went away")
      })),
      Effect.forkChild({ startImmediately: true })
    )
    const wave = `wave_${++waves}`
    const outcomes = yield* Effect.forEach(sent, ({ call }, place) =>
      Effect.promise(() => {
        const controller = new AbortController()
        controllers.set(call.id, controller)
        return client.callTool({
          name: call.name,
          arguments: (call.params ?? {}) as Record<string, unknown>,
          _meta: {
            [McpGateway.callKey]: call.id,
            [McpGateway.outcomeKey]: true,
            [SessionCalls.waveKey]: { id: wave, index: place, size: sent.length }
          }
        }, { signal: controller.signal }).then(
          ({ _meta }) => decodeOutcome(_meta?.[McpGateway.outcomeKey]),
          (): undefined => undefined
        )
      }), { concurrency: "unbounded" })
    if (sent.length > 0) yield* Fiber.join(observer)
    const own = seen.flatMap((event) => event._tag === "ToolsEnd" ? event.executionResults : [])
    const executionResults = calls.map((call, index) => {
      const place = sent.findIndex((it) => it.index === index)
      // what the client cancelled has no answer
      return place === -1 ? unsent(call, index, listed) : { ...(outcomes[place] ?? own[place]!), index }
    })
    yield* Fiber.interrupt(leaving)
    allSent = Deferred.makeUnsafe<void>()
    return {
      events: [
        ...seen.flatMap((event) => isEnd(event) ? [] : [{ ...event, index: sent[event.index]!.index } as ToolEvent]),
        { _tag: "ToolsEnd", toolMessages: [], executionResults } as unknown as ToolEvent
      ]
    }
  })
  return {
    play,
    cancelCall: (id) =>
      Effect.andThen(
        Effect.suspend(() => Deferred.await(allSent)),
        Effect.sync(() => controllers.get(id)?.abort("the user stopped it"))
      )
  }
})

/** Whether it is the outcome of a call that the protocol itself refuses. */
export const isUnsent = (outcome: ToolOutcome.ToolOutcome): boolean => outcome.queuedAt === -1

/** What becomes of a call that the protocol itself refuses. */
const unsent = (
  { id, name }: Parameters<Play>[0][number],
  index: number,
  listed: ReadonlySet<string>
): ToolOutcome.ToolOutcome => ({
  _tag: "Denied",
  callId: id,
  tool: name,
  index,
  attempt: 0,
  queuedAt: -1,
  commits: 0,
  reason: listed.has(name)
    ? { _tag: "InvalidParameters", issues: [] }
    : { _tag: "ToolNotFound", available: Array.from(listed) }
})

const contentOf = (answer: Approvals.Answer): Record<string, string> => {
  const edited: Record<string, string> = "params" in answer && answer.params !== undefined
    ? { arguments: JSON.stringify(answer.params) }
    : {}
  switch (answer._tag) {
    case "ApproveOnce":
      return { decision: "approve once", ...edited }
    case "ApproveForDuration":
      return { decision: "approve for 1 hour", ...edited }
    case "ApproveForScope":
      return { decision: "approve until this ends", ...edited }
    case "Deny":
      return answer.reason === undefined ? { decision: "deny" } : { decision: "deny", reason: answer.reason }
  }
}

/** Through the gateway, as a client. */
export const throughGateway: ScenarioTransport = { connect, answer: () => Effect.void }
