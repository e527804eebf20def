import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as NodeFs from "node:fs"
import * as Checkpoints from "../../../src/core/output/Checkpoints.ts"
import * as FileChange from "../../../src/core/vocabulary/FileChange.ts"
import * as CheckpointFolder from "../../../src/tools/folders/CheckpointFolder.ts"
import * as Undo from "../../../src/tools/workspace/Undo.ts"
import * as Workspace from "../../../src/tools/workspace/Workspace.ts"
import { idsOf, saveAt, write } from "../../support/checkpoints.ts"
import { makeFolders, pathsIn, put } from "../fixture.ts"

type Contents = Readonly<Record<string, string | Uint8Array | undefined>>

/** A root, and what tools do in it. */
const makeScene = Effect.gen(function*() {
  const { outside, root } = yield* makeFolders
  const workspace = yield* Workspace.make(root)
  const checkpoints = yield* Checkpoints.Checkpoints
  const contentOf = (path: string): Buffer | undefined =>
    NodeFs.existsSync(`${root}/${path}`) ? NodeFs.readFileSync(`${root}/${path}`) : undefined
  /** Writes files, and removes those without a content. */
  const set = (contents: Contents): void => {
    for (const [path, content] of Object.entries(contents)) {
      if (content === undefined) NodeFs.rmSync(`${root}/${path}`)
      else put(root, { [path]: content })
    }
  }
  /** The same as a tool does it, with a checkpoint. */
  const change = (contents: Contents) =>
    saveAt({
      ...write({}),
      files: Object.entries(contents).map(([path, after]) => ({ path, before: contentOf(path), after }))
    }).pipe(Effect.tap(() => Effect.sync(() => set(contents))))
  return {
    root,
    outside,
    set,
    change,
    textOf: (path: string) => contentOf(path)?.toString(),
    plan: (checkpoint: Checkpoints.Checkpoint) => Undo.plan(workspace, checkpoint),
    restore: (checkpoint: Checkpoints.Checkpoint, options?: { readonly force?: boolean }) =>
      Effect.tap(Undo.restore(workspace, checkpoint, options), () => TestClock.adjust(1)),
    /** Fails with the refusal, and nothing was touched. */
    refused: (checkpoint: Checkpoints.Checkpoint, options?: { readonly force?: boolean }) =>
      Effect.gen(function*() {
        const look = () => [root, outside].map((folder) => pathsIn(folder).map((path) => lookAt(`${folder}/${path}`)))
        const [there, kept] = [look(), yield* checkpoints.list("p")]
        const refusal = yield* Effect.flip(Undo.restore(workspace, checkpoint, options))
        assert.instanceOf(refusal, Undo.UndoRefused)
        assert.deepStrictEqual(look(), there)
        assert.deepStrictEqual(yield* checkpoints.list("p"), kept)
        assert.strictEqual(refusal.id, checkpoint.id)
        return refusal
      }),
    list: checkpoints.list("p")
  }
})

type Scene = Effect.Success<typeof makeScene>

/** A path with what it holds: the content of a file, the target of a link. */
const lookAt = (path: string): readonly [path: string, holds: string | undefined] => {
  const stats = NodeFs.lstatSync(path)
  return [
    path,
    stats.isSymbolicLink() ? NodeFs.readlinkSync(path) : stats.isFile() ? NodeFs.readFileSync(path, "hex") : undefined
  ]
}

const check = (
  what: string,
  body: (scene: Scene) => Effect.Effect<void, unknown, Checkpoints.Checkpoints>,
  options?: Checkpoints.Options
) => it.effect(what, () => Effect.provide(Effect.flatMap(makeScene, body), Checkpoints.layerMemory(options)))

const stepsOf = ({ steps }: Undo.Plan) => steps.map(({ action, path }) => [path, action])

const problemsOf = ({ problems }: Undo.UndoRefused) => problems.map(({ path }) => path)

