/**
 * Signed links that answer one approval request as one person.
 *
 * A link holds who answers which request until when, and a signature by a key that only the server has. Nothing of it is
 * stored: a request is answered once, so its links work once. Who has the link can answer as its person, and nothing
 * else: there is no session, and no other request.
 */
import { hkdf } from "@noble/hashes/hkdf.js"
import { hmac } from "@noble/hashes/hmac.js"
import { sha256 } from "@noble/hashes/sha2.js"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Approvers, GivenApproval } from "../../core/vocabulary/Approvers.ts"
import { ConfigurationError, type Problem } from "../../core/vocabulary/ConfigurationError.ts"
import * as WhoApproves from "../../core/vocabulary/WhoApproves.ts"
import { OptionReader, shown } from "../../internal/OptionReader.ts"
import { covers, type User } from "../api/ApiAccess.ts"
import { Access, type AccessError, isUserName } from "../users/Access.ts"
import * as WebhookSecret from "./WebhookSecret.ts"

/** Schema of what a link says. */
export const Link = Schema.Struct({
  /** The id of the approval request. */
  request: Schema.NonEmptyString,
  /** Who answers. */
  person: Schema.NonEmptyString,
  /** Epoch milliseconds. */
  expiresAt: Schema.Finite
})

/** What a link says. */
export type Link = typeof Link.Type

/** A request as far as its links are about it. */
export interface About {
  readonly id: string
  readonly user: string
  readonly requestedAt: number
  readonly expiresAt: number | "unlimited"
  readonly approvers?: ReadonlyArray<Approvers> | undefined
  readonly approvals?: ReadonlyArray<GivenApproval> | undefined
}

/** A link of a person. */
export interface PersonLink {
  readonly person: string
  readonly url: string
}

/** Makes and reads links. */
export class AnswerLinks extends Context.Service<AnswerLinks, {
  /**
   * Links for the people who may approve a request now. None where several different people have to: one reader of the
   * notification could answer as all of them.
   */
  readonly of: (request: About) => Effect.Effect<ReadonlyArray<PersonLink>>
  /** Reads a token; `undefined` if this server did not sign it. It may have expired. */
  readonly read: (token: string) => Link | undefined
  /** The user who answers by links of a name; `None` if they may no longer. */
  readonly personOf: (name: string) => Effect.Effect<Option.Option<User>, AccessError>
}>()("effect-tool-executor/server/AnswerLinks") {}

/** Options of links. */
export interface Options {
  /** The secret of the webhook, from which the key is derived. */
  readonly secret: Redacted.Redacted<string>
  /** Address under which people reach the server. */
  readonly publicUrl: string
  /** Names of the users who get links. Each receiver of the notification can answer as each of them. */
  readonly people: ReadonlyArray<string>
  /** How long a link works, unless its request expires earlier. Default 24 hours. */
  readonly validFor?: Duration.Input | undefined
}

/** Layer of the links. It needs an `Access` that finds users by name. */
export const layer = (options: Options): Layer.Layer<AnswerLinks, ConfigurationError, Access> =>
  Layer.effect(AnswerLinks, make(options))

const make = Effect.fnUntraced(function*(
  options: Options
): Effect.fn.Return<AnswerLinks["Service"], ConfigurationError, Access> {
  const { userNamed } = yield* Access
  const { base, key, people, validFor } = yield* check(options, userNamed !== undefined)
  const find = userNamed ?? (() => Effect.succeedNone)

  const personOf = (name: string): Effect.Effect<Option.Option<User>, AccessError> =>
    people.has(name)
      ? Effect.map(find(name), Option.filter((it) => it.name === name && isUserName(it.name)))
      : Effect.succeedNone

  const linkOf = (request: About, now: number) => (name: string) =>
    Effect.map(personOf(name), (user) =>
      Option.isSome(user) && isAsked(user.value, request, now)
        ? [{
          person: name,
          url: `${base}/links/${
            sign(key, {
              request: request.id,
              person: name,
              expiresAt: Math.min(now + validFor, request.expiresAt === "unlimited" ? Infinity : request.expiresAt)
            })
          }`
        }]
        : [])

  return AnswerLinks.of({
    of: Effect.fnUntraced(function*(request) {
      if (!isForOne(request)) return []
      const now = yield* Clock.currentTimeMillis
      const each = Effect.forEach(Array.from(people), linkOf(request, now))
      // a notification without links is better than none
      return yield* Effect.catch(
        Effect.map(each, (it) => it.flat()),
        (error) => Effect.as(Effect.logWarning(error.message, error.cause), [])
      )
    }),
    read: (token) => read(key, token),
    personOf
  })
})

