/**
 * The memory driver of `StateStore`. It is atomic because it does not yield, and its cost does not grow with what it
 * holds.
 *
 * Unused state is dropped little by little as new batches and principals come, so endlessly many of them need no
 * `pruneExpired`.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { keep } from "../rules/SharedPast.ts"
import { type Grant, isOpen } from "../vocabulary/Grant.ts"
import {
  type BatchClaim,
  type CallsClaim,
  type Claim,
  type ClaimScope,
  type CooldownClaim,
  type GroupClaim,
  type KeyClaim,
  lessOf,
  nameOf,
  type Refused,
  type Request,
  type Reservation,
  type Settlement
} from "./Claims.ts"
import { Keys } from "./MemoryKeys.ts"
import { AllHeld, Batch, type Choice, type Count, Held, type RestClock } from "./MemoryReservations.ts"
import { sweep } from "./sweep.ts"

/** Bounds of the memory driver. */
export interface Options {
  /** Settled dedupe keys kept per principal; the oldest goes first. Default 2,000. */
  readonly maxKeys?: number | undefined
  /** How long after the last call of a batch its counts and choices are remembered. Default 1 hour. */
  readonly batchTimeToLive?: Duration.Input | undefined
  /** How long after the last call of a session what rules remember of it is kept. Default 90 days. */
  readonly sessionTimeToLive?: Duration.Input | undefined
}

export const defaults = {
  maxKeys: 2_000,
  batchTimeToLive: "1 hour",
  sessionTimeToLive: "90 days"
} as const satisfies Options

/**
 * Creates a driver that keeps the state in memory. It answers without waiting, and holds reservations until the process
 * ends.
 */
