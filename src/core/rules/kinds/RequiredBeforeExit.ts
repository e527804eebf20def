/** `RequiredBeforeExit`: a tool succeeds before the work ends. */
import * as Schema from "effect/Schema"
import type { Name, Names } from "../../../internal/toolkitTypes.ts"
import { about, AnyTool, listed, oneSubject, subject, Tools } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { and, have, quote, who } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("RequiredBeforeExit", {
  tool: AnyTool,
  when: Schema.optionalKey(Tools),
  scope: Schema.optionalKey(Schema.Literals(["process", "batch"]))
}).annotate({ description: "Process or batch: pending until one success; with when, only once all those succeeded" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: MakeFor<this["Tools"]>
}

type MakeFor<Tools> = (
  tool: Name<Tools> | "*",
  options?: { readonly when?: Names<Tools>; readonly scope?: "process" | "batch" }
) => Rule

const sentence = ({ scope, tool, when }: Rule): string => {
  const must = `has to succeed before ${scope === "batch" ? "this request" : "the work"} may end.`
  return when === undefined
    ? `${who(tool)} ${must}`
    : `Once ${and(when)} ${have(when)} succeeded, ${tool === "*" ? "every tool" : quote(tool)} ${must}`
}

export const RequiredBeforeExit = {
  schema,
  make: typed<Make>((tool, options) => ({ _tag: "RequiredBeforeExit", tool, ...options })),
  names: (rule) => [subject(rule.tool), ...listed("when", rule.when ?? [])],
  countsOn: oneSubject,
  says: (rule, tool) => about(rule, tool, { required: { when: rule.when, inBatch: rule.scope === "batch" } }),
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
