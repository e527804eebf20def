/** The sessions that this process holds, each in one epoch. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type { Epoch } from "./Epoch.ts"

/** How the epochs of a process are checked. */
export interface Lease {
  readonly isHeld: boolean
  /** Whether an epoch is the current one of its session, asked where that is decided; `undefined` if it is not known. */
  readonly isCurrent: (epoch: Epoch) => Effect.Effect<boolean | undefined>
}

/** An epoch of a session in this process. */
class HeldEpoch implements Epoch {
  readonly principal: string
  readonly number: number
  isOver = false
  private readonly lease: Lease
  private readonly ended: (epoch: HeldEpoch) => void
  private readonly watchers = new Set<() => void>()

  constructor(principal: string, number: number, lease: Lease, ended: (epoch: HeldEpoch) => void) {
    this.principal = principal
    this.number = number
    this.lease = lease
    this.ended = ended
  }

  get isHeld(): boolean {
    return !this.isOver && this.lease.isHeld
  }

  readonly renew: Effect.Effect<boolean | undefined> = Effect.suspend(() => {
    if (this.isOver) return Effect.succeed(false)
    return Effect.map(this.lease.isCurrent(this), (isOurs) => this.isOver ? false : isOurs)
  })

  onOver(run: () => void): () => void {
    if (this.isOver) run()
    this.watchers.add(run)
    return () => void this.watchers.delete(run)
  }

  lose(): void {
    if (!this.isOver) lost.updateUnsafe(1, Context.empty())
    this.end()
  }

  /** It is over because this process says so. */
  end(): void {
    if (this.isOver) return
    this.isOver = true
    this.ended(this)
    for (const run of Array.from(this.watchers)) run()
    this.watchers.clear()
  }
}

/** The current epochs of a process, by principal. */
export class HeldSessions {
  private readonly lease: Lease
  private readonly ended: (epoch: Epoch) => void
  private readonly all = new Map<string, HeldEpoch>()

  constructor(lease: Lease, ended: (epoch: Epoch) => void = () => {}) {
    this.lease = lease
    this.ended = ended
  }

  readonly current = (principal: string): Epoch | undefined => this.all.get(principal)

  get epochs(): ReadonlyArray<Epoch> {
    return Array.from(this.all.values())
  }

  /** Ends the current epoch of a session here, if there is one. */
  end(principal: string): void {
    this.all.get(principal)?.end()
  }

  /** Begins an epoch; an earlier one of the session is over. */
  begin(principal: string, number: number): Epoch {
    this.end(principal)
    const epoch = new HeldEpoch(principal, number, this.lease, (it) => {
      if (this.all.get(it.principal) === it) this.all.delete(it.principal)
      this.ended(it)
    })
    this.all.set(principal, epoch)
    return epoch
  }
}

const lost = Metric.counter("tool_executor.sessions.lost", {
  description: "Sessions that another process has taken from this one",
  incremental: true
})
