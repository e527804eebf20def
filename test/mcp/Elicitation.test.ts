/** People who are asked through an MCP client. */
import { assert, describe, it } from "@effect/vitest"
import type { Client } from "@modelcontextprotocol/client"
import * as McpSchema from "effect/ai/McpSchema"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import { ToolAnnotations, ToolCall, ToolContext, ToolExecutor } from "../../src/index.ts"
import * as Elicitation from "../../src/mcp/Elicitation.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { type Connected, type Gateway, open, type Options, type Tools } from "../support/gateway.ts"
import { makeClient } from "../support/mcpServer.ts"

type Capabilities = NonNullable<Parameters<typeof makeClient>[0]>

interface Form {
  readonly message: string
  readonly requestedSchema: { readonly properties: Record<string, { readonly enum?: ReadonlyArray<string> }> }
}

type Answer = { readonly action: string; readonly content?: object }

/** A client whose person answers each form; without an answer the form stays open. */
const person = (answer: (form: Form) => Answer | undefined, capabilities: Capabilities = { elicitation: {} }) => {
  const forms: Array<Form> = []
  const withdrawn: Array<string> = []
  const client = makeClient(capabilities)
  client.setRequestHandler("elicitation/create", ({ params }, { mcpReq }) => {
    const form = params as unknown as Form
    forms.push(form)
    const given = answer(form)
    if (given !== undefined) return given as never
    return new Promise((_, reject) => {
      mcpReq.signal.addEventListener("abort", () => {
        withdrawn.push(form.message)
        reject(new Error("withdrawn"))
      })
    })
  })
  return { client, forms, withdrawn }
}

const accept = (content: object) => () => ({ action: "accept", content })

const tools: Tools = {
  send: { class: "ConcurrentMut", handler: (params) => Effect.succeed(params) },
  touch: {
    class: "ConcurrentMut",
    handler: ({ path }) => Effect.succeed(`touched ${String(path)}`),
    annotate: (tool) =>
      tool.annotate(ToolAnnotations.Targets, (params) => [{ text: (params as { readonly path: string }).path }])
  },
  read: () => Effect.succeed("read"),
  delegate: {
    class: "ConcurrentMut",
    annotate: (tool) => tool.annotate(ToolAnnotations.Recursive, true),
    handler: ({ forks }) =>
      Effect.gen(function*() {
        const { executor } = yield* ToolContext.ToolContext
        const own = forks === true ? yield* Effect.orDie(ToolExecutor.fork({ name: "helper" })) : executor!
        const process = yield* own.process()
        const wave = yield* process.executeWave([ToolCall.make("inner", "send", { to: "all" })])
        return wave.toolMessages.map((it) => it.text)
      }).pipe(Effect.scoped)
  }
}

const asking = <A, E>(
  program: (
    gateway: Gateway & { readonly approvals: Approvals.Approvals["Service"] }
  ) => Effect.Effect<A, E, Scope.Scope>,
  options: Options = {}
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const approvals = options.approvals ?? (yield* Approvals.make())
      const policy = { default: "allow", ask: ["send", "touch"] } as const
      return yield* program({ ...(yield* open(tools, { dedupe: false, policy, ...options, approvals })), approvals })
    })),
    { limit: "1 day" }
  )

/** One call by a client with such a person. */
const once = (client: Client, name = "send", args: Record<string, unknown> = { to: "bob" }) =>
  asking(({ connect }) =>
    Effect.gen(function*() {
      const { call } = yield* connect(client)
      const result = yield* call(name, args)
      return { ...result, took: yield* VirtualTime.now }
    })
  )

const fork = <A>(effect: Effect.Effect<A>) => Effect.forkChild(effect, { startImmediately: true })

