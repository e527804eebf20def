/**
 * Gate 8: an equal call inside the window is not run again.
 *
 * Equal is the same tool with the same decoded parameters, whatever the order of object keys, within the scope of the
 * policy: by default one batch, so a model that is refused has seen the result. How long a call counts depends on what
 * its tool declares. The keys live in `StateStore`; here is the policy that says which calls have one, when it ends,
 * and what a duplicate gets.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Scope } from "../rules/RuleKind.ts"
import type { KeyClaim, KeyScope, KeyTaken, Settlement } from "../store/Claims.ts"
import { type ConfigurationError, readOptions } from "../vocabulary/ConfigurationError.ts"
import type * as ToolOutcome from "../vocabulary/ToolOutcome.ts"
import type { RunsAgain, ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import type { GateCall } from "./Gate.ts"
import { alone } from "./OneLayer.ts"

/** Options of the policy. */
export interface Options {
  /**
   * How far a key reaches: one wave (the calls of one model message), one process, one batch (a user request, whose
   * model has seen the result), one session (a conversation), or everything that the principal does. Default `"batch"`;
   * `"wave"` for `ExecutedModel` and the adapters' `guard`.
   *
   * With `"session"` and `"principal"` a replay crosses batches. It gives everything but an artifact, which belongs to its batch: there
   * a ReadOnly tool runs again, and a call that may change things is refused.
   */
  readonly scope?: KeyScope | "session" | undefined
  /**
   * How long a settled call counts that may change things. Dead at exactly this long. If its tool is `Tool.Idempotent`
   * or declares `ToolAnnotations.Edits`, its key also ends when another call of the principal that may change things
   * starts or ends. Default 5 minutes.
   */
  readonly window?: Duration.Input | undefined
  /**
   * How long a settled call of a ReadOnly tool counts, until a call of the principal that may change things starts or
   * ends. Default `false`: only within its wave.
   */
  readonly readWindow?: Duration.Input | false | undefined
  /** Outcomes after which the key is kept. Default `["Succeeded"]`; `"Failed"` may be added, and `Unknown` always is. */
  readonly outcomes?: ReadonlyArray<"Succeeded" | "Failed"> | undefined
  /**
   * What an equal call gets once the first has its outcome: a refusal, or that outcome again, if the rules of order and
   * the permissions let it. Default `"reject"`.
   */
  readonly onDuplicate?: "reject" | "replay" | undefined
  /** What an equal call gets while the first runs: a refusal, or the same outcome when it is there. Default `"reject"`. */
  readonly inFlight?: "reject" | "join" | undefined
}

/**
 * Which calls are equal, and what the second of two equal ones gets.
 *
 * `layer` decides by a policy. Another service decides as it likes: what it refuses itself (`claim`) never reaches the
 * store, and what it has kept with a key (`settlement`) it is given again (`duplicate`).
 */
export class Dedupe extends Context.Service<Dedupe, {
  /** Gives the key that a call needs, `undefined` if it needs none, or says why the call may not run. */
  readonly claim: (call: GateCall, options: ClaimOptions) => KeyClaim | ToolRefusal | undefined
  /** Tells whether another call may join this one while it runs: then it can be found. */
  readonly leads: (call: GateCall, options: LeadOptions) => boolean
  /** Says what a call gets whose key another one has. */
  readonly duplicate: (call: GateCall, taken: KeyTaken, options: DuplicateOptions) => Duplicate
  /** Says what becomes of a call's key with its outcome. */
  readonly settlement: (call: GateCall, outcome: ToolOutcome.ToolOutcome, options: SettlementOptions) => KeySettlement
}>()("effect-tool-executor/policy/Dedupe") {}

export const defaults = {
  scope: "batch",
  window: "5 minutes",
  readWindow: false,
  outcomes: ["Succeeded"],
  onDuplicate: "reject",
  inFlight: "reject"
} as const satisfies Required<Options>

const scopes = ["wave", "process", "batch", "session", "principal"] as const

/** Creates a policy; fails with everything that is wrong with the options. */
export const make = (options?: Options): Effect.Effect<Dedupe["Service"], ConfigurationError> =>
  Effect.map(policyOf(options, true), fromPolicy)

/** Layer that refuses, replays or joins equal calls. */
export const layer = (options?: Options): Layer.Layer<Dedupe, ConfigurationError> =>
  Layer.effect(Dedupe, Effect.andThen(alone(Dedupe, "Dedupe"), make(options)))

/** Layer that lets equal calls run, except where a rule says `AlwaysDedupe`. */
export const layerNoop: Layer.Layer<Dedupe> = Layer.effect(
  Dedupe,
  Effect.suspend(() => Effect.orDie(Effect.map(policyOf(undefined, false), fromPolicy)))
)

