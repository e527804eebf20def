/** What users, models and strangers write, with provenance. */
import * as Declared from "../../../src/provenance/Declared.ts"
import { handlesOf } from "../../../src/provenance/Handles.ts"
import * as Ledger from "../../../src/provenance/Ledger.ts"
import { sentencesOf, textOf, tokensOf, valueOf } from "../../../src/provenance/Normalised.ts"
import type { Row } from "./Growth.ts"

const normalised = ["provenance/Normalised.ts"]
const handles = ["provenance/Handles.ts", ...normalised]
const ledger = [
  "provenance/Declared.ts",
  "provenance/ForeignTexts.ts",
  "provenance/Ledger.ts",
  "provenance/Output.ts",
  "provenance/TrustedValues.ts",
  "provenance/UserWords.ts",
  ...handles
]

const of = (
  name: string,
  feeds: ReadonlyArray<string>,
  run: (text: string) => unknown,
  piece: string,
  { around: [before, after] = ["", ""], size = 20_000 }: {
    readonly around?: readonly [string, string]
    readonly size?: number
  } = {}
): Row => ({
  name: `provenance: ${name}`,
  feeds,
  size,
  input: (size) => {
    const text = before + piece.repeat(Math.ceil(size / piece.length)) + after
    return () => run(text)
  }
})

const search = Declared.make("search", {
  effect: "read",
  parameters: { q: "content" },
  output: { name: "own", title: "label", note: "foreign" }
})
const page = Declared.make("page", { effect: "read" })
const send = Declared.make("send", { effect: "write", parameters: { to: "target", body: "content" } })

const conversation = (
  name: string,
  size: number,
  prepare: (ledger: Ledger.Ledger, size: number) => () => unknown
): Row => ({
  name: `provenance: ${name}`,
  feeds: ledger,
  size,
  input: (size) => prepare(Ledger.make(), size)
})

const received = (tool: Declared.Tool, args: unknown, output: unknown): Ledger.Received => ({
  tool,
  callId: "1",
  args,
  output
})

export const rows: ReadonlyArray<Row> = [
  of("a tail of tildes in a token", normalised, tokensOf, "~", { around: ["a", "b"] }),
  of("a tail of full stops in a path", normalised, tokensOf, ".", { around: ["/", "b"] }),
  of("a token of many labels", normalised, tokensOf, "a."),
  of("a token of schemes", normalised, tokensOf, "a+b"),
  of("a token of colons", normalised, tokensOf, "1:a"),
  of("marks in a text", normalised, textOf, "\u0301\u0327\u0323", { around: ["e", ""] }),
  of("marks in a value", normalised, valueOf, "\u0301\u0327\u0323", { around: ["e", ""] }),
  of("marks with invisible characters between them", normalised, textOf, "\u0301\u200B\u0327", { around: ["e", ""] }),
  of("marks of half width", normalised, textOf, "\uFF9E\u0327", { around: ["e", ""] }),
  of("sentences without spaces", normalised, sentencesOf, "a.", { around: ["", "A"] }),
  of("sentences of upper case", normalised, sentencesOf, "a.A", { around: ["", "A"] }),
  of("sentences of one word", normalised, sentencesOf, "a", { around: ["", ".A"] }),
  of("sentences of slashes", normalised, sentencesOf, "/.A"),
  of("handles with full stops behind them", handles, handlesOf, ".", { around: ["a.", "b"] }),
  of("handles with marks behind them", handles, handlesOf, "!", { around: ["x.y", "z"] }),
  of("numbers with commas", handles, handlesOf, "1,", { size: 125_000 }),
  of("numbers with brackets", handles, handlesOf, "1(", { size: 125_000 }),
  of("digits in words", handles, handlesOf, "1a", { size: 30_000 }),
  of("words that may be accounts", handles, handlesOf, `bc1${"a1".repeat(40)} `, { size: 125_000 }),
  of("the word at", handles, handlesOf, " at", { size: 125_000 }),
  of("the word dot", handles, handlesOf, " dot ", { size: 125_000 }),
  of("addresses", handles, handlesOf, "a@b.c,", { size: 125_000 }),
  {
    name: "provenance: the user's words are forgotten",
    feeds: ledger,
    size: 2_000,
    input: (size) => {
      const it = Ledger.make({ words: size * 4 })
      return () => {
        it.heard("a ".repeat(size / 40))
        it.heard("a ".repeat(size))
        it.heard("b ".repeat(size * 2))
      }
    }
  },
  conversation("many messages", 1_000, (ledger, size) => () => {
    for (let index = 0; index < size; index++) ledger.heard(`message ${index}`)
  }),
  conversation("values of repeated words", 100, (ledger, size) => {
    ledger.heard("a ".repeat(size * 100))
    const to = Array.from({ length: size / 4 }, () => "a a a-")
    return () => ledger.decide(send, { to })
  }),
  conversation("short arguments after a stranger's text", 100, (ledger, size) => {
    ledger.received(received(page, {}, "aab ".repeat(size * 500)))
    const q = Array.from({ length: 200 }, (_, index) => "ab".repeat(1 + index % 2).slice(0, 1 + index % 4))
    return () => ledger.received(received(search, { q }, {}))
  }),
  conversation("an output that repeats arguments", 1_000, (ledger, size) => {
    const args = { q: `${"aaaa".repeat(size)}x` }
    const output = Array.from({ length: size }, (_, index) => ({ name: "aaaa", title: `aaaa${index}` }))
    return () => ledger.received(received(search, args, output))
  }),
  conversation("arguments of many words and an output of others", 1_000, (ledger, size) => {
    const args = { q: "aaaa1 ".repeat(size) }
    const output = Array.from({ length: size }, (_, index) => ({ name: `aaaa-${index}` }))
    return () => ledger.received(received(search, args, output))
  }),
  conversation("a message while many records wait", 500, (ledger, size) => {
    const record = (index: number) =>
      Object.fromEntries(Array.from({ length: 30 }, (_, field) => [`f${field}`, `value-${index}-${field}`]))
    const own = Declared.make("list", { effect: "read", output: "label" })
    ledger.received(received(own, {}, Array.from({ length: size }, (_, index) => record(index))))
    return () => ledger.heard("hello")
  }),
  conversation("a long text that somebody pasted", 100_000, (ledger, size) => () => {
    ledger.heard("a.b@c.d 1 ".repeat(size / 10), "foreign")
  })
]
