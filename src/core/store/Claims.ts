/** What calls claim of the state that they share, as plain data: a driver of `StateStore` may keep it anywhere. */
import * as Schema from "effect/Schema"
import type { Mark } from "../rules/SharedPast.ts"
import { TargetKind } from "../vocabulary/TargetKind.ts"
import { ToolOutcome } from "../vocabulary/ToolOutcome.ts"

/** One thing that a call needs, as data. */
export type Claim = KeyClaim | CallsClaim | GroupClaim | CooldownClaim | BatchClaim

/**
 * Where a claim counts: in one process, in a batch (a user request) or in a session (a conversation). What belongs to a
 * process is part of its batch. What belongs to a session is kept much longer than a batch.
 */
export type ClaimScope = "process" | "batch" | "session"

/** Where a claim counts, if that is not the default of its kind. */
export interface Within {
  readonly scope?: ClaimScope | undefined
  /** The process, with the scope `"process"`. */
  readonly process?: string | undefined
}

/**
 * How far a key counts: in one wave (the calls of one model message), one process, one batch, or in everything that a
 * principal does. Below a principal it ends no later than its batch.
 */
export type KeyScope = "wave" | "process" | "batch" | "principal"

/** The right to be the only call of this key inside its window. */
export interface KeyClaim {
  readonly _tag: "Key"
  /** In which of these the key is the only one; below a principal, a settled key ends with its batch. */
  readonly scope: KeyScope
  readonly principal: string
  readonly batch: string
  readonly process: string
  /** The wave of the call, also when it is resumed. */
  readonly wave: string
  /** The sub-agent that calls: each has separate keys. Absent: the agent itself. */
  readonly agent?: string | undefined
  /** The session, where the key counts only there. */
  readonly session?: string | undefined
  readonly tool: string
  readonly key: string
  /** Once settled, the key counts only in its wave. */
  readonly endsWithWave: boolean
  /** Once settled, the key is dead if another mutating call of the principal started or ended after it was taken. */
  readonly endsWithChange: boolean
  /** The model does not see the outcome: such a call never takes the key of a call whose outcome the model sees. */
  readonly untold?: boolean | undefined
  /** Which settled keys count against this claim; absent: all. */
  readonly settled?: Counted | undefined
  /** Which keys in flight count against this claim; absent: all. */
  readonly running?: Counted | undefined
  /** A settled key of another process does not count. */
  readonly ignoreOtherProcesses: boolean
  /** How long the key counts, from the start of its call, where the call's end is never told; absent: not at all. */
  readonly windowMillis?: number | undefined
}

/** The wave, process or batch in which a key is the only one; empty: everything that the principal does. */
export const withinOf = ({ batch, process, scope, wave }: KeyClaim): string =>
  scope === "batch" ? batch : scope === "process" ? process : scope === "wave" ? wave : ""

/** Which keys count against a claim: all of them, only those of calls whose outcome the model sees, or none. */
export type Counted = "all" | "told" | "none"

/** One of the `max` starts that a tool has in a batch, or in a process or session. */
export interface CallsClaim extends Within {
  readonly _tag: "Calls"
  /** The batch or, with the scope `"session"`, the session. */
  readonly batch: string
  readonly tool: string
  readonly max: number
}

/** The right to use a tool of a group of which one may be used in a batch, or in a process or session. */
export interface GroupClaim extends Within {
  readonly _tag: "Group"
  /** The batch or, with the scope `"session"`, the session. */
  readonly batch: string
  /** One text for the same group. */
  readonly group: string
  readonly tool: string
}

/** The right to start a tool of a principal that rests between its calls. */
export interface CooldownClaim extends Within {
  readonly _tag: "Cooldown"
  readonly principal: string
  /** With a scope: the batch or the session in which it rests, not everywhere. */
  readonly batch?: string | undefined
  readonly tool: string
  /** How long it rests, from the end of its last call. */
  readonly millis: number
}

/**
 * Keeps a batch or a session in use until it is settled, and refuses nothing: a wave holds one where a rule counts in
 * batches, whatever its calls reserve themselves. A call whose success is to be remembered there has one.
 */
export interface BatchClaim {
  readonly _tag: "Batch"
  readonly batch: string
  /** `"session"`: `batch` is a session. */
  readonly scope?: "session" | undefined
}

/** The name of a claim's counter, group or clock in its batch or session. */
export const nameOf = (claim: CallsClaim | GroupClaim | CooldownClaim): string => {
  const name = claim._tag === "Group" ? claim.group : claim.tool
  return claim.process === undefined ? name : JSON.stringify([claim.process, name])
}

/**
 * What one call asks for: it gets all of its claims or none. They are of one tool, batch, session and principal, and at
 * most one of them is a key, which comes first.
 */
export interface Request {
  /** Id of the call. */
  readonly owner: string
  /** Whose the reservation is: an executor's and its sub-agents'. What a session holds that is over can be freed. */
  readonly session: string
  readonly claims: ReadonlyArray<Claim>
  /**
   * What the call has reserved before. It is given back in the same step, whatever comes of the claims: it does not
   * refuse the call itself, and no other call can take it in between.
   */
  readonly replaces?: Reservation | undefined
  /** Names the call, after a crash as before it; absent: nobody resumes it. */
  readonly call?: string | undefined
  /**
   * The call was submitted before and has no start on record: what it reserved then is given back in the same step, and
   * a key that it has kept does not refuse it.
   */
  readonly isResumed?: boolean | undefined
  /** The call has used it already: claims that would be refused are left out. It is refused if nothing is left. */
  readonly isPartial?: boolean | undefined
  /**
   * The call starts as soon as it has what it asks for. A driver that leases may count it as started in the same step,
   * as `start` does, and `mutated` for its principal if it may change things; then the reservation says so. One that is
   * abandoned and not known to have started is given back even so.
   */
  readonly starts?: { readonly mutates: string | undefined } | undefined
}

