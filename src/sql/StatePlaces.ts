/** What reservations claim of a batch or a session: counts, groups and clocks. Pure. */
import { keep } from "../core/rules/SharedPast.ts"
import {
  type CallsClaim,
  type Claim,
  type CooldownClaim,
  type GroupClaim,
  nameOf,
  type Refused,
  type Settlement
} from "../core/store/StateStore.ts"
import type { Choice, Part, RestClock, Scope, ScopeState } from "./StateRecords.ts"

/** A claim that counts in a batch or a session. */
export type PlaceClaim = CallsClaim | GroupClaim | CooldownClaim

/** A batch or a session, and what is claimed of it. */
export interface Place {
  readonly scope: Scope
  readonly claims: Array<PlaceClaim>
}

/** What refuses a claim; notes it for `take`. */
export const ask = ({ claims, scope: { state } }: Place, claim: PlaceClaim, now: number): Refused | undefined => {
  claims.push(claim)
  const name = nameOf(claim)
  if (claim._tag === "Calls") {
    if ((state.calls.get(name) ?? 0) < claim.max) return undefined
    return claim.scope === undefined ? { _tag: "CallsUsedUp" } : { _tag: "CallsUsedUp", scope: claim.scope }
  }
  if (claim._tag === "Cooldown") return coolingDown(clockOf(state, claim), claim, now)
  const { tool } = choiceOf(state, name)
  return tool !== undefined && tool !== claim.tool ? { _tag: "GroupTaken", group: claim.group, tool } : undefined
}

/** Takes everything that was claimed. */
export const take = ({ claims, scope: { state } }: Place): void => {
  state.open++
  for (const claim of claims) {
    const name = nameOf(claim)
    if (claim._tag === "Calls") state.calls.set(name, (state.calls.get(name) ?? 0) + 1)
    else if (claim._tag === "Cooldown") clockOf(state, claim).running++
    else {
      const choice = choiceOf(state, name)
      choice.tool = claim.tool
      choice.holders++
    }
  }
}

/** Spends or gives back everything but the clocks, and remembers a success. */
export const settlePart = (
  { calls, groups }: Part,
  state: ScopeState,
  { started, succeeded }: Settlement,
  now: number
): void => {
  state.open--
  state.usedAt = now
  if (succeeded !== undefined) state.past = keep(state.past, succeeded)
  if (!started) { for (const name of calls) state.calls.set(name, state.calls.get(name)! - 1) }
  for (const group of groups) {
    const choice = choiceOf(state, group)
    choice.holders--
    if (started) choice.isKept = true
    else if (choice.holders === 0 && !choice.isKept) choice.tool = undefined
  }
}

/** What a reservation keeps of its claims. */
export const partOf = ({ claims, scope: { state: { generation } } }: Place): Part => {
  const namesOf = (tag: Claim["_tag"]) => claims.flatMap((it) => it._tag === tag ? [nameOf(it)] : [])
  return { generation, calls: namesOf("Calls"), groups: namesOf("Group"), clocks: namesOf("Cooldown") }
}

/** Nothing is claimed. */
export const noPart: Part = { generation: undefined, calls: [], groups: [], clocks: [] }

/** The clock of a tool, which is made if it is not there. */
export const clockOf = ({ clocks }: ScopeState, claim: CooldownClaim): RestClock => {
  const { millis } = claim
  const name = nameOf(claim)
  let clock = clocks.get(name)
  if (clock === undefined) {
    clocks.set(name, clock = { running: 0, lingering: 0, endedAt: undefined, millis: whole(millis) })
  }
  clock.millis = Math.max(clock.millis, whole(millis))
  return clock
}

/** Whether a tool rests. */
export const coolingDown = (
  { endedAt, lingering, running }: RestClock,
  { millis, scope }: CooldownClaim,
  now: number
): Refused | undefined => {
  const isRunning = running > 0 || lingering > 0
  if (!isRunning && (endedAt === undefined || now - endedAt >= millis)) return undefined
  const remainingMillis = isRunning ? millis : endedAt! + millis - now
  const refused = { _tag: "CoolingDown", running: isRunning, remainingMillis } as const
  return scope === undefined ? refused : { ...refused, scope }
}

/** Milliseconds as a database has them. */
export const whole = (millis: number): number => Math.min(Math.ceil(millis), Number.MAX_SAFE_INTEGER)

const choiceOf = ({ groups }: ScopeState, group: string): Choice => {
  let choice = groups.get(group)
  if (choice === undefined) groups.set(group, choice = { tool: undefined, holders: 0, isKept: false })
  return choice
}
