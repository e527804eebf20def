/** Links that answer approval requests, over real HTTP: what they show, what they change, and who they refuse. */
import { assert, describe, it } from "@effect/vitest"
import { Access, type AnswerLinks } from "effect-tool-executor/server"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Tracer from "effect/Tracer"
import * as Links from "../../../src/server/notify/AnswerLinks.ts"
import * as WebhookSecret from "../../../src/server/notify/WebhookSecret.ts"
import { Access as Users } from "../../../src/server/users/Access.ts"
import { only, type Options, start, type TestServer } from "../../support/Server.ts"

const secret = Redacted.make(`whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`)
const key = Links.keyFrom(WebhookSecret.keyOf(secret)!)

const links: AnswerLinks.Options = { secret, publicUrl: "https://tools.example.com", people: ["bob", "eve"] }

const users = only({ ada: { run: true }, bob: { approve: ["ada"] }, eve: { approve: ["ada"] } })

const inAnHour = () => Date.now() + 3_600_000

/** A server on which a call of ada waits, and what is needed to answer it. */
const asked = Effect.fnUntraced(function*(options: Options = {}, args: unknown = { path: "notes.txt", text: "new\n" }) {
  const server = yield* start({ users, links, shutdown: "20 millis", ...options })
  const events = yield* server.sse("ada", "/api/sessions/s/waves", {
    body: { message: [{ id: "1", name: "save", params: args }] }
  })
  yield* events.until(({ event }) => event === "tool_approval_request")
  const { json } = yield* server.request("bob", "GET", "/api/approvals")
  const { hash, id } = json.open[0] as { readonly id: string; readonly hash: string }
  const pathOf = (person: string, more: Partial<Links.Link> = {}) =>
    `/links/${Links.sign(key, { request: id, person, expiresAt: inAnHour(), ...more })}`
  return {
    server,
    id,
    hash,
    pathOf,
    pending: pendingOf(server),
    result: Effect.map(events.rest, (all) => JSON.stringify(all))
  }
})

const pendingOf = (server: TestServer) =>
  Effect.map(server.request("bob", "GET", "/api/approvals"), ({ json }) => json.open.length as number)

/** Sends the form as a browser does. */
const submit = (
  server: TestServer,
  path: string,
  fields: Readonly<Record<string, string>>,
  headers: Readonly<Record<string, string>> = {}
) =>
  server.request(undefined, "POST", path, {
    body: new URLSearchParams(fields).toString(),
    headers: { "content-type": "application/x-www-form-urlencoded", origin: server.url, ...headers }
  })