describe("the person behind a client", () => {
  it.effect("is shown the call, and what can be said to it", () =>
    Effect.gen(function*() {
      const { client, forms } = person(accept({ decision: "approve once" }))
      const { structuredContent } = yield* once(client)
      assert.deepStrictEqual(structuredContent, { to: "bob" })
      assert.lengthOf(forms, 1)
      assert.deepStrictEqual(forms[0]!.message.split("\n"), [
        "May send run?",
        "Reason for this request: the policy asks about send",
        "Arguments:",
        "| {",
        "|   \"to\": \"bob\"",
        "| }"
      ])
      assert.deepStrictEqual(forms[0]!.requestedSchema.properties.decision?.enum, [
        "approve once",
        "approve for 1 hour",
        "approve until this ends",
        "deny"
      ])
    }))

  it.effect("is asked again after allowing it once, not within the hour, and never where it is until this ends", () =>
    asking(({ connect }) =>
      Effect.gen(function*() {
        let decision = "approve once"
        const { client, forms } = person(() => ({ action: "accept", content: { decision } }))
        const { call } = yield* connect(client)
        yield* call("send", { n: 1 })
        decision = "approve for 1 hour"
        yield* call("send", { n: 2 })
        yield* Effect.sleep("59 minutes")
        yield* call("send", { n: 3 })
        assert.lengthOf(forms, 2)
        yield* Effect.sleep("2 minutes")
        decision = "approve until this ends"
        yield* call("send", { n: 4 })
        yield* Effect.sleep("3 hours")
        assert.isFalse((yield* call("send", { n: 5 })).isError)
        assert.lengthOf(forms, 3)
      }), { sessions: true, gateway: { idleTimeToLive: "1 day" } }))

  it.effect("denies with a reason that the model is told, or without", () =>
    Effect.gen(function*() {
      const { isError, text } = yield* once(person(accept({ decision: "deny", reason: "  not on Fridays " })).client)
      assert.isTrue(isError)
      assert.include(text, "not on Fridays")
      for (
        const answer of [{ action: "decline" }, { action: "cancel" }, {
          action: "accept",
          content: { decision: "deny", reason: " " }
        }]
      ) {
        const { text, took } = yield* once(person(() => answer).client)
        assert.include(text, "The user did not allow", answer.action)
        assert.strictEqual(took, 0)
      }
    }))

  it.effect("has it run with other arguments, once", () =>
    asking(({ connect }) =>
      Effect.gen(function*() {
        const { client, forms } = person(
          accept({ decision: "approve for 1 hour", arguments: "{ \"to\": \"carol\" }" })
        )
        const { call } = yield* connect(client)
        assert.deepStrictEqual((yield* call("send", { to: "bob" })).structuredContent, { to: "carol" })
        yield* call("send", { to: "dave" })
        assert.lengthOf(forms, 2)
      })
    ))

  it.effect("is asked again where the other arguments are not JSON, and told so", () =>
    Effect.gen(function*() {
      const texts = ["{ to: carol", "not yet", "{\"to\":\"carol\"}"]
      const { client, forms } = person(() => ({
        action: "accept",
        content: { decision: "approve once", arguments: texts.shift() }
      }))
      const { structuredContent } = yield* once(client)
      assert.deepStrictEqual(structuredContent, { to: "carol" })
      assert.lengthOf(forms, 3)
      assert.isFalse(forms[0]!.message.startsWith("The edited arguments are not valid JSON"))
      for (const { message } of forms.slice(1)) {
        assert.include(message, "The edited arguments are not valid JSON")
        assert.include(message, "May send run?")
      }
    }))

  it.effect("cannot be asked where the client has no form for it, and nobody waits", () =>
    Effect.gen(function*() {
      for (const capabilities of [{}, { elicitation: { url: {} } }]) {
        const { client, forms } = person(accept({ decision: "approve once" }), { elicitation: {}, ...capabilities })
        const without = Object.keys(capabilities).length === 0 ? makeClient() : client
        const { isError, text, took } = yield* once(without)
        assert.deepStrictEqual([isError, took], [true, 0])
        assert.include(text, "needs approval")
        assert.lengthOf(forms, 0)
      }
      const both = person(accept({ decision: "approve once" }), { elicitation: { form: {}, url: {} } })
      assert.isFalse((yield* once(both.client)).isError)
    }))

  for (
    const [what, content] of [
      ["no content", undefined],
      ["no decision", {}],
      ["a decision that was not offered", { decision: "allow everything" }],
      ["a decision that is no text", { decision: 1 }],
      ["arguments that are no text", { decision: "approve once", arguments: 5 }]
    ] as const
  ) {
    it.effect(`has allowed nothing where the client sends ${what}`, () =>
      Effect.gen(function*() {
        const { client } = person(() => ({ action: "accept", ...content === undefined ? {} : { content } }))
        const { isError, text, took } = yield* once(client)
        assert.deepStrictEqual([isError, took], [true, 0])
        assert.include(text, "needs approval")
      }))
  }

  it.effect("has allowed nothing where the client fails", () =>
    Effect.gen(function*() {
      const { client } = person(() => {
        throw new Error("no window")
      })
      const { isError, text, took } = yield* once(client)
      assert.deepStrictEqual([isError, took], [true, 0])
      assert.include(text, "needs approval")
    }))

  it.effect("who is silent has the form withdrawn, and the call is refused", () =>
    Effect.gen(function*() {
      const { client, withdrawn } = person(() => undefined)
      const { isError, took } = yield* once(client)
      assert.deepStrictEqual([isError, took], [true, 300_000])
      assert.lengthOf(withdrawn, 1)
    }))

  it.effect("has the form withdrawn where the answer comes another way", () =>
    asking(({ approvals, connect }) =>
      Effect.gen(function*() {
        const { client, withdrawn } = person(() => undefined)
        const { call } = yield* connect(client)
        const running = yield* fork(call("send", { to: "bob" }))
        yield* Effect.sleep(1_000)
        const [request] = yield* approvals.list
        yield* approvals.answer(request!.id, { _tag: "ApproveOnce" })
        assert.isFalse((yield* Fiber.join(running)).isError)
        yield* Effect.sleep(1)
        assert.lengthOf(withdrawn, 1)
      })
    ))

  it.effect("has the form withdrawn where the call is cancelled, or the client is gone", () =>
    asking(({ approvals, connect }) =>
      Effect.gen(function*() {
        const { client, withdrawn } = person(() => undefined)
        const { call, cut } = yield* connect(client)
        const running = yield* fork(call("send", { n: 1 }))
        yield* Effect.sleep(1_000)
        yield* Fiber.interrupt(running)
        yield* Effect.sleep(1)
        assert.lengthOf(withdrawn, 1)
        yield* fork(call("send", { n: 2 }))
        yield* Effect.sleep(1)
        assert.lengthOf(yield* approvals.list, 1)
        cut()
        yield* Effect.sleep(1)
        assert.lengthOf(yield* approvals.list, 0)
      })
    ))

  it.effect("is not asked for a second time what a first answer covers, while both are open", () =>
    asking(({ connect }) =>
      Effect.gen(function*() {
        const waiting: Array<() => void> = []
        const { client, forms, withdrawn } = person(() => undefined)
        client.setRequestHandler("elicitation/create", ({ params }, { mcpReq }) =>
          new Promise((resolve, reject) => {
            forms.push(params as unknown as Form)
            mcpReq.signal.addEventListener("abort", () => reject(new Error(withdrawn.push(params.message).toString())))
            waiting.push(() => resolve({ action: "accept", content: { decision: "approve for 1 hour" } }))
          }))
        const { call } = yield* connect(client)
        const running = yield* Effect.forEach([1, 2, 3], (n) => fork(call("send", { n })))
        yield* Effect.sleep(1_000)
        assert.lengthOf(forms, 3)
        waiting[1]!()
        for (const fiber of running) assert.isFalse((yield* Fiber.join(fiber)).isError)
        yield* Effect.sleep(1)
        assert.lengthOf(withdrawn, 2)
      })
    ))

  it.effect("answers questions side by side, each its own", () =>
    asking(({ connect }) =>
      Effect.gen(function*() {
        const { client, forms } = person(({ message }) => ({
          action: "accept",
          content: message.includes("\"n\": 2") ? { decision: "deny", reason: "not two" } : { decision: "approve once" }
        }))
        const { call } = yield* connect(client)
        const results = yield* Effect.forEach([1, 2, 3], (n) => call("send", { n }), { concurrency: "unbounded" })
        assert.deepStrictEqual(results.map((it) => it.isError), [false, true, false])
        assert.include(results[1]!.text, "not two")
        assert.lengthOf(forms, 3)
      })
    ))

  for (const forks of [false, true]) {
    it.effect(`is asked about a call that a tool makes ${forks ? "as a sub-agent" : "by itself"}`, () =>
      asking(({ connect }) =>
        Effect.gen(function*() {
          const [mine, others] = [person(accept({ decision: "approve once" })), person(accept({ decision: "deny" }))]
          const [one, other] = [yield* connect(mine.client), yield* connect(others.client)]
          const busy = yield* fork(other.call("read", {}))
          assert.include((yield* one.call("delegate", { forks })).text, "all")
          yield* Fiber.join(busy)
          assert.deepStrictEqual([mine.forms.length, others.forms.length], [1, 0])
          const first = mine.forms[0]!.message.split("\n")[1]
          assert.strictEqual(
            first,
            forks ? "Requested by the agent: helper" : "Reason for this request: the policy asks about send"
          )
        })
      ))
  }

  for (const sessions of [false, true]) {
    it.effect(`is never asked what another client's call needs (${sessions ? "an executor each" : "one executor"})`, () =>
      asking(({ connect }) =>
        Effect.gen(function*() {
          const people = Array.from({ length: 4 }, (_, n) =>
            person(accept({ decision: n % 2 === 0 ? "approve once" : "deny" })))
          const connected: Array<Connected> = []
          for (const { client } of people) {
            connected.push(yield* connect(client))
          }
          const results = yield* Effect.forEach(
            connected,
            ({ call }, n) =>
              Effect.forEach([0, 1, 2], (k) => call("send", { of: n, k }), { concurrency: "unbounded" }),
            { concurrency: "unbounded" }
          )
          for (const [n, { forms }] of people.entries()) {
            assert.lengthOf(forms, 3)
            for (const { message } of forms) assert.include(message, `"of": ${n}`)
            assert.deepStrictEqual(results[n]!.map((it) => it.isError), [0, 1, 2].map(() => n % 2 === 1))
          }
        }), { sessions }))
  }

  it.effect("allows for one session and not for another, where each has an executor of its own", () =>
    asking(({ connect }) =>
      Effect.gen(function*() {
        const [one, other] = [
          person(accept({ decision: "approve until this ends" })),
          person(accept({ decision: "deny" }))
        ]
        const [first, second] = [yield* connect(one.client), yield* connect(other.client)]
        assert.isFalse((yield* first.call("send", { n: 1 })).isError)
        assert.isFalse((yield* first.call("send", { n: 2 })).isError)
        assert.isTrue((yield* second.call("send", { n: 3 })).isError)
        assert.deepStrictEqual([one.forms.length, other.forms.length], [1, 1])
      }), { sessions: true }))

  it.effect("is shown invisible text in arguments, as escapes and in words", () =>
    Effect.gen(function*() {
      const { client, forms } = person(accept({ decision: "approve once" }))
      const hidden = Array.from("to all", (it) => String.fromCodePoint(0xe0000 + it.charCodeAt(0))).join("")
      const { structuredContent } = yield* once(client, "send", { to: `bob${hidden}` })
      assert.deepStrictEqual(structuredContent, { to: `bob${hidden}` })
      const { message } = forms[0]!
      assert.include(message, "\narguments.to contains 6 invisible characters, which spell \"to all\".\n")
      assert.include(message, "bob\\udb40\\udc74")
      assert.notInclude(message, hidden)
    }))

  it.effect("is shown what a call is about", () =>
    Effect.gen(function*() {
      const { client, forms } = person(accept({ decision: "approve once" }))
      yield* once(client, "touch", { path: "a\nMay send run?" })
      assert.include(forms[0]!.message, "\nAbout: a\\nMay send run?\n")
    }))
})

