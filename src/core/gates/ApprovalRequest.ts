/** Approval requests, the answers to them, and how a request ends. `Approvals` re-exports all of it. */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { canonicalJson } from "../../internal/canonicalJson.ts"
import type { Evidence } from "../facts/Evidence.ts"
import { type Approvers, GivenApproval } from "../vocabulary/Approvers.ts"
import { validateStrict } from "../vocabulary/ConfigurationError.ts"
import * as FileChange from "../vocabulary/FileChange.ts"
import * as Grant from "../vocabulary/Grant.ts"
import type { TargetKind } from "../vocabulary/TargetKind.ts"
import type * as WhoApproves from "../vocabulary/WhoApproves.ts"
import * as Approving from "./Approving.ts"

/** A request for a person to approve a call. */
export interface ApprovalRequest {
  /** A secret: it cannot be guessed. */
  readonly id: string
  readonly principal: string
  /** Names of the sub-agents from the root down to the one that calls; empty: the root itself. */
  readonly agentPath: ReadonlyArray<string>
  /** The operation of the agent at the root, if an agent makes the call. */
  readonly operation?: string | undefined
  readonly batch: string
  readonly process: string
  readonly callId: string
  /** Place of the call in its wave. */
  readonly index: number
  readonly tool: string
  /** The revision of the tool. A grant counts only for this revision. */
  readonly revision?: string | undefined
  /** The tool's concurrency class. */
  readonly class: string
  /** The arguments that the tool will be called with. */
  readonly args: unknown
  /** What the call touches, as far as the tool says. */
  readonly targets: ReadonlyArray<{ readonly text: string; readonly kind?: TargetKind | undefined }>
  /** Why approval is needed. */
  readonly why: string
  /** What the call would write: a unified diff of at most 20,000 characters, or why a preview is missing. */
  readonly preview: Preview | undefined
  /** The call is already running and waits with its write: its arguments can no longer be edited. */
  readonly isRunning: boolean
  /** What an answer may be remembered for at most. */
  readonly remember: "call" | "resources" | "tool"
  /** What else approvers see of the call. */
  readonly evidence?: ReadonlyArray<Evidence> | undefined
  /** Approval is requested for each such call, whatever grants exist. */
  readonly isAlways?: boolean | undefined
  /** Patterns between these targets and all of the tool, for which the answer may be remembered. */
  readonly wider?: ReadonlyArray<string> | undefined
  /** Who approves: all of these must be satisfied. Without it, everybody who may answer; denying is open to all of them. */
  readonly approvers?: ReadonlyArray<Approvers> | undefined
  /** Approvals given so far, while others are still needed. */
  readonly approvals?: ReadonlyArray<GivenApproval> | undefined
  /** JSON Schema of the data that an approval must bring. */
  readonly form?: Schema.Json | undefined
  /** Epoch milliseconds at which others may answer as well. */
  readonly escalatesAt?: number | undefined
  /** Epoch milliseconds. */
  readonly requestedAt: number
  /** Epoch milliseconds at which the request expires and the call is denied, or `"unlimited"`. */
  readonly expiresAt: number | "unlimited"
}

/**
 * What a call would write: a diff, which may be cut. Inside the process `changes` has the complete files. It is not
 * enumerable, so that logs and records contain only the diff.
 */
export type Preview =
  | {
    readonly _tag: "Diff"
    readonly diff: string
    readonly changes?: ReadonlyArray<FileChange.FileChange> | undefined
  }
  | { readonly _tag: "None"; readonly because: string }

/**
 * A request before it is submitted. The driver chooses its id and deadline, unless the request has them already because
 * it was pending when a process ended.
 */
export interface NewRequest extends Omit<ApprovalRequest, "id" | "requestedAt" | "expiresAt"> {
  readonly id?: string | undefined
  readonly requestedAt?: number | undefined
  readonly expiresAt?: ApprovalRequest["expiresAt"] | undefined
}

const approval = {
  params: Schema.optionalKey(Schema.Json),
  /** The model reads it with the result. */
  note: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(2_000))),
  /** The data that the request's `form` describes. */
  data: Schema.optionalKey(Schema.Json)
}
const scope = Schema.optionalKey(
  Schema.Union([Schema.Literals(["resources", "tool"]), Schema.Struct({ pattern: Schema.String })])
)
const agents = Schema.optionalKey(Schema.Literals(["subtree", "all"]))