describe("a link", () => {
  it.live(
    "shows the request when it is opened, and changes nothing, however often bots open it",
    () =>
      Effect.gen(function*() {
        const { pathOf, pending, server } = yield* asked()
        const path = pathOf("bob")
        for (const method of ["GET", "HEAD", "GET"]) {
          const { headers, status, text } = yield* server.request(undefined, method, path, {
            headers: { "sec-purpose": "prefetch", "sec-fetch-site": "cross-site" }
          })
          assert.strictEqual(status, 200)
          assert.include(headers.get("content-security-policy")!, "default-src 'none'; style-src 'sha256-")
          assert.include(headers.get("content-security-policy")!, "form-action 'self'; frame-ancestors 'none'")
          assert.notInclude(headers.get("content-security-policy")!, "script-src")
          assert.strictEqual(headers.get("cache-control"), "no-store")
          assert.strictEqual(headers.get("referrer-policy"), "same-origin")
          assert.include(headers.get("x-robots-tag")!, "noindex")
          assert.strictEqual(headers.get("x-frame-options"), "DENY")
          assert.isNull(headers.get("set-cookie"))
          if (method === "HEAD") continue
          for (const words of ["bob", "save", "notes.txt", "-before", "+new", "Asked because", "Approve once"]) {
            assert.include(text, words)
          }
          assert.notMatch(text, /<script|javascript:|onclick|<link|<img/i)
        }
        assert.strictEqual(yield* pending, 1)
      }),
    { tags: ["SV32"] }
  )

  it.live("approves the call by its form, once, and then says who answered", () =>
    Effect.gen(function*() {
      const { hash, pathOf, pending, result, server } = yield* asked()
      const done = yield* submit(server, pathOf("bob"), { hash, answer: "approve", note: "only today" })
      assert.strictEqual(done.status, 200)
      assert.include(done.text, "You answered as bob")
      assert.strictEqual(yield* pending, 0)
      const said = yield* result
      assert.include(said, "saved notes.txt")
      assert.include(said, "only today")
      for (const person of ["bob", "eve"]) {
        for (
          const again of [
            submit(server, pathOf(person), { hash, answer: "deny" }),
            server.request(undefined, "GET", pathOf(person))
          ]
        ) {
          const { status, text } = yield* again
          assert.strictEqual(status, 410)
          assert.include(text, "bob")
        }
      }
      const { text } = yield* server.request("bob", "GET", "/api/grants")
      assert.notInclude(text, "save")
    }), { tags: ["SV32"] })

  it.live("denies with a reason that the model reads", () =>
    Effect.gen(function*() {
      const { hash, pathOf, result, server } = yield* asked()
      const { status } = yield* submit(server, pathOf("eve"), { hash, answer: "deny", note: "use another file" })
      assert.strictEqual(status, 200)
      const said = yield* result
      assert.include(said, "use another file")
      assert.notInclude(said, "saved notes")
    }))

  it.live("answers once when it is sent twice at the same time", () =>
    Effect.gen(function*() {
      const { hash, pathOf, server } = yield* asked()
      const all = yield* Effect.all(
        ["bob", "bob", "eve", "bob", "eve"].map((it) => submit(server, pathOf(it), { hash, answer: "approve" })),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(all.map(({ status }) => status).sort(), [200, 410, 410, 410, 410])
    }), { tags: ["SV32"] })

  it.live("takes no answer but that of its own form", () =>
    Effect.gen(function*() {
      const { hash, id, pathOf, pending, server } = yield* asked()
      const path = pathOf("bob")
      const fields = { hash, answer: "approve" }
      for (
        const [origin, site] of [
          ["https://evil.example", undefined],
          ["null", undefined],
          [server.url, "cross-site"],
          [server.url.replace("http:", "https:"), undefined]
        ] as const
      ) {
        const { status } = yield* submit(server, path, fields, {
          origin,
          ...site === undefined ? {} : { "sec-fetch-site": site }
        })
        assert.strictEqual(status, 403, `${origin} ${site}`)
      }
      const form = { "content-type": "application/x-www-form-urlencoded" }
      const status = (method: string, options: Parameters<TestServer["request"]>[3], at = path) =>
        Effect.map(server.request(undefined, method, at, options), (it) => it.status)
      const body = new URLSearchParams(fields).toString()
      const { url: origin } = server
      assert.strictEqual(yield* status("POST", { body, headers: form }), 403, "no origin")
      assert.strictEqual(yield* status("POST", { headers: { origin } }), 415, "no body")
      assert.strictEqual(yield* status("POST", { body: fields, headers: { origin } }), 415, "JSON")
      assert.strictEqual(yield* status("POST", { body: "", headers: { ...form, origin } }), 422, "empty")
      assert.strictEqual(yield* status("POST", { body: `${body}&${body}`, headers: { ...form, origin } }), 422, "twice")
      assert.strictEqual(yield* status("POST", { body: `${body}&scope=tool`, headers: { ...form, origin } }), 422)
      assert.strictEqual(
        yield* status("POST", { body: `${body}&note=${"x".repeat(2_001)}`, headers: { ...form, origin } }),
        422
      )
      assert.strictEqual(
        yield* status("POST", { body: `${body}&note=${"x".repeat(200_000)}`, headers: { ...form, origin } }),
        413
      )
      assert.strictEqual(
        yield* status("POST", { body: body.replace(hash, "0".repeat(64)), headers: { ...form, origin } }),
        409
      )
      assert.strictEqual(yield* status("POST", { body, headers: { ...form, origin } }, `${path}?x=1`), 404)
      assert.strictEqual(
        yield* status("POST", { body, headers: { ...form, origin } }, `/api/approvals/${id}/answer`),
        415
      )
      assert.strictEqual(yield* status("PUT", { body, headers: { ...form, origin } }), 404)
      assert.strictEqual(yield* status("GET", {}, `${path}?answer=approve&hash=${hash}`), 404)
      assert.strictEqual(yield* pending, 1)
    }), { tags: ["SV32"] })

  it.live(
    "that was changed, cut, signed by another key or made for another request looks like any wrong one",
    () =>
      Effect.gen(function*() {
        const { hash, id, pathOf, pending, server } = yield* asked()
        const path = pathOf("bob")
        const [said, signature] = path.slice("/links/".length).split(".") as [string, string]
        const forged = Buffer.from(JSON.stringify({ request: id, person: "eve", expiresAt: inAnHour() })).toString(
          "base64url"
        )
        const other = Links.keyFrom(Buffer.from("another key of at least 24 bytes"))
        const bodies = new Set<string>()
        for (
          const token of [
            `${forged}.${signature}`,
            `${said}.${signature.slice(0, -2)}`,
            `${said}.${signature}${signature}`,
            said,
            `${said}.`,
            ".",
            "x".repeat(5_000),
            Links.sign(other, { request: id, person: "bob", expiresAt: inAnHour() })
          ]
        ) {
          const shown = yield* server.request(undefined, "GET", `/links/${token}`)
          const sent = yield* submit(server, `/links/${token}`, { hash, answer: "approve" })
          assert.deepStrictEqual([shown.status, sent.status], [404, 404], token)
          bodies.add(shown.text).add(sent.text)
        }
        assert.strictEqual(bodies.size, 1)
        const strange = yield* submit(server, pathOf("bob", { request: "another" }), { hash, answer: "approve" })
        assert.strictEqual(strange.status, 404)
        assert.strictEqual(yield* pending, 1)
      }),
    { tags: ["SV33"] }
  )

  it.live("stops a client that tries many", () =>
    Effect.gen(function*() {
      const { pathOf, server } = yield* asked()
      const statuses = yield* Effect.forEach(
        Array.from({ length: 25 }),
        (_, index) => Effect.map(server.request(undefined, "GET", `/links/x${index}.y`), ({ status }) => status)
      )
      assert.deepStrictEqual([statuses[0], statuses.at(-1)], [404, 429])
      assert.strictEqual((yield* server.request(undefined, "GET", pathOf("bob"))).status, 200)
    }))

  it.live("does not work once it has expired", () =>
    Effect.gen(function*() {
      const { hash, pathOf, pending, server } = yield* asked()
      const path = pathOf("bob", { expiresAt: Date.now() - 1 })
      assert.strictEqual((yield* server.request(undefined, "GET", path)).status, 410)
      assert.strictEqual((yield* submit(server, path, { hash, answer: "approve" })).status, 410)
      assert.strictEqual(yield* pending, 1)
    }))

  it.live(
    "does not work for a user who was removed, has lost the right, or is not among the people",
    () =>
      Effect.gen(function*() {
        const rights = { roles: [], run: false, records: [], operate: false }
        const now = new Map([["bob", ["ada"]], ["eve", ["ada"]], ["ops", ["*"]]])
        const userOf = (name: string) =>
          Option.map(Option.fromUndefinedOr(now.get(name)), (approve) => ({ name, ...rights, approve }))
        const base = yield* Layer.build(Access.layer({ users }))
        const access = Layer.effect(
          Users,
          Effect.map(Users, (it) => ({
            ...it,
            userNamed: (name: string) => Effect.sync(() => userOf(name))
          }))
        ).pipe(Layer.provide(Layer.succeedContext(base)))
        const { hash, pathOf, pending, server } = yield* asked({ access })
        const statuses = Effect.fnUntraced(function*(person: string) {
          const shown = yield* server.request(undefined, "GET", pathOf(person))
          const sent = yield* submit(server, pathOf(person), { hash, answer: "approve" })
          return [shown.status, sent.status]
        })
        assert.deepStrictEqual(yield* statuses("ops"), [403, 403])
        now.set("eve", ["cy"])
        assert.deepStrictEqual(yield* statuses("eve"), [404, 404])
        now.delete("eve")
        assert.deepStrictEqual(yield* statuses("eve"), [403, 403])
        assert.strictEqual(yield* pending, 1)
        assert.deepStrictEqual(yield* statuses("bob"), [200, 200])
      }),
    { tags: ["SV32"] }
  )

  it.live("shows hostile text as text, with its invisible characters written out", () =>
    Effect.gen(function*() {
      const { pathOf, server } = yield* asked({}, {
        path: "<script>alert(1)</script>\u202Etxt.exe",
        text: "</pre><form action=https://evil.example>\u{E0041}\n"
      })
      const { text } = yield* server.request(undefined, "GET", pathOf("bob"))
      assert.notInclude(text, "<script>")
      assert.notInclude(text, "<form action")
      assert.notInclude(text, "\u202E")
      assert.notInclude(text, "\u{E0041}")
      assert.include(text, "&lt;script&gt;alert(1)&lt;/script&gt;\\u202etxt.exe")
    }))

  it.live("cannot approve what it does not show whole", () =>
    Effect.gen(function*() {
      const { hash, pathOf, pending, server } = yield* asked({}, { path: "big.txt", text: "line\n".repeat(40_000) })
      const { text } = yield* server.request(undefined, "GET", pathOf("bob"))
      assert.notInclude(text, "Approve once")
      assert.include(text, "Not all of it is shown here")
      assert.strictEqual((yield* submit(server, pathOf("bob"), { hash, answer: "approve" })).status, 422)
      assert.strictEqual(yield* pending, 1)
      assert.strictEqual((yield* submit(server, pathOf("bob"), { hash, answer: "deny" })).status, 200)
    }), { tags: ["SV32"] })

  it.live("approves nothing where several people have to, if the rule came after the link", () =>
    Effect.gen(function*() {
      const approvers = [{ count: 2 }, { people: ["bob", "eve"], count: 2 }]
      for (const one of approvers) {
        const policy = { default: "allow", ask: [{ tool: "save", approvers: one }] } as const
        const { hash, pathOf, pending, server } = yield* asked({ policy })
        for (const person of ["bob", "eve"]) {
          const { text } = yield* server.request(undefined, "GET", pathOf(person))
          assert.include(text, "Several people have to approve it")
          assert.notInclude(text, "Approve once")
          assert.strictEqual((yield* submit(server, pathOf(person), { hash, answer: "approve" })).status, 422)
        }
        assert.strictEqual(yield* pending, 1)
        assert.strictEqual((yield* submit(server, pathOf("bob"), { hash, answer: "deny" })).status, 200)
      }
    }))

  it.live("is refused to people whom the request does not name", () =>
    Effect.gen(function*() {
      const policy = { default: "allow", ask: [{ tool: "save", approvers: { people: ["eve"] } }] } as const
      const { hash, pathOf, pending, server } = yield* asked({ policy })
      const refused = yield* submit(server, pathOf("bob"), { hash, answer: "approve" })
      assert.strictEqual(refused.status, 403)
      assert.include(refused.text, "eve")
      assert.strictEqual(yield* pending, 1)
    }))

  it.live("is in no log and in no span", () =>
    Effect.gen(function*() {
      const seen: Array<string> = []
      const logger = Logger.make<unknown, void>((it) => void seen.push(Logger.formatJson.log(it)))
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          const attribute = span.attribute.bind(span)
          span.attribute = (name, value) => {
            seen.push(`${name}=${String(value)}`)
            attribute(name, value)
          }
          return span
        }
      })
      yield* Effect.gen(function*() {
        const { hash, pathOf, server } = yield* asked({ isLogged: true })
        const path = pathOf("bob")
        yield* server.request(undefined, "GET", path)
        yield* submit(server, path, { hash, answer: "approve" })
        yield* server.request(undefined, "GET", path)
        const secret = path.slice("/links/".length, -4)
        assert.isTrue(seen.some((it) => it.includes("/api/approvals")), "others are logged")
        assert.isTrue(seen.some((it) => it.startsWith("url.path=/api")), "others are traced")
        assert.deepStrictEqual(seen.filter((it) => it.includes(secret)), [])
      }).pipe(Effect.provide(Layer.merge(Logger.layer([logger]), Layer.succeed(Tracer.Tracer, tracer))))
    }), { tags: ["SV33"] })
})

