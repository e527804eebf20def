/**
 * The host's gates, and those of the executor that are made the same way, as an executor asks them: in their order,
 * within a time limit, and told afterwards how each call ended that they were asked about.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as CallLog from "../../internal/callLog.ts"
import { within } from "../../internal/detached.ts"
import { ConfigurationError, type Problem } from "../vocabulary/ConfigurationError.ts"
import type { RegisteredTool, Registry } from "../vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import { entriesIn, type Entry, type Gate, type GateCall, type Moment, type Place, type Verdict } from "./Gate.ts"

/** The host's gates by the moments at which they are asked. */
export type HostGates = { readonly [M in Moment]: ReadonlyArray<Gate> }

/** Gives the gates that are asked about the tools of a registry. */
export type GatesFor = (registry: Registry) => HostGates

/**
 * The host's gates that are provided here, between the executor's own, in their order; fails where a gate names a place
 * that does not exist.
 */
export const provided = (own: {
  readonly first: ReadonlyArray<Entry>
  readonly last: ReadonlyArray<Entry>
}): Effect.Effect<GatesFor, ConfigurationError> =>
  Effect.gen(function*() {
    const given = entriesIn(yield* Effect.context<never>())
    const ownNames = new Set([...own.first, ...own.last].map(({ name }) => name))
    const hosts = given.filter(({ name }) => !ownNames.has(name))
    const gates = yield* inOrder([
      ...own.first,
      ...hosts.some(({ name }) => name === noGuards.name) ? [] : [noGuards],
      ...hosts,
      ...own.last
    ])
    const last: { of?: Registry; gates?: HostGates } = {}
    return (registry) => {
      if (last.of !== registry) {
        last.of = registry
        last.gates = concerning(gates, registry)
      }
      return last.gates!
    }
  })

/** Runs the host's gates of a moment in order until one refuses. Adds those with a `settle` to `asked`. */
export const ask = (
  self: HostGates,
  moment: Moment,
  call: GateCall,
  millis: number,
  asked: Set<Gate>
): Effect.Effect<Verdict> => {
  const gates = self[moment].filter((it) => concerns(it, call.tool))
  if (gates.length === 0) return Effect.undefined
  let last = ""
  const all = Effect.forEach(gates, (gate) =>
    Effect.suspend(() => {
      last = gate.name
      if (gate.settle !== undefined) asked.add(gate)
      return gate[moment]!(call)
    }), { discard: true })
  return Effect.flatMap(within(all, millis), (exit): Effect.Effect<Verdict> => {
    if (exit === undefined) {
      return Effect.succeed({ _tag: "GuardRejected", guard: last, reason: "it took too long" })
    }
    if (Exit.isSuccess(exit)) return Effect.undefined
    const told: unknown = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
    if (isRefusal(told)) return Effect.succeed(told)
    if (typeof told === "string") return Effect.succeed({ _tag: "GuardRejected", guard: last, reason: told })
    // what is not a text, such as an error, is not shown to a model
    return Effect.as(CallLog.log("Warn", `The gate ${last} failed`, exit.cause, about(call)), failed(last))
  })
}

/** Settles a call with all gates that ran for it, concurrently. Logs gates that die or time out. */
export const settle = (
  asked: Iterable<Gate>,
  call: GateCall,
  outcome: ToolOutcome,
  millis: number
): Effect.Effect<void> =>
  Effect.forEach(
    asked,
    (gate) =>
      Effect.flatMap(within(Effect.suspend(() => gate.settle!(call, outcome)), millis), (exit) =>
        exit !== undefined && Exit.isSuccess(exit)
          ? Effect.void
          : CallLog.log(
            "Warn",
            `The gate ${gate.name} could not settle call ${call.call.id}`,
            exit?.cause ?? "it took too long",
            about(call)
          )),
    {
      concurrency: "unbounded",
      discard: true
    }
  )

/** Receives the defects of gates that threw. */
export interface Reporter {
  readonly threw: (gate: string, call: GateCall, defect: unknown) => void
}

/** Runs a gate; a gate that throws refuses the call. */
export const orRefused = <A>(
  gate: string,
  say: () => A,
  call: GateCall,
  reporter?: Reporter
): A | ToolRefusal => {
  try {
    return say()
  } catch (defect) {
    reporter?.threw(gate, call, defect)
    return failed(gate)
  }
}

/** The refusal of a gate that threw. */
export const failed = (gate: string): ToolRefusal => ({ _tag: "GuardRejected", guard: gate, reason: "it failed" })

/** The log fields of a call. */
export const about = ({ args, call, principal, tool: { name: tool, redactor } }: GateCall): CallLog.About => ({
  tool,
  callId: call.id,
  principal,
  secrets: { redactor, args }
})

const isRefusal = Schema.is(ToolRefusal)

/** The place of guards in a host without guards. */
const noGuards: Entry = { name: "Guards", gates: [], place: undefined }

/** A gate whose `concerns` throws guards the tool. */
const concerns = (gate: Gate, tool: RegisteredTool): boolean => {
  try {
    return gate.concerns?.(tool) ?? true
  } catch {
    return true
  }
}

const concerning = (all: ReadonlyArray<Gate>, registry: Registry): HostGates => {
  const tools = Array.from(registry.values())
  const gates = all.filter((gate) => gate.concerns === undefined || tools.some((tool) => concerns(gate, tool)))
  const askedIn = (moment: Moment) => gates.filter((gate) => gate[moment] !== undefined)
  return {
    arrive: askedIn("arrive"),
    guard: askedIn("guard"),
    admit: askedIn("admit"),
    recheck: askedIn("recheck")
  }
}

/** Puts gates with a place before and after the gates that they name. */
const inOrder = (entries: ReadonlyArray<Entry>): Effect.Effect<ReadonlyArray<Gate>, ConfigurationError> => {
  const placed = new Set<Entry>()
  const around = (entry: Entry): ReadonlyArray<Gate> => {
    placed.add(entry)
    const beside = (is: (place: Place) => boolean) =>
      entries.filter((it) => it.place !== undefined && is(it.place)).flatMap(around)
    return [
      ...beside((it) => "before" in it && it.before === entry.name),
      ...entry.gates,
      ...beside((it) => "after" in it && it.after === entry.name)
    ]
  }
  const gates = entries.filter((it) => it.place === undefined).flatMap(around)
  const problems = entries.filter((it) => !placed.has(it)).map(({ name, place }): Problem => {
    const [[side, other]] = Object.entries(place!) as [[string, string]]
    return {
      path: name,
      problem: entries.some((it) => it.name === other)
        ? `its place is ${side} "${other}", which has its own place by this one`
        : `its place is ${side} "${other}", and no gate of the host has that name`,
      expected: `one of ${entries.filter((it) => it.name !== name).map((it) => `"${it.name}"`).join(", ")}; `
        + "before and after the executor's own gates a gate stands by the moment at which it is asked: arrive, guard, admit or recheck"
    }
  })
  return problems.length === 0 ? Effect.succeed(gates) : new ConfigurationError({ subject: "Gate", problems })
}
