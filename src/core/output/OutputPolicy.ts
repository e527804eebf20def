/**
 * How much of an output the model sees.
 *
 * Within the limit an output is untouched. Over it the full payload goes to the artifact store and the model sees a
 * preview; without a store, or with a failing one, it sees the beginning. Size never fails a call. Files, such as
 * images, have separate limits; one that is too large is named.
 */
import * as Effect from "effect/Effect"
import type { OptionReader } from "../../internal/OptionReader.ts"
import * as ToolContent from "../vocabulary/ToolContent.ts"
import type { Output } from "../vocabulary/ToolOutcome.ts"
import type { ArtifactError, ArtifactStore, Owner } from "./ArtifactStore.ts"

/** Limits of what a model sees. */
export interface Options {
  /** Characters of the model's text for one call. Default 10,000. */
  readonly maxChars?: number | "unbounded" | undefined
  /** Characters of the model's texts of one batch; then every output is cut to 500. Default 1,000,000. */
  readonly batchChars?: number | "unbounded" | undefined
  /** Characters of the files of one call, as base64; there are at most 20. Default 5,000,000. */
  readonly maxFileChars?: number | "unbounded" | undefined
  /** Characters of the files of one batch, as base64; after that, none are passed on. Default 50,000,000. */
  readonly batchFileChars?: number | "unbounded" | undefined
  /** In a preview: characters of a string. Default 3,000. */
  readonly previewString?: number | undefined
  /** In a preview: entries of a list. Default 200. */
  readonly previewList?: number | undefined
  /** In a preview: keys of an object. Default 80. */
  readonly previewKeys?: number | undefined
  /** In a preview: levels of nesting. Default 4. */
  readonly previewDepth?: number | undefined
}

/** The default limits. */
export const defaults = {
  maxChars: 10_000,
  batchChars: 1_000_000,
  maxFileChars: 5_000_000,
  batchFileChars: 50_000_000,
  previewString: 3_000,
  previewList: 200,
  previewKeys: 80,
  previewDepth: 4
} as const

/** The limits in plain numbers; `Infinity` means no limit. */
export type Bounds = { readonly [K in keyof Options]-?: number }

/** Reads limits, each at its place below `output`. */
export const read = (reader: OptionReader, options: Complete): Bounds => ({
  maxChars: reader.bound("output.maxChars", options.maxChars, 1),
  batchChars: reader.bound("output.batchChars", options.batchChars, 1),
  maxFileChars: reader.bound("output.maxFileChars", options.maxFileChars, 1),
  batchFileChars: reader.bound("output.batchFileChars", options.batchFileChars, 1),
  previewString: reader.atLeast("output.previewString", options.previewString, 0),
  previewList: reader.atLeast("output.previewList", options.previewList, 0),
  previewKeys: reader.atLeast("output.previewKeys", options.previewKeys, 0),
  previewDepth: reader.atLeast("output.previewDepth", options.previewDepth, 0)
})

/** What a model may still be shown of one output. */
export interface Room {
  /** Characters of text. */
  readonly chars: number
  /** Characters of files, as base64. */
  readonly fileChars: number
}

/** Room for anything. */
export const unbounded: Room = { chars: Infinity, fileChars: Infinity }

/** Characters that every output has, even when the batch has used up its own. */
const minimumChars = 500

