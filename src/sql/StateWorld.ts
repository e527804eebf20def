/**
 * A part of the state, loaded: what calls reserve, start and settle is decided on it, and it knows what has changed.
 * The rules are those of `MemoryStore`; that what both say is the same is held by one suite.
 *
 * It loads nothing and waits for nothing: its caller brings all that is needed.
 */
import type {
  CallsClaim,
  Claim,
  CooldownClaim,
  GroupClaim,
  KeyClaim,
  Refused,
  Request,
  Reservation,
  Settlement
} from "../core/store/StateStore.ts"
import {
  batchId,
  type Choice,
  digest,
  emptyState,
  type Held,
  type Key,
  keyId,
  type Presumed,
  principalId,
  type RestClock,
  type Scope,
  type ScopeState
} from "./StateRecords.ts"

/** How a store writes what it reserves. */
export interface Options {
  readonly batchMillis: number
  readonly leaseMillis: number
  readonly newId: () => string
  readonly encode: (value: NonNullable<Settlement["value"]>) => string
  readonly decode: (value: string) => NonNullable<Settlement["value"]>
}

/** A part of the state, loaded. */
export class World {
  private readonly options: Options
  readonly scopes = new Map<string, Scope>()
  readonly held = new Map<string, Held>()
  readonly keys = new Map<string, Key>()
  /** What has changed; the scopes know it themselves. */
  readonly changed = { held: new Set<string>(), keys: new Set<string>() }
  /** It was not loaded now: a decision that depends on a record marks it as changed, so that its version is checked. */
  isRemembered = false

  constructor(options: Options) {
    this.options = options
  }

  /** Whether there is anything to write. */
  get isDirty(): boolean {
    return this.changed.held.size > 0 || this.changed.keys.size > 0 ||
      Array.from(this.scopes.values()).some((it) => it.isDirty)
  }

  /**
   * Frees what belongs to owners that have not renewed it. What has started is presumed from what is known here; a
   * later `abandon` may know better.
   */
  reap(now: number): void {
    for (const it of Array.from(this.held.values())) {
      if (!it.isExpired) continue
      if (it.presumed === undefined) this.presume(it, now)
      else this.outlive(it, now)
    }
  }

  /** Tells the first claim that could not be had. */
  check(claims: ReadonlyArray<Claim>, now: number): Refused | undefined {
    return this.find(claims, now, {})
  }

  reserve({ claims, owner, replaces, session, starts }: Request, now: number): Reservation | Refused {
    if (replaces !== undefined) this.settle(replaces, nothing, now)
    const found: Found = {}
    const refused = this.find(claims, now, found)
    if (refused !== undefined) return refused
    const { batch, calls, clock, groups = [], key, principal } = found
    const isEarly = starts !== undefined
    if (starts?.mutates !== undefined) this.mutated(starts.mutates)
    const it: Held = {
      id: this.options.newId(),
      epoch: 1,
      session: digest(session),
      batch: batch?.id,
      principal: principal?.id,
      key: key === undefined ? undefined : keyId(key),
      isExpired: false,
      generation: batch?.state.generation,
      calls: calls?.tool,
      clock: clock?.tool,
      groups: groups.map((claim) => claim.group),
      windowMillis: key?.windowMillis === undefined ? undefined : whole(key.windowMillis),
      startedAt: isEarly ? now : undefined,
      isEarly,
      isRunning: false,
      presumed: undefined
    }
    for (const scope of [batch, principal]) if (scope !== undefined) scope.state.open++
    if (calls !== undefined) batch!.state.calls.set(calls.tool, (batch!.state.calls.get(calls.tool) ?? 0) + 1)
    if (clock !== undefined) clockOf(principal!.state, clock).running++
    for (const claim of groups) {
      const choice = choiceOf(batch!.state, claim.group)
      choice.tool = claim.tool
      choice.holders++
    }
    if (key !== undefined) this.take(key, it, owner, now)
    this.held.set(it.id, it)
    this.changes(it)
    const reservation = { id: it.id, epoch: it.epoch, leaseMillis: this.options.leaseMillis }
    return isEarly ? { ...reservation, isStarted: true } : reservation
  }

  start(reservation: Reservation, now: number): boolean {
    const it = this.get(reservation)
    if (it === undefined || it.isRunning) return false
    it.startedAt ??= now
    it.isEarly = false
    this.changes(it)
    return true
  }

