/** Parts of a conversation, from which the formats of other libraries are written. */
import type * as Schema from "effect/Schema"
import type * as AgentEvent from "../../agent/AgentEvent.ts"

export interface SubAgentRun {
  readonly id: string
  /** Names of the sub-agents from the root down to this one. */
  readonly path: ReadonlyArray<string>
  /** The announced call that it works for, if known. */
  readonly call: string | undefined
  /** The run of the sub-agent that called it. */
  readonly parent: SubAgentRun | undefined
}

/** A call as clients know it. */
export interface Call {
  /** Unique in the operation. */
  readonly id: string
  readonly tool: string
  readonly params: Schema.Json
  readonly isProviders: boolean
  readonly by: SubAgentRun | undefined
}

/** How a call ended. `Denied`: its approval request was denied or expired; `reason` is that of the person. */
export type Result =
  | { readonly _tag: "Succeeded"; readonly value: Schema.Json }
  | { readonly _tag: "Failed"; readonly text: string }
  | { readonly _tag: "Denied"; readonly text: string; readonly reason: string | undefined }

/** An approval request of a call. */
export interface Request {
  readonly id: string
  readonly call: Call
  readonly why: string
  readonly diff: string | undefined
  /** Epoch milliseconds. */
  readonly expiresAt: number | undefined
}

/** A part of a conversation. `by` is absent for the root agent. */
export type Part =
  | { readonly _tag: "Turn" }
  | { readonly _tag: "TextStart"; readonly text: Text }
  | { readonly _tag: "TextDelta"; readonly text: Text; readonly delta: string }
  | { readonly _tag: "TextEnd"; readonly text: Text }
  | { readonly _tag: "CallStart"; readonly call: Call }
  | { readonly _tag: "CallReport"; readonly call: Call; readonly name: string; readonly value: Schema.Json }
  | { readonly _tag: "CallOutput"; readonly call: Call; readonly value: Schema.Json }
  | { readonly _tag: "CallEnd"; readonly call: Call; readonly result: Result }
  | { readonly _tag: "ApprovalRequest"; readonly handle: string; readonly request: Request }
  | {
    readonly _tag: "ApprovalResponse"
    readonly handle: string
    readonly request: Request
    readonly isApproved: boolean
    readonly reason?: string | undefined
  }
  | { readonly _tag: "File"; readonly id: string; readonly mediaType: string; readonly data: string }
  | { readonly _tag: "Source"; readonly source: Source }
  | { readonly _tag: "UserMessage"; readonly id: string; readonly text: string }
  | { readonly _tag: "End"; readonly end: End }

/** A text or reasoning of a model, as it streams in. */
export interface Text {
  readonly id: string
  readonly isReasoning: boolean
  readonly by: SubAgentRun | undefined
}

export type Of<T extends AgentEvent.Wire["_tag"]> = Extract<AgentEvent.Wire, { readonly _tag: T }>

/** The last event of an operation. */
export type End = Of<"OperationEnd">

type ModelPart = Of<"AssistantMessagePart">["part"]

/** A document or page that the model refers to. */
export type Source = Extract<ModelPart, { readonly type: "source" }>
