/**
 * Regular expressions of JSON Schema, matched in time that grows no faster than the text. The engine of JavaScript goes
 * back and tries again, for hours over thirty characters if a pattern wants it; here all ways are followed side by
 * side. What one character may be is still asked of JavaScript, so that a pattern means the same.
 */
import * as Result from "effect/Result"

/** A pattern that is ready to be matched. */
export interface Linear {
  /** Tells whether the pattern occurs in a text; `spend` gets the work step by step, and may throw. */
  readonly test: (text: string, spend?: (steps: number) => void) => boolean
  /** About how many states it has: what it takes to make it, and how many steps a character takes at most. */
  readonly size: number
}

/**
 * Compiles a pattern; `undefined` if it is invalid or cannot be matched in linear time (look-around, back references,
 * very many repetitions).
 */
export const linearPattern = (source: string): Linear | undefined => {
  if (propertiesIn(source) * propertySize > maxSize) return undefined
  const isUnicode = Result.isSuccess(Result.try(() => new RegExp(source, "u")))
  const parsed = Result.try(() => {
    nativePattern(source)
    return new Parser(source, isUnicode).parse()
  })
  if (Result.isFailure(parsed)) return undefined
  const program: Array<Instruction> = []
  write(parsed.success, program)
  program.push({ _tag: "Match" })
  return {
    test: (text, spend) => matches(program, text, isUnicode, spend ?? (() => undefined)),
    size: sizeOf(parsed.success)
  }
}

/** Compiles a pattern for JavaScript; the older syntax, which takes `[\w-.]`, will do. Throws if it is not a pattern. */
export const nativePattern = (source: string): RegExp =>
  Result.getOrElse(Result.try(() => new RegExp(source, "u")), () => new RegExp(source))

/** So many states at most. */
const maxSize = 5_000

/** So often may a part be repeated, and so deep may groups be. */
const maxRepeats = 1_000
const maxDepth = 100

/** What it takes to make a set of characters, as large as some are, in states. */
const classSize = 10

/** What it takes besides for each property of characters (`\p{…}`). */
const propertySize = 50

const propertiesIn = (source: string): number => source.split(/\\p/i).length - 1

type Place = "start" | "end" | "edge" | "inside"

type Part =
  | { readonly _tag: "Char"; readonly is: (code: number) => boolean; readonly size: number }
  | { readonly _tag: "Place"; readonly place: Place }
  | { readonly _tag: "Sequence"; readonly parts: ReadonlyArray<Part> }
  | { readonly _tag: "Either"; readonly parts: ReadonlyArray<Part> }
  | { readonly _tag: "Repeat"; readonly part: Part; readonly least: number; readonly most: number }

type Instruction =
  | Extract<Part, { readonly _tag: "Char" | "Place" }>
  | { readonly _tag: "Fork"; readonly to: Array<number> }
  | { readonly _tag: "Match" }

class NotLinear extends Error {}

const character = {
  unicode:
    /\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[a-zA-Z]|.)|\[(?:\\.|[^\]\\])*\]|./suy,
  legacy: /\\(?:u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[a-zA-Z]|.)|\[(?:\\.|[^\]\\])*\]|./sy
}

/** Parses a valid JavaScript pattern, so the only possible failure is that it is not linear. */
class Parser {
  private at = 0
  private depth = 0
  private chars = 0
  private readonly known = new Map<string, Extract<Part, { readonly _tag: "Char" }>>()
  private readonly source: string
  private readonly isUnicode: boolean

  constructor(source: string, isUnicode: boolean) {
    this.source = source
    this.isUnicode = isUnicode
  }

  parse(): Part {
    const part = this.either()
    if (this.at < this.source.length) throw new NotLinear()
    if (sizeOf(part) > maxSize) throw new NotLinear()
    return part
  }

