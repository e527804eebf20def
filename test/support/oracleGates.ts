/**
 * The gates of the contract, each as a question about what is known now. They
 * share nothing with the executor, which is compared with them.
 */
import type { Asked, World } from "./oracleWorld.ts"

export interface Ended {
  readonly says: string
  readonly start?: number | undefined
  readonly end: number
}

interface Cooling {
  running: number
  last: number
}

export interface Principal {
  /** When calls that change things started and ended. */
  readonly changes: Array<{ readonly moment: number; readonly by: Call }>
  grants: Array<{ readonly tool: string; readonly to: ReadonlyArray<string> | undefined; readonly until: number }>
  readonly cooling: Map<string, Cooling>
  readonly keys: Map<string, Key>
}

export interface Batch {
  readonly principal: Principal
  readonly counts: Map<string, number>
  chosen: { readonly tool: string; holders: number } | undefined
  readonly keys: Map<string, Key>
  calls: number
  used: number
}

export interface Process {
  readonly batch: Batch
  readonly succeeded: Set<string>
  readonly blocked: Set<string>
  readonly keys: Map<string, Key>
}

/** What an equal call meets: the one in flight (`ended` undefined), or what became of it. */
export interface Key {
  readonly call: Call
  readonly began: number
  readonly waiters: Array<Call>
  ended: { readonly at: number; readonly says: string } | undefined
  outlived: boolean
  gone: boolean
}

export interface Call extends Asked {
  readonly wave: Wave
  readonly index: number
  state: "waiting" | "running" | "ended"
  start?: number
  shared?: boolean
  /** The key of the running call whose outcome it waits for. */
  joined?: Key | undefined
  replayed?: boolean
  dispatched?: boolean
  cancelled?: boolean
  held?: { readonly key: Key | undefined; readonly group: boolean }
  allowed?: boolean
  /** When its handler, which outlives it, ends. */
  left?: number
  outcome?: Ended
  done: () => void
}

export interface Wave {
  readonly process: Process
  readonly began: number
  readonly calls: ReadonlyArray<Call>
  readonly keys: Map<string, Key>
  place: number
}

/** Everything that a gate looks at beside the call. */
export interface Now extends World {
  now: number
}

// Arrival

export const refusedAtArrival = ({ settings, tools }: World, call: Call): string | undefined =>
  tools[call.name] === undefined ? "ToolNotFound" : settings.deny.includes(call.name) ? "PolicyDenied" : undefined

const closesItsRun = ({ rules }: World, name: string): boolean =>
  rules.closing.includes(name) || name === rules.start || name === rules.preceding?.tool ||
  name === rules.preceding?.needs || name === rules.following?.tool || name === rules.following?.until

/** A call that is refused is in whatever run is there; one that a rule of order names is the last of its run. */
export const cut = (world: World, calls: ReadonlyArray<Call>): ReadonlyArray<ReadonlyArray<Call>> => {
  const runs: Array<Array<Call>> = []
  let of: string | undefined
  let open = false
  for (const call of calls) {
    const kind = refusedAtArrival(world, call) === undefined ? world.tools[call.name]!.class : undefined
    const joins = open && (kind === undefined || of === undefined || of === kind)
    if (joins) runs.at(-1)!.push(call)
    else {
      runs.push([call])
      of = undefined
    }
    of ??= kind
    open = kind === undefined || !closesItsRun(world, call.name)
  }
  return runs
}

// Gate 8: equal calls

export const keysOf = ({ settings }: World, { keys, process }: Wave): Map<string, Key> =>
  settings.reach === "wave"
    ? keys
    : settings.reach === "process"
    ? process.keys
    : settings.reach === "batch"
    ? process.batch.keys
    : process.batch.principal.keys

export const textOf = ({ n, name, to }: Call): string => JSON.stringify([name, n, to])

export const hasKey = ({ rules }: World, name: string): boolean => !rules.closing.includes(name)

/** Another call has changed things since this one came. */
const isOvertaken = ({ began, call }: Key): boolean =>
  call.wave.process.batch.principal.changes.some(({ by, moment }) => moment > began && by !== call)

/** What an equal call means for this one: nothing, a refusal, or an outcome to share. */
export const equalTo = (world: Now, call: Call): Key | "refused" | undefined => {
  const { now, settings, tools } = world
  const { wave } = call
  const { process } = wave
  if (!hasKey(world, call.name)) return undefined
  const key = keysOf(world, wave).get(textOf(call))
  if (key === undefined) return undefined
  const { class: kind, idempotent, volatile } = tools[call.name]!
  const awaited = key.call.wave.process !== process && isAwaited(world, process, call.name)
  const stale = (kind === "ReadOnly" || idempotent === true) && isOvertaken(key)
  if (key.ended === undefined) {
    if (key.outlived) return "refused"
    return awaited || settings.inFlight === "join" && !stale ? key : "refused"
  }
  const ownMessage = volatile === true || kind === "ReadOnly" && settings.readWindow === undefined
  const window = kind === "ReadOnly" ? settings.readWindow ?? settings.window : settings.window
  if (stale || awaited || now - key.ended.at >= window || ownMessage && key.call.wave !== wave) return undefined
  return settings.onDuplicate === "replay" ? key : "refused"
}

const isAwaited = ({ rules }: World, { succeeded }: Process, name: string): boolean =>
  !succeeded.has(name) && (name === rules.start || name === rules.preceding?.needs)

// Gate 9: order

export const order = ({ rules }: World, { succeeded }: Process, name: string): string | undefined => {
  const { following, preceding, start } = rules
  if (start !== undefined && name !== start && !succeeded.has(start)) return "StartConstraint"
  if (name === preceding?.tool && !succeeded.has(preceding.needs)) return "RequiresPrecedingTools"
  if (name === following?.tool && succeeded.has(following.until)) return "RequiresFollowingTools"
  return undefined
}

// Gates 10 and 11: limits of the batch, rests of the principal

export const limits = ({ now, rules }: Now, batch: Batch, name: string): string | undefined => {
  const { cooldown, exclusive, max } = rules
  if (isOf(max, name) && (batch.counts.get(name) ?? 0) >= max!.max) return "MaxCalls"
  if (exclusive?.includes(name) === true && batch.chosen !== undefined && batch.chosen.tool !== name) {
    return "ExclusiveGroup"
  }
  const { last, running } = coolingOf(batch.principal, name)
  return isOf(cooldown, name) && (running > 0 || now - last < cooldown!.duration) ? "Cooldown" : undefined
}

const isOf = (rule: { readonly tool: string } | undefined, name: string) => rule?.tool === name || rule?.tool === "*"

export const coolingOf = ({ cooling }: Principal, name: string): Cooling => {
  const known = cooling.get(name) ?? { running: 0, last: -Infinity }
  cooling.set(name, known)
  return known
}

// Gate 12: grants

/** One answer has to cover all that the call is about; an answer about nothing covers nothing. */
export const isGranted = ({ now }: Now, { name, to, wave }: Call): boolean => {
  const grants = wave.process.batch.principal.grants.filter((it) => it.tool === name && now < it.until)
  return grants.some((it) => it.to === undefined || to!.length > 0 && to!.every((target) => it.to!.includes(target)))
}