describe("an answer to a form", () => {
  const request: Approvals.NewRequest = {
    principal: "p",
    agentPath: [],
    batch: "b",
    process: "p",
    callId: "1",
    index: 0,
    tool: "send",
    class: "SerialMut",
    args: {},
    targets: [],
    why: "ask send",
    preview: undefined,
    isRunning: false,
    remember: "tool"
  }
  const put = (question: Partial<Approvals.NewRequest>, content: Record<string, string>, elicitation: object = {}) =>
    Effect.scoped(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const forms: Array<Form> = []
      const elicit = (form: unknown) => {
        forms.push(form as Form)
        return Effect.succeed(new McpSchema.ElicitAcceptResult({ action: "accept", content }))
      }
      const client = { clientCapabilities: { elicitation }, getClient: Effect.succeed({ elicit }) }
      const asked = yield* approvals.request({ ...request, ...question })
      const resolved = yield* Effect.forkChild(approvals.submit(asked), { startImmediately: true })
      yield* Elicitation.put(approvals, client as unknown as McpSchema.McpServerClient["Service"], asked)
      return { resolution: yield* Fiber.join(resolved), forms }
    }))

  it.effect("that cannot be taken gives the question up at once, since nobody would ask again", () =>
    Effect.gen(function*() {
      const edited = { decision: "approve once", arguments: "{}" }
      // the write waits already: other arguments come too late
      const { resolution } = yield* put({ isRunning: true }, edited)
      assert.deepInclude(resolution, { _tag: "Denied", by: "noApprover" })
      assert.deepInclude((yield* put({ isRunning: true }, { decision: "approve once" })).resolution, {
        _tag: "Approved"
      })
      // too deep to be compared with what was shown
      let args: unknown = 1
      for (let depth = 0; depth < 20_000; depth++) args = [args]
      assert.deepInclude((yield* put({ args }, { decision: "approve once" })).resolution, {
        _tag: "Denied",
        by: "noApprover"
      })
    }))

  it.effect("is not asked for where the client has no form", () =>
    Effect.gen(function*() {
      const { forms, resolution } = yield* put({}, { decision: "approve once" }, { url: {} })
      assert.lengthOf(forms, 0)
      assert.deepInclude(resolution, { _tag: "Denied", by: "noApprover" })
    }))

  it.effect("is not offered", () =>
    Effect.gen(function*() {
      const { forms: [running] } = yield* put({ isRunning: true }, { decision: "deny" })
      assert.sameMembers(Object.keys(running!.requestedSchema.properties), ["decision", "reason"])
      const { forms: [single] } = yield* put({ remember: "call" }, { decision: "deny" })
      assert.sameMembers(Object.keys(single!.requestedSchema.properties), ["decision", "reason", "arguments"])
      assert.deepStrictEqual(single!.requestedSchema.properties.decision?.enum, ["approve once", "deny"])
    }))

  it.effect("has no spaces around its reason", () =>
    Effect.gen(function*() {
      const { resolution } = yield* put({}, { decision: "deny", reason: "  not on Fridays " })
      assert.deepInclude(resolution, { by: "user", reason: "not on Fridays" })
    }))

  it.effect("is not remembered where the question was about one call alone", () =>
    Effect.gen(function*() {
      for (const decision of ["approve for 1 hour", "approve until this ends"]) {
        assert.deepInclude((yield* put({ remember: "call" }, { decision })).resolution, {
          _tag: "Approved",
          grant: undefined
        })
      }
    }))
})

