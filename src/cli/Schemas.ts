/**
 * `tool-executor schema`: prints the JSON Schemas of the files that the other
 * commands read.
 *
 * @since 0.1.0
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Schema from "effect/Schema"
import { Scenario } from "../testing/Scenario.ts"
import { Config } from "./Config.ts"
import * as Files from "./Files.ts"

/**
 * The command.
 *
 * @category commands
 * @since 0.1.0
 */
export const command = Command.make(
  "schema",
  {
    of: Argument.Literals("FORMAT", ["config", "scenario"]).pipe(
      Argument.withDescription("Which file: the config of run, or the scenario of simulate")
    )
  },
  ({ of }) => Files.printJson(documentOf(of === "config" ? Config : Scenario))
).pipe(
  Command.withDescription("Print the JSON Schema of a file that the other commands read"),
  Command.withExamples([
    { command: "tool-executor schema config > tool-executor.schema.json", description: "Keep it for an editor" }
  ])
)

/**
 * Gives the JSON Schema of a file as one document.
 *
 * @category conversions
 * @since 0.1.0
 */
export const documentOf = (schema: Schema.Top): Record<string, unknown> => {
  const { definitions, schema: root } = Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" })
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    ...root,
    ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions })
  }
}
