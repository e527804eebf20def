/**
 * What happens to the calls of an executor, as one closed union. The engine reports nothing else.
 *
 * A fact says what happened and when. The reporter adds where: the origin of its wave, and the id, tool and index of
 * its call. Events, journal entries, spans and metrics are folds over facts. Facts hold unredacted values: each fold
 * redacts what it passes on.
 */
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import { ToolRule } from "../rules/ToolRule.ts"
import { Approvers, GivenApproval } from "../vocabulary/Approvers.ts"
import { Grant } from "../vocabulary/Grant.ts"
import { ToolMessage, ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import { Evidence } from "./Evidence.ts"

/** Where the facts of a wave come from. */
export interface Origin {
  /** Names of the sub-agents from the root down to the one that calls; empty for the root. */
  readonly agentPath: ReadonlyArray<string>
  readonly batch: string
  readonly process: string
  /** Number of the wave in its process, from 1. */
  readonly wave: number
}

/** Epoch milliseconds. */
const at = Schema.Finite

/** Identifies a span. */
export const SpanId = Schema.Struct({ traceId: Schema.String, spanId: Schema.String })

/** Identifies a span. */
export type SpanId = typeof SpanId.Type

/** Where an output leads by `Conditional` rules: only these tools may be next. */
export const Routes = Schema.Array(Schema.Struct({ rule: ToolRule, tools: Schema.Array(Schema.String) }))

/** The calls of a wave were submitted. */
export const WaveStarted = Schema.TaggedStruct("WaveStarted", { at, calls: Schema.Finite })

/** Every call of the wave has its outcome, or is `suspended`: those ids may be resumed. */
export const WaveEnded = Schema.TaggedStruct("WaveEnded", {
  at,
  toolMessages: Schema.Array(ToolMessage),
  executionResults: Schema.Array(ToolOutcome),
  suspended: Schema.optional(Schema.Array(Schema.String))
})

/** A call was submitted, with its arguments as the model wrote them. */
export const Queued = Schema.TaggedStruct("Queued", { at, params: Schema.Unknown })

/** A call that was submitted before continues from its record. `span` is the one it had then. */
export const Resumed = Schema.TaggedStruct("Resumed", { at, span: Schema.optional(SpanId) })

/** All calls of the wave were looked at, and the record of this one begins. */
export const Arrived = Schema.TaggedStruct("Arrived", { at, isResumed: Schema.Boolean })

/** A gate refused the call. */
export const Decided = Schema.TaggedStruct("Decided", { at, reason: ToolRefusal })

/** What a reviewer says of a call: it may run, a person is to be asked, or it is denied. */
export const ReviewVerdict = Schema.Literals(["allow", "ask", "deny"])

/**
 * Why a reviewer gave no verdict: it failed or did not answer in time, its verdict was malformed, or repeated denials
 * opened its breaker.
 */
export const ReviewProblem = Schema.Literals(["failed", "timeout", "malformed", "breaker"])

/** What a shadow policy would have decided; `failed`: it threw, or what the call is about could not be found out. */
export const WouldDecide = Schema.Literals(["allow", "ask", "deny", "failed"])

/** What a policy decided. */
export const PolicyDecided = Schema.Literals(["allow", "ask", "deny"])

/** What approvers are shown of a call. */
export const Request = Schema.Struct({
  id: Schema.String,
  why: Schema.String,
  expiresAt: Schema.Union([Schema.Finite, Schema.Literal("unlimited")]),
  tool: Schema.String,
  revision: Schema.optional(Schema.String),
  args: Schema.Unknown,
  targets: Schema.Array(Schema.Struct({ text: Schema.String })),
  preview: Schema.UndefinedOr(Schema.Union([
    Schema.TaggedStruct("Diff", { diff: Schema.String }),
    Schema.TaggedStruct("None", { because: Schema.String })
  ])),
  evidence: Schema.optional(Schema.Array(Evidence)),
  isAlways: Schema.optional(Schema.Boolean),
  approvers: Schema.optional(Schema.Array(Approvers))
})

/** A reviewer looked at a call that needs approval. */
export const Reviewed = Schema.TaggedStruct("Reviewed", {
  at,
  verdict: ReviewVerdict,
  reason: Schema.String,
  /** The model that reviewed. */
  model: Schema.String,
  millis: Schema.Finite,
  /** The verdict holds. Otherwise it is shown to a person, who decides. */
  decides: Schema.Boolean,
  /** Why there is no verdict of the reviewer. */
  problem: Schema.optional(ReviewProblem),
  /** What approvers would be shown of the call. */
  request: Schema.Struct(Struct.omit(Request.fields, ["id", "expiresAt"]))
})

/** A shadow policy was looked at. It changes nothing. */
export const Shadowed = Schema.TaggedStruct("Shadowed", {
  at,
  /** The name of the shadow policy. */
  policy: Schema.String,
  would: WouldDecide,
  decided: PolicyDecided,
  /** Why it would have asked or denied, or how it failed. */
  because: Schema.optional(Schema.String)
})

/** An approval request is about to be made. It is on record before anybody sees it. */
export const Asked = Schema.TaggedStruct("Asked", { at, request: Request })

/** An approval request was withdrawn before anybody saw it. */
export const Withdrawn = Schema.TaggedStruct("Withdrawn", { at, requestId: Schema.String })

/** Approvers see the request now. */
export const Presented = Schema.TaggedStruct("Presented", {
  at,
  requestId: Schema.String,
  why: Schema.String,
  /** What the call would write, as a unified diff. */
  diff: Schema.optional(Schema.String),
  evidence: Schema.optional(Schema.Array(Evidence))
})

/** A person has approved the call, whether others are still needed or not. */
export const ApprovedBy = Schema.TaggedStruct("ApprovedBy", {
  at,
  requestId: Schema.String,
  approval: GivenApproval
})

/** What ended an approval request. */
export const AnsweredBy = Schema.Literals([
  "user",
  "grant",
  "timeout",
  "closed",
  "noApprover",
  "withdrawn",
  "suspended"
])

/** An approval request that approvers saw is over. */
export const Answered = Schema.TaggedStruct("Answered", {
  at,
  requestId: Schema.String,
  /** The tag of the answer, or what ended the request instead. */
  answer: Schema.String,
  by: AnsweredBy,
  /** Who answered, if known. */
  person: Schema.optional(Schema.String),
  reason: Schema.optional(Schema.String),
  /** The grant that the answer made, or that stood in for an answer. */
  grant: Schema.optional(Schema.Struct({ id: Schema.String, expiresAt: Schema.optionalKey(Schema.Finite) })),
  /** The answer came with other arguments. */
  isEdited: Schema.optional(Schema.Boolean),
  /** What the approvers say to the model. */
  note: Schema.optional(Schema.String),
  /** The answer came with data for the handler. */
  hasData: Schema.optional(Schema.Boolean)
})

/** An answer made a grant. */
export const Granted = Schema.TaggedStruct("Granted", { at, grant: Grant })

/** A grant was revoked. */
export const Revoked = Schema.TaggedStruct("Revoked", { at, grant: Schema.String, tool: Schema.String })

/** The program that confines a call, or `none`, and what the call reaches of the network. */
export const Sandbox = Schema.Struct({ driver: Schema.String, network: Schema.Literals(["none", "listed", "open"]) })

const start = {
  at,
  /** 1, or more after automatic retries. */
  attempt: Schema.Finite,
  /** Infinity for no limit. */
  limitMillis: Schema.Number,
  /** The call may change things. */
  mutates: Schema.Boolean,
  /** What let it through: `policy`, `answer`, `reviewer`, or the id of a grant. */
  allowedBy: Schema.String,
  /** The arguments that the handler gets, decoded and encoded. */
  input: Schema.Struct({ params: Schema.Unknown, args: Schema.Unknown }),
  /** Services know its earlier attempts under this key; absent if there were none. */
  idempotencyKey: Schema.UndefinedOr(Schema.String),
  /** How it is confined; absent if its tool has no sandbox. */
  sandbox: Schema.optional(Sandbox),
  /** What it reserved in a store that outlives the executor. */
  reservation: Schema.UndefinedOr(Schema.Struct({ id: Schema.String, epoch: Schema.Finite }))
} as const

/** A call that may change things is about to start. It is on record before it does. */
export const Starting = Schema.TaggedStruct("Starting", start)

/** The handler starts: once for each attempt. */
export const Started = Schema.TaggedStruct("Started", start)

/** An attempt failed; the tool's schedule decides whether another follows. */
export const AttemptFailed = Schema.TaggedStruct("AttemptFailed", { at, attempt: Schema.Finite })

/** The tool says what an attempt in an earlier life of the call gave: the handler does not run again. */
export const Recalled = Schema.TaggedStruct("Recalled", { at, attempt: Schema.Finite, args: Schema.Unknown })

/** What a running tool reports. */
export const Report = Schema.Union([
  Schema.TaggedStruct("ToolProgress", {
    progress: Schema.optionalKey(Schema.Finite),
    total: Schema.optionalKey(Schema.Finite),
    message: Schema.optionalKey(Schema.String)
  }),
  Schema.TaggedStruct("ToolStatus", { status: Schema.String, message: Schema.optionalKey(Schema.String) }),
  Schema.TaggedStruct("ToolLog", {
    level: Schema.Literals(["debug", "info", "warn", "error"]),
    message: Schema.String,
    data: Schema.optionalKey(Schema.Unknown)
  }),
  Schema.TaggedStruct("ToolOptions", { options: Schema.Unknown }),
  Schema.TaggedStruct("ToolPartialResult", { value: Schema.Unknown }),
  Schema.TaggedStruct("ToolCustom", { type: Schema.String, data: Schema.Unknown })
])

/** What a running tool reports. */
export type Report = typeof Report.Type

/** The running tool reported something. */
export const Reported = Schema.TaggedStruct("Reported", { at, report: Report })

/** A write of the call landed. */
export const Committed = Schema.TaggedStruct("Committed", {
  at,
  /** How many have landed, this one included. */
  commits: Schema.Finite
})

/** The fence kept out what a handler did after its call had its outcome. */
export const LateWriteBlocked = Schema.TaggedStruct("LateWriteBlocked", { at })

/** The call has its outcome. */
export const Settled = Schema.TaggedStruct("Settled", {
  at,
  outcome: ToolOutcome,
  /** The whole output, also where the outcome has only a part. */
  value: Schema.optional(Schema.Unknown),
  /** The invisible text that its result holds or held. */
  unseen: Schema.optional(Schema.String),
  routes: Schema.optional(Routes),
  /** The span of the call whose outcome it shares. */
  sharedWith: Schema.optional(SpanId)
})

/** The call may be resumed. `outcome` is what this executor gives its caller. */
export const Suspended = Schema.TaggedStruct("Suspended", {
  at,
  reason: Schema.String,
  outcome: ToolOutcome,
  /** Its handler had started, and can continue it. */
  isStarted: Schema.Boolean
})

/** A call that was taken over could not be resumed, and others may resume it. */
export const GivenBack = Schema.TaggedStruct("GivenBack", { at, reason: Schema.String })

/**
 * Everything that follows from the outcome is done. `dropped` counts the reports of the tool that no reader had room
 * for.
 */
export const Concluded = Schema.TaggedStruct("Concluded", { at, outcome: ToolOutcome, dropped: Schema.Finite })

/** The handler still runs although its call has its outcome. */
export const Orphaned = Schema.TaggedStruct("Orphaned", { at })

/** A handler that outlived its outcome has ended. */
export const OrphanEnded = Schema.TaggedStruct("OrphanEnded", { at })

/** Schema of a fact about a whole wave. */
export const WaveFact = Schema.Union([WaveStarted, WaveEnded])

/** A fact about a whole wave. */
export type WaveFact = typeof WaveFact.Type

/** Schema of a fact about one call. */
export const CallFact = Schema.Union([
  Queued,
  Resumed,
  Arrived,
  Decided,
  Shadowed,
  Reviewed,
  Asked,
  Withdrawn,
  Presented,
  ApprovedBy,
  Answered,
  Granted,
  Starting,
  Started,
  AttemptFailed,
  Recalled,
  Reported,
  Committed,
  LateWriteBlocked,
  Settled,
  Suspended,
  GivenBack,
  Concluded,
  Orphaned,
  OrphanEnded
])

/** A fact about one call. */
export type CallFact = typeof CallFact.Type

export const Fact = Schema.Union([...WaveFact.members, ...CallFact.members, Revoked])

/** Something that happened to a wave, to a call, or to a grant. */
export type Fact = typeof Fact.Type

/** The name of a kind of fact. */
export type Tag = Fact["_tag"]

/** The facts of one kind. */
export type Of<T extends Tag> = Extract<Fact, { readonly _tag: T }>
