/** The tools of the agent, and what they do. */
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"

const FindOrder = Tool.make("find_order", {
  description: "Finds an order by its number",
  parameters: Schema.Struct({ number: Schema.String }),
  success: Schema.Struct({ number: Schema.String, state: Schema.String, cents: Schema.Int })
}).annotate(Tool.Readonly, true).annotate(Tool.OpenWorld, false)

const Refund = Tool.make("refund", {
  description: "Pays an order back",
  parameters: Schema.Struct({ number: Schema.String, cents: Schema.Int }),
  success: Schema.String
})

export const toolkit = Toolkit.make(FindOrder, Refund)

export const Handlers = toolkit.toLayer({
  find_order: ({ number }) => Effect.succeed({ number, state: "lost", cents: 4_900 }),
  refund: ({ cents, number }) => Effect.succeed(`Paid ${cents} cents back for order ${number}`)
})
