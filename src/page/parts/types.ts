/** Props of the reusable parts of the page: plain values and callbacks, independent of server and app state. */
import type { ComponentChildren } from "preact"
import type { Wire } from "../../core/facts/ToolEvent.ts"
import type { ApprovalSummary } from "../../server/api/ApiApprovals.ts"
import type { Rules } from "../../server/api/ApiRecords.ts"

/** JSON, as it came. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }

/** Text that a model or a tool chose: shown as what it is, and never markup. */
export interface SafeTextProps {
  readonly text: string
  /** Keep line breaks and tabs as such, in a block; default: one line, in the flow of the text. */
  readonly block?: boolean | undefined
}

/** The arguments of a call, to be read: a long one folds, and can be opened whole. */
export interface ArgumentsProps {
  readonly value: unknown
}

/** A file before and after; `null`: it is not there. */
export interface DiffProps {
  /** Further buttons in its head. */
  readonly actions?: ComponentChildren
  readonly path: string
  readonly before: string | null
  readonly after: string | null
  /** Told once the differences are there to be seen. */
  readonly onShown?: (() => void) | undefined
}

/** What is known as a unified diff alone. */
export interface DiffTextProps {
  readonly actions?: ComponentChildren
  readonly diff: string
  readonly onShown?: (() => void) | undefined
}

/** Arguments as the form has them now: a value that fits the schema, or what does not. */
export type Edited =
  | { readonly _tag: "Fits"; readonly value: unknown }
  | { readonly _tag: "Wrong"; readonly problems: ReadonlyArray<{ readonly path: string; readonly message: string }> }

/** A form for arguments. Where the schema cannot be made into fields it is a text of JSON. */
export interface ArgsFormProps {
  readonly schema: unknown
  readonly value: unknown
  readonly onChange: (edited: Edited) => void
}

/** Calls over time, as a picture and as a table for screen readers. */
export interface TimelineProps {
  readonly events: ReadonlyArray<Wire>
  /** Epoch milliseconds, while something runs. */
  readonly now: number | undefined
  /** The call that is shown whole. */
  readonly chosen?: { readonly process: string; readonly callId: string } | undefined
  /** The address that shows a call whole. */
  readonly addressOf: (call: { readonly process: string; readonly callId: string }) => string
}

/** A call whole: its events, and the approval requests about it that wait. */
export interface CallViewProps {
  readonly events: ReadonlyArray<Wire>
  readonly approvals: ReadonlyArray<ApprovalSummary>
}

/** The rules as a graph, loaded on demand. */
export interface RuleGraphProps {
  readonly rules: typeof Rules.Type
}
