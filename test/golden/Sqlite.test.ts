/**
 * A database as version 1 wrote it, as a dump (`.dump` of sqlite3). The file is never edited again: a release that
 * cannot read it loses dedupe keys, counts, permissions, records, artifacts and undo in an upgrade. A new version gets
 * a file of its own.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { ArtifactStore } from "../../src/core/output/ArtifactStore.ts"
import { Checkpoints } from "../../src/core/output/Checkpoints.ts"
import { Journal } from "../../src/core/store/Journal.ts"
import * as JournalText from "../../src/core/store/JournalText.ts"
import { PushTable } from "../../src/core/store/PushTable.ts"
import { type Claim, type KeyClaim, type Refused, StateStore } from "../../src/core/store/StateStore.ts"
import * as SqlArtifacts from "../../src/sql/SqlArtifacts.ts"
import * as SqlCheckpoints from "../../src/sql/SqlCheckpoints.ts"
import * as Sqlite from "../../src/sql/Sqlite.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as SqlPushDevices from "../../src/sql/SqlPushDevices.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"

const dump = readFileSync(new URL("sqlite.v1.sql", import.meta.url), "utf8")

/** The same with what rules remember of a conversation. */
const conversations = readFileSync(new URL("sqlite-conversations.v1.sql", import.meta.url), "utf8")

/** When it was written. */
const writtenAt = 1795398969221

/** A database with what a dump says. */
const database = (text: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "tool-executor-golden-"))),
      (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
    ),
    (folder) => {
      const filename = join(folder, "golden.db")
      const db = new DatabaseSync(filename)
      db.exec(text)
      db.close()
      return filename
    }
  )

const stores = (filename: string) =>
  Layer.mergeAll(
    SqlStateStore.layer({ pruneEvery: "unlimited" }),
    SqlJournal.layer(),
    SqlArtifacts.layer(),
    SqlCheckpoints.layer()
  ).pipe(Layer.provide(Sqlite.layer({ filename })))

const golden = <A, E>(effect: Effect.Effect<A, E, StateStore | Journal | ArtifactStore | Checkpoints>, text = dump) =>
  Effect.gen(function*() {
    yield* TestClock.setTime(writtenAt)
    return yield* Effect.provide(effect, stores(yield* database(text)))
  }).pipe(Effect.scoped)

const key = (name: string, tool: string): KeyClaim => ({
  _tag: "Key",
  scope: "principal",
  principal: "ada",
  batch: "chat",
  process: "main",
  tool,
  key: name,
  wave: "wave",
  endsWithWave: false,
  endsWithChange: false,
  ignoreOtherProcesses: false
})

