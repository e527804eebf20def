/**
 * What a model sees of a tool's output: texts and files such as images, in order. All loops and wire formats use it.
 *
 * Tools return it from `toModelOutput`, with the parts of `effect/ai`; MCP output is converted to it. An output that is
 * only text has no `content`.
 *
 * **Example** (A tool that gives an image)
 *
 * ```ts
 * import { Schema } from "effect"
 * import { Prompt, Tool } from "effect/ai"
 *
 * export const Screenshot = Tool.make("screenshot", {
 *   success: Schema.Struct({ title: Schema.String, png: Schema.String }),
 *   toModelOutput: ({ png, title }) => [
 *     Prompt.textPart({ text: title }),
 *     Prompt.filePart({ mediaType: "image/png", data: png })
 *   ]
 * })
 * ```
 */
import * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import * as Schema from "effect/Schema"
import { clip } from "../../internal/clip.ts"

const mediaType = /^[\w.+-]+\/[\w.+-]+$/

const Content = Schema.String.check(Schema.isBase64())

export const TextPart = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })

export const FilePart = Schema.Struct({
  type: Schema.Literal("file"),
  /** Such as `image/png`: lower case, without parameters. */
  mediaType: Schema.String.check(Schema.isPattern(mediaType)),
  /** Base64. */
  data: Content,
  fileName: Schema.optionalKey(Schema.String)
})

export const Part = Schema.Union([TextPart, FilePart])

/** A file with base64 content. */
export type FilePart = typeof FilePart.Type

/** A text or a file. */
export type Part = typeof Part.Type

/** What a model sees, in order. */
export type ToolContent = ReadonlyArray<Part>

/** Providers limit files per output. */
const maxFiles = 20

/** Creates a part that is text. */
export const text = (text: string): Part => ({ type: "text", text })

/**
 * Converts the result of a tool's `toModelOutput`. A file given as a URL, or that is not valid base64, becomes a text
 * that says so; URLs are not fetched.
 */
export const fromModelOutput = (parts: ReadonlyArray<Prompt.ToolModelOutputPart>): ToolContent =>
  parts.map((part) => part.type === "text" ? text(part.text) : fileOf(part))

/** Converts the parts to those of `effect/ai`. */
export const toModelOutput = (content: ToolContent): ReadonlyArray<Prompt.ToolModelOutputPart> =>
  content.map((part) => part.type === "text" ? Prompt.textPart({ text: part.text }) : Prompt.filePart(part))

export const isFile = (part: Part): part is FilePart => part.type === "file"

/** Image types that models accept. */
export const imageTypes = ["image/png", "image/jpeg", "image/gif", "image/webp"] as const

/** A file of certain media types. */
export type FileOf<MediaType extends string> = FilePart & { readonly mediaType: MediaType }

/** Whether a file is an image type that models accept. */
export const isImage = (file: FilePart): file is FileOf<typeof imageTypes[number]> =>
  imageTypes.some((it) => it === file.mediaType)

export const isPdf = (file: FilePart): file is FileOf<"application/pdf"> => file.mediaType === "application/pdf"

export const dataUrl = ({ data, mediaType }: FilePart): string => `data:${mediaType};base64,${data}`

/** Returns the text of all parts, with a note in place of each file. */
export const textOf = (content: ToolContent): string =>
  content.map((part) => part.type === "text" ? part.text : note(part)).join("\n")

/** The note in place of a file. */
export const note = (file: FilePart): string => `[${nameOf(file)} omitted]`

/** Separates files from text. */
export const split = (content: ToolContent): { readonly text: string; readonly files: ReadonlyArray<FilePart> } => ({
  text: textOf(content.filter((part) => !isFile(part))),
  files: content.filter(isFile)
})

/** Counts the base64 characters of all files. */
export const fileChars = (content: ToolContent | undefined): number =>
  content?.reduce((chars, part) => chars + (isFile(part) ? part.data.length : 0), 0) ?? 0

/**
 * Limits files to `maxChars` characters in total and to 20. Each other file is replaced by a note with its size.
 * Returns the same parts if all fit.
 */
export const within = (content: ToolContent, maxChars: number): ToolContent => {
  let chars = 0
  let files = 0
  const fitted = content.map((part) => {
    if (!isFile(part)) return part
    if (maxChars === Infinity || (files < maxFiles && chars + part.data.length <= maxChars)) {
      files++
      chars += part.data.length
      return part
    }
    return text(`[${nameOf(part)} of ${part.data.length} characters as base64 left out: too much to show]`)
  })
  return fitted.every((part, index) => part === content[index]) ? content : fitted
}

const nameOf = ({ fileName, mediaType }: Omit<FilePart, "type" | "data">): string =>
  fileName === undefined ? mediaType : `${mediaType} ${clip(fileName, 200)}`

const fileOf = ({ data, fileName, mediaType: type }: Prompt.FilePart): Part => {
  const file = { mediaType: typeOf(type), ...fileName === undefined ? {} : { fileName } }
  if (data instanceof Uint8Array) return { type: "file", ...file, data: Base64.encode(data) }
  const given = String(data)
  const inline = inlined.exec(given.slice(0, 200))
  if (inline === null && (data instanceof URL || /^https?:/.test(given))) {
    return text(`[${nameOf(file)} at ${clip(given, 2_000)}]`)
  }
  const content = given.slice(inline?.[0].length ?? 0).replaceAll(/[\r\n]/g, "")
  return content !== "" && isBase64(content)
    ? { type: "file", ...file, data: content }
    : text(`[${nameOf(file)} omitted: its content is not base64]`)
}

const inlined = /^data:[^,]*;base64,/

const isBase64 = Schema.is(Content)

const typeOf = (given: string): string => {
  const type = (given.slice(0, 200).toLowerCase().split(";")[0] ?? "").trim()
  return mediaType.test(type) ? type : "application/octet-stream"
}
