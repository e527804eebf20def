import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as NodeFs from "node:fs"
import * as FileChange from "../../../src/core/vocabulary/FileChange.ts"
import { ToolAnnotations, type ToolContext } from "../../../src/index.ts"
import * as EditFile from "../../../src/tools/files/EditFile.ts"
import * as FileWriter from "../../../src/tools/files/FileWriter.ts"
import * as WorkspaceTools from "../../../src/tools/workspace/WorkspaceTools.ts"
import { call, makeFolders, pathsIn, put, recorder } from "../fixture.ts"

interface Edit {
  readonly path?: string
  readonly oldText: string
  readonly newText: string
  readonly replaceAll?: boolean
}

const edit = (root: string, params: Edit) => call({ root }, "edit_file", { path: "a.txt", ...params })

const textIn = (root: string, path = "a.txt"): string => NodeFs.readFileSync(`${root}/${path}`, "utf8")

/** Edits a file of that text, and gives its text afterwards. */
const edited = (before: string | Uint8Array, params: Edit) =>
  Effect.gen(function*() {
    const { root } = yield* makeFolders
    put(root, { "a.txt": before })
    yield* edit(root, params)
    return textIn(root)
  })

/** Edits a file of that content, which has to fail and to leave the file alone; gives the failure. */
const refused = (before: string | Uint8Array, params: Edit) =>
  Effect.gen(function*() {
    const { root } = yield* makeFolders
    put(root, { "a.txt": before })
    const failure = yield* Effect.flip(edit(root, params))
    assert.deepStrictEqual(NodeFs.readFileSync(`${root}/a.txt`), Buffer.from(before))
    assert.deepStrictEqual(pathsIn(root), ["a.txt"])
    return failure
  })

