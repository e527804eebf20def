/**
 * Asks the person behind an MCP client, by elicitation, whether a call may run.
 *
 * Texts of models and servers are escaped and stand on marked lines, so they cannot imitate the gateway's own lines.
 */
import * as McpSchema from "effect/ai/McpSchema"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { sentence } from "../core/facts/EvidenceText.ts"
import type { Answer, ApprovalRequest, Approvals } from "../core/gates/Approvals.ts"
import { escape, escapeJson } from "../internal/escape.ts"

/**
 * Puts what is asked about calls to the clients that made them, as `putOf` says, and withdraws it where an answer is no
 * longer needed. Requests that belong to no client are left to others.
 */
export const showRequests = Effect.fnUntraced(function*(
  approvals: Approvals["Service"],
  putOf: (request: ApprovalRequest) => Effect.Effect<void> | undefined
) {
  const questions = yield* FiberMap.make<string>()
  yield* Stream.runForEach(approvals.changes, (change) => {
    if (change._tag === "Ended") return FiberMap.remove(questions, change.id)
    if (change._tag !== "Requested") return Effect.void
    const { request } = change
    const asking = putOf(request)
    return asking === undefined ? Effect.void : FiberMap.run(questions, request.id, asking)
  })
}, Effect.scoped)

/**
 * Asks the person behind a client for approval and settles the request. If the client cannot ask, the request is given
 * up, unless people can also answer elsewhere.
 */
export const put = Effect.fnUntraced(function*(
  approvals: Approvals["Service"],
  client: McpSchema.McpServerClient["Service"],
  request: ApprovalRequest,
  isElsewhere = false
): Effect.fn.Return<void> {
  const answer = isPossible(client) ? yield* ask(client, request) : Option.none()
  const isTaken = Option.isSome(answer) &&
    (yield* Effect.isSuccess(approvals.answer(request.id, answer.value, request)))
  // an answer that was not accepted is not asked for again
  if (!isTaken && !isElsewhere) yield* approvals.giveUp(request.id)
})

/** Tells whether a client can ask its person. */
export const isPossible = (
  { clientCapabilities: { elicitation } }: Pick<McpSchema.McpServerClient["Service"], "clientCapabilities">
): boolean =>
  // without a mode it is the form, as in the revisions before there were modes
  elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined)

/** Asks; `None` where the client could not. */
export const ask = (
  client: McpSchema.McpServerClient["Service"],
  request: ApprovalRequest
): Effect.Effect<Option.Option<Answer>> =>
  Effect.gen(function*() {
    const { elicit } = yield* client.getClient
    let note: string | undefined
    while (true) {
      const result = yield* elicit(new McpSchema.ElicitRequestFormParams(formFor(request, note)))
      const answer = answerTo(request, result)
      if (typeof answer !== "string") return answer
      note = answer
    }
  }).pipe(
    Effect.scoped,
    Effect.catchCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.succeedNone)
  )

/** Gives the form of a request, with something to be said first. */
export const formFor = (request: ApprovalRequest, note?: string) => ({
  mode: "form" as const,
  message: note === undefined ? describe(request) : `${note}\n\n${describe(request)}`,
  requestedSchema: formOf(request)
})

/**
 * Reads the form that a client returned: `None` if it is not an answer, a text if the form has to be shown again with
 * that text.
 */
export const answerTo = (
  request: ApprovalRequest,
  { action, content }: { readonly action?: unknown; readonly content?: unknown }
): Option.Option<Answer> | string => {
  if (action !== "accept") {
    return action === "decline" || action === "cancel" ? Option.some<Answer>({ _tag: "Deny" }) : Option.none()
  }
  const answer = answerOf(content)
  if (answer === "NotJson") return "The edited arguments are not valid JSON. Correct them, or leave them empty."
  // the form offers no more than that
  return Option.map(
    answer,
    (it) => request.remember === "call" && remembered.has(it._tag) ? { _tag: "ApproveOnce" } : it
  )
}

