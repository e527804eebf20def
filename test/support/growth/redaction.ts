/** Redaction of what models, tools and pages write. */
import * as Redact from "../../../src/internal/secrets/index.ts"
import type { Row } from "./Growth.ts"

const feeds = [
  "internal/secrets/marks.ts",
  "internal/secrets/names.ts",
  "internal/secrets/redactor.ts",
  "internal/secrets/search.ts",
  "internal/secrets/texts.ts"
]

const scrubbed = (name: string, piece: string, size = 125_000): Row => ({
  name: `redaction: ${name}`,
  feeds,
  size,
  input: (size) => {
    const text = piece.repeat(Math.ceil(size / piece.length))
    return () => Redact.usual.scrub(text, [])
  }
})

const hidden = (name: string, size: number, value: (size: number) => unknown): Row => ({
  name: `redaction: ${name}`,
  feeds,
  size,
  input: (size) => {
    const made = value(size)
    return () => Redact.usual.arguments(made)
  }
})

const around = (size: number, letter = "a") => `${letter.repeat(size / 2)}b${letter.repeat(size / 2)}`

export const rows: ReadonlyArray<Row> = [
  hidden("a long secret in a text like it", 60_000, (size) => ({
    password: around(size / 4),
    text: "a".repeat(size)
  })),
  hidden("a periodic secret in a text like it", 60_000, (size) => ({
    password: around(size / 4, "xy"),
    text: "xy".repeat(size / 2)
  })),
  hidden("the beginning of a secret, repeated", 60_000, (size) => ({
    password: "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    text: "ABCDEFGHIJKL ".repeat(size / 13)
  })),
  hidden("the end of a secret, repeated", 60_000, (size) => ({
    password: "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    text: "OPQRSTUVWXYZ ".repeat(size / 13)
  })),
  hidden("many secrets and a long text", 30_000, (size) => ({
    fields: Array.from({ length: size / 30 }, (_, index) => ({ password: `secret-${index}` })),
    text: "lorem ipsum ".repeat(size / 12)
  })),
  hidden("many secrets of one beginning", 30_000, (size) => ({
    fields: Array.from({ length: size / 60 }, (_, index) => ({ password: `the-beginning-of-all-secrets-${index}` })),
    text: "the-beginning-of-all-secrets ".repeat(size / 29)
  })),
  hidden("many short secrets", 30_000, (size) => ({
    fields: Array.from({ length: size / 30 }, (_, index) => ({ pin: index % 999, password: `${index % 999}` })),
    text: "1 2 3 a-b ".repeat(size / 10)
  })),
  hidden(
    "an output with many assignments",
    30_000,
    (size) => Array.from({ length: size / 30 }, (_, index) => `password=abc-${index}`).join("\n")
  ),
  hidden("texts of JSON in JSON", 30_000, (size) => {
    let text = JSON.stringify({ password: "a".repeat(size / 8) })
    while (text.length < size) text = JSON.stringify({ text })
    return text
  }),
  hidden("quotes in a secret", 30_000, (size) => ({ password: "\"".repeat(size / 16), text: "\"".repeat(size) })),
  hidden(
    "many keys",
    30_000,
    (size) => Object.fromEntries(Array.from({ length: size / 12 }, (_, index) => [`k${index}`, "a"]))
  ),
  hidden("many empty lists", 30_000, (size) => Array.from({ length: size / 4 }, () => [])),
  scrubbed("beginnings of keys", "-----BEGIN PRIVATE KEY-----"),
  scrubbed("beginnings of keys without an end near them", "-----BEGIN PRIVATE KEY-----aaaaaaaaaaaa "),
  scrubbed("names before placeholders", "token=$"),
  scrubbed("headers before placeholders", "authorization:$"),
  scrubbed("quotes before placeholders", "token='$ password=\"$ "),
  scrubbed("addresses", "a://b:"),
  scrubbed("schemes", "basic "),
  scrubbed("tokens", "eyJaaaaaaaaa."),
  scrubbed("one word", "a"),
  scrubbed("backslashes", "\\"),
  scrubbed("dashes", "--a")
]
