/**
 * The events of an operation as parts of a conversation, from which the formats of other libraries are written.
 *
 * Whatever the events are, parts are balanced: texts start before they continue and end once, a call comes before its
 * result, and each result comes once. A call is announced when it starts, ends or needs approval, and not when it is
 * queued: clients wait for every call that they know of. Approval requests are held until the reader pauses, so that
 * they come last and together.
 */
import type * as Schema from "effect/Schema"
import type * as AgentEvent from "../agent/AgentEvent.ts"
import * as ToolEvents from "../core/facts/ToolEvent.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"

/** One run of a sub-agent. */
export interface SubAgentRun {
  readonly id: string
  /** Names of the sub-agents from the root down to this one. */
  readonly path: ReadonlyArray<string>
  /** The announced call that it works for, if known. */
  readonly call: string | undefined
  /** The run of the sub-agent that called it. */
  readonly parent: SubAgentRun | undefined
}

/** A call as clients know it. */
export interface Call {
  /** Unique in the operation. */
  readonly id: string
  readonly tool: string
  readonly params: Schema.Json
  readonly isProviders: boolean
  readonly by: SubAgentRun | undefined
}

/** How a call ended. `Denied`: its approval request was denied or expired; `reason` is that of the person. */
export type Result =
  | { readonly _tag: "Succeeded"; readonly value: Schema.Json }
  | { readonly _tag: "Failed"; readonly text: string }
  | { readonly _tag: "Denied"; readonly text: string; readonly reason: string | undefined }

/** An approval request of a call. */
export interface Request {
  readonly id: string
  readonly call: Call
  readonly why: string
  readonly diff: string | undefined
  /** Epoch milliseconds. */
  readonly expiresAt: number | undefined
}

/** A part of a conversation. `by` is absent for the root agent. */
export type Part =
  | { readonly _tag: "Turn" }
  | { readonly _tag: "TextStart"; readonly text: Text }
  | { readonly _tag: "TextDelta"; readonly text: Text; readonly delta: string }
  | { readonly _tag: "TextEnd"; readonly text: Text }
  | { readonly _tag: "CallStart"; readonly call: Call }
  | { readonly _tag: "CallReport"; readonly call: Call; readonly name: string; readonly value: Schema.Json }
  | { readonly _tag: "CallOutput"; readonly call: Call; readonly value: Schema.Json }
  | { readonly _tag: "CallEnd"; readonly call: Call; readonly result: Result }
  | { readonly _tag: "ApprovalRequest"; readonly handle: string; readonly request: Request }
  | {
    readonly _tag: "ApprovalResponse"
    readonly handle: string
    readonly request: Request
    readonly isApproved: boolean
    readonly reason?: string | undefined
  }
  | { readonly _tag: "File"; readonly id: string; readonly mediaType: string; readonly data: string }
  | { readonly _tag: "Source"; readonly source: Source }
  | { readonly _tag: "UserMessage"; readonly id: string; readonly text: string }
  | { readonly _tag: "End"; readonly end: End }

/** A text or reasoning of a model, as it streams in. */
export interface Text {
  readonly id: string
  readonly isReasoning: boolean
  readonly by: SubAgentRun | undefined
}

type Of<T extends AgentEvent.Wire["_tag"]> = Extract<AgentEvent.Wire, { readonly _tag: T }>

/** The last event of an operation. */
export type End = Of<"OperationEnd">

type ModelPart = Of<"AssistantMessagePart">["part"]

/** A document or page that the model refers to. */
export type Source = Extract<ModelPart, { readonly type: "source" }>

interface CallState extends Call {
  readonly process: string
  readonly wave: number
  readonly index: number
  isAnnounced: boolean
  isDone: boolean
  /** The request that a person denied, if its response is still to be sent. */
  denied: RequestState | undefined
}

interface RequestState extends Omit<Request, "expiresAt"> {
  readonly call: CallState
  /** Under which name clients know it; absent: it was not shown. */
  handle: string | undefined
}

interface RunState extends SubAgentRun {
  readonly operation: string
}

/** Folds the events of one operation, in order. */
export class OperationParts {
  private readonly operation: string
  private readonly texts = new Map<string, Text>()
  private readonly calls = new Map<string, CallState>()
  private readonly ids = new Set<string>()
  private readonly requests = new Map<string, RequestState>()
  private readonly expiries = new Map<string, number>()
  private readonly runs: Array<RunState> = []
  private turn = 0
  /** What clients have of the agent's text in this turn. */
  private said = ""
  private isIncomplete = false