describe("edit_file", () => {
  it.live("replaces a piece of a file exactly, and says what it did", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "src/a.txt": "one\n  two\nthree\n", "b.txt": "one\n  two\n" })
      const params = { path: "./src/../src/a.txt", oldText: "\n  two\n", newText: "\n\té\n" }
      assert.deepStrictEqual(yield* edit(root, params), { path: "src/a.txt", replacements: 1, bytesWritten: 14 })
      assert.strictEqual(textIn(root, "src/a.txt"), "one\n\té\nthree\n")
      assert.strictEqual(textIn(root, "b.txt"), "one\n  two\n")
      assert.deepStrictEqual(pathsIn(root), ["b.txt", "src", "src/a.txt"])
    }))

  it.live("removes a piece that nothing takes the place of", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* edited("one\ntwo\n", { oldText: "two\n", newText: "" }), "one\n")
      assert.strictEqual(yield* edited("one", { oldText: "one", newText: "" }), "")
    }))

  it.live("replaces every occurrence only when asked to", () =>
    Effect.gen(function*() {
      const params = { oldText: "a", newText: "aa" }
      const failure = yield* refused("a-a-a", params)
      assert.include(failure, { error: "InvalidEdit", path: "a.txt" })
      assert.include(failure.message, "3 times")
      assert.include((yield* refused("a-a-a", { ...params, replaceAll: false })).message, "3 times")

      const { root } = yield* makeFolders
      put(root, { "a.txt": "a-a-a" })
      assert.include(yield* edit(root, { ...params, replaceAll: true }), { replacements: 3, bytesWritten: 8 })
      assert.strictEqual(textIn(root), "aa-aa-aa")
      put(root, { "a.txt": "-a-" })
      assert.include(yield* edit(root, { ...params, replaceAll: true }), { replacements: 1 })
    }))

  it.live("takes what looks like a pattern to the letter, in the old text and in the new one", () =>
    Effect.gen(function*() {
      for (const newText of ["$&", "$$", "$1", "$`", "$'", "$<name>", "\\1", "\\n", "&", "%s"]) {
        for (const replaceAll of [false, true]) {
          const params = { oldText: "(.*)", newText, replaceAll }
          assert.strictEqual(yield* edited("one (.*) two", params), `one ${newText} two`, newText)
        }
      }
      assert.strictEqual((yield* refused("one", { oldText: ".", newText: "" })).message.slice(0, 7), "oldText")
    }))

  it.live("refuses an edit that is empty, changes nothing, or has nothing to replace", () =>
    Effect.gen(function*() {
      for (
        const [before, oldText, newText, because] of [
          ["one", "", "x", "is empty"],
          ["", "", "x", "is empty"],
          ["one", "one", "one", "are equal"],
          ["one", "two", "two", "are equal"],
          ["one", "two", "x", "is not in the file"],
          ["one", "One", "x", "is not in the file"],
          ["one  two", "one two", "x", "is not in the file"],
          ["", "one", "x", "is not in the file"],
          ["\u00e9", "e\u0301", "x", "is not in the file"]
        ] as const
      ) {
        const failure = yield* refused(before, { oldText, newText, replaceAll: true })
        assert.include(failure, { error: "InvalidEdit", path: "a.txt" }, oldText)
        assert.include(failure.message, because)
      }
    }))

  it.live("says that lines end with CR LF where that is all that is wrong", () =>
    Effect.gen(function*() {
      const hint = (before: string, oldText: string) =>
        Effect.map(refused(before, { oldText, newText: "x" }), ({ message }) => message.includes("CR LF"))
      assert.isTrue(yield* hint("one\r\ntwo\r\n", "one\ntwo\n"))
      assert.isFalse(yield* hint("one\r\ntwo\r\n", "one\nthree\n"))
      assert.isFalse(yield* hint("one\r\ntwo\r\n", "one\r\n\r\ntwo"))
      assert.isFalse(yield* hint("one\r\r\ntwo", "one\r\n"))
      assert.isFalse(yield* hint("one\ntwo\n", "one\r\ntwo\r\n"))
      assert.isFalse(yield* hint("one\ntwo\n", "one\nthree\n"))
    }))

  it.live("leaves a byte order mark and line ends as they are", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        yield* edited("\ufeffone\r\ntwo\nthree\r\n", { oldText: "two", newText: "2" }),
        "\ufeffone\r\n2\nthree\r\n"
      )
      assert.strictEqual(yield* edited("one\r\ntwo\r\n", { oldText: "e\r\nt", newText: "e\nt" }), "one\ntwo\r\n")
      assert.strictEqual(yield* edited("\ufeffone", { oldText: "\ufeff", newText: "" }), "one")
      assert.strictEqual(yield* edited("\ufeffone", { oldText: "one", newText: "two" }), "\ufefftwo")
    }))

  it.live("refuses a file that is no UTF-8", () =>
    Effect.gen(function*() {
      const latin1 = Uint8Array.from([0x6f, 0x6e, 0x65, 0x0a, 0xe9, 0x0a])
      assert.include(yield* refused(latin1, { oldText: "one", newText: "two" }), { error: "BinaryFile", path: "a.txt" })
      const cut = Buffer.from("one🙂").subarray(0, 6)
      assert.include(yield* refused(cut, { oldText: "one", newText: "two" }), { error: "BinaryFile" })
    }))

  it.live("refuses a file that is too large to be read as a whole", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "one" })
      const params = { oldText: "one", newText: "two" }
      NodeFs.truncateSync(`${root}/a.txt`, FileWriter.maxBytes + 1)
      assert.include(yield* Effect.flip(edit(root, params)), { error: "TooLarge", path: "a.txt" })
      NodeFs.truncateSync(`${root}/a.txt`, FileWriter.maxBytes)
      assert.include(yield* edit(root, params), { replacements: 1, bytesWritten: FileWriter.maxBytes })
    }))

  it.live("refuses a missing file, a folder, and a link to nothing", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "folder/": "" })
      NodeFs.symlinkSync("nowhere", `${root}/dangling`)
      const errorOf = (path: string) => Effect.flip(edit(root, { path, oldText: "one", newText: "two" }))
      for (const path of ["missing.txt", "missing/a.txt"]) {
        assert.include(yield* errorOf(path), { error: "NotFound", path })
      }
      for (const path of ["folder", "."]) assert.include(yield* errorOf(path), { error: "NotAFile", path })
      assert.include(yield* errorOf("dangling"), { error: "NotFound", path: "dangling" })
      assert.deepStrictEqual(pathsIn(root), ["dangling", "folder"])
    }))

  it.live("edits through a link the file inside, and leaves the link", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "src/a.txt": "one" })
      NodeFs.symlinkSync("src/a.txt", `${root}/link`)
      assert.include(yield* edit(root, { path: "link", oldText: "one", newText: "two" }), { path: "src/a.txt" })
      assert.isTrue(NodeFs.lstatSync(`${root}/link`).isSymbolicLink())
      assert.strictEqual(textIn(root, "src/a.txt"), "two")
    }))

  it.live("refuses what lies outside, by its path or through a link", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      NodeFs.symlinkSync(`${outside}/secret.txt`, `${root}/file`)
      NodeFs.symlinkSync(outside, `${root}/folder`)
      for (const path of ["file", "folder/secret.txt", "../outside/secret.txt", `${outside}/secret.txt`]) {
        const failure = yield* Effect.flip(edit(root, { path, oldText: "SECRET", newText: "x" }))
        assert.include(failure, { error: "OutsideRoot", path })
        assert.notInclude(failure.message, "SECRET")
      }
      assert.strictEqual(textIn(outside, "secret.txt"), "SECRET\n")
      assert.deepStrictEqual(pathsIn(outside), ["secret.txt"])
    }))

  it.live("keeps the mode of the file", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "run.sh": "one", private: "one" })
      NodeFs.chmodSync(`${root}/run.sh`, 0o755)
      NodeFs.chmodSync(`${root}/private`, 0o600)
      for (const path of ["run.sh", "private"]) yield* edit(root, { path, oldText: "one", newText: "two" })
      assert.strictEqual(NodeFs.statSync(`${root}/run.sh`).mode & 0o777, 0o755)
      assert.strictEqual(NodeFs.statSync(`${root}/private`).mode & 0o777, 0o600)
    }))
})

