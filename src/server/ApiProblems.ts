/**
 * Problems that the API answers with (RFC 9457, `application/problem+json`), told apart by `type`.
 *
 * A request without a valid token gets an empty 401. A resource of another user is not found (404), like one that does
 * not exist.
 */
import * as HttpApiError from "effect/http-api/HttpApiError"
import * as Schema from "effect/Schema"

const urn = <const Name extends string>(name: Name) => `urn:tool-executor:problem:${name}` as const

/** The request has no valid token. The response has no body. */
export const Unauthorized = HttpApiError.UnauthorizedNoContent

/** The user does not have the right, such as to approve. */
export class NotAllowed extends HttpApiError.Problem<NotAllowed>()("NotAllowed", {
  type: urn("not-allowed"),
  status: 403,
  title: "You do not have permission to do that."
}) {}

/** The resource does not exist, or belongs to another user. */
export class NotFound extends HttpApiError.Problem<NotFound>()("NotFound", {
  type: urn("not-found"),
  status: 404,
  title: "Not found."
}) {}

/** The request is invalid; `errors` say where. */
export class Invalid extends HttpApiError.Problem<Invalid>()("Invalid", {
  type: urn("invalid"),
  status: 400,
  title: "The request is invalid."
}, {
  errors: Schema.Array(Schema.Struct({
    /** Path, such as `message.tool_calls[0].id`; empty for the whole. */
    path: Schema.String,
    problem: Schema.String,
    expected: Schema.optionalKey(Schema.String)
  }))
}) {}

/** The name belongs to a wave with another message, or its calls run elsewhere. */
export class WaveConflict extends HttpApiError.Problem<WaveConflict>()("WaveConflict", {
  type: urn("wave-conflict"),
  status: 409,
  title: "The wave cannot be run."
}) {}

/**
 * The stored record of the wave is damaged or has another version. Its calls may have run, so they are not run again
 * under this name.
 */
export class WaveUnreadable extends HttpApiError.Problem<WaveUnreadable>()("WaveUnreadable", {
  type: urn("wave-unreadable"),
  status: 410,
  title: "The stored wave cannot be read."
}) {}

/** The name belongs to an operation with another agent or prompt. */
export class OperationConflict extends HttpApiError.Problem<OperationConflict>()("OperationConflict", {
  type: urn("operation-conflict"),
  status: 409,
  title: "The operation cannot be started."
}) {}

/** An operation runs in the session, and the message may not join it. */
export class SessionBusy extends HttpApiError.Problem<SessionBusy>()("SessionBusy", {
  type: urn("session-busy"),
  status: 409,
  title: "An operation runs in the session."
}, {
  /** The running operation. */
  operation: Schema.String
}) {}

/** The operation has ended and reads no more messages. */
export class OperationEnded extends HttpApiError.Problem<OperationEnded>()("OperationEnded", {
  type: urn("operation-ended"),
  status: 409,
  title: "The operation has ended."
}) {}

/** The approval request is resolved: it was answered, has expired or was withdrawn. */
export class AlreadyEnded extends HttpApiError.Problem<AlreadyEnded>()("AlreadyEnded", {
  type: urn("already-ended"),
  status: 409,
  title: "The approval request is resolved."
}, {
  id: Schema.String,
  /** How it ended, if that is still known. */
  how: Schema.optionalKey(Schema.String),
  /** Who answered. */
  by: Schema.optionalKey(Schema.String),
  /** Kind of the answer, such as `Deny`. */
  answer: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  /** Epoch milliseconds. */
  at: Schema.optionalKey(Schema.Finite)
}) {}

/** An answer did not match its request or was invalid. None of the answers was given; `errors` say why. */
export class NotAnswered extends HttpApiError.Problem<NotAnswered>()("NotAnswered", {
  type: urn("not-answered"),
  status: 409,
  title: "Nothing was answered."
}, {
  errors: Schema.Array(Schema.Struct({
    id: Schema.String,
    reason: Schema.Literals([
      "AlreadyEnded",
      "NotTheSame",
      "NoDuration",
      "NotEditable",
      "NotAnAnswer",
      "NotNamed",
      "AlreadyApproved",
      "WrongData"
    ]),
    problem: Schema.String,
    by: Schema.optionalKey(Schema.String),
    answer: Schema.optionalKey(Schema.String),
    at: Schema.optionalKey(Schema.Finite)
  }))
}) {}

/** The checkpoint cannot be undone, or only with `force`. Nothing was written. */
export class NotUndone extends HttpApiError.Problem<NotUndone>()("NotUndone", {
  type: urn("not-undone"),
  status: 409,
  title: "Nothing was undone."
}, {
  isForceable: Schema.Boolean,
  errors: Schema.Array(Schema.Struct({ path: Schema.String, problem: Schema.String }))
}) {}

/** A limit is reached, such as of sessions, streams or requests. */
export class TooMany extends HttpApiError.Problem<TooMany>()("TooMany", {
  type: urn("too-many"),
  status: 429,
  title: "A limit has been reached."
}) {}

/** The server is about to stop, or a store does not answer. Try again. */
export class Unavailable extends HttpApiError.Problem<Unavailable>()("Unavailable", {
  type: urn("unavailable"),
  status: 503,
  title: "The service is unavailable. Try again."
}) {}

/** The body is too large or too deeply nested. */
export class TooLarge extends HttpApiError.Problem<TooLarge>()("TooLarge", {
  type: urn("too-large"),
  status: 413,
  title: "The request is too large."
}) {}

/** The body did not arrive in time. */
export class TooSlow extends HttpApiError.Problem<TooSlow>()("TooSlow", {
  type: urn("too-slow"),
  status: 408,
  title: "The request did not arrive in time."
}) {}

/** The content type is not JSON. Pages of other sites can send every other type. */
export class NotJson extends HttpApiError.Problem<NotJson>()("NotJson", {
  type: urn("not-json"),
  status: 415,
  title: "The content type must be application/json."
}) {}

/** The path exists, but not for this method; `Allow` lists the methods. */
export class WrongMethod extends HttpApiError.Problem<WrongMethod>()("WrongMethod", {
  type: urn("wrong-method"),
  status: 405,
  title: "The path does not support this method."
}) {}

/** The request names another host. */
export class WrongHost extends HttpApiError.Problem<WrongHost>()("WrongHost", {
  type: urn("wrong-host"),
  status: 421,
  title: "The request names another host."
}) {}

/** The request comes from a page of another site. */
export class WrongOrigin extends HttpApiError.Problem<WrongOrigin>()("WrongOrigin", {
  type: urn("wrong-origin"),
  status: 403,
  title: "Requests from pages of other sites are refused."
}) {}

/** The server failed; its log has the cause. */
export class Failed extends HttpApiError.Problem<Failed>()("Failed", {
  type: urn("failed"),
  status: 500,
  title: "The server failed."
}) {}
