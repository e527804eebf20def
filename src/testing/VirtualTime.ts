/**
 * Runs an effect in virtual time: sleeps take no real time, and the same program always runs in the same order.
 *
 * A run has a clock and a scheduler of its own. It runs every task that is ready; when none is left, its clock jumps to
 * the next instant somebody sleeps until, wakes all sleepers of that instant in the order in which they fell asleep,
 * and goes on. Unlike with a `TestClock`, nobody has to adjust anything.
 *
 * It does not wait for real input and output: promises that settle by themselves get through before each jump, but a
 * jump does not wait for a socket, a file or a real timer, unless that is done in `real`. Fibers, layers and scopes
 * that were made outside of the run keep the time they were made in.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"

/** Error of a run that cannot come to its end. */
export class Stuck extends Schema.TaggedError<Stuck>("effect-tool-executor/testing/VirtualTime/Stuck")("Stuck", {
  /** Virtual milliseconds since the start of the run. */
  at: Schema.Finite,
  /**
   * `idle`: nothing runs and nothing sleeps. `limit`: the next sleeper wakes after the limit of the run. `steps`: it
   * was to stop there. `killed`: it was killed.
   */
  because: Schema.Literals(["idle", "limit", "steps", "killed"])
}) {
  override get message(): string {
    const why = reasons[this.because]
    return `Stuck after ${this.at} ms of virtual time: the effect has not ended, but ${why}`
  }
}

/** How a run in virtual time starts and how long it may last. */
export interface Options {
  /** Epoch milliseconds at which virtual time starts, a safe integer. Default 0. */
  readonly start?: number | undefined
  /** Virtual time after which the run is `Stuck`; for programs with a sleep that repeats for ever. Default: none. */
  readonly limit?: Duration.Input | undefined
  /** Steps after which the effect is interrupted, and the run is `Stuck`. Default: none. */
  readonly steps?: number | undefined
  /**
   * Asked before each step. Once it says yes the run is `Stuck`, and nothing of it does anything any more, no finalizer
   * either: so a process dies. Default: never.
   */
  readonly killed?: (() => boolean) | undefined
}

/**
 * Runs the effect in a fiber of its own, in virtual time.
 *
 * **Details**
 *
 * - Sleepers of one instant all wake before any task that they schedule runs,
 *   and before anything of a later instant.
 * - The run ends when the effect ends; fibers that outlive it stop for good.
 * - When the run is interrupted or `Stuck`, the effect is interrupted and its
 *   finalizers run to their end, in virtual time too (`limit` counts anew); one
 *   that is stuck itself is left behind.
 * - Between jumps, and every few thousand tasks, the real event loop has a turn.
 * - A step is one task: what a fiber does until it waits or yields. With `steps`
 *   a loop interrupts an effect at each of them.
 *
 * **Example** (A day in no time)
 *
 * ```ts import.meta.vitest
 * import * as Effect from "effect/Effect"
 * import { VirtualTime } from "effect-tool-executor/testing"
 *
 * const program = Effect.andThen(Effect.sleep("1 day"), VirtualTime.now)
 * await Effect.runPromise(VirtualTime.run(program)) // => 86_400_000
 * ```
 *
 * **Example** (Interrupted at every step)
 *
 * ```ts import.meta.vitest
 * import * as Effect from "effect/Effect"
 * import { VirtualTime } from "effect-tool-executor/testing"
 *
 * const open = new Set<string>()
 * const program = Effect.acquireUseRelease(
 *   Effect.sync(() => open.add("file")),
 *   () => Effect.sleep("1 second"),
 *   () => Effect.sync(() => open.delete("file"))
 * )
 * const left: Array<number> = []
 * for (let steps = 0, ended = false; !ended; steps++) {
 *   const run = Effect.match(VirtualTime.run(program, { steps }), { onFailure: () => false, onSuccess: () => true })
 *   ended = await Effect.runPromise(run)
 *   left.push(open.size)
 * }
 * left.every((size) => size === 0) // => true
 * ```
 */
export const run = <A, E, R>(effect: Effect.Effect<A, E, R>, options?: Options): Effect.Effect<A, E | Stuck, R> => {
  const start = options?.start ?? 0
  if (!Number.isSafeInteger(start)) throw new RangeError(`VirtualTime.run: start must be a safe integer, got ${start}`)
  const steps = options?.steps ?? Infinity
  if (!(steps === Infinity || (Number.isSafeInteger(steps) && steps >= 0))) {
    throw new RangeError(`VirtualTime.run: steps must be a safe integer of 0 or more, got ${steps}`)
  }
  const limit = options?.limit === undefined ? Infinity : toNanos(Duration.fromInputUnsafe(options.limit))
  return Effect.uninterruptibleMask((restore) =>
    Effect.contextWith((context: Context.Context<R>) => {
      const world = new World(start, options?.killed)
      const fiber = context.pipe(
        Context.add(Clock.Clock, world.clock),
        Context.add(Scheduler.Scheduler, world.scheduler),
        Context.add(Start, start),
        Context.add(Around, world),
        Effect.runForkWith
      )(effect)
      return Effect.onExit(Effect.flatten(restore(drive(world, fiber, limit, steps))), () =>
        Effect.withFiber((outer) => {
          if (fiber.pollUnsafe() !== undefined || world.isKilled()) return Effect.void
          fiber.interruptUnsafe(outer.id)
          return Effect.ignore(drive(world, fiber, world.elapsed + limit, Infinity))
        }))
    })
  )
}