  private take(text: string): boolean {
    if (!this.source.startsWith(text, this.at)) return false
    this.at += text.length
    return true
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.source)
    if (found !== null) this.at += found[0].length
    return found
  }

  private either(): Part {
    const parts: Array<Part> = []
    do parts.push(this.sequence())
    while (this.take("|"))
    return parts.length === 1 ? parts[0]! : { _tag: "Either", parts }
  }

  private sequence(): Part {
    const parts: Array<Part> = []
    while (this.at < this.source.length && !/[|)]/.test(this.source[this.at]!)) parts.push(this.repeated(this.one()))
    return parts.length === 1 ? parts[0]! : { _tag: "Sequence", parts }
  }

  private repeated(part: Part): Part {
    const found = this.match(/(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})\??/y)
    if (found === null) return part
    const [, sign, from, isRange, to] = found
    const least = sign === undefined ? Number(from) : sign === "+" ? 1 : 0
    const most = sign === "?"
      ? 1
      : sign !== undefined || (isRange !== undefined && to === "")
      ? Infinity
      : Number(to ?? from)
    if (least > maxRepeats || (most !== Infinity && most > maxRepeats)) throw new NotLinear()
    return { _tag: "Repeat", part, least, most }
  }

  private char(token: string): Part {
    // a longer one is given up before it is read to its end
    if (++this.chars > maxSize) throw new NotLinear()
    const known = this.known.get(token)
    if (known !== undefined) return { ...known, size: 1 }
    const char = { _tag: "Char", is: charOf(token, this.isUnicode), size: sizeOfToken(token) } as const
    this.known.set(token, char)
    return char
  }

  private one(): Part {
    if (this.match(/\((?:\?:|\?<(?![=!])[^>]*>|(?!\?))/y) !== null) {
      if (++this.depth > maxDepth) throw new NotLinear()
      const part = this.either()
      this.depth--
      if (!this.take(")")) throw new NotLinear()
      return part
    }
    if (this.take("^")) return { _tag: "Place", place: "start" }
    if (this.take("$")) return { _tag: "Place", place: "end" }
    if (this.take("\\b")) return { _tag: "Place", place: "edge" }
    if (this.take("\\B")) return { _tag: "Place", place: "inside" }
    // look-around and flags; back references, and what older engines take for octal numbers
    if (this.match(/\(|\\[1-9k]|\\0\d|\\c(?![a-zA-Z])/y) !== null) throw new NotLinear()
    const found = this.match(this.isUnicode ? character.unicode : character.legacy)
    if (found === null) throw new NotLinear()
    return this.char(found[0])
  }
}

/** Tells whether a character is what a part of a pattern stands for; of those below 128 it is asked once. */
const charOf = (token: string, isUnicode: boolean): (code: number) => boolean => {
  const only = /^[^\\[.]$/su.test(token) ? token.codePointAt(0) : undefined
  if (only !== undefined) return (code) => code === only
  const native = new RegExp(`^(?:${token})$`, isUnicode ? "u" : "")
  const known = new Uint8Array(128)
  return (code) => {
    if (code >= 128) return native.test(String.fromCodePoint(code))
    if (known[code] === 0) known[code] = native.test(String.fromCodePoint(code)) ? 1 : 2
    return known[code] === 1
  }
}

const sizeOfToken = (token: string): number => token.length === 1 ? 1 : classSize + propertySize * propertiesIn(token)

/** How many instructions a part becomes. */
const sizeOf = (part: Part): number => {
  switch (part._tag) {
    case "Char":
      return part.size
    case "Place":
      return 1
    case "Sequence":
      return part.parts.reduce((sum, it) => sum + sizeOf(it), 0)
    case "Either":
      return part.parts.reduce((sum, it) => sum + sizeOf(it) + 1, 1)
    case "Repeat": {
      const { least, most } = part
      return (sizeOf(part.part) + 1) * Math.max(1, most === Infinity ? least + 1 : most)
    }
  }
}

const write = (part: Part, program: Array<Instruction>): void => {
  switch (part._tag) {
    case "Char":
    case "Place":
      program.push(part)
      return
    case "Sequence":
      for (const it of part.parts) write(it, program)
      return
    case "Either": {
      const fork = forkIn(program)
      const ends: Array<Fork> = []
      for (const it of part.parts) {
        fork.to.push(program.length)
        write(it, program)
        ends.push(forkIn(program))
      }
      for (const end of ends) end.to.push(program.length)
      return
    }
    case "Repeat": {
      const { least, most } = part
      for (let n = 0; n < least; n++) write(part.part, program)
      if (most === Infinity) {
        const start = program.length
        const fork = forkIn(program)
        write(part.part, program)
        forkIn(program).to.push(start)
        fork.to.push(start + 1, program.length)
        return
      }
      const forks: Array<Fork> = []
      for (let n = least; n < most; n++) {
        const fork = forkIn(program)
        fork.to.push(program.length)
        forks.push(fork)
        write(part.part, program)
      }
      for (const fork of forks) fork.to.push(program.length)
    }
  }
}

type Fork = Extract<Instruction, { readonly _tag: "Fork" }>

const forkIn = (program: Array<Instruction>): Fork => {
  const fork: Fork = { _tag: "Fork", to: [] }
  program.push(fork)
  return fork
}

const isWord = (code: number): boolean =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 95

const matches = (
  program: ReadonlyArray<Instruction>,
  text: string,
  isUnicode: boolean,
  spend: (steps: number) => void
): boolean => {
  const [first] = program
  spend(program.length >> 4)
  const isAnchored = first?._tag === "Place" && first.place === "start"
  const codeAt = (at: number): number =>
    at >= text.length ? -1 : isUnicode ? text.codePointAt(at)! : text.charCodeAt(at)
  // which states were reached at a place, by the number of that place
  const reached = new Int32Array(program.length).fill(-1)
  const open: Array<number> = []
  let before = -1
  for (let at = 0;;) {
    const code = codeAt(at)
    const isEdge = isWord(before) !== isWord(code)
    if (at === 0 || !isAnchored) open.push(0)
    const states: Array<number> = []
    let steps = 1
    for (let state = open.pop(); state !== undefined; state = open.pop()) {
      if (reached[state] === at) continue
      reached[state] = at
      steps++
      const it = program[state]!
      if (it._tag === "Match") return true
      if (it._tag === "Char") states.push(state)
      else if (it._tag === "Fork") open.push(...it.to)
      else if (
        it.place === "start" ? at === 0 : it.place === "end" ? code === -1 : isEdge === (it.place === "edge")
      ) open.push(state + 1)
    }
    spend(steps)
    if (code === -1 || (isAnchored && states.length === 0)) return false
    for (const state of states) {
      const it = program[state]!
      if (it._tag === "Char" && it.is(code)) open.push(state + 1)
    }
    before = code
    at += code > 0xffff ? 2 : 1
  }
}
