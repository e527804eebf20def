/**
 * Messages for a provider, as clients may see them: without details of errors inside tools.
 *
 * `WireFormat.write` is for the host itself, and in the native format has everything.
 */
import type * as Schema from "effect/Schema"
import * as OutcomeWire from "../../core/facts/OutcomeWire.ts"
import * as ToolOutcome from "../../core/vocabulary/ToolOutcome.ts"
import * as PlainJson from "../../wire/PlainJson.ts"
import * as Projection from "../../wire/Projection.ts"
import * as WireFormat from "../../wire/WireFormat.ts"

/** Writes the messages of outcomes. Native ones are outcomes as in `ToolEvent.Wire`, with the `text` for the model. */
export const of = (format: WireFormat.Format, outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): Schema.Json => {
  const messages: unknown = format === "native"
    ? outcomes.map((outcome) => ({ ...shown(outcome), text: ToolOutcome.text(outcome) }))
    : WireFormat.write(format, outcomes.map(withoutInternals))
  // removes fields whose value is undefined
  return JSON.parse(JSON.stringify(messages)) as Schema.Json
}

const shown = Projection.make(OutcomeWire.Whole)

const withoutInternals = (outcome: ToolOutcome.ToolOutcome): ToolOutcome.ToolOutcome =>
  outcome._tag !== "Failed"
    ? outcome
    : {
      ...outcome,
      error: outcome.origin === "handler" ? PlainJson.withoutCauses(PlainJson.shown(outcome.error)) : null
    }