/** Virtual milliseconds since the start of the run; outside of a run, since the epoch. */
export const now: Effect.Effect<number> = Effect.gen(function*() {
  return (yield* Clock.currentTimeMillis) - (yield* Start)
})

/**
 * Runs an effect in real time, for files, sockets and databases: the run stands still meanwhile, and so does its clock.
 * What is to be done so is done one after the other. Outside of a run it is the effect itself. Interruption ends the
 * wait alone.
 */
export const real = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Around, (world) => world === undefined ? effect : world.real(effect))

// Utilities

/** The run that is around an effect. */
const Around = Context.Reference<World | undefined>("effect-tool-executor/testing/VirtualTime/Around", {
  defaultValue: () => undefined
})

const Start = Context.Reference<number>("effect-tool-executor/testing/VirtualTime/Start", { defaultValue: () => 0 })

/** Tasks that run before the real event loop has a turn. */
const tasksPerTurn = 4096

/** Real turns without news after which a run counts as stuck. */
const turnsBeforeStuck = 20

const toNanos = (duration: Duration.Duration): number => Math.round(Duration.toMillis(duration) * 1e6)

const reasons = {
  idle: "nothing runs and nothing sleeps",
  limit: "every sleeper wakes after the limit",
  steps: "it was told to stop here",
  killed: "it was killed"
} as const

/** Runs the world until the fiber has ended; gives its exit. */
const drive = Effect.fnUntraced(function*<A, E>(
  world: World,
  fiber: Fiber.Fiber<A, E>,
  limit: number,
  steps: number
) {
  let quiet = 0
  let left = steps
  while (true) {
    left -= world.tasks.run(
      Math.min(tasksPerTurn, left),
      () => fiber.pollUnsafe() !== undefined || world.outside.isBusy || world.isKilled()
    )
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return exit
    if (world.isKilled()) return yield* new Stuck({ at: world.millis, because: "killed" })
    if (world.outside.isBusy) {
      quiet = 0
      yield* world.outside.done
      continue
    }
    if (left <= 0) return yield* new Stuck({ at: world.millis, because: "steps" })
    // a whole turn, not a microtask: afterwards every chain of settled promises has come to its end
    yield* Effect.yieldNow
    if (world.tasks.size > 0 || fiber.pollUnsafe() !== undefined) {
      quiet = 0
      continue
    }
    const next = world.sleepers.peek()
    if (next !== undefined && next.at <= limit) {
      quiet = 0
      world.jump()
    } else if (quiet++ === turnsBeforeStuck) {
      return yield* new Stuck({ at: world.millis, because: next === undefined ? "idle" : "limit" })
    }
  }
})

/** A clock and a scheduler that only move when they are told to. */
class World {
  readonly tasks = new Tasks()
  readonly sleepers = new Sleepers()
  readonly outside = new Outside()
  readonly isKilled: () => boolean
  readonly scheduler: Scheduler.Scheduler
  readonly clock: Clock.Clock
  /** Nanoseconds since the start: whole, so that chains of sleeps add up to the same instants. */
  elapsed = 0

  constructor(start: number, killed: () => boolean = () => false) {
    this.isKilled = killed
    const dispatcher: Scheduler.SchedulerDispatcher = {
      scheduleTask: (task, priority) => this.tasks.push(task, priority),
      flush: () => this.tasks.run(Infinity, () => false)
    }
    this.scheduler = {
      executionMode: "async",
      shouldYield: (fiber) => fiber.currentOpCount >= fiber.cache.maxOpsBeforeYield,
      // one for all fibers, so that tasks of different fibers keep their order
      makeDispatcher: () => dispatcher
    }
    const millis = () => start + this.millis
    const monotonic = () => BigInt(this.elapsed)
    const nanos = () => BigInt(start) * 1_000_000n + monotonic()
    this.clock = {
      currentTimeMillisUnsafe: millis,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos),
      monotonicTimeNanosUnsafe: monotonic,
      monotonicTimeNanos: Effect.sync(monotonic),
      sleep: (duration) => this.sleep(toNanos(duration))
    }
  }

  get millis(): number {
    return Math.floor(this.elapsed / 1e6)
  }

  /** Moves to the next instant at which somebody wakes, and wakes all sleepers of that instant. */
  jump(): void {
    this.elapsed = this.sleepers.peek()?.at ?? this.elapsed
    for (let next = this.sleepers.peek(); next?.at === this.elapsed; next = this.sleepers.peek()) {
      this.sleepers.pop()
      next.wake()
    }
  }

  real<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.contextWith((context: Context.Context<R>) =>
      Effect.callback<A, E>((resume) => {
        const run = context.pipe(
          Context.add(Clock.Clock, Context.get(Context.empty(), Clock.Clock)),
          Context.add(Scheduler.Scheduler, Context.get(Context.empty(), Scheduler.Scheduler)),
          Context.add(Around, undefined),
          Effect.runForkWith
        )
        let isAwaited = true
        this.outside.push((over) => {
          if (this.isKilled()) return over()
          run(effect).addObserver((exit) => {
            // whoever waits goes on at once, as if it had taken no time
            if (isAwaited && !this.isKilled()) resume(exit)
            over()
          })
        })
        return Effect.sync(() => {
          isAwaited = false
        })
      })
    )
  }

  private sleep(nanos: number): Effect.Effect<void> {
    return Effect.callback((resume) => {
      const at = this.elapsed + nanos
      if (at <= this.elapsed) return resume(Effect.yieldNow)
      if (at === Infinity) return
      const sleeper = this.sleepers.push(at, () => resume(Effect.void))
      return Effect.sync(() => this.sleepers.remove(sleeper))
    })
  }
}

