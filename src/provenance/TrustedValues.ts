/** Whole fields of trusted outputs, with the records that they stand in. */
import type { Source } from "./ForeignTexts.ts"
import { handleOf } from "./Handles.ts"
import type { UserWords } from "./UserWords.ts"

/** A record of an output. The user's words select it by one of its fields, or by the lookup that returned it alone. */
export class Entry {
  isNamed = false
  private fields: Array<string> = []

  readonly source: Omit<Source, "path">
  private readonly query: ReadonlyArray<string> | undefined

  constructor(source: Omit<Source, "path">, query?: ReadonlyArray<string>) {
    this.source = source
    this.query = query
  }

  /** A field that may select the record. */
  add(text: string): void {
    if (text.length >= 4 && text.length <= longest && this.fields.length < 32) this.fields.push(text)
  }

  /** How many fields may select it. */
  get size(): number {
    return this.fields.length
  }

  /** Tells whether the words select the record. */
  isSelected(says: (value: string) => boolean): boolean {
    return this.isNamed ||= this.fields.some(says)
  }

  /** Tells whether every word of the lookup is the user's. */
  isAskedFor(words: UserWords): boolean {
    return this.isNamed ||= this.query !== undefined && words.hasAll(this.query)
  }
}

/** Longer fields are no names. */
const longest = 2_000

/** How many fields of records wait for the user's words, for each value that may be kept. */
const fieldsPerValue = 5

/** How many records are kept for one value. */
const mostEntries = 32

/** The trusted values of a conversation. */
export class TrustedValues {
  private readonly known = new Map<string, Map<string, Array<Entry>>>()
  private readonly waiting = new Set<Entry>()
  /** How many fields may select those: each is compared with every message. */
  private fields = 0

  private readonly most: number

  constructor(most: number) {
    this.most = most
  }

  /** Adds a value in its canonical form. The values that were added first are evicted when they are too many. */
  add(value: string, kind: string, entry: Entry): void {
    if (value === "" || value.length > longest) return
    this.put(value, kind, entry)
    const handle = handleOf(value)
    if (handle !== undefined && handle !== value) this.put(handle, `\u0000${kind}`, entry)
  }

  /** Adds a record that the user's words may still select. */
  wait(entry: Entry): void {
    if (entry.isNamed) return
    this.waiting.add(entry)
    this.fields += entry.size
    for (const first of this.waiting) {
      if (this.waiting.size <= this.most && this.fields <= fieldsPerValue * this.most) return
      this.drop(first)
    }
  }

  private drop(entry: Entry): void {
    this.waiting.delete(entry)
    this.fields -= entry.size
  }

  /** The user said something: records that it selects are named from now on. */
  heard(says: (value: string) => boolean, words?: UserWords): void {
    for (const entry of this.waiting) {
      if (entry.isSelected(says) || (words !== undefined && entry.isAskedFor(words))) this.drop(entry)
    }
  }

  /** The origin of a value of a kind; `undefined` if it is not listed. */
  originOf(value: string, kind: string): "listed" | "named" | undefined {
    const entries = this.known.get(value)?.get(kind)
    return entries === undefined ? undefined : entries.some((it) => it.isNamed) ? "named" : "listed"
  }

  /** The strongest origin of a value of any kind. */
  anyOrigin(value: string): "listed" | "named" | undefined {
    const kinds = this.known.get(value)
    if (kinds === undefined) return undefined
    for (const entries of kinds.values()) if (entries.some((it) => it.isNamed)) return "named"
    return "listed"
  }

  /** The calls that listed a value. */
  sourcesOf(value: string): ReadonlyArray<Source> {
    return Array.from(this.known.get(value)?.values() ?? []).flat().slice(0, 3)
      .map(({ source }) => ({ ...source, path: "" }))
  }

  private put(value: string, kind: string, entry: Entry): void {
    let kinds = this.known.get(value)
    if (kinds === undefined) {
      this.known.set(value, kinds = new Map())
      if (this.known.size > this.most) {
        for (const first of this.known.keys()) {
          this.known.delete(first)
          break
        }
      }
    }
    const entries = kinds.get(kind)
    if (entries === undefined) kinds.set(kind, [entry])
    else if (entries.at(-1) !== entry) {
      entries.push(entry)
      if (entries.length > mostEntries) entries.shift()
    }
  }
}
