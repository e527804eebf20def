/**
 * The calls of an operation and the sub-agents that make them, told apart by events alone.
 *
 * A call keeps its identity when its wave is resumed after a restart: it is queued again, under the same id.
 */
import type * as AgentEvent from "../agent/AgentEvent.ts"
import type { Call, Of, Request, Result, SubAgentRun } from "./ConversationPart.ts"

/** A call, and what clients have of it. */
export interface CallState extends Call {
  /** Its id in events, which calls of other agents may have, too. */
  readonly name: string
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

interface RunState extends SubAgentRun {
  readonly operation: string
}

/** Finds the call and the sub-agent of an event. */
export class OperationCalls {
  readonly all: Array<CallState> = []
  private readonly operation: string
  private readonly places = new Map<string, CallState>()
  private readonly waves = new Map<string, { life: number; sequence: number }>()
  private readonly ids = new Set<string>()
  private readonly runs: Array<RunState> = []

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

  /** The run of a sub-agent that an event belongs to. The processes of an operation have its id and a number. */
  runOf(path: ReadonlyArray<string>, operation: string, place: number): SubAgentRun | undefined {
    if (path.length === 0) return undefined
    const peers = this.runs.filter((it) => isSamePath(it.path, path))
    const known = peers.findLast((it) => operation === it.operation || operation.startsWith(`${it.operation}-`))
    if (known !== undefined) return known
    const parent = this.runs.findLast((it) => isSamePath(it.path, path.slice(0, -1)))
    const caller = this.all.find((it) =>
      it.tool === path.at(-1) && it.isAnnounced && !it.isDone && it.by === parent &&
      !this.runs.some((run) => run.call === it.id)
    )
    // calls that a handler of a sub-agent makes have separate processes
    if (caller === undefined && peers.length > 0) return peers.at(-1)
    const run: RunState = { id: `${this.operation}-${place}`, path, call: caller?.id, parent, operation }
    this.runs.push(run)
    return run
  }
}

const providerKey = ({ operation, turn }: Of<"AssistantMessagePart">, id: string): string =>
  JSON.stringify([operation, turn, id])

const isSamePath = (one: ReadonlyArray<string>, other: ReadonlyArray<string>): boolean =>
  one.length === other.length && one.every((it, index) => it === other[index])
