/** What people see of a write: all of it, from a real executor, in parts; and nowhere else. */
import { assert, describe, it } from "@effect/vitest"
import { Approvals, Checkpoints, type FileChange, Journal, ToolAnnotations, ToolHandlers } from "effect-tool-executor"
import { type ApiApprovals } from "effect-tool-executor/server"
import { Tool } from "effect/ai"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as JournalLines from "../../../src/cli/journal/JournalLines.ts"
import { callsOf } from "../../../src/core/store/JournalCalls.ts"
import * as PendingApprovals from "../../../src/server/approvals/PendingApprovals.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ask, layer, user } from "../../support/Asking.ts"
import { call, open, toolkit, type ToolSpec } from "../../support/Harness.ts"

const ada = user("ada", ["*"])

/** A tool that writes these files, after somebody has said yes. */
const writes = (changes: ReadonlyArray<FileChange.FileChange>): ToolSpec => ({
  handler: () => Effect.succeed("written"),
  class: "SerialMut",
  annotate: (tool) => tool.annotate(ToolAnnotations.Preview, () => Effect.succeed(changes))
})

/** Runs one call that writes these files, up to its approval request. */
const asked = <A, E>(
  changes: ReadonlyArray<FileChange.FileChange>,
  use: (id: string, running: Fiber.Fiber<unknown>, journal: Journal.Journal["Service"]) => Effect.Effect<
    A,
    E,
    PendingApprovals.PendingApprovals | Approvals.Approvals
  >
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const context = yield* Layer.build(Layer.merge(layer(), Journal.layerMemory()))
      const journal = Context.get(context, Journal.Journal)
      const approvals = Context.get(context, Approvals.Approvals)
      const { process } = yield* open({ write: writes(changes) }, { policy: { default: "ask" }, approvals, journal })
      const running = yield* Effect.forkChild(process.executeWave([call("1", "write", {})]))
      yield* Effect.sleep("1 second")
      const [approval] = (yield* Context.get(context, PendingApprovals.PendingApprovals).list(ada)).open
      return yield* Effect.provide(use(approval!.id, running, journal), context)
    })),
    { limit: "1 day" }
  )

const get = (id: string) =>
  Effect.map(
    PendingApprovals.PendingApprovals.use((it) => it.get(ada, id)),
    (it) => Option.getOrThrow(it) as ApiApprovals.ApprovalRequest
  )

const filesOf = ({ preview }: ApiApprovals.ApprovalRequest) => preview?._tag === "Files" ? preview.files : []

/** A whole text, part by part. */
const textOf = Effect.fnUntraced(function*(id: string, index: number, side: "before" | "after") {
  const parts: Array<string> = []
  for (let from: number | undefined = 0; from !== undefined;) {
    const part: Option.Option<{ readonly text: string; readonly next?: number }> = yield* PendingApprovals
      .PendingApprovals.use((
        it
      ) => it.part(ada, { id, index, side, from: from! }))
    const { next, text } = Option.getOrThrow(part)
    parts.push(text)
    from = next
  }
  return parts
})

