/** Runs a toolkit's calls in a process, and answers the calls of a response. */
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Shortened } from "../../../internal/shortened.ts"
import { turnEnd } from "../../../internal/turnEnd.ts"
import type { GuardedToolkit, ResultPart } from "../../contract/GuardedToolkit.ts"
import { cut } from "../../output/OutputPolicy.ts"
import { ConfigurationError } from "../../vocabulary/ConfigurationError.ts"
import * as ToolContent from "../../vocabulary/ToolContent.ts"
import * as ToolOutcome from "../../vocabulary/ToolOutcome.ts"
import type { Engine } from "../call/Engine.ts"
import * as Received from "../data/Received.ts"
import { hasTool, type ProcessState } from "../state/State.ts"
import * as ModelSteps from "./ModelSteps.ts"

/** Guards a toolkit for a process; fails if the process lacks one of its tools. */
export const make = <Tools extends Record<string, Tool.Any>>(
  engine: Engine,
  state: ProcessState,
  kit: { readonly tools: Tools },
  run: ModelSteps.Run
): Effect.Effect<GuardedToolkit<Tools>, ConfigurationError> =>
  Effect.suspend(() => {
    const registry = engine.handlers.current()
    const problems = Object.keys(kit.tools).filter((name) => !registry.has(name) || !hasTool(state, name)).map((
      name
    ) => ({
      path: `tools.${name}`,
      problem: "the process does not have this tool",
      expected: "only tools of ToolHandlers.layer, and of the process's `tools` if it limits them"
    }))
    if (problems.length > 0) return new ConfigurationError({ subject: "GuardedToolkit", problems })
    const results = new Map(Object.values(kit.tools).map((tool) => [tool.name, resultOf(engine, state, tool)]))
    const tools = unasked(kit.tools)
    let lastId = 0
    const newId = () => `call_${++lastId}`
    // evaluated once per request: each request begins new runs
    const request = Effect.map(Effect.orDie(ModelSteps.begin(engine, state, run)), (arrive) =>
      handling(tools, results, arrive, newId))
    return Effect.as(ModelSteps.checked(state), Object.assign(request, { tools }) as GuardedToolkit<Tools>)
  })

/** Returns the tool-result parts of calls, in order. Calls of a response that was cut off are not run. */
export const answer = (
  engine: Engine,
  state: ProcessState,
  tools: Record<string, Tool.Any>,
  content: ReadonlyArray<Response.AnyPart>,
  runAll: (calls: ReadonlyArray<Received.Received>) => Effect.Effect<ReadonlyArray<ToolOutcome.ToolOutcome>>
): Effect.Effect<ReadonlyArray<ResultPart>> => {
  const calls = Received.wave(content.filter(isOurs))
  if (calls.length === 0) return Effect.succeed([])
  const finish = content.map(finishReason).find((reason) => reason !== undefined)
  const results = turnEnd(finish) !== "whole"
    ? Effect.succeed(calls.map(() => cutOff(finish ?? "it has no end")))
    : Effect.flatMap(runAll(calls), (outcomes) =>
      Effect.forEach(outcomes, (outcome, index) => {
        const { name } = calls[index]!
        const tool = Object.hasOwn(tools, name) ? tools[name] : undefined
        return tool === undefined ? Effect.succeed(refused(outcome)) : resultOf(engine, state, tool)(outcome)
      }))
  return Effect.map(results, (results) =>
    results.map((result, index): ResultPart =>
      Response.makePart("tool-result", {
        ...result,
        id: calls[index]!.id,
        name: calls[index]!.name,
        providerExecuted: false
      } as never)
    ))
}

type Result = Tool.HandlerResult<Tool.Any>

/** Whether a part is a call to answer; an unreadable part counts as one. */
const isOurs = (part: Response.AnyPart | null): boolean => {
  try {
    return part?.type === "tool-call" && !part.providerExecuted
  } catch {
    return true
  }
}

const finishReason = (part: Response.AnyPart | null): Response.FinishReason | undefined => {
  try {
    return part?.type === "finish" ? part.reason : undefined
  } catch {
    return undefined
  }
}

interface Approvable {
  readonly setNeedsApproval: (needsApproval: false) => Tool.Any
}

