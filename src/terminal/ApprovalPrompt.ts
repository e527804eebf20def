/**
 * What a person at the terminal is shown before they decide.
 *
 * Texts of a model stand on marked lines with every character visible, so they cannot imitate lines of the prompt.
 */
import * as CliOutput from "effect/cli/CliOutput"
import { sentence } from "../core/facts/EvidenceText.ts"
import type * as Approvals from "../core/gates/Approvals.ts"
import type { TargetKind } from "../core/vocabulary/TargetKind.ts"
import * as WhoApproves from "../core/vocabulary/WhoApproves.ts"
import { escape, escapeJson } from "../internal/escape.ts"
import { clip } from "./clip.ts"

/** How an approval request is shown. */
export interface Options {
  readonly columns: number
  readonly rows: number
  readonly color: boolean
  /** Number of other pending requests. */
  readonly waiting: number
  /** All lines, however many. */
  readonly whole?: boolean | undefined
}

/** Maximum number of lines shown of a short text or a target. */
const maxTextLines = 4

/** Shows a request: the tool, who asks, why, about what, the arguments, the diff. */
export const show = (request: Approvals.ApprovalRequest, options: Options): string => {
  const { agentPath, args, class: kind, isRunning, preview, targets, tool, why } = request
  const style = styles(options.color)
  const one = (name: string, text: string) =>
    part(escape(text), name, { ...options, columns: options.columns - 8 }, maxTextLines, (line) => line, true)
  const lines = [
    "",
    `${style.bold(`? ${clip(tool, Math.max(8, options.columns - 18))}`)} ${
      !isRunning
        ? "wants to run"
        : targets.some(({ kind }) => kind === "host")
        ? "wants to reach a host"
        : "wants to write"
    }`,
    ...options.waiting === 0 ? [] : one("pending", `${options.waiting} more`),
    ...agentPath.length === 0 ? [] : one("agent", agentPath.join(" > ")),
    ...one("why", why),
    ...(request.evidence ?? []).flatMap((it) => one("because", sentence(it))),
    ...request.approvers === undefined ? [] : one("who", whoOf(request)),
    ...request.form === undefined ? [] : one("form", json(request.form)),
    ...one("kind", kind === "ReadOnly" ? "changes nothing" : "changes things"),
    ...targets.slice(0, options.whole === true ? targets.length : 10).flatMap(({ kind, text }) =>
      one("target", kind === undefined ? text : `${text} (${kinds[kind]})`)
    ),
    ...options.whole === true || targets.length <= 10 ? [] : one("", `${targets.length - 10} more: v shows them`),
    ...part(argumentText(args), "arguments", options, maxLines(options), (line) => line),
    ...preview === undefined
      ? []
      : preview._tag === "None"
      ? one("diff", `none: ${preview.because}`)
      : part(
        preview.diff.replace(/\n$/, "").split("\n").map(escape).join("\n"),
        "diff",
        options,
        maxLines(options),
        (line) => style.diff(line)
      )
  ]
  return `${lines.join("\n")}\n`
}

const kinds: { readonly [K in TargetKind]: string } = {
  exact: "exact match only",
  protected: "protected",
  always: "asked about each time",
  host: "a host"
}

/** Shows which keys answer a request. */
export const choices = (
  { isRunning, remember, targets, tool, wider = [] }: Approvals.ApprovalRequest,
  columns: number
): string => {
  const what = targets.length === 0 ? `every ${tool}` : targets.length === 1 ? targets[0]!.text : "all these"
  const about = clip(what, Math.max(10, columns - 32))
  const keys = [
    "[y] approve once",
    ...remember === "call" ? [] : [`[h] approve for 1 hour: ${about}`, `[s] approve until this ends: ${about}`],
    ...wider.map((it, index) => `[${index + 1}] approve until this ends: ${clip(it, Math.max(10, columns - 32))}`),
    "[n] deny",
    "[d] deny with a reason",
    ...isRunning ? [] : ["[e] edit the arguments"],
    "[v] view all"
  ]
  // wrap before the terminal does
  const lines = keys.reduce<ReadonlyArray<string>>((lines, key) => {
    const last = lines.at(-1)
    const joined = last === undefined ? key : `${last}  ${key}`
    return last !== undefined && CliOutput.displayWidth(joined) < columns
      ? [...lines.slice(0, -1), joined]
      : [...lines, key]
  }, [])
  return `${lines.join("\n")} `
}

/** Says what was answered. */
export const said = (answer: Approvals.Answer): string => {
  switch (answer._tag) {
    case "ApproveOnce":
      return answer.params === undefined ? "approved once" : "approved once, with edited arguments"
    case "ApproveForDuration":
      return `approved for ${answer.duration}`
    case "ApproveForScope":
      return `approved until this ends${typeof answer.scope === "object" ? `: ${escape(answer.scope.pattern)}` : ""}`
    case "Deny":
      return answer.reason === undefined ? "denied" : `denied: ${escape(answer.reason)}`
  }
}

/** Says that the person at the terminal alone cannot approve a request. */
export const notAlone = (request: Approvals.ApprovalRequest, person: string): string =>
  `${escape(whoOf(request))} This terminal answers for one person, ${escape(person)}, so the call is denied. ` +
  "Other people can approve it on a server (tool-executor serve).\n"

const whoOf = (request: Approvals.ApprovalRequest): string =>
  WhoApproves.sentence(request.approvers ?? [], request.approvals ?? [], request)

/** Says that an answer is no longer needed. */
export const over = "this request was resolved elsewhere"

/** Gives arguments as one line of JSON in which every character is visible. */
export const json = (args: unknown): string => {
  try {
    return escapeJson(JSON.stringify(args) ?? "null")
  } catch {
    return tooDeep
  }
}

/** Valid JSON, so that it can be edited. */
const tooDeep = JSON.stringify("nested too deeply to be shown")

/** Line by line; on one line where it is nested so deeply that lines would be mostly space. */
const argumentText = (args: unknown): string => {
  const line = json(args)
  return line === tooDeep || /[[{]{12}/.test(line.replace(/[^[\]{}]/g, "")) || line.length > 100_000
    ? line
    : escapeJson(JSON.stringify(args, undefined, 2) ?? "none")
}

const maxLines = ({ rows }: Options): number => Math.max(6, Math.floor((rows - 12) / 2))

/** Lines under a label, each marked, wrapped before the terminal does. */
const part = (
  text: string,
  name: string,
  options: Options,
  most: number,
  paint: (line: string) => string,
  isInline = false
): ReadonlyArray<string> => {
  const style = styles(options.color)
  const lines = text.split("\n").flatMap((line) => broken(line, Math.max(20, options.columns - 4)))
  const shown = options.whole === true ? lines : lines.slice(0, most)
  const cut = shown.length < lines.length
    ? [`  ${style.bold(`+ ${lines.length - shown.length} more lines: v shows all`)}`]
    : []
  const [first = "", ...rest] = shown
  const mark = isInline ? "|".padEnd(10) : "| "
  return isInline
    ? [
      `  ${style.dim(name.padEnd(10))}${paint(first)}`,
      ...rest.map((it) => `  ${style.dim(mark)}${paint(it)}`),
      ...cut
    ]
    : [`  ${style.dim(name)}`, ...shown.map((it) => `  ${style.dim(mark)}${paint(it)}`), ...cut]
}

/** The parts of a line that fit. */
const broken = (line: string, columns: number): ReadonlyArray<string> => {
  // a character takes two columns at most
  const size = /^[ -~]*$/.test(line) ? columns : Math.floor(columns / 2)
  const chars = Array.from(line)
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
