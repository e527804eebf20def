/** Agents, operations and conversations of the API. Events of an operation are `AgentEvent.Wire`. */
import * as Schema from "effect/Schema"
import * as AgentWire from "../../agent/AgentWire.ts"
import { Name, Owner, sse, StreamNote, WireEvent } from "./ApiModels.ts"

/**
 * Schema of what happens to a message that arrives while an operation runs in its session.
 *
 * - `queue`: the model reads it before its next turn.
 * - `settle`: like `queue`, but pending approval requests are denied first, so that the turn comes immediately.
 * - `interrupt`: the running operation is cancelled, and the message starts another one.
 * - `reject`: the message is refused with `SessionBusy`.
 */
export const OnBusy = Schema.Literals(["queue", "settle", "interrupt", "reject"])

/** What happens to a message that arrives while an operation runs in its session. */
export type OnBusy = typeof OnBusy.Type

/** Schema of an agent that operations can be started with. */
export const Agent = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  /** `provider:model`. */
  model: Schema.optionalKey(Schema.String),
  /** Its tools, without its sub-agents. */
  tools: Schema.Array(Schema.String),
  subAgents: Schema.Array(Schema.String),
  onBusy: OnBusy,
  /** Limits of one operation; absent: no limit. */
  limits: Schema.Struct({
    turns: Schema.Finite,
    calls: Schema.optionalKey(Schema.Finite),
    tokens: Schema.optionalKey(Schema.Finite),
    /** Without the time that is spent waiting for approval. */
    timeMillis: Schema.optionalKey(Schema.Finite),
    /** In the unit of the prices. */
    cost: Schema.optionalKey(Schema.Finite)
  })
}).annotate({ identifier: "Agent" })

/** An agent that operations can be started with. */
export type Agent = typeof Agent.Type

/** Schema of a message to an agent, which starts an operation unless one is running in the session. */
export const OperationSubmission = Schema.Struct({
  /** Name of the agent. */
  agent: Schema.String,
  prompt: Schema.NonEmptyString,
  /**
   * Name of the operation, so that submitting it twice runs it once: the second request with the same agent and prompt
   * gets the operation of the first. Default: a random name.
   */
  id: Schema.optionalKey(Name),
  /** Default: as the agent is configured. */
  onBusy: Schema.optionalKey(OnBusy)
}).annotate({ identifier: "OperationSubmission" })

/** A message to an agent. */
export type OperationSubmission = typeof OperationSubmission.Type

/** Schema of how an operation ended. */
export const OperationResult = Schema.Struct({
  reason: AgentWire.EndReason,
  /** The reason as a sentence. */
  message: Schema.String,
  /** The model's last text. */
  text: Schema.String
}).annotate({ identifier: "OperationResult" })

/**
 * Schema of the state of an operation.
 *
 * `queued`: it starts once the operation that it interrupts has ended. `waiting`: calls wait for approval. `suspended`:
 * the server stopped while calls waited for approval, and continues the operation at its next start.
 */
export const OperationState = Schema.Literals(["queued", "running", "waiting", "suspended", "ended"])

/** Schema of an operation: an agent that works on a message, turn by turn. */
export const Operation = Schema.Struct({
  id: Schema.String,
  session: Schema.String,
  agent: Schema.String,
  state: OperationState,
  startedAt: Schema.Finite,
  endedAt: Schema.optionalKey(Schema.Finite),
  prompt: Schema.String,
  /** The model's turn, from 1; 0 before the first. */
  turn: Schema.Finite,
  /** Tokens so far, including those of sub-agents. */
  usage: AgentWire.Usage,
  /** Calls that have started, including those of sub-agents. */
  calls: Schema.Finite,
  /** Approval requests that wait for an answer. */
  pending: Schema.Finite,
  end: Schema.optionalKey(OperationResult)
}).annotate({ identifier: "Operation" })

/** An operation. */
export type Operation = typeof Operation.Type

/** Schema of an event of an agent. */
export const WireAgentEvent = Schema.Union([AgentWire.OwnEvent, WireEvent]).annotate({ identifier: "AgentEvent" })

/** Schema of an item in the stream of an operation. */
export const AgentItem = Schema.Union([WireAgentEvent, StreamNote]).annotate({ identifier: "AgentItem" })

/** An item in the stream of an operation. */
export type AgentItem = typeof AgentItem.Type

/** Schema of a server-sent event of an operation. */
export const AgentSse = sse(AgentItem)

/** A server-sent event of an operation. */
export type AgentSse = typeof AgentSse.Type

/** Schema of a message of a conversation. Arguments are redacted; results are what the model has read. */
export const Message = Schema.Struct({
  role: Schema.Literals(["user", "assistant", "tool"]),
  text: Schema.String,
  /** The operation that the message of a user began, if the server started it. */
  operation: Schema.optionalKey(Schema.String),
  /** Calls that the model made. */
  calls: Schema.optionalKey(Schema.Array(Schema.Struct({
    id: Schema.String,
    name: Schema.String,
    params: Schema.Json
  }))),
  /** Answers to calls. */
  results: Schema.optionalKey(Schema.Array(Schema.Struct({
    id: Schema.String,
    name: Schema.String,
    isError: Schema.Boolean,
    text: Schema.String
  })))
}).annotate({ identifier: "Message" })

/** A message of a conversation. */
export type Message = typeof Message.Type

/** Schema of the messages of a session, oldest first. */
export const History = Schema.Struct({ messages: Schema.Array(Message) }).annotate({ identifier: "History" })

/** Schema of a conversation in a list: a session that has had operations. */
export const Conversation = Schema.Struct({
  ...Owner,
  /** The agent of the last operation. */
  agent: Schema.String,
  /** The beginning of the first message. */
  title: Schema.String,
  /** State of the last operation. */
  state: OperationState,
  /** How the last operation ended, as long as the server lists it. */
  ended: Schema.optionalKey(Schema.String),
  pending: Schema.Finite,
  /** The operation that has not ended. */
  operation: Schema.optionalKey(Schema.String),
  /** Tokens of all operations. */
  usage: AgentWire.Usage,
  /** In the unit of the prices in the agent's limits; absent without prices. */
  cost: Schema.optionalKey(Schema.Finite),
  /** Epoch milliseconds of the last change of state. */
  updatedAt: Schema.Finite
}).annotate({ identifier: "Conversation" })

/** A conversation in a list. */
export type Conversation = typeof Conversation.Type

/**
 * Schema of a conversation with its messages. While an operation runs, `history` ends before its prompt, and the rest
 * is in its events.
 */
export const ConversationDetail = Schema.Struct({
  ...Conversation.fields,
  history: Schema.Array(Message),
  /** Newest first. */
  operations: Schema.Array(Operation)
}).annotate({ identifier: "ConversationDetail" })

/** A conversation with its messages. */
export type ConversationDetail = typeof ConversationDetail.Type