/**
 * Schema of an answer.
 *
 * `ApproveForDuration` (at most 365 days) and `ApproveForScope` make a grant for the exact targets of this call, or for
 * the whole tool if the call has no targets or `scope` is `"tool"`, or also for a pattern of those that the request
 * offers in `wider`. The grant counts for the calling agent and its
 * sub-agents, with `agents: "all"` for every agent of the principal. `params` are edited arguments: the call is checked
 * again with them, but the same person need not approve again, and no grant is made. `note` is a text for the model,
 * `data` what the request's `form` asks for.
 */
export const Answer = Schema.Union([
  Schema.TaggedStruct("ApproveOnce", approval),
  Schema.TaggedStruct("ApproveForDuration", { ...approval, duration: Schema.String, scope, agents }),
  Schema.TaggedStruct("ApproveForScope", { ...approval, scope, agents }),
  Schema.TaggedStruct("Deny", { reason: Schema.optionalKey(Schema.String) })
])

export type Answer = typeof Answer.Type

/**
 * Schema of how a submitted request ends.
 *
 * `Approved`: `grant` is the grant that the answer made, or the grant of another request that covers this one; `edited`
 * has the edited arguments, `note` what the approvers say to the model, `data` what they filled in, `approvals` who
 * approved where the request says who may. `Denied`: by a person (`user`), on expiry, because the service closed, or
 * without an approver. `Suspended`: the wait ended without an answer; the request stays open elsewhere and the call is
 * cancelled. `person` is the approver, if known; of several, the last one.
 */
export const Resolution = Schema.Union([
  Schema.TaggedStruct("Approved", {
    grant: Schema.UndefinedOr(Grant.Grant),
    isOwn: Schema.Boolean,
    edited: Schema.optional(Schema.Struct({ params: Schema.Unknown })),
    person: Schema.optional(Schema.String),
    note: Schema.optional(Schema.String),
    data: Schema.optional(Schema.Json),
    approvals: Schema.optional(Schema.Array(GivenApproval))
  }),
  Schema.TaggedStruct("Denied", {
    by: Schema.Literals(["user", "timeout", "closed", "noApprover"]),
    reason: Schema.optional(Schema.String),
    person: Schema.optional(Schema.String)
  }),
  Schema.TaggedStruct("Suspended", { reason: Schema.String })
])

/** How a submitted request ends. */
export type Resolution = typeof Resolution.Type

/** An approval after which others are still needed: the request stays pending with `approvals`. */
export interface Waiting {
  readonly _tag: "Waiting"
  readonly approvals: ReadonlyArray<GivenApproval>
}

/** An answer that was rejected. */
export class ApprovalError extends Schema.TaggedError<ApprovalError>("effect-tool-executor/ApprovalError")(
  "ApprovalError",
  {
    id: Schema.String,
    /**
     * `NotPending`: unknown, answered, withdrawn or expired. `NotTheSame`: the answer was to another call.
     * `NotEditable`: the call is already running. `NotAnAnswer`: malformed; `problem` says where. `NoDuration`: the
     * duration is missing or invalid. `NotNamed`: others approve; `problem` says who. `AlreadyApproved`: by the same
     * person; others are needed. `WrongData`: the form is not filled in correctly; `problem` says where.
     */
    reason: Schema.Literals([
      "NotPending",
      "NotTheSame",
      "NoDuration",
      "NotEditable",
      "NotAnAnswer",
      "NotNamed",
      "AlreadyApproved",
      "WrongData"
    ]),
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
      case "NotNamed":
        return `Others approve request ${this.id}. ${this.problem}`
      case "AlreadyApproved":
        return `Request ${this.id} was approved by you already. ${this.problem}`
      case "WrongData":
        return `The data of the answer to request ${this.id} is not valid (${this.problem}).`
      case "NoDuration":
        return `The answer to request ${this.id} needs a duration above zero and at most ${maxDays} days, such as "1 hour".`
    }
  }
}

/** What the approver saw: the tool with its arguments, or their `hash`. */
export type Shown = { readonly tool: string; readonly args: unknown } | { readonly hash: string }

/**
 * Gives the SHA-256 of a tool and its arguments, in hex. A page sends it with the answer, so that the answer counts for
 * this call only. The hash of arguments that are nested too deeply is empty, and no answer matches it.
 */
export const hash = ({ args, tool }: { readonly tool: string; readonly args: unknown }): string =>
  FileChange.hashOf(canonical([tool, args]))