/** What the rules say of dedupe. */
export interface RuleOptions {
  /** What they say of the tool. */
  readonly rule: "never" | "always" | undefined
  /** Where a rule looks for equal calls. Absent: where the policy does. */
  readonly scope?: Scope | undefined
  /** Where a policy looks that names no scope. Absent: in the batch. */
  readonly defaultScope?: Options["scope"]
}

/** What a key depends on besides the call itself. */
export interface ClaimOptions extends RuleOptions {
  /** The session, as the store knows it. */
  readonly session: string
  /** The batch, as the store knows it. */
  readonly batch: string
  /** The wave, under the name that it has when it is resumed, too. */
  readonly wave: string
  /** The model sees the outcome. */
  readonly told: boolean
  /** The process still waits for a success of this tool. */
  readonly awaited: boolean
  /** It is the tool that the process is there for: what others have done is not what it does. */
  readonly fires: boolean
  /** It has nothing to share: it runs, unless the model will see the outcome of an equal call that runs. */
  readonly anew: boolean
  /** The sub-agent that calls: each has separate keys. */
  readonly agent: string | undefined
}

/** What decides whether a call may be joined. */
export interface LeadOptions {
  /** A process may wait for a success of this tool. */
  readonly mayBeAwaited: boolean
}

/** What decides, besides the two calls, what a duplicate gets. */
export interface DuplicateOptions extends RuleOptions {
  /** The model sees the outcome. */
  readonly told: boolean
  /** The process still waits for a success of this tool. */
  readonly awaited: boolean
  /** A person was asked whether it may have that outcome, and meanwhile it has come. */
  readonly wanted: boolean
  /** The other one can be joined: it is known here, and has no outcome yet. */
  readonly joinable: boolean
  /** Tells whether a call about these targets was about something else than this one is. */
  readonly differs: (targets: GateCall["targets"]) => boolean
  /** The rules read what the tool gave, to say what may come next. */
  readonly isRead: boolean
}

/** What decides, besides the outcome, what becomes of a key. */
export interface SettlementOptions extends RuleOptions {
  /** The fiber of the handler has outlived the outcome. */
  readonly stillRunning: boolean
  /** A person is being asked whether an equal call may have the outcome. */
  readonly wanted: boolean
}

/** What becomes of a key: the part of a settlement that dedupe decides. */
export type KeySettlement = Omit<Settlement, "started">

/** What a call gets when another call has its key. */
export type Duplicate =
  /** It is refused (`DuplicateCall`), with when an equal call will run. */
  | { readonly _tag: "Refused"; readonly runsAgain?: RunsAgain | undefined }
  /** It runs itself. */
  | { readonly _tag: "Anew" }
  /** It waits for the other one and gets the same outcome, if order and permissions let it. */
  | { readonly _tag: "Joins" }
  /** It gets that outcome, if order and permissions let it. */
  | { readonly _tag: "Replays"; readonly outcome: ToolOutcome.ToolOutcome }

interface Policy {
  /** False: only tools with an `AlwaysDedupe` rule have keys. */
  readonly enabled: boolean
  /** Absent: the policy names none. */
  readonly scope: Options["scope"]
  readonly windowMillis: number
  /** Absent: what reads is only compared within its wave. */
  readonly readMillis: number | undefined
  readonly outcomes: ReadonlySet<ToolOutcome.Tag>
  readonly replays: boolean
  readonly joins: boolean
}

const policyOf = (options: Options = {}, enabled: boolean): Effect.Effect<Policy, ConfigurationError> =>
  readOptions("Dedupe", (read) => ({
    enabled,
    scope: options.scope === undefined ? undefined : read.oneOf("scope", options.scope, scopes),
    windowMillis: read.millis("window", options.window ?? defaults.window, true),
    readMillis: (options.readWindow ?? defaults.readWindow) === false
      ? undefined
      : read.millis("readWindow", options.readWindow as Duration.Input, true),
    outcomes: new Set(
      (options.outcomes ?? defaults.outcomes).map((it, index) =>
        read.oneOf(`outcomes[${index}]`, it, ["Succeeded", "Failed"])
      )
    ),
    replays: read.oneOf("onDuplicate", options.onDuplicate ?? defaults.onDuplicate, ["reject", "replay"]) === "replay",
    joins: read.oneOf("inFlight", options.inFlight ?? defaults.inFlight, ["reject", "join"]) === "join"
  }))

const anew: Duplicate = { _tag: "Anew" }
const joins: Duplicate = { _tag: "Joins" }

