/**
 * Holds that whatever an operation does, the AI SDK and AG-UI accept what is written of it, and that a client that
 * stopped for approvals and continued has the same as one that read on.
 */
import { type BaseEvent, verifyEvents } from "@ag-ui/client"
import { EventSchema } from "@ag-ui/core/schemas"
import { assert, describe, it } from "@effect/vitest"
import { isToolUIPart, readUIMessageStream, type UIMessage, type UIMessageChunk, uiMessageChunkSchema } from "ai"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { from as observableOf, lastValueFrom, toArray } from "rxjs"
import { AgentEvent } from "../../../src/agent/index.ts"
import { AgUiWriter, Event } from "../../../src/server/formats/AgUi.ts"
import { fromHistory } from "../../../src/server/formats/ChatMessages.ts"
import { FormattedOperation, type From, readHandle } from "../../../src/server/formats/FormattedOperation.ts"
import { Chunk, UiMessageWriter } from "../../../src/server/formats/UiMessageStream.ts"
import { randomFrom, type SeededRandom } from "../../support/randomCase.ts"
import { play } from "../../support/randomTree.ts"
import { seeds, timeout } from "../../support/seeds.ts"

type Wire = AgentEvent.Wire

/** What a client reads until its answer is over: it may stop at any pending request. */
const read = <C>(
  events: ReadonlyArray<Wire>,
  formatted: FormattedOperation<C>,
  pausesAt: (place: number) => boolean
): { readonly chunks: ReadonlyArray<C>; readonly isPaused: boolean } => {
  const chunks: Array<C> = []
  for (const [index, event] of events.entries()) {
    chunks.push(...formatted.next(event, index + 1))
    if (formatted.isOver) return { chunks, isPaused: false }
    if (formatted.pending.length > 0 && pausesAt(index + 1)) {
      chunks.push(...formatted.pause(new Map()))
      return { chunks, isPaused: true }
    }
  }
  chunks.push(...formatted.stop())
  return { chunks, isPaused: false }
}

const streamOf = (chunks: ReadonlyArray<Chunk>) =>
  new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk as unknown as UIMessageChunk)
      controller.close()
    }
  })

/** The message that `useChat` has after a stream. */
const uiMessage = async (chunks: ReadonlyArray<Chunk>, before?: UIMessage): Promise<UIMessage | undefined> => {
  const schema = uiMessageChunkSchema()
  for (const chunk of chunks) {
    const checked = await schema.validate!(chunk)
    if (!checked.success) throw new Error(`${JSON.stringify(chunk)}: ${checked.error.message}`)
    Schema.decodeUnknownSync(Chunk)(chunk)
  }
  const ended = chunks.flatMap((it) =>
    (it.type === "tool-output-available" && it.preliminary !== true) || it.type === "tool-output-error" ||
      it.type === "tool-output-denied" ?
      [it.toolCallId] :
      []
  )
  assert.strictEqual(new Set(ended).size, ended.length, "each call ends once")
  const errors = chunks.filter((it) => it.type === "error").length
  let failures = 0
  let last = before
  const stream = streamOf(chunks.filter((it) => it.type !== "error"))
  for await (
    const message of readUIMessageStream({
      stream,
      ...before === undefined ? {} : { message: structuredClone(before) },
      onError: (error) => {
        failures++
        throw error
      }
    })
  ) last = structuredClone(message)
  assert.strictEqual(failures, 0)
  assert.isAtMost(errors, 1)
  return last
}

const textOf = (message: UIMessage | undefined) =>
  message?.parts.map((it) => it.type === "text" ? it.text : "").join("") ?? ""

const toolsOf = (message: UIMessage | undefined) =>
  Object.fromEntries(
    message?.parts.filter(isToolUIPart).map((it) => [it.toolCallId, [it.type, it.state, it.input, it.output]]) ?? []
  )

