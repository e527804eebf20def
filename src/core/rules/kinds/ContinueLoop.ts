/** `ContinueLoop`: a tool needs no heartbeat. */
import * as Schema from "effect/Schema"
import type { Name } from "../../../internal/toolkitTypes.ts"
import { about, AnyTool, none, subject } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { whom } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("ContinueLoop", { tool: AnyTool })
  .annotate({ description: "Static: the tool needs no heartbeat" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tool: Name<this["Tools"]> | "*") => Rule
}

const sentence = ({ tool }: Rule): string => `After ${whom(tool)} you get another turn without asking for one.`

export const ContinueLoop = {
  schema,
  scope: { none: "it says something about every call and counts nothing" },
  make: typed<Make>((tool) => ({ _tag: "ContinueLoop", tool })),
  names: ({ tool }) => [subject(tool)],
  countsOn: none,
  says: (rule, tool) => about(rule, tool, { continues: true }),
  problems: none,
  sentence,
  explain: ({ rule }) => sentence(rule),
  // it is neither order nor limit
  draw: () => {}
} satisfies RuleKind<Rule>
