/**
 * The journal as a list of calls, over each kind of journal: what is listed, under which filters, page by page.
 *
 * @module-tag J9
 * @module-tag J11
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Journal from "../../../src/core/store/Journal.ts"
import type { User } from "../../../src/server/api/ApiAccess.ts"
import type { RecordedCall } from "../../../src/server/api/ApiRecords.ts"
import * as CallPages from "../../../src/server/records/CallPages.ts"
import * as JournalContract from "../../../src/testing/JournalContract.ts"
import { randomFrom } from "../../../src/testing/SeededRandom.ts"
import * as JournalFile from "../../../src/tools/folders/JournalFile.ts"
import * as Postgres from "../../support/Postgres.ts"
import { seeds } from "../../support/seeds.ts"

const { entry } = JournalContract

type Service = Journal.Journal["Service"]

const ops: User = { name: "ops", run: false, approve: [], records: ["*"], operate: true }
const ada: User = { name: "ada", run: true, approve: [], records: [], operate: false }

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "call-pages-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

const append = (journal: Service, entries: ReadonlyArray<Journal.JournalEntry>) =>
  journal.append(entries.map((it) => ({ entry: it })), { durable: true })

const read = (journal: Service, wanted: CallPages.Wanted = {}, user = ops) => CallPages.read(journal, user, wanted)

/** All pages of a list. */
const readAll = Effect.fnUntraced(function*(journal: Service, wanted: CallPages.Wanted) {
  const calls: Array<RecordedCall> = []
  let page = yield* read(journal, wanted)
  calls.push(...page.calls)
  while (page.next !== undefined) {
    page = yield* read(journal, { ...wanted, before: page.next })
    calls.push(...page.calls)
  }
  return calls
})

const cancelled: Journal.Of<"Settled">["outcome"] = {
  _tag: "Cancelled",
  callId: "c",
  tool: "t",
  index: 0,
  attempt: 0,
  queuedAt: 1,
  commits: 0,
  started: false,
  reason: "stopped"
}

/** The entries of a call that got so far. */
const lives = {
  queued: [entry("Arrived", { key: "" })],
  running: [entry("Arrived", { key: "" }), entry("Started", { key: "" })],
  succeeded: [entry("Arrived", { key: "" }), entry("Started", { key: "" }), entry("Settled", { key: "" })],
  cancelled: [entry("Arrived", { key: "" }), entry("Settled", { key: "", outcome: cancelled })],
  suspended: [entry("Arrived", { key: "" }), entry("Suspended", { key: "" })],
  resumed: [
    entry("Arrived", { key: "" }),
    entry("Suspended", { key: "" }),
    entry("Arrived", { key: "", isResumed: true }),
    entry("Settled", { key: "" })
  ]
} as const

interface Planned {
  readonly kind: keyof typeof lives
  readonly tool: string
  readonly agentPath: ReadonlyArray<string>
  readonly principal: string
}

const asked = { requestId: "r", why: "policy", expiresAt: "unlimited", shown: "h", preview: "+new" } as const

