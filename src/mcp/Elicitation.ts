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
    const result = yield* elicit(
      new McpSchema.ElicitRequestFormParams({
        mode: "form",
        message: describe(request),
        requestedSchema: formOf(request)
      })
    )
    return result.action === "accept" ? answerOf(result.content) : Option.some<Answer>({ _tag: "Deny" })
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
const formOf = ({ remember }: ApprovalRequest) => ({
  type: "object" as const,
  properties: {
    decision: {
      type: "string" as const,
      title: "Decision",
      enum: remember === "call" ? [decisions.once, decisions.deny] : Object.values(decisions)
    },
    reason: { type: "string" as const, title: "Reason", description: "Told to the model when it is denied" }
  },
  required: ["decision"]
})

const Content = Schema.Struct({
  decision: Schema.Literals(Object.values(decisions)),
  reason: Schema.optionalKey(Schema.String)
})

const answerOf = (content: unknown): Option.Option<Answer> =>
  Option.map(Schema.decodeUnknownOption(Content)(content), ({ decision, reason = "" }): Answer => {
    switch (decision) {
      case decisions.once:
        return { _tag: "ApproveOnce" }
      case decisions.hour:
        return { _tag: "ApproveForDuration", duration: "1 hour" }
      case decisions.scope:
        return { _tag: "ApproveForScope" }
      case decisions.deny:
        return reason.trim() === "" ? { _tag: "Deny" } : { _tag: "Deny", reason: reason.trim() }
    }
  })

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
