import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as NodeCrypto from "node:crypto"
import * as FileChange from "../../../src/core/vocabulary/FileChange.ts"

type Change = FileChange.FileChange

const bytes = (...values: ReadonlyArray<number>): Uint8Array => Uint8Array.from(values)

/** The diff of one file, without the two lines of its names. */
const hunks = (before: Change["before"], after: Change["after"]): string =>
  FileChange.diff([{ path: "a.txt", before, after }]).replace(/^--- .*\n\+\+\+ .*\n/, "")

const Bytes = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 255 })))

/** Few values, so that random lists are often the same, or the same when written one after the other. */
const Changes = Schema.Array(Schema.Struct({
  path: Schema.Literals(["", "a", "b", "ab"]),
  before: Schema.UndefinedOr(Schema.Literals(["", "a", "b", "ab"]))
})).check(Schema.isMaxLength(3))

describe("the diff of changes", () => {
  it("shows what goes and what comes, with the lines around", () => {
    assert.strictEqual(
      FileChange.diff([{ path: "src/a.txt", before: "1\n2\n3\n4\n5\n6\n", after: "1\n2\n3\n4\nfive\n6\n" }]),
      "--- src/a.txt\n+++ src/a.txt\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n"
    )
  })

  it("shows a new file as coming from nowhere, and a removed one as going there", () => {
    assert.strictEqual(
      FileChange.diff([{ path: "a.txt", before: undefined, after: "one\n" }]),
      "--- /dev/null\n+++ a.txt\n@@ -0,0 +1 @@\n+one\n"
    )
    assert.strictEqual(
      FileChange.diff([{ path: "a.txt", before: "one\n", after: undefined }]),
      "--- a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
    )
  })

  it("shows one file after the other, in their order", () => {
    const change = (path: string): Change => ({ path, before: "", after: path })
    assert.strictEqual(
      FileChange.diff([change("b"), change("a")]),
      FileChange.diff([change("b")]) + FileChange.diff([change("a")])
    )
    assert.strictEqual(FileChange.diff([]), "")
  })

  it("says where the end of the last line is missing", () => {
    assert.strictEqual(hunks("one", "one\n"), "@@ -1 +1 @@\n-one\n\\ No newline at end of file\n+one\n")
    assert.strictEqual(hunks("one\n", "one"), "@@ -1 +1 @@\n-one\n+one\n\\ No newline at end of file\n")
    assert.strictEqual(
      hunks("one", "two"),
      "@@ -1 +1 @@\n-one\n\\ No newline at end of file\n+two\n\\ No newline at end of file\n"
    )
  })

  it("shows changed line ends and a byte order mark that goes", () => {
    assert.strictEqual(hunks("one\r\n", "one\n"), "@@ -1 +1 @@\n-one\r\n+one\n")
    assert.strictEqual(hunks(bytes(0xef, 0xbb, 0xbf, 0x61, 0x0a), "a\n"), "@@ -1 +1 @@\n-\ufeffa\n+a\n")
  })

  it("says so where nothing changes, whether it is given as text or as bytes", () => {
    const nothing = "--- a.txt\n+++ a.txt\n[nothing changes]\n"
    assert.strictEqual(FileChange.diff([{ path: "a.txt", before: "é\n", after: "é\n" }]), nothing)
    assert.strictEqual(FileChange.diff([{ path: "a.txt", before: Buffer.from("é\n"), after: "é\n" }]), nothing)
  })

  it("is one line with the sizes where one side is no text", () => {
    assert.strictEqual(hunks("one\n", bytes(0xff, 0xfe)), "[4 bytes become 2 bytes]\n")
    assert.strictEqual(hunks(bytes(0x61, 0, 0x62), "é"), "[3 bytes become 2 bytes]\n")
    assert.strictEqual(hunks(new Uint8Array(12_345), undefined), "[12,345 bytes become 0 bytes]\n")
    assert.strictEqual(
      FileChange.diff([{ path: "a.png", before: undefined, after: bytes(0xff) }]),
      "--- /dev/null\n+++ a.png\n[0 bytes become 1 bytes]\n"
    )
  })

  it("is one line with the sizes over 300,000 characters", () => {
    const half = "x".repeat(150_000)
    const shown = FileChange.diff([{ path: "a.txt", before: half, after: "y".repeat(150_000) }], { maxChars: Infinity })
    assert.include(shown, `+${"y".repeat(150_000)}\n`)
    assert.strictEqual(hunks(half, `${half}y`), "[150,000 bytes become 150,001 bytes]\n")
    assert.strictEqual(hunks(Buffer.from(`${half}${half}y`), ""), "[300,001 bytes become 0 bytes]\n")
  })

  it("shows every line of files that have no line in common", () => {
    const lines = (sign: string) => Array.from({ length: 2_000 }, (_, index) => `${sign}${index}\n`).join("")
    const shown = FileChange.diff([{ path: "a.txt", before: lines("-"), after: lines("+") }], { maxChars: Infinity })
    assert.strictEqual(shown.match(/^--\d+$/gm)?.length, 2_000)
    assert.strictEqual(shown.match(/^\+\+\d+$/gm)?.length, 2_000)
  })

  it("is cut at a line, and says how many are missing", () => {
    const changes: ReadonlyArray<Change> = [{ path: "a.txt", before: "1\n2\n3\n", after: "x\ny\nz\n" }]
    const cut = (maxChars: number) => FileChange.diff(changes, { maxChars })
    const whole = "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n-1\n-2\n-3\n+x\n+y\n+z\n"
    assert.strictEqual(cut(whole.length), whole)
    assert.strictEqual(cut(40), "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n-1\n[5 more lines are not shown]\n")
    assert.strictEqual(cut(15), "--- a.txt\n[8 more lines are not shown]\n")
    assert.strictEqual(cut(0), "[9 more lines are not shown]\n")
  })

  it("has at most 20,000 characters, unless another bound is given", () => {
    const changes: ReadonlyArray<Change> = [{ path: "a.txt", before: "", after: "1234567\n".repeat(10_000) }]
    const shown = FileChange.diff(changes)
    assert.isBelow(shown.length, 20_100)
    assert.isAbove(shown.length, 19_900)
    assert.isAbove(FileChange.diff(changes, { maxChars: 80_000 }).length, 79_900)
  })

  it("says of an empty file that it is made, or removed", () => {
    assert.include(FileChange.diff([{ path: "a", before: undefined, after: "" }]), "[an empty file is created]")
    assert.include(FileChange.diff([{ path: "a", before: "", after: undefined }]), "[an empty file is removed]")
    assert.include(FileChange.diff([{ path: "a", before: "", after: "" }]), "[nothing changes]")
  })

  it("has no line that a path made up", () => {
    const shown = FileChange.diff([{ path: "a\n+++ b", before: "1\n", after: "2\n" }])
    assert.deepStrictEqual(shown.split("\n").slice(0, 3), [`--- "a\\n+++ b"`, `+++ "a\\n+++ b"`, "@@ -1 +1 @@"])
  })

  it.prop(
    "is cut so that what is shown and what is counted is the whole",
    {
      lines: Schema.Array(Schema.Literals(["", "a", "é", "🙂", "x".repeat(30), "a\r"])),
      maxChars: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 200 }))
    },
    ({ lines, maxChars }) => {
      const changes: ReadonlyArray<Change> = [{ path: "a.txt", before: "b\n", after: lines.join("\n") }]
      const whole = FileChange.diff(changes, { maxChars: Infinity })
      const shown = FileChange.diff(changes, { maxChars })
      const missing = /\[(\d+) more lines are not shown\]\n$/.exec(shown)
      if (missing === null) {
        assert.strictEqual(shown, whole)
        assert.isAtMost(whole.length, maxChars)
      } else {
        const rest = whole.slice(missing.index)
        assert.strictEqual(shown.slice(0, missing.index) + rest, whole)
        assert.strictEqual(rest.split("\n").length - 1, Number(missing[1]))
        assert.match(shown.slice(0, missing.index), /(^|\n)$/)
        // the next line would have been too much
        assert.isAbove(whole.indexOf("\n", missing.index) + 1, maxChars)
      }
    }
  )
})

