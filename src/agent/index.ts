/** Agents over an executor: the loop, sub-agents and stored conversations. */

/** Events of an operation. */
export * as AgentEvent from "./public/AgentEvent.ts"

/** The loop: calls a model, runs its tool calls and returns the results until it is done. */
export * as AgentExecutor from "./AgentExecutor.ts"

/** Limits of an operation. */
export type * as AgentLimits from "./AgentLimits.ts"

/** Tools to wait for agents in the background, to send them messages and to stop them. */
export * as BackgroundAgents from "./BackgroundAgents.ts"

/** What a model is sent of a conversation. */
export type * as Conversation from "./Conversation.ts"

/** A sub-agent that explores and reports without changing anything. */
export * as DispatchAgent from "./public/DispatchAgent.ts"

/** An agent as a tool of another agent. */
export * as SubAgent from "./public/SubAgent.ts"

/** Sessions in a key-value store. */
export * as TranscriptStore from "./public/TranscriptStore.ts"

/** Stored conversations that can be continued. */
export type * as Transcripts from "./Transcripts.ts"
