/** Asks the model, and asks you before money is paid: `npm start -- "your question"` */
import * as TerminalApprover from "effect-tool-executor/terminal"
import process from "node:process"
import { answer } from "./answer.ts"
import { requireKey } from "./key.ts"
import { model } from "./model.ts"

requireKey()

const prompt = process.argv[2] ?? "Order 17 never arrived. Please pay it back."
console.log(`> ${prompt}`)

try {
  const { text } = await answer(model, prompt, TerminalApprover.ask)
  console.log(text)
} catch (error) {
  console.error(`The model gave no answer: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}