const lastStep = (message: UIMessage) =>
  message.parts.slice(message.parts.findLastIndex((it) => it.type === "step-start") + 1).filter(isToolUIPart)

const approvals = (message: UIMessage) =>
  message.parts.filter(isToolUIPart).flatMap((it) =>
    it.state === "approval-requested" ? [readHandle(it.approval.id)!] : []
  )

/** Reads an operation as a client that stops for approvals now and then. */
const chat = async (events: ReadonlyArray<Wire>, operation: string, { chance }: SeededRandom, dice: number) => {
  const seen = new Map<string, UIMessage | undefined>()
  const messages = [
    operation,
    ...events.flatMap((it) => it._tag === "MessageTaken" && it.agentPath.length === 0 ? [it.id] : [])
  ]
  for (const id of messages) {
    let from: From = { _tag: "Message", id }
    let message: UIMessage | undefined
    while (true) {
      const formatted: FormattedOperation<Chunk> = new FormattedOperation(
        operation,
        from,
        (it) => new UiMessageWriter(`${it}-reply`)
      )
      const { chunks, isPaused } = read(events, formatted, () => chance(dice))
      message = await uiMessage(chunks, message)
      if (!isPaused) break
      const copy = message!
      assert.strictEqual(copy.id, `${id}-reply`)
      assert.isNotEmpty(approvals(copy))
      // `lastAssistantMessageIsCompleteWithApprovalResponses` looks at the last step alone
      if (lastStep(copy).some((it) => it.state === "approval-requested")) {
        assert.isTrue(lastStep(copy).every((it) => it.state === "approval-requested"))
      }
      from = {
        _tag: "Pause",
        handles: approvals(copy),
        knows: (call) => copy.parts.some((it) => isToolUIPart(it) && it.toolCallId === call)
      }
    }
    seen.set(id, message)
  }
  return seen
}

const agUi = async (events: ReadonlyArray<Event>) => {
  for (const event of events) {
    const checked = EventSchema.safeParse(event)
    if (!checked.success) throw new Error(`${JSON.stringify(event)}: ${checked.error.message}`)
    Schema.decodeUnknownSync(Event)(event)
  }
  return lastValueFrom(observableOf(events as unknown as ReadonlyArray<BaseEvent>).pipe(verifyEvents(), toArray()))
}

const wireOf = (seed: number) =>
  Effect.map(play(seed), ({ events }) =>
    events.flatMap((it): ReadonlyArray<Wire> => {
      const wire = AgentEvent.toWire(it)
      return Result.isSuccess(wire) ? [wire.success] : []
    }))

/** The same, with events missing, repeated and out of order. */
const damaged = (events: ReadonlyArray<Wire>, { chance, int }: SeededRandom): ReadonlyArray<Wire> => {
  const all = events.flatMap((it) => chance(0.1) ? [] : chance(0.1) ? [it, it] : [it])
  for (let swaps = int(all.length); swaps > 0; swaps--) {
    const [one, other] = [int(all.length), int(all.length)]
    ;[all[one], all[other]] = [all[other]!, all[one]!]
  }
  return all
}

const operationOf = (events: ReadonlyArray<Wire>): string => {
  const own = events.find((it) => "operation" in it && it.agentPath.length === 0)
  return own !== undefined && "operation" in own ? own.operation : "none"
}

const common = { agentPath: [], operation: "op", turn: 1, at: 0 }
const wave = { agentPath: [], batch: "op", process: "op-1", wave: 1, at: 0 }
const call = { ...wave, callId: "c1", tool: "refund", index: 0 }

const part = (of: Extract<Wire, { readonly _tag: "AssistantMessagePart" }>["part"]): Wire => ({
  _tag: "AssistantMessagePart",
  ...common,
  part: of
})

const complete = (outcome: Extract<Wire, { readonly _tag: "ToolCallComplete" }>["outcome"]): Wire => ({
  _tag: "ToolCallComplete",
  ...call,
  sequence: 9,
  dropped: 0,
  outcome
})