describe("a plan to undo", () => {
  check(
    "says what would become of each file, and changes nothing",
    ({ change, list, plan, root, set, textOf }) =>
      Effect.gen(function*() {
        set({ "changed.txt": "one\n", "same.txt": "one\n", "later.txt": "one\n", "gone.txt": "one\n" })
        const checkpoint = yield* change({
          "changed.txt": "two\n",
          "same.txt": "two\n",
          "later.txt": "two\n",
          "gone.txt": undefined,
          "src/new.txt": "two\n"
        })
        set({ "same.txt": "one\n", "later.txt": "three\n" })
        const there = pathsIn(root)
        const planned = yield* plan(checkpoint)
        assert.deepStrictEqual(stepsOf(planned), [
          ["changed.txt", "restore"],
          ["same.txt", "nothing"],
          ["later.txt", "changed"],
          ["gone.txt", "restore"],
          ["src/new.txt", "remove"]
        ])
        assert.isUndefined(planned.steps[0]!.because)
        assert.include(planned.steps[2]!.because ?? "", "changed after")
        assert.strictEqual(
          planned.diff,
          FileChange.diff([
            { path: "changed.txt", before: "two\n", after: "one\n" },
            { path: "later.txt", before: "three\n", after: "one\n" },
            { path: "gone.txt", before: undefined, after: "one\n" },
            { path: "src/new.txt", before: "two\n", after: undefined }
          ])
        )
        assert.deepStrictEqual(planned.checkpoint, checkpoint)
        assert.deepStrictEqual(pathsIn(root), there)
        assert.deepStrictEqual(["changed.txt", "later.txt"].map(textOf), ["two\n", "three\n"])
        assert.deepStrictEqual(yield* list, [checkpoint])
      })
  )

  check(
    "names the calls after it that did not say what they changed",
    ({ change, plan, restore, set }) =>
      Effect.gen(function*() {
        set({ "a.txt": "one", "b.txt": "one" })
        yield* saveAt(write({}, { tool: "before" }))
        const checkpoint = yield* change({ "a.txt": "two" })
        assert.deepStrictEqual((yield* plan(checkpoint)).notCovered, [])
        const first = yield* saveAt(write({}, { tool: "run_command" }))
        yield* change({ "b.txt": "two" })
        yield* saveAt(write({}, { principal: "q" }))
        const second = yield* saveAt(write({}, { tool: "run_command", batch: "other" }))
        assert.deepStrictEqual((yield* plan(checkpoint)).notCovered, [second, first])
        assert.deepStrictEqual((yield* restore(checkpoint)).notCovered, [second, first])
      })
  )
})

