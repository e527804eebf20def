/** An operation in the format of another library, from where the client's copy of the conversation ends. */
import type * as AgentEvent from "../../agent/AgentEvent.ts"
import type { Part } from "./ConversationPart.ts"
import { OperationParts } from "./OperationParts.ts"

/** Writes one answer: a message of the AI SDK, or a run of AG-UI. */
export interface Writer<Chunk> {
  readonly write: (parts: ReadonlyArray<Part>) => ReadonlyArray<Chunk>
  /** Ends the answer with the approval requests that are shown. */
  readonly pause: (parts: ReadonlyArray<Part>) => ReadonlyArray<Chunk>
  /** Ends the answer because the user sent another message. */
  readonly interrupt: () => ReadonlyArray<Chunk>
  /** Ends the answer because the server stops. */
  readonly stop: () => ReadonlyArray<Chunk>
}

/**
 * What a client asks for: all answers of the operation, the answer to a message, or what follows the pause that its
 * approval requests come from.
 */
export type From =
  | { readonly _tag: "Start" }
  | { readonly _tag: "Message"; readonly id: string }
  | {
    readonly _tag: "Pause"
    readonly handles: ReadonlyArray<Handle>
    /** Whether the client's copy has a call. */
    readonly knows: (call: string) => boolean
    /** Requests that were approved and that others have to approve, too. */
    readonly waiting?: ReadonlySet<string> | undefined
  }

/**
 * The name under which a client knows an approval request. It says where the client's copy ends, and which content the
 * request had.
 */
export interface Handle {
  readonly operation: string
  readonly request: string
  readonly place: number
  readonly hash: string
}

/** What clients read when the server stops, or the operation moves to another one. */
export const stopping = "The server that runs the operation stops. The operation continues: connect again."

export const writeHandle = ({ hash, operation, place, request }: Handle): string =>
  `${operation}~${place}~${hash}~${request}`

/** `undefined` if the text is not the name of a request. */
export const readHandle = (text: string): Handle | undefined => {
  const found = /^([^~]+)~(\d{1,15})~([0-9a-f]*)~(.+)$/s.exec(text)
  if (found === null) return undefined
  return { operation: found[1]!, place: Number(found[2]), hash: found[3]!, request: found[4]! }
}

/** Folds the events of an operation into the chunks of a client. */
export class FormattedOperation<Chunk> {
  /** The answer is complete. */
  isOver = false
  private readonly operation: string
  private readonly parts: OperationParts
  private readonly writerOf: (message: string) => Writer<Chunk>
  private readonly from: From
  private writer: Writer<Chunk> | undefined
  /** The message that is being answered. The first one has the name of the operation. */
  private message: string
  /** Events up to here are in the client's copy. */
  private seen: number
  private place = 0

  constructor(operation: string, from: From, writerOf: (message: string) => Writer<Chunk>) {
    this.operation = operation
    this.parts = new OperationParts(operation)
    this.from = from
    this.writerOf = writerOf
    this.message = operation
    this.seen = from._tag === "Pause" ? from.handles.reduce((most, { place }) => Math.max(most, place), 0) : 0
    if (from._tag === "Start" || (from._tag === "Message" && from.id === operation)) this.writer = writerOf(operation)
  }

  /** Pending approval requests that the client waits for. */
  get pending(): ReadonlyArray<string> {
    if (this.isOver) return []
    if (this.writer !== undefined) return this.parts.pending
    const { from, parts, place, seen } = this
    // nothing follows the pause until others have approved
    return from._tag === "Pause" && place >= seen ? parts.pending.filter((it) => from.waiting?.has(it) === true) : []
  }

  /** Events were dropped. */
  gap(): void {
    this.parts.gap()
  }

  next(event: AgentEvent.Wire, place: number): ReadonlyArray<Chunk> {
    if (this.isOver) return []
    if (place > this.seen) this.catchUp()
    this.place = place
    // the operation continues when its host starts again
    if (event._tag === "OperationEnd" && event.reason._tag === "Suspended") return []
    const chunks: Array<Chunk> = []
    for (const part of this.parts.next(event, place)) {
      if (part._tag === "UserMessage") chunks.push(...this.begins(part.id))
      else if (place > this.seen && !this.isOver) chunks.push(...this.writer?.write([part]) ?? [])
    }
    if (event._tag === "OperationEnd") this.isOver = true
    return chunks
  }

  /** Ends the answer with all pending approval requests. `hashes` has those that the user may answer. */
  pause(hashes: ReadonlyMap<string, string>): ReadonlyArray<Chunk> {
    this.catchUp()
    this.isOver = true
    const { operation, place } = this
    const shown = this.parts.pause((request) =>
      writeHandle({ operation, request, place, hash: hashes.get(request) ?? "" })
    )
    return this.writer?.pause(shown) ?? []
  }

  /** Ends the answer where the events end before the operation does. */
  stop(): ReadonlyArray<Chunk> {
    if (this.isOver) return []
    this.catchUp()
    this.isOver = true
    return this.writer?.stop() ?? []
  }

  /** Continues at the pause: the client's copy has been replayed. */
  private catchUp(): void {
    const { from } = this
    if (from._tag !== "Pause" || this.writer !== undefined) return
    const known = new Map(from.handles.map((it) => [it.request, writeHandle(it)]))
    this.parts.pause((request) => known.get(request))
    this.parts.knows(from.knows)
    this.writer = this.writerOf(this.message)
  }

  /** A message of the user begins another answer. */
  private begins(message: string): ReadonlyArray<Chunk> {
    const { from, writer } = this
    this.message = message
    this.parts.knows(() => false)
    if (from._tag === "Start" || (from._tag === "Message" && from.id === message)) {
      this.writer = this.writerOf(message)
      return []
    }
    if (writer === undefined) return []
    this.isOver = true
    return writer.interrupt()
  }
}
