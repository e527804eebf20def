/** An agent operation of a scenario: its prompt and the scripted answers of its model. */
import * as Schema from "effect/Schema"
import { AtLeastOne, Span, SpanOrNone } from "../assembly/ConfigFields.ts"
import * as ModelTurn from "./ModelTurn.ts"

const optional = Schema.optionalKey

const Tokens = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** One answer of the model. */
const ModelStep = Schema.Struct({
  text: optional(Schema.String),
  calls: optional(Schema.Array(Schema.Struct({
    id: optional(Schema.String),
    name: Schema.String,
    params: optional(Schema.Json)
  }))),
  /** The stream ends without a finish. */
  breaksOff: optional(Schema.Boolean),
  /** Delay of the answer. */
  takes: optional(SpanOrNone),
  usage: optional(Schema.Struct({ input: optional(Tokens), output: optional(Tokens) }))
})

export const ScriptedAgent = Schema.Struct({
  prompt: Schema.String,
  model: Schema.Array(ModelStep),
  mode: optional(Schema.Literals(["Automatic", "Interactive"])),
  limits: optional(Schema.Struct({
    turns: optional(AtLeastOne),
    calls: optional(AtLeastOne),
    tokens: optional(AtLeastOne),
    time: optional(Span)
  })),
  /** The session its conversation is stored in. Default: a new one. */
  session: optional(Schema.String),
  /** The batch its calls count in. Default: a new one. */
  batch: optional(Schema.String)
})

export type ScriptedAgent = typeof ScriptedAgent.Type

/** Converts an answer for `ScriptedModel`. */
export const turnOf = ({ breaksOff, calls, takes, ...step }: ScriptedAgent["model"][number]): ModelTurn.Turn => {
  const turn: ModelTurn.Turn = {
    ...step,
    ...calls === undefined ? {} : { calls },
    ...takes === undefined ? {} : { takes: takes as "1 second" }
  }
  // all parts except the last, which is the end
  return breaksOff === true ? { ...turn, cutAfter: ModelTurn.partsOf(turn, () => "").length - 1 } : turn
}
