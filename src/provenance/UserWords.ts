/**
 * What the user said in a conversation, indexed so that a look-up does not depend on how much it was.
 */
import { handlesIn } from "./Handles.ts"
import { linkOf, mostPlaces, numberOf, sentencesOf, textOf, type Token, tokensOf, valueOf } from "./Normalised.ts"

/** The user's words, in the order in which they came. */
export class UserWords {
  private readonly most: number
  private messages: Array<Message> = []
  private size = 0
  /** Where tokens stand in all messages that are kept. */
  private readonly places = new Map<string, Places>()
  private readonly handles = new Counted()
  private readonly numbers = new Counted()
  private readonly marked = new Counted()

  constructor(most: number) {
    this.most = most
  }

  /** Adds a message; the oldest messages are forgotten when they are too many. Gives a look-up in the new one. */
  add(raw: string): (value: string) => boolean {
    const text = raw.length <= this.most ? raw : whole(raw, this.most)
    const message = messageOf(text)
    this.messages.push(message)
    this.size += text.length
    this.index(message)
    while (this.size > this.most && this.messages.length > 1) this.forget(this.messages.shift()!)
    return (value) => message.handles.has(linkOf(value)) || this.finds(value, message)
  }

  /** Tells whether the user said this, at the edges of tokens. */
  says(value: string): boolean {
    return this.handles.has(linkOf(value)) || this.finds(value, undefined)
  }

  /** Tells whether the user wrote this handle, in the form that `handlesOf` gives. */
  hasHandle(handle: string): boolean {
    return this.handles.has(handle)
  }

  /** Tells whether the user said this number. */
  hasNumber(value: string): boolean {
    return this.numbers.has(value)
  }

  /** Tells whether the user called this number an id, or a sum of money. */
  hasMarked(value: string): boolean {
    return this.marked.has(value)
  }

  /** Tells whether each of these tokens occurs somewhere. */
  hasAll(tokens: ReadonlyArray<string>): boolean {
    return tokens.every((token) => this.places.has(token))
  }

  private finds(value: string, within: Message | undefined): boolean {
    const tokens = tokensOf(value)
    const [first, last] = [tokens[0], tokens.at(-1)]
    if (first === undefined || last === undefined) return false
    let rarest: Places | undefined
    let offset = 0
    for (const token of tokens) {
      const found = this.places.get(token.text)
      if (found === undefined) return false
      if (rarest !== undefined && found.count >= rarest.count) continue
      rarest = found
      offset = token.start
    }
    let looked = 0
    for (const reading of within?.readings ?? rarest!.of.keys()) {
      for (const place of rarest!.of.get(reading) ?? []) {
        const start = place - offset
        if (
          start >= 0 && reading.text.startsWith(value, start) &&
          reading.starts.has(start + first.start) && reading.ends.has(start + last.end)
        ) return true
        // what stands nowhere but among so many repetitions is not proved
        if (++looked === mostPlaces) return false
      }
    }
    return false
  }

  private index(message: Message): void {
    for (const reading of message.readings) {
      for (const { start, text } of reading.tokens) {
        let known = this.places.get(text)
        if (known === undefined) this.places.set(text, known = { count: 0, of: new Map() })
        known.count++
        const here = known.of.get(reading)
        if (here === undefined) known.of.set(reading, [start])
        else here.push(start)
      }
    }
    this.handles.add(message.handles)
    this.numbers.add(message.numbers)
    this.marked.add(message.marked)
  }

  private forget(message: Message): void {
    this.size -= message.size
    for (const reading of message.readings) {
      for (const { text } of reading.tokens) {
        const known = this.places.get(text)
        if (known === undefined) continue
        known.count -= known.of.get(reading)?.length ?? 0
        known.of.delete(reading)
        if (known.count === 0) this.places.delete(text)
      }
    }
    this.handles.remove(message.handles)
    this.numbers.remove(message.numbers)
    this.marked.remove(message.marked)
  }
}

/** The beginning of a text that is too long. A word is never cut: a part of an address is another address. */
const whole = (text: string, most: number): string =>
  text.slice(0, Math.max(0, text.slice(0, most + 1).search(/\s\S*$/)))

/** A message in one form, by its tokens. */
interface Reading {
  readonly message: Message
  readonly text: string
  readonly tokens: ReadonlyArray<Token>
  readonly starts: ReadonlySet<number>
  readonly ends: ReadonlySet<number>
}

/** Where a token stands. */
interface Places {
  count: number
  readonly of: Map<Reading, Array<number>>
}

interface Message {
  readonly size: number
  readonly readings: Array<Reading>
  readonly handles: Set<string>
  readonly numbers: Set<string>
  readonly marked: Set<string>
}

const messageOf = (text: string): Message => {
  const message: Message = {
    size: text.length,
    readings: [],
    handles: new Set(),
    numbers: new Set(),
    marked: new Set()
  }
  for (const form of new Set([textOf(text), textOf(sentencesOf(text)), valueOf(text)])) {
    const tokens = tokensOf(form)
    message.readings.push({
      message,
      text: form,
      tokens,
      starts: new Set(tokens.map(({ start }) => start)),
      ends: new Set(tokens.map(({ end }) => end))
    })
    for (const handle of handlesIn(form)) message.handles.add(handle)
    for (const [index, token] of tokens.entries()) noteNumber(message, form, token, tokens[index - 1])
  }
  return message
}

const noteNumber = (
  { marked, numbers }: Message,
  text: string,
  token: Token,
  previous: Token | undefined
): void => {
  const code = token.text.charCodeAt(0)
  const value = (code >= 48 && code <= 57) || code === 45 ? numberOf(token.text) : undefined
  if (value === undefined) return
  const before = text.slice(Math.max(0, token.start - 1), token.start)
  numbers.add(before === "-" ? String(-Number(value)) : value)
  const isId = before === "#" ||
    (previous !== undefined && /(?:^|[-_])ids?$/.test(previous.text) &&
      /^[\s:='"#]{0,4}$/.test(text.slice(previous.end, token.start)))
  if (isId || /[$€£¥]/.test(before + text.slice(token.end, token.end + 1))) marked.add(value)
}

/** Texts, with how many messages have each. */
class Counted {
  private readonly counts = new Map<string, number>()

  has(text: string): boolean {
    return this.counts.has(text)
  }

  add(texts: Iterable<string>): void {
    for (const text of texts) this.counts.set(text, (this.counts.get(text) ?? 0) + 1)
  }

  remove(texts: Iterable<string>): void {
    for (const text of texts) {
      const left = (this.counts.get(text) ?? 0) - 1
      if (left > 0) this.counts.set(text, left)
      else this.counts.delete(text)
    }
  }
}
