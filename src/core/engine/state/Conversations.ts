/**
 * The conversations of an executor: what their users said, and who listens to that and to what calls return.
 *
 * A conversation is the session of a process, or its batch where it has none. Sub-agents belong to the conversation of
 * their call. What is forgotten or could not be restored is not proved, so calls need approval.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { RecalledResult } from "../../contract/ToolProcess.ts"
import type { GateCall } from "../../gates/Gate.ts"
import * as Permissions from "../../gates/Permissions.ts"
import type { Provenance, Witness } from "../../gates/Provenance.ts"
import type { Breaker } from "../../gates/Reviewer.ts"
import type { ToolHandlers } from "../../vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import type { JournalWriter } from "../report/JournalWriter.ts"
import * as Reporter from "../report/Reporter.ts"
import * as RecordedConversation from "./RecordedConversation.ts"
import type { ProcessState } from "./State.ts"

/** So many conversations are kept in memory. */
const maxConversations = 1_000

/** So many texts are known again when they are submitted again. */
const maxHeard = 10_000

/** Characters of the user's words that are kept for reviewers. */
const maxWords = 50_000

interface Conversation {
  /** Who listens to it, if anybody does. */
  readonly witness: Witness | undefined
  /** What the user said, oldest first. */
  readonly words: LatestTexts
  /** Texts that were heard, so that one that is submitted again counts once. */
  readonly heard: Set<string>
  /** Its record has been read, or is being read. */
  restored: Deferred.Deferred<void> | undefined
  /** The calls whose results it received. */
  readonly calls: Set<string>
  /** How much arrived and was heard in it. */
  count: number
}

/** The latest texts of many. Adding one takes the same time however many there are. */
class LatestTexts {
  private texts: Array<string> = []
  /** Where those begin that are kept. */
  private first = 0
  private size = 0

  /** Oldest first. */
  get all(): ReadonlyArray<string> {
    return this.texts.slice(this.first)
  }

  add(text: string): void {
    this.texts.push(text)
    this.size += text.length
    while (this.size > maxWords && this.first < this.texts.length - 1) {
      this.size -= this.texts[this.first++]!.length
    }
    if (this.first * 2 > this.texts.length) {
      this.texts = this.texts.slice(this.first)
      this.first = 0
    }
  }
}

/** A call, as far as those who listen are concerned. */
interface Heard {
  readonly agent: { readonly permissions: Permissions.Permissions["Service"] }
  readonly gateCall: GateCall | undefined
  readonly parent: object | undefined
}

/** The conversations of an executor and its sub-agents. */
export class Conversations {
  private readonly all = new Map<string, Conversation>()
  private hasEvicted = false
  /** The conversations on record; `undefined`: not known, so each has to be looked for. */
  private recorded: RecordedConversation.Names | undefined
  /** Conversations that were forgotten on purpose: their record does not count. */
  private readonly forgotten = new Set<string>()
  private readonly provenance: Provenance["Service"] | undefined
  private readonly handlers: ToolHandlers["Service"]
  private readonly breaker: Breaker | undefined
  private readonly journal: JournalWriter | undefined
  private readonly principal: string
  private readonly now: () => number

  constructor(options: {
    readonly provenance: Provenance["Service"] | undefined
    readonly handlers: ToolHandlers["Service"]
    /** Counts the denials of a reviewer, if there is one. */
    readonly breaker: Breaker | undefined
    readonly journal: JournalWriter | undefined
    readonly principal: string
    readonly now: () => number
  }) {
    this.provenance = options.provenance
    this.handlers = options.handlers
    this.breaker = options.breaker
    this.journal = options.journal
    this.principal = options.principal
    this.now = options.now
  }

  /** Restores a conversation from the journal, once. If whoever does it goes away, the next one does it. */
  restore(process: ProcessState): Effect.Effect<void> {
    return Effect.suspend(() => {
      const { journal } = this
      const name = nameOf(process)
      const isOnRecord = journal !== undefined && !this.forgotten.has(name.key)
      const it = this.of(process, isOnRecord)
      const { restored: begun } = it
      if (begun !== undefined) {
        return Effect.andThen(
          Deferred.await(begun),
          Effect.suspend(() => it.restored === undefined ? this.restore(process) : Effect.void)
        )
      }
      const restored = it.restored = Deferred.makeUnsafe<void>()
      return Effect.onExit(isOnRecord ? this.read(journal, name, it) : Effect.void, (exit) => {
        if (exit._tag === "Failure") it.restored = undefined
        return Deferred.succeed(restored, undefined)
      })
    })
  }

  /** Adds what the user said, or pasted. */
  heard(process: ProcessState, text: string, from: "user" | "foreign"): void {
    const it = this.of(process)
    if (!this.take(it, text, from) || this.journal === undefined) return
    const { batch, session } = nameOf(process)
    const ordinal = it.count++
    Reporter.heard(this.journal, this.principal, { at: this.now(), batch, conversation: session, from, ordinal, text })
  }

  /** Numbers what arrives in a conversation. */
  numbered(process: ProcessState): () => number {
    const it = this.of(process)
    return () => it.count++
  }

  /** What the user said, oldest first. */
  wordsOf(process: ProcessState): ReadonlyArray<string> {
    return this.of(process).words.all
  }

