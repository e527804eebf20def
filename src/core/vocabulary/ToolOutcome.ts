/**
 * The outcome of a call: a closed union of plain objects, never thrown.
 *
 * Every call gets one outcome with its id, in input order. `text` returns what the model reads; `orFail` moves an
 * outcome into the error channel.
 */
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { clip } from "../../internal/clip.ts"
import { Grant } from "./Grant.ts"
import type { ToolCall } from "./ToolCall.ts"
import * as ToolContent from "./ToolContent.ts"
import * as ToolRefusal from "./ToolRefusal.ts"

/** Reference to the full payload of a large output. */
export const ArtifactRef = Schema.Struct({
  /** Opaque id, bound to the principal that created it. */
  id: Schema.String,
  /** Length in characters. */
  chars: Schema.Finite
})

export type ArtifactRef = typeof ArtifactRef.Type

const told = {
  modelText: Schema.String,
  /** What the model sees if it is more than text. Models without file support get `modelText`. */
  content: Schema.optionalKey(Schema.Array(ToolContent.Part))
}

/** A complete output. */
export class Inline extends Schema.Opaque<Inline>()(Schema.TaggedStruct("Inline", {
  value: Schema.optionalKey(Schema.Unknown),
  ...told
})) {}

/** An output cut for the model; the host still has the value. */
export class Truncated extends Schema.Opaque<Truncated>()(Schema.TaggedStruct("Truncated", {
  value: Schema.optionalKey(Schema.Unknown),
  originalChars: Schema.Finite,
  ...told
})) {}

/** An output in the artifact store; the model sees a preview and how to read on. */
export class Artifact extends Schema.Opaque<Artifact>()(Schema.TaggedStruct("Artifact", {
  ref: ArtifactRef,
  preview: Schema.String,
  ...told
})) {}

/** Schema of an output: complete, cut, or stored. */
export const Output = Schema.Union([Inline, Truncated, Artifact])

/** The output of a call, as the host keeps it and as the model sees it. */
export type Output = Inline | Truncated | Artifact

const common = {
  callId: Schema.String,
  tool: Schema.String,
  /** Position of the call in its wave, from 0. */
  index: Schema.Finite,
  /** 1, or more after automatic retries; 0 if it never started. */
  attempt: Schema.Finite,
  /** Epoch milliseconds of the call's arrival. */
  queuedAt: Schema.Finite,
  /** Epoch milliseconds of the handler's start; absent if it never started. */
  startedAt: Schema.optionalKey(Schema.Finite),
  /** Milliseconds from start to outcome; absent if it never started. */
  duration: Schema.optionalKey(Schema.Finite),
  /** How many commits of this call completed. */
  commits: Schema.Finite
}

const continuation = {
  /** The model asked to be called again (`request_heartbeat`). */
  requestsContinuation: Schema.Boolean,
  /** A `ContinueLoop` rule names the tool. */
  hasContinueRule: Schema.Boolean
}

const unfinished = {
  /** Commits still running when the outcome was decided; they may still complete. */
  openCommits: Schema.optionalKey(Schema.Finite)
}

/** The tool ran and returned a valid output. */
export class Succeeded extends Schema.Opaque<Succeeded>()(Schema.TaggedStruct("Succeeded", {
  ...common,
  output: Output,
  ...continuation,
  /** Id of the call whose outcome was replayed or joined. */
  replayOf: Schema.optionalKey(Schema.String),
  /** The grant that allowed it. */
  grant: Schema.optionalKey(Grant)
})) {}

/** The tool failed (`handler`), its output did not encode (`result`), or it threw (`defect`). */
export class Failed extends Schema.Opaque<Failed>()(Schema.TaggedStruct("Failed", {
  ...common,
  error: Schema.Unknown,
  origin: Schema.Literals(["handler", "result", "defect"]),
  retryable: Schema.Boolean,
  modelText: Schema.String,
  ...continuation,
  replayOf: Schema.optionalKey(Schema.String)
})) {}

/** A time limit was reached; `which` names it. */
export class TimedOut extends Schema.Opaque<TimedOut>()(Schema.TaggedStruct("TimedOut", {
  ...common,
  limitMillis: Schema.Finite,
  which: Schema.Literals(["tool", "turn", "idle"]),
  retryable: Schema.Boolean,
  ...unfinished,
  replayOf: Schema.optionalKey(Schema.String)
})) {}