describe("undoing", () => {
  check("brings back what was there, byte for byte", ({ change, restore, root, set }) =>
    Effect.gen(function*() {
      const before = {
        "text.txt": Buffer.from("\ufeffé\r\n"),
        "binary": Buffer.from([0xff, 0, 0xfe]),
        "empty": Buffer.alloc(0),
        "src/gone.txt": Buffer.from("one")
      }
      set(before)
      const checkpoint = yield* change({ "text.txt": "two", binary: "two", empty: "two", "src/gone.txt": undefined })
      const done = yield* restore(checkpoint)
      assert.isTrue(done.steps.every(({ action }) => action === "restore"))
      for (const [path, content] of Object.entries(before)) {
        assert.deepStrictEqual(NodeFs.readFileSync(`${root}/${path}`), content, path)
      }
      assert.deepStrictEqual(pathsIn(root), ["binary", "empty", "src", "src/gone.txt", "text.txt"])
    }))

  check("keeps the mode of a file it writes", ({ change, restore, root, set }) =>
    Effect.gen(function*() {
      set({ "run.sh": "one" })
      NodeFs.chmodSync(`${root}/run.sh`, 0o755)
      yield* restore(yield* change({ "run.sh": "two" }))
      assert.strictEqual(NodeFs.statSync(`${root}/run.sh`).mode & 0o777, 0o755)
    }))

  check(
    "removes a file that the write made, an empty one too",
    ({ change, restore, root, set }) =>
      Effect.gen(function*() {
        set({ "src/other.txt": "one" })
        const checkpoint = yield* change({ "src/new.txt": "two", "src/empty.txt": "" })
        assert.deepStrictEqual(stepsOf(yield* restore(checkpoint)), [["src/new.txt", "remove"], [
          "src/empty.txt",
          "remove"
        ]])
        assert.deepStrictEqual(pathsIn(root), ["src", "src/other.txt"])
      })
  )

  check(
    "makes folders again that are missing by now",
    ({ change, restore, root, set, textOf }) =>
      Effect.gen(function*() {
        set({ "deep/er/a.txt": "one" })
        const checkpoint = yield* change({ "deep/er/a.txt": undefined })
        NodeFs.rmSync(`${root}/deep`, { recursive: true })
        yield* restore(checkpoint)
        assert.strictEqual(textOf("deep/er/a.txt"), "one")
      })
  )

  check(
    "does nothing where everything is as it was",
    ({ change, list, restore, set, textOf }) =>
      Effect.gen(function*() {
        set({ "a.txt": "one" })
        const checkpoint = yield* change({ "a.txt": "two", "new.txt": "two" })
        set({ "a.txt": "one", "new.txt": undefined })
        const done = yield* restore(checkpoint)
        assert.deepStrictEqual(stepsOf(done), [["a.txt", "nothing"], ["new.txt", "nothing"]])
        assert.strictEqual(done.diff, "")
        assert.deepStrictEqual(["a.txt", "new.txt"].map(textOf), ["one", undefined])
        assert.deepStrictEqual(yield* list, [])
      })
  )

  check("is done with a checkpoint that has no files", ({ list, restore, root }) =>
    Effect.gen(function*() {
      const done = yield* restore(yield* saveAt(write({})))
      assert.deepStrictEqual(done.steps, [])
      assert.deepStrictEqual([pathsIn(root), yield* list], [[], []])
    }))

  check("forgets what it undid, and nothing else", ({ change, list, restore, set }) =>
    Effect.gen(function*() {
      set({ "a.txt": "one", "b.txt": "one" })
      const [a, b] = [yield* change({ "a.txt": "two" }), yield* change({ "b.txt": "two" })]
      yield* restore(a)
      const [undo, ...others] = yield* list
      assert.deepStrictEqual(others, [b])
      assert.include(undo, { tool: "undo", callId: a.id, batch: "b", principal: "p" })
    }))

  check("undoes one write after the other, newest first", ({ change, restore, set, textOf }) =>
    Effect.gen(function*() {
      set({ "a.txt": "0" })
      const checkpoints: Array<Checkpoints.Checkpoint> = []
      for (const text of ["1", "2", "3"]) checkpoints.unshift(yield* change({ "a.txt": text }))
      for (const [index, checkpoint] of checkpoints.entries()) {
        yield* restore(checkpoint)
        assert.strictEqual(textOf("a.txt"), `${2 - index}`)
      }
    }))

  check("can be undone itself", ({ change, list, restore, root, set, textOf }) =>
    Effect.gen(function*() {
      set({ "a.txt": "one", "gone.txt": "one" })
      const checkpoint = yield* change({ "a.txt": "two", "gone.txt": undefined, "new.txt": "two" })
      yield* restore(checkpoint)
      assert.deepStrictEqual(["a.txt", "gone.txt", "new.txt"].map(textOf), ["one", "one", undefined])
      const [undo] = yield* list
      assert.deepStrictEqual(stepsOf(yield* restore(undo!)), [
        ["a.txt", "restore"],
        ["gone.txt", "remove"],
        ["new.txt", "restore"]
      ])
      assert.deepStrictEqual(["a.txt", "gone.txt", "new.txt"].map(textOf), ["two", undefined, "two"])
      assert.deepStrictEqual(pathsIn(root), ["a.txt", "new.txt"])
    }))

  check(
    "fails where the checkpoint was forgotten, and writes nothing",
    ({ change, restore, set, textOf }) =>
      Effect.gen(function*() {
        set({ "a.txt": "one" })
        const checkpoint = yield* change({ "a.txt": "two" })
        yield* Effect.flatMap(Checkpoints.Checkpoints, (it) => it.forget(checkpoint))
        assert.propertyVal(yield* Effect.flip(restore(checkpoint)), "reason", "NotFound")
        assert.strictEqual(textOf("a.txt"), "two")
      })
  )

  check(
    "writes nothing where what it overwrites cannot be kept",
    ({ change, restore, set, textOf }) =>
      Effect.gen(function*() {
        set({ "a.txt": "one" })
        const checkpoint = yield* change({ "a.txt": "two" })
        const failed = new Checkpoints.CheckpointError({ reason: "Store", id: "" })
        const full = Effect.map(Checkpoints.Checkpoints, (it) => ({ ...it, save: () => Effect.fail(failed) }))
        const failure = Effect.provideServiceEffect(restore(checkpoint), Checkpoints.Checkpoints, full)
        assert.strictEqual(yield* Effect.flip(failure), failed)
        assert.strictEqual(textOf("a.txt"), "two")
      })
  )

  it.effect("takes what another process kept in a folder", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      const layer = CheckpointFolder.layer({ root, directory: `${outside}/checkpoints` })
      put(root, { "a.txt": "two", "new.txt": "after" })
      const files = [{ path: "a.txt", before: "one", after: "two" }, {
        path: "new.txt",
        before: undefined,
        after: "after"
      }]
      yield* Effect.provide(saveAt({ ...write({}), files }), layer, { local: true })
      yield* Effect.provide(
        Effect.gen(function*() {
          const { list } = yield* Checkpoints.Checkpoints
          const [checkpoint] = yield* list("p")
          yield* Undo.restore(yield* Workspace.make(root), checkpoint!)
          assert.deepStrictEqual(pathsIn(root), ["a.txt"])
          assert.strictEqual(NodeFs.readFileSync(`${root}/a.txt`, "utf8"), "one")
          assert.notInclude(idsOf(yield* list("p")), checkpoint!.id)
        }),
        layer,
        { local: true }
      )
    }))
})

