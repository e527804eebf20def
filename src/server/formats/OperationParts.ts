/**
 * The events of an operation as parts of a conversation, from which the formats of other libraries are written.
 *
 * Whatever the events are, parts are balanced: texts start before they continue and end once, a call comes before its
 * result, and each result comes once. A call is announced when it starts, ends or needs approval, and not when it is
 * queued: clients wait for every call that they know of. Approval requests are held until the reader pauses, so that
 * they come last and together.
 */
import type * as Schema from "effect/Schema"
import type * as AgentEvent from "../../agent/AgentEvent.ts"
import * as Conversation from "../../agent/Conversation.ts"
import * as ToolEvents from "../../core/facts/ToolEvent.ts"
import * as ToolOutcome from "../../core/vocabulary/ToolOutcome.ts"
import type { Of, Part, Request, Result, SubAgentRun, Text } from "./ConversationPart.ts"
import { type CallState, OperationCalls, type RequestState } from "./OperationCalls.ts"

/** Folds the events of one operation, in order. */
export class OperationParts {
  private readonly operation: string
  private readonly texts = new Map<string, Text>()
  private readonly calls: OperationCalls
  private readonly requests = new Map<string, RequestState>()
  private readonly expiries = new Map<string, number>()
  private turn = 0
  /** What clients have of the agent's text in this turn. */
  private said = ""
  private isIncomplete = false

  constructor(operation: string) {
    this.operation = operation
    this.calls = new OperationCalls(operation)
  }

  /** Ids of the pending approval requests. */
  get pending(): ReadonlyArray<string> {
    return Array.from(this.requests.keys())
  }

  /** Fragments were dropped: the rest of the text follows when it is complete. */
  gap(): void {
    this.isIncomplete = true
  }

  /** The parts of the next event; `place` is its position in the operation. */
  next(event: AgentEvent.Wire, place: number): ReadonlyArray<Part> {
    switch (event._tag) {
      case "SubAgentStarted":
        this.calls.starts(event, place)
        return []
      case "AssistantMessagePart":
        return [...this.begunTurn(event), ...this.modelPart(event, place)]
      case "AssistantMessageFinal":
        return [
          ...this.begunTurn(event),
          ...this.rest(event, place),
          ...this.ended((key) => key.startsWith(`${event.operation}/`))
        ]
      case "RequestToolApprovals":
        for (const { expiresAt, id } of event.requests) if (expiresAt !== "unlimited") this.expiries.set(id, expiresAt)
        return []
      case "MessageTaken":
        return event.agentPath.length > 0 || Conversation.isResult(event.id)
          ? []
          : [...this.ended(), { _tag: "UserMessage", id: event.id, text: event.text }]
      case "ToolsEnd":
        return event.agentPath.length > 0 ? [] : this.released()
      case "WaveSuspended":
        if (event.agentPath.length === 0) this.calls.all.forEach((call) => call.held = undefined)
        return []
      case "OperationEnd":
        return [...this.released(), ...this.ended(), { _tag: "End", end: event }]
      case "ExecutingTool":
      case "ToolResultReceived":
      case "MessageQueued":
      case "Reminded":
      case "ModelRetry":
      case "HistoryCompacted":
        return []
      default:
        return this.callEvent(event, place)
    }
  }

  /**
   * Ends open texts and shows the pending approval requests that have a handle. Calls that clients have not been shown
   * yet are announced with their request.
   */
  pause(handleOf: (request: string) => string | undefined): ReadonlyArray<Part> {
    const shown = Array.from(this.requests.values()).flatMap((request): ReadonlyArray<Part> => {
      const handle = handleOf(request.id)
      return handle === undefined ? [] : this.shown(request, handle)
    })
    return [...this.ended(), ...shown]
  }

  /** Announces all other calls again. A client knows calls by their ids. */
  knows(isKnown: (call: string) => boolean): void {
    for (const call of this.calls.all) call.isAnnounced = isKnown(call.id)
  }

  private begunTurn(event: Of<"AssistantMessagePart" | "AssistantMessageFinal">): ReadonlyArray<Part> {
    if (event.agentPath.length > 0 || event.turn === this.turn) return []
    this.turn = event.turn
    this.said = ""
    return [{ _tag: "Turn" }]
  }