/** A gate refused the call, so nothing ran. */
export class Denied
  extends Schema.Opaque<Denied>()(Schema.TaggedStruct("Denied", { ...common, reason: ToolRefusal.ToolRefusal }))
{}

/** The host or a user cancelled it. */
export class Cancelled extends Schema.Opaque<Cancelled>()(Schema.TaggedStruct("Cancelled", {
  ...common,
  started: Schema.Boolean,
  reason: Schema.String,
  ...unfinished,
  replayOf: Schema.optionalKey(Schema.String)
})) {}

/** Stop mode only: an earlier call ended the wave. */
export class Skipped
  extends Schema.Opaque<Skipped>()(Schema.TaggedStruct("Skipped", { ...common, because: Schema.String }))
{}

/** It started, and its process disappeared without recording an end: its effects may or may not have happened. */
export class Unknown extends Schema.Opaque<Unknown>()(Schema.TaggedStruct("Unknown", {
  ...common,
  startedAt: Schema.Finite,
  replayOf: Schema.optionalKey(Schema.String)
})) {}

export const ToolOutcome = Schema.Union([Succeeded, Failed, TimedOut, Denied, Cancelled, Skipped, Unknown])

/** The outcome of a call. */
export type ToolOutcome = Succeeded | Failed | TimedOut | Denied | Cancelled | Skipped | Unknown

export type Tag = ToolOutcome["_tag"]

export type Of<T extends Tag> = Extract<ToolOutcome, { readonly _tag: T }>

/** A success whose encoded output type is known. */
export interface SucceededWith<A> extends Succeeded {
  readonly output: OutputOf<A>
}

/** An output whose encoded value type is known. */
export type OutputOf<A> = InlineOf<A> | TruncatedOf<A> | Artifact

export interface InlineOf<A> extends Inline {
  readonly value: A
}

export interface TruncatedOf<A> extends Truncated {
  readonly value: A
}

/**
 * The outcome of a call. For a typed call (`ToolCall.for`) the output has the tool's type. A failure stays `unknown`,
 * because it may be a defect.
 */
export type For<Call extends ToolCall> = Call extends { readonly "~tool"?: infer T }
  ? [T] extends [Tool.Any] ? SucceededWith<Tool.SuccessEncoded<T>> | Exclude<ToolOutcome, Succeeded> : ToolOutcome
  : ToolOutcome

const landed = (outcome: { readonly commits: number; readonly openCommits?: number }): string =>
  (outcome.commits === 0
    ? ""
    : ` ${outcome.commits === 1 ? "One write" : `${outcome.commits} writes`} had landed before that.`) +
  (outcome.openCommits === undefined ? "" : " A write was still under way and may land yet.") +
  (outcome.commits === 0 && outcome.openCommits === undefined ? "" : " Check the state before you repeat it.")

/** Returns the text that answers the call to the model. */
export const text = (outcome: ToolOutcome): string => {
  // names and reasons may come from a model or host
  const tool = clip(outcome.tool, 100)
  switch (outcome._tag) {
    case "Succeeded":
      return outcome.output.modelText
    case "Failed":
      return outcome.modelText
    case "TimedOut": {
      const limit = `${outcome.limitMillis / 1000} s`
      const what = outcome.which === "turn"
        ? `"${tool}" was stopped after ${limit}: the time limit of this turn was reached.`
        : outcome.which === "idle"
        ? `"${tool}" was stopped: it reported nothing for ${limit}.`
        : `"${tool}" took longer than its limit of ${limit} and was stopped.`
      const next = outcome.which === "turn"
        ? " Answer with what you have."
        : outcome.retryable
        ? " Try something smaller, or try again."
        : " Do not call it again in this turn."
      return what + landed(outcome) + next
    }
    case "Denied":
      return ToolRefusal.describe(outcome.reason, outcome.tool)
    case "Cancelled":
      return outcome.started
        ? `"${tool}" was cancelled while it ran: ${clip(outcome.reason, 1_000)}.${landed(outcome)}`
        : `"${tool}" was cancelled before it started: ${clip(outcome.reason, 1_000)}.`
    case "Skipped":
      return `"${tool}" was not run, because ${clip(outcome.because, 1_000)}.`
    case "Unknown":
      return `"${tool}" was started, but its process stopped before a result was recorded. It may or may not have happened. Check the state before you repeat it.`
  }
}