/**
 * Turns off approvals in `effect/ai`: the executor requests them itself, and `effect/ai` runs a call whose request
 * fails.
 */
const unasked = <Tools extends Record<string, Tool.Any>>(tools: Tools): Tools =>
  Object.fromEntries(
    Object.entries(tools).map((
      [name, tool]
    ) => [name, tool.needsApproval === undefined ? tool : (tool as unknown as Approvable).setNeedsApproval(false)])
  ) as Tools

const failed = (result: unknown, encodedResult: unknown): Result => ({
  result: result as never,
  encodedResult,
  isFailure: true,
  failureOrigin: "handler",
  preliminary: false
})

const notRun = (type: "execution-denied" | "execution-interrupted", reason: string): Result =>
  failed({ type, reason }, { type, reason })

const refused = (outcome: ToolOutcome.ToolOutcome): Result =>
  notRun(outcome._tag === "Denied" ? "execution-denied" : "execution-interrupted", ToolOutcome.text(outcome))

const cutOff = (reason: string): Result =>
  notRun("execution-interrupted", `The response was cut off (${reason}), so none of its calls were run. Ask again.`)

const handling = <Tools extends Record<string, Tool.Any>>(
  tools: Tools,
  results: ReadonlyMap<string, (outcome: ToolOutcome.ToolOutcome) => Effect.Effect<Result>>,
  arrive: () => ModelSteps.Turn,
  newId: () => string
): Toolkit.WithHandler<Tools> => {
  const handle = (name: string, params: unknown, id: string = newId()) =>
    Effect.sync(() => {
      const call = Received.one({ id, name, params })
      const turn = arrive()
      return Stream.callback<Result>((queue) => {
        const onPartial = (value: unknown) =>
          Queue.offerUnsafe(queue, {
            result: value as never,
            encodedResult: value,
            isFailure: false,
            preliminary: true
          })
        const give = (outcome: ToolOutcome.ToolOutcome) =>
          Effect.flatMap(
            results.get(call.name)?.(outcome) ?? Effect.succeed(refused(outcome)),
            (result) => Queue.offer(queue, result)
          )
        return Effect.andThen(turn(call, give, onPartial), Queue.end(queue))
      })
    })
  return { tools, handle: handle as unknown as Toolkit.WithHandler<Tools>["handle"] }
}

/** Converts an outcome to the tool result that `effect/ai` expects. */
const resultOf = (engine: Engine, state: ProcessState, tool: Tool.Any) => {
  const decode = Schema.decodeUnknownOption(tool.successSchema as Schema.Codec<unknown, unknown>)
  const decodeFailure = Schema.decodeUnknownOption(tool.failureSchema as Schema.Codec<unknown, unknown>)
  return (outcome: ToolOutcome.ToolOutcome): Effect.Effect<Result> => {
    if (outcome._tag === "Failed" && outcome.origin === "handler") {
      const { error, modelText } = outcome
      const result = failed(Option.getOrElse(decodeFailure(error), () => error), error)
      const limit = engine.output.limit(state.batch.outputChars)
      return Effect.succeed(modelText.length <= limit ? result : short(result, cut(modelText, limit, " [cut]")))
    }
    if (outcome._tag !== "Succeeded") return Effect.succeed(refused(outcome))
    const { output } = outcome
    // an outcome shared by another call may be an artifact, of which only the text is left
    const value = output._tag === "Artifact" ? output.modelText : output.value
    const result = Option.getOrElse(decode(value), () => value)
    const succeeded = { result: result as never, encodedResult: value, isFailure: false, preliminary: false }
    return Effect.map(ModelSteps.fitted(engine, state, tool.name, output), (shown) => {
      const { content = [ToolContent.text(shown.modelText)], modelText } = shown
      const told = { ...succeeded, modelOutput: ToolContent.toModelOutput(content) }
      if (shown !== output || output._tag !== "Inline") return { ...told, [Shortened]: modelText }
      return tool.toModelOutput === undefined ? succeeded : told
    })
  }
}

const short = (result: Result, text: string): Result & { readonly [Shortened]: string } => ({
  ...result,
  modelOutput: [Prompt.textPart({ text })],
  [Shortened]: text
})