/** Applies the limits to one output. */
export const make = (bounds: Bounds, store: Pick<ArtifactStore["Service"], "put"> | undefined) => {
  const { batchChars, batchFileChars, maxChars, maxFileChars } = bounds
  /** The limit of the next text, given what the batch has used. */
  const limit = (used: number): number => Math.min(maxChars, Math.max(minimumChars, batchChars - used))

  return {
    limit,

    /** What the next output may have, given what the batch has used. */
    room: (used: { readonly outputChars: number; readonly fileChars: number }): Room => ({
      chars: limit(used.outputChars),
      fileChars: Math.min(maxFileChars, Math.max(0, batchFileChars - used.fileChars))
    }),

    /** Gives the output of a value: whole within its room, else cut, with the effect that would keep it. */
    apply: (
      value: unknown,
      text: string,
      room: Room,
      from: { readonly owner: Owner; readonly readOn: string },
      /** What the tool itself shows; the preview shows the shape of the value where it is silent. */
      content?: ToolContent.ToolContent
    ): Output | readonly [truncated: Output, store: Effect.Effect<Output, ArtifactError>] => {
      const { chars } = room
      const shown = content && ToolContent.within(content, room.fileChars)
      if (text.length <= chars && shown === content) {
        return content === undefined
          ? { _tag: "Inline", value, modelText: text }
          : { _tag: "Inline", value, modelText: text, ...withFiles(content, (text) => text) }
      }
      const payload = shown === content ? text : JSON.stringify(content)
      const told = shown === undefined ? text : ToolContent.textOf(shown)
      const cutOff = (text: string) => cut(text, chars, `\n[cut: ${payload.length} characters in all]`)
      const truncated: Output = {
        _tag: "Truncated",
        value,
        originalChars: payload.length,
        modelText: cutOff(told),
        ...withFiles(shown, cutOff)
      }
      if (store === undefined) return truncated
      return [
        truncated,
        Effect.map(Effect.suspend(() => store.put(from.owner, payload)), (ref): Output => {
          const marker = `\n[preview: ${payload.length} characters in all, kept as artifact ${ref.id}. ${from.readOn}]`
          const previewOf = (text: string) => cut(text, Math.max(0, chars - marker.length), "")
          const marked = (text: string) => cut(previewOf(text) + marker, chars, "")
          const whole = shown === undefined ? previewText(value, bounds) : told
          return {
            _tag: "Artifact",
            ref,
            preview: previewOf(whole),
            modelText: marked(whole),
            ...withFiles(shown, marked)
          }
        })
      ]
    }
  }
}

/**
 * Gives the files of an output whose text was changed, after the text that accompanied them; nothing if the output has
 * no files. What was not changed keeps its order.
 */
export const withFiles = (
  content: ToolContent.ToolContent | undefined,
  change: (text: string) => string
): { readonly content?: ToolContent.ToolContent } => {
  if (content === undefined) return {}
  const { files, text } = ToolContent.split(content)
  if (files.length === 0) return {}
  const changed = change(text)
  return { content: changed === text ? content : [ToolContent.text(changed), ...files] }
}

/** Applies the limits to one output. */
export type OutputPolicy = ReturnType<typeof make>

/**
 * Gives the text of an encoded output: a string unchanged, anything else as JSON. A value that JSON cannot carry
 * throws.
 */
export const textOf = (value: unknown): string => typeof value === "string" ? value : JSON.stringify(value) ?? "Done."

/** Cuts a text so that it ends with the marker and is no longer than the limit, never inside a surrogate pair. */
export const cut = (text: string, limit: number, marker: string): string => {
  if (text.length <= limit) return text
  const room = limit - marker.length
  if (room <= 0) return marker.slice(0, Math.max(0, limit))
  const last = text.charCodeAt(room - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? room - 1 : room) + marker
}

/**
 * Gives a smaller value that shows the shape of a large one: long strings and lists cut, keys and levels bounded, each
 * with what was left out.
 */
export const compact = (value: unknown, bounds: Bounds, depth = 0): unknown => {
  if (typeof value === "string") {
    const limit = bounds.previewString
    return value.length > limit ? cut(value, limit, `… (${value.length} characters)`) : value
  }
  if (typeof value !== "object" || value === null) return value
  if (depth >= bounds.previewDepth) return Array.isArray(value) ? `[${value.length} items]` : "{…}"
  if (Array.isArray(value)) {
    const limit = bounds.previewList
    const shown = value.slice(0, limit).map((item) => compact(item, bounds, depth + 1))
    return value.length > limit ? [...shown, `… ${value.length - limit} more`] : shown
  }
  const limit = bounds.previewKeys
  const entries = Object.entries(value)
  const shown: Array<[string, unknown]> = entries.slice(0, limit).map(([key, it]) => [
    key,
    compact(it, bounds, depth + 1)
  ])
  if (entries.length > limit) shown.push(["…", `${entries.length - limit} more keys`])
  return Object.fromEntries(shown)
}

type Complete = { readonly [K in keyof Options]-?: NonNullable<Options[K]> }

const previewText = (value: unknown, bounds: Bounds): string =>
  // the whole of a long string is better cut once, at the limit
  typeof value === "string" ? value : textOf(compact(value, bounds))
