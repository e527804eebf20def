/** `NeverDedupe`: an equal call is never a duplicate. */
import * as Schema from "effect/Schema"
import type { Name } from "../../../internal/toolkitTypes.ts"
import { contradiction } from "../RuleChecks.ts"
import { about, AnyTool, none, subject } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { who } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("NeverDedupe", { tool: AnyTool })
  .annotate({ description: "Static: an equal call is never a duplicate" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tool: Name<this["Tools"]> | "*") => Rule
}

const sentence = ({ tool }: Rule): string => `${who(tool)} may be repeated with the same arguments.`

export const NeverDedupe = {
  schema,
  scope: { none: "an equal call is never a duplicate, however far duplicates are looked for" },
  make: typed<Make>((tool) => ({ _tag: "NeverDedupe", tool })),
  names: ({ tool }) => [subject(tool)],
  countsOn: none,
  says: (rule, tool) => about(rule, tool, { dedupe: "never" }),
  problems: (rule, at) => contradiction(rule, "AlwaysDedupe", at),
  sentence,
  explain: ({ rule }) => sentence(rule),
  // it is neither order nor limit
  draw: () => {}
} satisfies RuleKind<Rule>
