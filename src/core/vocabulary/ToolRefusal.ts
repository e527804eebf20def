/**
 * Why a call did not run, as tagged data, with the text for the model.
 *
 * Each text says what was wrong, what is allowed instead and whether a retry makes sense.
 */
import * as Schema from "effect/Schema"
import { clip } from "../../internal/clip.ts"
import { ToolRule } from "../rules/ToolRule.ts"

/** One problem with the arguments of a call. */
export const ParameterIssue = Schema.Struct({
  /** Path in the arguments, such as `edits[0].line`; empty for the whole. */
  path: Schema.String,
  message: Schema.String
})

export type ParameterIssue = typeof ParameterIssue.Type

/**
 * When an equal call will run: once the earlier one has ended, in the next model message, after the next call that may
 * change things (or after the window), or after the window.
 */
export const RunsAgain = Schema.Literals(["whenEnded", "nextMessage", "afterChange", "afterWindow"])

/** When an equal call will run. */
export type RunsAgain = typeof RunsAgain.Type

const reasons = [
  /** The tool does not exist; `available` lists the tools this agent may see. */
  Schema.TaggedStruct("ToolNotFound", { available: Schema.Array(Schema.String) }),
  /** The arguments are not JSON or do not match the schema. */
  Schema.TaggedStruct("InvalidParameters", { issues: Schema.Array(ParameterIssue) }),
  /** The policy denies the call; `rule` is the pattern, rule or mode responsible. */
  Schema.TaggedStruct("PolicyDenied", { rule: Schema.String }),
  /**
   * The tool failed with a failure that must not be retried, or a handler that will not stop holds what the call
   * touches.
   */
  Schema.TaggedStruct("ToolBlocked", { because: Schema.String }),
  /** The circuit breaker is open; without a time while a trial call runs. */
  Schema.TaggedStruct("CircuitOpen", { retryAfterMillis: Schema.optionalKey(Schema.Finite) }),
  /** A host guard rejected the call, failed, died or timed out. */
  Schema.TaggedStruct("GuardRejected", { guard: Schema.String, reason: Schema.String }),
  /** An equal call exists: `of` is its id, and `running` means that it has not ended. */
  Schema.TaggedStruct("DuplicateCall", {
    of: Schema.String,
    running: Schema.Boolean,
    /** How long ago it ended, in milliseconds. Absent while it runs. */
    endedMillisAgo: Schema.optionalKey(Schema.Finite),
    runsAgain: Schema.optionalKey(RunsAgain),
    /** Milliseconds until an equal call will run at the latest, if time decides it. */
    retryAfterMillis: Schema.optionalKey(Schema.Finite),
    /** Another call that may change things has started or ended since it began. */
    changedSince: Schema.optionalKey(Schema.Boolean)
  }),
  /**
   * The call was not approved. `permission` is the policy pattern that was needed, `scope` the longest approval
   * possible.
   */
  Schema.TaggedStruct("PermissionDenied", {
    by: Schema.Literals(["user", "reviewer", "timeout", "noApprover", "closed"]),
    reason: Schema.optionalKey(Schema.String),
    permission: Schema.optionalKey(Schema.String),
    scope: Schema.optionalKey(Schema.Literals(["call", "resources", "tool"]))
  }),
  /** A person or a reviewer denied the write of a running call. */
  Schema.TaggedStruct("WriteDenied", {
    by: Schema.Literals(["user", "reviewer", "policy", "timeout", "noApprover", "closed"]),
    reason: Schema.optionalKey(Schema.String)
  }),
  /**
   * The targets changed from `from` to `to` while the call waited, and the new ones are not approved; absent if they
   * could not be determined.
   */
  Schema.TaggedStruct("TargetsChanged", {
    from: Schema.optionalKey(Schema.Array(Schema.String)),
    to: Schema.optionalKey(Schema.Array(Schema.String))
  }),
  /** The turn's time limit was reached. */
  Schema.TaggedStruct("DeadlineExceeded", { limitMillis: Schema.Finite }),
  /** The turn's limit of calls was reached. */
  Schema.TaggedStruct("CallBudgetExhausted", { max: Schema.Finite }),
  /** The rate limit was reached. */
  Schema.TaggedStruct("RateLimited", { retryAfterMillis: Schema.optionalKey(Schema.Finite) }),
  /** The store of a gate, or the journal, could not be reached in time; `operation` is the failed request. */
  Schema.TaggedStruct("StoreUnavailable", { operation: Schema.String }),
  /** The tool requires a sandbox, and none is available. */
  Schema.TaggedStruct("SandboxUnavailable", { reason: Schema.String }),
  /** Sub-agents are nested too deeply. */
  Schema.TaggedStruct("DepthExceeded", { max: Schema.Finite }),
  /** The call would wait for a permit held by its own caller. */
  Schema.TaggedStruct("ReentryRefused", { waitsFor: Schema.String })
] as const

