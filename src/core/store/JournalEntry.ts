/**
 * What a journal has of a call, entry by entry: when it arrived, what was decided of it, who was asked and answered,
 * when it started, what it wrote, how it ended.
 *
 * Entries are plain JSON. Secrets are taken out and arguments and outputs left out (`Journal.Keeps`) before a driver
 * sees them.
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Evidence } from "../facts/Evidence.ts"
import * as Fact from "../facts/Fact.ts"
import { Approvers, GivenApproval } from "../vocabulary/Approvers.ts"
import { Grant } from "../vocabulary/Grant.ts"
import { ToolOutcome } from "../vocabulary/ToolOutcome.ts"

const common = {
  /** Epoch milliseconds. */
  at: Schema.Finite,
  principal: Schema.String,
  /** The executor that writes: no other one has this text. Sub-agents have their root's. */
  session: Schema.String
}

/**
 * Its number among what arrived and was heard in its conversation, from 0, where it matters to `Provenance`: a record
 * with a number missing was pruned.
 */
const ordinal = Schema.optionalKey(Schema.Finite)

const call = {
  ...common,
  /** Names of the sub-agents from the root down to the one that calls. */
  agentPath: Schema.Array(Schema.String),
  batch: Schema.String,
  process: Schema.String,
  /** Number of the wave in its process, from 1. */
  wave: Schema.Finite,
  /** Place of the call in its wave, from 0. */
  index: Schema.Finite,
  callId: Schema.String,
  tool: Schema.String,
  /**
   * Identifies the call when it is submitted a second time: a hash with a key of principal, agent, batch, process where
   * it has a name, id, tool and arguments. Entries of one call have the same.
   */
  key: Schema.String
}

/** Schema of what is kept of arguments: themselves without secrets, a hash that knows equal ones again, or nothing. */
export const KeptArguments = Schema.Union([
  Schema.TaggedStruct("Full", { value: Schema.Unknown }),
  Schema.TaggedStruct("Hash", { hash: Schema.String }),
  Schema.TaggedStruct("None", {})
])

export type KeptArguments = typeof KeptArguments.Type

/**
 * A call was submitted. Its arguments are as decoded, control arguments out and the host's own in; of a call that was
 * refused on Arrival, as the model wrote them.
 */
export const Arrived = Schema.TaggedStruct("Arrived", {
  ...call,
  class: Schema.optionalKey(Schema.String),
  /** One text for tools that describe themselves in the same words and take the same arguments. */
  revision: Schema.optionalKey(Schema.String),
  args: KeptArguments,
  /** The session whose conversation it belongs to, where it matters to `Provenance`. */
  conversation: Schema.optionalKey(Schema.String),
  ordinal,
  /** The targets of the call, if they are known. */
  targets: Schema.optionalKey(Schema.Array(Schema.String)),
  /** It was refused before anything ran: it holds up none of the others. */
  isRefused: Schema.optionalKey(Schema.Boolean),
  /** It was submitted before, and resumes from the record. */
  isResumed: Schema.optionalKey(Schema.Boolean),
  /** Its span, where it has one: a later life of the call is linked to it. */
  span: Schema.optionalKey(Fact.SpanId)
})

/** A gate has decided: `gate` is its name, `sentence` what it says. */
export const Decided = Schema.TaggedStruct("Decided", {
  ...call,
  verdict: Schema.Literals(["allowed", "refused"]),
  gate: Schema.String,
  sentence: Schema.String
})

/** A shadow policy would have decided differently. It changes nothing. */
export const Shadowed = Schema.TaggedStruct("Shadowed", {
  ...call,
  /** The name of the shadow policy. */
  policy: Schema.String,
  would: Fact.WouldDecide,
  decided: Fact.PolicyDecided,
  because: Schema.optionalKey(Schema.String)
})

/**
 * A reviewer looked at a call that needs approval. Of a call that may change things this is on record before it starts.
 */
