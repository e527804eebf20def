/**
 * Gate 8: an equal call inside the window is not run again.
 *
 * Equal is the same tool with the same decoded parameters, whatever the order
 * of object keys, for the same principal. The keys live in `StateStore`; here
 * is the policy that says which calls have one and what a duplicate gets.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Layer from "effect/Layer"
import type { KeyClaim, Settlement } from "../store/StateStore.ts"
import type * as ToolOutcome from "../ToolOutcome.ts"
import type { GateCall } from "./Gate.ts"

/**
 * Options of the policy.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How long a settled call counts. Dead at exactly this long. Default 5 minutes. */
  readonly window?: Duration.Input | undefined
  /** Outcomes after which the key is kept. Default `["Succeeded"]`; `"Failed"` may be added. */
  readonly outcomes?: ReadonlyArray<"Succeeded" | "Failed"> | undefined
  /** What an equal call gets once the first has its outcome: a refusal, or that outcome again. Default `"reject"`. */
  readonly onDuplicate?: "reject" | "replay" | undefined
  /** What an equal call gets while the first runs: a refusal, or the same outcome when it is there. Default `"reject"`. */
  readonly inFlight?: "reject" | "join" | undefined
}

/**
 * The dedupe policy of an executor.
 *
 * @category services
 * @since 0.1.0
 */
export class Dedupe extends Context.Service<Dedupe, {
  /** False: only tools with an `AlwaysDedupe` rule have keys. */
  readonly enabled: boolean
  readonly windowMillis: number
  readonly outcomes: ReadonlySet<ToolOutcome.Tag>
  readonly onDuplicate: "reject" | "replay"
  readonly inFlight: "reject" | "join"
}>()("effect-tool-executor/policy/Dedupe") {}

/**
 * Creates a policy.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options?: Options): Dedupe["Service"] =>
  Dedupe.of({
    enabled: true,
    windowMillis: Duration.toMillis(Duration.fromInputUnsafe(options?.window ?? "5 minutes")),
    outcomes: new Set(options?.outcomes ?? ["Succeeded"]),
    onDuplicate: options?.onDuplicate ?? "reject",
    inFlight: options?.inFlight ?? "reject"
  })

/**
 * Layer that refuses, replays or joins equal calls.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<Dedupe> => Layer.sync(Dedupe, () => make(options))

/**
 * Layer that lets equal calls run, except where a rule says `AlwaysDedupe`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerNoop: Layer.Layer<Dedupe> = Layer.sync(Dedupe, () => Dedupe.of({ ...make(), enabled: false }))

/**
 * Gives the key that a call needs; `undefined` if it needs none.
 *
 * @category gates
 * @since 0.1.0
 */
export const claim = (
  self: Dedupe["Service"],
  call: GateCall,
  options: {
    /** What the rules say of the tool. */
    readonly rule: "never" | "always" | undefined
    /** The process still waits for a success of this tool. */
    readonly awaited: boolean
    /** The sub-agent that calls: each has keys of its own. */
    readonly agent?: string | undefined
  }
): KeyClaim | undefined =>
  options.rule === "never" || (options.rule === undefined && !self.enabled) ? undefined : {
    _tag: "Key",
    principal: call.principal,
    tool: call.tool.name,
    key: options.agent === undefined
      ? call.tool.canonical(call.params, call.args)
      : `${options.agent} ${call.tool.canonical(call.params, call.args)}`,
    readOnly: call.tool.readOnly,
    process: call.process,
    ignoreOtherProcesses: options.awaited
  }

/**
 * An outcome as it is kept with a key, for replay.
 *
 * @category models
 * @since 0.1.0
 */
export interface Kept {
  readonly outcome: ToolOutcome.ToolOutcome
  /** The batch that may read its artifact. */
  readonly batch: string
}

/**
 * Gives what becomes of a call's key with its outcome. A fiber that still runs
 * keeps its key in flight.
 *
 * @category gates
 * @since 0.1.0
 */
export const settlement = (
  self: Dedupe["Service"],
  outcome: ToolOutcome.ToolOutcome,
  stillRunning: boolean,
  batch: string
): Settlement => ({
  started: outcome.startedAt !== undefined,
  key: stillRunning ? "running" : self.outcomes.has(outcome._tag) ? "keep" : "release",
  windowMillis: self.windowMillis,
  value: self.onDuplicate === "replay" ? { outcome, batch } satisfies Kept : undefined
})
