/** Events of agents through an endpoint of an `HttpApi`: declared by one schema, and read by its client with types. */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import * as Effect from "effect/Effect"
import {
  HttpApi,
  HttpApiBuilder,
  HttpApiClient,
  HttpApiEndpoint,
  HttpApiGroup,
  HttpApiSchema,
  OpenApi
} from "effect/http-api"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { AgentEvent } from "../../src/agent/index.ts"

type Sent = ReadonlyArray<AgentEvent.Wire>

const Api = HttpApi.make("chat").add(
  HttpApiGroup.make("turns").add(
    HttpApiEndpoint.get("events", "/events", { success: HttpApiSchema.StreamSse({ data: AgentEvent.Wire }) })
  )
)

const served = (sent: Sent) =>
  HttpRouter.serve(
    HttpApiBuilder.layer(Api).pipe(
      Layer.provide(HttpApiBuilder.group(Api, "turns", (handlers) =>
        handlers.handle("events", () =>
          Effect.succeed(Stream.fromIterable(sent)))))
    ),
    { disableListenLog: true, disableLogger: true }
  ).pipe(Layer.provideMerge(NodeHttpServer.layerTest))

const received = (sent: Sent) =>
  Effect.gen(function*() {
    const client = yield* HttpApiClient.make(Api)
    return yield* Stream.runCollect(yield* client.turns.events())
  }).pipe(Effect.provide(served(sent)), Effect.scoped)

/** JSON has no negative zero. */
const plain = (value: Sent): unknown => JSON.parse(JSON.stringify(value))

describe("events of agents as a stream of an HttpApi", () => {
  it.effect.prop(
    "come out as they went in, each kind of them",
    [Schema.Tuple(AgentEvent.Wire.members)],
    ([sent]) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(plain(yield* received(sent)), plain(sent))
      }),
    { arbitrary: { runs: 10 } }
  )

  it("have names for `event:` that are told apart", () => {
    const tags = AgentEvent.Wire.members.map(({ fields }) => (fields._tag.ast as { readonly literal: string }).literal)
    const names = tags.map((_tag) => AgentEvent.sseName({ _tag, type: "own" } as AgentEvent.Wire))
    assert.strictEqual(new Set(names).size, 27)
    for (const name of names) assert.match(name, /^[a-z_]+$/)
  })

  it("are a valid part of an OpenAPI document", async () => {
    const rules = { "no-unresolved-refs": "error", struct: "error" } as const
    const source = JSON.stringify(OpenApi.fromApi(Api))
    const problems = await lintFromString({ source, config: await createConfig({ rules }) })
    assert.deepStrictEqual(problems.map((it) => it.message), [])
    assert.include(source, "AssistantMessagePart")
    assert.include(source, "ToolCallComplete")
  })
})
