/**
 * What a model is shown of a tool's output: texts and files, such as images, in their order. Every loop and every
 * format of `WireFormat` takes files from here.
 *
 * A tool says what it is by `toModelOutput`, whose parts are those of `effect/ai`; what MCP servers send comes the same
 * way. An output that is text alone has no content beside its text.
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

/** Schema of a text. */
export const TextPart = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })

/** Schema of a file. */
export const FilePart = Schema.Struct({
  type: Schema.Literal("file"),
  /** Such as `image/png`: in lower case, without parameters. */
  mediaType: Schema.String.check(Schema.isPattern(mediaType)),
  /** The content as base64. */
  data: Content,
  fileName: Schema.optionalKey(Schema.String)
})

/** Schema of a part. */
export const Part = Schema.Union([TextPart, FilePart])

/** A file, with its content as base64. */
export type FilePart = typeof FilePart.Type

/** A text or a file. */
export type Part = typeof Part.Type

/** What a model is shown, in its order. */
export type ToolContent = ReadonlyArray<Part>

/** Files that one output may have; each provider has a bound of its own. */
const maxFiles = 20

/** Creates a part that is text. */
export const text = (text: string): Part => ({ type: "text", text })

/**
 * Takes what `toModelOutput` of a tool gave.
 *
 * **Details**
 *
 * A file that is an address, or whose text is not base64, becomes a text that says so: nobody fetches it.
 */
export const fromModelOutput = (parts: ReadonlyArray<Prompt.ToolModelOutputPart>): ToolContent =>
  parts.map((part) => part.type === "text" ? text(part.text) : fileOf(part))

/** Gives the parts as `effect/ai` has them. */
export const toModelOutput = (content: ToolContent): ReadonlyArray<Prompt.ToolModelOutputPart> =>
  content.map((part) => part.type === "text" ? Prompt.textPart({ text: part.text }) : Prompt.filePart(part))

/** Tells whether a part is a file. */
export const isFile = (part: Part): part is FilePart => part.type === "file"

/** Media types of images that models can be shown. */
export const imageTypes = ["image/png", "image/jpeg", "image/gif", "image/webp"] as const

/** A file of one of some media types. */
export type FileOf<MediaType extends string> = FilePart & { readonly mediaType: MediaType }

/** Tells whether a file is an image that models can be shown. */
export const isImage = (file: FilePart): file is FileOf<typeof imageTypes[number]> =>
  imageTypes.some((it) => it === file.mediaType)

/** Tells whether a file is a PDF document. */
export const isPdf = (file: FilePart): file is FileOf<"application/pdf"> => file.mediaType === "application/pdf"

/** Gives the address that has the content of a file in it. */
export const dataUrl = ({ data, mediaType }: FilePart): string => `data:${mediaType};base64,${data}`

/** Gives the text of all parts; of a file its kind and its name, and that it is not there. */
export const textOf = (content: ToolContent): string =>
  content.map((part) => part.type === "text" ? part.text : note(part)).join("\n")

/** Says that a file is not shown. */
export const note = (file: FilePart): string => `[${nameOf(file)} omitted]`

/** Gives the files, and the text beside them. */
export const split = (content: ToolContent): { readonly text: string; readonly files: ReadonlyArray<FilePart> } => ({
  text: textOf(content.filter((part) => !isFile(part))),
  files: content.filter(isFile)
})

/** Counts the characters of all files, as base64. */
export const fileChars = (content: ToolContent | undefined): number =>
  content?.reduce((chars, part) => chars + (isFile(part) ? part.data.length : 0), 0) ?? 0

/**
 * Gives the parts with files of at most so many characters in all, and at most twenty, in their order; of any other
 * there is a text that says how large it is. The same parts where all fit.
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

// Utilities

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
