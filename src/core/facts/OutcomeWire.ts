/**
 * Outcomes as clients see them, in events and in records. Of a failure inside a tool, they hold only the failure that
 * the tool declares.
 */
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import * as PlainJson from "../../wire/PlainJson.ts"
import * as Projection from "../../wire/Projection.ts"
import * as ToolOutcome from "../vocabulary/ToolOutcome.ts"
import * as ToolRefusal from "../vocabulary/ToolRefusal.ts"

/** Defects and invalid outputs are only described in the host's log. */
const error = Projection.as(
  Schema.Json,
  (value, { origin }) => origin === "handler" ? PlainJson.withoutCauses(PlainJson.shown(value)) as Schema.Json : null
)

const value = Schema.optionalKey(Schema.Json)

/** The value replaces the text and content that a model gets. */
const Output = Schema.Union([
  Schema.TaggedStruct("Inline", { value }),
  Schema.TaggedStruct("Truncated", { value, originalChars: Schema.Finite }),
  Schema.Struct(Struct.omit(ToolOutcome.Artifact.fields, ["modelText", "content"]))
])

const Denied = Schema.Struct({ ...ToolOutcome.Denied.fields, reason: ToolRefusal.Wire })

const { Cancelled, Failed, Skipped, Succeeded, TimedOut, Unknown } = ToolOutcome

/** Schema of an outcome with its output. */
export const Whole = Schema.Union([
  Schema.Struct({ ...Succeeded.fields, output: Output }),
  Schema.Struct({ ...Failed.fields, error }),
  TimedOut,
  Denied,
  Cancelled,
  Skipped,
  Unknown
])

/** Schema of an outcome without its output and error, which another event has. */
export const Brief = Schema.Union([
  Schema.Struct(Struct.omit(Succeeded.fields, ["output"])),
  Schema.Struct(Struct.omit(Failed.fields, ["error", "modelText"])),
  TimedOut,
  Denied,
  Cancelled,
  Skipped,
  Unknown
])
