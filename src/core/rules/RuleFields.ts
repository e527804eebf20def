/** Fields that rules of several kinds have: their schemas, and the tools in them. */
import * as Cron from "effect/Cron"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isPath } from "../../internal/valuePath.ts"
import type { NamedTool, Says, Scope } from "./RuleKind.ts"

/** Where a rule counts, for kinds that let a rule choose. */
export const scoped = {
  scope: Schema.optionalKey(
    Schema.Literals(["process", "batch", "session"]).annotate({
      description: "Where the rule counts: one pass of an agent, one user request, or one conversation"
    })
  )
}

/** The options of a constructor for rules that choose their scope. */
export interface ScopeOptions {
  /** Where the rule counts: in one process, one batch (a user request) or one session (a conversation). */
  readonly scope?: Scope
}

/** A tool, or each tool. */
export const AnyTool = Schema.NonEmptyString.annotate({ description: "A tool's name, or * for each tool separately" })

export const OneTool = Schema.NonEmptyString.annotate({ description: "A tool's name" })

/** A list of tools. */
export const Tools = Schema.NonEmptyArray(Schema.NonEmptyString)

/** How often. */
export const Count = Schema.Int.check(
  Schema.isGreaterThanOrEqualTo(0, { expected: "a whole number of 0 or more" })
)

const isSpan = (text: string): boolean =>
  Option.exists(Duration.fromInput(text as Duration.Input), (it) => Duration.isFinite(it) && Duration.toMillis(it) > 0)

/** Tells whether a cron expression ever comes; 30 February does not. */
const isCron = (text: string): boolean =>
  Result.match(Cron.parse(text, "UTC"), {
    onFailure: () => false,
    onSuccess: (cron) => {
      try {
        return Cron.next(cron, 0).getTime() > 0
      } catch {
        return false
      }
    }
  })

/** A duration above zero. */
export const Span = Schema.String.check(
  Schema.makeFilter(isSpan, { expected: "a duration above zero, such as \"30 seconds\" or \"5 minutes\"" })
).annotate({ description: "A duration such as \"30 seconds\" or \"5 minutes\"" })

/** A duration above zero, or a cron expression. */
export const Recurrence = Schema.String.check(
  Schema.makeFilter((text) => isSpan(text) || isCron(text), {
    expected: "a duration such as \"5 minutes\", or a cron expression such as \"0 6 * * *\" (UTC)"
  })
).annotate({ description: "A duration such as \"5 minutes\", or a cron expression in UTC such as \"0 6 * * *\"" })

/** A path into an output. */
export const ValuePath = Schema.String.check(
  Schema.makeFilter(isPath, { expected: "a path such as \"status\" or \"rows[0].kind\"; empty for the whole output" })
).annotate({ description: "Path inside the output, such as \"status\" or \"rows[0].kind\"; empty for the whole" })

/** Arguments by name. */
export const Arguments = Schema.Record(Schema.String, Schema.Json)

/** Names the subject of a rule, which may be `*`. */
export const subject = (tool: string): NamedTool => ({ place: "tool", tool, wildcard: true })

/** Names one tool, which may not be `*`. */
export const named = (place: string, tool: string): NamedTool => ({ place, tool, wildcard: false })

export const listed = (key: string, tools: ReadonlyArray<string>): ReadonlyArray<NamedTool> =>
  tools.map((tool, index) => named(`${key}[${index}]`, tool))

/** Gives what a rule says where its subject is the tool, and nothing about others. */
export const about = (rule: { readonly tool: string }, tool: string, says: Says): Says =>
  concerns(rule.tool, tool) ? says : nothing

/** Tells whether a subject, which may be `*`, is a tool. */
export const concerns = (subject: string, tool: string): boolean => subject === "*" || subject === tool

const nothing: Says = {}

/** For rules that count on no tool or need no further check. */
export const none = (): ReadonlyArray<never> => []

/** The subject of a rule, where the rule counts on it. */
export const oneSubject = ({ tool }: { readonly tool: string }): ReadonlyArray<NamedTool> =>
  tool === "*" ? [] : [subject(tool)]
