/** A sub-agent that explores and reports: it runs only ReadOnly tools that stay inside, and never requests approval. */
import * as Schema from "effect/Schema"
import * as SubAgent from "./SubAgent.ts"

export interface Options extends
  Partial<
    Pick<
      SubAgent.Options<typeof Parameters>,
      "background" | "description" | "limits" | "model" | "system" | "toolkit"
    >
  >
{
  /** The name of the tool. Default `"dispatch_agent"`. */
  readonly name?: string | undefined
}

export const Parameters = Schema.Struct({
  prompt: Schema.NonEmptyString.annotate({
    description: "What to find out, with all the context needed"
  })
})

export const make = ({ description, name = "dispatch_agent", ...options }: Options = {}): SubAgent.SubAgent<
  string,
  typeof Parameters
> =>
  SubAgent.make(name, {
    ...options,
    description: description ?? defaultDescription,
    parameters: Parameters,
    prompt: ({ prompt }) => prompt,
    readOnly: true,
    mode: "Automatic"
  })

const defaultDescription =
  "Starts another agent that can read and search, but changes nothing, and returns its report. " +
  "It knows nothing of this conversation. Start several together for independent tasks."
