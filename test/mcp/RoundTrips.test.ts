/** The revision without sessions (2026-07-28): principals, questions that are results, and what crosses the client. */
import { assert, describe, it } from "@effect/vitest"
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import { ToolContext } from "../../src/index.ts"
import { events, json, serving, session } from "../support/gatewayHttp.ts"

const live = (name: string, program: Effect.Effect<void, unknown, Scope.Scope>, options?: { tags: Array<string> }) =>
  it.live(name, () => Effect.scoped(program), options)

const promise = <A>(run: () => Promise<A>) => Effect.promise(run)

const revision = "2026-07-28"

interface Answer {
  readonly result?: {
    readonly resultType: "complete" | "input_required"
    readonly isError?: boolean
    readonly content: ReadonlyArray<{ readonly text: string }>
    readonly requestState: string
    readonly inputRequests: Readonly<
      Record<
        string,
        { readonly params: { readonly message: string; readonly requestedSchema: { readonly properties: object } } }
      >
    >
  }
  readonly error?: { readonly code: number; readonly message: string }
}

/** A client that is no more than its requests; each says everything itself. */
const speaker = (url: string, token?: string, capabilities: object = { elicitation: { form: {} } }) => {
  let id = 0
  const send = (method: string, params: Record<string, unknown> = {}, signal?: AbortSignal) =>
    fetch(url, {
      method: "POST",
      headers: {
        ...json,
        "mcp-protocol-version": revision,
        "mcp-method": method,
        ...typeof params["name"] === "string" ? { "mcp-name": params["name"] } : {},
        ...token === undefined ? {} : { authorization: `Bearer ${token}` }
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: ++id,
        method,
        params: {
          ...params,
          _meta: {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            ...params["_meta"] as object | undefined
          }
        }
      }),
      ...signal === undefined ? {} : { signal }
    })
  const call = async (name: string, args: object = {}, more: object = {}) => {
    const response = await send("tools/call", { name, arguments: args, ...more })
    const text = await response.text()
    const data = text.split("\n").filter((it) => it.startsWith("data: ")).at(-1)?.slice(6) ?? text
    return JSON.parse(data) as Answer
  }
  return { send, call }
}

/** What answers all questions of a result. */
const answering = ({ result }: Answer, content: object = { decision: "approve once" }, action = "accept") => ({
  requestState: result!.requestState,
  inputResponses: Object.fromEntries(
    Object.keys(result!.inputRequests).map((key) => [key, action === "accept" ? { action, content } : { action }])
  )
})

const gateway = Effect.fnUntraced(function*(options: Parameters<typeof serving>[1] = {}) {
  const approvals = yield* Approvals.make()
  const ran: Array<unknown> = []
  const served = yield* serving({
    send: { class: "ConcurrentMut", handler: (params) => Effect.sync(() => (ran.push(params), "sent")) },
    read: () => Effect.succeed("read")
  }, { approvals, sessions: true, dedupe: false, policy: { default: "allow", ask: ["send"] }, ...options })
  return { ...served, approvals, ran, ask: (token?: string) => speaker(served.url, token) }
})

const textOf = ({ result }: Answer) => result?.content?.[0]?.text