/** A rule forbids the call now. */
const RuleViolation = Schema.TaggedStruct("RuleViolation", {
  rule: ToolRule,
  sentence: Schema.String,
  remainingMillis: Schema.optionalKey(Schema.Finite)
})

/** Schema of all refusals. */
export const ToolRefusal = Schema.Union([...reasons, RuleViolation])

/** Schema of a refusal for clients. Other fields of a rule, such as arguments it fills in, stay with the host. */
export const Wire = Schema.Union([
  ...reasons,
  Schema.Struct({
    ...RuleViolation.fields,
    rule: Schema.Struct({ _tag: Schema.String, tool: Schema.optionalKey(Schema.String) })
  })
])

/** Why a call did not run. */
export type ToolRefusal = typeof ToolRefusal.Type

const list = (names: ReadonlyArray<string>): string => {
  const shown = names.slice(0, 50).map((name) => `"${name}"`).join(", ")
  return names.length > 50 ? `${shown} and ${names.length - 50} more` : shown
}

const about = (targets: ReadonlyArray<string> | undefined): string =>
  targets === undefined
    ? "something that could not be determined"
    : targets.length === 0
    ? "nothing"
    : list(targets.slice(0, 5).map((text) => clip(text, 200))) +
      (targets.length > 5 ? ` and ${targets.length - 5} more` : "")

const writeDenied = {
  user: "The user did not allow",
  reviewer: "The reviewer did not allow",
  policy: "The policy does not allow",
  timeout: "Nobody answered the request to allow",
  noApprover: "Nobody is there to allow",
  closed: "The session ended before anyone approved"
} as const

const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

const inSeconds = (millis: number): string => `${Math.max(0, Math.ceil(millis / 100) / 10)} s`

/** Returns the name of the gate that refused a call. */
export const gateOf = (refusal: ToolRefusal): string =>
  refusal._tag === "GuardRejected" ? refusal.guard : gates[refusal._tag]

const gates: { readonly [T in ToolRefusal["_tag"]]: string } = {
  ToolNotFound: "lookup",
  InvalidParameters: "parameters",
  PolicyDenied: "policy",
  ToolBlocked: "blocked tools",
  CircuitOpen: "circuit breaker",
  GuardRejected: "guards",
  DuplicateCall: "dedupe",
  RuleViolation: "rules",
  PermissionDenied: "permission",
  WriteDenied: "confirmed write",
  TargetsChanged: "policy",
  DeadlineExceeded: "turn budget",
  CallBudgetExhausted: "turn budget",
  RateLimited: "rate limit",
  StoreUnavailable: "store",
  SandboxUnavailable: "sandbox",
  DepthExceeded: "depth",
  ReentryRefused: "pools"
}

const duplicate = (
  { changedSince, endedMillisAgo, of, retryAfterMillis, running, runsAgain }: Of<"DuplicateCall">,
  tool: string
): string => {
  const same = `This call of "${tool}" was not run: it is the same as call ${clip(of, 100)}`
  if (running) return `${same}, which is still running. Wait for that result.`
  const since = changedSince === true ? " Other calls that may change things have run since." : ""
  const ended = endedMillisAgo === undefined ? "which has ended" : `which ended ${inSeconds(endedMillisAgo)} ago`
  const after = retryAfterMillis === undefined ? undefined : inSeconds(retryAfterMillis)
  const next = runsAgain === "nextMessage"
    ? " If you need it once more, call it in your next message."
    : after === undefined
    ? ""
    : runsAgain === "afterChange"
    ? ` An equal call runs again after another call that may change things, or in ${after}.`
    : ` An equal call runs again in ${after}.`
  return `${same}, ${ended}.${since} Use that result.${next}`
}

type Of<T extends ToolRefusal["_tag"]> = Extract<ToolRefusal, { readonly _tag: T }>

