/**
 * The calls of an operation and the sub-agents that make them, told apart by events alone.
 *
 * A call keeps its identity when its wave is resumed after a restart: it is queued again, under the same id.
 */
import type * as AgentEvent from "../../agent/AgentEvent.ts"
import type { Call, Of, Request, Result, SubAgentRun } from "./ConversationPart.ts"

/** A call, and what clients have of it. */
export interface CallState extends Call {
  /** Its id in events, which calls of other agents may have, too. */
  readonly name: string
  /** Absent: the provider runs it. */
  readonly process: string | undefined
  /** The wave that it was last in: a resumed call comes again. */
  wave: string
  isAnnounced: boolean
  isDone: boolean
  /** The request that a person denied, if its response is still to be sent. */
  denied: RequestState | undefined
  /** Its result, if it may be resumed nevertheless. */
  held: Result | undefined
}

/** A pending request. */
export interface RequestState extends Omit<Request, "expiresAt"> {
  readonly call: CallState
  /** Under which name clients know it; absent: it was not shown. */
  handle: string | undefined
}

/** Finds the call and the sub-agent of an event. */
export class OperationCalls {
  readonly all: Array<CallState> = []
  private readonly operation: string
  private readonly places = new Map<string, CallState>()
  private readonly waves = new Map<string, { life: number; sequence: number }>()
  private readonly ids = new Set<string>()
  /** Runs of sub-agents, by their operations and processes. */
  private readonly runs = new Map<string, SubAgentRun>()

  constructor(operation: string) {
    this.operation = operation
  }

  /** The call of an event; `place` is the position of the event. */
  of(
    event: Extract<AgentEvent.Wire, { readonly callId: string; readonly process: string }>,
    place: number
  ): CallState {
    const { agentPath, callId, index, process, sequence, tool, wave: number } = event
    const key = JSON.stringify([agentPath, process, number])
    const life = this.waves.get(key) ?? { life: 1, sequence: 0 }
    // a wave that is resumed counts from 1 again
    if (event._tag === "ToolCallQueued" && sequence <= life.sequence) life.life++
    life.sequence = sequence
    this.waves.set(key, life)
    const wave = `${key}${life.life}`
    const own = `${wave}/${index}`
    const here = this.places.get(own)
    if (here !== undefined && event._tag !== "ToolCallQueued") return here
    const by = this.runOf(agentPath, process, place)
    // calls of the wave that have ended come again, too
    const resumed = this.all.find((it) =>
      it.name === callId && it.by === by && it.wave !== wave && (!it.isDone || it.wave.startsWith(key))
    )
    const params = event._tag === "ToolCallQueued" ? event.params : {}
    const call = resumed ?? this.newCall(place, {
      id: callId,
      name: callId,
      process,
      tool,
      params,
      isProviders: false,
      by,
      wave
    })
    call.wave = wave
    this.places.set(own, call)
    return call
  }

  /** Adds a call that the provider runs. */
  addProviders(
    event: Of<"AssistantMessagePart">,
    { name: tool, id }: { readonly id: string; readonly name: string },
    place: number
  ): CallState {
    const by = this.runOf(event.agentPath, event.operation, place)
    const call = this.newCall(place, {
      id,
      name: id,
      process: undefined,
      tool,
      params: {},
      isProviders: true,
      by,
      wave: event.operation
    })
    this.places.set(providerKey(event, id), call)
    return call
  }

  /** The call that the provider runs under an id. */
  providers(event: Of<"AssistantMessagePart">, id: string): CallState | undefined {
    return this.places.get(providerKey(event, id))
  }

  private newCall(place: number, call: Omit<CallState, "isAnnounced" | "isDone" | "denied" | "held">): CallState {
    const id = this.newId(call.id, place)
    const made = { ...call, id, isAnnounced: false, isDone: false, denied: undefined, held: undefined }
    this.all.push(made)
    return made
  }

  private newId(id: string, place: number): string {
    const own = this.ids.has(id) ? `${id}-${place}` : id
    this.ids.add(own)
    return own
  }

  /** Notes the call that a sub-agent works for. If the call is resumed, the run continues. */
  starts({ agentPath: path, caller, operation, process }: Of<"SubAgentStarted">, place: number): void {
    const call = this.all.findLast((it) => it.process === caller.process && it.name === caller.callId)
    const known = call && Array.from(this.runs.values()).find((it) => it.call === call.id)
    const run = known ?? this.runs.get(operation) ?? this.newRun(path, place, call)
    this.runs.set(operation, run)
    this.runs.set(process, run)
  }

  /** The run of a sub-agent that an event belongs to, by its operation or process. */
  runOf(path: ReadonlyArray<string>, name: string, place: number): SubAgentRun | undefined {
    if (path.length === 0) return undefined
    const run = this.runs.get(name) ?? this.newRun(path, place, undefined)
    this.runs.set(name, run)
    return run
  }

  private newRun(path: ReadonlyArray<string>, place: number, call: CallState | undefined): SubAgentRun {
    return { id: `${this.operation}-${place}`, path, call: call?.id, parent: call?.by }
  }
}

const providerKey = ({ operation, turn }: Of<"AssistantMessagePart">, id: string): string =>
  JSON.stringify([operation, turn, id])
