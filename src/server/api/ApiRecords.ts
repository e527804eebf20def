/** Records of the API: grants, the journal, checkpoints, rules and the status of the server. */
import * as Schema from "effect/Schema"
import { Owner } from "./ApiModels.ts"

/** Schema of a grant. */
export const Grant = Schema.Struct({
  id: Schema.String,
  ...Owner,
  tool: Schema.String,
  agentPath: Schema.Array(Schema.String),
  /** Absent: the grant applies to every call of the tool. */
  targets: Schema.optionalKey(Schema.Array(Schema.String)),
  /** What it covers besides these targets. */
  patterns: Schema.optionalKey(Schema.Array(Schema.String)),
  answer: Schema.Literals(["ApproveForDuration", "ApproveForScope"]),
  grantedAt: Schema.Finite,
  expiresAt: Schema.optionalKey(Schema.Finite)
}).annotate({ identifier: "Grant" })

/** Schema of a journal entry, with outcomes as in `ToolEvent.Wire`. */
export const Entry = Schema.Struct({ place: Schema.Finite, ...Owner, entry: Schema.Json }).annotate({
  identifier: "Entry"
})

/** Schema of a page of the journal. The next page is `before` its `next`, or `after` it with the oldest first. */
export const Entries = Schema.Struct({ entries: Schema.Array(Entry), next: Schema.optionalKey(Schema.Finite) })
  .annotate({ identifier: "Entries" })

/** Schema of the state of a call on record. `running`: no end of it is on record yet. */
export const CallState = Schema.Literals([
  "queued",
  "waiting",
  "running",
  "suspended",
  "succeeded",
  "failed",
  "timedOut",
  "denied",
  "cancelled",
  "skipped",
  "unknown"
])

/** The state of a call on record. */
export type CallState = typeof CallState.Type

/** Schema of a call on record: its journal entries, folded. */
export const RecordedCall = Schema.Struct({
  /** Position of the first entry that is known of the call; its name in `/journal/calls/{place}`. */
  place: Schema.Finite,
  ...Owner,
  agentPath: Schema.Array(Schema.String),
  batch: Schema.String,
  callId: Schema.String,
  tool: Schema.String,
  targets: Schema.Array(Schema.String),
  /** The beginning of the arguments, as JSON; empty if the journal does not keep them. */
  summary: Schema.String,
  state: CallState,
  /** What admitted or refused the call. `name` is the approver, the id of the grant, or the gate that refused. */
  decidedBy: Schema.optionalKey(Schema.Struct({
    kind: Schema.Literals(["policy", "person", "reviewer", "grant", "gate", "timeout", "closed", "noApprover"]),
    name: Schema.optionalKey(Schema.String)
  })),
  /** The last approval request of the call. */
  requestId: Schema.optionalKey(Schema.String),
  /** Epoch milliseconds of its arrival. */
  at: Schema.Finite,
  startedAt: Schema.optionalKey(Schema.Finite),
  endedAt: Schema.optionalKey(Schema.Finite)
}).annotate({ identifier: "RecordedCall" })

/** A call on record. */
export type RecordedCall = typeof RecordedCall.Type

/** Schema of a page of calls, newest first. The next page is `before` its `next`. */
export const RecordedCalls = Schema.Struct({
  calls: Schema.Array(RecordedCall),
  next: Schema.optionalKey(Schema.Finite)
}).annotate({ identifier: "RecordedCalls" })

/** Schema of a call on record with everything that is kept of it. */
export const RecordedCallDetail = Schema.Struct({
  ...RecordedCall.fields,
  /** Absent if the journal does not keep arguments. */
  args: Schema.optionalKey(Schema.Json),
  /** What the model read, or will read when the wave ends. Absent while the call has no outcome. */
  modelText: Schema.optionalKey(Schema.String),
  /** The diff that approvers saw. */
  diff: Schema.optionalKey(Schema.String),
  /** The checkpoint that undoes the writes of the call. */
  checkpoint: Schema.optionalKey(Schema.String),
  /** The entries, oldest first, as `/journal` shows them. */
  entries: Schema.Array(Schema.Json)
}).annotate({ identifier: "RecordedCallDetail" })

/** A call on record with everything that is kept of it. */
export type RecordedCallDetail = typeof RecordedCallDetail.Type

/** Schema of a checkpoint: a write that can be undone. */
export const Checkpoint = Schema.Struct({
  id: Schema.String,
  at: Schema.Finite,
  batch: Schema.String,
  callId: Schema.String,
  tool: Schema.String,
  paths: Schema.Array(Schema.String)
}).annotate({ identifier: "Checkpoint" })

