/** Your loop: `generateText` with guarded tools. */
import { generateText, isStepCount, type LanguageModel } from "ai"
import * as AiSdk from "effect-tool-executor/ai-sdk"
import { tools } from "./tools.ts"

export type Approvals = NonNullable<AiSdk.GuardOptions["approvals"]>

export const answer = async (model: LanguageModel, prompt: string, approvals: Approvals) => {
  const guarded = await AiSdk.guard(tools, {
    // what runs without approval, and what a person must approve
    policy: { allow: ["find_order"], ask: ["refund"] },
    rules: [
      { _tag: "RequiresPrecedingTools", tool: "refund", tools: ["find_order"] },
      { _tag: "MaxCalls", tool: "refund", max: 1 }
    ],
    tools: { find_order: { readOnly: true } },
    timeout: "30 seconds",
    approvals
  })
  try {
    return await generateText({ model, prompt, tools: guarded.tools, stopWhen: [isStepCount(10), guarded.isOver] })
  } finally {
    await guarded.close()
  }
}
