/**
 * The vocabulary of gate 12: what is asked of people about a call, what they may
 * answer, and how a request ends. `Approvals` gives all of it again.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { canonicalJson } from "../../internal/canonicalJson.ts"
import { validateStrict } from "../vocabulary/ConfigurationError.ts"
import * as FileChange from "../vocabulary/FileChange.ts"
import * as Grant from "../vocabulary/Grant.ts"

/**
 * A question that waits for its answer.
 *
 * @category models
 * @since 0.1.0
 */
export interface ApprovalRequest {
  /** Cannot be guessed. */
  readonly id: string
  readonly principal: string
  /** Names of the sub-agents from the root down to the one that calls; empty: the root itself. */
  readonly agentPath: ReadonlyArray<string>
  readonly batch: string
  readonly process: string
  readonly callId: string
  /** Place of the call in its wave. */
  readonly index: number
  readonly tool: string
  /** What the tool says it is: an answer is remembered for no other of that name. */
  readonly revision?: string | undefined
  /** The tool's concurrency class. */
  readonly class: string
  /** The arguments that the tool will be called with. */
  readonly args: unknown
  /** What the call is about, as far as it is known. */
  readonly targets: ReadonlyArray<{ readonly text: string; readonly kind?: "exact" | "protected" | undefined }>
  /** Why it is asked. */
  readonly why: string
  /** What the call would write, where it can tell: a unified diff of at most 20,000 characters, or why there is no preview. */
  readonly preview: Preview | undefined
  /** The call is already running and waits with its write: its arguments can no longer be edited. */
  readonly isRunning: boolean
  /** What an answer may be remembered for at most. */
  readonly remember: "call" | "resources" | "tool"
  /** Epoch milliseconds. */
  readonly requestedAt: number
  /** Epoch milliseconds after which silence is a no, or `"unlimited"`: it waits however long it takes. */
  readonly expiresAt: number | "unlimited"
}

/**
 * What a call would write, as it is shown: a diff that may be cut. `changes` is all of it, where
 * whoever asks is in the same process. It is not enumerable: what prints or keeps a
 * request has the diff alone.
 *
 * @category models
 * @since 0.1.0
 */
export type Preview =
  | {
    readonly _tag: "Diff"
    readonly diff: string
    readonly changes?: ReadonlyArray<FileChange.FileChange> | undefined
  }
  | { readonly _tag: "None"; readonly because: string }

/**
 * What an executor asks. The driver chooses the id and the deadline, and it is asked now, where
 * the question does not say so itself: one that was open when a process ended brings what it had.
 *
 * @category models
 * @since 0.1.0
 */
export interface NewRequest extends Omit<ApprovalRequest, "id" | "requestedAt" | "expiresAt"> {
  readonly id?: string | undefined
  readonly requestedAt?: number | undefined
  readonly expiresAt?: ApprovalRequest["expiresAt"] | undefined
}

const params = Schema.optionalKey(Schema.Json)
const scope = Schema.optionalKey(Schema.Literals(["resources", "tool"]))
const agents = Schema.optionalKey(Schema.Literals(["subtree", "all"]))

/**
 * Schema of an answer.
 *
 * **Details**
 *
 * `ApproveForDuration` and `ApproveForScope` are remembered, for the targets of
 * this call to the letter, or for the whole tool if it never names any or `scope`
 * says so, for the agent that asked and its sub-agents, or with `agents: "all"` for
 * every agent of the principal. A duration is at most 365 days. `Deny` and silence never are. `params` are edited arguments: the call is
 * looked at anew with them, without a second question, and nothing is
 * remembered.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Answer = Schema.Union([
  Schema.TaggedStruct("ApproveOnce", { params }),
  Schema.TaggedStruct("ApproveForDuration", { params, duration: Schema.String, scope, agents }),
  Schema.TaggedStruct("ApproveForScope", { params, scope, agents }),
  Schema.TaggedStruct("Deny", { reason: Schema.optionalKey(Schema.String) })
])

/**
 * What a person says to a request.
 *
 * @category models
 * @since 0.1.0
 */
export type Answer = typeof Answer.Type

/**
 * Schema of what becomes of a request that is waited for.
 *
 * **Details**
 *
 * `Approved`: `grant` is what the answer made or, where it was given to another
 * request, what covers this one; `edited` has the edited arguments, if there are
 * any. `Denied`: by a person, by silence, because whoever could answer has gone, or
 * because nobody can be asked. `Suspended`: there is no answer yet, and waiting for
 * it is over; the question stays open elsewhere, and the call is cancelled. `person` is
 * who answered, where that is known.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Resolution = Schema.Union([
  Schema.TaggedStruct("Approved", {
    grant: Schema.UndefinedOr(Grant.Grant),
    isOwn: Schema.Boolean,
    edited: Schema.optional(Schema.Struct({ params: Schema.Unknown })),
    person: Schema.optional(Schema.String)
  }),
  Schema.TaggedStruct("Denied", {
    by: Schema.Literals(["user", "timeout", "closed", "noApprover"]),
    reason: Schema.optional(Schema.String),
    person: Schema.optional(Schema.String)
  }),
  Schema.TaggedStruct("Suspended", { reason: Schema.String })
])

/**
 * What becomes of a request that is waited for.
 *
 * @category models
 * @since 0.1.0
 */
export type Resolution = typeof Resolution.Type

/**
 * Error of an answer that changes nothing.
 *
 * @category errors
 * @since 0.1.0
 */
