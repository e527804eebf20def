import { assert, describe, it } from "@effect/vitest"
import { ArtifactStoreContract } from "effect-tool-executor/testing"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import * as NodeFs from "node:fs"
import { ArtifactStore, LayerConfig } from "../../../src/index.ts"
import * as ArtifactFolder from "../../../src/tools/folders/ArtifactFolder.ts"
import * as Contract from "../../support/contract.ts"
import { makeFolders, pathsIn, put } from "../fixture.ts"

Contract.run(
  "ArtifactStore in a folder",
  ArtifactStoreContract.make({
    layer: (options) =>
      Layer.unwrap(
        Effect.map(makeFolders, ({ outside, root }) =>
          ArtifactFolder.layer({ ...options, root, directory: `${outside}/state/artifacts` }))
      )
  })
)

const owner = (principal: string, batch = "b"): ArtifactStore.Owner => ({ principal, batch })

const whole = { offset: 0, length: 1_000 }

/** A store, where it keeps things, and another one of the same folder. */
const makeStore = (options?: ArtifactStore.Options) =>
  Effect.gen(function*() {
    const { outside } = yield* makeFolders
    const directory = `${outside}/state/artifacts`
    const again = ArtifactFolder.make({ ...options, directory })
    return { ...yield* again, again, directory, outside }
  })

const filesIn = (directory: string): ReadonlyArray<string> =>
  pathsIn(directory).filter((path) => NodeFs.statSync(`${directory}/${path}`).isFile())

