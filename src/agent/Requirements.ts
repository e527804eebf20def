/** Tools the rules require first or before the end. The model is reminded twice, then the host calls them once. */
import * as Effect from "effect/Effect"
import type { HostArguments, HostRun, ToolProcess } from "../core/contract/ToolProcess.ts"
import type { WaveResult } from "../core/vocabulary/ToolOutcome.ts"
import type { EndReason, Reminded } from "./AgentEvent.ts"
import * as Conversation from "./Conversation.ts"
import type { Operation } from "./Operation.ts"
import type { TranscriptError } from "./Transcripts.ts"

type When = "start" | "exit"

/** Reminders before the host calls the tools. */
const reminders = 2

export class Requirements {
  private readonly operation: Operation
  private readonly missed: { [W in When]: number } = { start: 0, exit: 0 }
  /** Start tools still missing at the last check. */
  private pending: number

  constructor(operation: Operation, pending: number) {
    this.operation = operation
    this.pending = pending
  }

  /**
   * After a wave: premature calls were refused, so the model already knows. Returns why the operation ends, if it does.
   */
  afterWave(process: ToolProcess): Effect.Effect<EndReason | undefined, TranscriptError> {
    return Effect.flatMap(process.startPending, (tools) => {
      const isCloser = tools.length < this.pending
      this.pending = tools.length
      if (tools.length === 0 || isCloser || ++this.missed.start <= reminders) return Effect.undefined
      return Effect.map(this.call("start", process), (end) => end === "goesOn" ? undefined : end)
    })
  }

  /** When the model is done: continues if something is still required, and ends if it cannot be met. */
  atEnd(process: ToolProcess): Effect.Effect<EndReason | "goesOn" | undefined, TranscriptError> {
    return Effect.gen({ self: this }, function*() {
      for (const when of ["start", "exit"] as const) {
        const tools = yield* when === "start" ? process.startPending : process.exitPending
        if (tools.length === 0) continue
        if (++this.missed[when] > reminders) return yield* this.call(when, process)
        const text = reminder(when, tools)
        this.operation.report<Reminded>({ _tag: "Reminded", about: when, tools, text })
        yield* this.operation.append(Conversation.notice(text))
        return "goesOn"
      }
      return undefined
    })
  }

  /** Calls the required tools from the host; the model reads the results. */
  private call(when: When, process: ToolProcess): Effect.Effect<EndReason | "goesOn", TranscriptError> {
    const { given } = this.operation
    const run: HostRun = when === "start" ? process.startConstraints : process.exitRequirements
    const args: HostArguments = given[when]
    return Effect.gen({ self: this }, function*() {
      const called = yield* run(args)
      yield* this.operation.append(Conversation.notice(told(called)))
      const left = yield* when === "start" ? process.startPending : process.exitPending
      if (left.length > 0) return { _tag: "RequirementUnmet", when, tools: left } as const
      return "goesOn" as const
    })
  }
}

export const make = (operation: Operation, process: ToolProcess): Effect.Effect<Requirements> =>
  Effect.map(process.startPending, ({ length }) => new Requirements(operation, length))

const reminder = (when: When, tools: ReadonlyArray<string>): string => {
  const names = tools.map((it) => JSON.stringify(it)).join(", ")
  return when === "start"
    ? `Call these tools before anything else: ${names}.`
    : `You are not done. Call these tools before you finish: ${names}.`
}

const told = ({ toolMessages }: WaveResult): string =>
  toolMessages.map(({ text, tool }) => `The host called ${JSON.stringify(tool)}: ${text}`).join("\n\n")
