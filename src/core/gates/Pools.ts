/**
 * Limits how many calls run concurrently, by class, by tool and by resource key.
 *
 * The executor counts its own permits. A `Semaphore` or another `PermitSource` can be shared with other code. Calls
 * wait in one queue per permit; a released permit goes to the first call, in constant time.
 *
 * A call takes its permits in one fixed order: resource keys (sorted), then the tool's cap, then the pool of its class.
 * Keys and caps that processes share (`SharedPermits`) are taken here first and then there, so that of the calls of one
 * process only those wait there that nothing here holds up.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Semaphore from "effect/Semaphore"
import { clip } from "../../internal/clip.ts"
import { ConfigurationError, type Problem } from "../vocabulary/ConfigurationError.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import { alone } from "./OneLayer.ts"
import { Permit, type Ticket } from "./Permit.ts"
import { PermitQueue } from "./PermitQueue.ts"
import { fromSemaphore, type PermitSource, SharedPermits, type SharedPool } from "./PermitSource.ts"

/**
 * Size of a pool: a number of permits, a semaphore that the host shares with other code, or another source of permits.
 */
export type Size = number | Semaphore.Semaphore | PermitSource

/** Sizes of the pools. */
export interface Options {
  /** Concurrent ReadOnly calls. Default 20. */
  readonly read?: Size | undefined
  /** Concurrent ConcurrentMut calls (promoted and recursive tools). Default 10. */
  readonly concurrent?: Size | undefined
  /** Concurrent SerialMut calls. Default 1. */
  readonly serial?: Size | undefined
  /**
   * What holds for all processes of a service together, if `SharedPermits` are provided, such as by `SqlPermits.layer`:
   * the caps of tools, and resource keys. Default: both.
   */
  readonly shared?: { readonly caps?: boolean | undefined; readonly keys?: boolean | undefined } | undefined
}

/** The pools of the classes. */
type ClassPool = Exclude<keyof Options, "shared">

/** What pools do for calls. */
export interface Service {
  /**
   * Takes all permits of a ticket, or waits in line for them. If all are free this is `Effect.void`, an `Exit`.
   * Interruption gives everything back. If the ticket leaves, or has left, the wait is interrupted.
   */
  readonly enter: (ticket: Ticket) => Effect.Effect<void>
  /** Gives back the permits of tool and class but keeps the resource keys. Idempotent. */
  readonly releasePermits: (ticket: Ticket) => void
  /** Takes the permits again that `releasePermits` gave back. Interruption keeps the resource keys. */
  readonly reenter: (ticket: Ticket) => Effect.Effect<void>
  /** Refuses all tickets that wait for a resource key of this ticket, with the reason, until it leaves. */
  readonly block: (ticket: Ticket, because: string) => void
  /** Gives back everything. Idempotent. */
  readonly leave: (ticket: Ticket) => void
  /** Names the permit that a call would wait for although its caller holds it, or `undefined`. */
  readonly reentry: (
    ticket: Ticket,
    waitsFor: Pick<Ticket, "resources"> | { readonly joined: Ticket }
  ) => string | undefined
  /** Tells whether the permits of a tool and its class are free. */
  readonly isFree: (tool: RegisteredTool) => boolean
  /** Calls `onDeadlock` of a call that waits for another call's outcome and so for itself. */
  readonly checkJoin: (ticket: Ticket) => void
  /**
   * Pools for a sub-agent: shares reads, serial writers and resource keys. The concurrent pool and the caps of tools
   * are new, so that a waiting caller holds nothing its sub-agents need. A semaphore of the host is not shared as the
   * concurrent pool; the sub-agent gets one of the default size.
   */
  readonly fork: () => Service
  /**
   * Pools for another session: shares resource keys and the caps of tools. The pools of the classes are new, so that
   * slow calls of one session do not block others.
   */
  readonly session: () => Service
}

/** The pools of one or more executors. */
export class Pools extends Context.Service<Pools, Service>()("effect-tool-executor/policy/Pools") {}

