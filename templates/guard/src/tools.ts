/** Tools of the AI SDK, as you have them now. */
import { tool } from "ai"
import { z } from "zod"

export const tools = {
  find_order: tool({
    description: "Finds an order by its number",
    inputSchema: z.object({ number: z.string() }),
    execute: async ({ number }) => ({ number, state: "lost", cents: 4_900 })
  }),
  refund: tool({
    description: "Pays an order back",
    inputSchema: z.object({ number: z.string(), cents: z.number().int().positive() }),
    execute: async ({ cents, number }) => `Paid ${cents} cents back for order ${number}`
  })
}
