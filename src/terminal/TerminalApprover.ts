/**
 * Asks a person at the terminal about approval requests, one after the other.
 *
 * Each request is shown with its tool, arguments, targets, diff and reason, and every character of it is visible. A key
 * answers exactly one request, and only if it was pressed after the request was shown: earlier input is discarded.
 * Enter denies, and so does the end of the input. Where standard input is a pipe, each line is an answer: `y` approves.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import process from "node:process"
import * as Approvals from "../core/gates/Approvals.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as Asking from "./Asking.ts"
import { type Take, Terminal } from "./Keyboard.ts"
import * as LineKeyboard from "./LineKeyboard.ts"
import * as TtyKeyboard from "./TtyKeyboard.ts"

/**
 * Creates a layer whose approver is the person at the terminal.
 *
 * **Example** (An agent that asks)
 *
 * ```ts
 * import { Layer } from "effect"
 * import { AgentExecutor } from "effect-tool-executor/agent"
 * import * as TerminalApprover from "effect-tool-executor/terminal"
 *
 * export const Agents = AgentExecutor.layer.pipe(Layer.provide(TerminalApprover.layer()))
 * ```
 */
export const layer = (options?: Approvals.Options): Layer.Layer<Approvals.Approvals, ConfigurationError> => {
  const asking = Effect.provideService(Asking.askPerson(screen), Terminal, standard)
  return Layer.effectDiscard(Effect.forkScoped(asking)).pipe(Layer.provideMerge(Approvals.layer(options)))
}

/**
 * Asks the person at the terminal, for loops without Effect. The signal withdraws the request.
 *
 * **Example** (A guard that asks)
 *
 * ```ts
 * import * as AiSdk from "effect-tool-executor/ai-sdk"
 * import * as TerminalApprover from "effect-tool-executor/terminal"
 *
 * export const guarded = AiSdk.guard({}, { policy: { default: "ask" }, approvals: TerminalApprover.ask })
 * ```
 */
export const ask = (request: Approvals.ApprovalRequest, signal?: AbortSignal): Promise<Approvals.Answer> => {
  let given: Approvals.Answer = { _tag: "Deny", reason: "there is no person at the terminal who can approve it" }
  const give = Effect.fnUntraced(function*(answer: Approvals.Answer) {
    const now = yield* Clock.currentTimeMillis
    yield* Effect.fromResult(Approvals.resolve(request, answer, { now, grantId: "", person: Asking.person() }))
    given = answer
  })
  const asked = screen.withPermits(1)(Asking.ask(standard, request, { give, waiting: Effect.succeed(0) }))
  return Effect.runPromise(Effect.map(asked, () => given), signal === undefined ? {} : { signal })
}

/** Nobody else asks meanwhile: a process has one terminal. */
const screen = Semaphore.makeUnsafe(1)

/** The terminal, or else the lines of standard input. */
const standard: Take = Effect.suspend(() => {
  const lines = LineKeyboard.take(process.stdin, process.stderr)
  if (!process.stdin.isTTY) return lines
  return Effect.flatMap(TtyKeyboard.take, (taken) => Option.isSome(taken) ? Effect.succeed(taken) : lines)
})