/** Whether providers see the call as an error: everything except `Succeeded`. */
export const isError = (outcome: ToolOutcome): boolean => outcome._tag !== "Succeeded"

/** The answer to one call, independent of providers. */
export const ToolMessage = Schema.Struct({
  callId: Schema.String,
  tool: Schema.String,
  text: Schema.String,
  isError: Schema.Boolean
})

export type ToolMessage = typeof ToolMessage.Type

/** Returns the answer for the model. */
export const toMessage = (outcome: ToolOutcome): ToolMessage => ({
  callId: outcome.callId,
  tool: outcome.tool,
  text: text(outcome),
  isError: isError(outcome)
})

/** The outcomes of a wave, typed if its calls are (`ToolCall.for`). */
export interface WaveResult<Calls extends ReadonlyArray<ToolCall> = ReadonlyArray<ToolCall>> {
  /** One per call, in input order. */
  readonly outcomes: { readonly [I in keyof Calls]: For<Calls[I]> }
  /**
   * Whether the agent should call the model again. Without `Heartbeats`: after every wave with a call, until the loop
   * ends.
   */
  readonly needsContinuation: boolean
  /** The loop ends: an `ExitLoop` tool succeeded, and nothing else is required first. */
  readonly shouldExit: boolean
  /** One answer per call, in input order. */
  readonly toolMessages: ReadonlyArray<ToolMessage>
  /**
   * Ids of calls that did not start and can be resumed (`ToolProcess.resume`), because the host stops or approval is
   * pending. Do not show the wave to a model before that. Absent: no such calls.
   */
  readonly suspended?: ReadonlyArray<string>
}

/** A call that did not run to its own end, for the error channel. `reason` is the tagged data of the outcome. */
export class ToolExecutionError extends Schema.TaggedError<ToolExecutionError>(
  "effect-tool-executor/ToolExecutionError"
)("ToolExecutionError", {
  callId: Schema.String,
  tool: Schema.String,
  reason: Schema.Union([
    ToolRefusal.ToolRefusal,
    Schema.TaggedStruct("TimedOut", { which: Schema.Literals(["tool", "turn", "idle"]), limitMillis: Schema.Finite }),
    Schema.TaggedStruct("Cancelled", { started: Schema.Boolean }),
    Schema.TaggedStruct("Skipped", {}),
    Schema.TaggedStruct("Unknown", { startedAt: Schema.Finite }),
    Schema.TaggedStruct("Failed", { origin: Schema.Literals(["handler", "result", "defect"]) })
  ]),
  /** What the model would read. */
  explanation: Schema.String
}) {
  override get message(): string {
    return this.explanation
  }

  /** Only the explanation, for loops that convert errors to text for the model. */
  override toString(): string {
    return this.explanation
  }
}

const errorReason = (
  outcome: Exclude<ToolOutcome, { readonly _tag: "Succeeded" }>
): ToolExecutionError["reason"] => {
  switch (outcome._tag) {
    case "Denied":
      return outcome.reason
    case "TimedOut":
      return { _tag: "TimedOut", which: outcome.which, limitMillis: outcome.limitMillis }
    case "Cancelled":
      return { _tag: "Cancelled", started: outcome.started }
    case "Skipped":
      return { _tag: "Skipped" }
    case "Unknown":
      return { _tag: "Unknown", startedAt: outcome.startedAt }
    case "Failed":
      return { _tag: "Failed", origin: outcome.origin }
  }
}

export const toError = (outcome: Exclude<ToolOutcome, { readonly _tag: "Succeeded" }>): ToolExecutionError =>
  new ToolExecutionError({
    callId: outcome.callId,
    tool: outcome.tool,
    reason: errorReason(outcome),
    explanation: text(outcome)
  })

/** Passes `Succeeded` and `Failed` through and fails with `ToolExecutionError` for every other outcome. */
export const orFail = (
  outcome: ToolOutcome
): Effect.Effect<Of<"Succeeded"> | Of<"Failed">, ToolExecutionError> =>
  outcome._tag === "Succeeded" || outcome._tag === "Failed"
    ? Effect.succeed(outcome)
    : Effect.fail(toError(outcome))
