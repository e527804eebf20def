import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { ConfigurationError } from "../../../src/core/vocabulary/ConfigurationError.ts"
import { LocalExecutor, type Policy, ToolCall, ToolExecutor } from "../../../src/index.ts"
import * as FetchTools from "../../../src/tools/fetch/FetchTools.ts"
import { loopback, serve, text } from "../web.ts"

/** What becomes of calls about these URLs under a policy, where nobody is there to ask. */
const outcomesOf = (policy: Policy.Policy, ...urls: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const process = yield* (yield* ToolExecutor.ToolExecutor).process()
    const calls = urls.map((url, index) => ToolCall.make(String(index), "fetch_url", { url }))
    const { outcomes } = yield* process.executeWave(calls)
    return outcomes.map((it) => it._tag === "Denied" ? it.reason._tag : it._tag)
  }).pipe(
    Effect.scoped,
    Effect.provide(
      LocalExecutor.layer(FetchTools.toolkit, { policy }).pipe(Layer.provide(FetchTools.layer(loopback)))
    )
  )

describe("FetchTools", () => {
  it("declares a read that reaches outside", () => {
    const { fetch_url } = FetchTools.make().toolkit.tools
    assert.isTrue(Context.get(fetch_url.annotations, Tool.Readonly))
    assert.isFalse(Context.get(fetch_url.annotations, Tool.Destructive))
    assert.isTrue(Context.get(fetch_url.annotations, Tool.Idempotent))
    assert.deepStrictEqual(
      Context.getOption(fetch_url.annotations, Tool.OpenWorld),
      Context.getOption(Context.make(Tool.OpenWorld, true), Tool.OpenWorld)
    )
  })

  it.live("lets a policy decide by the exact host, and asks by default", () =>
    Effect.gen(function*() {
      const [one, two] = [yield* serve(text("one")), yield* serve(text("two"))]
      const urls = [
        `http://127.0.0.1:${one.port}/a`,
        `http://0x7f.1:${one.port}/b`,
        `http://127.0.0.1:${two.port}/`,
        `http://127.0.0.11:${one.port}/`,
        `http://user@127.0.0.1:${one.port}/`
      ]
      const no = "PermissionDenied"
      assert.deepStrictEqual(yield* outcomesOf({}, ...urls), [no, no, no, no, no])
      const allow = [`fetch_url(127.0.0.1:${one.port})`]
      assert.deepStrictEqual(yield* outcomesOf({ allow }, ...urls), ["Succeeded", "Succeeded", no, no, no])
      assert.deepStrictEqual(yield* outcomesOf({ allow, mode: "offline" }, urls[0]!), ["PolicyDenied"])
      const deny = [`fetch_url(127.0.0.1:*)`]
      assert.deepStrictEqual(yield* outcomesOf({ allow: ["fetch_url"], deny }, ...urls.slice(1, 3)), [
        "PolicyDenied",
        "PolicyDenied"
      ])
      assert.deepStrictEqual(one.requests.map(([path]) => path), ["/a", "/b"])
      assert.strictEqual(two.connections.made, 0)
    }))

  it.live("does not follow a redirect to a host that the policy has not seen", () =>
    Effect.gen(function*() {
      const other = yield* serve(text("secret"))
      const { port } = yield* serve((_, response) => {
        response.writeHead(302, { location: `http://127.0.0.1:${other.port}/` }).end()
      })
      const allow = [`fetch_url(127.0.0.1:${port})`]
      const urls = [`http://127.0.0.1:${port}/`, `http://127.0.0.1:${other.port}/`]
      assert.deepStrictEqual(yield* outcomesOf({ allow }, ...urls), ["Succeeded", "PermissionDenied"])
      assert.strictEqual(other.connections.made, 0)
    }))

  it.live("refuses options that cannot be used, with every problem", () =>
    Effect.gen(function*() {
      const problemsOf = (options: FetchTools.Options) =>
        Layer.build(FetchTools.layer(options)).pipe(
          Effect.scoped,
          Effect.flip,
          Effect.map((error) => error.problems.map((it) => `${it.path}: ${it.problem}`))
        )
      assert.deepStrictEqual(
        yield* problemsOf({ allowPrivate: ["localhost", "10.0.0.0/40"], maxBytes: 0.5, connectTimeout: "Infinity" }),
        [
          "allowPrivate[1]: it is \"10.0.0.0/40\"",
          "maxBytes: it is 0.5",
          "connectTimeout: is not a duration above zero with an end"
        ]
      )
      for (const maxBytes of [0, -1, NaN, Infinity]) assert.lengthOf(yield* problemsOf({ maxBytes }), 1)
      assert.lengthOf(yield* problemsOf({ connectTimeout: 0 }), 1)
    }))

  it("gives a layer that needs nothing and fails only with ConfigurationError", () => {
    expectTypeOf(FetchTools.layer).returns.toEqualTypeOf<Layer.Layer<FetchTools.Handlers, ConfigurationError>>()
    expectTypeOf(FetchTools.make().toolkit).toEqualTypeOf<typeof FetchTools.toolkit>()
  })
})
