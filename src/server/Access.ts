/**
 * Who may do what: gives the user of a token.
 *
 * A host that has users of its own provides the service; `Access.layer` has a list of them,
 * with the hashes of their tokens.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type { User } from "./ApiAccess.ts"

/**
 * The users.
 *
 * @category services
 * @since 0.1.0
 */
export class Access extends Context.Service<Access, {
  /** The user of a token; `None` where it is wrong or its time is over. */
  readonly userOf: (token: Redacted.Redacted<string>) => Effect.Effect<Option.Option<User>>
}>()("effect-tool-executor/server/Access") {}