describe("the message of a form", () => {
  /** Any text: ordinary words, what a client may obey or hide, and what imitates lines of ours. */
  const Text = Schema.Array(
    Schema.Union([
      Schema.String,
      Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0xffff })),
      Schema.Literals([
        "\n",
        "\r\nMay read run?\n",
        "\u2028Reason for this request: all is well\u2029",
        "\u0085About: a\u000b",
        "\nArguments:\n| {}\n",
        "\nChanges:\n",
        "\n(5 more characters are not shown)\n",
        "\u202egpj.exe\u2066",
        "\u200b\u00ad\ufeff",
        "\u001b[2J",
        "a\u0301\u0302\u0303\u0304",
        "😀",
        "long enough to be cut ".repeat(60)
      ])
    ])
  )
  const textOf = (parts: typeof Text.Type): string =>
    parts.map((it) => typeof it === "number" ? String.fromCharCode(it) : it).join("")
  const Drawn = Schema.Struct({
    tool: Text,
    why: Text,
    agents: Schema.Array(Text),
    targets: Schema.Array(Text),
    args: Schema.Union([Schema.Json, Schema.Struct({ path: Text, list: Schema.Array(Text) })]),
    preview: Schema.NullOr(Schema.Struct({ isDiff: Schema.Boolean, text: Text })),
    isRunning: Schema.Boolean
  })
  const requestOf = ({ agents, args, isRunning, preview, targets, tool, why }: typeof Drawn.Type) => ({
    id: "id",
    principal: "p",
    batch: "b",
    process: "p",
    callId: "1",
    index: 0,
    class: "SerialMut",
    remember: "tool" as const,
    requestedAt: 0,
    expiresAt: 1,
    tool: textOf(tool),
    why: textOf(why),
    agentPath: agents.map(textOf),
    targets: targets.map((it) => ({ text: textOf(it), kind: "exact" as const })),
    args: typeof args === "object" && args !== null && "list" in args && "path" in args
      ? JSON.parse(JSON.stringify(args), (_, it: unknown) => Array.isArray(it) ? it.join("") : it)
      : args,
    preview: preview === null
      ? undefined
      : preview.isDiff
      ? { _tag: "Diff" as const, diff: textOf(preview.text) }
      : { _tag: "None" as const, because: textOf(preview.text) },
    isRunning
  })
  const visible = /^[^\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]*$/u

  /** What a line of ours begins with. */
  const begins = [
    "May ",
    "Requested by the agent: ",
    "Reason for this request: ",
    "About: ",
    "Arguments:",
    "No diff: ",
    "Changes:",
    "("
  ]

  it.prop("has no line that somebody else made look like ours", [Drawn], ([drawn]) => {
    const request = requestOf(drawn)
    const lines = Elicitation.describe(request).split("\n")
    for (const line of lines) assert.match(line, visible)
    // every other line is one of ours, and there are exactly those that there should be
    const ours = lines.filter((it) => !it.startsWith("| ")).map((it) => begins.find((start) => it.startsWith(start)))
    assert.deepStrictEqual(ours.filter((it) => it !== "("), [
      "May ",
      ...request.agentPath.length === 0 ? [] : ["Requested by the agent: "],
      "Reason for this request: ",
      ...request.targets.map(() => "About: "),
      "Arguments:",
      ...drawn.preview === null ? [] : [drawn.preview.isDiff ? "Changes:" : "No diff: "]
    ])
    assert.isTrue(lines[0]!.endsWith(drawn.isRunning ? " write this?" : " run?"))
    assert.isAtMost(ours.filter((it) => it === "(").length, 2)
  })

  const request = requestOf({
    tool: ["t"],
    why: [],
    agents: [],
    targets: [],
    args: {},
    preview: null,
    isRunning: false
  })

  it("says where it does not show all", () => {
    const message = Elicitation.describe({
      ...request,
      args: { text: "x".repeat(5_000) },
      targets: Array.from({ length: 60 }, (_, n) => ({ text: n === 0 ? "y".repeat(1_200) : `t${n}` })),
      preview: { _tag: "Diff", diff: "+z\n".repeat(10_000) }
    })
    const lines = message.split("\n")
    assert.include(lines, `About: ${"y".repeat(1_000)} (200 more characters are not shown)`)
    assert.include(lines, "About: t49")
    assert.notInclude(lines, "About: t50")
    assert.include(lines, "(10 more targets are not shown)")
    assert.include(
      lines,
      `(${JSON.stringify({ text: "x".repeat(5_000) }, null, 2).length - 4_000} more characters are not shown)`
    )
    assert.include(lines, "(10000 more characters are not shown)")
  })

  it("cuts no character in half", () => {
    for (const text of ["x".repeat(999) + "😀😀", "x".repeat(998) + "😀😀"]) {
      assert.match(Elicitation.describe({ ...request, targets: [{ text }] }).replaceAll("\n", ""), visible)
    }
    for (const length of [3_984, 3_985, 3_986, 3_987]) {
      const args = { text: "x".repeat(length) + "😀😀😀😀" }
      assert.match(Elicitation.describe({ ...request, args }).replaceAll("\n", ""), visible)
    }
  })

  it("shows what of arguments can be shown", () => {
    const loop: Record<string, unknown> = {}
    loop.loop = loop
    assert.include(Elicitation.describe({ ...request, args: loop }), "| cannot be shown")
    assert.include(Elicitation.describe({ ...request, args: undefined }), "| none")
  })

  it("says what is protected, and why there is no diff", () => {
    const message = Elicitation.describe({
      ...request,
      targets: [{ text: ".git", kind: "protected" }, { text: "a" }],
      preview: { _tag: "None", because: "it cannot tell" }
    })
    assert.include(message, "About: .git (protected)\nAbout: a\n")
    assert.isTrue(message.endsWith("\nNo diff: it cannot tell"))
  })
})

