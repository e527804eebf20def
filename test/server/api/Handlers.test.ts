/** What the routes of a whole server let whom do, over real HTTP. */
import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, FileSystem, Option, Schedule } from "effect"
import type { RecordedCall } from "../../../src/server/api/ApiRecords.ts"
import * as Sse from "../../../src/server/api/Sse.ts"
import { type Answer, start, type TestServer, type UserName } from "../../support/Server.ts"

const call = (id: string, name: string, params: unknown) => ({ id, name, params })

const submit = (server: TestServer, wave: string, name: string, params: unknown, user: UserName = "ada") =>
  server.request(user, "POST", "/api/sessions/s/waves", { body: { message: [call("1", name, params)], wave } })

/** Has a call asked about, and answered by bob. */
const answered = Effect.fnUntraced(function*(server: TestServer, wave: string, answer: unknown) {
  const events = yield* server.sse("ada", "/api/sessions/s/waves", {
    body: { message: [call("1", "save", { path: "a", text: "new\n" })], wave }
  })
  yield* events.until(({ event }) => event === "tool_approval_request")
  const { json } = yield* server.request("bob", "GET", "/api/approvals")
  const [approval] = json.open
  yield* server.request("bob", "POST", `/api/approvals/${approval.id}/answer`, {
    body: { hash: approval.hash, answer }
  })
  yield* events.rest
})

describe("suggestions", () => {
  it.live("propose to operators what people always approved, from records that they may read", () =>
    Effect.gen(function*() {
      const server = yield* start({ policy: { default: "ask" } })
      for (const wave of ["1", "2", "3"]) yield* answered(server, wave, { _tag: "ApproveOnce" })
      const of = (user: UserName) => server.request(user, "GET", "/api/suggestions")
      assert.equal((yield* of("ada")).status, 403)
      const { json, status } = yield* of("ops")
      assert.equal(status, 200)
      assert.deepInclude(json, { days: 14, isPartial: false })
      assert.deepEqual(json.suggestions, [{
        tool: "save",
        rule: "save(a)",
        approvals: 3,
        people: ["bob"],
        approved: [{ tool: "save", targets: ["a"], count: 3 }],
        others: [],
        beyond: [{ tool: "save", targets: ["a"] }]
      }])
      // accepting is on record and changes no policy
      const accept = (user: UserName, rule: string) =>
        server.request(user, "POST", "/api/suggestions/accept", { body: { rule } })
      assert.equal((yield* accept("ada", "save(a)")).status, 403)
      assert.equal((yield* accept("ops", "save(*)")).status, 404)
      assert.deepEqual((yield* accept("ops", "save(a)")).json, { policy: { allow: ["save(a)"] } })
      const { json: { entries: [newest] } } = yield* server.request("ops", "GET", "/api/journal?limit=1")
      assert.deepInclude(newest.entry, { _tag: "RuleAccepted", person: "ops", rule: "save(a)", approvals: 3 })
      yield* answered(server, "4", { _tag: "ApproveOnce" })
    }))
})