const statements: ReadonlyArray<readonly [string, (journal: Service) => Effect.Effect<void, unknown>]> = [
  [
    "has each call once, newest first, whatever the size of its pages and the filter",
    (journal) =>
      Effect.gen(function*() {
        const { int, pick } = randomFrom(seeds(1).at(-1)!)
        const plan = Array.from({ length: 60 }, (): Planned => ({
          kind: pick(Object.keys(lives) as Array<keyof typeof lives>),
          tool: pick(["read", "write"]),
          agentPath: pick<ReadonlyArray<string>>([[], ["reviewer"], ["reviewer", "tester"]]),
          principal: pick(["ada/s1", "ada/s2", "bob/s1"])
        }))
        // calls overlap: the entries of one come in order, and those of others in between
        const timed = plan.flatMap(({ kind, ...of }, index) => {
          let at = index * 5
          return lives[kind].map((it) => {
            at += int(20)
            return { it: { ...it, ...of, key: `k${index}`, callId: `k${index}` }, at }
          })
        })
        yield* append(journal, timed.toSorted((a, b) => a.at - b.at).map(({ it }) => it))
        const stateOf = (kind: keyof typeof lives) => kind === "resumed" ? "succeeded" : kind
        const filters: ReadonlyArray<readonly [CallPages.Wanted, (of: Planned) => boolean]> = [
          [{}, () => true],
          [{ tool: "read" }, (it) => it.tool === "read"],
          [{ agent: "tester" }, (it) => it.agentPath.length === 2],
          [{ agent: "" }, (it) => it.agentPath.length === 0],
          [{ user: "ada", session: "s2" }, (it) => it.principal === "ada/s2"],
          [{ session: "s1" }, (it) => it.principal !== "ada/s2"],
          [{ state: "succeeded" }, (it) => stateOf(it.kind) === "succeeded"],
          [{ state: "suspended", tool: "write" }, (it) => it.kind === "suspended" && it.tool === "write"],
          [{ state: "queued" }, (it) => it.kind === "queued"],
          [{ search: "STOPPED" }, (it) => it.kind === "cancelled"],
          [{ search: "\"reviewer\"", state: "succeeded" }, (it) =>
            it.agentPath.length > 0 && stateOf(it.kind) === "succeeded"]
        ]
        for (const [wanted, isWanted] of filters) {
          const expected = plan.flatMap((it, index) =>
            isWanted(it) ? [[`k${index}`, stateOf(it.kind)]] : []
          )
          for (const limit of [1, 7, 200]) {
            const found = yield* readAll(journal, { ...wanted, limit })
            assert.deepStrictEqual(
              found.map(({ callId, state }) => [callId, state]).toSorted(),
              expected.toSorted(),
              JSON.stringify({ ...wanted, limit })
            )
            if (wanted.search !== undefined || wanted.state === "succeeded") continue
            const places = found.map(({ place }) => place)
            assert.deepStrictEqual(places, places.toSorted((a, b) => b - a))
          }
        }
      })
  ],
  [
    "says who decided, what the model read, and what approvers saw",
    (journal) =>
      Effect.gen(function*() {
        const of = (key: string) => ({ ...entry("Arrived", { key, callId: key, principal: "ada/s" }) })
        const arrived = (key: string): Journal.JournalEntry => of(key)
        const answered = (key: string, answer: Partial<Journal.Of<"Answered">>): Journal.JournalEntry => {
          const { args: _, ...common } = of(key)
          return { ...common, _tag: "Answered", requestId: "r", answer: "ApproveOnce", by: "user", ...answer }
        }
        const ask = (key: string): Journal.JournalEntry => {
          const { args: _, ...common } = of(key)
          return { ...common, _tag: "Asked", ...asked }
        }
        const started = (key: string, allowedBy: string) =>
          entry("Started", { key, callId: key, principal: "ada/s", allowedBy })
        const ended = entry("Settled", { key: "person", callId: "person", principal: "ada/s" })
        const lines = [
          [arrived("person"), ask("person"), answered("person", { person: "bob" }), started("person", "answer"), ended],
          [arrived("policy"), started("policy", "policy")],
          [arrived("grant"), started("grant", "g1")],
          [arrived("asked"), ask("asked")],
          [arrived("late"), ask("late"), answered("late", { answer: "timeout", by: "timeout" })]
        ]
        yield* append(journal, lines.flat())
        const { calls } = yield* read(journal)
        const decided = calls.map(({ callId, decidedBy, state }) => [callId, state, decidedBy])
        assert.deepStrictEqual(decided, [
          ["late", "queued", { kind: "timeout" }],
          ["asked", "waiting", undefined],
          ["grant", "running", { kind: "grant", name: "g1" }],
          ["policy", "running", { kind: "policy" }],
          ["person", "succeeded", { kind: "person", name: "bob" }]
        ])
        const { place } = calls.at(-1)!
        const detail = yield* CallPages.one(journal, ops, place)
        assert.deepStrictEqual(
          [detail.args, detail.diff, detail.modelText, detail.requestId],
          [{ q: 1 }, "+new", "{\"a\":[1,null]}", "r"]
        )
        assert.strictEqual(detail.entries.length, 5)
        assert.notInclude(JSON.stringify(detail), "idempotencyKey")
      })
  ],
  [
    "shows nobody the calls of others, by whichever filter or place",
    (journal) =>
      Effect.gen(function*() {
        yield* append(journal, [
          entry("Arrived", { key: "a", principal: "ada/s" }),
          entry("Arrived", { key: "b", principal: "bob/s" })
        ])
        for (const wanted of [{}, { search: "callId" }, { state: "queued" as const }, { session: "s" }]) {
          assert.deepStrictEqual((yield* read(journal, wanted, ada)).calls.map(({ user }) => user), ["ada"])
        }
        assert.deepStrictEqual((yield* read(journal, { user: "bob" }, ada)).calls, [])
        const places = (yield* read(journal)).calls.map(({ place }) => place)
        const statuses = yield* Effect.forEach([...places, 0, -1, 1.5, 1e300, 99], (place) =>
          Effect.match(CallPages.one(journal, ada, place), {
            onSuccess: ({ user }) =>
              user,
            onFailure: (it) => it._tag
          }))
        assert.deepStrictEqual(statuses, ["NotFound", "ada", ...Array(5).fill("NotFound")])
        for (const wrong of [{ limit: 0 }, { limit: 201 }, { before: -1 }]) {
          assert.strictEqual((yield* Effect.flip(read(journal, wrong)))._tag, "Invalid")
        }
      })
  ],
  [
    "reads a bounded number of entries for a page, also of a call that was submitted again and again",
    (journal) =>
      Effect.gen(function*() {
        const again = Array.from({ length: 3_000 }, () => entry("Arrived", { key: "same" }))
        yield* append(journal, again)
        let read = 0
        const counted: Service = {
          ...journal,
          page: (query, bounds) =>
            Effect.tap(journal.page(query, bounds), ({ entries }) => Effect.sync(() => void (read += entries.length)))
        }
        const { calls, next } = yield* CallPages.read(counted, ops, { limit: 100 })
        assert.strictEqual(calls.length, 100)
        assert.isNumber(next)
        assert.isAtMost(read, 200)
      })
  ]
]

const holds = <Needs>(
  journals: Layer.Layer<Journal.Journal, unknown, Needs>,
  check: (name: string, effect: Effect.Effect<void, unknown, Needs>) => void
) => {
  for (const [name, body] of statements) {
    check(name, Effect.provide(Effect.flatMap(Journal.Journal, body), journals, { local: true }))
  }
}

describe("the calls of a journal in memory", () => {
  holds(Journal.layerMemory(), (name, check) => it.effect(name, () => check))
})

describe("the calls of a journal in a file", () => {
  const file = Layer.unwrap(Effect.map(folder, (it) => JournalFile.layer({ path: join(it, "journal.ndjson") })))
  holds(file, (name, check) => it.effect(name, () => check))
})

describe("the calls of a journal in SQLite", () => {
  const database = Layer.unwrap(Effect.map(folder, (it) => Sqlite.layer({ filename: join(it, "journal.db") })))
  holds(Layer.provide(SqlJournal.layer(), database), (name, check) => it.effect(name, () => check))
})

layer(Postgres.layer)("the calls of a journal in PostgreSQL", (it) => {
  holds(Layer.provide(SqlJournal.layer(), Postgres.client), (name, check) => it.effect(name, () => check))
})