/** Returns the text that tells the model why its call did not run. */
export const describe = (refusal: ToolRefusal, toolName: string): string => {
  // the name is the model's text and may be huge
  const tool = clip(toolName, 100)
  switch (refusal._tag) {
    case "ToolNotFound":
      return refusal.available.length === 0
        ? `There is no tool "${tool}", and no other tool can be called. Answer without tools.`
        : `There is no tool "${tool}". Available tools: ${list(refusal.available)}. Call one of these instead.`
    case "InvalidParameters":
      return `The arguments of "${tool}" are not valid; it was not run. ${
        refusal.issues.map((it) => it.path === "" ? capitalised(it.message) : `At "${it.path}": ${it.message}`).join(
          ". "
        )
      }. Correct the arguments and call it again.`
    case "PolicyDenied":
      return `"${tool}" is not allowed here (${refusal.rule}). Do not call it again; continue without it.`
    case "ToolBlocked":
      return `"${tool}" is blocked: ${refusal.because}. Use another tool or continue without it.`
    case "CircuitOpen":
      return refusal.retryAfterMillis === undefined
        ? `"${tool}" has failed too often, and one call is trying whether it works again. Try it again later, or continue without it.`
        : `"${tool}" has failed too often and is paused for ${
          inSeconds(refusal.retryAfterMillis)
        }. Try again after that.`
    case "GuardRejected":
      return `"${tool}" was refused by ${refusal.guard}: ${clip(refusal.reason, 1_000)}`
    case "DuplicateCall":
      return duplicate(refusal, tool)
    case "RuleViolation":
      return refusal.remainingMillis === undefined
        ? refusal.sentence
        : `${refusal.sentence} Try again in ${inSeconds(refusal.remainingMillis)}.`
    case "PermissionDenied": {
      const why = refusal.reason === undefined ? "" : `: ${refusal.reason}`
      switch (refusal.by) {
        case "user":
          return `The user did not allow "${tool}"${why}. Do not repeat the call; ask what to do instead or continue without it.`
        case "reviewer":
          return `The reviewer of this session did not allow "${tool}"${why}. It was not run. Do not repeat the call or work around this; continue without it, or ask the user what to do.`
        case "timeout":
          return `Nobody answered the request to allow "${tool}"${why}. It was not run.`
        case "noApprover":
          return `"${tool}" needs approval, and there is no approver${why}. It was not run; continue without it.`
        case "closed":
          return `"${tool}" was not run: the session ended before it was approved${why}.`
      }
    }
    // the inner switch is exhaustive
    case "WriteDenied": {
      const why = refusal.reason === undefined ? "" : `: ${refusal.reason}`
      return `${
        writeDenied[refusal.by]
      } the write of "${tool}"${why}. It was stopped, and nothing of that write was written.`
    }
    case "TargetsChanged":
      return `The target of "${tool}" changed while the call waited (was ${about(refusal.from)}, now ${
        about(refusal.to)
      }), and the new target is not approved. It was not run. Check what is there now, and call it again if you still want that.`
    case "DeadlineExceeded":
      return `This turn's time limit of ${
        inSeconds(refusal.limitMillis)
      } has been reached; "${tool}" was not run. Answer with what you have.`
    case "CallBudgetExhausted":
      return `This turn's limit of ${refusal.max} tool calls has been reached; "${tool}" was not run. Answer with what you have.`
    case "RateLimited":
      return `"${tool}" was not run: there are too many such calls at the moment. ${
        refusal.retryAfterMillis === undefined
          ? "Try it again later"
          : `Try it again in ${inSeconds(refusal.retryAfterMillis)}`
      }, or continue without it.`
    case "StoreUnavailable":
      return `"${tool}" was not run: the store that keeps track of calls cannot be reached at the moment. Nothing is wrong with the call: try it again later, or continue without it.`
    case "SandboxUnavailable":
      return `"${tool}" was not run: it runs only in a sandbox, and no sandbox is available: ${
        clip(refusal.reason, 1_000)
      }. Nothing is wrong with the call; use another tool or continue without it.`
    case "DepthExceeded":
      return `Agents may be nested at most ${refusal.max} deep; "${tool}" was not run. Do the work here.`
    case "ReentryRefused":
      return `"${tool}" was called from inside a running tool and would wait for ${refusal.waitsFor}, which that tool holds. It was not run.`
  }
}
