/**
 * Problems that the API answers with (RFC 9457, `application/problem+json`), told apart by `type`.
 *
 * A request without a valid token is told nothing but that. A resource of another user is not found (404), like one that does
 * not exist.
 */
import { Problem } from "effect/http-api/HttpApiError"
import * as Schema from "effect/Schema"

const of = <const Name extends string, const Status extends number>(name: Name, status: Status, title: string) =>
  ({ type: `urn:tool-executor:problem:${name}`, status, title }) as const

/** The request has no valid token; it is not said what is wrong with it. */
export class Unauthorized
  extends Problem<Unauthorized>()("Unauthorized", of("unauthorized", 401, "A valid token is required."))
{}

/** The user does not have the right, such as to approve. */
export class NotAllowed
  extends Problem<NotAllowed>()("NotAllowed", of("not-allowed", 403, "You do not have permission to do that."))
{}

/** The resource does not exist, or belongs to another user. */
export class NotFound extends Problem<NotFound>()("NotFound", of("not-found", 404, "Not found.")) {}

/** The request is invalid; `errors` say where. */
export class Invalid extends Problem<Invalid>()("Invalid", of("invalid", 400, "The request is invalid."), {
  errors: Schema.Array(Schema.Struct({
    /** Path, such as `message.tool_calls[0].id`; empty for the whole. */
    path: Schema.String,
    problem: Schema.String,
    expected: Schema.optionalKey(Schema.String)
  }))
}) {}

/** The name belongs to a wave with another message, or its calls run elsewhere. */
export class WaveConflict
  extends Problem<WaveConflict>()("WaveConflict", of("wave-conflict", 409, "The wave cannot be run."))
{}

/**
 * The stored record of the wave is damaged or has another version. Its calls may have run, so they are not run again
 * under this name.
 */
export class WaveUnreadable
  extends Problem<WaveUnreadable>()("WaveUnreadable", of("wave-unreadable", 410, "The stored wave cannot be read."))
{}

/** The name belongs to an operation with another agent or prompt. */
export class OperationConflict extends Problem<OperationConflict>()(
  "OperationConflict",
  of("operation-conflict", 409, "The operation cannot be started.")
) {}

/** An operation runs in the session, and the message may not join it. */
export class SessionBusy
  extends Problem<SessionBusy>()("SessionBusy", of("session-busy", 409, "An operation runs in the session."), {
    /** The running operation. */
    operation: Schema.String
  })
{}

/** The operation has ended and reads no more messages. */
export class OperationEnded
  extends Problem<OperationEnded>()("OperationEnded", of("operation-ended", 409, "The operation has ended."))
{}

/** The approval request is resolved: it was answered, has expired or was withdrawn. */
export class AlreadyEnded
  extends Problem<AlreadyEnded>()("AlreadyEnded", of("already-ended", 409, "The approval request is resolved."), {
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
  })
{}

/** An answer did not match its request or was invalid. None of the answers was given; `errors` say why. */
export class NotAnswered
  extends Problem<NotAnswered>()("NotAnswered", of("not-answered", 409, "Nothing was answered."), {
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
  })
{}

/** The checkpoint cannot be undone, or only with `force`. Nothing was written. */
export class NotUndone extends Problem<NotUndone>()("NotUndone", of("not-undone", 409, "Nothing was undone."), {
  isForceable: Schema.Boolean,
  errors: Schema.Array(Schema.Struct({ path: Schema.String, problem: Schema.String }))
}) {}

/** A limit is reached, such as of sessions, streams or requests. */
export class TooMany extends Problem<TooMany>()("TooMany", of("too-many", 429, "A limit has been reached.")) {}

/** The server is about to stop, or a store does not answer. Try again. */
export class Unavailable
  extends Problem<Unavailable>()("Unavailable", of("unavailable", 503, "The service is unavailable. Try again."))
{}

/** The body is too large or too deeply nested. */
export class TooLarge extends Problem<TooLarge>()("TooLarge", of("too-large", 413, "The request is too large.")) {}

/** The body did not arrive in time. */
export class TooSlow
  extends Problem<TooSlow>()("TooSlow", of("too-slow", 408, "The request did not arrive in time."))
{}

/** The content type is not JSON. Pages of other sites can send every other type. */
export class NotJson
  extends Problem<NotJson>()("NotJson", of("not-json", 415, "The content type must be application/json."))
{}

/** The path exists, but not for this method; `Allow` lists the methods. */
export class WrongMethod
  extends Problem<WrongMethod>()("WrongMethod", of("wrong-method", 405, "The path does not support this method."))
{}

/** The request names another host. */
export class WrongHost
  extends Problem<WrongHost>()("WrongHost", of("wrong-host", 421, "The request names another host."))
{}

/** The request comes from a page of another site. */
export class WrongOrigin extends Problem<WrongOrigin>()(
  "WrongOrigin",
  of("wrong-origin", 403, "Requests from pages of other sites are refused.")
) {}

/** The server failed; its log has the cause. */
export class Failed extends Problem<Failed>()("Failed", of("failed", 500, "The server failed.")) {}
