/**
 * A part of the state, loaded: what calls reserve, start and settle is decided on it, and it knows what has changed.
 * The rules are those of `MemoryStore`; that what both say is the same is held by one suite.
 *
 * It loads nothing and waits for nothing: its caller brings all that is needed.
 */
import type { KeptPast } from "../core/rules/SharedPast.ts"
import { lessOf } from "../core/store/Claims.ts"
import type {
  BatchClaim,
  Claim,
  CooldownClaim,
  KeyClaim,
  Refused,
  Request,
  Reservation,
  Settlement,
  Within
} from "../core/store/StateStore.ts"
import { ask, clockOf, coolingDown, noPart, partOf, type Place, settlePart, take, whole } from "./StatePlaces.ts"
import {
  batchId,
  digest,
  emptyState,
  type Held,
  isDead,
  isLive,
  isOvertaken,
  type Key,
  keyId,
  type Part,
  placeId,
  type Presumed,
  principalId,
  type RestClock,
  type Scope,
  type ScopeState,
  sessionId
} from "./StateRecords.ts"

/** How a store writes what it reserves. */
export interface Options {
  readonly batchMillis: number
  readonly sessionMillis: number
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
   * Frees what belongs to owners that have not renewed it. Whether a call had started is presumed here; a
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

  reserve(request: Request, now: number): Reservation | Refused {
    const { call, claims, isResumed, owner, replaces, session, starts } = request
    if (replaces !== undefined) this.settle(replaces, nothing, now)
    const resumed = isResumed === true ? call : undefined
    if (resumed !== undefined) this.takeBack(resumed, now)
    const found: Found = { resumed }
    const refused = this.find(claims, now, found)
    const less = refused && lessOf(request, refused)
    if (refused !== undefined) return less === undefined ? refused : this.reserve(less, now)
    const { clock, key, own, principal, shared } = found
    const isEarly = starts !== undefined
    if (starts?.mutates !== undefined) this.mutated(starts.mutates, undefined)
    const it: Held = {
      id: this.options.newId(),
      epoch: 1,
      session: digest(session),
      call,
      batch: own?.scope.id,
      principal: principal?.id,
      conversation: shared?.scope.id,
      key: key === undefined ? undefined : keyId(key),
      isExpired: false,
      own: own === undefined ? noPart : partOf(own),
      shared: shared === undefined ? undefined : partOf(shared),
      clock: clock?.tool,
      windowMillis: key?.windowMillis === undefined ? undefined : whole(key.windowMillis),
      startedAt: isEarly ? now : undefined,
      isEarly,
      isRunning: false,
      presumed: undefined
    }
    if (principal !== undefined) principal.state.open++
    if (clock !== undefined) clockOf(principal!.state, clock).running++
    if (own !== undefined) take(own)
    if (shared !== undefined) take(shared)
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
    const { isRecorded, mutates } = settlement
    if (mutates !== undefined) this.mutated(mutates, reservation)
    const it = this.held.get(reservation.id)
    if (it?.epoch !== reservation.epoch || it.isRunning) return false
    if (it.presumed === undefined) this.end(it, settlement, now)
    else if (isRecorded === true) this.correct(it, it.presumed, settlement, now)
    else return false
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
      if (it.presumed !== undefined) {
        const settlement = known.has(it.id) ? unended(it) : nothing
        this.correct(it, it.presumed, settlement, it.startedAt ?? now)
      } else {
        if (it.isEarly) it.startedAt = undefined
        this.over(it, now)
      }
    }
  }

  /** The keys of the principal are overtaken, but for that of a reservation. */
  mutated(principal: string, by: Reservation | undefined): void {
    const id = principalId(principal)
    const scope = this.isRemembered ? this.scope(id) : this.scopes.get(id)
    if (scope === undefined) return
    const { state } = scope
    if (!state.hasRead) {
      scope.isDirty ||= this.isRemembered
      return
    }
    const held = by && this.get(by)
    const own = held?.key === undefined ? undefined : this.keys.get(held.key)
    const isOwn = own !== undefined && own.reservation === by!.id && !isOvertaken(own, state)
    state.mutations++
    state.hasRead = isOwn
    scope.isDirty = true
    if (!isOwn) return
    own.readAt = state.mutations
    this.changed.keys.add(own.id)
  }

  /** Forgets a batch or a session; what is open in it belongs to none any more. */
  closeBatch(batch: string): void {
    for (const id of [batchId(batch), sessionId(batch)]) {
      const scope = this.scopes.get(id)
      if (scope === undefined) continue
      scope.state = emptyState(this.options.newId())
      scope.isDirty = true
    }
  }

  /** What is remembered of a batch or a session. */
  recall(of: BatchClaim, now: number): KeptPast | undefined {
    const scope = this.scopes.get(placeId(of))
    return scope === undefined || this.isIdle(scope, now) ? undefined : scope.state.past
  }

  /** Epoch milliseconds from which a scope may be forgotten; undefined while something in it is open. */
  until({ id, state }: Scope): number | undefined {
    if (state.open > 0) return undefined
    const time = this.timeToLive(id)
    if (time !== undefined) return whole(state.usedAt + time)
    const rests = Array.from(state.clocks.values(), (it) => (it.endedAt ?? 0) + it.millis)
    return whole(Math.max(state.keptUntil, ...rests))
  }

  /** Gives back what an earlier life of a call has reserved and not started. */
  private takeBack(call: string, now: number): void {
    for (const it of Array.from(this.held.values())) {
      if (it.call !== call || it.isRunning) continue
      if (it.presumed === undefined) this.end(it, nothing, now)
      else this.correct(it, it.presumed, nothing, now)
    }
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
    if (claim._tag === "Cooldown" && claim.batch === undefined) {
      found.principal ??= this.scope(principalId(claim.principal))
      found.clock = claim
      return coolingDown(clockOf(found.principal.state, claim), claim, now)
    }
    const { batch, scope } = claim
    const place = found[scope === "session" ? "shared" : "own"] ??= {
      scope: this.batch({ batch: batch!, scope }, now),
      claims: []
    }
    return claim._tag === "Batch" ? undefined : ask(place, claim, now)
  }

  private keyRefusal(claim: KeyClaim, now: number, found: Found): Refused | undefined {
    const { state } = found.principal ??= this.scope(principalId(claim.principal))
    const batch = claim.scope === "principal"
      ? undefined
      : found.own ??= { scope: this.batch({ batch: claim.batch }, now), claims: [] }
    found.key = claim
    const key = this.keys.get(keyId(claim))
    if (key === undefined || !isLive(key, state, batch?.scope.state.generation, now)) return undefined
    if (found.resumed !== undefined && key.call === found.resumed) return undefined
    const counted = (key.until === undefined ? claim.running : claim.settled) ?? "all"
    const counts = counted === "all" || (counted === "told" && !key.untold)
    const isOthers = key.until !== undefined &&
      (claim.ignoreOtherProcesses && key.process !== claim.process || (key.wave ?? claim.wave) !== claim.wave)
    if (!counts || isOthers) return undefined
    return {
      _tag: "KeyTaken",
      owner: key.owner,
      reservation: key.reservation,
      process: key.process,
      untold: key.untold,
      running: key.until === undefined,
      endedAt: key.endedAt,
      until: key.until,
      isOvertaken: isOvertaken(key, state),
      value: key.value === undefined ? undefined : this.options.decode(key.value)
    }
  }

  /** Takes a key, unless the model sees the outcome of the call that has it and not of this one. */
  private take(claim: KeyClaim, it: Held, owner: string, now: number): void {
    const { state } = this.scope(it.principal!)
    const generation = claim.scope === "principal" ? undefined : it.own.generation
    const untold = claim.untold === true
    const before = this.keys.get(it.key!)
    state.hasRead = true
    if (untold && before?.untold === false && isLive(before, state, generation, now)) return
    this.keys.set(it.key!, {
      id: it.key!,
      owner,
      call: it.call,
      reservation: it.id,
      process: claim.process,
      untold,
      generation,
      wave: claim.endsWithWave ? claim.wave : undefined,
      readAt: state.mutations,
      outlasts: claim.endsWithChange ? undefined : true,
      endedAt: undefined,
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
    for (const { part, state } of this.placesOf(it)) settlePart(part, state, settlement, now)
    for (const clock of this.clocksOf(it).values()) {
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
    for (const clock of this.clocksOf(it).values()) {
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
    this.end(it, unended(it), it.startedAt)
    for (const { state } of this.placesOf(it)) state.usedAt = now
  }

  /** Its lease is over: ends it by what is known, and keeps what is needed to correct that. */
  private presume(it: Held, now: number): void {
    const clocks = this.clocksOf(it)
    const counts = clocks.size + it.own.calls.length + (it.shared?.calls.length ?? 0)
    const kept = it.key === undefined ? undefined : this.keys.get(it.key)
    const key = kept?.reservation === it.id ? { ...kept } : undefined
    const isKept = !it.isRunning && (counts > 0 || key !== undefined)
    const endedAt = Object.fromEntries(Array.from(clocks, ([name, clock]) => [name, clock.endedAt]))
    this.over(it, now)
    if (!isKept) return
    it.presumed = { endedAt, key, until: now + Math.max(this.options.batchMillis, it.windowMillis ?? 0) }
    this.held.set(it.id, it)
  }

  /** A presumption is forgotten once nothing depends on it: its batch is over, and so is the window of its key. */
  private outlive(it: Held, now: number): void {
    const isIdle = this.placesOf(it).every(({ state: { open, usedAt } }) =>
      open === 0 && now - usedAt >= this.options.batchMillis
    )
    if (isIdle && it.presumed!.until <= now) this.held.delete(it.id)
    this.changes(it)
  }

  /** Settles what was presumed to have ended with its lease, as far as no other call has changed it since. */
  private correct(it: Held, { endedAt, key }: Presumed, settlement: Settlement, now: number): void {
    const { startedAt } = it
    const { started } = settlement
    const more = Number(started) - Number(startedAt !== undefined)
    for (const { part, state: { calls } } of this.placesOf(it)) {
      for (const name of part.calls) calls.set(name, (calls.get(name) ?? 0) + more)
    }
    for (const [name, clock] of this.clocksOf(it)) {
      if (startedAt !== undefined && clock.endedAt === startedAt) clock.endedAt = endedAt[name]
      if (started) clock.endedAt = Math.max(clock.endedAt ?? now, now)
    }
    if (key !== undefined && (this.keys.get(key.id)?.reservation ?? it.id) === it.id) {
      this.keys.set(key.id, key)
      this.settleKey(it, settlement, now)
    }
    this.held.delete(it.id)
    this.changes(it)
  }

  private forget(it: Held, settlement: Settlement, now: number): void {
    this.held.delete(it.id)
    const principal = it.principal === undefined ? undefined : this.scopes.get(it.principal)?.state
    if (principal !== undefined) principal.open--
    this.settleKey(it, settlement, now)
  }

  private settleKey(it: Held, { key: keeps, value, windowMillis }: Settlement, now: number): void {
    const principal = it.principal === undefined ? undefined : this.scopes.get(it.principal)?.state
    const key = it.key === undefined ? undefined : this.keys.get(it.key)
    if (key?.reservation !== it.id) return
    this.changed.keys.add(key.id)
    if (keeps === "release" || (principal !== undefined && isDead(key, principal))) {
      this.keys.delete(key.id)
      return
    }
    key.until = whole(now + windowMillis)
    key.endedAt = now
    key.value = value === undefined ? undefined : this.options.encode(value)
    if (principal !== undefined) principal.keptUntil = Math.max(principal.keptUntil, key.until)
  }

  /** Whatever is changed in a reservation is changed in its scopes: their versions guard it. */
  private changes(it: Held): void {
    this.changed.held.add(it.id)
    for (const id of [it.batch, it.principal, it.conversation]) {
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

  /** A batch or a session that was idle past its time starts over. */
  private batch(of: Pick<BatchClaim, "batch"> & Pick<Within, "scope">, now: number): Scope {
    const scope = this.scope(placeId(of))
    if (this.isIdle(scope, now)) scope.state = emptyState(this.options.newId())
    scope.state.usedAt = now
    return scope
  }

  private isIdle({ id, state: { open, usedAt } }: Scope, now: number): boolean {
    return open === 0 && now - usedAt >= (this.timeToLive(id) ?? Infinity)
  }

  /** Milliseconds for which a batch or a session is kept after its last call. */
  private timeToLive(id: string): number | undefined {
    return id.startsWith("b") ? this.options.batchMillis : id.startsWith("c") ? this.options.sessionMillis : undefined
  }

  /** The batch and the session that a reservation is of, unless they were forgotten. */
  private placesOf({ batch, conversation, own, shared }: Held) {
    const places: Array<{ readonly part: Part; readonly state: ScopeState }> = []
    const visit = (id: string | undefined, part: Part | undefined) => {
      const state = id === undefined ? undefined : this.scopes.get(id)?.state
      if (state !== undefined && state.generation === part?.generation) places.push({ part, state })
    }
    visit(batch, own)
    visit(conversation, shared)
    return places
  }

  /** The clocks of a reservation, each by its name. */
  private clocksOf(it: Held): ReadonlyMap<string, RestClock> {
    const found = new Map<string, RestClock>()
    const add = (state: ScopeState | undefined, place: string, name: string) => {
      const clock = state?.clocks.get(name)
      if (clock !== undefined) found.set(`${place} ${name}`, clock)
    }
    if (it.clock !== undefined) add(this.scopes.get(it.principal ?? "")?.state, "principal", it.clock)
    for (const { part, state } of this.placesOf(it)) {
      for (const name of part.clocks) add(state, part === it.own ? "batch" : "session", name)
    }
    return found
  }
}

/** What the claims of a request are about. */
interface Found {
  /** The call that was submitted before: its own key does not refuse it. */
  readonly resumed?: string | undefined
  /** The batch. */
  own?: Place
  /** The session. */
  shared?: Place
  principal?: Scope
  key?: KeyClaim
  /** Of the principal. */
  clock?: CooldownClaim
}

const nothing: Settlement = { started: false, key: "release", windowMillis: 0, value: undefined }

/** It started, and nobody will say how it ended: its key counts from its start. */
const unended = ({ windowMillis }: Held): Settlement =>
  windowMillis === undefined
    ? { ...nothing, started: true }
    : { started: true, key: "keep", windowMillis, value: undefined }