describe("rights", () => {
  it.live("tell who may not do a thing at all, and that others' resources are not there", () =>
    Effect.gen(function*() {
      const server = yield* start()
      yield* submit(server, "w", "look", { key: "a" })
      const status = (user: UserName | undefined, method: string, path: string, body?: unknown) =>
        Effect.map(server.request(user, method, path, body === undefined ? {} : { body }), (it) => it.status)
      // eve may nothing but ask who she is and how the server is
      assert.equal(yield* status("eve", "GET", "/api/me"), 200)
      assert.equal(yield* status("eve", "GET", "/api/status"), 200)
      for (
        const path of [
          "sessions",
          "sessions/s/tools",
          "sessions/s/waves/w",
          "approvals",
          "grants",
          "journal",
          "journal/calls",
          "journal/calls/1",
          "suggestions"
        ]
      ) {
        assert.equal(yield* status("eve", "GET", `/api/${path}`), 403, path)
      }
      assert.equal(yield* status("eve", "POST", "/api/sessions/s/waves", { message: [] }), 403)
      assert.equal(yield* status("ada", "GET", "/metrics"), 403)
      assert.equal(yield* status("ops", "GET", "/metrics"), 200)
      // the session of that name is bob's own, and has no such wave
      assert.equal(yield* status("bob", "GET", "/api/sessions/s/waves/w"), 404)
      assert.equal(yield* status("bob", "POST", "/api/sessions/s/waves/w/cancel", {}), 404)
      assert.equal(yield* status("ada", "GET", "/api/sessions/s/waves/w"), 200)
      assert.equal(yield* status(undefined, "GET", "/api/me"), 401)
      assert.equal(yield* status(undefined, "GET", "/health"), 200)
      assert.equal(yield* status(undefined, "GET", "/ready"), 200)
    }), { tags: ["SV17"] })

  it.live("show waves to their owner, to those who answer for them and to those who read records", () =>
    Effect.gen(function*() {
      const server = yield* start()
      yield* submit(server, "w", "look", { key: "a" })
      const names = (user: UserName) =>
        Effect.map(
          server.request(user, "GET", "/api/waves"),
          ({ json }) => json.waves.map((it: { readonly wave: string }) => it.wave)
        )
      assert.deepEqual(yield* Effect.forEach(["ada", "bob", "ops", "eve"] as const, names), [["w"], ["w"], ["w"], []])
    }))

  it.live(
    "list waves without what happened in them, which is read in pages of a bounded size, by who may",
    () =>
      Effect.gen(function*() {
        const server = yield* start()
        const large = "x".repeat(30_000)
        const calls = Array.from({ length: 40 }, (_, index) => ({
          id: `c${index}`,
          name: "look",
          params: { key: `${large}${index}` }
        }))
        yield* server.request("ada", "POST", "/api/sessions/s/waves", { body: { message: calls, wave: "large" } })
        const list = yield* server.request("ops", "GET", "/api/waves")
        assert.isBelow(list.text.length, 1_000)
        assert.deepInclude(list.json.waves[0], { wave: "large", status: "ended", calls: 40 })
        const events: Array<{ readonly _tag: string; readonly sequence: number }> = []
        let pages = 0
        for (let after: number | undefined = 0; after !== undefined; pages++) {
          const page: Answer = yield* server.request("bob", "GET", `/api/waves/ada/s/large?after=${after}`)
          assert.isBelow(page.text.length, 1_100_000)
          assert.strictEqual(page.json.wave.wave, "large")
          events.push(...page.json.events)
          after = page.json.next
        }
        assert.isAbove(pages, 1)
        assert.strictEqual(events.at(-1)?._tag, "ToolsEnd")
        assert.strictEqual(events.filter((it) => it._tag === "ToolCallComplete").length, 40)
        assert.strictEqual(new Set(events.map((it) => it.sequence)).size, events.length)
        // what one may not see is as unknown as what is not there
        const status = (user: UserName, path: string) =>
          Effect.map(server.request(user, "GET", `/api/waves/${path}`), (it) => it.status)
        assert.deepEqual(
          [
            yield* status("eve", "ada/s/large"),
            yield* status("ops", "ada/s/none"),
            yield* status("bob", "eve/s/large")
          ],
          [404, 404, 404]
        )
      }),
    { tags: ["SV5"] }
  )

  it.live("tell everybody who follows of an event that is too large for that, and leave it to the wave", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const live = yield* server.sse("bob", "/api/live")
      yield* submit(server, "w", "look", { key: "x".repeat(100_000) })
      const told = yield* live.until(({ event }) => event === "wave_ended")
      assert.include(told.map(({ event }) => event), "wave_event_left_out")
      for (const { data } of told) assert.isBelow(JSON.stringify(data).length, 33_000)
      const { json } = yield* server.request("bob", "GET", "/api/waves/ada/s/w")
      assert.include(JSON.stringify(json.events), "x".repeat(100_000))
    }))

  it.live("let users read the journal of their own, and readers that of those who are named", () =>
    Effect.gen(function*() {
      const server = yield* start()
      yield* submit(server, "w", "look", { key: "first" })
      yield* submit(server, "w", "look", { key: "second" }, "bob")
      const read = (user: UserName, query = "") =>
        Effect.map(server.request(user, "GET", `/api/journal${query}`), ({ json }) => json)
      const owners = ({ entries }: { readonly entries: ReadonlyArray<{ readonly user: string }> }) =>
        Array.from(new Set(entries.map(({ user }) => user))).toSorted()
      assert.deepEqual(owners(yield* read("ada")), ["ada"])
      assert.deepEqual(owners(yield* read("ada", "?user=bob")), [])
      assert.deepEqual(owners(yield* read("ops")), ["ada", "bob"])
      assert.deepEqual(owners(yield* read("ops", "?user=bob&session=s")), ["bob"])
      assert.deepEqual(owners(yield* read("ops", "?search=SECOND")), ["bob"])
      const { entries } = yield* read("ada")
      const text = JSON.stringify(entries)
      assert.include(text, "\"callId\":\"1\"")
      for (const hidden of ["idempotency_key", "idempotencyKey", "reservation", "principal", "span"]) {
        assert.notInclude(text, hidden)
      }
      // page by page, all of them and none twice
      const first = yield* read("ops", "?limit=2")
      assert.equal(first.entries.length, 2)
      const rest = yield* read("ops", `?before=${first.next}`)
      const all = (yield* read("ops")).entries
      assert.deepEqual([...first.entries, ...rest.entries], all)
      // the newest first, and the oldest where they are asked for
      const places: ReadonlyArray<number> = all.map((it: { readonly place: number }) => it.place)
      assert.deepEqual(places, places.toSorted((one, other) => other - one))
      const oldest = yield* read("ops", "?order=oldest&limit=3")
      assert.deepEqual(oldest.entries, all.toReversed().slice(0, 3))
      const later = yield* read("ops", `?order=oldest&after=${oldest.next}`)
      assert.deepEqual([...oldest.entries, ...later.entries], all.toReversed())
      const between = yield* read("ops", `?after=${places.at(-2)}&before=${places[1]}`)
      assert.deepEqual(between.entries, all.slice(2, -2))
      // the same as a list of calls
      const { json: { calls } } = yield* server.request(
        "ops",
        "GET",
        "/api/journal/calls?search=SECOND&state=succeeded"
      )
      assert.deepEqual(calls.map(({ state, tool, user }: typeof RecordedCall.Type) => [user, tool, state]), [
        ["bob", "look", "succeeded"]
      ])
      const path = `/api/journal/calls/${calls[0].place}`
      const { json: detail } = yield* server.request("ops", "GET", path)
      assert.deepEqual(detail.args, { key: "second" })
      assert.equal((yield* server.request("ada", "GET", path)).status, 404)
      for (const wrong of ["limit=0", "before=-1", "after=1.5", "before=1e300", "order=random"]) {
        assert.equal((yield* server.request("ops", "GET", `/api/journal?${wrong}`)).status, 400, wrong)
      }
    }))
})

