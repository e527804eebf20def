/**
 * The calls of an operation that run in its background. Each is a call like any other, in a separate wave of the
 * operation's process. It has a name, and its result becomes a message to the model.
 *
 * What runs in the background follows from the history: which calls were answered with a name, and which results have
 * not arrived. So a resumed operation continues it.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import type { ResumeError } from "../core/contract/ResumeError.ts"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import type { ToolCall } from "../core/vocabulary/ToolCall.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import type { Entry } from "./BackgroundCalls.ts"
import * as Conversation from "./Conversation.ts"
import type { Operation } from "./Operation.ts"

/** Runs calls in a process: as a wave, or as a wave that is resumed. */
export type Execute<E> = (calls: ReadonlyArray<ToolCall>) => Effect.Effect<ToolOutcome.WaveResult, E>

type Unable = ResumeError | ConfigurationError

/**
 * Runs the calls of a model's message. Those of background tools begin, and the others are waited for. `named` has the
 * names of those that began, by their ids.
 */
export const execute = Effect.fnUntraced(function*<E extends Unable = never>(
  operation: Operation,
  process: ToolProcess,
  calls: ReadonlyArray<ToolCall>,
  run: Execute<E>
): Effect.fn.Return<
  { readonly wave: ToolOutcome.WaveResult; readonly named: ReadonlyMap<string, string> },
  E,
  Scope.Scope
> {
  const named = new Map<string, string>()
  const others = calls.filter(({ name }) => !operation.backgroundTools.has(name))
  for (const call of calls) {
    if (others.includes(call)) continue
    const name = nameFor(operation, call.name)
    named.set(call.id, name)
    yield* begin(operation, process, name, call, run)
  }
  const wave = yield* others.length === 0 ? run(others) : operation.waiting("calls", run(others))
  return { named, wave: named.size === 0 ? wave : { ...wave, needsContinuation: true } }
})

/** Begins a call in the background, or resumes it. */
export const begin = Effect.fnUntraced(function*<E extends Unable>(
  operation: Operation,
  process: ToolProcess,
  name: string,
  call: ToolCall,
  run: Execute<E>
): Effect.fn.Return<void, never, Scope.Scope> {
  const { background } = operation
  const entry: Entry = { name, call: call.id, tool: call.name, process, state: "running", agent: undefined }
  background.begins(entry)
  yield* run([call]).pipe(
    Effect.onExit((exit) =>
      Effect.sync(() => {
        const text = textOf(exit)
        if (text !== undefined) tell(operation, name, text)
        background.becomes(entry, text === undefined ? "suspended" : "ended")
      })
    ),
    Effect.exit,
    Effect.forkScoped({ startImmediately: true })
  )
})

/** What the model reads about a call's end; `undefined` if the call may be resumed. */
const textOf = (exit: Exit.Exit<ToolOutcome.WaveResult, Unable>): string | undefined => {
  if (Exit.isSuccess(exit)) {
    const { outcomes, suspended } = exit.value
    return suspended === undefined ? ToolOutcome.toMessage(outcomes[0]!).text : undefined
  }
  const error = Cause.findErrorOption(exit.cause)
  // without a journal nobody knows
  return error._tag === "Some" && error.value._tag === "ConfigurationError" ? Conversation.unanswered : undefined
}

const tell = (operation: Operation, name: string, text: string): void => {
  operation.say(`Result of "${name}": ${text}`, Conversation.resultOf(name))
}

/** A name that no other call of the conversation has. */
const nameFor = ({ background, messages }: Operation, tool: string): string => {
  const taken = new Set(Conversation.begunIn(messages).map(({ name }) => name))
  let number = 1
  while (taken.has(`${tool}-${number}`) || background.has(`${tool}-${number}`)) number++
  return `${tool}-${number}`
}

/**
 * Leaves nothing behind: waits for running calls if the operation is suspended or `isAwaited`, otherwise cancels them. The
 * model reads of each how it ended.
 */
export const leave = Effect.fnUntraced(function*(
  operation: Operation,
  { isAwaited, isSuspended }: { readonly isAwaited: boolean; readonly isSuspended: boolean }
): Effect.fn.Return<void> {
  const { background } = operation
  if (background.all.length === 0) return
  const isOver = () => !background.isRunning
  if (isAwaited || isSuspended) {
    yield* operation.waiting("background", operation.unlessStopped(background.until(isOver)))
  }
  const { stopped } = operation
  yield* background.cancel(stopped?._tag === "Cancelled" ? stopped.reason : "the agent that started it has ended")
  yield* background.until(isOver)
  // calls without an answer come first: the next operation has the results from the journal
  if (isSuspended) return operation.unsay(new Set(background.all.map(({ name }) => Conversation.resultOf(name))))
  for (const { name, state } of background.all) {
    if (state === "suspended") tell(operation, name, "it was stopped, because the agent that started it has ended.")
  }
})