describe("a database of version 1", () => {
  it.effect("has its keys, counts, groups, clocks and permissions", () =>
    golden(Effect.gen(function*() {
      const store = yield* StateStore
      const check = (claim: Claim): Effect.Effect<Refused | undefined, unknown> => store.check([claim], 2_000)
      const taken = yield* check(key("kept", "read"))
      assert.deepInclude(taken, {
        _tag: "KeyTaken",
        owner: "kept-call",
        process: "main",
        untold: false,
        running: false
      })
      assert.deepInclude(taken?._tag === "KeyTaken" && taken.value?.outcome, { _tag: "Succeeded", callId: "kept-call" })
      assert.deepInclude(yield* check(key("running", "write")), {
        _tag: "KeyTaken",
        owner: "running-call",
        untold: true
      })
      assert.deepInclude(yield* check(key("started", "write")), { _tag: "KeyTaken", owner: "started-call" })
      assert.deepInclude(yield* check({ _tag: "Calls", batch: "chat", tool: "read", max: 1 }), { _tag: "CallsUsedUp" })
      assert.isUndefined(yield* check({ _tag: "Calls", batch: "chat", tool: "write", max: 2 }))
      assert.deepInclude(
        yield* check({ _tag: "Group", batch: "chat", group: "read|write", tool: "write" }),
        { _tag: "GroupTaken", tool: "read" }
      )
      assert.deepInclude(
        yield* check({ _tag: "Cooldown", principal: "ada", tool: "read", millis: 1e12 }),
        { _tag: "CoolingDown", running: false, remainingMillis: 1e12 - 1_000 }
      )
      assert.deepStrictEqual(yield* store.grants("ada", 2_000), [{
        id: "g1",
        principal: "ada",
        tool: "write",
        revision: "r1",
        agentPath: ["researcher"],
        targets: ["a.txt"],
        answer: "ApproveForScope",
        grantedAt: 1_000
      }])
    })))

  it.effect("has what rules remember of a conversation, and its reservations", () =>
    golden(
      Effect.gen(function*() {
        const store = yield* StateStore
        const now = writtenAt + 1_000
        const here = { batch: "conversation", scope: "session" } as const
        const tagOf = (claim: Claim) => Effect.map(store.check([claim], now), (it) => it?._tag)
        const [past] = yield* store.recall([{ _tag: "Batch", ...here }], now)
        assert.deepStrictEqual(past?.succeeded, ["verify", "draft"])
        assert.deepInclude(past?.last, { tool: "draft", place: { at: writtenAt, serial: 2, by: "executor" }, index: 1 })
        assert.deepStrictEqual(past?.last?.routes.map((it) => it.tools), [["review"]])
        assert.strictEqual(yield* tagOf({ _tag: "Calls", tool: "draft", max: 1, ...here }), "CallsUsedUp")
        assert.isUndefined(yield* tagOf({ _tag: "Calls", tool: "draft", max: 2, ...here }))
        const process = { _tag: "Calls", batch: "chat", tool: "draft", max: 1, scope: "process" } as const
        assert.strictEqual(yield* tagOf({ ...process, process: "main" }), "CallsUsedUp")
        assert.isUndefined(yield* tagOf({ ...process, process: "other" }))
        assert.strictEqual(yield* tagOf({ _tag: "Group", group: "draft|write", tool: "write", ...here }), "GroupTaken")
        const rests = { _tag: "Cooldown", principal: "ada", tool: "draft", millis: 1e12, ...here } as const
        assert.strictEqual(yield* tagOf(rests), "CoolingDown")
        const open = { id: "219debed-c6a8-4fb6-805d-d9b63cd11068-0000007", epoch: 1 }
        const unstarted = { started: false, key: "release", windowMillis: 0, value: undefined } as const
        assert.strictEqual(yield* tagOf({ _tag: "Calls", tool: "open", max: 1, ...here }), "CallsUsedUp")
        assert.isTrue(yield* store.settle(open, unstarted, now))
        assert.isUndefined(yield* tagOf({ _tag: "Calls", tool: "open", max: 1, ...here }))
      }),
      conversations
    ))

  it.effect("has its records", () =>
    golden(Effect.gen(function*() {
      const journal = yield* Journal
      const entries = yield* Stream.runCollect(journal.read({}))
      const lines = readFileSync(new URL("journal.v1.jsonl", import.meta.url), "utf8").trimEnd().split("\n")
      assert.sameDeepMembers(
        Array.from(entries, ({ entry }) => JSON.parse(JournalText.encode(entry))),
        lines.map((line) => JSON.parse(line))
      )
    })))

  it.effect("has its artifacts and checkpoints", () =>
    golden(Effect.gen(function*() {
      const artifacts = yield* ArtifactStore
      const owner = { principal: "ada", batch: "chat" }
      const part = yield* artifacts.read(owner, "art_0mwsm6uth00163e9243bcce8-ln", { offset: 2, length: 5 })
      assert.deepStrictEqual(part, { text: "large", chars: 21 })
      const checkpoints = yield* Checkpoints
      const [checkpoint] = yield* checkpoints.list("ada")
      assert.deepInclude(checkpoint, { principal: "ada", batch: "chat", callId: "c1", tool: "write" })
      assert.strictEqual(new TextDecoder().decode(yield* checkpoints.content(checkpoint!, "a.txt")), "old\n")
    })))

  it.effect("is not read by a release that does not know its version", () =>
    golden(
      Effect.gen(function*() {
        const store = yield* StateStore
        const exits: ReadonlyArray<Exit.Exit<unknown, unknown>> = [
          yield* Effect.exit(store.grants("ada", 2_000)),
          yield* Effect.exit(store.check([key("kept", "read")], 2_000))
        ]
        for (const exit of exits) {
          assert.include(Exit.isFailure(exit) && Cause.pretty(exit.cause), "it has version 2, and this release reads 1")
        }
      }),
      dump.replaceAll("{\"v\":1", "{\"v\":2")
    ))
})

describe("devices of version 1", () => {
  it.effect("are notified after an upgrade, and end as before", () =>
    Effect.gen(function*() {
      const filename = yield* database(readFileSync(new URL("sqlite-devices.v1.sql", import.meta.url), "utf8"))
      const services = yield* Layer.build(SqlPushDevices.layer.pipe(Layer.provide(Sqlite.layer({ filename }))))
      const table = Context.get(services, PushTable)
      const [ada, bob] = yield* table.all
      assert.deepInclude(ada, { user: "ada", endpoint: "https://push.example.com/send/1", addedAt: writtenAt })
      assert.deepInclude(ada, { auth: "MDEyMzQ1Njc4OTo7PD0-Pw" })
      assert.deepInclude(bob, { user: "bob" })
      yield* table.remove(ada!)
      yield* table.add({ ...bob!, user: "ada" }, 10)
      assert.deepStrictEqual((yield* table.all).map((it) => [it.user, it.endpoint]), [["ada", bob!.endpoint]])
    }).pipe(Effect.scoped))
})
