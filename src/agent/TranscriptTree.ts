/**
 * The conversations of an operation's sub-agents. Each belongs to the call that the sub-agent works for, so that a
 * resumed call continues it.
 *
 * They are stored with the operation's session. Without a session, the history of a suspended operation carries them in
 * the options of their calls.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as CompactedHistory from "./CompactedHistory.ts"
import * as Conversation from "./Conversation.ts"
import { Below, type End, type Place, type Transcript, type TranscriptError } from "./Transcripts.ts"

/** What an operation has used already. */
export interface Used {
  /** The turns of its sub-agents. */
  readonly turns: ReadonlyArray<Conversation.Origin>
  /** Calls started by sub-agents that have ended. Calls of the others are counted when they continue. */
  readonly calls: number
}

type Received = Exclude<Below["received"], undefined>[number]

/** The conversation of one operation, and those of its sub-agents. */
export class Branch {
  private readonly path: ReadonlyArray<Place>
  private readonly store: Transcript["appendBelow"] | undefined
  /** Everything that its calls began is stored: a call without a conversation has done nothing. */
  private readonly isWhole: boolean
  private readonly kept: Array<Prompt.Message> = []
  private readonly branches = new Map<string, Branch>()
  /** It replaces a conversation of the same call. */
  private isNew = false
  /** Messages that its caller sent it. */
  private readonly received: Array<Received> = []
  /** How the sub-agent ended. */
  end: End | undefined

  private constructor(path: ReadonlyArray<Place>, store: Transcript["appendBelow"] | undefined, isWhole: boolean) {
    this.path = path
    this.store = store
    this.isWhole = isWhole
  }

  /** The branch of a root: with what its session has stored, and with what its history carries. */
  static root(history: ReadonlyArray<Prompt.Message>, transcript: Transcript | undefined): Branch {
    const isWhole = transcript !== undefined && Conversation.open(transcript.messages).calls.length > 0
    const root = new Branch([], transcript?.appendBelow, isWhole)
    for (const part of carriedBy(history)) root.add(part)
    for (const part of transcript?.below ?? []) root.add(part)
    return root
  }

  /** The messages so far. */
  get messages(): ReadonlyArray<Prompt.Message> {
    return this.kept
  }

  private get hasBegun(): boolean {
    return this.kept.length > 0 || this.end !== undefined
  }

  /** Whether a call that was interrupted can continue from here. */
  continues(place: Place): boolean {
    return this.isWhole || this.branches.has(keyOf(place))
  }

  /** The conversation of the sub-agent that works for a call: the one it has if the call is resumed, or a new one. */
  begin(place: Place, isResumed: boolean): Branch {
    const isNew = !isResumed && this.branches.get(keyOf(place))?.hasBegun === true
    if (isNew) this.branches.delete(keyOf(place))
    const branch = this.at(place)
    branch.isNew = isNew
    return branch
  }

  /** Appends messages once they are stored. */
  append(messages: ReadonlyArray<Prompt.Message>): Effect.Effect<void, TranscriptError> {
    return this.write({ messages })
  }

  /** Stores a message that its caller sent it. */
  receives(message: Received): Effect.Effect<void, TranscriptError> {
    return this.write({ messages: [], received: [message] })
  }

  hasReceived(message: string): boolean {
    return this.received.some(({ id }) => id === message)
  }

  /** Messages of its caller that it has not read. */
  get unread(): ReadonlyArray<Received> {
    if (this.received.length === 0) return []
    const read = new Set(this.kept.map(Conversation.inputOf))
    return this.received.filter(({ id }) => !read.has(id))
  }

  /** Stores how the sub-agent ended. */
  ends(end: End): Effect.Effect<void, TranscriptError> {
    return this.write({ messages: [], end })
  }

  /** What its sub-agents have used: all of them, or those of some processes. */
  used(processes?: ReadonlySet<string>): Used {
    const below = Array.from(this.branches.values()).filter(({ path }) =>
      processes?.has(path.at(-1)!.process) !== false
    )
    return {
      turns: below.flatMap((it) => [
        ...Conversation.originsIn(it.kept),
        ...CompactedHistory.originsIn(it.kept),
        ...it.used().turns
      ]),
      calls: below.reduce((sum, { end }) => sum + (end?.calls ?? 0), 0)
    }
  }

  /** A history that carries its conversations, if they are not stored and calls of it are open. */
  carriedIn(history: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> {
    if (this.store !== undefined || this.branches.size === 0) return history
    const isOpen = Conversation.open(history).calls.length > 0 || Conversation.behind(history).length > 0
    return Conversation.carrying(history, (process, call) => {
      const branch = isOpen ? this.branches.get(keyOf({ process, call })) : undefined
      return branch === undefined ? undefined : Option.getOrUndefined(encode(branch.parts))
    })
  }

  private get parts(): ReadonlyArray<Below> {
    const { branches, end, kept, path, received } = this
    const own = { of: path, messages: kept, received, ...(end === undefined ? {} : { end }) }
    return [own, ...Array.from(branches.values()).flatMap((it) => it.parts)]
  }

  private add({ end, isNew, messages, of, received = [] }: Below): void {
    const above = of.slice(0, -1).reduce((it: Branch, place) => it.at(place), this)
    const last = of.at(-1)
    if (last === undefined) return
    const branch = above.begin(last, isNew !== true)
    branch.isNew = false
    branch.kept.push(...messages)
    branch.received.push(...received)
    branch.end ??= end
  }

  private at(place: Place): Branch {
    const key = keyOf(place)
    let found = this.branches.get(key)
    if (found === undefined) {
      found = new Branch([...this.path, place], this.store, this.isWhole)
      this.branches.set(key, found)
    }
    return found
  }

  private write(part: Pick<Below, "messages" | "received" | "end">): Effect.Effect<void, TranscriptError> {
    return Effect.suspend(() => {
      const { isNew, path: of, store } = this
      const stored = store?.({ of, ...part, ...(isNew ? { isNew } : {}) }) ?? Effect.void
      return Effect.map(stored, () => {
        this.isNew = false
        this.kept.push(...part.messages)
        this.received.push(...part.received ?? [])
        this.end ??= part.end
      })
    })
  }
}

const keyOf = ({ call, process }: Place): string => JSON.stringify([process, call])

const Parts = Schema.toCodecJson(Schema.Array(Below))
const encode = Schema.encodeUnknownOption(Parts)
const decode = Schema.decodeUnknownOption(Parts)

/** The conversations that the calls of a history carry. */
const carriedBy = (history: ReadonlyArray<Prompt.Message>): ReadonlyArray<Below> =>
  Conversation.carriedBy(history).flatMap((it) => Option.getOrElse(decode(it), () => []))