/** Schema of the effect of undoing a checkpoint. */
export const UndoPlan = Schema.Struct({
  checkpoint: Checkpoint,
  steps: Schema.Array(Schema.Struct({
    path: Schema.String,
    action: Schema.Literals(["restore", "remove", "nothing", "changed", "refused"]),
    because: Schema.optionalKey(Schema.String)
  })),
  diff: Schema.String,
  notCovered: Schema.Array(Checkpoint)
}).annotate({ identifier: "UndoPlan" })

/** Schema of the rules, as sentences and as a graph of their order. */
export const Rules = Schema.Struct({
  sentences: Schema.Array(Schema.String),
  nodes: Schema.Array(Schema.Struct({
    id: Schema.String,
    label: Schema.String,
    kind: Schema.Literals(["start", "exit", "tool"]),
    notes: Schema.Array(Schema.String)
  })),
  edges: Schema.Array(Schema.Struct({
    from: Schema.String,
    to: Schema.String,
    kind: Schema.Literals(["needs", "next", "forbids"]),
    label: Schema.String,
    /** The edge has no direction: only one of its two tools may be used. */
    isMutual: Schema.Boolean
  }))
}).annotate({ identifier: "Rules" })

const Counted = Schema.Struct({ tool: Schema.String, targets: Schema.Array(Schema.String), count: Schema.Finite })

/** Schema of a rule that approvals on record speak for. */
export const Suggestion = Schema.Struct({
  tool: Schema.String,
  /** The entry for `allow`. */
  rule: Schema.String,
  /** Approvals by people that it would have spared. */
  approvals: Schema.Finite,
  people: Schema.Array(Schema.String),
  approved: Schema.Array(Counted),
  /** Other calls on record that would have run. */
  others: Schema.Array(Counted),
  /** Kinds of calls that it lets run in addition, each as an example. */
  beyond: Schema.Array(Schema.Struct({ tool: Schema.String, targets: Schema.Array(Schema.String) }))
}).annotate({ identifier: "Suggestion" })

/** Schema of the rules that approvals of the last days speak for. */
export const Suggestions = Schema.Struct({
  suggestions: Schema.Array(Suggestion),
  days: Schema.Finite,
  /** There is more on record than was looked at. */
  isPartial: Schema.Boolean
}).annotate({ identifier: "Suggestions" })

/** Schema of a rule that is on record as accepted: the fragment to add to the policy of the config. */
export const AcceptedRule = Schema.Struct({ policy: Schema.Struct({ allow: Schema.Array(Schema.String) }) }).annotate({
  identifier: "AcceptedRule"
})

/** Schema of the answer of a server that accepts work. */
export const Ready = Schema.Struct({ status: Schema.Literal("ready") }).annotate({ identifier: "Ready" })

/** Schema of the answer of a server that does not. */
export const NotReady = Schema.Struct({ status: Schema.Literals(["stopping", "failing"]) }).annotate({
  identifier: "NotReady"
})

/** Schema of what a process says of itself where several share their sessions. */
export const Runner = Schema.Struct({
  /** New in each life of the process. */
  name: Schema.String,
  /** Where other processes reach it; the same in each life. */
  address: Schema.optionalKey(Schema.String),
  /** Whether it may hold sessions: its lease has not expired. */
  isHeld: Schema.Boolean,
  /** Sessions that it has in memory. */
  sessions: Schema.Finite,
  /** Sessions that another process has taken from it. */
  lost: Schema.Finite,
  /** Forgotten sessions that it has woken. */
  woken: Schema.Finite
}).annotate({ identifier: "Runner" })

/** What a process says of itself where several share their sessions. */
export type Runner = typeof Runner.Type

/** Schema of the status of the server. `counts` and `runner` are for operators only. */
export const Status = Schema.Struct({
  status: Schema.Union([Ready.fields.status, NotReady.fields.status]),
  checks: Schema.Array(Schema.Struct({
    name: Schema.String,
    isOk: Schema.Boolean,
    problem: Schema.optionalKey(Schema.String)
  })),
  counts: Schema.NullOr(Schema.Struct({
    sessions: Schema.Finite,
    waves: Schema.Finite,
    operations: Schema.Finite,
    approvals: Schema.Finite,
    streams: Schema.Finite
  })),
  /** Absent where one process has all sessions. */
  runner: Schema.optionalKey(Runner),
  /** Limits of operations: how many may be open, and the messages and their characters of each. */
  limits: Schema.Struct({
    operations: Schema.Finite,
    operationsPerUser: Schema.Finite,
    messages: Schema.Finite,
    messageChars: Schema.Finite
  })
}).annotate({ identifier: "Status" })

/** The status of the server. */
export type Status = typeof Status.Type
