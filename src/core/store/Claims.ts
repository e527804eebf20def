/** What calls claim of the state that they share, as plain data: a driver of `StateStore` may keep it anywhere. */
import * as Schema from "effect/Schema"
import { ToolOutcome } from "../vocabulary/ToolOutcome.ts"

/** One thing that a call needs, as data. */
export type Claim = KeyClaim | CallsClaim | GroupClaim | CooldownClaim | BatchClaim

/**
 * How far something counts: in one process, in one batch, or in everything that a principal does. What reaches as far
 * as a process ends no later than its batch.
 */
export type KeyScope = "process" | "batch" | "principal"

/** The right to be the only call of this key inside its window. */
export interface KeyClaim {
  readonly _tag: "Key"
  /** In which of the three the key is the only one; below a principal, a settled key ends with its batch. */
  readonly scope: KeyScope
  readonly principal: string
  readonly batch: string
  readonly process: string
  /** The sub-agent that calls: each has separate keys. Absent: the agent itself. */
  readonly agent?: string | undefined
  readonly tool: string
  readonly key: string
  /** The key dies when a mutating call of the principal starts or ends after this one. */
  readonly readOnly: boolean
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

/** Which keys count against a claim: all of them, only those of calls whose outcome the model sees, or none. */
export type Counted = "all" | "told" | "none"

/** One of the `max` starts that a tool has in a batch. */
export interface CallsClaim {
  readonly _tag: "Calls"
  readonly batch: string
  readonly tool: string
  readonly max: number
}

/** The right to use a tool of a group of which one may be used in a batch. */
export interface GroupClaim {
  readonly _tag: "Group"
  readonly batch: string
  /** One text for the same group. */
  readonly group: string
  readonly tool: string
}

/** The right to start a tool of a principal that rests between its calls. */
export interface CooldownClaim {
  readonly _tag: "Cooldown"
  readonly principal: string
  readonly tool: string
  /** How long it rests, from the end of its last call. */
  readonly millis: number
}

/**
 * Keeps a batch in use until it is settled, and refuses nothing: a wave holds one where a rule counts in batches,
 * whatever its calls reserve themselves.
 */
export interface BatchClaim {
  readonly _tag: "Batch"
  readonly batch: string
}

/**
 * What one call asks for: it gets all of its claims or none. They are of one tool, batch and principal, and at most one
 * of them is a key.
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
  /** What was kept with the key. */
  readonly value: Kept | undefined
}

/** All starts of the tool in the batch are used. */
export interface CallsUsedUp {
  readonly _tag: "CallsUsedUp"
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
    kind: Schema.optional(Schema.Literals(["exact", "protected"])),
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
  /** The principal whose keys of reads die with it, as with `mutated`: its call may have changed things. */
  readonly mutates?: string | undefined
}
