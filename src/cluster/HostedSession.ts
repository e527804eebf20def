/**
 * A session in the process that holds it: activated when somebody needs it, closed when nothing of it runs and nobody
 * looks at it, moved when the process has to give it up, lost when another process has it.
 *
 * Knows nothing of how messages reach it.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { Epoch, Left, SessionRegistry } from "../core/store/SessionRegistry.ts"
import { Unavailable } from "../server/api/ApiProblems.ts"
import type { SessionHost } from "../server/sessions/SessionHost.ts"
import { Moved } from "../server/sessions/SessionMethods.ts"
import { annotated, type Owner, toPrincipal } from "../server/users/Principals.ts"

/** What a hosted session stands on. */
export interface Around {
  readonly registry: SessionRegistry["Service"]
  readonly host: SessionHost["Service"]
  /** Whether this process is the one to hold a session. */
  readonly isHere: (principal: string) => Effect.Effect<boolean>
  /** Takes answers that other processes have stored. */
  readonly refresh: (principal: string) => Effect.Effect<void, Unavailable>
  /** Scope of the fibers. It has to be open until the session has moved. */
  readonly scope: Scope.Scope
  /** Milliseconds that it stays open without use. */
  readonly linger: number
  /** Milliseconds that running calls have to finish before it moves. */
  readonly within: number
  readonly counts: Counts
}

/** Counts of the hosted sessions of a process. */
export interface Counts {
  /** Sessions that are open now. */
  held: number
  /** Sessions that another process has taken. */
  lost: number
}

/** A session in this process. */
export class HostedSession {
  private readonly owner: Owner
  private readonly principal: string
  private readonly around: Around
  /** Keeps the place of the session while it is open. If it ends before, the session moves. */
  private readonly keep: Effect.Effect<void>
  private activation: Activation | undefined
  private isMoving = false
  private users = 0
  private uses = 0
  private readonly unused = Latch.makeUnsafe(true)
  private readonly turns = Semaphore.makeUnsafe(1)

  constructor(owner: Owner, around: Around, keep: Effect.Effect<void>) {
    this.owner = owner
    this.principal = toPrincipal(owner)
    this.around = around
    this.keep = keep
  }

  /** Whether it is open and stays here, as far as is known. */
  get isOpen(): boolean {
    const { activation } = this
    return activation !== undefined && activation.isOpen && !activation.isClosing && !activation.isMoving
  }

  /** Runs an effect while the session is open here. */
  use<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E | Moved | Unavailable> {
    return Effect.scoped(Effect.flatMap(this.entered, (activation) =>
      Effect.raceFirst(
        // what a store has refused because the session is lost, the next process does
        Effect.catch(effect, (error): Effect.Effect<never, E | Moved> =>
          Effect.fail(activation.isOver ? new Moved() : error)),
        Deferred.await(activation.moved)
      )))
  }

  /** Streams while the session is open here; it stays open that long. Begins with `null`. */
  stream<A, E>(
    stream: Effect.Effect<Stream.Stream<A>, E>
  ): Stream.Stream<A | null, E | Moved | Unavailable> {
    return Stream.unwrap(Effect.flatMap(
      this.entered,
      (activation) =>
        Effect.map(
          stream,
          (it) => Stream.concat(Stream.succeed(null), it).pipe(Stream.interruptWhen(Deferred.await(activation.moved)))
        )
    ))
  }

  /** Looks for what has changed; opens the session if it is not open. */
  readonly poke: Effect.Effect<void, Moved | Unavailable> = Effect.suspend(() => {
    const before = this.activation
    return this.use(Effect.suspend(() => {
      // whoever activates it has read everything
      if (this.activation !== before || before?.epoch === undefined) return Effect.void
      return this.look(before, before.epoch)
    }))
  })

