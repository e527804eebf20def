/** What must hold of a session once everything of it has ended, whatever happened to its runners. */
import type { Wave, WaveSse } from "../../src/server/api/ApiModels.ts"
import type { Entry } from "../../src/server/api/ApiRecords.ts"
import { toPrincipal } from "../../src/server/users/Principals.ts"
import type { Client } from "./serviceClient.ts"
import type { Call } from "./servicePrograms.ts"
import * as World from "./serviceWorld.ts"

/** A line of the journal, as far as it matters here. */
interface Recorded {
  readonly _tag: string
  readonly callId?: string
  readonly outcome?: Outcome
  readonly tool?: string
}

interface Outcome {
  readonly _tag: string
  readonly attempt?: number
  readonly started?: boolean
  readonly reason?: unknown
}

/** What the client was told of a wave's calls. */
export const outcomesOf = (wave: Wave | undefined): ReadonlyArray<Outcome> =>
  wave?.end?._tag === "ToolsEnd" ? wave.end.executionResults : []

/** Finds what is wrong with a session, a sentence each. */
export const problems = (
  client: Client,
  ledger: World.Ledger,
  journal: ReadonlyArray<typeof Entry.Type>
): ReadonlyArray<string> => {
  const found: Array<string> = []
  const lines = journal.map(({ entry }) => entry as unknown as Recorded)
  for (const [name, { calls, readers, result }] of client.waves) {
    const outcomes = outcomesOf(result)
    if (outcomes.length !== calls.length) found.push(`${name}: ${outcomes.length} outcomes of ${calls.length} calls`)
    calls.forEach((call, index) => {
      const outcome = outcomes[index]
      if (outcome === undefined) return
      found.push(...ofCall(client, ledger, lines.filter(({ callId }) => callId === call.key), call, outcome))
    })
    for (const seen of readers) found.push(...ofReader(name, seen, calls.length))
  }
  found.push(...ofAnswers(client), ...ofLimits(client, ledger))
  return found
}

const ofCall = (
  client: Client,
  ledger: World.Ledger,
  lines: ReadonlyArray<Recorded>,
  { key, tool }: Call,
  outcome: Outcome
): ReadonlyArray<string> => {
  const kind = World.kindOf(tool)
  const [began, done] = [ledger.of(key, "began"), ledger.of(key, "done")]
  const settled = lines.filter(({ _tag }) => _tag === "Settled")
  // one that was suspended before its handler began starts again
  const count = (tag: string) => lines.filter(({ _tag }) => _tag === tag).length
  const starts = count("Started") - count("Suspended")
  const [approved, denied] = [
    client.given.filter((it) => it.call === key && it.says !== "Deny").length,
    client.given.some((it) => it.call === key && it.says === "Deny")
  ]
  const isLost = outcome._tag === "Unknown" && outcome.attempt !== 0
  // nobody looks what became of a call that is not wanted any more
  const isWanted = !isCancelled(client, key) && !client.isEnded
  const isGranted = client.given.some(({ says }) => says === "ApproveForScope")
  const never: ReadonlyArray<readonly [boolean, string]> = [
    [settled.length !== 1, `was settled ${settled.length} times`],
    [
      settled.length === 1 && settled[0]!.outcome?._tag !== outcome._tag,
      `is ${settled[0]?.outcome?._tag} in the journal`
    ],
    [kind.repeats === "never" && kind.isReconciled !== true && began.length > 1, `began ${began.length} times`],
    [kind.repeats === "never" && kind.isReconciled !== true && starts > 1, `was started ${starts} times`],
    [kind.repeats === "never" && done.length > 1, `was done ${done.length} times`],
    [new Set(began.map(({ idempotencyKey }) => idempotencyKey)).size > 1, "had two idempotency keys"],
    [outcome._tag === "Succeeded" && began.length === 0, "was not begun"],
    [outcome._tag === "Denied" && done.length > 0, "was done"],
    [
      outcome._tag === "Cancelled" && outcome.started === false && began.length > 0 && tool !== "look",
      "began"
    ],
    // without its database, a runner does not know of a call that waits whether another runner has it
    [isLost && isWanted && kind.repeats !== "never", "may repeat"],
    [isLost && isWanted && kind.isReconciled === true, "can tell whether it has happened"],
    [kind.isDenied === true && outcome._tag === "Succeeded", "is denied by the policy"],
    [kind.approvals !== undefined && !isGranted && began.length > 0 && approved < kind.approvals, "was not approved"],
    [began.some(({ at }) => at > (cancelledAt(client, key) ?? Infinity)), "began after it was cancelled"],
    [denied && !isGranted && done.length > 0, "was denied by a person and done"],
    [
      outcome._tag === "Cancelled" && !client.isEnded && !isCancelled(client, key) && !isByRunner(outcome),
      "was cancelled by nobody"
    ],
    [!["Succeeded", "Failed", "Denied", "Cancelled", "Unknown"].includes(outcome._tag), "is none that can be"]
  ]
  const shown = JSON.stringify(outcome).slice(0, 400)
  return never.filter(([is]) => is).map(([, what]) => `${tool} ${key} ${outcome._tag}: ${what}: ${shown}`)
}

/** A runner has given it its time, or could not hold what it needed. */
const isByRunner = ({ reason, started }: Outcome): boolean =>
  started === true && /being moved|is stopping|server stops|could not be reached/.test(String(reason))