  renew(reservation: Reservation): boolean {
    const it = this.get(reservation)
    if (it !== undefined) this.changes(it)
    return it !== undefined
  }

  settle(reservation: Reservation, settlement: Settlement, now: number): boolean {
    if (settlement.mutates !== undefined) this.mutated(settlement.mutates)
    const it = this.get(reservation)
    if (it === undefined || it.isRunning) return false
    this.end(it, settlement, now)
    return true
  }

  release(reservation: Reservation, now: number): boolean {
    const it = this.get(reservation)
    if (it?.isRunning !== true) return false
    this.endFiber(it, now)
    return true
  }

  /** Whoever reserved things in a session is over; of these reservations it is known that they started. */
  abandon(session: string, now: number, started: ReadonlyArray<Reservation>): void {
    for (const it of started) this.start(it, now)
    const known = new Set(started.map((it) => it.id))
    const id = digest(session)
    for (const it of Array.from(this.held.values())) {
      if (it.session !== id) continue
      if (it.presumed !== undefined) this.correct(it, it.presumed, known.has(it.id), now)
      else {
        if (it.isEarly) it.startedAt = undefined
        this.over(it, now)
      }
    }
  }

  /** What the principal has read is stale. */
  mutated(principal: string): void {
    const id = principalId(principal)
    const scope = this.isRemembered ? this.scope(id) : this.scopes.get(id)
    if (scope === undefined) return
    if (!scope.state.hasRead) {
      scope.isDirty ||= this.isRemembered
      return
    }
    scope.state.mutations++
    scope.state.hasRead = false
    scope.isDirty = true
  }

  /** Forgets a batch; what is open in it belongs to none any more. */
  closeBatch(batch: string): void {
    const scope = this.scopes.get(batchId(batch))
    if (scope === undefined) return
    scope.state = emptyState(this.options.newId())
    scope.isDirty = true
  }

  /** Epoch milliseconds from which a scope may be forgotten; undefined while something in it is open. */
  until({ id, state }: Scope): number | undefined {
    if (state.open > 0) return undefined
    if (id.startsWith("b")) return whole(state.usedAt + this.options.batchMillis)
    const rests = Array.from(state.clocks.values(), (it) => (it.endedAt ?? 0) + it.millis)
    return whole(Math.max(state.keptUntil, ...rests))
  }

  private find(claims: ReadonlyArray<Claim>, now: number, found: Found): Refused | undefined {
    for (const claim of claims) {
      const refused = this.refusal(claim, now, found)
      if (refused !== undefined) return refused
    }
    return undefined
  }

  /** What refuses a claim; otherwise gathers what it is about. */
  private refusal(claim: Claim, now: number, found: Found): Refused | undefined {
    if (claim._tag === "Key") return this.keyRefusal(claim, now, found)
    if (claim._tag === "Cooldown") {
      found.principal ??= this.scope(principalId(claim.principal))
      found.clock = claim
      return coolingDown(clockOf(found.principal.state, claim), claim, now)
    }
    const { state } = found.batch ??= this.batch(claim.batch, now)
    if (claim._tag === "Calls") {
      found.calls = claim
      return (state.calls.get(claim.tool) ?? 0) >= claim.max ? usedUp : undefined
    }
    if (claim._tag === "Group") {
      const { tool } = choiceOf(state, claim.group)
      if (tool !== undefined && tool !== claim.tool) return { _tag: "GroupTaken", group: claim.group, tool }
      ;(found.groups ??= []).push(claim)
    }
    return undefined
  }

  private keyRefusal(claim: KeyClaim, now: number, found: Found): Refused | undefined {
    const { state } = found.principal ??= this.scope(principalId(claim.principal))
    const batch = claim.scope === "principal" ? undefined : found.batch ??= this.batch(claim.batch, now)
    found.key = claim
    const key = this.keys.get(keyId(claim))
    if (key === undefined || !isLive(key, state, batch?.state.generation, now)) return undefined
    const counted = (key.until === undefined ? claim.running : claim.settled) ?? "all"
    const counts = counted === "all" || (counted === "told" && !key.untold)
    const isOthers = key.until !== undefined && claim.ignoreOtherProcesses && key.process !== claim.process
    if (!counts || isOthers) return undefined
    return {
      _tag: "KeyTaken",
      owner: key.owner,
      reservation: key.reservation,
      process: key.process,
      untold: key.untold,
      running: key.until === undefined,
      value: key.value === undefined ? undefined : this.options.decode(key.value)
    }
  }