describe("undoing over later changes", () => {
  check(
    "is refused, for all files, unless one insists",
    ({ change, list, refused, restore, set, textOf }) =>
      Effect.gen(function*() {
        const paths = ["a.txt", "later.txt", "gone.txt", "back.txt", "new.txt"]
        set({ "a.txt": "one", "later.txt": "one", "gone.txt": "one", "back.txt": "one" })
        const checkpoint = yield* change({
          "a.txt": "two",
          "later.txt": "two",
          "gone.txt": "two",
          "back.txt": undefined,
          "new.txt": "two"
        })
        set({ "later.txt": "three", "gone.txt": undefined, "back.txt": "three", "new.txt": "three" })
        for (const options of [undefined, {}, { force: false }]) {
          const refusal = yield* refused(checkpoint, options)
          assert.deepStrictEqual(problemsOf(refusal), ["later.txt", "gone.txt", "back.txt", "new.txt"])
          assert.isTrue(refusal.isForceable)
          assert.include(refusal.message, "later.txt: it changed after that write")
        }
        yield* restore(checkpoint, { force: true })
        assert.deepStrictEqual(paths.map(textOf), ["one", "one", "one", "one", undefined])

        const [undo] = yield* list
        assert.propertyVal(undo, "tool", "undo")
        yield* restore(undo!)
        assert.deepStrictEqual(paths.map(textOf), ["two", "three", undefined, "three", "three"])
      })
  )

  check(
    "is refused where one of the later changes is another write",
    ({ change, refused, set }) =>
      Effect.gen(function*() {
        set({ "a.txt": "one" })
        const checkpoint = yield* change({ "a.txt": "two" })
        yield* change({ "a.txt": "three" })
        assert.deepStrictEqual(problemsOf(yield* refused(checkpoint)), ["a.txt"])
      })
  )
})

