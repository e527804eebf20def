/**
 * What a provider is sent for a wave, as clients may see it: of what broke inside of a tool there is
 * nothing, in whichever format.
 *
 * `WireFormat.write` is for the host itself: it hands on what outcomes say, and in the native format
 * that is everything.
 */
import type * as Schema from "effect/Schema"
import * as OutcomeWire from "../core/facts/OutcomeWire.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as PlainJson from "../wire/PlainJson.ts"
import * as Projection from "../wire/Projection.ts"
import * as WireFormat from "../wire/WireFormat.ts"

/**
 * Gives the messages of outcomes. Natively they are outcomes as `ToolEvent.Wire` has them, with the
 * `text` that the model is told.
 */
export const of = (format: WireFormat.Format, outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): Schema.Json => {
  const messages: unknown = format === "native"
    ? outcomes.map((outcome) => ({ ...shown(outcome), text: ToolOutcome.text(outcome) }))
    : WireFormat.write(format, outcomes.map(withoutInternals))
  // what `JSON.stringify` takes is not yet JSON: fields may be there without a value
  return JSON.parse(JSON.stringify(messages)) as Schema.Json
}

// Utilities

const shown = Projection.make(OutcomeWire.Whole)

const withoutInternals = (outcome: ToolOutcome.ToolOutcome): ToolOutcome.ToolOutcome =>
  outcome._tag !== "Failed"
    ? outcome
    : {
      ...outcome,
      error: outcome.origin === "handler" ? PlainJson.withoutCauses(PlainJson.shown(outcome.error)) : null
    }
