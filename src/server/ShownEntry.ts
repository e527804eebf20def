/**
 * An entry of the journal as clients see it: names in snake case, outcomes as
 * `ToolEvent.Wire` has them.
 *
 * What works for whoever knows it stays inside: the id of a reservation, and the key under which a
 * service does a thing once. So do spans and the executor's own name, which say nothing to
 * clients.
 *
 * @since 0.1.0
 */
import * as JournalEntry from "../core/store/JournalEntry.ts"
import * as Shown from "../wire/Shown.ts"
import * as ShownOutcome from "../wire/ShownOutcome.ts"

const shown = Shown.union(JournalEntry.JournalEntry, {
  args: Shown.union(JournalEntry.KeptArguments, { value: Shown.json }),
  "Granted.grant": ShownOutcome.grant,
  idempotencyKey: undefined,
  outcome: ShownOutcome.whole,
  principal: undefined,
  reservation: undefined,
  session: undefined,
  span: undefined
})

/**
 * Gives an entry as clients see it, as plain JSON.
 *
 * @category conversions
 * @since 0.1.0
 */
export const of = (entry: JournalEntry.JournalEntry): object => shown.from(entry) as object
