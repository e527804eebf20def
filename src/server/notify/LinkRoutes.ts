/**
 * The routes of links that answer an approval request (`/links/TOKEN`).
 *
 * Reading a link shows the request and changes nothing, so that previews of chat services, scanners and prefetches never
 * answer. Only the form of that page answers, once, for this call, as the person of the link. Their rights are checked
 * each time.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import type { HttpServerError } from "effect/http/HttpServerError"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as RequestBody from "../api/RequestBody.ts"
import { ClientAddress } from "../guard/ClientAddress.ts"
import { Limits } from "../guard/Limits.ts"
import { TokenBuckets } from "../guard/TokenBuckets.ts"
import { SessionDirectory } from "../sessions/SessionDirectory.ts"
import type { AccessError } from "../users/Access.ts"
import { orUnavailable } from "../users/Access.ts"
import * as AnswerLinks from "./AnswerLinks.ts"
import * as LinkAnswer from "./LinkAnswer.ts"
import * as LinkPages from "./LinkPages.ts"
import * as LinkWrite from "./LinkWrite.ts"

/** Layer of the routes. Without `AnswerLinks` there are none. */
export const layer: Layer.Layer<
  never,
  never,
  ClientAddress | HttpRouter.HttpRouter | Limits | SessionDirectory
> = Layer.effectDiscard(Effect.gen(function*() {
  const links = Option.getOrUndefined(yield* Effect.serviceOption(AnswerLinks.AnswerLinks))
  if (links === undefined) return
  const directory = yield* SessionDirectory
  const callers = yield* ClientAddress
  const limits = yield* Limits
  const router = yield* HttpRouter.HttpRouter
  const wrong = new TokenBuckets(wrongLinks)

  /** The person and the pending request of a link; fails with the page that says why there is none. */
  const open = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
    const now = yield* Clock.currentTimeMillis
    const { address } = callers.of(request)
    const reading = yield* limits.knock(address)
    const link = links.read(tokenIn(request.url))
    if (link === undefined) {
      const isTooMany = wrong.take(address, now) > 0
      return yield* Effect.fail(isTooMany ? LinkAnswer.pages.tooMany : LinkAnswer.pages.unknown)
    }
    if (link.expiresAt <= now) return yield* Effect.fail(LinkAnswer.pages.expired)
    const user = Option.getOrUndefined(yield* links.personOf(link.person))
    if (user === undefined) return yield* Effect.fail(LinkAnswer.pages.notAllowed)
    yield* limits.enter(user.name)
    const approval = yield* directory.approval(user, link.request)
    if (!("hash" in approval)) return yield* Effect.fail(LinkAnswer.ended(approval))
    const refused = AnswerLinks.refusedAs(user, approval, now)
    if (refused !== undefined) return yield* Effect.fail(LinkAnswer.refused(refused, approval))
    return { user, approval, reading, write: yield* LinkWrite.read(directory, user, approval) }
  })

  const show = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
    const { approval, user, write } = yield* open(request)
    const url = `/#/approvals/${encodeURIComponent(approval.id)}`
    return { status: 200, body: LinkPages.confirm(approval, { person: user.name, write, url }) }
  })

  const answer = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
    if (!isForm.test(request.headers["content-type"] ?? "")) return yield* Effect.fail(LinkAnswer.pages.noForm)
    const { approval, reading, user, write } = yield* open(request)
    yield* reading(RequestBody.take(mostBytes, patience))
    const fields = new URLSearchParams(yield* request.text)
    const given = LinkAnswer.read(fields, approval, LinkPages.mayApprove(approval, write))
    if (Result.isFailure(given)) return yield* Effect.fail(given.failure)
    return LinkAnswer.done(user.name, yield* directory.answer(user, { id: approval.id, ...given.success }))
  })

  yield* router.add("GET", "/links/*", (request) => responded(show(request)))
  yield* router.add("POST", "/links/*", (request) => responded(answer(request)))
}))

/** Wrong links of one address: burst, and rate per second. */
const wrongLinks = { burst: 20, perSecond: 1 / 3 }

/** Bytes of a form, and milliseconds for it to arrive. */
const mostBytes = 100_000
const patience = 15_000

const isForm = /^application\/x-www-form-urlencoded *(?:;|$)/i

const tokenIn = (url: string): string => /^\/links\/([\w.-]+)$/.exec(url)?.[1] ?? ""

/** Each failure is a page, too: whoever opened the link is a person. */
const responded = <R>(
  page: Effect.Effect<LinkAnswer.Page, AccessError | HttpServerError | LinkAnswer.Page | LinkAnswer.Problem, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, never, R> =>
  orUnavailable(page).pipe(
    Effect.catch((failed) => {
      if (!("_tag" in failed)) return Effect.succeed(failed)
      // the guard answers these
      return failed._tag === "HttpServerError" ? Effect.die(failed) : Effect.succeed(LinkAnswer.ofProblem(failed))
    }),
    Effect.map(({ body, status }) =>
      HttpServerResponse.text(body, { status, contentType: "text/html; charset=utf-8", headers: LinkPages.headers() })
    )
  )