describe("a client without a session", () => {
  live(
    "is told what there is, lists and calls, beside clients with one",
    Effect.gen(function*() {
      const { url } = yield* gateway()
      const { call, send } = speaker(url)
      const discovered = (yield* promise(() => send("server/discover").then((it) => it.json()))) as {
        readonly result: { readonly supportedVersions: ReadonlyArray<string>; readonly resultType: string }
      }
      assert.include(discovered.result.supportedVersions, revision)
      assert.include(discovered.result.supportedVersions, "2025-11-25")
      const listed = (yield* promise(() => send("tools/list").then((it) => it.json()))) as {
        readonly result: { readonly ttlMs: number; readonly tools: ReadonlyArray<{ readonly name: string }> }
      }
      assert.isNumber(listed.result.ttlMs)
      assert.include(listed.result.tools.map((it) => it.name), "read")
      const read = yield* promise(() => call("read"))
      assert.strictEqual(read.result?.resultType, "complete")
      assert.strictEqual(textOf(read), "read")
      const older = yield* promise(() => session(url))
      const answer = yield* promise(() =>
        older.post({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "read", arguments: {} } })
          .then((it) => it.json() as Promise<Answer>)
      )
      assert.strictEqual(textOf(answer), "read")
      assert.notProperty(answer.result, "resultType")
      // a call may be as large as in a session
      assert.strictEqual(textOf(yield* promise(() => call("read", { text: "x".repeat(1_000_000) }))), "read")
    })
  )

  live(
    "is the official one, whose person is asked and answers",
    Effect.gen(function*() {
      const { ran, url } = yield* gateway()
      const client = new Client({ name: "test", version: "1" }, {
        versionNegotiation: { mode: "auto" },
        capabilities: { elicitation: { form: {} } }
      })
      const forms: Array<string> = []
      client.setRequestHandler("elicitation/create", ({ params }) => {
        forms.push(params.message)
        return {
          action: "accept",
          content: { decision: forms.length === 1 ? "approve once" : "deny", reason: "no more" }
        }
      })
      yield* promise(() => client.connect(new StreamableHTTPClientTransport(new URL(url))))
      assert.strictEqual(client.getProtocolEra(), "modern")
      const sent = yield* promise(() => client.callTool({ name: "send", arguments: { to: "ann" } }))
      assert.deepInclude(sent, { content: [{ type: "text", text: "sent" }] })
      const denied = yield* promise(() => client.callTool({ name: "send", arguments: { to: "bob" } }))
      assert.isTrue(denied.isError)
      assert.include(JSON.stringify(denied.content), "no more")
      assert.deepStrictEqual(ran, [{ to: "ann" }])
      assert.lengthOf(forms, 2)
      yield* promise(() => client.close())
    })
  )

  live(
    "that goes away has cancelled its call",
    Effect.gen(function*() {
      const begun = Deferred.makeUnsafe<void>()
      const ended = Deferred.makeUnsafe<string>()
      const { url } = yield* serving({
        hang: {
          class: "SerialMut",
          handler: () =>
            Deferred.succeed(begun, undefined).pipe(
              Effect.andThen(Effect.never),
              Effect.onExit((exit) => Deferred.succeed(ended, exit._tag))
            )
        }
      })
      const gone = new AbortController()
      const running = speaker(url).send("tools/call", { name: "hang", arguments: {} }, gone.signal).catch(() => "gone")
      yield* Deferred.await(begun)
      gone.abort()
      assert.strictEqual(yield* promise(() => running), "gone")
      assert.strictEqual(yield* Deferred.await(ended), "Failure")
    }),
    { tags: ["M1"] }
  )

  live(
    "is told of progress on the request that brings the answer",
    Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { url } = yield* serving({
        work: {
          class: "SerialMut",
          handler: () => Effect.flatMap(ToolContext.ToolContext, ({ progress }) => progress({ progress: 1, total: 2 }))
        }
      }, { approvals, policy: { default: "allow", ask: ["work"] } })
      const { call, send } = speaker(url)
      const asked = yield* promise(() => call("work"))
      const more = { ...answering(asked), _meta: { progressToken: "second" } }
      const response = yield* promise(() => send("tools/call", { name: "work", arguments: {}, ...more }))
      assert.match(yield* promise(() => response.text()), /"progressToken":"second","progress":1/)
    })
  )

  live(
    "is told of changes of the list, where it listens",
    Effect.gen(function*() {
      const { replace, url } = yield* gateway()
      const { send } = speaker(url)
      const over = new AbortController()
      const stream = yield* promise(() =>
        send("subscriptions/listen", { notifications: { toolsListChanged: true } }, over.signal)
      )
      const next = events(stream)
      assert.include((yield* promise(next))!.data, "acknowledged")
      yield* replace({ read: () => Effect.succeed("read"), other: () => Effect.succeed("other") })
      assert.include((yield* promise(next))!.data, "notifications/tools/list_changed")
      over.abort()
    })
  )

  live(
    "is told what is wrong with its request, and does not answer what it was not asked",
    Effect.gen(function*() {
      const { ran, url } = yield* gateway()
      const headers = { ...json, "mcp-protocol-version": revision, "mcp-method": "server/discover" }
      const wrong = yield* promise(() =>
        fetch(url, {
          method: "POST",
          headers,
          body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "server/discover" })
        })
      )
      assert.strictEqual(wrong.status, 400)
      assert.strictEqual((yield* promise(() => wrong.json() as Promise<Answer>)).error?.code, -32_602)
      const { call } = speaker(url)
      const unasked = { approval: { action: "accept", content: { decision: "approve once" } } }
      const { result } = yield* promise(() => call("send", {}, { inputResponses: unasked }))
      assert.strictEqual(result?.resultType, "input_required")
      assert.lengthOf(ran, 0)
    })
  )

  live(
    "that cannot ask its person is refused what would be asked",
    Effect.gen(function*() {
      const { ran, url } = yield* gateway()
      const { call } = speaker(url, undefined, {})
      const { result } = yield* promise(() => call("send"))
      assert.strictEqual(result?.resultType, "complete")
      assert.isTrue(result?.isError)
      assert.lengthOf(ran, 0)
    })
  )
})