describe("the approval requests of the largest wave there is", () => {
  it.live("are answered together", () =>
    Effect.gen(function*() {
      const server = yield* start({ policy: { ask: ["look"] } })
      const calls = Array.from({ length: 1_000 }, (_, index) => ({
        id: `c${index}`,
        name: "look",
        params: { key: `${index}` }
      }))
      const handed = yield* Effect.forkChild(
        server.request("ada", "POST", "/api/sessions/s/waves", { body: { format: "native", message: calls } })
      )
      const asked = server.request("bob", "GET", "/api/approvals")
      const { json } = yield* Effect.repeat(asked, {
        until: ({ json }) => json.open.length === 1_000,
        schedule: Schedule.spaced("50 millis")
      })
      const answers = json.open.map(({ hash, id }: { readonly hash: string; readonly id: string }) => ({
        id,
        hash,
        answer: { _tag: "Deny" }
      }))
      const { status } = yield* server.request("bob", "POST", "/api/approvals/answers", { body: { answers } })
      assert.equal(status, 200)
      assert.lengthOf((yield* Fiber.join(handed)).json.messages, 1_000)
    }))
})

describe("grants", () => {
  it.live("are listed to their user and to those who answer for them, and are taken back by either", () =>
    Effect.gen(function*() {
      const server = yield* start()
      yield* answered(server, "w", { _tag: "ApproveForScope" })
      const grants = (user: UserName) => Effect.map(server.request(user, "GET", "/api/grants"), ({ json }) => json)
      const [grant] = yield* grants("bob")
      assert.deepInclude(grant, { user: "ada", session: "s", tool: "save", answer: "ApproveForScope" })
      assert.deepEqual(yield* grants("ada"), [grant])
      const revoked = (user: UserName) =>
        Effect.map(server.request(user, "DELETE", `/api/grants/${grant.id}`), ({ status }) => status)
      assert.equal(yield* revoked("ops"), 403)
      assert.equal(yield* revoked("bob"), 204)
      assert.equal(yield* revoked("bob"), 404)
      assert.deepEqual(yield* grants("ada"), [])
    }))
})

