/**
 * The memory driver of `StateStore`. It is atomic because it does not yield,
 * and its cost does not grow with what it holds.
 *
 * What nobody asks for any more is dropped little by little as new batches and
 * principals come, so endless distinct ones need no `pruneExpired`.
 *
 * @since 0.1.0
 */
import { type Grant, isOpen } from "./Grant.ts"
import { type KeyEntry, Keys } from "./MemoryKeys.ts"
import type {
  CallsClaim,
  Claim,
  CooldownClaim,
  GroupClaim,
  Refused,
  Reservation,
  Settlement,
  StateStore
} from "./StateStore.ts"

/**
 * Bounds of the memory driver.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** Settled dedupe keys kept per principal; the oldest goes first. Default 2,000. */
  readonly maxKeys?: number | undefined
  /** Characters of settled dedupe keys kept per principal. Default 8,000,000. */
  readonly maxKeyChars?: number | undefined
  /** Milliseconds after the last call of a batch after which its counts and choices are forgotten. Default 1 hour. */
  readonly batchTtlMillis?: number | undefined
}

/**
 * Creates a store that keeps the state in memory.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options?: Options): StateStore["Service"] => {
  const bounds = {
    maxKeys: options?.maxKeys ?? 2_000,
    maxKeyChars: options?.maxKeyChars ?? 8_000_000
  }
  const batchTtl = options?.batchTtlMillis ?? 3_600_000
  const principals = new Map<string, Principal>()
  const batches = new Map<string, Batch>()
  let lastId = 0

  const isIdle = (batch: Batch, now: number) => batch.open === 0 && now - batch.usedAt >= batchTtl
  const principalOf = (id: string, now: number): Principal => {
    let principal = principals.get(id)
    if (principal === undefined) {
      sweep(principals, (it) => it.isOver(now))
      principals.set(id, principal = new Principal(bounds))
    }
    return principal
  }
  const batchOf = (id: string, now: number): Batch => {
    let batch = batches.get(id)
    // a batch that was idle past its time begins anew, whether pruned or not
    if (batch === undefined || isIdle(batch, now)) {
      sweep(batches, (it) => isIdle(it, now))
      batches.set(id, batch = { usedAt: now, open: 0, calls: new Map(), groups: new Map() })
    }
    batch.usedAt = now
    return batch
  }
  /** Looks for what refuses the claims, and gathers what they are about. */
  const find = (owner: string, claims: ReadonlyArray<Claim>, now: number): Refused | Held => {
    const held: Held = {
      id: 0,
      owner,
      claims,
      state: "open",
      batch: undefined,
      count: undefined,
      tool: "",
      groups: undefined,
      clock: undefined,
      key: undefined
    }
    for (const claim of claims) {
      const refused = findOne(claim, held, now)
      if (refused !== undefined) return refused
    }
    return held
  }
  const findOne = (claim: Claim, held: Held, now: number): Refused | undefined => {
    switch (claim._tag) {
      case "Key": {
        const batch = claim.batch === undefined ? undefined : held.batch ??= batchOf(claim.batch, now)
        const entry = principalOf(claim.principal, now).keys.find(claim, batch, now)
        return entry && keyTaken(entry)
      }
      case "Batch":
        held.batch ??= batchOf(claim.batch, now)
        return undefined
      case "Calls":
        held.count = countOf(held.batch ??= batchOf(claim.batch, now), claim)
        return held.count.used >= claim.max ? usedUp : undefined
      case "Group": {
        const choice = choiceOf(held.batch ??= batchOf(claim.batch, now), claim)
        if (choice.tool !== undefined && choice.tool !== claim.tool) {
          return { _tag: "GroupTaken", group: claim.group, tool: choice.tool }
        }
        ;(held.groups ??= []).push(choice)
        held.tool = claim.tool
        return undefined
      }
      case "Cooldown":
        held.clock = clockOf(principalOf(claim.principal, now), claim)
        return coolingDown(held.clock, claim, now)
    }
  }

  const settle = (reservation: Reservation, settlement: Settlement, now: number): void => {
    const held = reservation as Held
    if (held.state !== "open") return
    held.state = settlement.key === "running" ? "running" : "settled"
    const { batch, clock, count, groups, key } = held
    if (batch !== undefined) {
      batch.open--
      batch.usedAt = now
    }
    if (!settlement.started && count !== undefined) count.used--
    for (const choice of groups ?? none) {
      choice.holders--
      if (settlement.started) choice.isKept = true
      else if (choice.holders === 0 && !choice.isKept) choice.tool = undefined
    }
    if (clock !== undefined) {
      clock.running--
      if (settlement.started) clock.endedAt = Math.max(clock.endedAt, now)
      if (settlement.key === "running") clock.lingering++
    }
    key?.keys.settle(key, settlement, now)
  }

  return {
    check: (claims, now) => {
      const found = find("", claims, now)
      return "_tag" in found ? found : undefined
    },
    reserve: (owner, claims, now, replaces) => {
      if (replaces !== undefined) settle(replaces, nothing, now)
      const held = find(owner, claims, now)
      if ("_tag" in held) return held
      held.id = ++lastId
      if (held.batch !== undefined) held.batch.open++
      if (held.count !== undefined) held.count.used++
      if (held.clock !== undefined) held.clock.running++
      for (const claim of claims) {
        if (claim._tag !== "Key") continue
        const batch = claim.batch === undefined ? undefined : held.batch
        held.key = principalOf(claim.principal, now).keys.take(claim, batch, held, now)
      }
      for (const choice of held.groups ?? none) {
        choice.tool = held.tool
        choice.holders++
      }
      return held
    },
    settle,
    release: (reservation, now) => {
      const held = reservation as Held
      if (held.state !== "running") return
      held.state = "settled"
      const { clock, key } = held
      if (clock !== undefined) {
        clock.lingering--
        clock.endedAt = Math.max(clock.endedAt, now)
      }
      key?.keys.forget(key)
    },
    grant: (grant) => {
      principalOf(grant.principal, grant.grantedAt).grants.set(grant.id, grant)
    },
    grants: (principal, now) => principals.get(principal)?.openGrants(now) ?? noGrants,
    revoke: (principal, id) => principals.get(principal)?.grants.delete(id) ?? false,
    mutated: (principal) => {
      const known = principals.get(principal)
      // without a key there is nothing that a write could make stale
      if (known !== undefined) known.keys.epoch++
    },
    closeBatch: (batch) => {
      batches.delete(batch)
    },
    pruneExpired: (now) => {
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
  }
}

