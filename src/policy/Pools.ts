/**
 * Permits: how many calls run at once, by class, by tool and by what they touch.
 *
 * Every permit is one of an Effect `Semaphore`. In front of each semaphore
 * stands one admission queue of plain objects: no fiber waits, a release hands
 * its permit to exactly one waiting call, and the cost of a release does not
 * grow with the number waiting.
 *
 * A call takes its permits in one fixed order: resource keys (sorted), then the
 * tool's cap, then the pool of its class.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MutableList from "effect/MutableList"
import type * as Semaphore from "effect/Semaphore"
import { ConfigurationError, type Problem } from "../ConfigurationError.ts"
import { findDeadlock } from "../internal/deadlock.ts"
import type { RegisteredTool } from "../ToolHandlers.ts"
import { Permit, type Ticket } from "./Permit.ts"

/**
 * Sizes of the pools: a number of permits, or a semaphore that the host shares
 * with code of its own.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** ReadOnly calls at once. Default 20. */
  readonly read?: number | Semaphore.Semaphore | undefined
  /** ConcurrentMut calls at once: promoted and recursive tools. Default 10. */
  readonly concurrent?: number | Semaphore.Semaphore | undefined
  /** SerialMut calls at once. Default 1. */
  readonly serial?: number | Semaphore.Semaphore | undefined
}

/**
 * What pools do for calls.
 *
 * @category models
 * @since 0.1.0
 */
export interface Service {
  /** Queues tickets in order; `onReady` is called once one holds everything, at once or later. */
  readonly enter: (tickets: ReadonlyArray<Ticket>) => void
  /** Gives back the permits of tool and class, keeps the resource keys. Again does nothing. */
  readonly releasePermits: (ticket: Ticket) => void
  /** Queues a ticket that gave back its permits for them again; `onReady` is called once it holds them. */
  readonly reenter: (ticket: Ticket) => void
  /** Refuses, with the reason, whoever waits or comes to wait for a resource key of this ticket, until it leaves. */
  readonly block: (ticket: Ticket, because: string) => void
  /** Gives back everything. Again does nothing. */
  readonly leave: (ticket: Ticket) => void
  /** Gives what a call would wait for though its own caller holds it, if it queued now with these keys, or joined that call. */
  readonly reentry: (
    ticket: Ticket,
    waitsFor: Pick<Ticket, "resources"> | { readonly joined: Ticket }
  ) => string | undefined
  /** Checks whether a call that waits for another call's outcome waits for itself; then its `onDeadlock` is called. */
  readonly checkJoin: (ticket: Ticket) => void
  /**
   * Pools for a sub-agent: reads, serial writers and resource keys are shared, the
   * concurrent pool and the caps of tools are new, so that a caller that waits
   * for its sub-agents holds nothing they need. A concurrent pool that is the
   * host's own semaphore is not shared either: it is one of the default size.
   */
  readonly fork: () => Service
  /**
   * Pools for another session: resource keys and the caps of tools are shared,
   * the pools of the classes are new, so that nobody's slow calls hold up others.
   */
  readonly session: () => Service
}

/**
 * The pools of one or more executors.
 *
 * @category services
 * @since 0.1.0
 */
export class Pools extends Context.Service<Pools, Service>()("effect-tool-executor/policy/Pools") {}