/** When it was confirmed that a call is cancelled; `Infinity`: it was only asked for. */
const cancelledAt = ({ waves }: Client, key: string): number | undefined =>
  waves.get(key.split(".")[1]!)?.cancelled.get(key)

const isCancelled = (client: Client, key: string): boolean => cancelledAt(client, key) !== undefined

/** Every call is announced and ended once, nothing comes twice, and the end is the last. */
const ofReader = (name: string, seen: ReadonlyArray<WaveSse>, calls: number): ReadonlyArray<string> => {
  const found: Array<string> = []
  const ids = seen.flatMap(({ id }) => id === undefined ? [] : [id])
  if (new Set(ids).size !== ids.length) found.push(`${name}: a reader got an event twice`)
  const at = (tag: string) => seen.flatMap(({ data }) => data._tag === tag && "index" in data ? [data.index] : [])
  for (const tag of ["ToolCallQueued", "ToolCallComplete"]) {
    const got = at(tag)
    if (got.length !== calls || new Set(got).size !== calls) {
      found.push(`${name}: a reader got ${tag} of [${got.join(", ")}] for ${calls} calls`)
    }
  }
  if (seen.at(-1)?.data._tag !== "ToolsEnd") found.push(`${name}: the last event was ${seen.at(-1)?.data._tag}`)
  return found
}

/** Each request is answered once, and whoever is late is told by whom. */
const ofAnswers = ({ given, told }: Client): ReadonlyArray<string> => {
  const found: Array<string> = []
  const winners = grouped(given, ({ request }) => request)
  for (const [, all] of winners) {
    const { call } = all[0]!
    const final = all.filter(({ how }) => how !== "waiting")
    if (final.length > 1) found.push(`${call}: ${final.length} answers counted`)
    const approvals = all.filter(({ says }) => says !== "Deny")
    if (new Set(approvals.map(({ person }) => person)).size !== approvals.length) {
      found.push(`${call}: somebody counted twice`)
    }
  }
  for (const { by, how, person, request } of told) {
    if (how !== "approved" && how !== "denied") continue
    const all = winners.get(request) ?? []
    if (by === undefined || !all.some((it) => it.person === by)) {
      found.push(`${person} was told that ${by} had ${how} ${request}, and ${all.map((it) => it.person).join()} had`)
    }
  }
  return found
}

/** Limits of whole sessions: calls, groups and order. */
const ofLimits = (client: Client, ledger: World.Ledger): ReadonlyArray<string> => {
  const principal = toPrincipal(client.owner)
  const all = ledger.lines.filter((it) => it.principal === principal)
  const begun = (tool: World.Name) => new Set(all.filter((it) => it.tool === tool).map(({ key }) => key)).size
  const refund = all.find(({ tool }) => tool === "refund")
  const verified = all.find(({ phase, tool }) => tool === "verify" && phase === "done")
  return [
    ...begun("limited") > World.max ? [`limited began ${begun("limited")} times`] : [],
    ...begun("left") > 0 && begun("right") > 0 ? ["left and right both began"] : [],
    ...refund !== undefined && (verified === undefined || verified.at > refund.at) ? ["refund began before verify"] : []
  ]
}

const grouped = <A>(values: ReadonlyArray<A>, by: (value: A) => string): ReadonlyMap<string, ReadonlyArray<A>> => {
  const groups = new Map<string, Array<A>>()
  for (const value of values) {
    const group = groups.get(by(value))
    if (group === undefined) groups.set(by(value), [value])
    else group.push(value)
  }
  return groups
}

interface Stay {
  readonly from: number
  readonly to: number
}

/** When a handler was at work: until it waited for a person, or left, or its process was killed. */
const stays = (lines: ReadonlyArray<World.Line>): ReadonlyArray<Stay> =>
  lines.flatMap((began, index) => {
    if (began.phase !== "began" && began.phase !== "goes on") return []
    const left = lines.slice(index + 1).find((it) =>
      (it.phase === "left" || it.phase === "waits") && it.key === began.key && it.life === began.life
    )
    return [{ from: began.at, to: Math.min(left?.at ?? Infinity, began.life.diedAt ?? Infinity) }]
  })

/** The most that were at work at once. */
const most = (all: ReadonlyArray<Stay>): number => {
  const steps = all.flatMap(({ from, to }) => [[from, 1], [to, -1]] as const)
  let [now, peak] = [0, 0]
  // one that leaves in the same millisecond leaves first
  for (const [, step] of steps.toSorted(([at, one], [than, other]) => at - than || one - other)) {
    now += step
    peak = Math.max(peak, now)
  }
  return peak
}

/** Limits of all sessions together. */
export const crowded = (ledger: World.Ledger): ReadonlyArray<string> => {
  const capped = most(stays(ledger.lines.filter(({ tool }) => tool === "capped")))
  const shelves = grouped(ledger.lines.filter(({ tool }) => tool === "keyed"), ({ key }) => World.shelfOf(key))
  return [
    ...capped > World.cap ? [`capped ran ${capped} at once:\n${timesOf(ledger, "capped")}`] : [],
    ...Array.from(shelves).flatMap(([shelf, lines]) => {
      const peak = most(stays(lines))
      return peak > 1 ? [`${shelf} was written by ${peak} at once:\n${timesOf(ledger, "keyed")}`] : []
    })
  ]
}

const timesOf = ({ lines }: World.Ledger, tool: World.Name): string =>
  lines.filter((it) => it.tool === tool).map(({ at, key, life, phase }) => `  ${at} ${life.name} ${phase} ${key}`).join(
    "\n"
  )
