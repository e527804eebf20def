import { assert, describe, it } from "@effect/vitest"
import { CheckpointsContract } from "effect-tool-executor/testing"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import * as NodeFs from "node:fs"
import { Checkpoints, LayerConfig } from "../../../src/index.ts"
import * as CheckpointFolder from "../../../src/tools/folders/CheckpointFolder.ts"
import { idsOf, write } from "../../support/checkpoints.ts"
import * as Contract from "../../support/contract.ts"
import { makeFolders, pathsIn, put } from "../fixture.ts"

Contract.run(
  "Checkpoints in a folder",
  CheckpointsContract.make({
    layer: (options) =>
      Layer.unwrap(
        Effect.map(makeFolders, ({ outside, root }) =>
          CheckpointFolder.layer({ ...options, root, directory: `${outside}/state/checkpoints` }))
      )
  })
)

/** A service, where it keeps things, and another service of the same folder. */
const makeService = Effect.gen(function*() {
  const { outside, root } = yield* makeFolders
  const directory = `${outside}/state/checkpoints`
  const again = CheckpointFolder.make({ root, directory })
  const { save, ...service } = yield* again
  return {
    ...service,
    again,
    directory,
    root,
    save: (...of: Parameters<typeof write>) => save(write(...of)).pipe(Effect.tap(() => TestClock.adjust(1)))
  }
})

const modeOf = (path: string): number => NodeFs.statSync(path).mode & 0o777

const ids = ({ list }: Pick<Checkpoints.Checkpoints["Service"], "list">, principal = "p") =>
  Effect.map(list(principal), idsOf)

const textOf = (content: Uint8Array | undefined): string | undefined =>
  content === undefined ? undefined : Buffer.from(content).toString()