describe("edit_file beside other writers", () => {
  /** Edits `a.txt` ("one") while something else happens right before the write. */
  const whileEditing = (root: string, before: () => void) => {
    const commit: ToolContext.Service["commit"] = (write) => Effect.andThen(Effect.sync(before), write)
    const { layer, seen } = recorder(undefined, commit)
    return edit(root, { oldText: "one", newText: "two" }).pipe(
      Effect.provide(layer),
      Effect.ensuring(Effect.sync(() => assert.strictEqual(seen.commits, 1)))
    )
  }

  it.live("writes nothing where the file changed between reading and writing", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      for (const other of ["one, and more", "", "0ne", "two"]) {
        put(root, { "a.txt": "one" })
        const failure = yield* Effect.flip(whileEditing(root, () => put(root, { "a.txt": other })))
        assert.include(failure, { error: "ChangedMeanwhile", path: "a.txt" }, other)
        assert.strictEqual(textIn(root), other)
        assert.deepStrictEqual(pathsIn(root), ["a.txt"])
      }
    }))

  it.live("does not bring back a file that was removed meanwhile", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "one" })
      const failure = yield* Effect.flip(whileEditing(root, () => NodeFs.rmSync(`${root}/a.txt`)))
      assert.include(failure, { error: "ChangedMeanwhile", path: "a.txt" })
      assert.deepStrictEqual(pathsIn(root), [])
    }))

  it.live("writes nothing where the file became a link out of the root meanwhile", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, { "a.txt": "one" })
      NodeFs.writeFileSync(`${outside}/same.txt`, "one")
      const failure = yield* Effect.flip(whileEditing(root, () => {
        NodeFs.rmSync(`${root}/a.txt`)
        NodeFs.symlinkSync(`${outside}/same.txt`, `${root}/a.txt`)
      }))
      assert.include(failure, { error: "OutsideRoot", path: "a.txt" })
      assert.isTrue(NodeFs.lstatSync(`${root}/a.txt`).isSymbolicLink())
      assert.strictEqual(textIn(outside, "same.txt"), "one")
    }))

  it.live("writes where the file was written again with the same content", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "one" })
      yield* whileEditing(root, () => {
        NodeFs.rmSync(`${root}/a.txt`)
        put(root, { "a.txt": "one" })
      })
      assert.strictEqual(textIn(root), "two")
    }))
})