  /** What is missing of the agent's text, because its fragments were dropped. */
  private rest({ agentPath, text }: Of<"AssistantMessageFinal">, place: number): ReadonlyArray<Part> {
    if (agentPath.length > 0) return []
    this.isIncomplete = false
    const delta = text.startsWith(this.said) ? text.slice(this.said.length) : ""
    this.said = ""
    if (delta === "") return []
    const open = Array.from(this.texts.values()).findLast((it) => it.by === undefined && !it.isReasoning)
    if (open !== undefined) return [{ _tag: "TextDelta", text: open, delta }]
    const own: Text = { id: this.idAt(place), isReasoning: false, by: undefined }
    return [{ _tag: "TextStart", text: own }, { _tag: "TextDelta", text: own, delta }, { _tag: "TextEnd", text: own }]
  }

  private modelPart(event: Of<"AssistantMessagePart">, place: number): ReadonlyArray<Part> {
    const { part } = event
    const by = this.calls.runOf(event.agentPath, event.operation, place)
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
      case "text-delta":
      case "reasoning-delta":
      case "text-end":
      case "reasoning-end":
        return this.textPart(event, part, by, place)
      case "tool-call": {
        if (part.providerExecuted !== true) return []
        return this.announced(this.calls.addProviders(event, part, place))
      }
      case "tool-result": {
        const call = this.calls.providers(event, part.id)
        if (call === undefined) return []
        if (part.preliminary === true) {
          return [...this.announced(call), { _tag: "CallOutput", call, value: part.result }]
        }
        return this.result(
          call,
          part.isFailure
            ? { _tag: "Failed", text: asText(part.result) }
            : { _tag: "Succeeded", value: part.result }
        )
      }
      case "file":
        return by === undefined
          ? [{ _tag: "File", id: this.idAt(place), mediaType: part.mediaType, data: part.data }]
          : []
      case "source":
        return by === undefined ? [{ _tag: "Source", source: part }] : []
      default:
        return []
    }
  }

  private textPart(
    { operation }: { readonly operation: string },
    part: { readonly type: string; readonly id: string; readonly delta?: string },
    by: SubAgentRun | undefined,
    place: number
  ): ReadonlyArray<Part> {
    const isReasoning = part.type.startsWith("reasoning")
    if (by === undefined && !isReasoning) {
      if (this.isIncomplete) return []
      this.said += part.delta ?? ""
    }
    const key = `${operation}/${isReasoning ? "reasoning" : "text"}/${part.id}`
    const known = this.texts.get(key)
    if (part.type.endsWith("-end")) return this.ended((it) => it === key)
    const isNew = known === undefined || part.delta === undefined
    const text: Text = isNew ? { id: this.idAt(place), isReasoning, by } : known
    this.texts.set(key, text)
    const parts: Array<Part> = []
    if (isNew && known !== undefined) parts.push({ _tag: "TextEnd", text: known })
    if (isNew) parts.push({ _tag: "TextStart", text })
    if (part.delta !== undefined) parts.push({ _tag: "TextDelta", text, delta: part.delta })
    return parts
  }

  /** Ends the open texts whose key is meant. */
  private ended(isMeant: (key: string) => boolean = () => true): ReadonlyArray<Part> {
    return Array.from(this.texts).filter(([key]) => isMeant(key)).map(([key, text]) => {
      this.texts.delete(key)
      return { _tag: "TextEnd", text }
    })
  }

  private callEvent(
    event: Exclude<ToolEvents.Wire, { readonly _tag: "ToolsEnd" | "WaveSuspended" }>,
    place: number
  ): ReadonlyArray<Part> {
    const call = this.calls.of(event, place)
    switch (event._tag) {
      case "ToolCallQueued":
      case "ToolShadowed":
      case "ToolReviewed":
        return []
      case "ToolCallStart":
        return this.announced(call)
      case "ToolApprovalRequested": {
        const { diff, requestId: id, why } = event
        // after a restart, the same request returns
        const known = this.requests.get(id)
        this.requests.set(id, { id, call, why, diff, handle: known?.handle })
        return []
      }
      case "ToolApprovalResolved":
        return this.resolved(event)
      case "ToolPartialResult":
        return call.isDone ? [] : [...this.announced(call), { _tag: "CallOutput", call, value: event.value }]
      case "ToolCallComplete": {
        const { outcome } = event
        const result = resultOf(outcome)
        if (outcome._tag !== "Cancelled" || outcome.started) return this.result(call, result)
        call.held = result
        return []
      }
      default: {
        const { _tag, agentPath: _a, at: _b, batch: _c, callId: _d, index: _e, process: _p, ...rest } = event
        const { sequence: _s, tool: _t, wave: _w, ...value } = rest
        return call.isDone
          ? []
          : [...this.announced(call), { _tag: "CallReport", call, name: ToolEvents.sseName(event), value }]
      }
    }
  }

  private resolved({ answer, requestId }: Of<"ToolApprovalResolved">): ReadonlyArray<Part> {
    const request = this.requests.get(requestId)
    // a suspended request returns under the same id
    if (request === undefined || answer === "suspended") return []
    this.requests.delete(requestId)
    if (answer === "withdrawn") return []
    if (!isApproval(answer)) {
      // the outcome of the call says why
      request.call.denied = request
      return []
    }
    return this.answered(request, true, undefined)
  }

  private answered(request: RequestState, isApproved: boolean, reason: string | undefined): ReadonlyArray<Part> {
    const isShown = request.handle !== undefined && request.call.isAnnounced
    const handle = request.handle ?? request.id
    return [
      ...isShown ? [] : this.shown(request, handle),
      {
        _tag: "ApprovalResponse",
        handle,
        request: this.request(request),
        isApproved,
        ...reason === undefined ? {} : { reason }
      }
    ]
  }

  private shown(request: RequestState, handle: string): ReadonlyArray<Part> {
    request.handle = handle
    return [...this.announced(request.call), { _tag: "ApprovalRequest", handle, request: this.request(request) }]
  }

  private request({ call, diff, id, why }: RequestState): Request {
    return { id, call, why, diff, expiresAt: this.expiries.get(id) }
  }

  private result(call: CallState, result: Result): ReadonlyArray<Part> {
    if (call.isDone) return []
    const { denied } = call
    const isDenial = result._tag === "Denied" && denied !== undefined
    const said = denied === undefined ? [] : this.answered(denied, false, isDenial ? result.reason : undefined)
    for (const [id, request] of this.requests) if (request.call === call) this.requests.delete(id)
    call.denied = undefined
    call.held = undefined
    const parts: ReadonlyArray<Part> = [
      ...said,
      ...this.announced(call),
      {
        _tag: "CallEnd",
        call,
        result: isDenial || result._tag !== "Denied" ? result : { _tag: "Failed", text: result.text }
      }
    ]
    call.isDone = true
    return parts
  }

  /** The results of calls that were cancelled before they started, once it is clear that they are not resumed. */
  private released(): ReadonlyArray<Part> {
    return this.calls.all.flatMap((call) => call.held === undefined ? [] : this.result(call, call.held))
  }

  private announced(call: CallState): ReadonlyArray<Part> {
    if (call.isAnnounced || call.isDone) return []
    call.isAnnounced = true
    return [{ _tag: "CallStart", call }]
  }

  private idAt(place: number): string {
    return `${this.operation}-${place}`
  }
}

const isApproval = (answer: string): boolean => answer.startsWith("Approve")

const asText = (value: Schema.Json): string => typeof value === "string" ? value : JSON.stringify(value)

const resultOf = (outcome: Of<"ToolCallComplete">["outcome"]): Result => {
  if (outcome._tag === "Succeeded") {
    const { output } = outcome
    const value = output._tag === "Artifact"
      ? { artifact: output.ref, preview: output.preview }
      : output.value ?? null
    return { _tag: "Succeeded", value }
  }
  // only a success differs from what the host has in more than details of a rule
  const text = ToolOutcome.text(outcome as ToolOutcome.ToolOutcome)
  if (outcome._tag !== "Denied") return { _tag: "Failed", text }
  const { reason } = outcome
  return reason._tag === "PermissionDenied" || reason._tag === "WriteDenied"
    ? { _tag: "Denied", text, reason: reason.by === "user" ? reason.reason : text }
    : { _tag: "Failed", text }
}