export const Reviewed = Schema.TaggedStruct("Reviewed", {
  ...call,
  verdict: Fact.ReviewVerdict,
  reason: Schema.String,
  /** The model that reviewed. */
  model: Schema.String,
  millis: Schema.Finite,
  /** The verdict holds; absent: a person decides. */
  decides: Schema.optionalKey(Schema.Boolean),
  /** Why there is no verdict of the reviewer. */
  problem: Schema.optionalKey(Fact.ReviewProblem),
  why: Schema.String,
  /** A hash of what approvers would be shown. */
  shown: Schema.String
})

/** A person is asked. */
export const Asked = Schema.TaggedStruct("Asked", {
  ...call,
  requestId: Schema.String,
  why: Schema.String,
  expiresAt: Schema.Union([Schema.Finite, Schema.Literal("unlimited")]),
  /** A hash of what was shown: tool, arguments, what it is about, and preview. */
  shown: Schema.String,
  /** The diff that was shown, where the tool can tell what it would write. */
  preview: Schema.optionalKey(Schema.String),
  /** What else was shown of the call. */
  evidence: Schema.optionalKey(Schema.Array(Evidence)),
  /** Approval is requested for each such call, whatever grants exist. */
  isAlways: Schema.optionalKey(Schema.Boolean),
  /** Who approves. */
  approvers: Schema.optionalKey(Schema.Array(Approvers))
})

/**
 * An approval request has ended: `answer` is the approver's answer, or `timeout`, `closed`, `noApprover`, `withdrawn`,
 * `suspended`.
 */
export const Answered = Schema.TaggedStruct("Answered", {
  ...call,
  requestId: Schema.String,
  answer: Schema.String,
  by: Fact.AnsweredBy,
  /** Who answered, where that is known. */
  person: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  /** The grant that was made by it, or that was in the place of an answer. */
  grant: Schema.optionalKey(Schema.Struct({ id: Schema.String, expiresAt: Schema.optionalKey(Schema.Finite) })),
  /** It came with other arguments. */
  isEdited: Schema.optionalKey(Schema.Boolean),
  /** What the approvers say to the model. */
  note: Schema.optionalKey(Schema.String),
  /** It came with data for the handler, which is left out. */
  hasData: Schema.optionalKey(Schema.Boolean)
})

/** A person has approved the call, whether others are still needed or not. Data for the handler is left out. */
export const ApprovedBy = Schema.TaggedStruct("ApprovedBy", {
  ...call,
  requestId: Schema.String,
  approval: GivenApproval,
  /** It came with data for the handler. */
  hasData: Schema.optionalKey(Schema.Boolean)
})

/** The handler is about to begin. Of a call that may change things this is on record before it does. */
export const Started = Schema.TaggedStruct("Started", {
  ...call,
  /** 1, or more after automatic retries. */
  attempt: Schema.Finite,
  limitMillis: Schema.Union([Schema.Finite, Schema.Literal("unlimited")]),
  /** What the handler finds as `ToolContext.idempotencyKey`. */
  idempotencyKey: Schema.String,
  /** The call may change things. */
  mutates: Schema.Boolean,
  /** What let it through: the policy, a person's answer, a reviewer, or the id of a grant. */
  allowedBy: Schema.String,
  /** How it is confined; absent if its tool has no sandbox. */
  sandbox: Schema.optionalKey(Fact.Sandbox),
  /** A person has edited the arguments that arrived. */
  isEdited: Schema.optionalKey(Schema.Boolean),
  /** Its reservation, in a store that outlives the executor: knowing the id is enough to spend it. */
  reservation: Schema.optionalKey(Schema.Struct({ id: Schema.String, epoch: Schema.Finite }))
})

/** A write of the call has landed. */
export const Committed = Schema.TaggedStruct("Committed", {
  ...call,
  /** How many have landed, with this one. */
  commits: Schema.Finite
})

