/** What answers a call, in every format: a text, or blocks where a format has a place for files. */
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as Shape from "./Shape.ts"

/**
 * Gives the text that answers a call: lone surrogates are replaced, and an error is never without a text, which some
 * providers refuse.
 */
export const answer = (outcome: ToolOutcome.ToolOutcome): string => {
  const text = Shape.wellFormed(ToolOutcome.text(outcome))
  return text === "" && ToolOutcome.isError(outcome) ? "The tool failed." : text
}

/** Gives the blocks that answer a call, where a format has a place for one of its files; else the text is all. */
export const parts = <Block>(
  outcome: ToolOutcome.ToolOutcome,
  text: (text: string) => Block,
  file: (file: ToolContent.FilePart) => Block | undefined
): Array<Block> | undefined =>
  outcome._tag === "Succeeded" && outcome.output.content !== undefined
    ? blocks(outcome.output.content, text, file)
    : undefined

/**
 * The blocks of what a model is shown, for formats that accept files. `file` returns an empty list for a file that the
 * format does not accept; a text then names it.
 */
export const blocks = <Block>(
  content: ToolContent.ToolContent,
  text: (text: string) => Block,
  file: (file: ToolContent.FilePart) => Block | undefined
): Array<Block> | undefined => {
  const files = new Map(content.filter(ToolContent.isFile).map((part) => [part, file(named(part))]))
  if (!Array.from(files.values()).some((it) => it !== undefined)) return undefined
  return content.flatMap((part) => {
    if (ToolContent.isFile(part)) return [files.get(part) ?? text(Shape.wellFormed(ToolContent.note(part)))]
    // providers refuse parts without text
    return part.text === "" ? [] : [text(Shape.wellFormed(part.text))]
  })
}

const named = (file: ToolContent.FilePart): ToolContent.FilePart =>
  file.fileName === undefined ? file : { ...file, fileName: Shape.wellFormed(file.fileName) }
