/** `RequiredBeforeExit`: a tool succeeds before the work ends. */
import * as Schema from "effect/Schema"
import type { Name, Names } from "../../../internal/toolkitTypes.ts"
import { about, AnyTool, listed, oneSubject, scoped, type ScopeOptions, subject, Tools } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { and, have, quote, who } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("RequiredBeforeExit", {
  tool: AnyTool,
  when: Schema.optionalKey(Tools),
  ...scoped
}).annotate({ description: "Per process: pending until one success; with when, only once all those succeeded" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: MakeFor<this["Tools"]>
}

type MakeFor<Tools> = (
  tool: Name<Tools> | "*",
  options?: ScopeOptions & { readonly when?: Names<Tools> }
) => Rule

const sentence = ({ tool, when }: Rule): string => {
  const must = "has to succeed before the work may end."
  return when === undefined
    ? `${who(tool)} ${must}`
    : `Once ${and(when)} ${have(when)} succeeded, ${tool === "*" ? "every tool" : quote(tool)} ${must}`
}

export const RequiredBeforeExit = {
  schema,
  scope: "process",
  make: typed<Make>((tool, options) => ({ _tag: "RequiredBeforeExit", tool, ...options })),
  names: (rule) => [subject(rule.tool), ...listed("when", rule.when ?? [])],
  countsOn: oneSubject,
  says: (rule, tool) => about(rule, tool, { required: { when: rule.when } }),
  problems: ({ tool, when }, { path }) =>
    when?.includes(tool) === true
      ? [{ path: `${path}.when`, problem: `it waits for "${tool}" itself, so it never holds`, expected: "other tools" }]
      : [],
  sentence,
  explain: ({ rule }) => sentence(rule),
  draw: (rule, drawing) => {
    for (const tool of rule.when ?? []) {
      drawing.edge(drawing.tool(tool), "needs", "demands", drawing.tool(rule.tool))
    }
    drawing.edge(drawing.tool(rule.tool), "needs", "required", drawing.exit)
  }
} satisfies RuleKind<Rule>