/** Tells whether one link is enough: of several, one reader could answer as all of their people. */
export const isForOne = ({ approvers = [] }: Pick<About, "approvers">): boolean =>
  approvers.length <= 1 && WhoApproves.isForOne(approvers)

/** Tells whether the approval of a user is still needed. */
export const isAsked = (user: User, request: About, now: number): boolean =>
  covers(user.approve, request.user) && refusedAs(user, request, now) === undefined

/** Why a user cannot approve a request, as far as it names its approvers. */
export const refusedAs = (
  { name, roles }: User,
  { approvals = [], approvers = [], requestedAt, user }: About,
  now: number
): "Approved" | "NotNamed" | undefined =>
  approvals.some((it) => WhoApproves.isSame(it.person, name))
    ? "Approved"
    : approvers.length === 0 || WhoApproves.isNamed(approvers, { name, roles }, now, { principal: user, requestedAt })
    ? undefined
    : "NotNamed"

const check = (options: Options, hasNames: boolean) =>
  Effect.suspend(() => {
    const problems: Array<Problem> = []
    const key = WebhookSecret.keyOf(options.secret)
    if (key === undefined) problems.push(WebhookSecret.problem)
    const publicUrl = WebhookSecret.addressOf(options.publicUrl)
    if (publicUrl === undefined) {
      problems.push({ path: "publicUrl", problem: "it is not a valid address", expected: "an http or https URL" })
    }
    if (options.people.length === 0) {
      problems.push({ path: "people", problem: "there is none", expected: "at least one name of a user" })
    }
    options.people.forEach((name, index) => {
      if (!isUserName(name)) {
        problems.push({ path: `people[${index}]`, problem: `it is ${shown(name)}`, expected: "the name of a user" })
      }
    })
    if (!hasNames) {
      problems.push({
        path: "people",
        problem: "users cannot be looked up by name, so their rights cannot be checked",
        expected: "an Access with `userNamed`, or no links"
      })
    }
    const reader = new OptionReader()
    const validFor = reader.millis("validFor", options.validFor ?? "24 hours")
    problems.push(...reader.problems)
    if (problems.length > 0 || key === undefined || publicUrl === undefined) {
      return Effect.fail(new ConfigurationError({ subject: "AnswerLinks", problems }))
    }
    return Effect.succeed({
      key: keyFrom(key),
      base: WebhookSecret.baseOf(publicUrl),
      people: new Set(options.people),
      validFor
    })
  })

/** Derives the key of links from a secret that serves something else. */
export const keyFrom = (secret: Uint8Array): Uint8Array =>
  hkdf(sha256, secret, undefined, encoder.encode("effect-tool-executor/server/AnswerLinks"), 32)

/** The token of a link, for a path. */
export const sign = (key: Uint8Array, { expiresAt, person, request }: Link): string => {
  const text = JSON.stringify({ request, person, expiresAt })
  return `${Base64Url.encode(text)}.${Base64Url.encode(hmac(sha256, key, encoder.encode(text)))}`
}

/** Reads a token: `undefined` if it was not signed with this key. It may have expired. */
export const read = (key: Uint8Array, token: string): Link | undefined => {
  // more than the ids and names of any link need
  if (token.length > 4_000) return undefined
  const [, said, signature] = /^([\w-]+)\.([\w-]+)$/.exec(token) ?? []
  if (said === undefined || signature === undefined) return undefined
  const [bytes, given] = [
    Result.getOrUndefined(Base64Url.decode(said)),
    Result.getOrUndefined(Base64Url.decode(signature))
  ]
  if (bytes === undefined || given === undefined || !isEqual(given, hmac(sha256, key, bytes))) return undefined
  return Result.getOrUndefined(decode(new TextDecoder().decode(bytes)))
}

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(Link))

const encoder = new TextEncoder()

/** Takes the same time wherever they differ. */
const isEqual = (one: Uint8Array, other: Uint8Array): boolean => {
  if (one.length !== other.length) return false
  let difference = 0
  for (const [at, byte] of one.entries()) difference |= byte ^ other[at]!
  return difference === 0
}
