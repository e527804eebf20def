/** The API as others see it: its document, a client that an outside tool makes of it, and the typed one. */
import { NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import { Effect, Layer, Redacted, Stream } from "effect"
import { Api } from "effect-tool-executor/server"
import { HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient, HttpApiMiddleware, OpenApi } from "effect/http-api"
import { execFile } from "node:child_process"
import * as NodeFsPromises from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import * as ApiAccess from "../../../src/server/api/ApiAccess.ts"
import { start, tokens } from "../../support/Server.ts"

const root = fileURLToPath(new URL("../../..", import.meta.url))

const run = (program: string, args: ReadonlyArray<string>, cwd: string) =>
  Effect.promise(() =>
    promisify(execFile)(program, args, { cwd }).then(
      ({ stdout }) => ({ code: 0, stdout }),
      (error: { readonly stdout: string; readonly stderr: string }) => ({
        code: 1,
        stdout: error.stdout + error.stderr
      })
    )
  )

/** A folder in which the packages of the repository are found. */
const folder = Effect.acquireRelease(
  Effect.promise(async () => {
    const made = await NodeFsPromises.mkdtemp(join(tmpdir(), "tool-executor-client-"))
    await NodeFsPromises.symlink(join(root, "node_modules"), join(made, "node_modules"))
    await NodeFsPromises.writeFile(join(made, "package.json"), `{ "type": "module" }`)
    return made
  }),
  (made) => Effect.promise(() => NodeFsPromises.rm(made, { recursive: true }))
)

/** What is wrong with a document by the rules of OpenAPI 3.1. */
const problems = (source: string) =>
  Effect.promise(async () => {
    const rules = { "no-unresolved-refs": "error", "path-parameters-defined": "error", struct: "error" } as const
    const found = await lintFromString({ source, config: await createConfig({ rules }) })
    return found.map(({ location, message }) => `${location[0]?.pointer}: ${message}`)
  })

const program = `
import createClient from "openapi-fetch"
import type { paths } from "./client.ts"

const [url = "", token = ""] = process.argv.slice(2)
const client = createClient<paths>({ baseUrl: url, headers: { authorization: "Bearer " + token } })
const me = await client.GET("/api/me")
const name: string | undefined = me.data?.name
const wave = await client.POST("/api/sessions/{session}/waves", {
  params: { path: { session: "generated" } },
  body: { message: [{ id: "1", name: "look", params: { key: "a" } }], wave: "w" }
})
const { data } = wave
const status: "running" | "ended" | "suspended" | undefined =
  data !== undefined && "status" in data ? data.status : undefined
const missing = await client.GET("/api/sessions/{session}/waves/{wave}", {
  params: { path: { session: "generated", wave: "missing" } }
})
const type: string | undefined = missing.error?.type
// @ts-expect-error: a message is not to be forgotten
const wrong = () => client.POST("/api/sessions/{session}/waves", { params: { path: { session: "s" } }, body: {} })
console.log(JSON.stringify({ name, status, type, wrong: typeof wrong }))
`

describe("the OpenAPI document", () => {
  it.live("is valid, and a client that an outside tool makes of it compiles and works", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const document = yield* server.request(undefined, "GET", "/openapi.json")
      assert.equal(document.status, 200)
      const made = yield* folder
      const generate = (json: string, out: string) =>
        Effect.promise(() => NodeFsPromises.writeFile(join(made, "openapi.json"), json)).pipe(
          Effect.andThen(run(process.execPath, [
            "--import",
            join(root, "test/support/typescript5.ts"),
            join(root, "node_modules/openapi-typescript/bin/cli.js"),
            "openapi.json",
            "--output",
            out
          ], made))
        )
      assert.deepEqual(yield* problems(document.text), [])
      // what looks for problems finds them
      assert.isNotEmpty(yield* problems(document.text.replace("\"responses\"", "\"answers\"")))
      assert.deepInclude(yield* generate(document.text, "client.ts"), { code: 0 })
      yield* Effect.promise(() => NodeFsPromises.writeFile(join(made, "program.ts"), program))
      const options = "--noEmit --strict --module nodenext --target es2022 --allowImportingTsExtensions --types node"
      const compiled = yield* run(join(root, "node_modules/.bin/tsc"), [...options.split(" "), "program.ts"], made)
      assert.deepEqual(compiled, { code: 0, stdout: "" })
      const { stdout } = yield* run(process.execPath, ["program.ts", server.url, tokens.ada], made)
      assert.deepEqual(JSON.parse(stdout), {
        name: "ada",
        status: "ended",
        type: "urn:tool-executor:problem:not-found",
        wrong: "function"
      })
    }))

  it.live("names what is large once, and says how one shows who one is", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const { json, text } = yield* server.request(undefined, "GET", "/openapi.json")
      assert.match(json.openapi, /^3\.1\./)
      assert.deepEqual(Object.keys(json.components.securitySchemes), ["bearer", "cookie"])
      assert.includeMembers(Object.keys(json.components.schemas), [
        "AgentEvent",
        "Operation",
        "ToolEvent",
        "Wave",
        "ApprovalRequest",
        "LiveItem",
        "Entry"
      ])
      assert.isBelow(text.length, 235_000)
    }))

  it("says where the server is and what each endpoint is for, and has no list that generators cannot type", () => {
    const document = OpenApi.fromApi(Api.Api)
    assert.deepEqual(document.servers, [{ url: "/" }])
    const summaries = Object.values(document.paths).flatMap(({ delete: remove, get, post }) =>
      [remove, get, post].flatMap((it) => it === undefined ? [] : [it.summary])
    )
    assert.isAbove(summaries.length, 40)
    assert.notInclude(summaries, undefined)
    assert.sameMembers([...new Set(summaries)], summaries)
    const text = JSON.stringify(document)
    assert.notInclude(text, "prefixItems")
    assert.include(text, "\"minItems\":1")
  })
})

describe("the typed client", () => {
  it.live("hands a message over, reads its events and is told of problems by their types", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const client = yield* HttpApiClient.make(Api.Api, {
        transformClient: HttpClient.mapRequest(HttpClientRequest.prependUrl(server.url))
      })
      assert.equal((yield* client.sessions.me()).name, "ada")
      const message = [{ id: "1", name: "look", params: { key: "a" } }]
      const params = { session: "typed" }
      const wave = yield* client.sessions.submit({ params, headers: {}, payload: { message, wave: "w" } })
      assert.isFalse(Stream.isStream(wave))
      const events = yield* client.sessions.events({ params: { ...params, wave: "w" }, headers: {}, query: {} })
      const all = yield* Stream.runCollect(events)
      assert.deepInclude(all.map(({ data }) => data._tag), "ToolCallComplete")
      assert.equal(all.at(-1)?.data._tag, "ToolsEnd")
      const problem = yield* Effect.flip(client.sessions.wave({ params: { ...params, wave: "missing" } }))
      assert.deepInclude(problem, { status: 404 })
    }).pipe(Effect.provide(Layer.mergeAll(
      NodeHttpClient.layerUndici,
      HttpApiMiddleware.layerClient(
        ApiAccess.Authorization,
        ({ next, request }) => next(HttpClientRequest.bearerToken(request, Redacted.make(tokens.ada)))
      )
    ))))
})