/**
 * What a call has reserved, as the driver knows it: data, not an object. Whoever has the id and the epoch may settle
 * it.
 */
export interface Reservation {
  /** Opaque, and never given twice. */
  readonly id: string
  /** The term in which it is held: once the lease is lost, nothing that is said with this epoch counts. */
  readonly epoch: number
  /** How long it is held unless it is renewed, from the answer on; absent: as long as the process lives. */
  readonly leaseMillis?: number | undefined
  /** It counts as started: `starts` was asked for, and done. Its settlement may say `mutates`. */
  readonly isStarted?: boolean | undefined
}

/** The first claim that could not be had, and why. */
export type Refused = KeyTaken | CallsUsedUp | GroupTaken | CoolingDown

/** An equal call is running, or has ended inside the window. */
export interface KeyTaken {
  readonly _tag: "KeyTaken"
  /** The call that has the key. */
  readonly owner: string
  /** Id of the reservation that has it. */
  readonly reservation: string
  /** The process of that call. */
  readonly process: string
  /** The model does not see its outcome. */
  readonly untold: boolean
  /** Whether that call is still running. */
  readonly running: boolean
  /** Epoch milliseconds at which it ended; absent while it runs. */
  readonly endedAt: number | undefined
  /** Epoch milliseconds at which its window is over; absent while it runs. */
  readonly until: number | undefined
  /** Another mutating call of the principal has started or ended since the key was taken. */
  readonly isOvertaken: boolean
  /** What was kept with the key. */
  readonly value: Kept | undefined
}

/** All starts of the tool in the batch are used. */
export interface CallsUsedUp {
  readonly _tag: "CallsUsedUp"
  /** The scope of the claim, if it has one. */
  readonly scope?: ClaimScope | undefined
}

/** Another tool of the group is the one that is used. */
export interface GroupTaken {
  readonly _tag: "GroupTaken"
  readonly group: string
  /** The tool that was first. */
  readonly tool: string
}

/** The tool rests, or is running and will rest after that. */
export interface CoolingDown {
  readonly _tag: "CoolingDown"
  readonly running: boolean
  /** Milliseconds until it may start; of one that is running, at least. */
  readonly remainingMillis: number
  /** The scope of the claim, if it has one. */
  readonly scope?: ClaimScope | undefined
}

/**
 * Schema of an outcome that is kept with a key, to be given to an equal call. A driver that stores bytes encodes it
 * with `Schema.toCodecJson`.
 */
export const Kept = Schema.Struct({
  outcome: ToolOutcome,
  /** The batch that may read its artifact. */
  batch: Schema.String,
  /** What the call was about; absent if that was not known. */
  targets: Schema.optional(Schema.Array(Schema.Struct({
    text: Schema.String,
    kind: Schema.optional(TargetKind),
    spellings: Schema.optional(Schema.Array(Schema.String)),
    runBy: Schema.optional(Schema.String)
  })))
})

/** An outcome that is kept with a key, to be given to an equal call. */
export type Kept = typeof Kept.Type

/** What becomes of a reservation. */
export interface Settlement {
  /** Whether the call started: then its slot is spent, its group is chosen, its tool rests. */
  readonly started: boolean
  /**
   * `keep` holds the key for `windowMillis` from now, `release` frees it, `running` leaves it in flight until `release`
   * is called, because a fiber still runs: until then the tool may not start again, if it rests.
   */
  readonly key: "keep" | "release" | "running"
  readonly windowMillis: number
  /** Kept with the key. */
  readonly value: Kept | undefined
  /** The principal for which this is a change, as with `mutated`: the call may have changed things. */
  readonly mutates?: string | undefined
  /** How the call ended is on record: that corrects what was presumed of it when its lease was over. */
  readonly isRecorded?: boolean | undefined
  /** The call succeeded, and is remembered so in the batch and the session that it has claimed anything of. */
  readonly succeeded?: Mark | undefined
}

/** What is left of a partial request without the claims that are refused; `undefined` if nothing is. */
export const lessOf = (request: Request, it: Refused): Request | undefined => {
  const { claims, isPartial } = request
  const left = isPartial === true ? claims.filter((claim) => !isRefusedBy(claim, it)) : []
  return left.length === 0 || left.length === claims.length
    ? undefined
    : { ...request, claims: left, replaces: undefined }
}

const isRefusedBy = (claim: Claim, it: Refused): boolean => {
  switch (it._tag) {
    case "KeyTaken":
      return claim._tag === "Key"
    case "CallsUsedUp":
      return claim._tag === "Calls" && claim.scope === it.scope
    case "GroupTaken":
      return claim._tag === "Group" && claim.group === it.group
    case "CoolingDown":
      return claim._tag === "Cooldown" && claim.scope === it.scope
  }
}
