/**
 * What a person at the terminal is shown before they decide.
 *
 * Whatever a model chose stands on lines of its own, every character of it
 * visible; nothing of it can pass for a line of ours.
 *
 * @since 0.1.0
 */
import type * as Approvals from "../policy/Approvals.ts"
import { clip, escape, escapeJson } from "./escape.ts"

/**
 * How a question is shown.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly columns: number
  readonly color: boolean
  /** How many more questions wait. */
  readonly waiting: number
  /** All lines, however many. */
  readonly whole?: boolean | undefined
}

/** Lines of arguments, or of a diff, that are shown at once. */
const maxLines = 40

/**
 * Shows a request: the tool, who asks, why, about what, the arguments, the diff.
 *
 * @category formatting
 * @since 0.1.0
 */
export const show = (request: Approvals.ApprovalRequest, options: Options): string => {
  const { agentPath, args, class: kind, isRunning, preview, targets, tool, why } = request
  const more = options.waiting === 0 ? "" : ` (${options.waiting} more wait${options.waiting === 1 ? "s" : ""})`
  const style = styles(options.color)
  const one = (name: string, text: string) => {
    const [first = "", ...rest] = fit(escape(text), options.columns - 12, options)
    return [`  ${style.dim(name.padEnd(10))}${first}`, ...rest.map((it) => `  ${style.dim("|".padEnd(10))}${it}`)]
  }
  const lines = [
    "",
    `${style.bold(`? ${escape(tool)}`)} ${isRunning ? "wants to write" : "wants to run"}${more}`,
    ...agentPath.length === 0 ? [] : one("agent", agentPath.join(" > ")),
    ...one("why", why),
    ...one("class", kind),
    ...targets.slice(0, options.whole === true ? targets.length : 10).flatMap(({ kind, text }) =>
      one("about", kind === undefined ? text : `${text} (${kind === "exact" ? "to the letter" : "protected"})`)
    ),
    ...options.whole === true || targets.length <= 10 ? [] : one("", `${targets.length - 10} more`),
    ...part(argumentLines(args), "arguments", options, (line) => line),
    ...preview === undefined
      ? []
      : preview._tag === "None"
      ? one("diff", `none: ${preview.because}`)
      : part(preview.diff.replace(/\n$/, "").split("\n").map(escape), "diff", options, (line) => style.diff(line))
  ]
  return `${lines.join("\n")}\n`
}

/**
 * Shows which keys answer a request.
 *
 * @category formatting
 * @since 0.1.0
 */
export const choices = ({ isRunning, remember, targets, tool }: Approvals.ApprovalRequest): string => {
  const what = targets.length === 0 ? `every ${tool}` : targets.length === 1 ? targets[0]!.text : "all these"
  const keys = [
    "y yes, once",
    ...remember === "call"
      ? []
      : [`h for an hour: ${clip(what, 40)}`, `s until this ends: ${clip(what, 40)}`],
    "n no",
    "d no, with a reason",
    ...isRunning ? [] : ["e edit the arguments"],
    "v view all"
  ]
  return `${keys.map((key) => `[${key[0]}]${key.slice(1)}`).join("  ")} `
}

/**
 * Says what was answered.
 *
 * @category formatting
 * @since 0.1.0
 */
export const said = (answer: Approvals.Answer): string => {
  switch (answer._tag) {
    case "ApproveOnce":
      return answer.params === undefined ? "yes" : "yes, with other arguments"
    case "ApproveForDuration":
      return `yes, for ${answer.duration}`
    case "ApproveForScope":
      return "yes, until this ends"
    case "Deny":
      return answer.reason === undefined ? "no" : `no: ${escape(answer.reason)}`
  }
}

/**
 * Says that nobody has to answer any more.
 *
 * @category formatting
 * @since 0.1.0
 */
export const over = "no answer is needed any more"

/**
 * Gives arguments as one line of JSON in which every character is visible.
 *
 * @category formatting
 * @since 0.1.0
 */
export const json = (args: unknown): string => escapeJson(JSON.stringify(args) ?? "null")

// Utilities

const argumentLines = (args: unknown): ReadonlyArray<string> =>
  escapeJson(JSON.stringify(args, undefined, 2) ?? "none").split("\n")

/** Lines under a name of ours, each behind a mark of ours. */
const part = (
  lines: ReadonlyArray<string>,
  name: string,
  options: Options,
  paint: (line: string) => string
): ReadonlyArray<string> => {
  const style = styles(options.color)
  const shown = options.whole === true ? lines : lines.slice(0, maxLines)
  const fitted = shown.map((line) => fit(line, options.columns - 4, options))
  const isCut = options.whole !== true &&
    (shown.length < lines.length || fitted.some(([it], index) => it !== shown[index]))
  return [
    `  ${style.dim(name)}`,
    ...fitted.flatMap((its) => its.map((it) => `  ${style.dim("|")} ${paint(it)}`)),
    ...isCut ? [`  ${style.bold("not all is shown: v shows it")}`] : []
  ]
}

/** A line that the terminal does not break by itself: cut, or where all is to be shown in several. */
const fit = (line: string, columns: number, { whole }: Options): ReadonlyArray<string> => {
  const width = Math.max(20, columns)
  if (whole !== true) return [clip(line, width)]
  // a character takes two columns at most
  const chars = Array.from(line)
  const size = /^[ -~]*$/.test(line) ? width : Math.floor(width / 2)
  return Array.from(
    { length: Math.max(1, Math.ceil(chars.length / size)) },
    (_, index) => chars.slice(index * size, (index + 1) * size).join("")
  )
}

const styles = (color: boolean) => {
  const code = (number: number) => (text: string) => color ? `\u001b[${number}m${text}\u001b[0m` : text
  const [bold, dim, red, green] = [code(1), code(2), code(31), code(32)]
  return {
    bold,
    dim,
    diff: (line: string) => line.startsWith("+") ? green(line) : line.startsWith("-") ? red(line) : line
  }
}
