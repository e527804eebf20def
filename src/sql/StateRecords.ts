/**
 * What a state store in SQL keeps: the records, and how they are written as rows.
 *
 * What belongs to a batch or to a principal is one record each, its scope: counts, choices of groups, clocks. A scope
 * has a version, and whatever is changed in it or in anything that is reserved in it changes that version, so that a
 * change that was decided on outdated records is never made.
 *
 * Texts that come from others are hashed where they name a record, since they may be of any length, and are kept as
 * JSON, since PostgreSQL has no text with a NUL.
 */
import * as Result from "effect/Result"
import { hash } from "node:crypto"
import type { KeptPast } from "../core/rules/SharedPast.ts"
import { type ClaimScope, type KeyClaim, withinOf } from "../core/store/Claims.ts"
import { remembered } from "../internal/remembered.ts"
import * as Versioned from "../internal/versioned.ts"

/** Which tool of a group is used. */
export interface Choice {
  tool: string | undefined
  /** Calls that have reserved it and not settled. */
  holders: number
  /** One of them started. */
  isKept: boolean
}

/** When a tool may start again. */
export interface RestClock {
  running: number
  /** Handlers that outlived their outcome: it rests from their end. */
  lingering: number
  endedAt: number | undefined
  /** The longest rest that was asked for. */
  millis: number
}

/** The state of a batch, a session or a principal; each uses its part. */
export interface ScopeState {
  /** Reservations in it that are not over. */
  open: number
  /** Of a batch or a session: one that was forgotten and begun again is another. */
  generation: string
  usedAt: number
  readonly calls: Map<string, number>
  readonly groups: Map<string, Choice>
  /** Of a principal: starts and ends of mutating calls. */
  mutations: number
  /** A key was taken since the last of them: the next one overtakes it. */
  hasRead: boolean
  readonly clocks: Map<string, RestClock>
  /** What succeeded in a batch or a session, as far as rules ask. */
  past?: KeptPast | undefined
  /** When the last window of its settled keys is over. */
  keptUntil: number
}

/** A batch, a session or a principal, as it was loaded. */
export interface Scope {
  readonly id: string
  /** Negative for one that is not there yet. */
  version: number
  state: ScopeState
  isDirty: boolean
}

/** What a reservation claims of a batch or a session: names of counters, groups and clocks. */
export interface Part {
  readonly generation: string | undefined
  readonly calls: ReadonlyArray<string>
  readonly groups: ReadonlyArray<string>
  readonly clocks: ReadonlyArray<string>
}

/** A reservation. Scopes and its key are named by their ids. */
export interface Held {
  readonly id: string
  readonly epoch: number
  readonly session: string
  /** Names its call, after a crash as before it. */
  readonly call: string | undefined
  readonly batch: string | undefined
  readonly principal: string | undefined
  /** The session that it claims anything of. */
  readonly conversation: string | undefined
  readonly key: string | undefined
  /** Its lease is over, as the database tells the time. */
  readonly isExpired: boolean
  /** What it claims of its batch, and of its session. */
  readonly own: Part
  readonly shared: Part | undefined
  /** Its clock among those of the principal. */
  readonly clock: string | undefined
  readonly windowMillis: number | undefined
  startedAt: number | undefined
  /** It counted as started when it was reserved, and is not known to have been. */
  isEarly: boolean
  /** Settled, but its fiber has not ended. */
  isRunning: boolean
  /** Set once its lease has ended, and with it the reservation. */
  presumed: Presumed | undefined
}

/** Needed to correct what a reservation was presumed to have done when its lease ended. */
export interface Presumed {
  /** When its clocks had ended before, by their names. */
  readonly endedAt: Readonly<Record<string, number | undefined>>
  /** Its key, as it was. */
  readonly key?: Key | undefined
  /** Epoch milliseconds until which its batch or its key depends on it, at least. */
  readonly until: number
}

/** A dedupe key and the call that has it. */
export interface Key {
  readonly id: string
  readonly owner: string
  /** Names the call, after a crash as before it. */
  readonly call?: string | undefined
  readonly reservation: string
  readonly process: string
  readonly untold: boolean
  readonly generation: string | undefined
  /** The wave in which it counts once it is settled; absent: in all. */
  readonly wave: string | undefined
  /** How many starts and ends of mutating calls were before it. */
  readAt: number | undefined
  /** It lives on when it is overtaken. */
  readonly outlasts: boolean | undefined
  /** Epoch milliseconds at which its call ended. */
  endedAt: number | undefined
  /** Epoch milliseconds from which it is dead; of a call that runs: not known. */
  until: number | undefined
  /** The outcome that is kept, as JSON. */
  value: string | undefined
}

