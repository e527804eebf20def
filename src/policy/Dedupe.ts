/**
 * Gate 8: an equal call inside the window is not run again.
 *
 * Equal is the same tool with the same decoded parameters, whatever the order
 * of object keys, within the reach of the policy: by default one batch, so who
 * is refused has seen the result. The keys live in `StateStore`; here is the
 * policy that says which calls have one and what a duplicate gets.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { ConfigurationError, notOneOf, type Problem } from "../ConfigurationError.ts"
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
  /**
   * How far a key reaches: one process, one batch (a conversation, whose model has
   * seen the result), or everything that the principal does. Default `"batch"`.
   *
   * With `"principal"` a replay crosses batches. It takes along all but an artifact,
   * which is its batch's: instead of that a ReadOnly tool runs anew, and a call
   * that may change things is refused.
   */
  readonly reach?: "process" | "batch" | "principal" | undefined
  /** How long a settled call counts. Dead at exactly this long. Default 5 minutes. */
  readonly window?: Duration.Input | undefined
  /** Outcomes after which the key is kept. Default `["Succeeded"]`; `"Failed"` may be added. */
  readonly outcomes?: ReadonlyArray<"Succeeded" | "Failed"> | undefined
  /**
   * What an equal call gets once the first has its outcome: a refusal, or that
   * outcome again, if the rules of order and the permissions let it. Default `"reject"`.
   */
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
  readonly reach: "process" | "batch" | "principal"
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
    reach: options?.reach ?? "batch",
    windowMillis: Duration.toMillis(Duration.fromInputUnsafe(options?.window ?? "5 minutes")),
    outcomes: new Set(options?.outcomes ?? ["Succeeded"]),
    onDuplicate: options?.onDuplicate ?? "reject",
    inFlight: options?.inFlight ?? "reject"
  })

/**
 * Layer that refuses, replays or joins equal calls; fails with everything that is
 * wrong with the options.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<Dedupe, ConfigurationError> =>
  Layer.effect(Dedupe, Effect.suspend(() => checked(options)))

/**
 * Layer that lets equal calls run, except where a rule says `AlwaysDedupe`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerNoop: Layer.Layer<Dedupe> = Layer.sync(Dedupe, () => Dedupe.of({ ...make(), enabled: false }))

/**
 * What a key depends on beside the call itself.
 *
 * @category options
 * @since 0.1.0
 */
export interface ClaimOptions {
  /** What the rules say of the tool. */
  readonly rule: "never" | "always" | undefined
  /** The batch, as the store knows it. */
  readonly batch: string
  /** A model is told of the outcome. */
  readonly told: boolean
  /** The process still waits for a success of this tool. */
  readonly awaited: boolean
  /** It is the tool that the process is there for: what others have done is not what it does. */
  readonly fires: boolean
  /** There is nothing that it could share: it runs, unless a model will be told of an equal call that runs. */
  readonly anew: boolean
  /** The sub-agent that calls: each has keys of its own. */
  readonly agent: string | undefined
}

/**
 * Gives the key that a call needs; `undefined` if it needs none. A tool whose
 * answer changes by itself has none, unless a rule says so.
 *
 * @category gates
 * @since 0.1.0
 */
export const claim = (self: Dedupe["Service"], call: GateCall, options: ClaimOptions): KeyClaim | undefined => {
  const { agent = "", anew, awaited, batch, fires, rule, told } = options
  const { params, process, tool } = call
  if (rule === "never" || (rule === undefined && (!self.enabled || tool.volatile))) return undefined
  const replays = self.onDuplicate === "replay"
  const joins = self.inFlight === "join"
  // without a share in it, nobody is refused for what no model was told, and no host for what one was
  const unshared = told ? "told" : "none"
  const reach = self.reach === "batch" ? batch : self.reach === "process" ? process : ""
  return {
    _tag: "Key",
    principal: call.principal,
    batch: self.reach === "principal" ? undefined : batch,
    tool: tool.name,
    key: `${agent} ${reach} ${tool.canonical(params, call.args)}`,
    readOnly: tool.readOnly,
    process,
    untold: !told,
    settled: anew ? "none" : replays ? "all" : unshared,
    running: !anew && (joins || awaited) ? "all" : unshared,
    ignoreOtherProcesses: awaited || fires
  }
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
  /** What it was about. */
  readonly targets: GateCall["targets"]
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
  /** Somebody waits for a person who allows it to have this outcome. */
  isWanted: boolean,
  about: Pick<Kept, "batch" | "targets">
): Settlement => ({
  started: outcome.startedAt !== undefined,
  key: stillRunning ? "running" : self.outcomes.has(outcome._tag) ? "keep" : "release",
  windowMillis: self.windowMillis,
  value: isWanted || self.onDuplicate === "replay" ? { outcome, ...about } satisfies Kept : undefined
})

// Utilities

const checked = (options: Options = {}): Effect.Effect<Dedupe["Service"], ConfigurationError> => {
  const { inFlight = "reject", onDuplicate = "reject", outcomes = [], reach = "batch", window = 0 } = options
  const problems: ReadonlyArray<Problem> = [
    ...notOneOf("reach", reach, ["process", "batch", "principal"]),
    ...Option.isSome(Duration.fromInput(window))
      ? []
      : [{ path: "window", problem: `it is ${JSON.stringify(window)}`, expected: "a duration, such as \"5 minutes\"" }],
    ...outcomes.flatMap((it, index) => notOneOf(`outcomes[${index}]`, it, ["Succeeded", "Failed"])),
    ...notOneOf("onDuplicate", onDuplicate, ["reject", "replay"]),
    ...notOneOf("inFlight", inFlight, ["reject", "join"])
  ]
  return problems.length === 0
    ? Effect.succeed(make(options))
    : new ConfigurationError({ subject: "Dedupe", problems })
}
