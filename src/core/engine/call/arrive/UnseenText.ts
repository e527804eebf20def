/** Invisible text in results and arguments: what is reported of it, and what the model gets instead. */
import * as Unseen from "../../../../internal/unseen.ts"
import * as ToolContent from "../../../vocabulary/ToolContent.ts"
import type { ParameterIssue } from "../../../vocabulary/ToolRefusal.ts"
import type { End } from "../../data/CallEnd.ts"

/** What becomes of invisible text. */
export type Mode = "show" | "remove" | "refuse"

/** Finds invisible text in what the model gets, and in the value of a tool that words its results itself. */
export const inResult = (
  value: unknown,
  text: string,
  content: ToolContent.ToolContent | undefined
): Unseen.Unseen | undefined => Unseen.find(text) ?? (content === undefined ? undefined : Unseen.findIn(value))

/** The content of a result without its invisible text. */
export const withoutInContent = (content: ToolContent.ToolContent): ToolContent.ToolContent =>
  content.map((part) => part.type === "text" ? ToolContent.text(Unseen.without(part.text)) : part)

/** What clients and the model get in place of a result, without what the invisible text spells. */
export const withheld = (tool: string, { kinds }: Unseen.Unseen): readonly [error: string, modelText: string] => [
  `the result holds invisible text: ${kinds}`,
  `"${tool}" ran, but its result is withheld: it holds invisible text (${kinds}). Any changes it made remain. ` +
  "Do not call it again with the same arguments."
]

/** Finds invisible text in the failure of a handler, and gives the end that holds instead. */
export const ofEnd = (
  end: End,
  tool: string,
  mode: Mode
): { readonly end: End; readonly unseen: Unseen.Unseen } | undefined => {
  const unseen = end._tag === "Failed" ? Unseen.find(end.modelText) ?? Unseen.findIn(end.error) : undefined
  if (end._tag !== "Failed" || unseen === undefined) return undefined
  switch (mode) {
    case "show":
      return { end, unseen }
    case "remove":
      return {
        end: { ...end, error: Unseen.withoutIn(end.error), modelText: Unseen.without(end.modelText) },
        unseen
      }
    case "refuse": {
      const [error, modelText] = withheld(tool, unseen)
      return { end: { ...end, error, modelText }, unseen }
    }
  }
}

/** What is wrong with arguments that contain invisible text, if they may not. */
export const inArguments = (args: unknown, mode: Mode): ParameterIssue | undefined => {
  const unseen = mode === "refuse" ? Unseen.findIn(args) : undefined
  return unseen === undefined
    ? undefined
    : {
      path: unseen.path,
      message: `It contains invisible text (${unseen.kinds}). Write it without these characters`
    }
}