/** Describes a request: the tool, why it is asked, with which arguments, and what would be written. */
export const describe = (
  { agentPath, args, evidence, isRunning, preview, targets, tool, why }: ApprovalRequest
): string =>
  [
    `May ${line(tool)} ${isRunning ? "write this" : "run"}?`,
    ...agentPath.length === 0 ? [] : [`Requested by the agent: ${line(agentPath.join(" > "))}`],
    `Reason for this request: ${line(why)}`,
    ...(evidence ?? []).map((it) => line(sentence(it))),
    ...targets.slice(0, maxTargets).map(({ kind, text }) =>
      `About: ${line(text)}${kind === "protected" ? " (protected)" : ""}`
    ),
    ...targets.length <= maxTargets ? [] : [`(${targets.length - maxTargets} more targets are not shown)`],
    "Arguments:",
    ...clipped(escapeJson(json(args)), 4_000),
    ...preview === undefined
      ? []
      : preview._tag === "None"
      ? [`No diff: ${line(preview.because)}`]
      : ["Changes:", ...clipped(preview.diff, 20_000)]
  ].join("\n")

const decisions = {
  once: "approve once",
  hour: "approve for 1 hour",
  scope: "approve until this ends",
  deny: "deny"
} as const

const remembered: ReadonlySet<Answer["_tag"]> = new Set(["ApproveForDuration", "ApproveForScope"])

/** What can be said to a request, as the form of MCP has it: a list of texts. */
const formOf = ({ isRunning, remember }: ApprovalRequest) => ({
  type: "object" as const,
  properties: {
    decision: {
      type: "string" as const,
      title: "Decision",
      enum: remember === "call" ? [decisions.once, decisions.deny] : Object.values(decisions)
    },
    reason: { type: "string" as const, title: "Reason", description: "Sent to the model if you deny the call" },
    ...isRunning ? {} : {
      arguments: {
        type: "string" as const,
        title: "Edited arguments",
        description: "As JSON. The call runs once, with these arguments"
      }
    }
  },
  required: ["decision"]
})

const Content = Schema.Struct({
  decision: Schema.Literals(Object.values(decisions)),
  reason: Schema.optionalKey(Schema.String),
  arguments: Schema.optionalKey(Schema.String)
})

const parseJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Json))

const answerOf = (content: unknown): Option.Option<Answer> | "NotJson" => {
  const given = Schema.decodeUnknownOption(Content)(content)
  if (Option.isNone(given)) return Option.none()
  const { arguments: edited = "", decision, reason = "" } = given.value
  if (decision === decisions.deny) {
    return Option.some(reason.trim() === "" ? { _tag: "Deny" } : { _tag: "Deny", reason: reason.trim() })
  }
  if (edited.trim() !== "") {
    const params = parseJson(edited)
    return Option.isNone(params) ? "NotJson" : Option.some({ _tag: "ApproveOnce", params: params.value })
  }
  return Option.some(
    decision === decisions.once
      ? { _tag: "ApproveOnce" }
      : decision === decisions.hour
      ? { _tag: "ApproveForDuration", duration: "1 hour" }
      : { _tag: "ApproveForScope" }
  )
}

const json = (value: unknown): string => {
  try {
    return JSON.stringify(value, null, 2) ?? "none"
  } catch {
    return "cannot be shown"
  }
}

/** Targets of a call that are shown: more would push the rest out of sight. */
const maxTargets = 50

/** A text on one of the gateway's lines. */
const line = (text: string): string => {
  const [first, more] = cut(text, 1_000)
  return more === "" ? escape(first) : `${escape(first)} ${more}`
}

/** Marks every line, so that no line imitates the gateway's own. */
const clipped = (text: string, limit: number): ReadonlyArray<string> => {
  const [first, more] = cut(text, limit)
  const lines = first.split("\n").map((line) => `| ${escape(line)}`)
  return more === "" ? lines : [...lines, more]
}

/** What of a text is shown, and how much is not. */
const cut = (text: string, limit: number): readonly [shown: string, more: string] =>
  text.length <= limit
    ? [text, ""]
    : [text.slice(0, limit), `(${text.length - limit} more characters are not shown)`]