describe("a wave", () => {
  it.live("goes on when the client that handed it over goes away", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const gone = yield* Effect.forkChild(submit(server, "w", "hold", { key: "k" }))
      yield* server.held.runs("k")
      gone.interruptUnsafe()
      yield* server.held.release("k")
      const events = yield* server.sse("ada", "/api/sessions/s/waves/w/events")
      assert.equal((yield* events.rest).at(-1)?.event, "tools_end")
      const { json } = yield* server.request("ada", "GET", "/api/sessions/s/waves/w")
      assert.include(JSON.stringify(json.messages), "held k")
    }), { tags: ["SV1"] })

  it.live("is read on behind the id that a browser sends, rather than behind what the page said at first", () =>
    Effect.gen(function*() {
      const server = yield* start()
      yield* submit(server, "w", "look", { key: "a" })
      const path = "/api/sessions/s/waves/w/events"
      const all = yield* (yield* server.sse("ada", path)).rest
      const behind = yield* (yield* server.sse("ada", `${path}?after=${all[0]!.id}`, { lastEventId: all[1]!.id })).rest
      assert.deepEqual(behind, all.slice(2))
      assert.deepEqual(yield* (yield* server.sse("ada", `${path}?after=${all[0]!.id}`)).rest, all.slice(1))
    }))

  it.live("has a stream that opens at once, while there is nothing to be said", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const path = "/api/sessions/s/waves/w/events"
      const first = yield* server.sse("ada", "/api/sessions/s/waves", {
        body: { message: [call("1", "hold", { key: "k" })], wave: "w" }
      })
      const seen = yield* first.until(({ event }) => event === "tool_status")
      // sooner than the heartbeat of each 15 seconds
      const second = yield* server.sse("ada", path, { lastEventId: seen.at(-1)!.id }).pipe(
        Effect.timeoutOption("10 seconds"),
        Effect.map(Option.getOrThrow)
      )
      assert.equal(second.status, 200)
      yield* server.held.release("k")
      assert.deepEqual(yield* second.rest, yield* first.rest)
    }))

  it.live("is answered at once to a client that does not want to wait", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const submitted = server.request("ada", "POST", "/api/sessions/s/waves", {
        body: { message: [call("1", "hold", { key: "k" })], wave: "w" },
        headers: { prefer: "wait=5, Respond-Async" }
      })
      assert.deepInclude((yield* submitted).json, { wave: "w", status: "running" })
      yield* server.held.release("k")
      const { json } = yield* Effect.repeat(server.request("ada", "GET", "/api/sessions/s/waves/w"), {
        until: ({ json }) => json.status === "ended",
        schedule: Schedule.spaced("10 millis")
      })
      assert.include(JSON.stringify(json.messages), "held k")
      assert.deepInclude((yield* submitted).json, { status: "ended", messages: json.messages })
    }))

  it.live("is cancelled by whose it is, and has its outcomes", () =>
    Effect.gen(function*() {
      const server = yield* start()
      const events = yield* server.sse("ada", "/api/sessions/s/waves", {
        body: { message: [call("1", "hold", { key: "k" })], wave: "w" }
      })
      yield* server.held.runs("k")
      assert.equal(
        (yield* server.request("ada", "POST", "/api/sessions/s/waves/w/cancel", { body: { reason: "enough" } })).status,
        204
      )
      assert.equal((yield* events.rest).at(-1)?.data.executionResults[0]._tag, "Cancelled")
    }))
})

describe("stopping", () => {
  it.live(
    "suspends what waits for a person, lets what runs come to its end, and ends every stream",
    () =>
      Effect.gen(function*() {
        const server = yield* start()
        const live = yield* server.sse("bob", "/api/live")
        const asked = yield* server.sse("ada", "/api/sessions/one/waves", {
          body: { message: [call("1", "save", { path: "a", text: "b" })] }
        })
        yield* asked.until(({ event }) => event === "tool_approval_request")
        const running = yield* server.sse("ada", "/api/sessions/two/waves", {
          body: { message: [call("1", "hold", { key: "k" })] }
        })
        yield* server.held.runs("k")
        const stopped = yield* Effect.forkChild(server.stop)
        assert.equal((yield* asked.rest).at(-1)?.event, "wave_suspended")
        assert.equal((yield* server.request(undefined, "GET", "/ready")).status, 503)
        assert.equal((yield* submit(server, "late", "look", { key: "late" })).status, 503)
        yield* server.held.release("k")
        const last = (yield* running.rest).at(-1)
        assert.equal(last?.event, "tools_end")
        assert.equal(last?.data.toolMessages[0].text, "held k")
        assert.equal((yield* live.rest).at(-1)?.event, "stopping")
        yield* Fiber.join(stopped)
      }),
    { tags: ["SV9"] }
  )
})

