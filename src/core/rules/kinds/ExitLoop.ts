/** `ExitLoop`: a success ends the loop. */
import * as Schema from "effect/Schema"
import type { Name } from "../../../internal/toolkitTypes.ts"
import { about, AnyTool, none, oneSubject, subject } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { whom } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("ExitLoop", { tool: AnyTool })
  .annotate({ description: "Process: a success ends the loop" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tool: Name<this["Tools"]> | "*") => Rule
}

const sentence = ({ tool }: Rule): string => `The work ends once ${whom(tool)} has succeeded.`

export const ExitLoop = {
  schema,
  scope: { none: "it ends the loop of the process in which the tool succeeds" },
  make: typed<Make>((tool) => ({ _tag: "ExitLoop", tool })),
  names: ({ tool }) => [subject(tool)],
  countsOn: oneSubject,
  says: (rule, tool) => about(rule, tool, { exits: true }),
  problems: none,
  sentence,
  explain: ({ rule }) => sentence(rule),
  draw: ({ tool }, drawing) => drawing.edge(drawing.tool(tool), "next", "ends", drawing.exit)
} satisfies RuleKind<Rule>