  /** Takes a key, unless the model sees the outcome of the call that has it and not of this one. */
  private take(claim: KeyClaim, it: Held, owner: string, now: number): void {
    const { state } = this.scope(it.principal!)
    const generation = claim.scope === "principal" ? undefined : it.generation
    const untold = claim.untold === true
    const before = this.keys.get(it.key!)
    if (claim.readOnly) state.hasRead = true
    if (untold && before?.untold === false && isLive(before, state, generation, now)) return
    this.keys.set(it.key!, {
      id: it.key!,
      owner,
      reservation: it.id,
      process: claim.process,
      untold,
      generation,
      readAt: claim.readOnly ? state.mutations : undefined,
      until: undefined,
      value: undefined
    })
    this.changed.keys.add(it.key!)
  }

  private get({ epoch, id }: Reservation): Held | undefined {
    const it = this.held.get(id)
    return it?.epoch === epoch && it.presumed === undefined ? it : undefined
  }

  /** Its call has its outcome. */
  private end(it: Held, settlement: Settlement, now: number): void {
    const { started } = settlement
    const isRunning = settlement.key === "running"
    const batch = this.batchOf(it)
    if (batch !== undefined) {
      batch.open--
      batch.usedAt = now
      if (it.calls !== undefined && !started) batch.calls.set(it.calls, batch.calls.get(it.calls)! - 1)
      for (const group of it.groups) {
        const choice = choiceOf(batch, group)
        choice.holders--
        if (started) choice.isKept = true
        else if (choice.holders === 0 && !choice.isKept) choice.tool = undefined
      }
    }
    const clock = this.clockOf(it)
    if (clock !== undefined) {
      clock.running--
      if (started) clock.endedAt = Math.max(clock.endedAt ?? now, now)
      if (isRunning) clock.lingering++
    }
    it.isRunning = isRunning
    if (!isRunning) this.forget(it, settlement, now)
    this.changes(it)
  }

  /** The fiber has ended that outlived the outcome. */
  private endFiber(it: Held, now: number): void {
    const clock = this.clockOf(it)
    if (clock !== undefined) {
      clock.lingering--
      clock.endedAt = Math.max(clock.endedAt ?? now, now)
    }
    this.forget(it, nothing, now)
    this.changes(it)
  }

  /** Nobody will say how it ended: it rests from its start, and its key counts from there. */
  private over(it: Held, now: number): void {
    if (it.isRunning) return this.endFiber(it, now)
    if (it.startedAt === undefined) return this.end(it, nothing, now)
    const { windowMillis } = it
    this.end(
      it,
      windowMillis === undefined
        ? { ...nothing, started: true }
        : { started: true, key: "keep", windowMillis, value: undefined },
      it.startedAt
    )
    const batch = this.batchOf(it)
    if (batch !== undefined) batch.usedAt = now
  }

  /** Its lease is over: ends it by what is known, and keeps what is needed to correct that. */
  private presume(it: Held, now: number): void {
    const isUnsure = it.startedAt === undefined ? (it.calls ?? it.clock) !== undefined : it.isEarly
    const isKept = isUnsure && !it.isRunning
    const endedAt = this.clockOf(it)?.endedAt
    this.over(it, now)
    if (!isKept) return
    it.presumed = { endedAt, until: now + Math.max(this.options.batchMillis, it.windowMillis ?? 0) }
    this.held.set(it.id, it)
  }

  /** A presumption is forgotten once nothing depends on it: its batch is over, and so is the window of its key. */
  private outlive(it: Held, now: number): void {
    const batch = this.batchOf(it)
    const isIdle = batch === undefined || (batch.open === 0 && now - batch.usedAt >= this.options.batchMillis)
    if (isIdle && it.presumed!.until <= now) this.held.delete(it.id)
    this.changes(it)
  }

  /** Replaces what was presumed at the end of its lease by what is known. */
  private correct(it: Held, { endedAt }: Presumed, started: boolean, now: number): void {
    this.held.delete(it.id)
    this.changes(it)
    const { calls, key, startedAt } = it
    if (started === (startedAt !== undefined)) return
    const batch = this.batchOf(it)
    if (calls !== undefined && batch !== undefined) {
      batch.calls.set(calls, (batch.calls.get(calls) ?? 0) + (started ? 1 : -1))
    }
    const clock = this.clockOf(it)
    if (clock !== undefined) {
      if (started) clock.endedAt = Math.max(clock.endedAt ?? now, now)
      else if (clock.endedAt === startedAt) clock.endedAt = endedAt
    }
    if (key !== undefined && this.keys.get(key)?.reservation === it.id) {
      this.keys.delete(key)
      this.changed.keys.add(key)
    }
  }