export class ApprovalError extends Schema.TaggedError<ApprovalError>("effect-tool-executor/ApprovalError")(
  "ApprovalError",
  {
    id: Schema.String,
    /**
     * `NotPending`: unknown, answered, withdrawn or expired. `NotTheSame`: the answer
     * was to another call. `NotEditable`: the call is already running. `NotAnAnswer`:
     * it has the wrong form; `problem` says where. `NoDuration`: it is meant to hold
     * for a while, but does not say for how long.
     */
    reason: Schema.Literals(["NotPending", "NotTheSame", "NoDuration", "NotEditable", "NotAnAnswer"]),
    problem: Schema.optionalKey(Schema.String)
  }
) {
  override get message(): string {
    switch (this.reason) {
      case "NotPending":
        return `Request ${this.id} is not pending: it is unknown, or was answered, withdrawn or has expired.`
      case "NotTheSame":
        return `Request ${this.id} is about a different tool or different arguments than the ones that were answered.`
      case "NotEditable":
        return `The call of request ${this.id} is already running, so its arguments cannot be edited. Approve or deny it.`
      case "NotAnAnswer":
        return `The answer to request ${this.id} is not valid (${this.problem}). ` +
          "Answer with ApproveOnce, ApproveForDuration, ApproveForScope or Deny."
      case "NoDuration":
        return `The answer to request ${this.id} needs a duration above zero and at most ${maxDays} days, such as "1 hour".`
    }
  }
}

/**
 * What a person was shown: the tool with its arguments, or their `hash`.
 *
 * @category models
 * @since 0.1.0
 */
export type Shown = { readonly tool: string; readonly args: unknown } | { readonly hash: string }

/**
 * Gives the SHA-256 of a tool and its arguments, in hex: what a page sends back
 * with the answer, so that it answers this call and no other. Arguments nested too
 * deeply give the empty text, and no answer with a hash fits them.
 *
 * @category getters
 * @since 0.1.0
 */
export const hash = ({ args, tool }: { readonly tool: string; readonly args: unknown }): string =>
  FileChange.hashOf(canonical([tool, args]))

/**
 * Gives what an answer makes of a request that is pending, or why it changes
 * nothing. `of` is what the person was shown; `grantId` names the permission, if
 * the answer makes one, and `person` who gave it. For drivers that keep their requests elsewhere.
 *
 * @category conversions
 * @since 0.1.0
 */
export const resolve = (
  request: ApprovalRequest,
  answer: Answer,
  options: {
    readonly now: number
    readonly grantId: string
    readonly of?: Shown | undefined
    readonly person?: string | undefined
  }
): Result.Result<Resolution, ApprovalError> => {
  const { id } = request
  const failed = (reason: ApprovalError["reason"], problem?: string) =>
    Result.fail(new ApprovalError({ id, reason, ...(problem === undefined ? {} : { problem }) }))
  // it may come from a page, as it was sent
  const problems = validateStrict(Answer, withoutUndefined(answer), "")
  if (problems.length > 0) {
    return failed("NotAnAnswer", problems.map((it) => `${it.path}: ${it.problem}`).join("; "))
  }
  if (options.of !== undefined && !isShown(request, options.of)) return failed("NotTheSame")
  const by = options.person === undefined ? {} : { person: options.person }
  if (answer._tag === "Deny") return Result.succeed({ _tag: "Denied", by: "user", reason: answer.reason, ...by })
  if (request.isRunning && answer.params !== undefined) return failed("NotEditable")
  const millis = answer._tag === "ApproveForDuration" ? millisOf(answer.duration) : Infinity
  if (millis === undefined) return failed("NoDuration")
  const expiry = millis === Infinity ? {} : { expiresAt: options.now + millis }
  const edited = answer.params === undefined ? undefined : { params: answer.params }
  const grant = grantOf(request, answer, { id: options.grantId, grantedAt: options.now, ...expiry })
  return Result.succeed({ _tag: "Approved", grant, isOwn: true, edited, ...by })
}

// Utilities

/** What is meant to hold for longer is a permission without an end, `ApproveForScope`. */
const maxDays = 365

const withoutUndefined = (value: unknown): unknown =>
  typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).filter(([, it]) => it !== undefined))
    : value

/** What is too deep to be compared is not the same. */
const isShown = (request: ApprovalRequest, of: Shown): boolean => {
  const own = hash(request)
  return own !== "" && own === ("hash" in of ? of.hash.toLowerCase() : hash(of))
}

const canonical = (value: unknown): string | undefined => {
  try {
    return canonicalJson(value)
  } catch {
    return undefined
  }
}

/** Milliseconds above zero, within the limit. */
const millisOf = (duration: string): number | undefined =>
  Duration.fromInput(duration as Duration.Input).pipe(
    Option.map(Duration.toMillis),
    Option.filter((it) => it > 0 && it <= maxDays * 86_400_000),
    Option.getOrUndefined
  )

const grantOf = (
  { agentPath, principal, remember, revision, targets, tool }: ApprovalRequest,
  answer: Exclude<Answer, { readonly _tag: "Deny" }>,
  made: Pick<Grant.Grant, "id" | "grantedAt" | "expiresAt">
): Grant.Grant | undefined => {
  // an edit holds for its call alone
  if (answer._tag === "ApproveOnce" || remember === "call" || answer.params !== undefined) return undefined
  const isWhole = targets.length === 0 || (answer.scope === "tool" && remember === "tool")
  return {
    ...made,
    principal,
    tool,
    revision,
    agentPath: answer.agents === "all" ? [] : agentPath,
    answer: answer._tag,
    ...(isWhole ? {} : { targets: targets.map((it) => it.text) })
  }
}