export const make = (options?: Options) => {
  const maxKeys = options?.maxKeys ?? defaults.maxKeys
  const millisOf = (name: "batchTimeToLive" | "sessionTimeToLive") =>
    Duration.toMillis(Duration.fromInputUnsafe(options?.[name] ?? defaults[name]))
  const batchTtl = millisOf("batchTimeToLive")
  const sessionTtl = millisOf("sessionTimeToLive")
  const principals = new Map<string, Principal>()
  const batches = new Map<string, Batch>()
  const held = new AllHeld()
  let lastBatch = 0

  const isIdle = (batch: Batch, now: number) => batch.open === 0 && now - batch.usedAt >= batch.timeToLive
  const principalOf = (id: string, now: number): Principal => {
    let principal = principals.get(id)
    if (principal === undefined) {
      sweep(principals, (it) => it.isOver(now))
      principals.set(id, principal = new Principal(maxKeys))
    }
    return principal
  }
  const batchOf = (id: string, now: number, scope?: ClaimScope): Batch => {
    let batch = batches.get(id)
    // a batch that was idle past its time starts over, pruned or not
    if (batch === undefined || isIdle(batch, now)) {
      sweep(batches, (it) => isIdle(it, now))
      batch = new Batch(++lastBatch, now, scope === "session" ? sessionTtl : batchTtl)
      batches.set(id, batch)
    }
    return batch
  }
  /** What refuses a claim; otherwise gathers what it is about. */
  const find = (claim: Claim, it: Held, now: number, resumed?: string): Refused | undefined => {
    switch (claim._tag) {
      case "Key": {
        it.claim = claim
        const keys = it.keys = principalOf(claim.principal, now).keys
        if (claim.scope !== "principal") it.batch ??= batchOf(claim.batch, now)
        const slot = it.slot = keys.find(claim)
        return slot !== 0 && keys.refuses(slot, claim, serialOf(claim, it), now, resumed) ? keys.taken(slot) : undefined
      }
      case "Batch":
        partOf(it, batchOf(claim.batch, now, claim.scope), undefined)
        return undefined
      case "Calls": {
        const batch = batchOf(claim.batch, now, claim.scope)
        const { count } = partOf(it, batch, "count", countOf(batch, claim))
        return count!.used >= claim.max ? usedUp(claim) : undefined
      }
      case "Group": {
        const batch = batchOf(claim.batch, now, claim.scope)
        const choice = choiceOf(batch, claim)
        if (choice.tool !== undefined && choice.tool !== claim.tool) {
          return { _tag: "GroupTaken", group: claim.group, tool: choice.tool }
        }
        ;(partOf(it, batch, undefined).groups ??= []).push({ choice, tool: claim.tool })
        return undefined
      }
      case "Cooldown": {
        if (claim.batch === undefined) {
          const clock = clockOf(principalOf(claim.principal, now), claim)
          partOf(it, undefined, "clock", clock)
          return coolingDown(clock, claim, now)
        }
        const batch = batchOf(claim.batch, now, claim.scope)
        return coolingDown(partOf(it, batch, "clock", clockOf(batch, claim)).clock!, claim, now)
      }
    }
  }
  const findAll = (claims: ReadonlyArray<Claim>, it: Held, now: number, resumed?: string): Refused | undefined => {
    // by index: an iterator for each call is more than the rest of this step
    for (let index = 0; index < claims.length; index++) {
      const refused = find(claims[index]!, it, now, resumed)
      if (refused !== undefined) return refused
    }
    return undefined
  }

  const reserve = (request: Request, now: number): Reservation | Refused => {
    const { call, claims, isResumed, owner, replaces, session, starts } = request
    if (replaces !== undefined) settle(replaces, nothing, now)
    const resumed = isResumed === true ? call : undefined
    if (resumed !== undefined) { for (const earlier of held.ofCall(resumed)) settle(earlier, nothing, now) }
    const it = new Held(session, call)
    const refused = findAll(claims, it, now, resumed)
    const less = refused && lessOf(request, refused)
    if (refused !== undefined) return less === undefined ? refused : reserve(less, now)
    if (starts !== undefined) {
      it.startedAt = now
      it.isEarly = it.isStarted = true
      if (starts.mutates !== undefined) mutated(starts.mutates, undefined)
    }
    held.add(it)
    for (let part: Held | undefined = it; part !== undefined; part = part.also) {
      const { batch, clock, count, groups } = part
      if (batch !== undefined) {
        batch.open++
        batch.usedAt = now
      }
      if (count !== undefined) count.used++
      if (clock !== undefined) clock.running++
      if (groups === undefined) continue
      for (const { choice, tool } of groups) {
        choice.tool = tool
        choice.holders++
      }
    }
    const { claim } = it
    if (claim !== undefined) {
      it.slot = it.keys!.take(claim, it.slot, serialOf(claim, it), { call, holder: it.number, owner }, now)
      it.windowMillis = claim.windowMillis
      it.claim = undefined
    }
    return it
  }

  /** Keys of the principal are overtaken, but for that of the call. Without a key there is none to overtake. */
  const mutated = (principal: string, by: Held | undefined): void => {
    const keys = principals.get(principal)?.keys
    keys?.mutated(by?.keys === keys ? by.slot : 0, by?.number ?? 0)
  }

  const settle = (reservation: Reservation, settlement: Settlement, now: number): boolean => {
    const it = held.find(reservation)
    if (settlement.mutates !== undefined) mutated(settlement.mutates, it)
    if (it === undefined || it.isRunning) return false
    if (settlement.key === "running") it.isRunning = true
    else held.delete(it)
    for (let part: Held | undefined = it; part !== undefined; part = part.also) settlePart(part, settlement, now)
    it.keys?.settle(it.slot, it.number, settlement, now)
    return true
  }

  const release = (reservation: Reservation, now: number): boolean => {
    const it = held.find(reservation)
    if (it?.isRunning !== true) return false
    held.delete(it)
    for (let part: Held | undefined = it; part !== undefined; part = part.also) {
      const { clock } = part
      if (clock === undefined) continue
      clock.lingering--
      clock.endedAt = Math.max(clock.endedAt, now)
    }
    it.keys?.release(it.slot, it.number)
    return true
  }

  const start = (reservation: Reservation, now: number): boolean => {
    const it = held.find(reservation)
    if (it === undefined || it.isRunning) return false
    it.startedAt ??= now
    it.isEarly = false
    return true
  }

  /** Nobody will say how it ended: it rests from its start, and its key counts from there. */
  const abandon = (it: Held, now: number): void => {
    if (it.isRunning) {
      release(it, now)
      return
    }
    if (it.startedAt === undefined || it.isEarly) settle(it, nothing, now)
    else settle(it, unended(it.windowMillis), it.startedAt)
    for (let part: Held | undefined = it; part !== undefined; part = part.also) {
      if (part.batch !== undefined) part.batch.usedAt = now
    }
  }

  const prune = (now: number): number => {
    let dropped = 0
    for (const [id, batch] of batches) {
      if (isIdle(batch, now) && batches.delete(id)) dropped++
    }
    for (const [id, principal] of principals) {
      dropped += principal.prune(now)
      if (principal.isOver(now)) principals.delete(id)
    }
    return dropped
  }

  return {
    check: (claims: ReadonlyArray<Claim>, now: number) => Effect.succeed(findAll(claims, new Held(""), now)),
    reserve: (requests: ReadonlyArray<Request>, now: number) =>
      Effect.succeed(requests.map((request) => reserve(request, now))),
    start: (reservations: ReadonlyArray<Reservation>, now: number) =>
      Effect.succeed(reservations.filter((it) => start(it, now))),
    renew: (reservations: ReadonlyArray<Reservation>) =>
      Effect.succeed(reservations.filter((it) => held.find(it) !== undefined)),
    settle: (reservation: Reservation, settlement: Settlement, now: number) =>
      settle(reservation, settlement, now) ? done : undone,
    release: (reservation: Reservation, now: number) => release(reservation, now) ? done : undone,
    abandon: (session: string, now: number, started: ReadonlyArray<Reservation>) => {
      for (const it of started) start(it, now)
      for (const it of held.of(session)) abandon(it, now)
      return Effect.void
    },
    grant: (grant: Grant) => {
      principalOf(grant.principal, grant.grantedAt).grants.set(grant.id, grant)
      return Effect.void
    },
    grants: (principal: string, now: number) => {
      const known = principals.get(principal)
      return known === undefined || known.grants.size === 0 ? noGrants : Effect.succeed(known.openGrants(now))
    },
    allGrants: (now: number) =>
      Effect.succeed(Array.from(principals.values()).flatMap((known) => known.openGrants(now))),
    revoke: (principal: string, id: string) => principals.get(principal)?.grants.delete(id) === true ? done : undone,
    mutated: (principal: string, by?: Reservation) => {
      mutated(principal, by && held.find(by))
      return Effect.void
    },
    recall: (of: ReadonlyArray<BatchClaim>, now: number) =>
      Effect.succeed(of.map(({ batch }) => {
        const known = batches.get(batch)
        return known === undefined || isIdle(known, now) ? undefined : known.past
      })),
    closeBatch: (batch: string) => {
      batches.delete(batch)
      return Effect.void
    },
    pruneExpired: (now: number) => Effect.succeed(prune(now))
  }
}