describe("records", () => {
  it.live("tell the rules as sentences and as a graph", () =>
    Effect.gen(function*() {
      const server = yield* start({ rules: [{ _tag: "RequiresPrecedingTools", tool: "save", tools: ["look"] }] })
      const { json } = yield* server.request("ada", "GET", "/api/rules")
      assert.equal(json.sentences.length, 1)
      assert.deepEqual(json.nodes.map((it: { readonly label: string }) => it.label), ["save", "look"])
      assert.deepInclude(json.edges[0], { kind: "needs", isMutual: false })
    }))

  it.live("undo a write in the root, and say what that would do before", () =>
    Effect.gen(function*() {
      const files = yield* FileSystem.FileSystem
      const folder = `${yield* files.makeTempDirectoryScoped()}/root`
      yield* files.makeDirectory(folder)
      yield* files.writeFileString(`${folder}/a.txt`, "before\n")
      const server = yield* start({ folder })
      const { json } = yield* submit(server, "w", "write_file", { path: "a.txt", content: "after\n" })
      assert.equal(json.end.executionResults[0]._tag, "Succeeded", JSON.stringify(json))
      const path = "/api/sessions/s/checkpoints"
      const [checkpoint] = (yield* server.request("ada", "GET", path)).json
      assert.deepInclude(checkpoint, { tool: "write_file", paths: ["a.txt"] })
      assert.deepEqual((yield* server.request("bob", "GET", path)).json, [])
      const plan = (yield* server.request("ada", "GET", `${path}/${checkpoint.id}`)).json
      assert.deepInclude(plan.steps[0], { path: "a.txt", action: "restore" })
      assert.include(plan.diff, "+before")
      // who approves for ada may undo what ada's calls wrote, and sees which files, not what is in them
      const shared = yield* server.request("bob", "GET", `${path}/${checkpoint.id}?user=ada`)
      assert.deepInclude(shared.json.steps[0], { path: "a.txt", action: "restore" })
      assert.equal(shared.json.diff, "")
      for (const user of ["eve", "ops"] as const) {
        assert.equal((yield* server.request(user, "GET", `${path}?user=ada`)).status, 403)
        assert.equal((yield* server.request(user, "GET", `${path}/${checkpoint.id}?user=ada`)).status, 403)
        const answer = yield* server.request(user, "POST", `${path}/${checkpoint.id}/undo?user=ada`, { body: {} })
        assert.equal(answer.status, 403)
      }
      yield* files.writeFileString(`${folder}/a.txt`, "changed\n")
      const undo = (user: UserName, body: unknown) =>
        server.request(user, "POST", `${path}/${checkpoint.id}/undo`, { body })
      assert.equal((yield* undo("bob", {})).status, 404)
      const refused = yield* undo("ada", {})
      assert.equal(refused.status, 409)
      assert.deepInclude(refused.json, { isForceable: true })
      assert.equal(yield* files.readFileString(`${folder}/a.txt`), "changed\n")
      assert.equal((yield* undo("ada", { force: true })).status, 200)
      assert.equal(yield* files.readFileString(`${folder}/a.txt`), "before\n")
    }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)))
})

describe("the Accept header", () => {
  it("asks for events where it wants them more than JSON", () => {
    const asked = ["text/event-stream", "text/event-stream, application/json;q=0.9", "application/json;q=0.1, text/*"]
    const not = [
      undefined,
      "",
      "*/*",
      "application/json",
      "application/json, text/event-stream",
      "text/event-stream;q=0, application/json",
      "text/event-stream;q=0.5, */*",
      "text/event-stream;q=nonsense"
    ]
    assert.deepEqual(asked.map(Sse.prefersEvents), asked.map(() => true))
    assert.deepEqual(not.map(Sse.prefersEvents), not.map(() => false))
  })
})