describe("the text after an edit", () => {
  /** Few pieces, so that a random part of a text is sometimes there twice. */
  const Pieces = Schema.Array(
    Schema.Literals(["a", "b", "$&", "$", "\n", "\r\n", "é", "🙂", "\ufeff", "\0", "(.*)", "\\"])
  )
  const At = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 12 }))

  it.effect.prop(
    "is the text with exactly that piece replaced, if the piece is there once",
    [Pieces, At, At, Pieces],
    ([pieces, one, other, replacement]) =>
      Effect.gen(function*() {
        const [start, end] = [Math.min(one, other), Math.max(one, other)]
        const [head, oldText, tail] = [pieces.slice(0, start), pieces.slice(start, end), pieces.slice(end)]
          .map((it) => it.join(""))
        const [text, newText] = [pieces.join(""), replacement.join("")]
        const result = EditFile.edit({ path: "a.txt", oldText: oldText!, newText }, Buffer.from(text))
        const isUnique = text.indexOf(oldText!) === text.lastIndexOf(oldText!)
        if (oldText !== "" && oldText !== newText && isUnique) {
          assert.deepStrictEqual(yield* result, { text: `${head}${newText}${tail}`, replacements: 1 })
        } else if (oldText === "" || oldText === newText || text.split(oldText!).length > 2) {
          assert.include(yield* Effect.flip(result), { error: "InvalidEdit" })
        }
      })
  )

  it.effect.prop(
    "has every occurrence replaced, and what is between them kept, if all are to be",
    [Schema.Array(Pieces), Pieces],
    ([between, replacement]) =>
      Effect.gen(function*() {
        const parts = between.map((it) => it.join(""))
        const newText = replacement.join("")
        const params = { path: "a.txt", oldText: "<old>", newText, replaceAll: true }
        const result = EditFile.edit(params, Buffer.from(parts.join("<old>")))
        if (parts.length < 2) return assert.include(yield* Effect.flip(result), { error: "InvalidEdit" })
        assert.deepStrictEqual(yield* result, { text: parts.join(newText), replacements: parts.length - 1 })
      })
  )
})

