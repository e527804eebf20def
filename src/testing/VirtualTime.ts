/**
 * Runs an effect in virtual time: sleeps take no real time, and the order of execution is deterministic.
 *
 * A run has its own clock and scheduler. When no task is ready, the clock jumps to the next wake-up and wakes its
 * sleepers in the order they fell asleep. Unlike a `TestClock`, it needs no adjusting.
 *
 * Settled promises get through before each jump, but a jump does not wait for sockets, files or real timers; use `real`
 * for these. Fibers, layers and scopes made outside the run keep their own time.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"

/** A run that cannot finish. */
export class Stuck extends Schema.TaggedError<Stuck>("effect-tool-executor/testing/VirtualTime/Stuck")("Stuck", {
  /** Virtual milliseconds since the start of the run. */
  at: Schema.Finite,
  /**
   * `idle`: nothing runs and nothing sleeps. `limit`: the next wake-up is after the limit. `steps`: it was to stop
   * there. `killed`: it was killed.
   */
  because: Schema.Literals(["idle", "limit", "steps", "killed"])
}) {
  override get message(): string {
    const why = reasons[this.because]
    return `Stuck after ${this.at} ms of virtual time: the effect has not ended, but ${why}`
  }
}

/** Options of a run. */
export interface Options {
  /** Epoch milliseconds of the virtual start; a safe integer. Default 0. */
  readonly start?: number | undefined
  /** Virtual time after which the run is `Stuck`, for programs that sleep in an endless loop. Default: none. */
  readonly limit?: Duration.Input | undefined
  /** Steps after which the effect is interrupted and the run is `Stuck`. Default: none. */
  readonly steps?: number | undefined
  /**
   * Called before each step. Once true, the run is `Stuck` and nothing of it continues, not even finalizers, as when a
   * process dies. Default: never.
   */
  readonly killed?: (() => boolean) | undefined
}

/**
 * Runs the effect in its own fiber, in virtual time.
 *
 * - All sleepers of an instant wake before any task they schedule runs, and before anything later.
 * - The run ends with the effect; fibers that outlive it stop for good.
 * - If the run is interrupted or `Stuck`, the effect is interrupted and its finalizers run in virtual time, with a new
 * `limit`. A finalizer that is stuck is abandoned.
 * - Between jumps, and every few thousand tasks, the real event loop has a turn.
 * - A step is one task: what a fiber does until it waits or yields. A loop over `steps` interrupts an effect at each of
 * them.
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

/** Virtual milliseconds since the start of the run; outside a run, since the epoch. */
export const now: Effect.Effect<number> = Effect.gen(function*() {
  return (yield* Clock.currentTimeMillis) - (yield* Start)
})

/**
 * Runs an effect in real time, for files, sockets and databases, while virtual time stands still. Such effects run one
 * after another. Outside a run it is the effect itself. Interruption ends only the wait.
 */
export const real = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Around, (world) => world === undefined ? effect : world.real(effect))

/** The current run. */
const Around = Context.Reference<World | undefined>("effect-tool-executor/testing/VirtualTime/Around", {
  defaultValue: () => undefined
})

const Start = Context.Reference<number>("effect-tool-executor/testing/VirtualTime/Start", { defaultValue: () => 0 })

/** Tasks between turns of the real event loop. */
const tasksPerTurn = 4096

/** Idle turns before a run counts as stuck. */
const turnsBeforeStuck = 20

const toNanos = (duration: Duration.Duration): number => Math.round(Duration.toMillis(duration) * 1e6)

const reasons = {
  idle: "nothing runs and nothing sleeps",
  limit: "every sleeper wakes after the limit",
  steps: "it was to stop here",
  killed: "it was killed"
} as const

/** Runs the world until the fiber ends; returns its exit. */
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
    // a whole turn, so that all chains of settled promises finish
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

/** A clock and scheduler that move only on request. */
class World {
  readonly tasks = new Tasks()
  readonly sleepers = new Sleepers()
  readonly outside = new Outside()
  readonly isKilled: () => boolean
  readonly scheduler: Scheduler.Scheduler
  readonly clock: Clock.Clock
  /** Whole nanoseconds since the start, so that sums of sleeps meet exactly. */
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
      // one for all fibers, to keep the order of tasks
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

  /** Moves to the next wake-up and wakes its sleepers. */
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
            // the waiter continues as if no time had passed
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

/** Work in real time, one effect after another. */
class Outside {
  private readonly waiting: Array<(over: () => void) => void> = []
  private onDone: (() => void) | undefined
  isBusy = false

  push(start: (over: () => void) => void): void {
    this.waiting.push(start)
    if (!this.isBusy) this.next()
  }

  /** Ends once none of it is running. */
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

/** Tasks by priority, lowest first. Tasks scheduled by a batch run in the next one. */
class Tasks {
  size = 0
  private batch: Array<{ readonly run: () => void; readonly priority: number }> = []
  private position = 0
  private next: typeof this.batch = []

  push(run: () => void, priority: number): void {
    this.size++
    this.next.push({ run, priority })
  }

  /** Runs up to `count` tasks or until the end; returns how many ran. */
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
  /** Orders sleepers of one instant: first asleep, first awake. */
  readonly order: number
  readonly wake: () => void
  gone: boolean
  rank: number
  left: Sleeper | undefined
  right: Sleeper | undefined
}

/** Leftist heap of sleepers. Interrupted ones are marked and removed at the top, or once they are half of it. */
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

/** Merges two heaps; the shorter branch stays right, so the depth is at most log n. */
const merge = (a: Sleeper | undefined, b: Sleeper | undefined): Sleeper | undefined => {
  if (a === undefined || b === undefined) return a ?? b
  if (b.at < a.at || (b.at === a.at && b.order < a.order)) return merge(b, a)
  a.right = merge(a.right, b)
  if (rank(a.left) < rank(a.right)) [a.left, a.right] = [a.right, a.left]
  a.rank = 1 + rank(a.right)
  return a
}
