/** An operation of an agent, as a scenario has it: what it is asked, and what its scripted model answers. */
import * as Schema from "effect/Schema"
import { AtLeastOne, Span, SpanOrNone } from "../core/gates/ConfigFields.ts"
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
  /** Its stream ends without a finish. */
  breaksOff: optional(Schema.Boolean),
  /** Time till it comes. */
  takes: optional(SpanOrNone),
  usage: optional(Schema.Struct({ input: optional(Tokens), output: optional(Tokens) }))
})

/** An operation of an agent. */
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
  /** What its conversation is kept under. Default: a name of its own. */
  session: optional(Schema.String),
  /** The batch that its calls count in. Default: one of its own. */
  batch: optional(Schema.String)
})

/** An operation of an agent. */
export type ScriptedAgent = typeof ScriptedAgent.Type

/** Gives an answer of the model as `ScriptedModel` takes it. */
export const turnOf = ({ breaksOff, calls, takes, ...step }: ScriptedAgent["model"][number]): ModelTurn.Turn => {
  const turn: ModelTurn.Turn = {
    ...step,
    ...calls === undefined ? {} : { calls },
    ...takes === undefined ? {} : { takes: takes as "1 second" }
  }
  // all but the last part, which is its end
  return breaksOff === true ? { ...turn, cutAfter: ModelTurn.partsOf(turn, () => "").length - 1 } : turn
}