const nothing: Settlement = { started: false, key: "release", windowMillis: 0, value: undefined }

const unended = (windowMillis: number | undefined): Settlement =>
  windowMillis === undefined
    ? { ...nothing, started: true }
    : { started: true, key: "keep", windowMillis, value: undefined }

const noGrants = Effect.succeed<ReadonlyArray<Grant>>([])

const done = Effect.succeed(true)

const undone = Effect.succeed(false)

const allUsedUp: Refused = { _tag: "CallsUsedUp" }

const usedUp = ({ scope }: CallsClaim): Refused => scope === undefined ? allUsedUp : { _tag: "CallsUsedUp", scope }

/**
 * The part of a reservation that is about a batch and has room for one more count or clock, which it then has. A clock
 * of the principal is in any part.
 */
const partOf = <K extends "count" | "clock">(
  it: Held,
  batch: Batch | undefined,
  kind: K | undefined,
  value?: Held[K]
): Held => {
  const isTaken = kind !== undefined && it[kind] !== undefined
  const isOthers = batch !== undefined && it.batch !== undefined && it.batch !== batch
  if (isTaken || isOthers) return partOf(it.also ??= new Held(it.session), batch, kind, value)
  it.batch ??= batch
  if (kind !== undefined) it[kind] = value!
  return it
}