/**
 * Resolves a pending request by an answer, or says why the answer is rejected. `Waiting`: others are still needed. `of`
 * is what the approver saw, `grantId` the id of the grant if the answer makes one. For drivers.
 */
export const resolve = (
  request: ApprovalRequest,
  answer: Answer,
  options: {
    readonly now: number
    readonly grantId: string
    readonly of?: Shown | undefined
    readonly person?: string | WhoApproves.Person | undefined
  }
): Result.Result<Resolution | Waiting, ApprovalError> => {
  const { id } = request
  const { now } = options
  const failed = (reason: ApprovalError["reason"], problem?: string) =>
    Result.fail(new ApprovalError({ id, reason, ...(problem === undefined ? {} : { problem }) }))
  // unchecked input of a page
  const problems = validateStrict(Answer, withoutUndefined(answer), "")
  if (problems.length > 0) {
    return failed("NotAnAnswer", problems.map((it) => `${it.path}: ${it.problem}`).join("; "))
  }
  if (options.of !== undefined && !isShown(request, options.of)) return failed("NotTheSame")
  if (answer._tag !== "Deny" && answer._tag !== "ApproveOnce" && isWider(answer.scope)) {
    const { wider = [] } = request
    if (!wider.includes(answer.scope.pattern)) {
      const offered = wider.length === 0 ? "none" : wider.map((it) => JSON.stringify(it)).join(", ")
      return failed("NotAnAnswer", `scope.pattern: it is not among those that the request offers: ${offered}`)
    }
  }
  const person = typeof options.person === "string" ? { name: options.person } : options.person
  const turn = Approving.turnOf(request, answer, person, now)
  if (turn._tag === "Refused") return failed(turn.reason, turn.problem)
  const by = person === undefined ? {} : { person: person.name }
  if (answer._tag === "Deny") return Result.succeed({ _tag: "Denied", by: "user", reason: answer.reason, ...by })
  if (request.isRunning && answer.params !== undefined) return failed("NotEditable")
  if (answer._tag === "ApproveForDuration" && millisOf(answer.duration) === undefined) return failed("NoDuration")
  const wrong = Approving.wrongData(request, answer)
  if (wrong !== undefined) return failed("WrongData", wrong)
  if (turn._tag === "Waiting") return Result.succeed(turn)
  const { approvals } = turn
  const said = approvals === undefined ? answer : Approving.strictest(approvals, millisOf)
  const millis = said._tag === "ApproveForDuration" ? millisOf(said.duration)! : Infinity
  const expiry = millis === Infinity ? {} : { expiresAt: now + millis }
  const note = Approving.noteOf(answer, approvals)
  return Result.succeed({
    _tag: "Approved",
    // edited arguments are approved for this call only
    grant: answer.params === undefined
      ? grantOf(request, said, { id: options.grantId, grantedAt: now, ...expiry })
      : undefined,
    isOwn: true,
    edited: answer.params === undefined ? undefined : { params: answer.params },
    ...by,
    ...(note === undefined ? {} : { note }),
    ...(answer.data === undefined ? {} : { data: answer.data }),
    ...(approvals === undefined ? {} : { approvals })
  })
}

const isWider = (scope: unknown): scope is { readonly pattern: string } => typeof scope === "object"

/** Longer approvals use `ApproveForScope`. */
const maxDays = 365

const withoutUndefined = (value: unknown): unknown =>
  typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).filter(([, it]) => it !== undefined))
    : value

/** Arguments that are nested too deeply to compare never match. */
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
  { agentPath, approvers, principal, remember, revision, targets, tool }: ApprovalRequest,
  answer: Approving.Lasting,
  made: Pick<Grant.Grant, "id" | "grantedAt" | "expiresAt">
): Grant.Grant | undefined => {
  if (answer._tag === "ApproveOnce" || remember === "call") return undefined
  const isWhole = targets.length === 0 || (answer.scope === "tool" && remember === "tool")
  return {
    ...made,
    principal,
    tool,
    revision,
    agentPath: answer.agents === "all" ? [] : agentPath,
    answer: answer._tag,
    ...(approvers === undefined ? {} : { approvers }),
    ...(isWhole ? {} : { targets: targets.map((it) => it.text) }),
    ...(isWhole || !isWider(answer.scope) ? {} : { patterns: [answer.scope.pattern] })
  }
}