describe("links", () => {
  const linksOf = (about: Partial<Links.About>) =>
    Effect.gen(function*() {
      const made = yield* Links.AnswerLinks
      const some = yield* made.of({ id: "r", user: "ada", requestedAt: 0, expiresAt: "unlimited", ...about })
      return some.map(({ person, url }) => {
        assert.isTrue(url.startsWith("https://tools.example.com/links/"))
        const link = made.read(url.slice(url.lastIndexOf("/") + 1))!
        assert.deepStrictEqual({ person: link.person, request: link.request }, { person, request: "r" })
        return `${person} ${link.expiresAt}`
      })
    }).pipe(Effect.provide(Links.layer({ ...links, validFor: "1 hour" }).pipe(Layer.provide(Access.layer({ users })))))

  it.effect("are made for those who may approve, until the request expires", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* linksOf({}), ["bob 3600000", "eve 3600000"])
      assert.deepStrictEqual(yield* linksOf({ expiresAt: 60_000 }), ["bob 60000", "eve 60000"])
      assert.deepStrictEqual(yield* linksOf({ user: "cy" }), [])
      assert.deepStrictEqual(yield* linksOf({ approvers: [{ people: ["eve"] }] }), ["eve 3600000"])
    }))

  it.effect(
    "are not made where several people approve: one reader could answer as all of them",
    () =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* linksOf({ approvers: [{ count: 2 }] }), [])
        assert.deepStrictEqual(yield* linksOf({ approvers: [{ people: ["bob"] }, { people: ["eve"] }] }), [])
      }),
    { tags: ["SV33"] }
  )

  it.effect("are refused at startup where users cannot be looked up by name", () =>
    Effect.gen(function*() {
      const access = Access.layerFrom({ userOf: () => Effect.succeedNone, mayRun: () => Effect.succeed(true) })
      const error = yield* Effect.flip(Layer.build(Links.layer(links).pipe(Layer.provide(access))))
      assert.include(error.message, "users cannot be looked up by name")
    }))
})