describe("Checkpoints in a folder", () => {
  it.effect("makes its folder with the first checkpoint, none by looking", () =>
    Effect.gen(function*() {
      const { directory, save, ...service } = yield* makeService
      assert.deepStrictEqual(yield* ids(service), [])
      assert.isFalse(NodeFs.existsSync(directory))
      const { id } = yield* save({ "a.txt": "1" })
      assert.deepStrictEqual(NodeFs.readdirSync(directory), [id])
    }))

  it.effect("lets its owner alone read what it keeps", () =>
    Effect.gen(function*() {
      const { directory, save } = yield* makeService
      yield* save({ "a.txt": "1", "b.txt": undefined, "c.txt": Uint8Array.from([0]) })
      assert.strictEqual(modeOf(directory), 0o700)
      const paths = pathsIn(directory)
      assert.lengthOf(paths, 4)
      for (const path of paths) {
        const isFolder = NodeFs.statSync(`${directory}/${path}`).isDirectory()
        assert.strictEqual(modeOf(`${directory}/${path}`), isFolder ? 0o700 : 0o600, path)
      }
    }))

  it.effect("makes nothing in the root that tools work in, and no path of a call outside its own folder", () =>
    Effect.gen(function*() {
      const { directory, root, save } = yield* makeService
      const { id } = yield* save({ "../../../root/a.txt": "1", "/a.txt": "2" }, { callId: "../x", batch: "../y" })
      assert.deepStrictEqual(pathsIn(root), [])
      assert.deepStrictEqual(pathsIn(directory), [id, `${id}/0`, `${id}/1`, `${id}/checkpoint.json`])
      assert.deepStrictEqual(NodeFs.readdirSync(`${directory}/../..`).sort(), ["secret.txt", "state"])
    }))

  it.effect("writes no content to the disk that is over its bound", () =>
    Effect.gen(function*() {
      const { directory, root } = yield* makeService
      const { save } = yield* CheckpointFolder.make({ root, directory, maxBytes: 100 })
      const { id } = yield* save(write({ "large.txt": "x".repeat(26), "small.txt": "x".repeat(25) }))
      assert.deepStrictEqual(pathsIn(`${directory}/${id}`), ["1", "checkpoint.json"])
    }))

  it.effect("removes from its folder what it forgets", () =>
    Effect.gen(function*() {
      const { directory, forget, save } = yield* makeService
      const [a, b] = [yield* save({ "a.txt": "1" }), yield* save({})]
      yield* forget(a)
      assert.deepStrictEqual(pathsIn(directory), [b.id, `${b.id}/checkpoint.json`])
      yield* TestClock.adjust("7 days")
      const c = yield* save({})
      assert.deepStrictEqual(NodeFs.readdirSync(directory), [c.id])
    }))

  it.effect("refuses a folder in the root, by its path or through a link", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, { "inside/": "" })
      NodeFs.symlinkSync(`${root}/inside`, `${outside}/link`)
      NodeFs.symlinkSync(`${root}/not-yet`, `${outside}/dangling`)
      NodeFs.symlinkSync(root, `${outside}/root`)
      for (
        const directory of [
          root,
          `${root}/inside`,
          `${root}/not/yet`,
          `${outside}/../root/inside`,
          `${outside}/link`,
          `${outside}/link/deeper`,
          `${outside}/dangling`,
          `${outside}/dangling/deeper`,
          `${outside}/root`
        ]
      ) {
        for (const given of [root, `${outside}/root`]) {
          const error = yield* Effect.flip(CheckpointFolder.make({ root: given, directory }))
          assert.propertyVal(error, "_tag", "ConfigurationError")
          assert.strictEqual(error.problems[0]?.path, "directory", directory)
        }
      }
      assert.deepStrictEqual(pathsIn(root), ["inside"])
    }))

  it.effect("takes a folder beside the root, also one that a link in the root leads to", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      NodeFs.symlinkSync(outside, `${root}/link`)
      for (const directory of [`${outside}/a`, `${root}/link/b`, `${root}-beside`, `${root}/../outside/c`]) {
        const { save } = yield* CheckpointFolder.make({ root, directory })
        const { id } = yield* save(write({ "a.txt": "1" }))
        assert.deepStrictEqual(NodeFs.readdirSync(directory), [id])
      }
    }))

  it.effect("keeps using the folder it was made with, if a link to it leads into the root later", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(outside, { "real/": "" })
      NodeFs.symlinkSync(`${outside}/real`, `${outside}/link`)
      const { save } = yield* CheckpointFolder.make({ root, directory: `${outside}/link` })
      NodeFs.rmSync(`${outside}/link`)
      NodeFs.symlinkSync(root, `${outside}/link`)
      const { id } = yield* save(write({ "a.txt": "1" }))
      assert.deepStrictEqual(NodeFs.readdirSync(`${outside}/real`), [id])
      assert.deepStrictEqual(pathsIn(root), [])
    }))

  it.effect("refuses a root that is missing", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      const error = yield* Effect.flip(CheckpointFolder.make({ root: `${root}/missing`, directory: `${outside}/a` }))
      assert.strictEqual(error.problems[0]?.path, "root")
    }))

  it.effect("shows a second service of the folder the same", () =>
    Effect.gen(function*() {
      const { again, save, ...first } = yield* makeService
      const [a, b] = [yield* save({ "a.txt": "1", "b.txt": undefined }), yield* save({})]
      const second = yield* again
      assert.deepStrictEqual(yield* second.list("p"), [b, a])
      assert.strictEqual(textOf(yield* second.content(a, "a.txt")), "1")
      assert.isUndefined(yield* second.content(a, "b.txt"))
      const c = yield* second.save(write({ "a.txt": "2" }))
      assert.deepStrictEqual(yield* ids(first), [c.id, b.id, a.id])
      yield* second.forget(a)
      assert.deepStrictEqual(yield* ids(first), [c.id, b.id])
      assert.strictEqual((yield* Effect.flip(first.content(a, "a.txt"))).reason, "NotFound")
    }))

  it.effect("counts what another process keeps towards its bounds", () =>
    Effect.gen(function*() {
      const { directory, root, save, ...first } = yield* makeService
      const quarter = "x".repeat(25)
      const [a, b] = [yield* save({ "a.txt": quarter }), yield* save({ "a.txt": quarter, "b.txt": quarter })]
      const second = yield* CheckpointFolder.make({ root, directory, maxBytes: 100 })
      const c = yield* second.save(write({ "a.txt": quarter, "b.txt": quarter }))
      assert.deepStrictEqual(yield* ids(first), [c.id, b.id])
      assert.strictEqual((yield* Effect.flip(first.content(a, "a.txt"))).reason, "NotFound")
    }))

  it.effect("takes no notice of half-written checkpoints and of what it did not make", () =>
    Effect.gen(function*() {
      const { again, directory, save } = yield* makeService
      const { id } = yield* save({ "a.txt": "1" })
      const checkpoint = NodeFs.readFileSync(`${directory}/${id}/checkpoint.json`, "utf8")
      put(directory, {
        [`.${id}/checkpoint.json`]: checkpoint,
        [`.${id}/0`]: "1",
        ".half/checkpoint.json": checkpoint.replace(id, ".half"),
        "copy/checkpoint.json": checkpoint,
        "empty/": "",
        "broken/checkpoint.json": checkpoint.slice(0, -1),
        "text/checkpoint.json": "text",
        "other/checkpoint.json": `{"id":"other"}`,
        "folder/checkpoint.json/": "",
        [`${id}.bak/checkpoint.json`]: checkpoint,
        "junk": "junk",
        "README.md": "junk"
      })
      NodeFs.symlinkSync("nowhere", `${directory}/dangling`)
      const service = yield* again
      assert.deepStrictEqual(yield* ids(service), [id])
      assert.isTrue(NodeFs.existsSync(`${directory}/.${id}`))
      yield* TestClock.adjust("61 minutes")
      // what was left half-written is removed after an hour
      assert.deepStrictEqual(yield* ids(service), [id])
      assert.isFalse(NodeFs.existsSync(`${directory}/.${id}`))
      const there = pathsIn(directory)
      yield* TestClock.adjust("8 days")
      const next = yield* service.save(write({}))
      assert.deepStrictEqual(yield* ids(service), [next.id])
      assert.deepStrictEqual(
        pathsIn(directory).filter((path) => !path.startsWith(next.id)),
        there.filter((path) => path !== id && !path.startsWith(`${id}/`))
      )
    }))

  it.effect("refuses a folder around the root, whatever lies in that", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      const error = yield* Effect.flip(CheckpointFolder.make({ root, directory: `${outside}/..` }))
      assert.include(error.message, "or around it")
    }))

  it.effect("touches nothing outside of its folder for an id that is made up", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      const service = yield* CheckpointFolder.make({ root, directory: `${outside}/c` })
      const checkpoint = yield* service.save(write({ "a.txt": "1" }))
      const made = { ...checkpoint, id: "../../root" }
      assert.strictEqual((yield* Effect.flip(service.forget(made))).reason, "NotFound")
      assert.strictEqual((yield* Effect.flip(service.content(made, "a.txt"))).reason, "NotFound")
      assert.isTrue(NodeFs.existsSync(root))
    }))

  it.effect("refuses a content that was changed", () =>
    Effect.gen(function*() {
      const { again, content, directory, save } = yield* makeService
      const checkpoint = yield* save({ "a.txt": "1", "b.txt": "2" })
      NodeFs.writeFileSync(`${directory}/${checkpoint.id}/0`, "0")
      for (const service of [{ content }, yield* again]) {
        assert.include(yield* Effect.flip(service.content(checkpoint, "a.txt")), { reason: "Store", id: checkpoint.id })
        assert.strictEqual(textOf(yield* service.content(checkpoint, "b.txt")), "2")
      }
      NodeFs.writeFileSync(`${directory}/${checkpoint.id}/0`, "1")
      assert.strictEqual(textOf(yield* content(checkpoint, "a.txt")), "1")
      NodeFs.rmSync(`${directory}/${checkpoint.id}/1`)
      assert.include(yield* Effect.flip(content(checkpoint, "b.txt")), { reason: "NotFound", id: checkpoint.id })
    }))

  it.effect("says so where its folder cannot be used", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      const { list, save } = yield* CheckpointFolder.make({ root, directory: `${outside}/secret.txt` })
      assert.strictEqual((yield* Effect.flip(save(write({ "a.txt": "1" })))).reason, "Store")
      assert.strictEqual((yield* Effect.flip(list("p"))).reason, "Store")
      assert.strictEqual(NodeFs.readFileSync(`${outside}/secret.txt`, "utf8"), "SECRET\n")
    }))

  it.effect("leaves nothing of a checkpoint that could not be written", () =>
    Effect.gen(function*() {
      const { directory, list, save } = yield* makeService
      yield* save({})
      const there = pathsIn(directory)
      // JSON has no place for it: the last file of the checkpoint fails
      const failed = save({ "a.txt": "1" }, { callId: 1n as never })
      assert.strictEqual((yield* Effect.flip(failed)).reason, "Store")
      assert.deepStrictEqual(pathsIn(directory), there)
      assert.lengthOf(yield* list("p"), 1)
    }))

  it.effect("takes its folder and bounds from the configuration", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      const keep = (MAX: string) =>
        Effect.flatMap(Checkpoints.Checkpoints, ({ save }) => save(write({ "a.txt": "text" }))).pipe(
          Effect.provide(
            LayerConfig.from(CheckpointFolder.layer, {
              root: Config.succeed(root),
              directory: Config.String("DIRECTORY"),
              maxBytes: Config.Int("MAX")
            }).pipe(
              Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: { DIRECTORY: `${outside}/c`, MAX } })))
            )
          )
        )
      assert.isFalse((yield* keep("15")).files[0]?.isKept)
      assert.isTrue((yield* keep("16")).files[0]?.isKept)
      assert.strictEqual((yield* Effect.flip(keep("-1")))._tag, "ConfigurationError")
    }))
})