  /** Says why approval is needed, if who listens objects to a call. */
  unproved({ agent, gateCall, parent }: Heard, process: ProcessState): Permissions.Objection | undefined {
    if (this.provenance === undefined || gateCall === undefined) return undefined
    // the host's rule chose the arguments
    if (process.fires !== undefined && parent === undefined) return undefined
    if (Permissions.skipsProvenance(agent.permissions, gateCall.tool)) return undefined
    return this.of(process).witness!.objects(gateCall)
  }

  /**
   * Adds the outcome of a call. The whole output counts, even if the model is shown a part of it: its fields are as
   * trustworthy, and the rest may be shown later.
   */
  received(
    process: ProcessState,
    { gateCall }: Pick<Heard, "gateCall">,
    outcome: ToolOutcome,
    ran: { readonly value: unknown } | undefined
  ): void {
    if (this.provenance === undefined || gateCall === undefined) return
    const { calls, witness } = this.of(process)
    const { args, tool } = gateCall
    const { callId } = outcome
    const from = { name: tool.name, callId }
    know(calls, tool.name, callId)
    if (outcome._tag === "Failed") return witness!.foreign(from, outcome.error)
    if (outcome._tag !== "Succeeded") return
    const { output } = outcome
    const value = ran?.value ?? (output._tag === "Artifact" ? undefined : output.value)
    if (value !== undefined) return witness!.received({ ...from, tool }, args, value)
    // an artifact of an earlier call: what it holds is not known here
    witness!.forgot()
    witness!.foreign(from, output.modelText)
  }

  /** Adds the results of tools that the model's provider executed: nothing is declared about them. */
  provided(process: ProcessState, calls: ReadonlyArray<RecalledResult>): void {
    if (this.provenance === undefined) return
    const { calls: known, witness } = this.of(process)
    for (const { id: callId, name, output } of calls) {
      know(known, name, callId)
      witness!.foreign({ name, callId }, output)
    }
  }

  /** Adds results of earlier calls that it has not received: whoever gives them may have them from anywhere. */
  recalled(process: ProcessState, results: ReadonlyArray<RecalledResult>): void {
    const { calls } = this.of(process)
    this.provided(process, results.filter(({ id, name }) => !calls.has(`${name} ${id}`)))
  }

  /** Forgets a conversation; one that was deleted stays forgotten, whatever is on record. */
  forget(key: string, isDeleted: boolean): void {
    this.all.delete(key)
    if (isDeleted && this.journal !== undefined) this.forgotten.add(key)
  }

  /** Reads the record of a conversation, unless it has none. */
  private read(
    journal: JournalWriter,
    name: Name,
    it: Conversation
  ): Effect.Effect<void> {
    const { breaker, handlers, principal, recorded } = this
    const id = RecordedConversation.idOf(name)
    const read = Effect.map(
      RecordedConversation.restore(journal, principal, name, {
        witness: it.witness,
        toolOf: (name) => handlers.current().get(name),
        heard: (text, from) => this.take(it, text, from),
        reviewed: (isDenial, at) => breaker?.count(name.key, isDenial, at),
        approved: () => breaker?.close(name.key),
        settled: (tool, callId) => know(it.calls, tool, callId),
        counted: (count) => {
          it.count = Math.max(it.count, count)
        }
      }),
      (recorded) => {
        this.recorded ??= recorded
      }
    )
    if (recorded === undefined || recorded.names.has(id)) return read
    // another process may have held it meanwhile
    return Effect.flatMap(
      RecordedConversation.catchUp(journal, principal, recorded),
      (isComplete) => isComplete && !recorded.names.has(id) ? Effect.void : read
    )
  }

  /** `isOnRecord`: what was received in it before is in the journal. */
  private of(process: ProcessState, isOnRecord = false): Conversation {
    const name = nameOf(process)
    const { key } = name
    const found = this.all.get(key) ?? this.begin(isOnRecord)
    this.all.delete(key)
    this.all.set(key, found)
    if (this.all.size > maxConversations) {
      this.all.delete(this.all.keys().next().value!)
      this.hasEvicted = true
    }
    // it is on record from now on
    if (this.recorded !== undefined && found.restored !== undefined) {
      this.recorded.names.add(RecordedConversation.idOf(name))
    }
    return found
  }

  private begin(isOnRecord: boolean): Conversation {
    const witness = this.provenance?.begin()
    // it may be one that was evicted, and what strangers wrote in it is not known any more
    if (this.hasEvicted && !isOnRecord) witness?.forgot()
    return {
      witness,
      words: new LatestTexts(),
      heard: new Set<string>(),
      restored: undefined,
      calls: new Set<string>(),
      count: 0
    }
  }

  /** Adds a text; false if it was heard before. */
  private take(it: Conversation, text: string, from: "user" | "foreign"): boolean {
    const known = `${from} ${text}`
    if (it.heard.has(known)) return false
    if (it.heard.size >= maxHeard) it.heard.clear()
    it.heard.add(known)
    it.witness?.heard(text, from)
    if (from === "user") it.words.add(text)
    return true
  }
}

const know = (calls: Set<string>, tool: string, callId: string): void => {
  if (calls.size >= maxHeard) calls.clear()
  calls.add(`${tool} ${callId}`)
}

/** The key of the conversation that a process belongs to. */
export const keyOf = (process: ProcessState): string => nameOf(process).key

interface Name extends RecordedConversation.Name {
  readonly key: string
}

const nameOf = ({ batch, session }: ProcessState): Name =>
  session.name === undefined
    ? { key: batch.key, batch: batch.id, session: undefined }
    : { key: session.key, batch: batch.id, session: session.name }
