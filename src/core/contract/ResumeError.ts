/** Why calls could not be resumed. */
import * as Schema from "effect/Schema"
import { clip } from "../../internal/clip.ts"

/**
 * No call was resumed, and nothing has changed:
 *
 * - `Running`: another live process, such as another resume, works on `calls`;
 * - `Changed`: calls with these ids are open with other arguments, so it is unclear which are meant;
 * - `Unavailable`: the journal could not be read or written.
 */
export class ResumeError extends Schema.TaggedError<ResumeError>("effect-tool-executor/ResumeError")("ResumeError", {
  reason: Schema.Literals(["Running", "Changed", "Unavailable"]),
  calls: Schema.Array(Schema.String),
  cause: Schema.optionalKey(Schema.Defect())
}) {
  override get message(): string {
    const calls = clip(this.calls.join(", "), 500)
    switch (this.reason) {
      case "Running":
        return `Nothing was resumed: another process works on these calls, or did until a moment ago: ${calls}. If that process is gone, try again once its lease in the journal has expired (30 s by default)`
      case "Changed":
        return `Nothing was resumed: these calls were submitted before with other arguments and have no outcome yet: ${calls}. Submit the same calls, or others under new ids`
      case "Unavailable":
        return "Nothing was resumed: the journal could not be read or written"
    }
  }
}
