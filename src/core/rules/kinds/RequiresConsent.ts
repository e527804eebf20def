/** `RequiresConsent`: a person approves each call, whatever the policy allows. */
import * as Schema from "effect/Schema"
import type { Name } from "../../../internal/toolkitTypes.ts"
import { Approvers } from "../../vocabulary/Approvers.ts"
import * as WhoApproves from "../../vocabulary/WhoApproves.ts"
import { about, AnyTool, none, subject } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { who } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("RequiresConsent", {
  tool: AnyTool,
  scope: Schema.optionalKey(Schema.Literals(["call", "resources", "tool"])),
  approvers: Schema.optionalKey(Approvers)
}).annotate({ description: "Principal: a person approves each call, even if the policy allows it" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (
    tool: Name<this["Tools"]> | "*",
    options?: { readonly scope?: "call" | "resources" | "tool"; readonly approvers?: Approvers }
  ) => Rule
}

const sentence = ({ approvers, tool }: Rule): string =>
  `${who(tool)} runs only if a person approves it.${
    approvers === undefined ? "" : ` ${WhoApproves.words([approvers])}`
  }`

export const RequiresConsent = {
  schema,
  scope: "principal",
  make: typed<Make>((tool, options) => ({ _tag: "RequiresConsent", tool, ...options })),
  names: ({ tool }) => [subject(tool)],
  countsOn: none,
  says: (rule, tool) =>
    about(rule, tool, {
      consent: {
        remember: rule.scope ?? "tool",
        ...(rule.approvers === undefined ? {} : { approvers: [rule.approvers] })
      }
    }),
  problems: none,
  sentence,
  explain: ({ rule }) => sentence(rule),
  draw: ({ tool }, drawing) => drawing.note(tool, "asks a person")
} satisfies RuleKind<Rule>
