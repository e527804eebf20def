/** Reads an output into a ledger: which of its fields are values, which select a record, and which are foreign. */
import { type Paths, type Trusted } from "./Declared.ts"
import type { ForeignTexts, Source } from "./ForeignTexts.ts"
import { canonical } from "./Normalised.ts"
import { Entry, type TrustedValues } from "./TrustedValues.ts"
import type { UserWords } from "./UserWords.ts"

/** What is read, and into what. */
export interface Reading {
  readonly output: unknown
  readonly paths: Paths<Trusted>
  readonly source: Omit<Source, "path">
  readonly isTrusted: boolean
  /** Tells whether a value only repeats an argument that is not proved. */
  readonly isEcho: (value: string) => boolean
  /** The tokens of the arguments; a lookup that returns one record names it if all of them are the user's. */
  readonly query: ReadonlyArray<string>
  readonly words: UserWords
  readonly values: TrustedValues
  readonly foreign: ForeignTexts
}

/** How deep outputs are looked at; what is deeper is foreign. */
const depthLimit = 64

export const readOutput = (reading: Reading): void => {
  const { foreign, isEcho, isTrusted, paths, query, source, values, words } = reading
  const found: Array<{ readonly value: string; readonly kind: string; readonly record: number }> = []
  const labels: Array<{ readonly value: string; readonly record: number }> = []
  let records = 0

  const scalar = (value: unknown, rule: Trusted | undefined, path: string, record: number): void => {
    if (value === null || value === undefined || typeof value === "boolean") return
    const text = String(value)
    if (!isTrusted || rule === undefined || rule.trust === "foreign") return foreign.add(source, path, text)
    if (rule.trust === "peer") return foreign.addPeer(source, path, text)
    const form = canonical(text)
    if (rule.trust === "label" || isEcho(form)) foreign.add(source, path, text)
    else found.push({ value: form, kind: rule.kind, record })
    if (!isEcho(form)) labels.push({ value: form, record })
  }

  const walk = (
    value: unknown,
    here: Paths<Trusted> | undefined,
    inherited: Trusted | undefined,
    path: string,
    record: number,
    depth: number
  ): void => {
    const rule = here?.rule ?? inherited
    if (typeof value !== "object" || value === null) return scalar(value, rule, path, record)
    if (depth > depthLimit) return foreign.add(source, path, JSON.stringify(value))
    if (Array.isArray(value)) {
      value.forEach((it, index) => {
        walk(it, here, inherited, `${path}[${index}]`, elementOf(it, record), depth + 1)
      })
      return
    }
    for (const [key, it] of Object.entries(value)) {
      const at = path === "" ? key : `${path}.${key}`
      const exact = here?.fields.get(key)
      const inner = exact === undefined && here?.any !== undefined ? elementOf(it, record) : record
      if (here?.keys !== undefined) scalar(key, here.keys, at, inner)
      else if (rule === undefined || rule.trust === "foreign") keyOf(key, at)
      walk(it, exact ?? here?.any, rule, at, inner, depth + 1)
    }
  }

  /** An object in a list is a record; so is another value in a list that is in none. The rest belongs to its record. */
  const elementOf = (value: unknown, record: number): number =>
    (typeof value === "object" && value !== null && !Array.isArray(value)) || record === 0 ? ++records : record

  /** Keys of foreign maps may be data. */
  const keyOf = (key: string, path: string): void => {
    if (/[@.\s\d]/.test(key)) foreign.add(source, path, key)
  }

  walk(parsed(reading.output), paths, undefined, "", 0, 0)
  if (found.length === 0) return
  const isAlone = records <= 1
  const entries = new Map<number, Entry>()
  const entryOf = (record: number): Entry => {
    let entry = entries.get(record)
    if (entry === undefined) {
      entries.set(record, entry = new Entry(source, isAlone && query.length > 0 ? query : undefined))
    }
    return entry
  }
  for (const { record, value } of labels) entryOf(record).add(value)
  for (const { kind, record, value } of found) values.add(value, kind, entryOf(record))
  for (const entry of entries.values()) {
    entry.isAskedFor(words)
    entry.isSelected((value) => words.says(value))
    values.wait(entry)
  }
}

/** A text that is JSON is read as what it says. */
const parsed = (output: unknown): unknown => {
  if (typeof output !== "string" || !/^\s*[[{]/.test(output)) return output
  try {
    return JSON.parse(output)
  } catch {
    return output
  }
}
