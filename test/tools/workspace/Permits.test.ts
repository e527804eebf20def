/** Searches and listings leave out what the policy does not allow. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodeFs from "node:fs"
import { makeFolders, put } from "../fixture.ts"
import { throughPolicy } from "../policy.ts"

const files = {
  ".git/config": "token = SECRET\n",
  ".env": "KEY=SECRET\n",
  "src/.env.local": "KEY=SECRET\n",
  "src/a.ts": "// no SECRET\n",
  "policy.json": "SECRET\n"
}

const looks = [
  ["search_text", { pattern: "SECRET|no" }],
  ["search_text", { pattern: "SECRET|no", path: ".git" }],
  ["search_text", { pattern: "SECRET|no", glob: ".git/**" }],
  ["find_files", { glob: "**" }],
  ["find_files", { glob: ".git/**" }],
  ["list_directory", { depth: 3 }],
  ["list_directory", { path: ".git" }],
  ["read_file", { path: ".git/config" }]
] as const

describe("what the policy does not allow", () => {
  it.live("is left out of searches and listings, and counted", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, files)
      const deny = ["*(*.env*)"]
      const texts = yield* throughPolicy({ root, protect: ["policy.json"] }, { deny }, looks)
      for (const text of texts.slice(0, -2)) {
        assert.notMatch(text, /KEY|token|\.env|\.git\/config|policy\.json/, text)
      }
      const [searched, , inGit, found, foundInGit, listed] = texts
      assert.include(searched, "src/a.ts")
      assert.include(searched, "3 files are omitted")
      assert.include(inGit, "1 file is omitted")
      assert.include(found, "3 files are omitted")
      assert.include(foundInGit, "1 file is omitted")
      assert.include(listed, "4 entries are omitted")
      for (const text of texts.slice(-2)) assert.include(text, "is protected")
    }), { tags: ["P5"] })

  it.live("is counted whatever the glob is, so that no glob tells a name", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { ...files, "keys/alpha.key": "k" })
      const globs = ["alpha*", "alphb*", "keys/al*", "*.ts", "**"].flatMap((glob) => [
        ["find_files", { glob, path: "keys" }] as const,
        ["search_text", { pattern: "k", glob, path: "keys" }] as const
      ])
      const texts = yield* throughPolicy({ root }, { deny: ["*(keys/*)"] }, globs)
      for (const text of texts) {
        assert.include(text, "1 file is omitted")
        assert.notInclude(text, "alpha")
      }
    }))

  it.live("is not shown by a search where it is reading that is denied", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, files)
      const deny = ["read_file(*.env*)"]
      const [searched, found] = yield* throughPolicy({ root, protect: ["policy.json"] }, { deny }, [
        ["search_text", { pattern: "SECRET" }],
        ["find_files", { glob: "**" }]
      ])
      assert.notInclude(searched, "KEY")
      assert.include(searched, "src/a.ts")
      // a name is not what is in the file
      assert.include(found, ".env")
    }))

  it.live("is not guessed by editing where it is reading that is denied", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, files)
      const policy = { deny: ["read_file(*.env*)"], mode: "acceptEdits" } as const
      const [edited, written] = yield* throughPolicy({ root }, policy, [
        ["edit_file", { path: ".env", oldText: "K", newText: "k" }],
        ["write_file", { path: "new.env", content: "" }]
      ])
      assert.include(edited, "deny read_file(*.env*)")
      assert.include(written, "\"created\":true")
    }))

  it.live("is shown where a person has allowed the very thing", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, files)
      const [inGit, inSource] = yield* throughPolicy(
        { root, protect: ["policy.json"] },
        { default: "ask", ask: ["*(*.env*)"] },
        [["search_text", { pattern: "SECRET", path: ".git" }], ["search_text", { pattern: "SECRET", path: "src" }]],
        { _tag: "ApproveOnce" }
      )
      assert.include(inGit, "token = SECRET")
      // a yes to the search is none to what is asked about for its own sake
      assert.include(inSource, "src/a.ts")
      assert.notInclude(inSource, "KEY")
    }))

  it.live("is not told of by a link that leads there", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, files)
      NodeFs.symlinkSync(".git/config", `${root}/innocent`)
      const [listed] = yield* throughPolicy({ root, protect: ["policy.json"] }, {}, [["list_directory", {}]])
      assert.include(listed, "innocent")
      assert.notInclude(listed, "config")
    }))
})
