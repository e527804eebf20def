/**
 * What the parts of the page are given: plain values and callbacks. They know of no server and
 * keep no state of the app.
 *
 * @since 0.1.0
 */
import type { WaveInfo } from "../../server/ApiModels.ts"
import type { Part, Preview, Question } from "../../server/ApiQuestions.ts"
import type { Rules } from "../../server/ApiRecords.ts"
import type { Wire } from "../../ToolEvent.ts"

/** JSON, as it came. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }

/** Text that a model or a tool chose: shown as what it is, and never markup. */
export interface SafeTextProps {
  readonly text: string
  /** Keep line breaks and tabs as such, in a block; default: one line, in the flow of the text. */
  readonly lines?: boolean | undefined
}

/** The arguments of a call, to be read: a long one folds, and can be opened whole. */
export interface ArgumentsProps {
  readonly value: Json
}

/** Reads a part of a file's text from a character on. */
export type LoadPart = (index: number, side: "before" | "after", from: number) => Promise<typeof Part.Type>

/** What a call would write. */
export interface PreviewProps {
  readonly preview: Preview
  readonly load: LoadPart
  /** Told whenever it changes whether all there is to see has been loaded; a "yes" waits for it. */
  readonly onLoaded: (isWhole: boolean) => void
}

/** Arguments as the form has them now: a value that fits the schema, or what does not. */
export type Edited =
  | { readonly _tag: "Fits"; readonly value: Json }
  | { readonly _tag: "Wrong"; readonly problems: ReadonlyArray<{ readonly path: string; readonly problem: string }> }

/** A form for arguments. Where the schema cannot be made into fields it is a text of JSON. */
export interface ArgumentsFormProps {
  readonly value: Question["args"]
  readonly parameters: Question["parameters"]
  readonly onEdited: (edited: Edited) => void
}

/** A wave and its events, in their order. */
export interface WaveView extends WaveInfo {
  readonly events: ReadonlyArray<Wire>
}

/** Waves as they run, as a picture with a table beside it for those who cannot see it. */
export interface TimelineProps {
  readonly wave: WaveView
  /** Epoch milliseconds; goes on while the wave runs. */
  readonly now: number
  /** Somebody wants to see that call whole. */
  readonly onCall: (callId: string) => void
}

/** The rules as a graph. It comes in a file of its own, when it is looked at. */
export interface RuleGraphProps {
  readonly rules: typeof Rules.Type
}
