/** `Cooldown`: how long a tool rests after a call. */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Name } from "../../../internal/toolkitTypes.ts"
import { about, AnyTool, none, Span, subject } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { quote, who } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("Cooldown", { tool: AnyTool, duration: Span })
  .annotate({ description: "Principal: from the last completion; allowed again at exactly the duration" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tool: Name<this["Tools"]> | "*", duration: Duration.Input) => Rule
}

/** A duration as text; a wrong one is found when the set is checked. */
const textOf = (duration: Duration.Input): string =>
  Option.match(Duration.fromInput(duration), {
    onNone: () => String(duration),
    onSome: (it) => typeof duration === "string" ? duration : `${Duration.toMillis(it)} millis`
  })

export const Cooldown = {
  schema,
  make: typed<Make>((tool, duration) => ({ _tag: "Cooldown", tool, duration: textOf(duration) })),
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