describe("previews", () => {
  it.effect("shows every character of a long line and of many lines, in parts that cut no character", () => {
    const line = `${"a".repeat(199_999)}${"😀".repeat(300_000)}b`
    const lines = Array.from({ length: 5_000 }, (_, n) => `line ${n}\n`).join("")
    return asked([{ path: "long.txt", before: lines, after: line }], (id) =>
      Effect.gen(function*() {
        const [file] = filesOf(yield* get(id))
        assert.deepInclude(file!.after, { length: line.length, isText: true })
        assert.deepInclude(file!.before, { length: lines.length, isText: true })
        const parts = yield* textOf(id, 0, "after")
        assert.strictEqual(parts.join(""), line)
        assert.isTrue(parts.every((it) => /^[^\uDC00-\uDFFF]/u.test(it) && it.length <= 200_000))
        assert.strictEqual(parts[0]!.length, 199_999)
        assert.strictEqual((yield* textOf(id, 0, "before")).join(""), lines)
      }))
  })

  it.effect("says how much a write changes, by what would be written", () =>
    asked(
      [
        { path: "a.txt", before: "one\n-- two\nthree\n", after: "one\n++ 2\nthree\nfour\n" },
        { path: "b.txt", before: undefined, after: "@@ -1 +1 @@\n" }
      ],
      (id) =>
        Effect.gen(function*() {
          assert.deepStrictEqual((yield* get(id)).facts, {
            readOnly: false,
            openWorld: false,
            undoable: false,
            files: { changed: 2, created: 1 },
            lines: { added: 3, removed: 1 }
          })
        })
    ))

  it.effect("counts no lines of what is binary or too long", () =>
    asked([{ path: "a.bin", before: Uint8Array.of(0xff), after: "x\n" }], (id) =>
      Effect.gen(function*() {
        assert.deepStrictEqual((yield* get(id)).facts.files, { changed: 1, created: 0 })
        assert.isUndefined((yield* get(id)).facts.lines)
      })))

  it.effect("knows of a tool what it declares, and that a write can be undone where it is kept", () => {
    const tools = {
      send: {
        handler: () => Effect.void,
        annotate: (tool: Tool.Any) => tool.annotate(Tool.Title, "Send a mail").annotate(Tool.OpenWorld, true)
      },
      write: { handler: () => Effect.void, class: "SerialMut" as const }
    }
    const { handlers, kit } = toolkit(tools)
    const context = layer().pipe(
      Layer.provide([ToolHandlers.layer(kit).pipe(Layer.provide(handlers)), Checkpoints.layerMemory()])
    )
    const change = { _tag: "Diff", diff: "", changes: [{ path: "a", before: "", after: "b" }] } as const
    return Effect.gen(function*() {
      yield* ask({ tool: "send" })
      yield* ask({ tool: "write", preview: change })
      yield* ask({ tool: "gone" })
      const { open } = yield* PendingApprovals.PendingApprovals.use((it) => it.list(ada))
      assert.deepStrictEqual(open.map(({ facts }) => [facts.title, facts.readOnly, facts.openWorld, facts.undoable]), [
        ["Send a mail", true, true, false],
        [undefined, false, false, true],
        [undefined, false, false, false]
      ])
    }).pipe(Effect.provide(context), Effect.scoped)
  })

  it.effect("says what is no text, what is not there, and gives no part of what there is none of", () => {
    const bytes = Uint8Array.of(0xff, 0, 1)
    const changes = [
      { path: "a.bin", before: bytes, after: new TextEncoder().encode("é\n") },
      { path: "b.txt", before: undefined, after: "" },
      { path: "c.txt", before: "gone", after: undefined }
    ]
    return asked(changes, (id) =>
      Effect.gen(function*() {
        const files = filesOf(yield* get(id))
        assert.deepStrictEqual(
          files.map(({ after, before, path }) => [
            path,
            before && [before.length, before.isText],
            after && [
              after.length,
              after.isText
            ]
          ]),
          [["a.bin", [3, false], [2, true]], ["b.txt", null, [0, true]], ["c.txt", [4, true], null]]
        )
        assert.notStrictEqual(files[0]!.before!.hash, files[0]!.after!.hash)
        assert.deepStrictEqual(yield* textOf(id, 0, "after"), ["é\n"])
        assert.deepStrictEqual(yield* textOf(id, 1, "after"), [""])
        const at = { id, index: 2, side: "before" as const, from: 0 }
        const none = [
          { ...at, index: 0 },
          { ...at, side: "after" as const },
          { ...at, index: 3 },
          { ...at, index: -1 },
          { ...at, index: 0.5 },
          { ...at, from: 5 },
          { ...at, from: -1 },
          { ...at, from: 0.5 },
          { ...at, from: Number.NaN }
        ]
        for (const it of none) {
          assert.isTrue(
            Option.isNone(yield* PendingApprovals.PendingApprovals.use((approvals) => approvals.part(ada, it)))
          )
        }
        const end = yield* PendingApprovals.PendingApprovals.use((approvals) => approvals.part(ada, { ...at, from: 4 }))
        assert.deepStrictEqual(Option.getOrThrow(end), { text: "" })
      }))
  })

  it.effect("keeps whole files out of the journal and of what is printed, and has who answered in it", () =>
    asked(
      [{ path: "a.txt", before: "", after: `${"line\n".repeat(10_000)}the end of it\n` }],
      (id, running, journal) =>
        Effect.gen(function*() {
          const approvals = yield* PendingApprovals.PendingApprovals
          const [request] = yield* Approvals.Approvals.use((it) => it.list)
          assert.notInclude(JSON.stringify(request), "the end of it")
          const { hash } = yield* get(id)
          yield* approvals.answer(ada, { id, hash, answer: { _tag: "ApproveOnce" } })
          yield* Fiber.join(running)
          yield* Effect.sleep(1)
          const entries = (yield* Effect.orDie(Stream.runCollect(journal.read({})))).map(({ entry }) => entry)
          assert.notInclude(JSON.stringify(entries), "the end of it")
          const answered = entries.find((it) => it._tag === "Answered")
          assert.deepInclude(answered, { answer: "ApproveOnce", by: "user", person: "ada" })
          const [recorded] = callsOf(entries)
          assert.include(JournalLines.whole(recorded!), "answered: ApproveOnce by ada")
        })
    ), { tags: ["SV16"] })
})
