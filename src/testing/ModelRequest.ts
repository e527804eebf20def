/** Compares a request to a scripted model with what its turn expects, and describes it for people. Pure. */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import * as Equal from "effect/Equal"
import type { Expectation } from "./ModelTurn.ts"

/** One request to a scripted model. */
export interface ModelRequest {
  /** The number of earlier requests, so the first is 0. */
  readonly turn: number
  readonly method: "generateText" | "streamText"
  readonly prompt: Prompt.Prompt
  /** Names of the callable tools. */
  readonly tools: ReadonlyArray<string>
  readonly toolChoice: LanguageModel.ToolChoice<string>
}

/** Creates the request from what a provider receives. */
export const make = (
  turn: number,
  method: ModelRequest["method"],
  { prompt, toolChoice, tools }: {
    readonly prompt: Prompt.Prompt
    readonly toolChoice: LanguageModel.ToolChoice<string>
    readonly tools: ReadonlyArray<Tool.Any>
  }
): ModelRequest => ({ turn, method, prompt, tools: tools.map((it) => it.name), toolChoice })

/** Lists how a request differs from what is expected, a line each. */
export const differences = (request: ModelRequest, expected: Expectation): ReadonlyArray<string> => {
  const { content } = request.prompt
  const found: Array<string> = []
  const holds = (where: string, text: string, part: string | undefined) => {
    if (part !== undefined && !text.includes(part)) found.push(`${where} does not hold ${shown(part)}: ${shown(text)}`)
  }
  const is = (where: string, got: unknown, wanted: unknown) => {
    if (wanted !== undefined && !Equal.equals(got, wanted)) {
      found.push(`${where} is ${shown(got)}, expected ${shown(wanted)}`)
    }
  }
  const user = content.findLast((it) => it.role === "user")
  holds("the last message of the user", user === undefined ? "" : textOf(user), expected.user)
  holds("system", content.filter((it) => it.role === "system").map(textOf).join("\n"), expected.system)
  if (expected.tools !== undefined) is("tools", request.tools.toSorted(), expected.tools.toSorted())
  is("toolChoice", request.toolChoice, expected.toolChoice)
  if (expected.results !== undefined) {
    const results = resultsOf(request)
    is("the number of results", results.length, expected.results.length)
    for (const [index, wanted] of expected.results.entries()) {
      const result = results[index]
      if (result === undefined) continue
      const where = `results[${index}]`
      is(`${where}.id`, result.id, wanted.id)
      is(`${where}.name`, result.name, wanted.name)
      is(`${where}.isFailure`, result.isFailure, wanted.isFailure)
      holds(where, typeof result.result === "string" ? result.result : jsonOf(result.result), wanted.includes)
    }
  }
  return found
}

/** The results since the model's last answer. */
export const resultsOf = ({ prompt }: ModelRequest): ReadonlyArray<Prompt.ToolResultPart> =>
  sinceLastAnswer(prompt).flatMap((message) =>
    message.role === "tool" ? message.content.filter((it) => it.type === "tool-result") : []
  )

/** Describes what was sent since the model's last answer, one line per message or result. */
export const describe = ({ prompt }: ModelRequest): string => {
  const recent = sinceLastAnswer(prompt)
  const before = prompt.content.length - recent.length
  return [
    ...before === 0 ? [] : [`(${before} ${before === 1 ? "message" : "messages"} before)`],
    ...recent.flatMap((message) =>
      message.role === "tool"
        ? message.content.map((part) =>
          part.type === "tool-result"
            ? `tool ${part.name} (${part.id})${part.isFailure ? " failed" : ""}: ${shown(part.result)}`
            : `answer to approval ${part.approvalId}: ${part.approved ? "yes" : "no"}`
        )
        : [`${message.role}: ${shown(textOf(message))}`]
    )
  ].join("\n")
}

const sinceLastAnswer = ({ content }: Prompt.Prompt): ReadonlyArray<Prompt.Message> =>
  content.slice(content.findLastIndex((it) => it.role === "assistant") + 1)

const textOf = ({ content }: Prompt.Message): string =>
  typeof content === "string"
    ? content
    : content.map((part) => part.type === "text" ? part.text : `[${part.type}]`).join("")

const longest = 400

const shown = (value: unknown): string => {
  const text = jsonOf(value)
  return text.length > longest ? `${text.slice(0, longest)}… (${text.length} characters)` : text
}

const jsonOf = (value: unknown): string => {
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    // a tool's value may be cyclic or hold a bigint
    return String(value)
  }
}