/**
 * Creates pools; fails with every cap that is not a whole number of 1 or more.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  options?: Options
): Effect.fn.Return<Service, ConfigurationError> {
  const problems: Array<Problem> = []
  const context = yield* Effect.context<never>()
  const pool = (name: keyof Options, fallback: number, isFork = false): Permit => {
    const given = options?.[name] ?? fallback
    // a caller that holds a permit of the host's own would wait for itself
    const size = isFork && typeof given !== "number" ? fallback : given
    if (typeof size === "number" && !(Number.isInteger(size) && size >= 1)) {
      problems.push({ path: `pools.${name}`, problem: `it is ${size}`, expected: "a whole number of 1 or more" })
    }
    return new Permit({ kind: "class", name: `the ${name} pool`, size, context })
  }
  const fresh = (isFork = false): Classes => ({
    ReadOnly: [pool("read", 20)],
    ConcurrentMut: [pool("concurrent", 10, isFork)],
    SerialMut: [pool("serial", 1)]
  })
  const classes = fresh()
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "Pools", problems })
  return fromClasses(classes, fresh, newShared(context))
})

/**
 * Layer of pools: 20 reads, 10 concurrent writers, 1 serial writer by default.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<Pools, ConfigurationError> => Layer.effect(Pools, make(options))

/**
 * Layer without class pools. Caps of tools and resource keys still hold: they
 * are the tool's own.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerNoop: Layer.Layer<Pools> = Layer.effect(
  Pools,
  Effect.map(Effect.context<never>(), (context) => {
    const none = (): Classes => ({ ReadOnly: [], ConcurrentMut: [], SerialMut: [] })
    return fromClasses(none(), none, newShared(context))
  })
)

// Utilities

const ownResult = "its own result"

/** A ticket that never gets anything. */
const probe: Omit<Ticket, "parent"> = {
  tool: undefined,
  resources: [],
  permits: [],
  held: 0,
  state: "waiting",
  children: undefined,
  joined: undefined,
  onReady: () => {},
  onDeadlock: () => {},
  onBlocked: () => {}
}

type Classes = { readonly [C in RegisteredTool["class"]]: ReadonlyArray<Permit> }

/** What pools have in common that were made from each other. */
interface Shared {
  readonly context: Context.Context<never>
  readonly keys: Map<string, Permit>
  readonly tools: Map<string, Permit>
  readonly ready: MutableList.MutableList<Ticket>
  draining: boolean
  /** Live tickets made from inside a handler; without any, nobody can wait for himself. */
  nested: number
}

const newShared = (context: Context.Context<never>): Shared => ({
  context,
  keys: new Map(),
  tools: new Map(),
  ready: MutableList.make<Ticket>(),
  draining: false,
  nested: 0
})

