import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { toolNames } from "../../src/mcp/toolNames.ts"

const Prefix = Schema.Literals(["", "a__", "x".repeat(32)])

/** Names that come close to each other: few characters, some of which are not taken. */
const Close = Schema.Array(Schema.String.check(Schema.isPattern(/^[ab_.é]{0,4}$/)))

const Any = Schema.Array(Schema.String)

const Long = Schema.Array(Schema.String.check(Schema.isPattern(/^x{50,70}[ab.]?$/)))

const lists = Schema.Union([Close, Any, Long])

const entries = (prefix: string, names: Iterable<string>) => Array.from(toolNames(prefix, new Set(names)))

describe("toolNames", () => {
  it("keeps what providers take", () => {
    assert.deepStrictEqual(entries("fs__", ["read_file", "Write-2"]), [
      ["read_file", "fs__read_file"],
      ["Write-2", "fs__Write-2"]
    ])
  })

  it("puts _ for what they do not, and a hash only where names would be the same", () => {
    assert.deepStrictEqual(entries("", ["a.b", "c d"]), [["a.b", "a_b"], ["c d", "c_d"]])
    assert.deepStrictEqual(entries("", ["a.b", "a_b"]), [["a_b", "a_b"], ["a.b", "a_b_2e7336dc"]])
  })

  it("makes way for a tool that has the name of another's hash", () => {
    const hashed = toolNames("", ["a.b", "a_b"]).get("a.b")!
    const names = toolNames("", ["a.b", "a_b", hashed])
    assert.strictEqual(names.get(hashed), hashed)
    assert.strictEqual(new Set(names.values()).size, 3)
  })

  it("tells apart two whose hashes begin alike, in any order", () => {
    const pair = [".7327", ".167457"].map((end) => "x".repeat(60) + end)
    const names = toolNames("", pair)
    assert.strictEqual(new Set(names.values()).size, 2)
    assert.deepStrictEqual(toolNames("", [...pair].reverse()), names)
  })

  it("gives halves of characters hashes of their own", () => {
    const [a, b, c] = ["\ud800", "\ud801", "\ud802"] as const
    assert.strictEqual(toolNames("", [a, b]).get(b), toolNames("", [b, c]).get(b))
    assert.strictEqual(new Set(toolNames("", [a, b, c, "\\ud800"]).values()).size, 4)
  })

  it.prop("gives each tool one name that every provider takes", [Prefix, lists], ([prefix, names]) => {
    const given = toolNames(prefix, new Set(names))
    assert.deepStrictEqual(new Set(given.keys()), new Set(names))
    assert.strictEqual(new Set(given.values()).size, given.size)
    for (const name of given.values()) assert.match(name, /^[a-zA-Z0-9_-]{1,64}$/)
  })

  it.prop("does not depend on the order of the tools", [Prefix, lists], ([prefix, names]) => {
    assert.deepStrictEqual(new Map(entries(prefix, names)), new Map(entries(prefix, [...names].reverse())))
  })

  it.prop("begins with the prefix, and keeps a name that fits", [Prefix, lists], ([prefix, names]) => {
    for (const [own, name] of entries(prefix, names)) {
      assert.isTrue(name.startsWith(prefix))
      if (/^[a-zA-Z0-9_-]+$/.test(own) && prefix.length + own.length <= 64) assert.strictEqual(name, prefix + own)
    }
  })

  it("names ten thousand tools that are all alike", () => {
    const names = Array.from({ length: 10_000 }, (_, n) => `${".".repeat(n % 7)}${" ".repeat(70)}${n}`)
    assert.strictEqual(new Set(toolNames("a__", names).values()).size, 10_000)
  })
})