describe("calls of one turn without a session", () => {
  for (const approval of ["perCall", "upfront"] as const) {
    live(
      `are one wave, whose questions are answered in any order; asked ${approval}`,
      Effect.gen(function*() {
        const { ask, ran } = yield* gateway({ approval })
        const { call } = ask("ann's")
        const of = (index: number) => ({ _meta: { "effect-tool-executor/wave": { id: "turn", index, size: 2 } } })
        const asked = yield* promise(() => Promise.all([0, 1].map((n) => call("send", { n }, of(n)))))
        assert.deepStrictEqual(asked.map((it) => it.result?.resultType), ["input_required", "input_required"])
        const last = yield* promise(() =>
          Promise.all([1, 0].map((n) => call("send", { n }, { ...answering(asked[n]!), ...of(n) })))
        )
        assert.deepStrictEqual(last.map(textOf), ["sent", "sent"])
        assert.lengthOf(ran, 2)
      })
    )
  }
})

describe("a principal", () => {
  live(
    "is whose token it is: limits, grants and results are its own",
    Effect.gen(function*() {
      const { ask, ran } = yield* gateway({ rules: [{ _tag: "MaxCalls", tool: "send", max: 3 }] })
      const [ann, bob] = [ask("ann's"), ask("bob's")]
      const hour = { decision: "approve for 1 hour" }
      const asked = yield* promise(() => ann.call("send", { n: 1 }))
      assert.strictEqual(textOf(yield* promise(() => ann.call("send", { n: 1 }, answering(asked, hour)))), "sent")
      assert.strictEqual(textOf(yield* promise(() => ann.call("send", { n: 2 }))), "sent")
      assert.strictEqual((yield* promise(() => bob.call("send", { n: 1 }))).result?.resultType, "input_required")
      assert.strictEqual(textOf(yield* promise(() => ann.call("send", { n: 3 }))), "sent")
      assert.isTrue((yield* promise(() => ann.call("send", { n: 4 }))).result?.isError)
      assert.lengthOf(ran, 3)
    }),
    { tags: ["M5"] }
  )

  live(
    "without a known identity allows one call at a time",
    Effect.gen(function*() {
      const { ask } = yield* gateway()
      const { call } = ask()
      const asked = yield* promise(() => call("send"))
      const [question] = Object.values(asked.result!.inputRequests)
      assert.notInclude(JSON.stringify(question!.params.requestedSchema), "hour")
      const answer = yield* promise(() => call("send", {}, answering(asked, { decision: "approve for 1 hour" })))
      assert.strictEqual(textOf(answer), "sent")
      assert.strictEqual((yield* promise(() => call("send"))).result?.resultType, "input_required")
    }),
    { tags: ["M5"] }
  )

  live(
    "is who the host says it is",
    Effect.gen(function*() {
      const { ask, approvals } = yield* gateway({
        gateway: { principalOf: (headers) => Effect.succeed(headers.authorization === "Bearer a" ? "ann" : "others") }
      })
      yield* promise(() => ask("a").call("send"))
      assert.deepStrictEqual((yield* approvals.list).map((it) => it.principal), ["ann"])
    })
  )
})

