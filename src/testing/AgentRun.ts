/** Plays an agent operation with a scripted model. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { AgentEvent } from "../agent/AgentEvent.ts"
import * as AgentExecutor from "../agent/AgentExecutor.ts"
import type { AgentLimits } from "../agent/AgentLimits.ts"
import * as Transcripts from "../agent/Transcripts.ts"
import * as TranscriptStore from "../agent/TranscriptStore.ts"
import * as ToolExecutor from "../core/engine/ToolExecutor.ts"
import { Approvals } from "../core/gates/Approvals.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as ScriptedAgent from "./ScriptedAgent.ts"
import * as ScriptedModel from "./ScriptedModel.ts"
import { executorOf, type ScriptProgress, type Submitted } from "./ScriptProgress.ts"

/** Plays an operation as a stream of events; it may continue a session. */
export const play = (
  progress: ScriptProgress,
  { agent, answered, session }: Extract<Submitted, { readonly _tag: "Agent" }>,
  isResumed: boolean
): Stream.Stream<AgentEvent, ConfigurationError> =>
  Stream.unwrap(Effect.gen(function*() {
    const { approvals, records } = progress.parts
    const script = agent.model.slice(answered.count).map((step) => () => {
      answered.count++
      return ScriptedAgent.turnOf(step)
    })
    const { layer } = yield* ScriptedModel.make(script)
    const services = Layer.mergeAll(
      layer,
      Layer.succeed(ToolExecutor.ToolExecutor, yield* executorOf(progress)),
      approvals === undefined ? Layer.empty : Layer.succeed(Approvals, approvals),
      records === undefined
        ? Layer.empty
        : Layer.succeed(Transcripts.Transcripts, TranscriptStore.makeKeyed(records.sessions))
    )
    const agents = yield* Effect.provide(AgentExecutor.make, services)
    const { batch, limits, mode, prompt } = agent
    return agents.runOperation({
      prompt: isResumed ? [] : prompt,
      mode,
      batch,
      session,
      // durations were checked when the scenario was decoded
      limits: limits as AgentLimits | undefined
    })
  }))