describe("Artifacts in a folder", () => {
  it.effect("are for its owner alone, and tell nothing of principals and batches in their paths", () =>
    Effect.gen(function*() {
      const { directory, outside, put, read } = yield* makeStore()
      const missing = yield* Effect.flip(read(owner("p"), "art_00000000000000000000000a-1n", whole))
      assert.strictEqual(missing.reason, "NotFound")
      assert.isFalse(NodeFs.existsSync(directory))
      for (const name of ["../../x", "/etc/passwd", "ada@example.org", ".", "", "\0"]) {
        yield* put(owner(name, name), "text")
      }
      const paths = pathsIn(directory)
      assert.lengthOf(paths, 12)
      for (const path of paths) {
        assert.match(path, /^[0-9a-f]{64}(\/art_[0-9a-z]+-4n\.[0-9a-f]{32})?$/)
        const stats = NodeFs.statSync(`${directory}/${path}`)
        assert.strictEqual(stats.mode & 0o777, stats.isDirectory() ? 0o700 : 0o600, path)
      }
      assert.strictEqual(NodeFs.statSync(directory).mode & 0o777, 0o700)
      assert.deepStrictEqual(NodeFs.readdirSync(outside).sort(), ["secret.txt", "state"])
    }))

  it.effect("are there for another process, which counts them towards its bounds", () =>
    Effect.gen(function*() {
      const first = yield* makeStore({ maxChars: 100, maxTotalChars: 150 })
      const second = yield* first.again
      const a = yield* first.put(owner("p"), "a".repeat(60))
      assert.strictEqual((yield* second.read(owner("p"), a.id, whole)).text, "a".repeat(60))
      yield* second.put(owner("q"), "b".repeat(60))
      assert.strictEqual((yield* Effect.flip(first.put(owner("r"), "c".repeat(31)))).reason, "Full")
      yield* TestClock.adjust(1)
      const d = yield* second.put(owner("p"), "d".repeat(60))
      assert.strictEqual((yield* Effect.flip(first.read(owner("p"), a.id, whole))).reason, "NotFound")
      assert.strictEqual((yield* first.read(owner("p"), d.id, whole)).text, "d".repeat(60))
    }))

  it.effect("are not there where a file is torn, and are not read half", () =>
    Effect.gen(function*() {
      const { directory, put, read } = yield* makeStore()
      const { id } = yield* put(owner("p"), "0123456789")
      const path = `${directory}/${filesIn(directory)[0]}`
      for (const torn of ["", "012345678", "0123456789x"]) {
        NodeFs.writeFileSync(path, torn)
        assert.strictEqual((yield* Effect.flip(read(owner("p"), id, { offset: 0, length: 2 }))).reason, "NotFound")
      }
      NodeFs.writeFileSync(path, "0123456789")
      assert.strictEqual((yield* read(owner("p"), id, whole)).text, "0123456789")
    }))

  it.effect("leave nothing behind once they are over: no file, no folder, nothing half-written", () =>
    Effect.gen(function*() {
      const { again, directory, prune, put: keep } = yield* makeStore({ timeToLive: "30 minutes" })
      for (let n = 0; n < 50; n++) yield* keep(owner(`p${n % 7}`), "x".repeat(n))
      const [share = "", file = ""] = filesIn(directory)[0]!.split("/")
      const unfinished = `${share}/.${file}`
      put(directory, { [unfinished]: "half", [`${"f".repeat(64)}/`]: "" })
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(yield* prune, 50)
      // another process may be writing it
      assert.deepStrictEqual(pathsIn(directory), [share, unfinished])
      assert.strictEqual(yield* (yield* again).prune, 0)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* prune, 0)
      assert.deepStrictEqual(pathsIn(directory), [])
    }))

  it.effect("stay within a flat folder under endless puts, with nobody pruning", () =>
    Effect.gen(function*() {
      const { directory, put } = yield* makeStore({ timeToLive: "10 seconds", maxCount: 5 })
      for (let n = 0; n < 60; n++) {
        yield* put(owner(`p${n}`), "x")
        yield* put(owner("same"), "x")
        yield* TestClock.adjust("1 second")
      }
      assert.isAtMost(pathsIn(directory).length, 10 * 2 + 5 + 1)
    }))

  it.effect("take no notice of what else lies there", () =>
    Effect.gen(function*() {
      const { directory, prune, put: keep } = yield* makeStore()
      yield* keep(owner("p"), "text")
      const [share = "", file = ""] = filesIn(directory)[0]!.split("/")
      const foreign = {
        "README.md": "x",
        "folder/file": "x",
        [`${share}/README.md`]: "x",
        [`${share}/.hidden`]: "x",
        [`${share}/${file}.bak`]: "x",
        [`${file}`]: "x"
      }
      put(directory, foreign)
      yield* TestClock.adjust("2 hours")
      assert.strictEqual(yield* prune, 1)
      assert.sameMembers([...filesIn(directory)], Object.keys(foreign))
    }))

  it.effect("say so where the folder cannot be used, and change nothing there", () =>
    Effect.gen(function*() {
      const { outside } = yield* makeFolders
      const { prune, put } = yield* ArtifactFolder.make({ directory: `${outside}/secret.txt` })
      for (const effect of [Effect.asVoid(put(owner("p"), "text")), Effect.asVoid(prune)]) {
        assert.strictEqual((yield* Effect.flip(effect)).reason, "StoreFailed")
      }
      assert.strictEqual(NodeFs.readFileSync(`${outside}/secret.txt`, "utf8"), "SECRET\n")
    }))

  it.effect("are not kept in the root that tools work in, nor around it", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      NodeFs.symlinkSync(root, `${outside}/link`)
      for (const directory of [root, `${root}/a`, `${outside}/link/a`, `${root}/..`, ""]) {
        const error = yield* Effect.flip(ArtifactFolder.make({ root, directory }))
        assert.deepStrictEqual(error.problems.map(({ path }) => path), ["directory"])
      }
      assert.deepStrictEqual(pathsIn(root), [])
    }))

  it.effect("take their folder and bounds from the configuration", () =>
    Effect.gen(function*() {
      const { outside } = yield* makeFolders
      const reasonFor = (MAX: string) =>
        Effect.flatMap(ArtifactStore.ArtifactStore, ({ put }) => put(owner("p"), "text")).pipe(
          Effect.provide(
            LayerConfig.from(ArtifactFolder.layer, {
              directory: Config.String("DIRECTORY"),
              maxChars: Config.Int("MAX")
            }).pipe(
              Layer.provide(
                ConfigProvider.layer(ConfigProvider.fromEnv({ env: { DIRECTORY: `${outside}/artifacts`, MAX } }))
              )
            )
          ),
          Effect.flip
        )
      const error = yield* reasonFor("3")
      assert.propertyVal(error, "reason", "TooLarge")
      assert.strictEqual((yield* reasonFor("-1"))._tag, "ConfigurationError")
    }))
})