/** The state of an unused scope. */
export const emptyState = (generation: string): ScopeState => ({
  open: 0,
  generation,
  usedAt: 0,
  calls: new Map(),
  groups: new Map(),
  mutations: 0,
  hasRead: false,
  clocks: new Map(),
  keptUntil: 0
})

/** Names a batch. */
export const batchId: (batch: string) => string = remembered((batch) => `b${digest(batch)}`, 1_000)

/** Names a session. */
export const sessionId: (session: string) => string = remembered((session) => `c${digest(session)}`, 1_000)

/** Names what a claim is about that names a batch or, with that scope, a session. */
export const placeId = (
  { batch, scope }: { readonly batch: string; readonly scope?: ClaimScope | undefined }
): string => scope === "session" ? sessionId(batch) : batchId(batch)

/** Names a principal. */
export const principalId: (principal: string) => string = remembered((principal) => `p${digest(principal)}`, 1_000)

/**
 * Names a key by all that tells it from others. Those of one batch stand side by side, so that a database writes few
 * pages for all of them.
 */
export const keyId = (claim: KeyClaim): string => {
  const { agent, key, principal, scope, session, tool } = claim
  const within = withinOf(claim)
  const near = nearId(within === "" ? principal : within)
  const of = [principal, scope, within, agent ?? null, tool, key]
  return `${near}${digest(JSON.stringify(session === undefined ? of : [...of, session]))}`
}

const nearId = remembered((text) => digest(text).slice(0, 8), 1_000)

/** Names the owner of reservations, or a text of any other kind. */
export const digest = (text: string): string => hash("sha256", text, "base64url")

/** The text of a record: its JSON, with a version that a later release can tell. */
export const textOf = (record: unknown): string => Versioned.encode(1, JSON.stringify(record))

/** The record of a text that `textOf` wrote; throws if a later release wrote it. */
export const recordOf = (text: string) => Result.getOrThrow(Versioned.decode({ 1: readRecord }, text))

/** The text of a scope's state. */
export const stateText = ({ calls, clocks, groups, ...rest }: ScopeState): string =>
  textOf({ ...rest, calls: [...calls], groups: [...groups], clocks: [...clocks] })

/** The state of a scope from its text. */
export const stateFrom = (text: string): ScopeState => {
  const { calls, clocks, groups, ...rest } = recordOf(text)
  return { ...rest, calls: new Map(calls), groups: new Map(groups), clocks: new Map(clocks) }
}

/** The text of what has no column of a reservation. */
export const heldText = (
  { clock, isEarly, isRunning, own: { calls, clocks, generation, groups }, presumed, shared, startedAt, windowMillis }:
    Held
): string =>
  textOf({
    // most claim one count and no clock
    calls: calls.length > 1 ? calls : calls[0],
    clocks: clocks.length > 0 ? clocks : undefined,
    clock,
    generation,
    groups,
    isEarly,
    isRunning,
    presumed,
    shared,
    startedAt,
    windowMillis
  })

/** What `heldText` wrote. */
export const heldFrom = (
  text: string
): Pick<Held, "clock" | "isEarly" | "isRunning" | "own" | "presumed" | "shared" | "startedAt" | "windowMillis"> => {
  const { calls = [], clocks = [], generation, groups, ...rest } = recordOf(text)
  return { ...rest, own: { calls: Array.isArray(calls) ? calls : [calls], clocks, generation, groups } }
}

/** The text of what has no column of a key. */
export const keyText = (
  { call, endedAt, generation, outlasts, owner, process, readAt, untold, value, wave }: Key
): string => textOf({ call, endedAt, generation, outlasts, owner, process, readAt, untold, value, wave })

/** Whether a mutating call started or ended since it was taken. */
export const isOvertaken = ({ readAt }: Key, { mutations }: ScopeState): boolean =>
  readAt !== undefined && readAt !== mutations

/** Whether it counts no longer once it is settled. */
export const isDead = (key: Key, principal: ScopeState): boolean => key.outlasts !== true && isOvertaken(key, principal)

/** Whether a key counts at all. */
export const isLive = (key: Key, principal: ScopeState, generation: string | undefined, now: number): boolean =>
  key.until === undefined || (key.generation === generation && now < key.until && !isDead(key, principal))

/** Only this store writes its tables: records are not checked. */
const readRecord = (record: unknown): Result.Result<ReturnType<typeof JSON.parse>, Error> => Result.succeed(record)
