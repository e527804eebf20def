/** Helpers for the checks of `StateStoreContract`. */
import * as Effect from "effect/Effect"
import * as assert from "node:assert/strict"
import type * as StateStore from "../core/store/StateStore.ts"
import * as Contract from "./Contract.ts"

/** Limits of a store under test; a driver without leases ignores `lease`. */
export interface Bounds {
  /** Milliseconds. */
  readonly batchTimeToLive?: number | undefined
  /** Milliseconds. */
  readonly sessionTimeToLive?: number | undefined
  /** Milliseconds. */
  readonly lease?: number | undefined
}

type Store = StateStore.StateStore["Service"]

/** A store with shorthands for session `s`. */
const tried = (raw: Store, later: Contract.Later) => {
  const reserve = (owner: string, claims: ReadonlyArray<StateStore.Claim>, now = 0) =>
    Effect.map(raw.reserve([{ owner, session: "s", claims }], now), ([it]) => it!)
  return {
    raw,
    later,
    reserve,
    /** Expects the claims to be granted. */
    take: (owner: string, claims: ReadonlyArray<StateStore.Claim>, now?: number) =>
      Effect.map(reserve(owner, claims, now), (it) => {
        isReserved(it)
        return it as StateStore.Reservation
      }),
    /** Expects the claims to be refused. */
    refused: (claims: ReadonlyArray<StateStore.Claim>, now?: number) =>
      Effect.map(reserve("other", claims, now), (it) => {
        assert.equal("_tag" in it, true, "is refused")
        return it as StateStore.Refused
      }),
    settle: (reservation: StateStore.Reservation, settlement: StateStore.Settlement, now = 0) =>
      raw.settle(reservation, settlement, now)
  }
}

export const check = (
  name: string,
  body: (of: ReturnType<typeof tried>) => Contract.Body,
  options?: Bounds
): Contract.Statement<Store, Bounds> => Contract.statement(name, (store, later) => body(tried(store, later)), options)

export const key = (name: string, options: Partial<StateStore.KeyClaim> = {}): StateStore.KeyClaim => ({
  _tag: "Key",
  scope: "principal",
  principal: "p",
  batch: "b",
  tool: "t",
  key: name,
  wave: "wave",
  endsWithWave: false,
  endsWithChange: false,
  process: "process-1",
  ignoreOtherProcesses: false,
  ...options
})

/** Claims a start. */
export const calls = (max: number, tool = "t", batch = "b"): StateStore.CallsClaim => ({
  _tag: "Calls",
  batch,
  tool,
  max
})

/** Claims the use of a tool of a group. */
export const group = (tool: string, name = "g", batch = "b"): StateStore.GroupClaim => ({
  _tag: "Group",
  batch,
  group: name,
  tool
})

/** Claims a tool that rests between its calls. */
export const rest = (millis: number, tool = "t", principal = "p"): StateStore.CooldownClaim => ({
  _tag: "Cooldown",
  principal,
  tool,
  millis
})

/** Has a claim count in a conversation. */
export const inSession = { scope: "session" } as const

/** An outcome to keep. */
export const value: StateStore.Kept = {
  outcome: {
    _tag: "Succeeded",
    callId: "a",
    tool: "t",
    index: 0,
    attempt: 1,
    queuedAt: 0,
    startedAt: 0,
    duration: 1,
    commits: 0,
    output: { _tag: "Inline", value: { text: ["kept"] }, modelText: "kept" },
    requestsContinuation: false,
    hasContinueRule: false
  },
  batch: "b",
  targets: [{ text: "a.txt", kind: "exact" }]
}

export const kept = { started: true, key: "keep", windowMillis: 1_000, value } as const
export const released = { started: true, key: "release", windowMillis: 1_000, value: undefined } as const
/** It never started. */
export const unstarted = { started: false, key: "release", windowMillis: 1_000, value: undefined } as const
/** Its handler still runs after the outcome. */
export const running = { started: true, key: "running", windowMillis: 1_000, value: undefined } as const

export const isReserved = (it: object | undefined): void => {
  assert.equal(it !== undefined && !("_tag" in it), true, "is a reservation")
}

export const includes = (it: object | undefined, fields: object): void => {
  const known = new Map(Object.entries(it ?? {}))
  assert.deepEqual(Object.fromEntries(Object.keys(fields).map((name) => [name, known.get(name)])), fields)
}

export const hasTag = (
  it: StateStore.Reservation | StateStore.Refused | undefined,
  tag: StateStore.Refused["_tag"]
): void => {
  assert.equal(it !== undefined && "_tag" in it ? it._tag : it, tag)
}
