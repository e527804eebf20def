/** The executor behind HTTP: sessions, waves, approval requests and records. */

/** Users and their rights. */
export * as Access from "./public/Access.ts"

/** Agents by name. */
export * as Agents from "./public/Agents.ts"

/** Signed links that answer one approval request as one person. */
export * as AnswerLinks from "./public/AnswerLinks.ts"

/** The HTTP API as a value, for servers, clients and its OpenAPI document. */
export * as Api from "./public/Api.ts"

/** Authentication of requests. */
export type * as ApiAccess from "./api/ApiAccess.ts"

/** Sessions and waves of the API. */
export type * as ApiModels from "./api/ApiModels.ts"

/** Requests of `useChat` of the AI SDK, and of AG-UI clients. */
export type * as ApiFormats from "./api/ApiFormats.ts"

/** The UI message stream of the AI SDK. */
export type * as UiMessageStream from "./formats/UiMessageStream.ts"

/** Events of AG-UI. */
export type * as AgUi from "./formats/AgUi.ts"

/** Agents, operations and conversations of the API. */
export type * as ApiOperations from "./api/ApiOperations.ts"

/** Problems that the API answers with. */
export type * as ApiProblems from "./api/ApiProblems.ts"

/** Approval requests and live events of the API. */
export type * as ApiApprovals from "./api/ApiApprovals.ts"

/** Records of the API. */
export type * as ApiRecords from "./api/ApiRecords.ts"

/** Authenticates requests by token or cookie. */
export * as Authentication from "./public/Authentication.ts"

/** Graceful shutdown. */
export * as Draining from "./public/Draining.ts"

/** Told of the ends of waves and operations. */
export * as EndListener from "./public/EndListener.ts"

/** Reads and validates the bodies of requests. */
export * as RequestBody from "./public/RequestBody.ts"

/** Limits of the server. */
export * as Limits from "./public/Limits.ts"

/** Live events of the whole server. */
export * as LiveLog from "./public/LiveLog.ts"

/** Logins of the page. */
export type * as Logins from "./users/Logins.ts"

/** The operations of agents in all sessions. */
export * as Operations from "./public/Operations.ts"

/** Operations and conversations in a key-value store. */
export * as OperationStore from "./public/OperationStore.ts"

/** Approval requests of all sessions. */
export * as PendingApprovals from "./public/PendingApprovals.ts"

/** The server: routes for any `HttpRouter`. */
export * as Server from "./api/Server.ts"

/** All sessions by their owners: waves, operations, approval requests and records. */
export * as SessionDirectory from "./public/SessionDirectory.ts"

/** Tokens of users. */
export * as Tokens from "./public/Tokens.ts"

/** Undoes writes of a session. */
export * as Undoing from "./public/Undoing.ts"

/** Submitted waves and their results. */
export * as WaveStore from "./public/WaveStore.ts"

/** The waves of all sessions. */
export * as Waves from "./public/Waves.ts"

/** Notifies users on their devices of pending approval requests. */
export * as WebPush from "./public/WebPush.ts"

/** Notifies another system of pending approval requests. */
export * as Webhook from "./public/Webhook.ts"
