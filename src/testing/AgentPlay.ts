/**
 * Plays an operation of an agent with a scripted model.
 *
 * @since 0.1.0
 */
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
import { executorOf, type Handed, type Stage } from "./Stage.ts"

/**
 * Plays an operation, the first one of a session or one that goes on with it, as a stream
 * of what happens.
 *
 * @category running
 * @since 0.1.0
 */
export const play = (
  stage: Stage,
  { agent, answered, session }: Extract<Handed, { readonly _tag: "Agent" }>,
  isResumed: boolean
): Stream.Stream<AgentEvent, ConfigurationError> =>
  Stream.unwrap(Effect.gen(function*() {
    const { approvals, kept } = stage.parts
    const script = agent.model.slice(answered.count).map((step) => () => {
      answered.count++
      return ScriptedAgent.turnOf(step)
    })
    const { layer } = yield* ScriptedModel.make(script)
    const services = Layer.mergeAll(
      layer,
      Layer.succeed(ToolExecutor.ToolExecutor, yield* executorOf(stage)),
      approvals === undefined ? Layer.empty : Layer.succeed(Approvals, approvals),
      kept === undefined ? Layer.empty : Layer.succeed(Transcripts.Transcripts, TranscriptStore.make(kept.sessions))
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
