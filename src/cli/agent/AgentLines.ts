/** What happens in an operation of an agent, as text for the standard streams. */
import * as Result from "effect/Result"
import * as AgentEvent from "../../agent/AgentEvent.ts"
import { escape, escapeJson } from "../../internal/escape.ts"
import * as EventLines from "./EventLines.ts"

/** Texts for the standard streams, line breaks included; absent: nothing. */
export interface Lines {
  readonly stdout?: string
  readonly stderr?: string
}

/** Gives the texts of an event. */
export type Writer = (event: AgentEvent.AgentEvent) => Lines

/** Writes every event that has content as one line of JSON to standard output. */
export const json: Writer = (event) =>
  Result.match(AgentEvent.toWire(event), {
    onFailure: () => ({}),
    onSuccess: (wire) => ({
      stdout: `${escapeJson(JSON.stringify({ event: AgentEvent.sseName(wire), ...wire }))}\n`
    })
  })

/**
 * Makes a writer for people: what the model says on standard output as it says it, what becomes of its calls on
 * standard error. What sub-agents say is for their caller.
 */
export const text = (options: {
  readonly color: boolean
  /** Standard output is shown by a terminal, which must not obey it. */
  readonly isShown: boolean
}): Writer => {
  const calls = EventLines.pretty(options)
  const shown = (said: string) => options.isShown ? said.replace(obeyed, escape) : said
  // a character may come in two halves
  let half = ""
  let isLineOpen = false
  const say = (said: string): Lines => {
    const whole = half + said
    half = /[\ud800-\udbff]$/.exec(whole)?.[0] ?? ""
    const stdout = shown(half === "" ? whole : whole.slice(0, -1))
    if (stdout !== "") isLineOpen = !stdout.endsWith("\n")
    return { stdout }
  }
  const endLine = (): Lines => {
    if (!isLineOpen) return {}
    isLineOpen = false
    return { stdout: "\n" }
  }
  return (event) => {
    if (!AgentEvent.isOwn(event)) return { stderr: calls(event) }
    const isRoot = event.agentPath.length === 0
    switch (event._tag) {
      case "AssistantMessagePart":
        return isRoot && event.part.type === "text-delta"
          ? say(event.part.delta)
          : isRoot && event.part.type === "text-end"
          ? endLine()
          : {}
      case "AssistantMessageFinal":
        return isRoot ? endLine() : {}
      case "Reminded":
        return { stderr: `… reminded to call ${event.tools.map((it) => escape(it)).join(", ")}\n` }
      case "ModelRetry":
        // what follows the first line is advice, and is said where it was the last try
        return { stderr: `… retrying the model: ${escape(event.error.message.replace(/\n.*/s, ""))}\n` }
      case "HistoryCompacted":
        return { stderr: `… ${compactionOf(event)}\n` }
      case "OperationEnd":
        return { stderr: `${totalOf(event)}\n` }
      default:
        return {}
    }
  }
}

/** What a terminal obeys, and what turns the direction of text. */
const obeyed = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

const compactionOf = ({ afterTokens, beforeTokens, by, problem }: AgentEvent.HistoryCompacted): string =>
  `${by === "summary" ? "summarised" : "dropped"} older turns: ${beforeTokens} → ${afterTokens} tokens` +
  (problem === undefined ? "" : ` (no summary: ${escape(problem.replace(/\n.*/s, ""))})`)

const totalOf = ({ calls, turns, usage }: AgentEvent.OperationEnd): string =>
  [
    `${turns} ${turns === 1 ? "turn" : "turns"}`,
    `${calls} ${calls === 1 ? "call" : "calls"}`,
    `${usage.inputTokens} tokens in${usage.cachedInputTokens > 0 ? ` (${usage.cachedInputTokens} cached)` : ""}`,
    `${usage.outputTokens} out`
  ].join(", ")