  /** Waits until the session is closed; interruption gives it up. */
  readonly stay: Effect.Effect<void> = Effect.suspend(() => {
    const { activation } = this
    return activation === undefined
      ? Effect.void
      : Effect.onInterrupt(Deferred.await(activation.closed), () => this.giveUp(activation))
  })

  /** Gives the session up for good. */
  readonly move: Effect.Effect<void> = Effect.suspend(() => {
    this.isMoving = true
    return this.activation === undefined ? Effect.void : this.giveUp(this.activation)
  })

  /**
   * Gives the session up: nothing new begins, running calls have their time, then it is closed and released. Waits for
   * that. Whoever asks for it afterwards opens it again, if this is still its place.
   */
  private giveUp(activation: Activation): Effect.Effect<void> {
    return Effect.andThen(Deferred.succeed(activation.moving, undefined), Deferred.await(activation.closed))
  }

  /**
   * Takes what has changed. Once that is heard it is not forgotten: the session closes before or afterwards, and what
   * changes while it closes is found by its release.
   */
  private look(activation: Activation, epoch: Epoch): Effect.Effect<void, Moved | Unavailable> {
    const { host, refresh, registry } = this.around
    return Effect.uninterruptible(this.turns.withPermit(Effect.suspend((): Effect.Effect<void, Moved | Unavailable> => {
      if (activation.isClosing) return Effect.fail(new Moved())
      return registry.heard(epoch).pipe(
        Effect.catch(() => Effect.fail(unavailable())),
        Effect.andThen((isOurs) =>
          isOurs ? Effect.andThen(refresh(this.principal), host.open(this.owner)) : Effect.sync(() => epoch.lose())
        )
      )
    })))
  }

  /** An open activation, which stays open as long as the scope. */
  private readonly entered: Effect.Effect<Activation, Moved | Unavailable, Scope.Scope> = Effect.acquireRelease(
    Effect.sync(() => {
      this.users++
      this.uses++
      this.unused.closeUnsafe()
    }),
    () =>
      Effect.sync(() => {
        this.users--
        if (this.users === 0) this.unused.openUnsafe()
      })
  ).pipe(Effect.andThen(Effect.suspend(() => this.opened)))

  private readonly opened: Effect.Effect<Activation, Moved | Unavailable> = Effect.suspend(() => {
    const { activation } = this
    if (this.isMoving || activation?.isMoving === true) return Effect.fail(new Moved())
    if (activation === undefined) return Effect.andThen(this.begin, this.opened)
    return activation.isClosing
      ? Effect.andThen(Deferred.await(activation.closed), this.opened)
      : Effect.as(Deferred.await(activation.opened), activation)
  })

  private readonly begin: Effect.Effect<void> = Effect.suspend(() => {
    if (this.activation !== undefined || this.isMoving) return Effect.void
    const activation = new Activation()
    this.activation = activation
    const kept = Effect.andThen(
      this.keep,
      // it has lost its place
      Effect.suspend(() => this.giveUp(activation))
    )
    return Effect.andThen(
      Effect.forkIn(annotated(this.owner)(this.live(activation)), this.around.scope),
      Effect.asVoid(Effect.forkIn(kept, this.around.scope))
    )
  })

  private live(activation: Activation): Effect.Effect<void> {
    const { counts } = this.around
    return Effect.suspend(() => {
      counts.held++
      return this.hold(activation)
    }).pipe(
      Effect.onExit((exit) =>
        Effect.suspend(() => {
          counts.held--
          this.activation = undefined
          Deferred.doneUnsafe(activation.opened, Exit.fail(new Moved()))
          Deferred.doneUnsafe(activation.moved, Exit.fail(new Moved()))
          Deferred.doneUnsafe(activation.closed, Exit.void)
          return Exit.isSuccess(exit) && exit.value === "Ready" ? this.begin : Effect.void
        })
      ),
      Effect.asVoid
    )
  }