/** What is done in real time, one after the other. */
class Outside {
  private readonly waiting: Array<(over: () => void) => void> = []
  private onDone: (() => void) | undefined
  isBusy = false

  push(start: (over: () => void) => void): void {
    this.waiting.push(start)
    if (!this.isBusy) this.next()
  }

  /** Ends once nothing of it is under way. */
  readonly done: Effect.Effect<void> = Effect.callback((resume) => {
    if (!this.isBusy) return resume(Effect.void)
    this.onDone = () => resume(Effect.void)
  })

  private next(): void {
    const start = this.waiting.shift()
    this.isBusy = start !== undefined
    if (start !== undefined) return start(() => this.next())
    const { onDone } = this
    this.onDone = undefined
    onDone?.()
  }
}

/** Tasks by priority, lowest first; what a batch of tasks schedules belongs to the next batch. */
class Tasks {
  size = 0
  private batch: Array<{ readonly run: () => void; readonly priority: number }> = []
  private position = 0
  private next: typeof this.batch = []

  push(run: () => void, priority: number): void {
    this.size++
    this.next.push({ run, priority })
  }

  /** Runs up to `count` tasks, or until the end has come; gives how many it ran. */
  run(count: number, ended: () => boolean): number {
    let left = count
    for (; left > 0 && this.size > 0 && !ended(); left--) {
      if (this.position === this.batch.length) {
        this.batch = this.next.sort((a, b) => a.priority - b.priority)
        this.position = 0
        this.next = []
      }
      this.size--
      this.batch[this.position++]?.run()
    }
    return count - left
  }
}

interface Sleeper {
  readonly at: number
  /** Tells sleepers of one instant apart: the first to fall asleep wakes first. */
  readonly order: number
  readonly wake: () => void
  gone: boolean
  rank: number
  left: Sleeper | undefined
  right: Sleeper | undefined
}

/** Leftist heap of sleepers. The interrupted stay in it, marked, till they come up or are half of it. */
class Sleepers {
  private root: Sleeper | undefined
  private order = 0
  private size = 0
  private gone = 0

  push(at: number, wake: () => void): Sleeper {
    const sleeper = alone({ at, order: this.order++, wake, gone: false })
    this.root = merge(this.root, sleeper)
    this.size++
    return sleeper
  }

  /** The sleeper that wakes next. */
  peek(): Sleeper | undefined {
    while (this.root?.gone) this.pop()
    return this.root
  }

  pop(): void {
    if (this.root === undefined) return
    if (this.root.gone) this.gone--
    this.size--
    this.root = merge(this.root.left, this.root.right)
  }

  remove(sleeper: Sleeper): void {
    sleeper.gone = true
    this.gone++
    if (this.gone * 2 <= this.size) return
    const awaited: Array<Sleeper> = []
    for (let next = this.peek(); next !== undefined; next = this.peek()) {
      awaited.push(next)
      this.pop()
    }
    this.size = awaited.length
    this.root = awaited.reduceRight<Sleeper | undefined>((heap, it) => merge(heap, alone(it)), undefined)
  }
}

const alone = (sleeper: Omit<Sleeper, "rank" | "left" | "right">): Sleeper =>
  Object.assign(sleeper, { rank: 1, left: undefined, right: undefined })

const rank = (sleeper: Sleeper | undefined): number => sleeper?.rank ?? 0

/** Merges two heaps; the shorter branch is always the right one, so that it goes at most log n deep. */
const merge = (a: Sleeper | undefined, b: Sleeper | undefined): Sleeper | undefined => {
  if (a === undefined || b === undefined) return a ?? b
  if (b.at < a.at || (b.at === a.at && b.order < a.order)) return merge(b, a)
  a.right = merge(a.right, b)
  if (rank(a.left) < rank(a.right)) [a.left, a.right] = [a.right, a.left]
  a.rank = 1 + rank(a.right)
  return a
}