const outcome = { callId: "c1", tool: "refund", index: 0, queuedAt: 0, commits: 0 }

/** A model thinks, says something and calls a tool that needs approval. */
const asking: ReadonlyArray<Wire> = [
  part({ type: "reasoning-start", id: "r" }),
  part({ type: "reasoning-delta", id: "r", delta: "Hm." }),
  part({ type: "reasoning-end", id: "r" }),
  part({ type: "text-start", id: "t" }),
  part({ type: "text-delta", id: "t", delta: "One moment." }),
  part({ type: "text-end", id: "t" }),
  { _tag: "ToolCallQueued", ...call, sequence: 1, params: { amount: 5 } },
  { _tag: "ToolApprovalRequested", ...call, sequence: 2, requestId: "q", why: "refund needs approval" }
]

const resolved = (answer: string): Wire => ({
  _tag: "ToolApprovalResolved",
  ...call,
  sequence: 3,
  requestId: "q",
  answer
})

const usage = { inputTokens: 1, outputTokens: 2, cachedInputTokens: 0, cacheWriteInputTokens: 0 }

const end: Wire = {
  _tag: "OperationEnd",
  ...common,
  reason: { _tag: "Finished" },
  message: "The model has finished.",
  text: "Done.",
  usage,
  turns: 2,
  calls: 1
}

const chunksOf = (events: ReadonlyArray<Wire>, from: From = { _tag: "Start" }) => {
  const formatted = new FormattedOperation("op", from, (it) => new UiMessageWriter(`${it}-reply`))
  const chunks = events.flatMap((event, index) => formatted.next(event, index + 1))
  return formatted.pending.length > 0 ? [...chunks, ...formatted.pause(new Map([["q", "abc"]]))] : chunks
}

