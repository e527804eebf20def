/** The agent: its tools, what they may do, and its limits. */
import { Layer } from "effect"
import { LocalExecutor } from "effect-tool-executor"
import { AgentExecutor } from "effect-tool-executor/agent"
import { Handlers, toolkit } from "./tools.ts"

/** Requires a `LanguageModel`, and uses `Approvals` if there are any. */
export const Agents = AgentExecutor.layer.pipe(
  Layer.provide(LocalExecutor.layer(toolkit, {
    // what runs without approval, and what a person must approve
    policy: { allow: ["find_order"], ask: ["refund"] },
    rules: [
      { _tag: "RequiresPrecedingTools", tool: "refund", tools: ["find_order"] },
      { _tag: "MaxCalls", tool: "refund", max: 1 }
    ],
    executionTimeout: "30 seconds"
  })),
  Layer.provide(Handlers)
)

export const options = (prompt: string) => ({
  prompt,
  // people may be asked; without it, calls that need approval are denied
  mode: "Interactive",
  system: "You help customers of a shop with their orders. Find an order before you pay it back.",
  limits: { turns: 10, time: "5 minutes" }
} as const)