/** The call has its outcome. If outputs are not kept, the entry says so. */
export const Settled = Schema.TaggedStruct("Settled", {
  ...call,
  outcome: ToolOutcome,
  /** The output was left out, or secrets were taken out of it. */
  isIncomplete: Schema.optionalKey(Schema.Boolean),
  /** A hash of the output that was left out. */
  outputHash: Schema.optionalKey(Schema.String),
  /** The invisible text that its result holds or held, such as `12 tag characters`. */
  unseen: Schema.optionalKey(Schema.String),
  /** Where its output led by the rules that held then: that does not depend on what was left out. */
  routes: Schema.optionalKey(Fact.Routes)
})

/** The host stopped before the call started or while it waited: it has no outcome, and may be resumed. */
export const Suspended = Schema.TaggedStruct("Suspended", {
  ...call,
  reason: Schema.String,
  /** Its handler had started, and can continue it. */
  isStarted: Schema.optionalKey(Schema.Boolean)
})

/** Something that a handler did after its call had its outcome was kept out. */
export const LateWriteBlocked = Schema.TaggedStruct("LateWriteBlocked", call)

/** A handler that outlived its outcome has ended. */
export const OrphanEnded = Schema.TaggedStruct("OrphanEnded", call)

/** A person has allowed something for longer than one call. */
export const Granted = Schema.TaggedStruct("Granted", { ...common, grant: Grant })

/** A grant was taken back. */
export const Revoked = Schema.TaggedStruct("Revoked", { ...common, grant: Schema.String, tool: Schema.String })

/** The user said something, or pasted it. */
export const Heard = Schema.TaggedStruct("Heard", {
  ...common,
  batch: Schema.String,
  /** The session that it belongs to; absent: its batch. */
  conversation: Schema.optionalKey(Schema.String),
  ordinal,
  from: Schema.Literals(["user", "foreign"]),
  /** What was said, without secrets; absent: it was left out. */
  text: Schema.optionalKey(Schema.String)
})

/** An operator accepted a rule that approvals on record speak for. The policy is what the config says. */
export const RuleAccepted = Schema.TaggedStruct("RuleAccepted", {
  ...common,
  person: Schema.String,
  /** The entry for `allow`. */
  rule: Schema.String,
  /** Approvals that spoke for it. */
  approvals: Schema.Finite
})

/** Entries are missing here: the journal could not be written for a while. */
export const Gap = Schema.TaggedStruct("Gap", { ...common, lost: Schema.Finite })

/** Schema of an entry that is about a call. */
export const CallEntry = Schema.Union([
  Arrived,
  Decided,
  Shadowed,
  Reviewed,
  Asked,
  ApprovedBy,
  Answered,
  Started,
  Committed,
  Settled,
  Suspended,
  LateWriteBlocked,
  OrphanEnded
])

/** An entry that is about a call. */
export type CallEntry = typeof CallEntry.Type

export const JournalEntry = Schema.Union([...CallEntry.members, Granted, Revoked, Heard, RuleAccepted, Gap])

export type JournalEntry = typeof JournalEntry.Type

/** Name of a kind of entry. */
export type Tag = JournalEntry["_tag"]

/** The entry of one kind. */
export type Of<T extends Tag> = Extract<JournalEntry, { readonly _tag: T }>

/** Tells whether an entry is about a call. */
export const isOfCall = (entry: JournalEntry): entry is CallEntry => "key" in entry

/**
 * What a journal keeps of arguments and outputs: all but secrets (`full`), a hash with a key (`hashes`), or nothing
 * (`none`). The key of a call, which knows equal arguments again, is kept anyway: it is a hash, too.
 */
export interface Keeps {
  readonly arguments: "full" | "hashes" | "none"
  readonly outputs: "full" | "hashes" | "none"
}

/**
 * An entry to be written. `entry` is made when it is first asked for, without secrets, and is plain JSON but for
 * `undefined`: a driver that writes reads it immediately, one that keeps things in memory when somebody reads.
 */
export interface Line {
  readonly entry: JournalEntry
  /** The term that its call arrived in; absent: it belongs to no call, or no other process can end the term. */
  readonly term?: Term | undefined
}