/** Creates pools; fails with every cap that is not a whole number of 1 or more. */
export const make = Effect.fnUntraced(function*(
  options?: Options
): Effect.fn.Return<Service, ConfigurationError> {
  const problems: Array<Problem> = []
  const shared = newShared(yield* Effect.context<never>(), options?.shared)
  const pool = (name: ClassPool, fallback: number, isFork = false): Permit => {
    const given = options?.[name] ?? fallback
    // a caller that holds a permit of the host's semaphore would wait for itself
    const size = isFork && typeof given !== "number" ? fallback : given
    const isSize = isSource(size) || Number.isInteger(size) && size >= 1
    if (!isSize) problems.push({ path: `pools.${name}`, problem: `it is ${size}`, expected })
    return newPermit(shared, "class", `the ${name} pool`, isSize ? size : fallback)
  }
  const fresh = (isFork = false): Classes => ({
    ReadOnly: [pool("read", 20)],
    ConcurrentMut: [pool("concurrent", 10, isFork)],
    SerialMut: [pool("serial", 1)]
  })
  const classes = fresh()
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "Pools", problems })
  return fromClasses(classes, fresh, shared)
})

/** Layer of pools: 20 reads, 10 concurrent writers, 1 serial writer by default. */
export const layer = (options?: Options): Layer.Layer<Pools, ConfigurationError> =>
  Layer.effect(Pools, Effect.andThen(alone(Pools, "Pools"), make(options)))

/** Layer without class pools. Caps of tools and resource keys still hold: they are the tool's own. */
export const layerNoop: Layer.Layer<Pools> = Layer.effect(
  Pools,
  Effect.map(Effect.context<never>(), (context) => {
    const none = (): Classes => ({ ReadOnly: [], ConcurrentMut: [], SerialMut: [] })
    return fromClasses(none(), none, newShared(context))
  })
)

const quoted = (name: string): string => JSON.stringify(clip(name, 100))

const ownResult = "its own result"

const expected = "a whole number of 1 or more, a Semaphore or a PermitSource"

const isSource = (size: Size): size is Exclude<Size, number> =>
  Predicate.hasProperty(size, "lease") || Predicate.hasProperty(size, "takeScoped")

type Classes = { readonly [C in RegisteredTool["class"]]: ReadonlyArray<Permit> }

/** What pools have in common that were made from each other. */
interface Shared {
  readonly context: Context.Context<never>
  readonly entrance: PermitQueue
  readonly keys: Map<string, Permit>
  readonly caps: Caps
  /** Permits of resource keys that other processes take too. */
  readonly keysOfAll: SharedPermits["Service"] | undefined
}

/** The caps of tools. */
interface Caps {
  readonly own: Map<string, Permit>
  /** Permits that other processes take too. */
  readonly ofAll: SharedPermits["Service"] | undefined
}

const newShared = (context: Context.Context<never>, { caps, keys }: NonNullable<Options["shared"]> = {}): Shared => {
  const ofAll = Option.getOrUndefined(Context.getOption(context, SharedPermits))
  return {
    context,
    entrance: new PermitQueue(),
    keys: new Map(),
    caps: { own: new Map(), ofAll: caps === false ? undefined : ofAll },
    keysOfAll: keys === false ? undefined : ofAll
  }
}

const newPermit = ({ context, entrance }: Shared, kind: Permit["kind"], name: string, size: Size): Permit => {
  const source = typeof size === "number" || "lease" in size ? size : fromSemaphore(size)
  return new Permit({ kind, name, size: source, context, host: entrance })
}

/** What a call has yet to take from other processes once nothing here holds it up. */
const ofAll = (
  shared: Shared,
  from: SharedPermits["Service"],
  kind: "resource" | "tool",
  name: string,
  pools: ReadonlyArray<SharedPool>
): Permit => newPermit(shared, kind, name, from.source(pools))

