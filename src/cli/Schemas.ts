/** `tool-executor schema`: prints the JSON Schemas of the files that the other commands read. */
import * as AiTool from "effect/ai/Tool"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Schema from "effect/Schema"
import { ToolRule } from "../core/rules/ToolRule.ts"
import * as ToolHandlers from "../core/vocabulary/ToolHandlers.ts"
import { Scenario } from "../testing/Scenario.ts"
import { Config, toolkit } from "./Config.ts"
import * as Files from "./Files.ts"
import { GatewayConfig } from "./gateway/GatewayConfig.ts"
import * as PolicyTiers from "./policy/PolicyTiers.ts"
import { ServeConfig } from "./serve/ServeConfig.ts"

const formats = {
  config: Config,
  gateway: GatewayConfig,
  serve: ServeConfig,
  policy: PolicyTiers.File,
  scenario: Scenario,
  rules: Schema.Array(ToolRule)
}

/** As providers take them. */
const tools = Object.values(toolkit.tools).map((tool) => ({
  name: tool.name,
  description: AiTool.getDescription(tool),
  parameters: ToolHandlers.jsonSchemaOf(tool)
}))

export const command = Command.make(
  "schema",
  {
    of: Argument.Literals("FORMAT", ["config", "gateway", "serve", "policy", "scenario", "rules", "tools"]).pipe(
      Argument.withDescription(
        "config: the config of run; gateway: that of mcp; serve: that of serve; policy: a policy of the organisation or " +
          "the user; scenario: the input of simulate; rules: an array of rules; tools: the parameters of the tools of run"
      )
    )
  },
  ({ of }) => Files.printJson(of === "tools" ? tools : documentOf(formats[of]))
).pipe(
  Command.withDescription("Print the JSON Schema of a file that the other commands read"),
  Command.withExamples([
    { command: "tool-executor schema config > tool-executor.schema.json", description: "Store it for an editor" }
  ])
)

/** Gives the JSON Schema of a file as one document. */
export const documentOf = (schema: Schema.Top): Record<string, unknown> => {
  const { definitions, schema: root } = Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" })
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    ...root,
    ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions })
  }
}
