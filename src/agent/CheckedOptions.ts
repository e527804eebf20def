/** Checks the options of an operation and reports every problem before anything runs. */
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Service as Executor } from "../core/contract/Executor.ts"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { OptionReader } from "../internal/OptionReader.ts"
import type { Options } from "./AgentOptions.ts"
import * as CompactionOptions from "./CompactionOptions.ts"
import * as Spending from "./Spending.ts"

export const check = Effect.fnUntraced(function*<E, R>(executor: Executor, options: Options<E, R>) {
  const reader = new OptionReader()
  for (const name of ["limits", "meta", "start", "exit", "toolkit", "model", "compaction"] as const) {
    const value: unknown = options[name]
    if (value === undefined || Predicate.isObjectKeyword(value)) continue
    reader.problems.push({ path: name, problem: `it is ${String(value)}`, expected: "an object" })
  }
  if (options.system !== undefined && typeof options.system !== "string") {
    reader.problems.push({ path: "system", problem: `it is ${String(options.system)}`, expected: "a text" })
  }
  // the rest can be read only if these are valid
  if (reader.problems.length > 0) return yield* problemsOf(reader)
  reader.known("", options, names)
  const limits = Spending.read(reader, options.limits)
  const { batch, exit = {}, meta, mode = "Automatic", perHeartbeat = false, retries = 2, start = {}, system } = options
  reader.oneOf("mode", mode, ["Automatic", "Interactive"])
  reader.count("retries", retries, 0)
  const background = reader.oneOf<"wait" | "cancel">("background", options.background ?? "wait", ["wait", "cancel"])
  const toolChoice = reader.oneOf<"rules" | "auto">("toolChoice", options.toolChoice ?? "rules", ["rules", "auto"])
  if (options.session !== undefined) reader.text("session", options.session)
  if (options.id !== undefined) reader.text("id", options.id)
  if (options.cancelled !== undefined) reader.text("cancelled", options.cancelled)
  const compaction = options.compaction && CompactionOptions.read(reader, options.compaction)
  const prompt = readPrompt(reader, options.prompt)
  const all: ReadonlyArray<Tool.Any> = Object.values(options.toolkit?.tools ?? {})
  const provided = all.filter(isProvided)
  const tools = options.toolkit && all.filter((it) => !provided.includes(it)).map((it) => it.name)
  // fails for tools the executor does not have; tools hidden by the policy are not shown
  if (tools !== undefined) yield* Effect.scoped(executor.process({ tools }))
  if (reader.problems.length > 0) return yield* problemsOf(reader)
  const run = `operation-${(yield* Random.nextIntBetween(0, 2 ** 48)).toString(36)}`
  const id = options.id ?? run
  return {
    background,
    id,
    run,
    batch: batch ?? id,
    compaction,
    exit,
    limits,
    meta,
    perHeartbeat,
    prompt,
    provided,
    retries,
    start,
    system,
    toolChoice,
    tools
  }
})

/** Every option. */
const names: { readonly [K in keyof Required<Options>]: true } = {
  prompt: true,
  system: true,
  toolkit: true,
  model: true,
  mode: true,
  limits: true,
  meta: true,
  batch: true,
  perHeartbeat: true,
  start: true,
  exit: true,
  toolChoice: true,
  retries: true,
  id: true,
  compaction: true,
  background: true,
  cancelled: true,
  session: true
}

export const wrong = (path: string, problem: string, expected: string) =>
  new ConfigurationError({ subject: "AgentExecutor", problems: [{ path, problem, expected }] })

const problemsOf = ({ problems }: OptionReader) => new ConfigurationError({ subject: "AgentExecutor", problems })

const isProvided = (tool: Tool.Any): boolean => Tool.isProviderDefined(tool) && !tool.requiresHandler

/** A stored conversation may be malformed. */
const readPrompt = (reader: OptionReader, input: Prompt.RawInput): ReadonlyArray<Prompt.Message> => {
  if (typeof input === "string") return Prompt.make(input).content
  if (Prompt.isPrompt(input) && areMessages(input.content)) return [...input.content]
  const messages = decodeMessages(Predicate.isIterable(input) ? Array.from(input) : input)
  if (Result.isSuccess(messages)) return messages.success
  const problem = `it is not a valid conversation: ${messages.failure.message}`
  reader.problems.push({ path: "prompt", problem, expected: "a text, messages, or a Prompt" })
  return []
}

const Messages = Schema.Array(Prompt.Message)
const areMessages = Schema.is(Messages)
const decodeMessages = Schema.decodeUnknownResult(Messages)
