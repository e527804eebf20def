/** Reservations of the memory driver of `StateStore`, and what they are about. */
import type { KeptPast } from "../rules/SharedPast.ts"
import type { KeyClaim, Reservation } from "./Claims.ts"
import type { Keys } from "./MemoryKeys.ts"

export interface Count {
  used: number
}

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
  endedAt: number
  /** The longest rest that was asked for. */
  millis: number
}

/** A batch or a session. */
export class Batch {
  /** One that was forgotten and begun again has another. */
  readonly serial: number
  usedAt: number
  /** Milliseconds after its last call at which it is forgotten. */
  readonly timeToLive: number
  /** Reservations that are not settled. */
  open = 0
  readonly calls = new Map<string, Count>()
  readonly groups = new Map<string, Choice>()
  /** Of tools that rest only in it. */
  readonly clocks = new Map<string, RestClock>()
  /** What succeeded in it, as far as rules ask. */
  past: KeptPast | undefined = undefined

  constructor(serial: number, usedAt: number, timeToLive: number) {
    this.serial = serial
    this.usedAt = usedAt
    this.timeToLive = timeToLive
  }
}

/** A reservation that knows what it is about, so that settling looks nothing up. */
export class Held implements Reservation {
  id = ""
  /** Its id as a number. */
  number = 0
  readonly epoch = 1
  readonly session: string
  /** Names its call, after a crash as before it. */
  readonly call: string | undefined
  /** Its call may run since then. */
  startedAt: number | undefined = undefined
  /** It counted as started when it was reserved, and is not known to have been. */
  isEarly = false
  /** It was made as a start. */
  isStarted = false
  /** How long its key counts from there if the end of the call is never reported. */
  windowMillis: number | undefined = undefined
  /** Where it stands among all. */
  place = 0
  /** Settled, but its fiber has not ended. */
  isRunning = false
  /** What it holds in another batch or session, or besides the first of its kind. */
  also: Held | undefined = undefined
  batch: Batch | undefined = undefined
  count: Count | undefined = undefined
  groups: Array<{ readonly choice: Choice; readonly tool: string }> | undefined = undefined
  clock: RestClock | undefined = undefined
  keys: Keys | undefined = undefined
  /** The claim of its key, until that is taken. */
  claim: KeyClaim | undefined = undefined
  /** Of its key; before it is taken, of the call that has it. 0: none. */
  slot = 0

  constructor(session: string, call?: string) {
    this.session = session
    this.call = call
  }
}

/** What is reserved and not over. A place is used again, an id never. */
export class AllHeld {
  private readonly places: Array<Held | undefined> = []
  private readonly free: Array<number> = []
  private lastId = 0

  add(it: Held): void {
    it.number = ++this.lastId
    it.id = String(it.number)
    it.place = this.free.pop() ?? this.places.length
    this.places[it.place] = it
  }

  delete({ place }: Held): void {
    this.places[place] = undefined
    this.free.push(place)
  }

  of(session: string): ReadonlyArray<Held> {
    return this.places.filter((it): it is Held => it?.session === session)
  }

  ofCall(call: string): ReadonlyArray<Held> {
    return this.places.filter((it): it is Held => it?.call === call)
  }

  /** A reservation is what it says, whatever object says it; most often it is the one that was given. */
  find(it: Reservation): Held | undefined {
    if (it instanceof Held) return this.places[it.place] === it ? it : undefined
    return this.places.find((held) => held !== undefined && held.id === it.id && held.epoch === it.epoch)
  }
}
