/** Agents over an executor: the loop, sub-agents, and where conversations are kept. */

/** What happens in an operation of an agent, as one union of events. */
export * as AgentEvent from "./public/AgentEvent.ts"

/** The loop: asks a model, runs its calls, tells it the results, until it is done. */
export * as AgentExecutor from "./AgentExecutor.ts"

/** The bounds of an operation. */
export type * as AgentLimits from "./AgentLimits.ts"

/** What a model is sent of a conversation. */
export type * as Conversation from "./Conversation.ts"

/** A sub-agent that looks around and reports, and changes nothing. */
export * as DispatchAgent from "./public/DispatchAgent.ts"

/** An agent as a tool of another one. */
export * as SubAgent from "./public/SubAgent.ts"

/** Sessions in a key-value store. */
export * as TranscriptStore from "./public/TranscriptStore.ts"

/** Where conversations are kept, so that they can be gone on with. */
export type * as Transcripts from "./Transcripts.ts"
