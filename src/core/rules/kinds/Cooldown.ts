/** `Cooldown`: how long a tool rests after a call. */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Name } from "../../../internal/toolkitTypes.ts"
import { about, AnyTool, none, scoped, type ScopeOptions, Span, subject } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { quote, who } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("Cooldown", { tool: AnyTool, duration: Span, ...scoped })
  .annotate({
    description: "Per principal, or per scope: from the last completion; allowed again at exactly the duration"
  })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tool: Name<this["Tools"]> | "*", duration: Duration.Input, options?: ScopeOptions) => Rule
}

/** A duration as text; a wrong one is found when the set is checked. */
const textOf = (duration: Duration.Input): string =>
  Option.match(Duration.fromInput(duration), {
    onNone: () => String(duration),
    onSome: (it) => typeof duration === "string" ? duration : `${Duration.toMillis(it)} millis`
  })

export const Cooldown = {
  schema,
  scope: "principal",
  make: typed<Make>((tool, duration, options) => ({ _tag: "Cooldown", tool, duration: textOf(duration), ...options })),
  names: ({ tool }) => [subject(tool)],
  countsOn: none,
  says: (rule, tool) =>
    about(rule, tool, { cooldown: Duration.toMillis(Duration.fromInputUnsafe(rule.duration as Duration.Input)) }),
  problems: none,
  sentence: ({ duration, tool }) =>
    `${who(tool)} may be called again no sooner than ${duration} after its previous call.`,
  explain: ({ names, rule, tool }) =>
    names.length > 0
      ? `${quote(tool)} is still running, and may be called again no sooner than ${rule.duration} after that. ` +
        "Wait for its result first."
      : `${quote(tool)} may be called again no sooner than ${rule.duration} after its previous call.`,
  draw: ({ duration, tool }, drawing) => drawing.note(tool, `rests ${duration}`)
} satisfies RuleKind<Rule>
