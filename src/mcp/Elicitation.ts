/**
 * Asks the person behind an MCP client, by elicitation, whether a call may run.
 *
 * What a model or a server chose is escaped, on lines of its own; nothing of it
 * can pass for a line of ours.
 *
 * @since 0.1.0
 */
import * as McpSchema from "effect/ai/McpSchema"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { escape, escapeJson } from "../internal/escape.ts"
import type { Answer, ApprovalRequest } from "../policy/Approvals.ts"

/**
 * Tells whether a client can ask its person.
 *
 * @category predicates
 * @since 0.1.0
 */
export const isPossible = ({ clientCapabilities: { elicitation } }: McpSchema.McpServerClient["Service"]): boolean =>
  // without a mode it is the form, as in the revisions before there were modes
  elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined)

/**
 * Asks; `None` where the client could not.
 *
 * @category asking
 * @since 0.1.0
 */
export const ask = (
  client: McpSchema.McpServerClient["Service"],
  request: ApprovalRequest
): Effect.Effect<Option.Option<Answer>> =>
  Effect.gen(function*() {
    const { elicit } = yield* client.getClient
    let message = describe(request)
    while (true) {
      const form = { mode: "form" as const, message, requestedSchema: formOf(request) }
      const result = yield* elicit(new McpSchema.ElicitRequestFormParams(form))
      if (result.action !== "accept") return Option.some<Answer>({ _tag: "Deny" })
      const answer = answerOf(result.content)
      if (answer !== "NotJson") return answer
      message = `The other arguments are not JSON. Mend them, or leave them empty.\n\n${describe(request)}`
    }
  }).pipe(
    Effect.scoped,
    Effect.catchCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.succeedNone)
  )

/**
 * Describes a request: the tool, why it is asked, with which arguments, and what
 * would be written.
 *
 * @category formatting
 * @since 0.1.0
 */
export const describe = ({ agentPath, args, isRunning, preview, targets, tool, why }: ApprovalRequest): string =>
  [
    `May ${escape(tool)} ${isRunning ? "write this" : "run"}?`,
    ...agentPath.length === 0 ? [] : [`Asked by the agent: ${escape(agentPath.join(" > "))}`],
    `Why it is asked: ${escape(why)}`,
    ...targets.map(({ kind, text }) => `About: ${escape(text)}${kind === "protected" ? " (protected)" : ""}`),
    "Arguments:",
    ...clipped(escapeJson(json(args)), 4_000),
    ...preview === undefined
      ? []
      : preview._tag === "None"
      ? [`No diff: ${escape(preview.because)}`]
      : ["Changes:", ...clipped(preview.diff.split("\n").map(escape).join("\n"), 20_000)]
  ].join("\n")

// Utilities

const decisions = {
  once: "allow once",
  hour: "allow for an hour",
  scope: "allow until this ends",
  deny: "deny"
} as const

/** What can be said to a request, as the form of MCP has it: a list of texts. */
const formOf = ({ isRunning, remember }: ApprovalRequest) => ({
  type: "object" as const,
  properties: {
    decision: {
      type: "string" as const,
      title: "Decision",
      enum: remember === "call" ? [decisions.once, decisions.deny] : Object.values(decisions)
    },
    reason: { type: "string" as const, title: "Reason", description: "Told to the model when it is denied" },
    ...isRunning ? {} : {
      arguments: {
        type: "string" as const,
        title: "Other arguments",
        description: "As JSON: the call runs once, with these instead"
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

/** Every line stands behind a mark, so that none is taken for one of ours. */
const clipped = (text: string, limit: number): ReadonlyArray<string> => {
  const lines = text.slice(0, limit).split("\n").map((line) => `| ${line}`)
  return text.length <= limit ? lines : [...lines, `(${text.length - limit} more characters are not shown)`]
}
