/**
 * What a person reads before they decide, for any text that a model may choose.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Approvals } from "effect-tool-executor"
import * as CliOutput from "effect/cli/CliOutput"
import * as Schema from "effect/Schema"
import { escape, escapeJson } from "../../src/internal/escape.ts"
import * as ApprovalPrompt from "../../src/terminal/ApprovalPrompt.ts"
import { clip } from "../../src/terminal/clip.ts"

/** Any text: ordinary words, what does something to a terminal, and what imitates lines of ours. */
const Text = Schema.Array(
  Schema.Union([
    Schema.String,
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0xffff })),
    Schema.Literals([
      "\n",
      "\r\n? read_file wants to run\n",
      "\n  why       all is well\n",
      "\n[y] approve once  ",
      "\n  | ",
      "\u001b[2J",
      "\u001b]0;title\u0007",
      "\u009b31m",
      "\u202egpj.exe\u2066",
      "\u200b\u00ad\ufeff",
      "a\u0301\u0302\u0303\u0304",
      "日本語",
      "👩‍👩‍👧",
      "+++ --- @@",
      "a rather long line of plain words that does not fit into the columns of most terminals, not even of wide ones"
    ])
  ])
)

const textOf = (parts: typeof Text.Type): string =>
  parts.map((it) => typeof it === "number" ? String.fromCharCode(it) : it).join("")

/** Few columns and many, but no fewer than the widest line of ours has. */
const Columns = Schema.Int.check(Schema.isBetween({ minimum: 40, maximum: 200 }))

const Args = Schema.Union([
  Schema.Json,
  Schema.Struct({ path: Text, lines: Schema.Array(Text) }),
  Schema.Undefined
])

const Request = Schema.Struct({
  tool: Text,
  agentPath: Schema.Array(Text),
  why: Text,
  class: Text,
  targets: Schema.Array(Schema.Struct({ text: Text, kind: Schema.Literals(["none", "exact", "protected"]) })),
  args: Args,
  preview: Schema.Literals(["undefined", "None", "Diff"]),
  shown: Text,
  isRunning: Schema.Boolean,
  remember: Schema.Literals(["call", "resources", "tool"])
})

const plain = (args: typeof Args.Type): unknown =>
  typeof args === "object" && args !== null && "lines" in args && Array.isArray(args.lines)
    ? { path: textOf(args.path as typeof Text.Type), lines: args.lines.map(textOf) }
    : args

const requestOf = (it: typeof Request.Type): Approvals.ApprovalRequest => ({
  id: "id",
  principal: "default",
  agentPath: it.agentPath.map(textOf),
  batch: "b",
  process: "p",
  callId: "c",
  index: 0,
  tool: textOf(it.tool),
  class: textOf(it.class),
  args: plain(it.args),
  targets: it.targets.map(({ kind, text }) => kind === "none" ? { text: textOf(text) } : { text: textOf(text), kind }),
  why: textOf(it.why),
  preview: it.preview === "undefined"
    ? undefined
    : it.preview === "None"
    ? { _tag: "None", because: textOf(it.shown) }
    : { _tag: "Diff", diff: textOf(it.shown) },
  isRunning: it.isRunning,
  remember: it.remember,
  requestedAt: 0,
  expiresAt: 1
})

const show = (request: Approvals.ApprovalRequest, columns: number, whole: boolean, waiting = 0) =>
  ApprovalPrompt.show(request, { columns, rows: 30, color: false, waiting, whole })

/** Lines of a question, without the empty ones around it. */
const linesOf = (shown: string): ReadonlyArray<string> => {
  assert.match(shown, /^\n[^]*\n$/)
  return shown.slice(1, -1).split("\n")
}

const isVisible = (text: string) => assert.strictEqual(escape(text), text)

const name = /^ {2}(?:(?:agent|why|kind|target|diff|pending| {4}) {3,7}|\| {9})/
const bar = /^ {2}\| /
const heading = /^ {2}(?:arguments|diff|\+ \d+ more lines: v shows all)$/

