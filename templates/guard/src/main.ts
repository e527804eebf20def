/** Asks the model, and asks you before money is paid: `npm start -- "your question"` */
import { once } from "node:events"
import process from "node:process"
import { createInterface } from "node:readline/promises"
import { answer } from "./answer.ts"
import { requireKey } from "./key.ts"
import { model } from "./model.ts"

requireKey()

const prompt = process.argv[2] ?? "Order 17 never arrived. Please pay it back."
console.log(`> ${prompt}`)

try {
  const { text } = await answer(model, prompt, async ({ args, tool, why }) => {
    const terminal = createInterface({ input: process.stdin, output: process.stdout })
    // the end of the input is an answer, too
    const typed = await Promise.race([
      terminal.question(`Approve ${tool} ${JSON.stringify(args)}? (${why}) [y/N] `),
      once(terminal, "close").then(() => "")
    ])
    terminal.close()
    return typed.trim().toLowerCase() === "y"
  })
  console.log(text)
} catch (error) {
  console.error(`The model gave no answer: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}