const fromClasses = (
  classPools: Classes,
  fresh: (isFork?: boolean) => Classes,
  shared: Shared,
  tools = shared.tools
): Service => {
  const { context, keys, ready } = shared

  const permitsOf = (tool: RegisteredTool, resources: ReadonlyArray<string>): ReadonlyArray<Permit> => {
    const classes = classPools[tool.class]
    if (resources.length === 0 && tool.maxConcurrent === undefined) return classes
    const permits = Array.from(new Set(resources)).sort().map((name) => {
      let key = keys.get(name)
      if (key === undefined) keys.set(name, key = new Permit({ kind: "resource", name, size: 1, context }))
      key.users++
      return key
    })
    if (tool.maxConcurrent !== undefined) {
      let cap = tools.get(tool.name)
      if (cap === undefined) {
        const name = `the cap of "${tool.name}"`
        tools.set(tool.name, cap = new Permit({ kind: "tool", name, size: tool.maxConcurrent, context }))
      }
      permits.push(cap)
    }
    return [...permits, ...classes]
  }
  // a settled call starts the next one, which may settle at once: a loop, since recursion has no room for thousands
  const drain = (): void => {
    if (shared.draining) return
    shared.draining = true
    try {
      while (ready.length > 0) {
        const next = MutableList.take(ready)
        if (next !== MutableList.Empty && next.state === "ready") next.onReady()
      }
    } finally {
      shared.draining = false
    }
  }
  const granted = (ticket: Ticket): void => {
    ticket.held++
    advance(ticket)
  }
  const grantedFromOutside = (ticket: Ticket): void => {
    granted(ticket)
    drain()
  }
  const advance = (ticket: Ticket): void => {
    while (ticket.held < ticket.permits.length) {
      const next = ticket.permits[ticket.held]!
      if (!next.tryTake(ticket)) {
        ticket.state = "waiting"
        next.wait(ticket, grantedFromOutside)
        if (next.blocked !== undefined) ticket.onBlocked(next.blocked)
        else if (shared.nested > 0) check(ticket, next.name)
        return
      }
      ticket.held++
    }
    ticket.state = "ready"
    MutableList.append(ready, ticket)
  }
  const nest = (ticket: Ticket): void => {
    if (ticket.parent === undefined) return
    const siblings = ticket.parent.children ??= new Set()
    if (!siblings.has(ticket)) shared.nested++
    siblings.add(ticket)
  }
  const check = (ticket: Ticket, waitsFor: string): void => findDeadlock(ticket)?.onDeadlock(waitsFor)
  /** Whether a call that a running one makes would never go on: it is looked at as if it waited. */
  const wouldWaitForEver = (parent: Ticket, waits: Pick<Ticket, "permits"> | Pick<Ticket, "joined">): boolean => {
    const children = parent.children ??= new Set()
    const waiting: Ticket = { ...probe, ...waits, parent }
    children.add(waiting)
    const isDead = findDeadlock(waiting) !== undefined
    children.delete(waiting)
    return isDead
  }
  const release = (ticket: Ticket, from: number): void => {
    const held = ticket.held
    ticket.held = Math.min(held, from)
    for (let i = held - 1; i >= from; i--) ticket.permits[i]!.release(ticket, granted)
  }

  return Pools.of({
    enter: (tickets) => {
      // all are queued before the first starts: then a permit goes from one to the next without the semaphore
      for (const ticket of tickets) {
        // what became of one before it may have decided it, too
        if (ticket.state === "left") continue
        nest(ticket)
        if (ticket.tool !== undefined) ticket.permits = permitsOf(ticket.tool, ticket.resources)
        advance(ticket)
      }
      drain()
    },
    releasePermits: (ticket) => {
      // one that waits for them does so no longer
      if (ticket.state === "waiting") ticket.state = "ready"
      const resources = ticket.permits.findIndex((permit) => permit.kind !== "resource")
      if (resources >= 0) release(ticket, resources)
      drain()
    },
    reenter: (ticket) => {
      if (ticket.state === "left") return
      advance(ticket)
      drain()
    },
    block: (ticket, because) => {
      for (const permit of ticket.permits) {
        if (permit.kind !== "resource" || !permit.holders.has(ticket)) continue
        permit.blocked = because
        for (const waiting of permit.queue) if (waiting.state === "waiting") waiting.onBlocked(because)
      }
    },
    leave: (ticket) => {
      if (ticket.state === "left") return
      ticket.state = "left"
      if (ticket.parent?.children?.delete(ticket) === true) shared.nested--
      release(ticket, 0)
      for (const permit of ticket.permits) {
        if (permit.kind === "resource" && --permit.users === 0) keys.delete(permit.name)
      }
      drain()
    },
    reentry: ({ parent, tool }, waitsFor) => {
      if (parent === undefined || tool === undefined) return undefined
      if ("joined" in waitsFor) return wouldWaitForEver(parent, waitsFor) ? ownResult : undefined
      const { resources } = waitsFor
      const known = [...resources.map((name) => keys.get(name)), tools.get(tool.name), ...classPools[tool.class]]
      const isOwn = (permit: Permit) => permit.isTaken && wouldWaitForEver(parent, { permits: [permit] })
      return known.find((permit) => permit !== undefined && isOwn(permit))?.name
    },
    checkJoin: (ticket) => {
      nest(ticket)
      if (shared.nested > 0) check(ticket, ownResult)
    },
    fork: () => fromClasses({ ...classPools, ConcurrentMut: fresh(true).ConcurrentMut }, fresh, shared, new Map()),
    session: () => fromClasses(fresh(), fresh, shared, tools)
  })
}
