/**
 * Calls in a revision of the protocol without sessions: an approval request is the result of one request, and its
 * answer arrives with the next. The call waits in between.
 *
 * What a client gets to bring back (`requestState`) says which call it is, and is good for one request: of the same
 * principal, for the same call, about what was shown, within its time. It is authenticated with a key of this process.
 */
import { hmac } from "@noble/hashes/hmac.js"
import { sha256 } from "@noble/hashes/sha2.js"
import * as McpSchema from "effect/ai/McpSchema"
import * as Clock from "effect/Clock"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Hex from "effect/encoding/Hex"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import type { ApprovalRequest, Approvals } from "../core/gates/Approvals.ts"
import { canonicalJson } from "../internal/canonicalJson.ts"
import * as Elicitation from "./Elicitation.ts"
import type { Ended } from "./SessionCalls.ts"

/** Who calls what. */
export interface Caller {
  readonly principal: string
  readonly name: string
  readonly args: unknown
  /** Whether its client can ask its person. */
  readonly canAsk: boolean
  /** Whether an approval may hold for more than this call: only if the principal is identified. */
  readonly isKnown: boolean
}

/** Has a question put to a person, until it is withdrawn. */
export type Ask = (request: ApprovalRequest) => Effect.Effect<void>

/** A call that may wait between requests. */
export interface Waiting {
  readonly id: string
  readonly caller: Caller
  readonly process: ToolProcess
  readonly callId: string
  readonly fiber: Fiber.Fiber<Ended, McpSchema.InvalidParams>
  /** Pending approval requests, each with a note to show above it. */
  readonly open: Map<string, { readonly request: ApprovalRequest; readonly note: string | undefined }>
  /** What the client brings back; nothing while a request is under way. */
  ticket: Ticket | undefined
  readonly asked: { signal: Deferred.Deferred<void> }
}

interface Ticket {
  readonly nonce: string
  readonly until: number
  /** What was shown, by question. */
  readonly shown: ReadonlyMap<string, ApprovalRequest>
  readonly digest: string
  readonly expiry: Fiber.Fiber<unknown>
  /** Characters of the call's arguments. */
  readonly size: number
}

/** The calls of all principals. */
export interface RoundTrips {
  /** Starts a call; `run` gets the function that shows approval requests. */
  readonly begin: (
    caller: Caller,
    of: { readonly process: ToolProcess; readonly callId: string },
    run: (ask: Ask) => Effect.Effect<Ended, McpSchema.InvalidParams>
  ) => Effect.Effect<Waiting>
  /** Takes up a call, with the answers that came; fails where the state is not good here. */
  readonly resume: (
    caller: Caller,
    state: string,
    answers: Readonly<Record<string, McpSchema.McpInputResponse>>
  ) => Effect.Effect<Waiting, McpSchema.InvalidParams>
  /** Waits until the call has ended, or a person is to be asked. */
  readonly next: (waiting: Waiting) => Effect.Effect<Ended | McpSchema.InputRequired, McpSchema.InvalidParams>
  readonly cancel: (waiting: Waiting) => Effect.Effect<void>
  /** A name for a secret, which says nothing about it. */
  readonly nameOf: (secret: string) => string
}