  private readonly hold = Effect.fnUntraced({ self: this }, function*(this: HostedSession, activation: Activation) {
    const { host, isHere, registry } = this.around
    if (!(yield* isHere(this.principal))) return undefined
    const activated = yield* Effect.exit(registry.activate(this.principal))
    if (Exit.isFailure(activated)) {
      yield* Effect.logWarning("A session could not be activated", activated.cause)
      yield* Deferred.fail(activation.opened, unavailable())
      return undefined
    }
    const epoch = activated.value
    activation.epoch = epoch
    const over = yield* Deferred.make<void>()
    epoch.onOver(() => Deferred.doneUnsafe(over, Exit.void))
    if (epoch.isOver) Deferred.doneUnsafe(over, Exit.void)
    const opened = yield* Effect.exit(host.open(this.owner))
    if (Exit.isFailure(opened)) {
      activation.isClosing = true
      yield* Deferred.fail(activation.opened, unavailable())
      yield* host.close(this.owner, 0)
      // not at once: a store that stays away is not to be asked by all of its sessions without a pause
      return yield* this.release(epoch, { _tag: "Waiting", until: (yield* Clock.currentTimeMillis) + retryMillis })
    }
    yield* Deferred.succeed(activation.opened, undefined)
    yield* Effect.raceAllFirst([Deferred.await(over), Deferred.await(activation.moving), this.quiet])
    if (!epoch.isOver && activation.isMoving) {
      yield* Effect.raceFirst(
        Effect.timeoutOption(host.idle(this.owner), this.around.within),
        Deferred.await(over)
      )
    }
    activation.isClosing = true
    if (activation.isMoving || epoch.isOver) yield* Deferred.fail(activation.moved, new Moved())
    if (epoch.isOver) {
      this.around.counts.lost++
      yield* host.lose(this.owner, "another process has taken the session")
      return undefined
    }
    return yield* this.turns.withPermit(
      Effect.flatMap(
        host.close(this.owner, activation.isMoving ? 0 : this.around.within),
        (left) => this.release(epoch, left)
      )
    )
  })

  private release(epoch: Epoch, left: Left): Effect.Effect<"Ready" | undefined> {
    return this.around.registry.release(epoch, left).pipe(
      Effect.map((released) => released === "Ready" ? "Ready" as const : undefined),
      // the sweeper finds it once the lease of this process or its wait has ended
      Effect.catch((error) => Effect.as(Effect.logWarning("A session could not be released", error), undefined))
    )
  }

  /** Waits until nothing of it has run and nobody has used it for a while. */
  private readonly quiet: Effect.Effect<void> = Effect.suspend(() => {
    const { host, linger } = this.around
    return this.unused.await.pipe(
      Effect.andThen(host.idle(this.owner)),
      Effect.andThen(Effect.suspend(() => {
        const { uses } = this
        return Effect.sleep(linger).pipe(
          Effect.andThen(host.idle(this.owner)),
          Effect.andThen(Effect.suspend(() => this.users === 0 && this.uses === uses ? Effect.void : this.quiet))
        )
      }))
    )
  })
}

/** One time in which the session is open. */
class Activation {
  readonly opened = Deferred.makeUnsafe<void, Moved | Unavailable>()
  readonly moving = Deferred.makeUnsafe<void>()
  readonly moved = Deferred.makeUnsafe<never, Moved>()
  readonly closed = Deferred.makeUnsafe<void>()
  epoch: Epoch | undefined
  isClosing = false

  get isOpen(): boolean {
    return Deferred.isDoneUnsafe(this.opened) && !this.isOver
  }

  get isMoving(): boolean {
    return Deferred.isDoneUnsafe(this.moving)
  }

  get isOver(): boolean {
    return this.epoch?.isOver === true
  }
}

/** After this time, a session that could not be opened is tried again, unless somebody asks for it before. */
const retryMillis = 5_000

const unavailable = () => new Unavailable({ detail: "The session cannot be opened now." })