const request: Approvals.ApprovalRequest = {
  id: "id",
  principal: "default",
  agentPath: [],
  batch: "b",
  process: "p",
  callId: "c",
  index: 0,
  tool: "write_file",
  class: "ConcurrentMut",
  args: { path: "a.txt" },
  targets: [],
  why: "the tool changes things",
  preview: undefined,
  isRunning: false,
  remember: "tool",
  requestedAt: 0,
  expiresAt: 1
}

describe("an approval prompt", () => {
  it.prop(
    "shows nothing that a terminal obeys or hides",
    [Request, Columns, Schema.Boolean],
    ([it, columns, whole]) => {
      for (const line of linesOf(show(requestOf(it), columns, whole, 3))) isVisible(line)
      for (const line of ApprovalPrompt.choices(requestOf(it), columns).split("\n")) isVisible(line)
      isVisible(ApprovalPrompt.said({ _tag: "Deny", reason: textOf(it.why) }))
      isVisible(ApprovalPrompt.json(requestOf(it).args))
    }
  )

  it.prop("starts each line with a mark of ours", [Request, Columns, Schema.Boolean], ([it, columns, whole]) => {
    const [first = "", second = "", ...rest] = linesOf(show(requestOf(it), columns, whole, 2))
    assert.isTrue(first.startsWith("? "))
    assert.match(first, / wants to (?:run|write)$/)
    assert.strictEqual(second, "  pending   2 more")
    for (const line of rest) assert.isTrue(name.test(line) || bar.test(line) || heading.test(line), line)
  })

  it.prop("has choices that each begin with their key, in lines that fit", [Request, Columns], ([it, columns]) => {
    const shown = ApprovalPrompt.choices(requestOf(it), columns)
    assert.isTrue(shown.startsWith("[y] approve once"))
    assert.isTrue(shown.endsWith("[v] view all "))
    for (const line of shown.split("\n")) {
      assert.match(line, /^\[[yhsndev]\] /)
      if (columns >= 34) assert.isAtMost(CliOutput.displayWidth(line), columns)
    }
  })

  it.prop("has no line wider than the terminal", [Request, Columns], ([it, columns]) => {
    const [, ...lines] = linesOf(show(requestOf(it), columns, false))
    for (const line of lines) assert.isAtMost(CliOutput.displayWidth(line), columns, line)
  })

  it.prop("has all of the arguments if it is shown whole", [Request, Columns], ([it, columns]) => {
    const asked = { ...requestOf(it), preview: undefined }
    const lines = linesOf(show(asked, columns, true))
    const shown = lines.slice(lines.indexOf("  arguments") + 1).map((line) => line.replace(bar, "")).join("")
    const json = escapeJson(JSON.stringify(asked.args, undefined, 2) ?? "none")
    assert.strictEqual(shown, json.replaceAll("\n", ""))
    if (asked.args !== undefined) assert.deepStrictEqual(JSON.parse(shown), JSON.parse(JSON.stringify(asked.args)))
  })

  it.prop("has all of the diff if it is shown whole", [Text, Columns], ([text, columns]) => {
    const diff = textOf(text)
    const lines = linesOf(show({ ...request, preview: { _tag: "Diff", diff } }, columns, true))
    const shown = lines.slice(lines.indexOf("  diff") + 1).map((line) => line.replace(bar, "")).join("")
    assert.strictEqual(shown, diff.replace(/\n$/, "").split("\n").map(escape).join(""))
  })

  it.prop("has all of why and of each target if it is shown whole", [Text, Schema.Array(Text), Columns], (
    [why, targets, columns]
  ) => {
    const texts = targets.map(textOf)
    const lines = linesOf(
      show({ ...request, why: textOf(why), targets: texts.map((text) => ({ text })) }, columns, true)
    )
    const shown = lines.slice(1, lines.indexOf("  arguments")).map((line) =>
      line.startsWith("  |") ? line.slice(12) : `\n${line.slice(12)}`
    ).join("")
    assert.strictEqual(shown, ["", escape(textOf(why)), "changes things", ...texts.map(escape)].join("\n"))
  })

  it.prop("says so whenever it leaves a part of the arguments out", [Args, Columns], ([args, columns]) => {
    const asked = { ...request, args: plain(args) }
    const lines = linesOf(show(asked, columns, false))
    const isCut = lines.some((line) => /^ {2}\+ \d+ more lines/.test(line))
    const shown = lines.slice(lines.indexOf("  arguments") + 1).map((line) => line.replace(bar, "")).join("")
    const json = escapeJson(JSON.stringify(asked.args, undefined, 2) ?? "none").replaceAll("\n", "")
    assert.strictEqual(shown === json, !isCut)
  })

  it.prop("offers to cut a name only with a mark", [Text], ([text]) => {
    const shown = ApprovalPrompt.choices({ ...request, targets: [{ text: textOf(text) }] }, 64)
    assert.include(shown, `[h] approve for 1 hour: ${clip(textOf(text), 32)}`)
    assert.include(shown, `[s] approve until this ends: ${clip(textOf(text), 32)}`)
  })

  it("offers no memory for what may not be remembered, and no edit of what runs", () => {
    const keys = (given: Partial<Approvals.ApprovalRequest>) =>
      Array.from(ApprovalPrompt.choices({ ...request, ...given }, 200).matchAll(/\[(.)\]/g), ([, key]) => key).join("")
    assert.strictEqual(keys({}), "yhsndev")
    assert.strictEqual(keys({ remember: "call" }), "yndev")
    assert.strictEqual(keys({ isRunning: true }), "yhsndv")
    assert.strictEqual(keys({ isRunning: true, remember: "call" }), "yndv")
  })

  it("says what an approval would be remembered for", () => {
    const target = (text: string) => ({ text })
    assert.include(ApprovalPrompt.choices(request, 200), "approve for 1 hour: every write_file  ")
    assert.include(ApprovalPrompt.choices({ ...request, targets: [target("a")] }, 200), "until this ends: a  ")
    assert.include(
      ApprovalPrompt.choices({ ...request, targets: [target("a"), target("b")] }, 200),
      "approve for 1 hour: all these  "
    )
  })

  it("shows arguments however deep", () => {
    for (const depth of [100, 6_000, 100_000]) {
      const args = { deep: JSON.parse(`${"[".repeat(Math.min(depth, 6_000))}${"]".repeat(Math.min(depth, 6_000))}`) }
      let deep: unknown = args
      for (let n = 6_000; n < depth; n++) deep = [deep]
      assert.include(show({ ...request, args: deep }, 80, false), "arguments")
    }
  })

  it("shows ten targets, and says how many more there are", () => {
    const targets = Array.from({ length: 12 }, (_, index) => ({ text: `file-${index}` }))
    const few = show({ ...request, targets }, 80, false)
    assert.include(few, "file-9\n")
    assert.notInclude(few, "file-10")
    assert.include(few, "            2 more: v shows them\n")
    const all = show({ ...request, targets }, 80, true)
    assert.include(all, "file-11\n")
    assert.notInclude(all, " more: v")
  })

  it("has colours of ours alone, and the same text with them", () => {
    const diff = "--- a\n+++ b\n-\u001b[32mold\n+new\n same\n"
    const asked: Approvals.ApprovalRequest = { ...request, why: "\u001b[31mred", preview: { _tag: "Diff", diff } }
    const options = { columns: 80, rows: 30, waiting: 1 }
    const painted = ApprovalPrompt.show(asked, { ...options, color: true })
    const plain = ApprovalPrompt.show(asked, { ...options, color: false })
    const codes = new RegExp(`${String.fromCharCode(0x1b)}\\[(?:0|1|2|31|32)m`, "g")
    assert.notStrictEqual(painted, plain)
    assert.strictEqual(painted.replace(codes, ""), plain)
    assert.include(painted, "\u001b[31m-\\u001b[32mold\u001b[0m\n")
    assert.include(painted, "\u001b[32m+new\u001b[0m\n")
  })
})
