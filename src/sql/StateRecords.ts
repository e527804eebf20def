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
import type { KeyClaim } from "../core/store/StateStore.ts"
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

/** The state of a batch or of a principal; each uses its half. */
export interface ScopeState {
  /** Reservations in it that are not over. */
  open: number
  /** Of a batch: one that was forgotten and begun again is another. */
  generation: string
  usedAt: number
  readonly calls: Map<string, number>
  readonly groups: Map<string, Choice>
  /** Of a principal: starts and ends of mutating calls. */
  mutations: number
  /** Something was read since the last of them: the next one makes it stale. */
  hasRead: boolean
  readonly clocks: Map<string, RestClock>
  /** When the last window of its settled keys is over. */
  keptUntil: number
}

/** A batch or a principal, as it was loaded. */
export interface Scope {
  readonly id: string
  /** Negative for one that is not there yet. */
  version: number
  state: ScopeState
  isDirty: boolean
}

/** A reservation. Scopes and its key are named by their ids. */
export interface Held {
  readonly id: string
  readonly epoch: number
  readonly session: string
  readonly batch: string | undefined
  readonly principal: string | undefined
  readonly key: string | undefined
  /** Its lease is over, as the database tells the time. */
  readonly isExpired: boolean
  readonly generation: string | undefined
  /** The tool of its count, and of its clock. */
  readonly calls: string | undefined
  readonly clock: string | undefined
  readonly groups: ReadonlyArray<string>
  readonly windowMillis: number | undefined
  startedAt: number | undefined
  /** It counted as started when it was reserved, and is not known to have been. */
  isEarly: boolean
  /** Settled, but its fiber has not ended. */
  isRunning: boolean
  /** Set once its lease has ended, and with it the reservation. */
  presumed: Presumed | undefined
}

/** What has to be known to correct what was presumed of a reservation at the end of its lease. */
export interface Presumed {
  /** When the clock of its tool had ended before. */
  readonly endedAt: number | undefined
  /** Epoch milliseconds until which its batch or its key depends on it, at least. */
  readonly until: number
}

/** A dedupe key and the call that has it. */
export interface Key {
  readonly id: string
  readonly owner: string
  readonly reservation: string
  readonly process: string
  readonly untold: boolean
  readonly generation: string | undefined
  /** Of a ReadOnly call: how many starts and ends of mutating calls were before it. */
  readonly readAt: number | undefined
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

/** Names a principal. */
export const principalId: (principal: string) => string = remembered((principal) => `p${digest(principal)}`, 1_000)

/**
 * Names a key by all that tells it from others. Those of one batch stand side by side, so that a database writes few
 * pages for all of them.
 */
export const keyId = ({ agent, batch, key, principal, process, scope, tool }: KeyClaim): string => {
  const within = scope === "batch" ? batch : scope === "process" ? process : ""
  const near = nearId(within === "" ? principal : within)
  return `${near}${digest(JSON.stringify([principal, scope, within, agent ?? null, tool, key]))}`
}

const nearId = remembered((text) => digest(text).slice(0, 8), 1_000)

/** Names a session, or a text of any other kind. */
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
  { calls, clock, generation, groups, isEarly, isRunning, presumed, startedAt, windowMillis }: Held
): string => textOf({ calls, clock, generation, groups, isEarly, isRunning, presumed, startedAt, windowMillis })

/** The text of what has no column of a key. */
export const keyText = ({ generation, owner, process, readAt, untold, value }: Key): string =>
  textOf({ generation, owner, process, readAt, untold, value })

/** Only this store writes its tables: records are not checked. */
const readRecord = (record: unknown): Result.Result<ReturnType<typeof JSON.parse>, Error> => Result.succeed(record)