describe("an operation in other formats", () => {
  it("ends a message with its approval requests, and continues it with the answer", () => {
    assert.deepStrictEqual(chunksOf(asking), [
      { type: "start", messageId: "op-reply" },
      { type: "start-step" },
      { type: "reasoning-start", id: "op-1" },
      { type: "reasoning-delta", id: "op-1", delta: "Hm." },
      { type: "reasoning-end", id: "op-1" },
      { type: "text-start", id: "op-4" },
      { type: "text-delta", id: "op-4", delta: "One moment." },
      { type: "text-end", id: "op-4" },
      { type: "finish-step" },
      { type: "start-step" },
      { type: "tool-input-available", toolCallId: "c1", toolName: "refund", input: { amount: 5 } },
      {
        type: "tool-approval-request",
        approvalId: "op~8~abc~q",
        toolCallId: "c1",
        reason: "refund needs approval",
        approvalDescriptor: { approval: "q" }
      },
      { type: "finish-step" },
      { type: "finish", finishReason: "tool-calls" }
    ])
    const from: From = { _tag: "Pause", handles: [readHandle("op~8~abc~q")!], knows: (it) => it === "c1" }
    const denied = complete({
      _tag: "Denied",
      ...outcome,
      attempt: 0,
      reason: { _tag: "PermissionDenied", by: "user", reason: "not without a receipt" }
    })
    assert.deepStrictEqual(chunksOf([...asking, resolved("user"), denied, end], from), [
      { type: "start", messageId: "op-reply" },
      { type: "start-step" },
      { type: "tool-approval-response", approvalId: "op~8~abc~q", approved: false, reason: "not without a receipt" },
      { type: "tool-output-denied", toolCallId: "c1" },
      { type: "finish-step" },
      { type: "finish", finishReason: "stop", messageMetadata: { operation: "op", end: "Finished", usage } }
    ])
  })

  it("ends open texts at a pause, and begins them again when they continue", () => {
    const said = (type: "text-start" | "text-delta", operation = "sub-1"): Wire => ({
      _tag: "AssistantMessagePart",
      ...common,
      operation,
      agentPath: ["clerk"],
      part: type === "text-start" ? { type, id: "t" } : { type, id: "t", delta: "more" }
    })
    const before = [...asking, said("text-start"), said("text-delta")]
    const reasoning = (chunks: ReadonlyArray<Chunk>) =>
      chunks.filter((it) => it.type.startsWith("reasoning")).slice(-3).map((it) => it.type)
    const balanced = ["reasoning-start", "reasoning-delta", "reasoning-end"]
    assert.deepStrictEqual(reasoning(chunksOf(before)), balanced)
    const from: From = { _tag: "Pause", handles: [readHandle("op~10~abc~q")!], knows: () => true }
    assert.deepStrictEqual(
      reasoning(chunksOf([...before, said("text-delta"), resolved("ApproveOnce"), end], from)),
      balanced
    )
  })

  it("announces a call again that the client's copy lacks", () => {
    const done = complete({
      _tag: "Succeeded",
      ...outcome,
      attempt: 1,
      output: { _tag: "Inline", value: 1 },
      requestsContinuation: false,
      hasContinueRule: false
    })
    const from: From = { _tag: "Pause", handles: [readHandle("op~8~abc~q")!], knows: () => false }
    assert.deepStrictEqual(
      chunksOf([...asking, resolved("ApproveOnce"), done, end], from).map((it) => it.type).slice(2, 6),
      ["tool-input-available", "tool-approval-request", "tool-approval-response", "tool-output-available"]
    )
  })

  it("has the whole text, where a server dropped fragments of it", () => {
    const final: Wire = {
      _tag: "AssistantMessageFinal",
      ...common,
      text: "One two three.",
      toolCalls: [],
      finish: "stop",
      usage,
      provider: "p",
      model: "m"
    }
    const fragment = (delta: string) => part({ type: "text-delta", id: "t", delta })
    const formatted = new FormattedOperation("op", { _tag: "Start" }, (it) => new UiMessageWriter(it))
    const chunks = [...formatted.next(part({ type: "text-start", id: "t" }), 1), ...formatted.next(fragment("One "), 2)]
    formatted.gap()
    chunks.push(...formatted.next(fragment("three."), 9), ...formatted.next(final, 10), ...formatted.next(end, 11))
    assert.strictEqual(chunks.map((it) => it.type === "text-delta" ? it.delta : "").join(""), "One two three.")
  })

  it("takes the result of a background agent for no message of the user", () => {
    const taken = (id: string): Wire => ({ _tag: "MessageTaken", ...common, id, text: "Result" })
    const said = [
      part({ type: "text-start", id: "t" }),
      part({ type: "text-delta", id: "t", delta: "Done." }),
      part({ type: "text-end", id: "t" })
    ]
    const starts = (id: string) =>
      chunksOf([...said, taken(id), ...said, end]).flatMap((it) => it.type === "start" ? [it.messageId] : [])
    assert.deepStrictEqual(starts("background/clerk-1"), ["op-reply"])
    assert.deepStrictEqual(starts("m2"), ["op-reply", "m2-reply"])
    const text = (role: "user" | "assistant", text: string, operation?: string) =>
      operation === undefined ? { role, text } : { role, text, operation }
    const history = [
      text("user", "go", "m1"),
      text("assistant", "Begun."),
      text("user", "Result", "background/clerk-1"),
      text("assistant", "Done.")
    ]
    assert.deepStrictEqual(fromHistory(history).map((it) => it.id), ["m1", "m1-reply"])
  })

  it("tells the model's failure as an error, and a cancellation as an interruption", () => {
    const failed = { ...end, reason: { _tag: "ModelFailed" }, message: "The model request failed: no" } as Wire
    assert.deepStrictEqual(chunksOf([failed]), [{ type: "error", errorText: "The model request failed: no" }])
    const cancelled: Wire = { ...end, reason: { _tag: "Cancelled", reason: "the user left" } } as Wire
    assert.deepStrictEqual(chunksOf([...asking.slice(0, 5), cancelled]).slice(-4), [
      { type: "text-end", id: "op-4" },
      { type: "abort", reason: "the user left" },
      { type: "finish-step" },
      {
        type: "finish",
        finishReason: "interrupted",
        messageMetadata: { operation: "op", end: "Cancelled", usage }
      }
    ])
  })

  it.effect(
    "is a UI message stream that the AI SDK reads, with the same message however often it stops for approvals",
    () =>
      Effect.gen(function*() {
        for (const seed of seeds(40)) {
          const events = yield* wireOf(seed)
          const operation = operationOf(events)
          const random = randomFrom(seed)
          const whole = yield* Effect.promise(() => chat(events, operation, random, 0))
          const stopped = yield* Effect.promise(() => chat(events, operation, random, 0.5))
          for (const [id, message] of whole) {
            assert.deepStrictEqual(textOf(stopped.get(id)), textOf(message), `seed ${seed}`)
            assert.deepStrictEqual(toolsOf(stopped.get(id)), toolsOf(message), `seed ${seed}`)
          }
          // after a restart, a server has no fragments
          const kept = events.filter((it) => it._tag !== "AssistantMessagePart")
          const late = yield* Effect.promise(() => chat(kept, operation, random, 0))
          for (const [id, message] of whole) {
            assert.deepStrictEqual(textOf(late.get(id)), textOf(message), `seed ${seed}`)
          }
          const last = whole.get(operation)
          const open = last?.parts.filter(isToolUIPart).filter((it) => !it.state.startsWith("output-")) ?? []
          assert.deepStrictEqual(open, [], `seed ${seed}`)
        }
      }),
    { tags: ["SV27"], timeout }
  )

  it.effect(
    "is a UI message stream that the AI SDK reads, whatever is missing, repeated or out of order",
    () =>
      Effect.gen(function*() {
        for (const seed of seeds(40)) {
          const random = randomFrom(seed)
          const events = damaged(yield* wireOf(seed), random)
          yield* Effect.promise(() => chat(events, operationOf(events), random, random.pick([0, 0.05, 0.5])))
        }
      }),
    { tags: ["SV27"], timeout }
  )

  it("names the call that each sub-agent works for, in whichever order they begin, also after a restart", () => {
    const clerk = (callId: string, operation: string): ReadonlyArray<Wire> => {
      const own = { ...common, operation, agentPath: ["clerk"] }
      const call = {
        ...wave,
        agentPath: ["clerk"],
        process: `clerk-of-${callId}`,
        callId: "1",
        tool: "refund",
        index: 0
      }
      return [
        { _tag: "SubAgentStarted", ...own, caller: { process: "op-1", callId }, process: call.process },
        { _tag: "AssistantMessagePart", ...own, part: { type: "reasoning-start", id: "r" } },
        { _tag: "AssistantMessagePart", ...own, part: { type: "reasoning-delta", id: "r", delta: callId } },
        { _tag: "ToolCallQueued", ...call, sequence: 1, params: { for: callId } },
        { _tag: "ToolCallStart", ...call, sequence: 2, attempt: 1, limitMillis: 1 }
      ]
    }
    const calls = ["a", "b"].flatMap((callId, index): ReadonlyArray<Wire> => {
      const call = { ...wave, callId, tool: "clerk", index }
      return [
        { _tag: "ToolCallQueued", ...call, sequence: index * 10 + 1, params: {} },
        { _tag: "ToolCallStart", ...call, sequence: index * 10 + 2, attempt: 1, limitMillis: 1 }
      ]
    })
    const events = [...calls, ...clerk("b", "x"), ...clerk("a", "y"), ...calls, ...clerk("a", "z"), end]
    const formatted: FormattedOperation<Event> = new FormattedOperation(
      "op",
      { _tag: "Start" },
      () => new AgUiWriter({ threadId: "t", runId: "r" })
    )
    const { chunks } = read(events, formatted, () => false)
    const parents = new Map(
      chunks.flatMap((it) => it.type === "SUBAGENT_STARTED" ? [[it.subagentRunId, it.parentToolCallId] as const] : [])
    )
    assert.sameMembers(Array.from(parents.values()), ["a", "b"])
    const said = chunks.flatMap((it) =>
      it.type === "REASONING_MESSAGE_CONTENT" ? [[it.delta, parents.get(it.subagentRunId ?? "")]] : []
    )
    assert.deepStrictEqual(said, [["b", "b"], ["a", "a"], ["a", "a"]])
  })

  it.effect(
    "is a run of AG-UI that names the call of each sub-agent, among others of the same name",
    () =>
      Effect.gen(function*() {
        let checked = 0
        for (const seed of seeds(60)) {
          const events = yield* wireOf(seed)
          const formatted: FormattedOperation<Event> = new FormattedOperation(
            operationOf(events),
            { _tag: "Start" },
            () => new AgUiWriter({ threadId: "t", runId: "r" })
          )
          const { chunks } = read(events, formatted, () => false)
          const parents = new Map<string, string | undefined>()
          const runs = new Map<string, string | undefined>()
          const tasks = new Map<string, string>()
          for (const it of chunks) {
            if (it.type === "SUBAGENT_STARTED") parents.set(it.subagentRunId, it.parentToolCallId)
            if (it.type === "TOOL_CALL_START") runs.set(it.toolCallId, it.subagentRunId)
            if (it.type !== "TOOL_CALL_ARGS") continue
            const { task } = JSON.parse(it.delta) as { readonly task?: string }
            if (task !== undefined) tasks.set(it.toolCallId, (JSON.parse(task) as { readonly id: string }).id)
          }
          for (const call of parents.values()) assert.isDefined(call, `seed ${seed}`)
          // tasks are named after that of their caller
          for (const [call, task] of tasks) {
            const run = runs.get(call)
            if (run === undefined) continue
            const above = tasks.get(parents.get(run) ?? "")
            assert.isTrue(task.startsWith(`${above}/`), `seed ${seed}: ${task} below ${above}`)
            checked++
          }
        }
        assert.isAbove(checked, 0)
      }),
    timeout
  )

  it.effect("is a run of AG-UI that its client accepts, also in pieces and damaged", () =>
    Effect.gen(function*() {
      for (const seed of seeds(60)) {
        const random = randomFrom(seed)
        const all = yield* wireOf(seed)
        const events = random.chance(0.5) ? all : damaged(all, random)
        const operation = operationOf(events)
        let from: From = { _tag: "Message", id: operation }
        for (let run = 1;; run++) {
          const writer = new AgUiWriter({ threadId: "t", runId: `r${run}` })
          const formatted: FormattedOperation<Event> = new FormattedOperation(operation, from, () => writer)
          const { chunks, isPaused } = read(events, formatted, () => random.chance(0.3))
          yield* Effect.promise(() => agUi(chunks))
          const end = chunks.at(-1)!
          assert.include(["RUN_FINISHED", "RUN_ERROR"], end.type, `seed ${seed}`)
          if (!isPaused) break
          assert.isTrue(end.type === "RUN_FINISHED" && end.outcome.type === "interrupt")
          from = {
            _tag: "Pause",
            handles: end.type === "RUN_FINISHED" && "interrupts" in end.outcome
              ? end.outcome.interrupts.map((it) => readHandle(it.id)!)
              : [],
            knows: () => true
          }
        }
      }
    }), { tags: ["SV27"], timeout })

  it("continues after the last pause, however many requests a client names", () => {
    const handles = Array.from({ length: 300_000 }, (_, place) => ({ operation: "op", request: "r", place, hash: "" }))
    const from: From = { _tag: "Pause", handles, knows: () => true }
    assert.isFalse(new FormattedOperation("op", from, (it) => new UiMessageWriter(it)).isOver)
  })
})
