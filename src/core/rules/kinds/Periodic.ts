/** `Periodic`: the executor calls a tool on a schedule. */
import * as Schema from "effect/Schema"
import { fits } from "../../../internal/json-schema/index.ts"
import type { ArgumentsOf, Name } from "../../../internal/toolkitTypes.ts"
import { about, Arguments, oneSubject, OneTool, Recurrence } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { quote } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("Periodic", {
  tool: OneTool,
  schedule: Recurrence,
  params: Schema.optionalKey(Arguments)
}).annotate({ description: "Executor: a scoped runner calls the tool with these arguments, in a separate batch" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: MakeFor<this["Tools"]>
}

type MakeFor<Tools> = <N extends Name<Tools>>(
  tool: N,
  /** A duration, or a cron expression in UTC. */
  schedule: string,
  params?: ArgumentsOf<Tools, N>
) => Rule

const sentence = ({ schedule, tool }: Rule): string =>
  `${quote(tool)} is run by the host, ${
    /\s\S+\s\S+\s/.test(schedule) ? `at "${schedule}" (UTC)` : `every ${schedule}`
  }.`

export const Periodic = {
  schema,
  scope: { none: "the executor calls the tool by itself, in a separate batch each time" },
  make: typed<Make>((tool, schedule, params) =>
    // the compiler has checked the arguments against the parameters of the tool
    ({ _tag: "Periodic", tool, schedule, ...params === undefined ? {} : { params: params as Schema.Json } }) as Rule
  ),
  names: ({ tool }) => [{ place: "tool", tool, wildcard: false }],
  countsOn: oneSubject,
  says: (rule, tool) => about(rule, tool, { fires: rule }),
  problems: ({ params = {}, tool }, { path, schemaOf }) => {
    const schema = schemaOf(tool)
    return schema === undefined || fits(schema, schema, params) ? [] : [{
      path: `${path}.params`,
      problem: `they do not match the parameters of "${tool}"`,
      expected: "the arguments it is called with"
    }]
  },
  sentence,
  // only the host calls it, so the prompt leaves it out
  sentencesIn: () => [],
  explain: ({ rule }) => sentence(rule),
  draw: ({ schedule, tool }, drawing) => drawing.note(tool, `by the host: ${schedule}`)
} satisfies RuleKind<Rule>