const settlePart = ({ batch, clock, count, groups }: Held, settlement: Settlement, now: number): void => {
  const { key, started, succeeded } = settlement
  if (batch !== undefined) {
    batch.open--
    batch.usedAt = now
    if (succeeded !== undefined) batch.past = keep(batch.past, succeeded)
  }
  if (!started && count !== undefined) count.used--
  if (groups !== undefined) {
    for (const { choice } of groups) {
      choice.holders--
      if (started) choice.isKept = true
      else if (choice.holders === 0 && !choice.isKept) choice.tool = undefined
    }
  }
  if (clock !== undefined) {
    clock.running--
    if (started) clock.endedAt = Math.max(clock.endedAt, now)
    if (key === "running") clock.lingering++
  }
}

/** The batch below which a key ends; 0: it does not end with any. */
const serialOf = ({ scope }: KeyClaim, { batch }: Held): number => scope === "principal" ? 0 : batch!.serial

const countOf = (batch: Batch, claim: CallsClaim): Count => {
  const name = nameOf(claim)
  let count = batch.calls.get(name)
  if (count === undefined) batch.calls.set(name, count = { used: 0 })
  return count
}

const choiceOf = (batch: Batch, claim: GroupClaim): Choice => {
  const group = nameOf(claim)
  let choice = batch.groups.get(group)
  if (choice === undefined) batch.groups.set(group, choice = { tool: undefined, holders: 0, isKept: false })
  return choice
}

const clockOf = ({ clocks }: Principal | Batch, claim: CooldownClaim): RestClock => {
  const { millis } = claim
  const name = nameOf(claim)
  let clock = clocks.get(name)
  if (clock === undefined) clocks.set(name, clock = { running: 0, lingering: 0, endedAt: -Infinity, millis })
  clock.millis = Math.max(clock.millis, millis)
  return clock
}

const coolingDown = (
  { endedAt, lingering, running }: RestClock,
  { millis, scope }: CooldownClaim,
  now: number
): Refused | undefined => {
  const isRunning = running > 0 || lingering > 0
  if (!isRunning && now - endedAt >= millis) return undefined
  const remainingMillis = isRunning ? millis : endedAt + millis - now
  const refused = { _tag: "CoolingDown", running: isRunning, remainingMillis } as const
  return scope === undefined ? refused : { ...refused, scope }
}

const isRested = ({ endedAt, lingering, millis, running }: RestClock, now: number): boolean =>
  running === 0 && lingering === 0 && now - endedAt >= millis

/** What belongs to one principal. */
class Principal {
  readonly keys: Keys
  readonly clocks = new Map<string, RestClock>()
  readonly grants = new Map<string, Grant>()

  constructor(maxKeys: number) {
    this.keys = new Keys(maxKeys)
  }

  /** Nothing in it counts any more. */
  isOver(now: number): boolean {
    return this.keys.isOver(now) && Array.from(this.clocks.values()).every((clock) => isRested(clock, now)) &&
      Array.from(this.grants.values()).every((grant) => !isOpen(grant, now))
  }

  openGrants(now: number): ReadonlyArray<Grant> {
    return Array.from(this.grants.values()).filter((it) => isOpen(it, now))
  }

  /** Drops what is over; gives the number of entries. */
  prune(now: number): number {
    let dropped = this.keys.prune(now)
    for (const [tool, clock] of this.clocks) {
      if (isRested(clock, now) && this.clocks.delete(tool)) dropped++
    }
    for (const [id, grant] of this.grants) {
      if (!isOpen(grant, now) && this.grants.delete(id)) dropped++
    }
    return dropped
  }
}