/**
 * The time in which the calls of a process are its own: another process may end it and take them over once its lease
 * has expired.
 */
export interface Term {
  /** It is known to be over: nothing is written in it any more. */
  readonly isOver: boolean
  /** Whether its lease has not expired, by a clock of this process: no other process has its calls yet. */
  readonly isHeld: boolean
  /** Holds it for longer; false if it is over, `undefined` if that could not be found out. */
  readonly renew: Effect.Effect<boolean | undefined>
  /** Calls back once it is known to be over, immediately if it is; gives how to be left out again. */
  readonly onOver: (run: () => void) => () => void
}

/** An entry with its place in the journal: later ones have higher places. */
export interface Recorded {
  readonly place: number
  readonly entry: JournalEntry
}

/** Which entries are read; what is absent excludes nothing. */
export interface Query {
  readonly principal?: string | undefined
  /** Those of principals that have one of these texts before their first slash, or are one. */
  readonly owners?: ReadonlyArray<string> | undefined
  readonly batch?: string | undefined
  readonly tool?: string | undefined
  readonly callId?: string | undefined
  /** Those of one kind. */
  readonly tag?: Tag | undefined
  /** Those of these calls. */
  readonly keys?: ReadonlyArray<string> | undefined
  /** Those of calls that have no end. A driver may read others, too: it leaves out what it can. */
  readonly isOpen?: boolean | undefined
  /** Epoch milliseconds of the first. */
  readonly since?: number | undefined
  /** Those behind this place. */
  readonly after?: number | undefined
  /** Those before this place. */
  readonly before?: number | undefined
  /** Which come first: default `oldest`. From either end no more is read than is taken. */
  readonly order?: "oldest" | "newest" | undefined
  /**
   * Those that have this text somewhere, in whatever case. A driver may read others, too: it leaves out what it can.
   */
  readonly text?: string | undefined
}

/** A part of what a query asks for. */
export interface Page {
  readonly entries: ReadonlyArray<Recorded>
  /**
   * Where the next part begins: behind this place, or before it with the newest first. Absent at the end. A page
   * without entries may have one.
   */
  readonly next?: number | undefined
}

/** How much a page has at most. It has one entry more than the characters allow, so that each page gets on. */
export interface PageBounds {
  readonly entries: number
  readonly chars: number
}

/** So many entries are looked at for a page at most: what is asked for may be rare. */
export const mostLookedAt = 2_000

/** Gives whose a principal is: the text before its first slash. */
export const ownerOf = (principal: string): string => {
  const at = principal.indexOf("/")
  return at < 0 ? principal : principal.slice(0, at)
}

/** What becomes of calls that somebody wants to take over. */
export type Claimed =
  /** All that have no end are the claimer's now; `ended` are those that have one. */
  | { readonly _tag: "Claimed"; readonly ended: ReadonlyArray<string> }
  /** Somebody who is alive works on these: nothing was taken over. */
  | { readonly _tag: "Busy"; readonly keys: ReadonlyArray<string> }

/** Tells whether a query asks for an entry at a place. */
export const matches = (query: Query, { entry, place }: Recorded): boolean => {
  const { after, batch, before, callId, keys, owners, principal, since, tag, tool } = query
  if (after !== undefined && place <= after) return false
  if (before !== undefined && place >= before) return false
  if (since !== undefined && entry.at < since) return false
  if (tag !== undefined && entry._tag !== tag) return false
  if (principal !== undefined && entry.principal !== principal) return false
  if (owners !== undefined && !owners.includes(ownerOf(entry.principal))) return false
  if (batch === undefined && tool === undefined && callId === undefined && keys === undefined) return true
  return isOfCall(entry) && (batch === undefined || entry.batch === batch) &&
    (tool === undefined || entry.tool === tool) && (callId === undefined || entry.callId === callId) &&
    (keys === undefined || keys.includes(entry.key))
}