describe("the fingerprint of changes", () => {
  it.prop("is the same whatever is written and however it is guarded", [Changes, Changes], ([changes, others]) => {
    const rewritten = changes.map((change, index): Change => ({
      ...change,
      after: others[index]?.before,
      kind: others[index]?.path === "a" ? "protected" : "exact"
    }))
    const plain = changes.map((change): Change => ({ ...change, after: undefined }))
    assert.strictEqual(FileChange.fingerprint(rewritten), FileChange.fingerprint(plain))
  })

  it.prop("is that of other changes only if paths and contents before are the same", [Changes, Changes], ([a, b]) => {
    const of = (changes: typeof a) => FileChange.fingerprint(changes.map((it) => ({ ...it, after: undefined })))
    const parts = (changes: typeof a) => JSON.stringify(changes.map((it) => [it.path, it.before ?? null]))
    assert.strictEqual(of(a) === of(b), parts(a) === parts(b))
    assert.strictEqual(of(a), of(a.map((it) => ({ ...it }))))
  })

  it.prop("is the same for a text and for its bytes", [Schema.String, Schema.String], ([path, text]) => {
    assert.strictEqual(
      FileChange.fingerprint([{ path, before: text, after: undefined }]),
      FileChange.fingerprint([{ path, before: new TextEncoder().encode(text), after: undefined }])
    )
  })

  it("tells parts apart that are the same when written one after the other", () => {
    const of = (...parts: ReadonlyArray<readonly [path: string, before: Change["before"]]>) =>
      FileChange.fingerprint(parts.map(([path, before]) => ({ path, before, after: undefined })))
    const all = [
      of(["ab", "c"]),
      of(["a", "bc"]),
      of(["abc", ""]),
      of(["", "abc"]),
      of(["abc", undefined]),
      of(["a", "b"], ["c", "d"]),
      of(["c", "d"], ["a", "b"]),
      of(["a", "bcd"]),
      of(["a", undefined], ["", undefined]),
      of(["a", ""]),
      of(["a", undefined]),
      of(["a", new Uint8Array(32)]),
      of()
    ]
    assert.strictEqual(new Set(all).size, all.length)
    for (const one of all) assert.match(one, /^[0-9a-f]{64}$/)
  })
})

describe("the hash of a content", () => {
  const sha256 = (content: string | Uint8Array) => NodeCrypto.createHash("sha256").update(content).digest("hex")

  it.prop("is the SHA-256 of a text as UTF-8", [Schema.String], ([text]) => {
    assert.strictEqual(FileChange.hashOf(text), sha256(text))
  })

  it.prop("is the SHA-256 of bytes", [Bytes], ([values]) => {
    assert.strictEqual(FileChange.hashOf(Uint8Array.from(values)), sha256(Uint8Array.from(values)))
  })

  it("is the SHA-256 of a part of a buffer, not of all of it", () => {
    const part = Buffer.from("before-middle-after").subarray(7, 13)
    assert.strictEqual(FileChange.hashOf(part), sha256("middle"))
  })

  it("is empty without a content, and not for an empty one", () => {
    assert.strictEqual(FileChange.hashOf(undefined), "")
    assert.strictEqual(FileChange.hashOf(""), sha256(""))
    assert.strictEqual(FileChange.hashOf(new Uint8Array()), sha256(""))
  })
})
