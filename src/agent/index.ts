/**
 * Agents over an executor: the loop, sub-agents, and where conversations are kept.
 *
 * @since 0.1.0
 */

/**
 * What happens in an operation of an agent, as one union of events.
 *
 * @since 0.1.0
 */
export * as AgentEvent from "./public/AgentEvent.ts"

/**
 * The loop: asks a model, runs its calls, tells it the results, until it is done.
 *
 * @since 0.1.0
 */
export * as AgentExecutor from "./AgentExecutor.ts"

/**
 * The bounds of an operation.
 *
 * @since 0.1.0
 */
export type * as AgentLimits from "./AgentLimits.ts"

/**
 * What a model is sent of a conversation.
 *
 * @since 0.1.0
 */
export type * as Conversation from "./Conversation.ts"

/**
 * A sub-agent that looks around and reports, and changes nothing.
 *
 * @since 0.1.0
 */
export * as DispatchAgent from "./public/DispatchAgent.ts"

/**
 * An agent as a tool of another one.
 *
 * @since 0.1.0
 */
export * as SubAgent from "./public/SubAgent.ts"

/**
 * Sessions in a key-value store.
 *
 * @since 0.1.0
 */
export * as TranscriptStore from "./public/TranscriptStore.ts"

/**
 * Where conversations are kept, so that they can be gone on with.
 *
 * @since 0.1.0
 */
export type * as Transcripts from "./Transcripts.ts"
