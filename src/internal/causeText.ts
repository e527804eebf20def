/** What a cause says, for records. It may hold anything, such as what throws when it is looked at. */
import * as Cause from "effect/Cause"

/** The text of a cause, also if it is empty. */
export const causeText = (cause: Cause.Cause<unknown>): string => {
  try {
    return Cause.pretty(cause)
  } catch {
    return "a defect that has no text"
  }
}