describe("a question that can be answered elsewhere, too", () => {
  const gateway = { elsewhere: "http://127.0.0.1:1/" }

  it.effect("waits there where the client cannot ask, and the client is told so, again and again", () =>
    Effect.gen(function*() {
      const told: Array<string> = []
      const { notices, result } = yield* asking(({ approvals, connect }) =>
        Effect.gen(function*() {
          const { call, client } = yield* connect(makeClient())
          const notices: Array<unknown> = []
          client.setNotificationHandler("notifications/message", ({ params }) => void notices.push(params.data))
          const asked = yield* fork(
            call("send", { to: "bob" }, undefined, ({ message }: { readonly message?: string }) =>
              told.push(message ?? ""))
          )
          yield* Effect.sleep("40 seconds")
          const [request] = yield* approvals.list
          yield* Effect.orDie(approvals.answer(request!.id, { _tag: "ApproveOnce" }, request))
          const result = yield* Fiber.join(asked)
          // nothing is said of a question that is over
          yield* Effect.sleep("1 minute")
          return { notices, result }
        }), { gateway })
      assert.isFalse(result.isError)
      assert.deepStrictEqual(
        told,
        Array.from({ length: 3 }, () => "This call needs an approval: http://127.0.0.1:1/")
      )
      assert.deepStrictEqual(notices, [])
    }))

  it.effect("is told of once in the log of a client that asked for no progress", () =>
    Effect.gen(function*() {
      const { notices, result } = yield* asking(({ approvals, connect }) =>
        Effect.gen(function*() {
          const { call, client } = yield* connect(makeClient())
          const notices: Array<unknown> = []
          client.setNotificationHandler("notifications/message", ({ params }) => void notices.push(params.data))
          const asked = yield* fork(call("send", { to: "bob" }))
          yield* Effect.sleep("40 seconds")
          const [request] = yield* approvals.list
          yield* Effect.orDie(approvals.answer(request!.id, { _tag: "Deny", reason: "not him" }, request))
          return { notices, result: yield* Fiber.join(asked) }
        }), { gateway })
      assert.isTrue(result.isError)
      assert.include(result.text, "not him")
      assert.deepStrictEqual(notices, ["This call needs an approval: http://127.0.0.1:1/"])
    }))

  it.effect("is put to the client all the same where it can ask, and nothing is said of elsewhere", () =>
    Effect.gen(function*() {
      const told: Array<unknown> = []
      const { client, forms } = person(accept({ decision: "approve once" }))
      const result = yield* asking(({ connect }) =>
        Effect.gen(function*() {
          const { call } = yield* connect(client)
          return yield* call("send", { to: "bob" }, undefined, (it) => told.push(it))
        }), { gateway })
      assert.isFalse(result.isError)
      assert.lengthOf(forms, 1)
      assert.deepStrictEqual(told, [])
    }))

  it.effect("stays there where the client fails to ask", () =>
    Effect.gen(function*() {
      const { client } = person(accept({ decision: "perhaps" }))
      const result = yield* asking(({ approvals, connect }) =>
        Effect.gen(function*() {
          const { call } = yield* connect(client)
          const asked = yield* fork(call("send", { to: "bob" }))
          yield* Effect.sleep("10 seconds")
          const [request] = yield* approvals.list
          yield* Effect.orDie(approvals.answer(request!.id, { _tag: "ApproveOnce" }, request))
          return yield* Fiber.join(asked)
        }), { gateway })
      assert.isFalse(result.isError)
    }))
})
