/**
 * What the API answers where it does not do what it was asked: problems of RFC 9457
 * (`application/problem+json`), told apart by their `type`.
 *
 * A request without a valid token is answered with nothing at all (401), and what is
 * somebody else's is as unknown as what is nobody's (404).
 *
 * @since 0.1.0
 */
import * as HttpApiError from "effect/http-api/HttpApiError"
import * as Schema from "effect/Schema"

const urn = <const Name extends string>(name: Name) => `urn:tool-executor:problem:${name}` as const

/**
 * The request has no valid token, and learns nothing.
 *
 * @category errors
 * @since 0.1.0
 */
export const Unauthorized = HttpApiError.UnauthorizedNoContent

/**
 * Who asks may not do that at all, such as to approve.
 *
 * @category errors
 * @since 0.1.0
 */
export class NotAllowed extends HttpApiError.Problem<NotAllowed>()("NotAllowed", {
  type: urn("not-allowed"),
  status: 403,
  title: "You may not do that."
}) {}

/**
 * There is no such thing, or none of this user's.
 *
 * @category errors
 * @since 0.1.0
 */
export class NotFound extends HttpApiError.Problem<NotFound>()("NotFound", {
  type: urn("not-found"),
  status: 404,
  title: "There is no such thing."
}) {}

/**
 * The request is wrong: `errors` say where.
 *
 * @category errors
 * @since 0.1.0
 */
export class Invalid extends HttpApiError.Problem<Invalid>()("Invalid", {
  type: urn("invalid"),
  status: 400,
  title: "The request is not valid."
}, {
  errors: Schema.Array(Schema.Struct({
    /** Where, such as `message.tool_calls[0].id`; empty: the whole. */
    path: Schema.String,
    problem: Schema.String,
    expected: Schema.optionalKey(Schema.String)
  }))
}) {}

/**
 * The id is that of another wave, or its calls are under way elsewhere.
 *
 * @category errors
 * @since 0.1.0
 */
export class WaveConflict extends HttpApiError.Problem<WaveConflict>()("WaveConflict", {
  type: urn("wave-conflict"),
  status: 409,
  title: "The wave cannot be taken."
}) {}

/**
 * What is stored of the wave cannot be read: it is damaged, or another release of the server has stored it. Its calls
 * may have run, so they are not run again under this name.
 *
 * @category errors
 * @since 0.1.0
 */
export class WaveUnreadable extends HttpApiError.Problem<WaveUnreadable>()("WaveUnreadable", {
  type: urn("wave-unreadable"),
  status: 410,
  title: "The stored wave cannot be read."
}) {}

/**
 * The approval request is over: somebody was first, its time ran out, or nobody waits any more.
 *
 * @category errors
 * @since 0.1.0
 */
export class AlreadyEnded extends HttpApiError.Problem<AlreadyEnded>()("AlreadyEnded", {
  type: urn("already-ended"),
  status: 409,
  title: "The approval is over."
}, {
  id: Schema.String,
  /** How it ended, where that is still known. */
  how: Schema.optionalKey(Schema.String),
  /** Who answered. */
  by: Schema.optionalKey(Schema.String),
  /** Epoch milliseconds. */
  at: Schema.optionalKey(Schema.Finite)
}) {}

/**
 * The answer was to something else than what is asked, or is not one: nothing was
 * answered, none of several, either. `errors` say which and why.
 *
 * @category errors
 * @since 0.1.0
 */
export class NotAnswered extends HttpApiError.Problem<NotAnswered>()("NotAnswered", {
  type: urn("not-answered"),
  status: 409,
  title: "Nothing was answered."
}, {
  errors: Schema.Array(Schema.Struct({
    id: Schema.String,
    reason: Schema.Literals(["AlreadyEnded", "NotTheSame", "NoDuration", "NotEditable", "NotAnAnswer"]),
    problem: Schema.String,
    by: Schema.optionalKey(Schema.String),
    at: Schema.optionalKey(Schema.Finite)
  }))
}) {}

/**
 * What cannot be undone, or not without `force`; nothing was written.
 *
 * @category errors
 * @since 0.1.0
 */
export class NotUndone extends HttpApiError.Problem<NotUndone>()("NotUndone", {
  type: urn("not-undone"),
  status: 409,
  title: "Nothing was undone."
}, {
  isForceable: Schema.Boolean,
  errors: Schema.Array(Schema.Struct({ path: Schema.String, problem: Schema.String }))
}) {}

/**
 * Something is at its bound: sessions, streams, requests in a while.
 *
 * @category errors
 * @since 0.1.0
 */
export class TooMany extends HttpApiError.Problem<TooMany>()("TooMany", {
  type: urn("too-many"),
  status: 429,
  title: "A limit is reached."
}) {}

/**
 * The server is about to stop, or a store cannot be asked: try again.
 *
 * @category errors
 * @since 0.1.0
 */
export class Unavailable extends HttpApiError.Problem<Unavailable>()("Unavailable", {
  type: urn("unavailable"),
  status: 503,
  title: "This is not possible now. Try again."
}) {}

/**
 * The request's body, or what is nested in it, is larger than what is taken.
 *
 * @category errors
 * @since 0.1.0
 */
export class TooLarge extends HttpApiError.Problem<TooLarge>()("TooLarge", {
  type: urn("too-large"),
  status: 413,
  title: "The request is too large."
}) {}

/**
 * The request's body did not come in time.
 *
 * @category errors
 * @since 0.1.0
 */
export class TooSlow extends HttpApiError.Problem<TooSlow>()("TooSlow", {
  type: urn("too-slow"),
  status: 408,
  title: "The request did not come in time."
}) {}

/**
 * The body is not said to be JSON: pages of other sites can send everything else.
 *
 * @category errors
 * @since 0.1.0
 */
export class NotJson extends HttpApiError.Problem<NotJson>()("NotJson", {
  type: urn("not-json"),
  status: 415,
  title: "The body has to be application/json."
}) {}

/**
 * The path is there, but not for this method; `Allow` says for which.
 *
 * @category errors
 * @since 0.1.0
 */
export class WrongMethod extends HttpApiError.Problem<WrongMethod>()("WrongMethod", {
  type: urn("wrong-method"),
  status: 405,
  title: "This is not there for this method."
}) {}

/**
 * The request was sent to a name that is not this server's.
 *
 * @category errors
 * @since 0.1.0
 */
export class WrongHost extends HttpApiError.Problem<WrongHost>()("WrongHost", {
  type: urn("wrong-host"),
  status: 421,
  title: "This server is not reached by that name."
}) {}

/**
 * A page of another site sent the request.
 *
 * @category errors
 * @since 0.1.0
 */
export class WrongOrigin extends HttpApiError.Problem<WrongOrigin>()("WrongOrigin", {
  type: urn("wrong-origin"),
  status: 403,
  title: "Pages of other sites may not do that."
}) {}

/**
 * A mistake of the server, of which its log has the rest.
 *
 * @category errors
 * @since 0.1.0
 */
export class Failed extends HttpApiError.Problem<Failed>()("Failed", {
  type: urn("failed"),
  status: 500,
  title: "The server made a mistake."
}) {}