const fromPolicy = (policy: Policy): Dedupe["Service"] => {
  return Dedupe.of({
    claim: (call, options) => {
      const { rule } = options
      if (rule === "never" || (rule === undefined && !policy.enabled)) return undefined
      try {
        return keyOf(policy, call, options)
      } catch (error) {
        const message = error instanceof RangeError
          ? "They are nested too deeply to be read"
          : "They cannot be compared with those of other calls"
        return { _tag: "InvalidParameters", issues: [{ path: "", message }] }
      }
    },
    leads: (_, { mayBeAwaited }) => policy.joins || mayBeAwaited,
    duplicate: (call, taken, options) => {
      // a model is only refused for a result that it saw, a host only for one that the model did not see
      const nothing: Duplicate = options.told && !taken.untold
        ? { _tag: "Refused", runsAgain: runsAgain(policy, call, taken, options) }
        : anew
      if (taken.running) {
        // whoever joined a call that others have overtaken would not get what holds now
        const isFresh = !taken.isOvertaken || !lifeOf(policy, call, options.rule).endsWithChange
        const may = (policy.joins && isFresh) || (taken.process !== call.process && options.awaited)
        return may && options.joinable ? joins : nothing
      }
      const { value: kept } = taken
      if (kept === undefined || !(policy.replays || options.wanted)) return nothing
      const { batch, outcome, targets } = kept
      // it was about other targets than this call was judged by
      if (options.differs(targets)) return call.tool.readOnly ? anew : nothing
      const replays: Duplicate = { _tag: "Replays", outcome }
      if (outcome._tag !== "Succeeded" || outcome.output._tag !== "Artifact") return replays
      // an artifact belongs to its batch, and neither hosts nor conditions can see what it holds
      if (batch !== call.batch) return call.tool.readOnly ? anew : nothing
      return options.told && !options.isRead ? replays : nothing
    },
    settlement: (call, outcome, { rule, stillRunning, wanted }) => {
      // a fiber that still runs keeps its key in flight
      const key = stillRunning
        ? "running"
        : outcome._tag === "Unknown" || policy.outcomes.has(outcome._tag)
        ? "keep"
        : "release"
      const { batch, targets } = call
      const value = wanted || policy.replays ? { outcome, batch, targets } : undefined
      return { key, windowMillis: lifeOf(policy, call, rule).windowMillis, value }
    }
  })
}

/** How long the key of a settled call counts. */
interface Life {
  readonly windowMillis: number
  /** It counts only for calls of its wave. */
  readonly endsWithWave: boolean
  /** It counts until another call of the principal that may change things starts or ends. */
  readonly endsWithChange: boolean
}

const lifeOf = (
  { readMillis, windowMillis }: Policy,
  { tool: { edits, idempotent, readOnly, volatile } }: GateCall,
  rule: ClaimOptions["rule"]
): Life =>
  rule === "always" ? { windowMillis, endsWithWave: false, endsWithChange: false } : {
    windowMillis: readOnly ? readMillis ?? windowMillis : windowMillis,
    endsWithWave: volatile || (readOnly && readMillis === undefined),
    endsWithChange: readOnly || idempotent || edits
  }

const runsAgain = (
  policy: Policy,
  call: GateCall,
  { running }: KeyTaken,
  options: RuleOptions
): RunsAgain => {
  if (running) return "whenEnded"
  const { endsWithChange, endsWithWave } = lifeOf(policy, call, options.rule)
  if (endsWithWave || scopeOf(policy, options) === "wave") return "nextMessage"
  return endsWithChange ? "afterChange" : "afterWindow"
}

/** A rule that equal calls never run is about more than one message. */
const scopeOf = (policy: Policy, { defaultScope, rule, scope }: RuleOptions): KeyScope | "session" => {
  const wanted = scope ?? policy.scope ?? defaultScope ?? defaults.scope
  return rule === "always" && wanted === "wave" ? defaults.scope : wanted
}

const keyOf = (
  policy: Policy,
  call: GateCall,
  options: ClaimOptions
): KeyClaim => {
  const { args, params, principal, process, tool } = call
  const { agent, anew, awaited, batch, fires, rule, session, told, wave } = options
  const scope = scopeOf(policy, options)
  const { endsWithChange, endsWithWave, windowMillis } = lifeOf(policy, call, rule)
  // without sharing, a model is only refused for a result that it saw, a host only for one that it did not see
  const unshared = told ? "told" : "none"
  return {
    _tag: "Key",
    scope: scope === "session" ? "principal" : scope,
    principal,
    batch,
    process,
    wave,
    agent,
    session: scope === "session" ? session : undefined,
    tool: tool.name,
    key: tool.canonical(params, args),
    endsWithWave,
    endsWithChange,
    untold: !told,
    settled: anew ? "none" : policy.replays ? "all" : unshared,
    running: !anew && (policy.joins || awaited) ? "all" : unshared,
    ignoreOtherProcesses: awaited || fires,
    // who reads once more after a crash does no harm
    windowMillis: tool.readOnly ? undefined : windowMillis
  }
}