describe("what a client brings back", () => {
  const refused = { code: -32_602 }

  live(
    "is good once, for its call, of its principal, unchanged",
    Effect.gen(function*() {
      const { ask, ran, approvals } = yield* gateway()
      const [ann, bob] = [ask("ann's"), ask("bob's")]
      const asked = yield* promise(() => ann.call("send", { to: "x", cc: "y" }))
      const answer = answering(asked)
      const [payload, seal] = answer.requestState.split(".") as [string, string]
      const other = yield* promise(() => ann.call("send", { to: "z" }))
      const [otherPayload, otherSeal] = answering(other).requestState.split(".") as [string, string]
      const flipped = (text: string) => (text.startsWith("A") ? "B" : "A") + text.slice(1)
      const [id, nonce, until] = JSON.parse(Buffer.from(payload, "base64url").toString()) as [string, string, number]
      const later = Buffer.from(JSON.stringify([id, nonce, until + 1])).toString("base64url")
      const attempts: ReadonlyArray<readonly [string, () => Promise<Answer>]> = [
        ["of another principal", () => bob.call("send", { to: "x", cc: "y" }, answer)],
        ["of nobody", () => ask().call("send", { to: "x", cc: "y" }, answer)],
        ["with other arguments", () => ann.call("send", { to: "evil", cc: "y" }, answer)],
        ["with more arguments", () => ann.call("send", { to: "x", cc: "y", bcc: "z" }, answer)],
        ["for another tool", () => ann.call("read", { to: "x", cc: "y" }, answer)],
        ...[
          "",
          ".",
          payload,
          `${payload}.`,
          `.${seal}`,
          `${flipped(payload)}.${seal}`,
          `${payload}.${flipped(seal)}`,
          `${payload}.${otherSeal}`,
          `${otherPayload}.${seal}`,
          `${later}.${seal}`,
          `${payload}.${seal}.`,
          `${payload}=.${seal}`,
          `${payload}.${seal.toUpperCase()}`,
          "x".repeat(100_000),
          Buffer.from("[\"__proto__\",1,2]").toString("base64url") + "." + seal
        ].map((requestState) =>
          [
            requestState.slice(0, 80),
            () => ann.call("send", { to: "x", cc: "y" }, { ...answer, requestState })
          ] as const
        )
      ]
      for (const [name, attempt] of attempts) {
        // an empty state is none: the call begins anew, and is asked about
        const { error, result } = yield* promise(attempt)
        if (name === "") assert.notStrictEqual(result?.resultType, "complete", name)
        else assert.deepInclude(error, refused, name)
      }
      assert.lengthOf(ran, 0)
      // none of it has spoilt the real one, in whatever order its arguments come
      assert.strictEqual(textOf(yield* promise(() => ann.call("send", { cc: "y", to: "x" }, answer))), "sent")
      assert.deepStrictEqual(ran, [{ to: "x", cc: "y" }])
      assert.deepInclude((yield* promise(() => ann.call("send", { to: "x", cc: "y" }, answer))).error, refused)
      const twice = yield* promise(() =>
        Promise.all([0, 1, 2].map(() => ann.call("send", { to: "z" }, answering(other))))
      )
      assert.lengthOf(twice.filter((it) => textOf(it) === "sent"), 1)
      assert.lengthOf(ran, 2)
      assert.isAtMost((yield* approvals.list).length, 1)
    }),
    { tags: ["M4"] }
  )

  live(
    "is of no use where the answers are of other questions, or none: it is asked again",
    Effect.gen(function*() {
      const { ask, ran } = yield* gateway()
      const { call } = ask("ann's")
      const other = yield* promise(() => call("send", { n: 0 }))
      let asked = yield* promise(() => call("send", { n: 1 }))
      for (
        const inputResponses of [
          {},
          answering(other).inputResponses,
          { approval: { action: "accept", content: { decision: "approve once" } } }
        ]
      ) {
        const { requestState } = answering(asked)
        const next = yield* promise(() => call("send", { n: 1 }, { requestState, inputResponses }))
        assert.strictEqual(next.result?.resultType, "input_required")
        assert.deepStrictEqual(next.result!.inputRequests, asked.result!.inputRequests)
        assert.notStrictEqual(next.result!.requestState, asked.result!.requestState)
        asked = next
      }
      assert.lengthOf(ran, 0)
      // edited arguments that cannot be read are asked for again, and run as they are then
      const typo = yield* promise(() =>
        call("send", { n: 1 }, answering(asked, { decision: "approve once", arguments: "{" }))
      )
      assert.include(Object.values(typo.result!.inputRequests)[0]!.params.message, "not valid JSON")
      const edited = { decision: "approve once", arguments: "{\"n\":2}" }
      assert.strictEqual(textOf(yield* promise(() => call("send", { n: 1 }, answering(typo, edited)))), "sent")
      assert.deepStrictEqual(ran, [{ n: 2 }])
    })
  )

  live(
    "says no where the person does",
    Effect.gen(function*() {
      const { ask, ran } = yield* gateway()
      const { call } = ask("ann's")
      for (const action of ["decline", "cancel"]) {
        const asked = yield* promise(() => call("send"))
        const { result } = yield* promise(() => call("send", {}, answering(asked, {}, action)))
        assert.isTrue(result?.isError, action)
      }
      assert.lengthOf(ran, 0)
    })
  )

  live(
    "gives what became of the call where the question is over",
    Effect.gen(function*() {
      const { approvals, ask, ran } = yield* gateway()
      const { call } = ask("ann's")
      const asked = yield* promise(() => call("send"))
      const [request] = yield* approvals.list
      yield* approvals.answer(request!.id, { _tag: "Deny", reason: "said elsewhere" })
      const late = yield* promise(() => call("send", {}, answering(asked)))
      assert.include(textOf(late), "said elsewhere")
      assert.lengthOf(ran, 0)
    })
  )

  live(
    "is nothing once its time is over, and the call with it",
    Effect.gen(function*() {
      const { approvals, ask, ran } = yield* gateway({ gateway: { idleTimeToLive: "200 millis" } })
      const { call } = ask("ann's")
      const asked = yield* promise(() => call("send"))
      while ((yield* approvals.list).length > 0) yield* Effect.sleep(10)
      assert.deepInclude((yield* promise(() => call("send", {}, answering(asked)))).error, refused)
      assert.lengthOf(ran, 0)
    }),
    { tags: ["M4"] }
  )

  live(
    "is nothing to another gateway",
    Effect.gen(function*() {
      const [one, other] = [yield* gateway(), yield* gateway()]
      const asked = yield* promise(() => one.ask("ann's").call("send"))
      assert.deepInclude((yield* promise(() => other.ask("ann's").call("send", {}, answering(asked)))).error, refused)
      assert.lengthOf(other.ran, 0)
    }),
    { tags: ["M4"] }
  )
})