const fromClasses = (
  classPools: Classes,
  fresh: (isFork?: boolean) => Classes,
  shared: Shared,
  caps = shared.caps
): Service => {
  const { entrance, keys, keysOfAll } = shared

  const permitsOf = (ticket: Ticket, tool: RegisteredTool): ReadonlyArray<Permit> => {
    const { resources } = ticket
    const classes = classPools[ticket.class ?? tool.class]
    if (resources.length === 0 && tool.maxConcurrent === undefined) return classes
    const names = Array.from(new Set(resources)).sort()
    const permits = names.map((name) => {
      let key = keys.get(name)
      if (key === undefined) keys.set(name, key = newPermit(shared, "resource", name, 1))
      key.users++
      return key
    })
    if (keysOfAll !== undefined && names.length > 0) {
      const pools = names.map((name) => ({ name: `key ${name}`, size: 1 }))
      permits.push(ofAll(shared, keysOfAll, "resource", `the shared resources ${names.map(quoted).join(", ")}`, pools))
    }
    if (tool.maxConcurrent !== undefined) {
      const name = `the cap of "${tool.name}"`
      let cap = caps.own.get(tool.name)
      if (cap === undefined) caps.own.set(tool.name, cap = newPermit(shared, "tool", name, tool.maxConcurrent))
      permits.push(cap)
      if (caps.ofAll !== undefined) {
        permits.push(
          ofAll(shared, caps.ofAll, "tool", name, [{ name: `cap ${tool.name}`, size: tool.maxConcurrent }])
        )
      }
    }
    return [...permits, ...classes]
  }
  const releasePermits = (ticket: Ticket): void => {
    // one that waits for them does so no longer
    if (ticket.state === "waiting") ticket.state = "ready"
    entrance.quit(ticket)
    const resources = ticket.permits.findIndex((permit) => permit.kind !== "resource")
    if (resources >= 0) entrance.release(ticket, resources)
    entrance.drain()
  }
  const leave = (ticket: Ticket): void => {
    if (ticket.state === "left") return
    ticket.state = "left"
    entrance.unnest(ticket)
    entrance.quit(ticket)
    entrance.release(ticket, 0)
    for (const permit of ticket.permits) {
      if (permit.kind === "resource" && !permit.isShared && --permit.users === 0) keys.delete(permit.name)
    }
    entrance.drain()
  }

  return Pools.of({
    enter: (ticket) => {
      // what became of one before it may have decided it, too
      if (ticket.state === "left") return Effect.interrupt
      entrance.nest(ticket)
      if (ticket.tool !== undefined) ticket.permits = permitsOf(ticket, ticket.tool)
      return entrance.take(ticket, leave)
    },
    releasePermits,
    reenter: (ticket) => ticket.state === "left" ? Effect.interrupt : entrance.take(ticket, releasePermits),
    block: (ticket, because) => {
      for (const permit of ticket.permits.slice(0, ticket.held)) {
        if (permit.kind === "resource") permit.block(ticket, because)
      }
    },
    leave,
    reentry: ({ class: own, parent, tool }, waitsFor) => {
      if (parent === undefined || tool === undefined) return undefined
      if ("joined" in waitsFor) return entrance.wouldWaitForEver(parent, waitsFor) ? ownResult : undefined
      const { resources } = waitsFor
      const known = [
        ...resources.map((name) => keys.get(name)),
        caps.own.get(tool.name),
        ...classPools[own ?? tool.class]
      ]
      const isOwn = (permit: Permit) => permit.isTaken && entrance.wouldWaitForEver(parent, { permits: [permit] })
      return known.find((permit) => permit !== undefined && isOwn(permit))?.name
    },
    isFree: (tool) => {
      const cap = tool.maxConcurrent === undefined ? undefined : caps.own.get(tool.name)
      return cap?.isFull !== true && classPools[tool.class].every((permit) => !permit.isFull)
    },
    checkJoin: (ticket) => {
      entrance.nest(ticket)
      entrance.check(ticket, ownResult)
    },
    fork: () =>
      fromClasses({ ...classPools, ConcurrentMut: fresh(true).ConcurrentMut }, fresh, shared, {
        own: new Map(),
        ofAll: undefined
      }),
    session: () => fromClasses(fresh(), fresh, shared, caps)
  })
}