// Utilities

interface Count {
  used: number
}

/** Which tool of a group is used. */
interface Choice {
  tool: string | undefined
  /** Calls that have reserved it and not settled. */
  holders: number
  /** One of them started. */
  isKept: boolean
}

/** When a tool may start again. */
interface RestClock {
  running: number
  /** Handlers that outlived their outcome: it rests from their end. */
  lingering: number
  endedAt: number
  /** The longest rest that was asked for. */
  millis: number
}

interface Batch {
  usedAt: number
  /** Reservations that are not settled. */
  open: number
  readonly calls: Map<string, Count>
  readonly groups: Map<string, Choice>
}

/** A reservation that knows what it is about, so that settling looks nothing up. */
interface Held extends Reservation {
  id: number
  state: "open" | "running" | "settled"
  batch: Batch | undefined
  count: Count | undefined
  /** The tool that is to be the one of the groups. */
  tool: string
  groups: Array<Choice> | undefined
  clock: RestClock | undefined
  key: KeyEntry | undefined
}

const none: ReadonlyArray<never> = []

const nothing: Settlement = { started: false, key: "release", windowMillis: 0, value: undefined }

const noGrants: ReadonlyArray<Grant> = []

const usedUp: Refused = { _tag: "CallsUsedUp" }

const keyTaken = (entry: KeyEntry): Refused => ({
  _tag: "KeyTaken",
  owner: entry.owner,
  reservation: entry.reservation,
  process: entry.process,
  untold: entry.untold,
  running: entry.settledAt === undefined,
  value: entry.value
})

const countOf = (batch: Batch, { tool }: CallsClaim): Count => {
  let count = batch.calls.get(tool)
  if (count === undefined) batch.calls.set(tool, count = { used: 0 })
  return count
}

const choiceOf = (batch: Batch, { group }: GroupClaim): Choice => {
  let choice = batch.groups.get(group)
  if (choice === undefined) batch.groups.set(group, choice = { tool: undefined, holders: 0, isKept: false })
  return choice
}

const clockOf = (principal: Principal, { millis, tool }: CooldownClaim): RestClock => {
  let clock = principal.clocks.get(tool)
  if (clock === undefined) principal.clocks.set(tool, clock = { running: 0, lingering: 0, endedAt: -Infinity, millis })
  clock.millis = Math.max(clock.millis, millis)
  return clock
}

const coolingDown = (
  { endedAt, lingering, running }: RestClock,
  { millis }: CooldownClaim,
  now: number
): Refused | undefined => {
  if (running > 0 || lingering > 0) return { _tag: "CoolingDown", running: true, remainingMillis: millis }
  return now - endedAt < millis
    ? { _tag: "CoolingDown", running: false, remainingMillis: endedAt + millis - now }
    : undefined
}

const isRested = ({ endedAt, lingering, millis, running }: RestClock, now: number): boolean =>
  running === 0 && lingering === 0 && now - endedAt >= millis

/** So many of the oldest are looked at whenever a new one comes: more than one, so that they are caught up with. */
const swept = 4

/** Drops the oldest that are over; those that are not go behind the others. */
const sweep = <A>(all: Map<string, A>, isOver: (it: A) => boolean): void => {
  const oldest: Array<readonly [string, A]> = []
  for (const entry of all) {
    if (oldest.push(entry) === swept) break
  }
  for (const [id, it] of oldest) {
    all.delete(id)
    if (!isOver(it)) all.set(id, it)
  }
}

/** What belongs to one principal. */
class Principal {
  readonly keys: Keys
  readonly clocks = new Map<string, RestClock>()
  readonly grants = new Map<string, Grant>()

  constructor(bounds: { readonly maxKeys: number; readonly maxKeyChars: number }) {
    this.keys = new Keys(bounds)
  }

  /** Nothing in it counts any more. */
  isOver(now: number): boolean {
    return this.keys.isOver(now) && Array.from(this.clocks.values()).every((clock) => isRested(clock, now)) &&
      this.openGrants(now).length === 0
  }

  openGrants(now: number): ReadonlyArray<Grant> {
    return this.grants.size === 0 ? noGrants : Array.from(this.grants.values()).filter((it) => isOpen(it, now))
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
