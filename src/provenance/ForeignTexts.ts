/**
 * Texts that prove nothing: by strangers, and by peers. They are kept to explain why a call asks, and to find lookups
 * that a stranger steers.
 */
import * as TextSearch from "../internal/textSearch.ts"
import { handlesIn } from "./Handles.ts"
import { hasWord, linkOf, textOf } from "./Normalised.ts"

/** Where a text comes from. */
export interface Source {
  /** The tool; empty for text that the user pasted. */
  readonly tool: string
  /** The call; empty for text that the user pasted. */
  readonly callId: string
  /** Where in the output. */
  readonly path: string
}

/** The foreign texts of a conversation. */
export class ForeignTexts {
  private texts: Array<{ readonly source: Source; readonly text: string }> = []
  private first = 0
  private size = 0
  private isIncomplete = false
  private readonly peerLinks = new Set<string>()

  private readonly most: number

  constructor(most: number) {
    this.most = most
  }

  /** Adds a text; the oldest are evicted when they are too many. */
  add(source: Omit<Source, "path">, path: string, raw: string): void {
    if (raw.length > this.most) this.isIncomplete = true
    const text = textOf(raw.slice(0, this.most))
    if (text === "") return
    this.texts.push({ source: { ...source, path }, text })
    this.size += text.length
    while (this.size > this.most && this.first < this.texts.length - 1) {
      this.size -= this.texts[this.first++]!.text.length
      this.isIncomplete = true
    }
    if (this.first > 1_000 && this.first * 2 > this.texts.length) {
      this.texts = this.texts.slice(this.first)
      this.first = 0
    }
  }

  /** Adds a text by a member whom the host vouches for. */
  addPeer(source: Omit<Source, "path">, path: string, raw: string): void {
    this.add(source, path, raw)
    if (this.peerLinks.size < 10_000) { for (const handle of handlesIn(textOf(raw))) this.peerLinks.add(handle) }
  }

  /** Text was lost: from now on, a value that is not proved may be a stranger's. */
  forget(): void {
    this.isIncomplete = true
  }

  /** Tells whether a member wrote exactly this link. */
  hasPeerLink(link: string): boolean {
    return this.peerLinks.has(link) && !link.includes("@")
  }

  /** Tells whether a stranger may have written the value. */
  has(value: string): boolean {
    return this.isIncomplete || this.search(value, 1).length > 0
  }

  /** The texts that have a value, oldest first, at most three. */
  sourcesOf(value: string): ReadonlyArray<Source> {
    return this.search(value, 3)
  }

  private search(raw: string, most: number): ReadonlyArray<Source> {
    const value = linkOf(textOf(raw))
    const found: Array<Source> = []
    if (value === "") return found
    for (let i = this.first; i < this.texts.length && found.length < most; i++) {
      const { source, text } = this.texts[i]!
      if (occurs(text, value)) found.push(source)
    }
    return found
  }
}

/** Short values have to be whole words, unless that takes too long to tell. */
const occurs = (text: string, value: string): boolean =>
  value.length > 5 ? TextSearch.indexIn(text, value) !== -1 : hasWord(text, value) ?? true