  private forget(it: Held, { key: keeps, value, windowMillis }: Settlement, now: number): void {
    this.held.delete(it.id)
    const principal = it.principal === undefined ? undefined : this.scopes.get(it.principal)?.state
    if (principal !== undefined) principal.open--
    const key = it.key === undefined ? undefined : this.keys.get(it.key)
    // a later call may have taken the key of a read that a write made stale
    if (key?.reservation !== it.id) return
    this.changed.keys.add(key.id)
    if (keeps === "release" || isStale(key, principal)) {
      this.keys.delete(key.id)
      return
    }
    key.until = whole(now + windowMillis)
    key.value = value === undefined ? undefined : this.options.encode(value)
    if (principal !== undefined) principal.keptUntil = Math.max(principal.keptUntil, key.until)
  }

  /** Whatever is changed in a reservation is changed in its scopes: their versions guard it. */
  private changes(it: Held): void {
    this.changed.held.add(it.id)
    for (const id of [it.batch, it.principal]) {
      const scope = id === undefined ? undefined : this.scopes.get(id)
      if (scope !== undefined) scope.isDirty = true
    }
  }

  private scope(id: string): Scope {
    let scope = this.scopes.get(id)
    if (scope === undefined) {
      scope = { id, version: -1, state: emptyState(this.options.newId()), isDirty: false }
      this.scopes.set(id, scope)
    }
    return scope
  }

  /** A batch that was idle past its time starts over. */
  private batch(batch: string, now: number): Scope {
    const scope = this.scope(batchId(batch))
    const { open, usedAt } = scope.state
    if (open === 0 && now - usedAt >= this.options.batchMillis) scope.state = emptyState(this.options.newId())
    scope.state.usedAt = now
    return scope
  }

  /** The batch that a reservation is of, unless that was forgotten. */
  private batchOf({ batch, generation }: Held): ScopeState | undefined {
    const state = batch === undefined ? undefined : this.scopes.get(batch)?.state
    return state?.generation === generation ? state : undefined
  }

  private clockOf({ clock, principal }: Held): RestClock | undefined {
    return clock === undefined ? undefined : this.scopes.get(principal!)?.state.clocks.get(clock)
  }
}

/** What the claims of a request are about. */
interface Found {
  batch?: Scope
  principal?: Scope
  key?: KeyClaim
  calls?: CallsClaim
  clock?: CooldownClaim
  groups?: Array<GroupClaim>
}

const nothing: Settlement = { started: false, key: "release", windowMillis: 0, value: undefined }

const usedUp: Refused = { _tag: "CallsUsedUp" }

const choiceOf = ({ groups }: ScopeState, group: string): Choice => {
  let choice = groups.get(group)
  if (choice === undefined) groups.set(group, choice = { tool: undefined, holders: 0, isKept: false })
  return choice
}

const clockOf = ({ clocks }: ScopeState, { millis, tool }: CooldownClaim): RestClock => {
  let clock = clocks.get(tool)
  if (clock === undefined) {
    clocks.set(tool, clock = { running: 0, lingering: 0, endedAt: undefined, millis: whole(millis) })
  }
  clock.millis = Math.max(clock.millis, whole(millis))
  return clock
}

const coolingDown = (
  { endedAt, lingering, running }: RestClock,
  { millis }: CooldownClaim,
  now: number
): Refused | undefined => {
  if (running > 0 || lingering > 0) return { _tag: "CoolingDown", running: true, remainingMillis: millis }
  return endedAt !== undefined && now - endedAt < millis
    ? { _tag: "CoolingDown", running: false, remainingMillis: endedAt + millis - now }
    : undefined
}

/** Milliseconds as a database has them. */
const whole = (millis: number): number => Math.min(Math.ceil(millis), Number.MAX_SAFE_INTEGER)

const isStale = ({ readAt }: Key, principal: ScopeState | undefined): boolean =>
  readAt !== undefined && readAt !== principal?.mutations

/** Whether a key counts at all. */
const isLive = (key: Key, principal: ScopeState, generation: string | undefined, now: number): boolean =>
  !isStale(key, principal) &&
  (key.until === undefined || (key.generation === generation && now < key.until))