describe("the preview of a write", () => {
  const toolsOf = (root: string) => WorkspaceTools.make({ root }).toolkit.tools
  type Writer = "write_file" | "edit_file"

  const previewOf = (root: string, name: Writer, params: object) =>
    Context.get(toolsOf(root)[name].annotations, ToolAnnotations.Preview)!(params)

  const targetsOf = (root: string, name: Writer, params: object) => {
    const found = Context.get(toolsOf(root)[name].annotations, ToolAnnotations.Targets)!(params)
    return Effect.isEffect(found) ? found : Effect.succeed(found)
  }

  const contentOf = (path: string): Uint8Array | undefined =>
    NodeFs.existsSync(path) ? new Uint8Array(NodeFs.readFileSync(path)) : undefined

  const write = (path: string, content: string) => ["write_file", { path, content, createDirectories: true }] as const
  const replacing = (path: string, oldText: string, newText: string) =>
    ["edit_file", { path, oldText, newText, replaceAll: true }] as const

  it.live("is what the handler writes then, over what is there now, for the target that policies know", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "\ufeffone\r\none $&\r\n", "src/b.txt": "one", ".git/config": "one", ".git/x": "one" })
      NodeFs.symlinkSync("src", `${root}/folder`)
      NodeFs.symlinkSync("../.git/config", `${root}/src/innocent`)
      for (
        const [real, kind, [name, params]] of [
          ["a.txt", undefined, write("a.txt", "é\r\n🙂")],
          ["a.txt", undefined, write("./x/../a.txt", "")],
          ["new/deep/c.txt", undefined, write("new/deep/c.txt", "new\n")],
          ["src/b.txt", undefined, write("folder/b.txt", "one")],
          ["src/new.txt", undefined, write(`${root}/folder/new.txt`, "\ufeff")],
          [".git/config", "protected", write("src/innocent", "one")],
          [".git/hooks/pre-commit", "protected", write(".git/hooks/pre-commit", "#!")],
          ["a.txt", undefined, write("a.txt", "\ufeffone\r\none $&\r\n")],
          ["a.txt", undefined, replacing("a.txt", "one", "$&")],
          ["src/b.txt", undefined, replacing("folder/b.txt", "one", "é")],
          [".git/config", "protected", replacing("src/innocent", "one", "two")],
          [".git/x", "protected", replacing(".git/x", "one", "")]
        ] as const
      ) {
        const [target] = yield* targetsOf(root, name, params)
        const before = contentOf(`${root}/${real}`)
        const there = pathsIn(root)
        const [change, ...others] = yield* previewOf(root, name, params)
        assert.deepStrictEqual(others, [])
        assert.deepStrictEqual([change!.path, change!.kind], [real, kind])
        assert.deepStrictEqual([target!.text, target!.kind], [real, kind])
        assert.deepStrictEqual(
          change!.before === undefined ? undefined : new Uint8Array(FileChange.bytesOf(change!.before)),
          before
        )
        assert.deepStrictEqual(pathsIn(root), there, "the preview makes nothing")
        assert.deepStrictEqual(contentOf(`${root}/${real}`), before, "the preview writes nothing")
        const { bytesWritten, path } = yield* call({ root }, name, params as never)
        const after = contentOf(`${root}/${real}`)
        assert.deepStrictEqual(new Uint8Array(FileChange.bytesOf(change!.after!)), after)
        assert.deepStrictEqual([path, bytesWritten], [real, after!.length])
      }
    }))

  it.live("fails as the handler does where an edit is not possible", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      put(root, { "a.txt": "one one", "b.bin": Uint8Array.from([0xff]), "folder/": "" })
      NodeFs.symlinkSync(outside, `${root}/out`)
      for (
        const [error, path, oldText] of [
          ["InvalidEdit", "a.txt", "one"],
          ["InvalidEdit", "a.txt", "two"],
          ["BinaryFile", "b.bin", "one"],
          ["NotFound", "missing.txt", "one"],
          ["NotAFile", "folder", "one"],
          ["OutsideRoot", "out/secret.txt", "SECRET"]
        ] as const
      ) {
        const params = { path, oldText, newText: "x" }
        const failure = yield* Effect.flip(previewOf(root, "edit_file", params))
        assert.deepStrictEqual(failure, yield* Effect.flip(edit(root, params)))
        assert.propertyVal(failure, "error", error)
      }
    }))

  it.effect("is refused where the text overlaps itself, or holds half a character", () =>
    Effect.gen(function*() {
      for (
        const [before, oldText, newText] of [
          ["aaa", "aa", "b"],
          ["\u{1f642}", "\ud83d", "x"],
          ["a", "a", "\ud83d"]
        ] as const
      ) {
        const failure = yield* Effect.flip(EditFile.edit({ path: "a", oldText, newText }, Buffer.from(before)))
        assert.strictEqual(failure.error, "InvalidEdit")
      }
      assert.deepStrictEqual(
        yield* EditFile.edit({ path: "a", oldText: "aa", newText: "b", replaceAll: true }, Buffer.from("aaaa")),
        { text: "bb", replacements: 2 }
      )
    }))

  it.effect("is refused where the file would become too large", () =>
    Effect.gen(function*() {
      const params = { path: "a", oldText: "a", newText: "b".repeat(100_000), replaceAll: true }
      const failure = yield* Effect.flip(EditFile.edit(params, Buffer.from("a".repeat(1_000_000))))
      assert.strictEqual(failure.error, "TooLarge")
    }))

  it.live("shows nothing of what lies outside", () =>
    Effect.gen(function*() {
      const { outside, root } = yield* makeFolders
      NodeFs.symlinkSync(outside, `${root}/out`)
      for (const path of ["out/secret.txt", "../outside/secret.txt"]) {
        const failure = yield* Effect.flip(previewOf(root, "write_file", { path, content: "x" }))
        assert.propertyVal(failure, "error", "OutsideRoot")
      }
      assert.strictEqual(textIn(outside, "secret.txt"), "SECRET\n")
    }))
})