  constructor(operation: string) {
    this.operation = operation
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
        return event.agentPath.length > 0
          ? []
          : [...this.ended(), { _tag: "UserMessage", id: event.id, text: event.text }]
      case "OperationEnd":
        return [...this.ended(), { _tag: "End", end: event }]
      case "ExecutingTool":
      case "ToolResultReceived":
      case "MessageQueued":
      case "Reminded":
      case "ModelRetry":
      case "HistoryCompacted":
      case "ToolsEnd":
      case "WaveSuspended":
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
    for (const call of this.calls.values()) call.isAnnounced = isKnown(call.id)
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
    const by = this.runOf(event.agentPath, event.operation, place)
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
        const call: CallState = {
          id: this.newId(part.id, place),
          tool: part.name,
          params: {},
          isProviders: true,
          by,
          process: event.operation,
          wave: event.turn,
          index: -1,
          isAnnounced: false,
          isDone: false,
          denied: undefined
        }
        this.calls.set(providerKey(event, part.id), call)
        return this.announced(call)
      }
      case "tool-result": {
        const call = this.calls.get(providerKey(event, part.id))
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
    const call = this.callOf(event, place)
    switch (event._tag) {
      case "ToolCallQueued":
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
      case "ToolCallComplete":
        return this.result(call, resultOf(event.outcome))
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

  private announced(call: CallState): ReadonlyArray<Part> {
    if (call.isAnnounced || call.isDone) return []
    call.isAnnounced = true
    return [{ _tag: "CallStart", call }]
  }

  /** The call of an event. A resumed call keeps its identity: it comes in another wave, under the same id. */
  private callOf(
    event: Of<"ToolCallQueued"> | Extract<AgentEvent.Wire, { readonly callId: string; process: string }>,
    place: number
  ): CallState {
    const { agentPath, callId, index, process, tool, wave } = event
    const by = this.runOf(agentPath, process, place)
    const key = JSON.stringify([agentPath, by?.id, callId])
    const known = this.calls.get(key)
    const own = JSON.stringify([agentPath, process, wave, index])
    const same = this.calls.get(own)
    if (same !== undefined && event._tag !== "ToolCallQueued") return same
    const isResumed = known !== undefined && !known.isDone && (known.process !== process || known.wave !== wave)
    const call: CallState = isResumed ? known : {
      id: this.newId(callId, place),
      tool,
      params: event._tag === "ToolCallQueued" ? event.params : {},
      isProviders: false,
      by,
      process,
      wave,
      index,
      isAnnounced: false,
      isDone: false,
      denied: undefined
    }
    this.calls.set(key, call)
    this.calls.set(own, call)
    return call
  }

  private newId(id: string, place: number): string {
    const own = this.ids.has(id) ? `${id}-${place}` : id
    this.ids.add(own)
    return own
  }

  private idAt(place: number): string {
    return `${this.operation}-${place}`
  }

  /** The run of a sub-agent that an event belongs to. The processes of an operation have its id and a number. */
  private runOf(path: ReadonlyArray<string>, operation: string, place: number): SubAgentRun | undefined {
    if (path.length === 0) return undefined
    const peers = this.runs.filter((it) => isSamePath(it.path, path))
    const known = peers.findLast((it) => operation === it.operation || operation.startsWith(`${it.operation}-`))
    if (known !== undefined) return known
    const parent = this.runs.findLast((it) => isSamePath(it.path, path.slice(0, -1)))
    const caller = Array.from(new Set(this.calls.values())).find((it) =>
      it.tool === path.at(-1) && it.isAnnounced && !it.isDone && it.by === parent &&
      !this.runs.some((run) => run.call === it.id)
    )
    // calls that a handler of a sub-agent makes have processes of their own
    if (caller === undefined && peers.length > 0) return peers.at(-1)
    const run: RunState = { id: this.idAt(place), path, call: caller?.id, parent, operation }
    this.runs.push(run)
    return run
  }
}

const providerKey = ({ operation, turn }: Of<"AssistantMessagePart">, id: string): string =>
  JSON.stringify([operation, turn, id])

const isSamePath = (one: ReadonlyArray<string>, other: ReadonlyArray<string>): boolean =>
  one.length === other.length && one.every((it, index) => it === other[index])

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