/** Creates what keeps the calls, for as long as a scope; each waits for an answer for some time. */
export const make = Effect.fnUntraced(function*(
  approvals: Approvals["Service"] | undefined,
  options: { readonly timeToLive: Duration.Input; readonly isElsewhere: boolean }
): Effect.fn.Return<RoundTrips, never, Scope.Scope> {
  const scope = yield* Effect.scope
  const key = SecureRandom.randomBytesUnsafe(32)
  const timeToLive = Duration.fromInputUnsafe(options.timeToLive)
  const known = new Map<string, Waiting>()
  const sealOf = (payload: string, { args, name, principal }: Caller, digest: string): string =>
    macOf(key, canonicalJson([payload, principal, name, args ?? {}, digest]))
  const giveUp = (id: string) => options.isElsewhere || approvals === undefined ? Effect.void : approvals.giveUp(id)

  const askOf = (waiting: Waiting): Ask => (request) => {
    const { asked, caller, open } = waiting
    if (!caller.canAsk) return giveUp(request.id)
    // an unidentified principal approves only this call
    const shown = caller.isKnown ? request : { ...request, remember: "call" as const }
    return Effect.sync(() => {
      open.set(request.id, { request: shown, note: undefined })
      Deferred.doneUnsafe(asked.signal, Effect.void)
    }).pipe(
      Effect.andThen(Effect.never),
      Effect.ensuring(Effect.sync(() => open.delete(request.id)))
    )
  }

  const cancel = (waiting: Waiting) =>
    Effect.suspend(() => {
      waiting.ticket = undefined
      known.delete(waiting.id)
      return Fiber.interrupt(waiting.fiber)
    })
  const isRoomFor = ({ principal }: Caller, size: number): boolean => {
    let chars = size
    let own = 0
    let all = 0
    for (const { caller, ticket } of known.values()) {
      if (ticket === undefined) continue
      chars += ticket.size
      all++
      if (caller.principal === principal) own++
    }
    return chars <= maxChars && all < maxWaiting && own < maxOwn
  }

  const requestInput = (waiting: Waiting, size: number) =>
    Effect.gen(function*() {
      const nonce = randomText()
      const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(timeToLive)
      const forms = Array.from(waiting.open, ([id, { note, request }]) =>
        [id, Elicitation.formFor(request, note)] as const)
      const digest = macOf(key, canonicalJson(forms))
      const payload = Base64Url.encode(JSON.stringify([waiting.id, nonce, until]))
      const expiry = yield* Effect.forkIn(
        Effect.andThen(
          Effect.sleep(timeToLive),
          Effect.suspend(() => {
            waiting.ticket = undefined
            known.delete(waiting.id)
            return Fiber.interrupt(waiting.fiber)
          })
        ),
        scope
      )
      const shown = new Map(Array.from(waiting.open, ([id, { request }]) => [id, request]))
      waiting.ticket = { nonce, until, shown, digest, expiry, size }
      return new McpSchema.InputRequired({
        inputRequests: Object.fromEntries(
          forms.map(([id, params]) => [id, { method: "elicitation/create" as const, params }])
        ),
        requestState: `${payload}.${sealOf(payload, waiting.caller, digest)}`
      })
    })

  const settle = (waiting: Waiting, id: string, request: ApprovalRequest, answer: McpSchema.McpInputResponse) =>
    Effect.suspend(() => {
      const read = Elicitation.answerTo(request, answer)
      // it is asked again
      if (typeof read === "string") {
        waiting.open.set(id, { request, note: read })
        return Effect.void
      }
      waiting.open.delete(id)
      return Option.isNone(read) || approvals === undefined
        ? giveUp(id)
        : Effect.catch(approvals.answer(id, read.value, request), () => giveUp(id))
    })

  const unfit = new McpSchema.InvalidParams({
    message: "This requestState is invalid or expired. Repeat the call without it."
  })

  return {
    nameOf: (secret) => macOf(key, secret).slice(0, 32),
    begin: (caller, of, run) =>
      Effect.gen(function*() {
        const id = randomText()
        const open: Waiting["open"] = new Map()
        const started = Deferred.makeUnsafe<Waiting>()
        const fiber = yield* Effect.forkIn(
          Effect.flatMap(Deferred.await(started), (waiting) => run(askOf(waiting))).pipe(
            Effect.ensuring(Effect.sync(() => open.clear()))
          ),
          scope
        )
        const waiting: Waiting = {
          ...of,
          id,
          caller,
          fiber,
          open,
          ticket: undefined,
          asked: { signal: Deferred.makeUnsafe() }
        }
        known.set(id, waiting)
        Deferred.doneUnsafe(started, Effect.succeed(waiting))
        return waiting
      }),
    resume: (caller, state, answers) =>
      Effect.gen(function*() {
        const [, payload = "", seal = ""] = /^([\w-]{1,500})\.([0-9a-f]{64})$/.exec(state) ?? []
        const waiting = known.get(idIn(payload))
        const ticket = waiting?.ticket
        if (waiting === undefined || ticket === undefined) return yield* unfit
        const isSame = isEqual(seal, sealOf(payload, caller, ticket.digest)) &&
          payload === Base64Url.encode(JSON.stringify([waiting.id, ticket.nonce, ticket.until]))
        if (!isSame || ticket.until <= (yield* Clock.currentTimeMillis)) return yield* unfit
        waiting.ticket = undefined
        yield* Fiber.interrupt(ticket.expiry)
        for (const [id, request] of ticket.shown) {
          const answer = Object.hasOwn(answers, id) ? answers[id] : undefined
          if (answer !== undefined && waiting.open.has(id)) yield* settle(waiting, id, request, answer)
        }
        return waiting
      }),
    next: (waiting) => {
      const asked: Effect.Effect<void> = Effect.suspend(() => {
        if (waiting.open.size > 0) return Effect.void
        waiting.asked.signal = Deferred.makeUnsafe()
        return Effect.andThen(Deferred.await(waiting.asked.signal), asked)
      })
      return Effect.gen(function*() {
        while (true) {
          const ended = yield* Effect.raceFirst(
            Effect.map(Fiber.join(waiting.fiber), Option.some),
            Effect.as(asked, Option.none<Ended>())
          )
          if (Option.isSome(ended)) {
            known.delete(waiting.id)
            return ended.value
          }
          const size = canonicalJson(waiting.caller.args ?? {}).length
          if (isRoomFor(waiting.caller, size)) return yield* requestInput(waiting, size)
          const ids = Array.from(waiting.open.keys())
          waiting.open.clear()
          yield* Effect.forEach(ids, giveUp, { discard: true })
        }
      })
    },
    cancel
  }
})

/**
 * Maximum number of calls with pending approvals, per principal and in total, and of characters of their arguments.
 * More approval requests are given up.
 */
const maxOwn = 1_000
const maxWaiting = 5_000
const maxChars = 64_000_000

const utf8 = new TextEncoder()

const macOf = (key: Uint8Array, text: string): string => Hex.encode(hmac(sha256, key, utf8.encode(text)))

const randomText = (): string => Hex.encode(SecureRandom.randomBytesUnsafe(16))

/** In a time that says nothing about where they differ. */
const isEqual = (a: string, b: string): boolean => {
  let difference = a.length ^ b.length
  for (let n = 0; n < b.length; n++) difference |= a.charCodeAt(n) ^ b.charCodeAt(n)
  return difference === 0
}

const idIn = (payload: string): string => {
  const text = Option.getOrElse(Option.getSuccess(Base64Url.decodeString(payload)), () => "")
  return /^\["([0-9a-f]{32})",/.exec(text)?.[1] ?? ""
}
