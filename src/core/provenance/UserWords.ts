/**
 * What the user said in a conversation, indexed so that a look-up does not depend on how much it was.
 */
import { handlesIn } from "./Handles.ts"
import { linkOf, numberOf, sentencesOf, textOf, type Token, tokensOf, valueOf } from "./Normalised.ts"

/** The user's words, in the order in which they came. */
export class UserWords {
  /** Characters of the messages that are kept. */
  size = 0
  private messages: ReadonlyArray<Message> = []

  private readonly most: number

  constructor(most: number) {
    this.most = most
  }

  /** Adds a message; the oldest messages are forgotten when they are too many. Gives the index of the new one. */
  add(text: string): (value: string) => boolean {
    const message = new Message(text.slice(0, this.most))
    this.messages = [...this.messages, message]
    this.size += message.size
    while (this.size > this.most && this.messages.length > 1) {
      this.size -= this.messages[0]!.size
      this.messages = this.messages.slice(1)
    }
    return (value) => message.says(value)
  }

  /** Tells whether the user said this, at the edges of tokens. */
  says(value: string): boolean {
    return this.messages.some((it) => it.says(value))
  }

  /** Tells whether the user wrote this handle, in the form that `handlesOf` gives. */
  hasHandle(handle: string): boolean {
    return this.messages.some((it) => it.handles.has(handle))
  }

  /** Tells whether the user said this number. */
  hasNumber(value: string): boolean {
    return this.messages.some((it) => it.numbers.has(value))
  }

  /** Tells whether the user called this number an id, or a sum of money. */
  hasMarked(value: string): boolean {
    return this.messages.some((it) => it.marked.has(value))
  }

  /** Tells whether each of these tokens occurs somewhere. */
  hasAll(tokens: ReadonlyArray<string>): boolean {
    return tokens.every((token) => this.messages.some((it) => it.hasToken(token)))
  }
}

class Message {
  readonly size: number
  readonly handles = new Set<string>()
  readonly numbers = new Set<string>()
  readonly marked = new Set<string>()
  private readonly readings: ReadonlyArray<Reading>

  constructor(text: string) {
    const split = sentencesOf(text)
    const texts = new Set([textOf(text), textOf(split), valueOf(text)])
    this.size = text.length
    this.readings = Array.from(texts, (it) => new Reading(it))
    for (const reading of this.readings) {
      for (const handle of handlesIn(reading.text)) this.handles.add(handle)
      reading.tokens.forEach((token, index) => this.number(reading, token, reading.tokens[index - 1]))
    }
  }

  says(value: string): boolean {
    return this.handles.has(linkOf(value)) || this.readings.some((it) => it.has(value))
  }

  hasToken(token: string): boolean {
    return this.readings.some((it) => it.hasToken(token))
  }

  private number({ text }: Reading, token: Token, previous: Token | undefined): void {
    const value = numberOf(token.text)
    if (value === undefined) return
    const isNegative = text[token.start - 1] === "-"
    this.numbers.add(isNegative ? String(-Number(value)) : value)
    const before = text.slice(Math.max(0, token.start - 1), token.start)
    const after = text.slice(token.end, token.end + 1)
    const isId = before === "#" ||
      (previous !== undefined && /(?:^|[-_])ids?$/.test(previous.text) &&
        /^[\s:='"#]{0,4}$/.test(text.slice(previous.end, token.start)))
    if (isId || /[$€£¥]/.test(before + after)) this.marked.add(value)
  }
}

/** A message in one form, by its tokens. */
class Reading {
  readonly tokens: ReadonlyArray<Token>
  private readonly starts = new Map<string, Array<number>>()
  private readonly ends = new Set<number>()

  readonly text: string

  constructor(text: string) {
    this.text = text
    this.tokens = tokensOf(text)
    for (const { end, start, text } of this.tokens) {
      const known = this.starts.get(text)
      if (known === undefined) this.starts.set(text, [start])
      else known.push(start)
      this.ends.add(end)
    }
  }

  hasToken(token: string): boolean {
    return this.starts.has(token)
  }

  has(value: string): boolean {
    const tokens = tokensOf(value)
    const first = tokens[0]
    if (first === undefined) return false
    let rarest: { readonly at: ReadonlyArray<number>; readonly offset: number } | undefined
    for (const token of tokens) {
      const at = this.starts.get(token.text)
      if (at === undefined) return false
      if (rarest === undefined || at.length < rarest.at.length) rarest = { at, offset: token.start }
    }
    const last = tokens[tokens.length - 1]!
    return rarest!.at.some((position) => {
      const start = position - rarest!.offset
      return start >= 0 && this.text.startsWith(value, start) && this.ends.has(start + last.end)
    })
  }
}