describe("undoing what is not possible", { tags: ["W7"] }, () => {
  check(
    "is refused where a file became a link, even if one insists",
    ({ change, outside, refused, root, set }) =>
      Effect.gen(function*() {
        set({ "a.txt": "one", "b.txt": "one", "c.txt": "one", "other.txt": "two" })
        put(outside, { "same.txt": "two" })
        const checkpoint = yield* change({ "a.txt": "two", "b.txt": "two", "c.txt": "two", "new.txt": "two" })
        for (
          const [path, target] of [
            ["a.txt", `${outside}/same.txt`],
            ["b.txt", "other.txt"],
            ["c.txt", "nowhere"],
            ["new.txt", `${outside}/same.txt`]
          ] as const
        ) {
          NodeFs.rmSync(`${root}/${path}`)
          NodeFs.symlinkSync(target, `${root}/${path}`)
        }
        for (const force of [false, true]) {
          const refusal = yield* refused(checkpoint, { force })
          assert.deepStrictEqual(problemsOf(refusal), ["a.txt", "b.txt", "c.txt", "new.txt"])
          assert.isTrue(refusal.problems.every(({ problem }) => problem.includes("link")))
          assert.isFalse(refusal.isForceable)
        }
      })
  )

  check(
    "is refused where a folder on the path became a link",
    ({ change, outside, refused, root, set }) =>
      Effect.gen(function*() {
        set({ "out/a.txt": "one", "in/b.txt": "one", "elsewhere/b.txt": "two" })
        put(outside, { "a.txt": "two" })
        const checkpoint = yield* change({ "out/a.txt": "two", "in/b.txt": "two", "in/deep/new.txt": "two" })
        for (const [path, target] of [["out", outside], ["in", "elsewhere"]] as const) {
          NodeFs.rmSync(`${root}/${path}`, { recursive: true })
          NodeFs.symlinkSync(target, `${root}/${path}`)
        }
        for (const force of [false, true]) {
          const refusal = yield* refused(checkpoint, { force })
          assert.deepStrictEqual(problemsOf(refusal), ["out/a.txt", "in/b.txt", "in/deep/new.txt"])
          assert.isFalse(refusal.isForceable)
        }
      })
  )

  check("is refused for paths out of the root, even if one insists", ({ outside, refused }) =>
    Effect.gen(function*() {
      const paths = ["../outside/secret.txt", `${outside}/secret.txt`, "../outside/new.txt", "", "a\0b"]
      for (const path of paths) {
        const checkpoint = yield* saveAt({
          ...write({}),
          files: [{ path, before: "one", after: "SECRET\n" }, { path: "a.txt", before: "one", after: undefined }]
        })
        for (const force of [false, true]) {
          const refusal = yield* refused(checkpoint, { force })
          assert.deepStrictEqual(problemsOf(refusal), [path])
          assert.isFalse(refusal.isForceable)
        }
      }
    }))

  check(
    "is refused where a folder or something too large took the place of the file",
    ({ change, refused, root, set }) =>
      Effect.gen(function*() {
        set({ "a.txt": "one", "b.txt": "one" })
        const checkpoint = yield* change({ "a.txt": "two", "b.txt": "two" })
        set({ "a.txt": undefined })
        put(root, { "a.txt/inner.txt": "three" })
        NodeFs.truncateSync(`${root}/b.txt`, 10_000_001)
        for (const force of [false, true]) {
          const refusal = yield* refused(checkpoint, { force })
          assert.deepStrictEqual(problemsOf(refusal), ["a.txt", "b.txt"])
          assert.isFalse(refusal.isForceable)
        }
      })
  )

  check(
    "is refused where a content was too large to be kept",
    ({ change, refused, set }) =>
      Effect.gen(function*() {
        set({ "large.txt": "x".repeat(26), "small.txt": "x".repeat(25) })
        const checkpoint = yield* change({ "large.txt": "two", "small.txt": "two" })
        for (const force of [false, true]) {
          const refusal = yield* refused(checkpoint, { force })
          assert.deepStrictEqual(problemsOf(refusal), ["large.txt"])
          assert.include(refusal.message, "large.txt: it was too large to be kept")
          assert.isFalse(refusal.isForceable)
        }
      }),
    { maxBytes: 100 }
  )

  check(
    "names what is not possible first, then what changed, and does none of it",
    ({ change, refused, root, set }) =>
      Effect.gen(function*() {
        set({ "a.txt": "one", "later.txt": "one", "link.txt": "one" })
        const checkpoint = yield* change({ "a.txt": "two", "later.txt": "two", "link.txt": "two", "new.txt": "two" })
        set({ "later.txt": "three", "link.txt": undefined })
        NodeFs.symlinkSync("a.txt", `${root}/link.txt`)
        const refusal = yield* refused(checkpoint)
        assert.deepStrictEqual(problemsOf(refusal), ["link.txt", "later.txt"])
        assert.isFalse(refusal.isForceable)
        assert.deepStrictEqual(problemsOf(yield* refused(checkpoint, { force: true })), ["link.txt"])
      })
  )

  check(
    "is refused where a folder on the path is a file now",
    ({ change, refused, set, root }) =>
      Effect.gen(function*() {
        set({ "a.txt": "one", "d/b.txt": "one" })
        const checkpoint = yield* change({ "a.txt": "two", "d/b.txt": undefined })
        NodeFs.rmdirSync(`${root}/d`)
        set({ "d": "a file" })
        const refusal = yield* refused(checkpoint, { force: true })
        assert.deepStrictEqual(problemsOf(refusal), ["d/b.txt"])
      })
  )

  check(
    "is refused where what it would overwrite is too large to be kept",
    ({ change, refused, set }) =>
      Effect.gen(function*() {
        set({ "a.txt": "one" })
        const checkpoint = yield* change({ "a.txt": "two" })
        set({ "a.txt": "x".repeat(30) })
        assert.isFalse((yield* refused(checkpoint, { force: true })).isForceable)
      }),
    { maxBytes: 100 }
  )

  check(
    "leaves alone what changes between looking and writing",
    ({ change, restore, root, set, textOf }) =>
      Effect.gen(function*() {
        const real = yield* Checkpoints.Checkpoints
        const racing = (checkpoint: Checkpoints.Checkpoint, meanwhile: () => void) =>
          Effect.flip(Effect.provideService(restore(checkpoint), Checkpoints.Checkpoints, {
            ...real,
            save: (write) => Effect.tap(real.save(write), () => Effect.sync(meanwhile))
          }))
        set({ "removed.txt": "one", "linked.txt": "one", "other.txt": "two" })
        const removed = yield* change({ "removed.txt": undefined })
        yield* racing(removed, () => set({ "removed.txt": "a person's" }))
        assert.strictEqual(textOf("removed.txt"), "a person's")
        const made = yield* change({ "made.txt": "two" })
        yield* racing(made, () => set({ "made.txt": "a person's" }))
        assert.strictEqual(textOf("made.txt"), "a person's")
        const linked = yield* change({ "linked.txt": "two" })
        yield* racing(linked, () => {
          NodeFs.rmSync(`${root}/linked.txt`)
          NodeFs.symlinkSync("other.txt", `${root}/linked.txt`)
        })
        assert.strictEqual(textOf("other.txt"), "two")
      })
  )
})
