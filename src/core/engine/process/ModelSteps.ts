/**
 * The calls of one model step that a loop submits one by one, without waiting for each.
 *
 * They are split into runs by the rules of a wave: reads run concurrently, a write runs alone, in order of arrival. In
 * stop mode the first refused or timed out call ends the step at its place: later calls that have not started, or are
 * submitted afterwards, are skipped. Steps do not wait for each other.
 */
import * as Effect from "effect/Effect"
import { type Item, makeRunGate } from "../../../internal/runGate.ts"
import * as PlainJson from "../../../wire/PlainJson.ts"
import type { Answer, Step } from "../../contract/ToolProcess.ts"
import type { ToolEvent } from "../../facts/ToolEvent.ts"
import { cut, textOf } from "../../output/OutputPolicy.ts"
import { ConfigurationError } from "../../vocabulary/ConfigurationError.ts"
import * as ToolContent from "../../vocabulary/ToolContent.ts"
import * as ToolOutcome from "../../vocabulary/ToolOutcome.ts"
import type { Engine } from "../call/Engine.ts"
import { StopPlace } from "../call/StopPlace.ts"
import type { WaveOptions } from "../call/WaveOptions.ts"
import type * as WaveRuns from "../call/WaveRuns.ts"
import * as Received from "../data/Received.ts"
import { EventHub } from "../report/EventHub.ts"
import type { ProcessState } from "../state/State.ts"

/** Runs one call at its place in a step and forwards the events reported meanwhile. */
export type Run = (
  call: Received.Received,
  hub: EventHub,
  step: NonNullable<WaveOptions["step"]>
) => Effect.Effect<ToolOutcome.ToolOutcome>

/** Runs the call of a reserved place, and passes its outcome on before the next call may start. */
export type Turn = <A>(
  call: Received.Received,
  then: (outcome: ToolOutcome.ToolOutcome) => Effect.Effect<A>,
  onPartial?: (value: unknown) => void
) => Effect.Effect<A>

/**
 * Begins a step and gives the function that reserves the next place in it. Fails with upfront approval, which needs all
 * calls of a step together.
 */
export const begin = (
  engine: Engine,
  state: ProcessState,
  run: Run
): Effect.Effect<() => Turn, ConfigurationError> =>
  Effect.as(
    checked(state),
    (() => {
      const gate = makeRunGate()
      const stop = new StopPlace(engine.onExecutionError)
      const message = {}
      let last = -1
      return () => {
        const arrival = gate.arrive()
        const index = ++last
        const turn = (item: WaveRuns.Item) =>
          Effect.callback<void>((resume) => arrival.ready(gateItem(engine.mode, item), () => resume(Effect.void)))
        return (call, then, onPartial) =>
          run(call, onPartial === undefined ? state.hub : new Reports(state, onPartial), { stop, index, message, turn })
            .pipe(
              Effect.flatMap(then),
              Effect.ensuring(Effect.sync(arrival.leave))
            )
      }
    })()
  )

/** Fails if calls cannot be submitted one by one. */
export const checked = ({ approval }: ProcessState): Effect.Effect<void, ConfigurationError> =>
  approval === "perCall" ? Effect.void : new ConfigurationError({
    subject: "ToolProcess",
    problems: [{
      path: "approval",
      problem: "upfront approval does not work for calls that a loop submits one by one",
      expected: "\"perCall\"; or calls that are submitted together, to executeWave, stream or answer"
    }]
  })

/** Makes the step that hosts use. */
export const make = (engine: Engine, state: ProcessState, run: Run): Effect.Effect<Step, ConfigurationError> =>
  Effect.map(begin(engine, state, run), (arrive) => ({
    execute: (call) => Effect.suspend(() => arrive()(Received.one(call), (outcome) => answer(engine, state, outcome)))
  }))

/** Fits an output that the caller gets whole to the limits for the model. An output that fits is returned unchanged. */
export const fitted = (
  { handlers, output: policy, principal }: Engine,
  { batch }: ProcessState,
  tool: string,
  output: ToolOutcome.Output
): Effect.Effect<ToolOutcome.Output> => {
  const room = policy.room(batch)
  batch.outputChars += Math.min(room.chars, output.modelText.length)
  batch.fileChars += Math.min(room.fileChars, ToolContent.fileChars(output.content))
  if (output._tag !== "Inline") return Effect.succeed(output)
  const readOn = handlers.current().has("read_artifact")
    ? "Read on with read_artifact."
    : "Ask for a smaller part to see more."
  const registered = handlers.current().get(tool)
  const worded = registered?.modelContent === undefined ? undefined : [ToolContent.text(output.modelText)]
  const from = { owner: { principal, batch: batch.id }, readOn }
  const applied = policy.apply(output.value, output.modelText, room, from, output.content ?? worded)
  if ("_tag" in applied) return Effect.succeed(applied._tag === "Inline" ? output : applied)
  const [truncated, store] = applied
  if (registered?.bounded === true) return Effect.succeed(truncated)
  return Effect.orElseSucceed(store, () => truncated)
}

/** Gives the text of a value from elsewhere, such as an earlier conversation, cut at the limit if it is longer. */
export const shown = ({ output }: Engine, { batch }: ProcessState, value: unknown): string => {
  const text = textOf(value === undefined ? value : PlainJson.from(value))
  return cut(text, output.limit(batch.outputChars), `\n[cut: ${text.length} characters in all]`)
}

/** How calls behind this one wait for it, by the rules of `Waves.cut`. */
const gateItem = (mode: Engine["mode"], item: WaveRuns.Item): Item =>
  mode === "sequential"
    ? { lane: "", closes: true }
    : mode === "parallel"
    ? { lane: "", closes: false }
    : item.class === "ShortCircuit"
    ? { lane: undefined, closes: false }
    : { lane: item.class, closes: item.closesRun || item.class === "SerialMut" }

const answer = (engine: Engine, state: ProcessState, outcome: ToolOutcome.ToolOutcome): Effect.Effect<Answer> => {
  if (outcome._tag !== "Succeeded") {
    const text = cut(ToolOutcome.text(outcome), engine.output.limit(state.batch.outputChars), " [cut]")
    return Effect.succeed({ outcome, value: undefined, text, content: [ToolContent.text(text)] })
  }
  const { output } = outcome
  const value = output._tag === "Artifact" ? output.modelText : output.value
  return Effect.map(
    fitted(engine, state, outcome.tool, output),
    ({ content, modelText: text }) => ({ outcome, value, text, content: content ?? [ToolContent.text(text)] })
  )
}

/** Forwards the partial results of a tool, but not those of its sub-agents. */
class Reports extends EventHub {
  private readonly process: string
  private readonly onPartial: (value: unknown) => void

  constructor({ hub, id }: ProcessState, onPartial: (value: unknown) => void) {
    super(hub.capacity, hub)
    this.process = id
    this.onPartial = onPartial
  }

  override get takesReports(): boolean {
    return true
  }

  override report(event: ToolEvent): number {
    if (event._tag === "ToolPartialResult" && event.process === this.process) this.onPartial(event.value)
    return super.report(event)
  }
}
