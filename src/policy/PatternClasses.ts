/**
 * Which texts a set of wildcard patterns can tell apart, with an example of each class.
 *
 * Patterns stand in chains: of a chain only the first pattern that matches a text counts, as in a policy. Two texts are
 * of one class if the same pattern comes first in every chain. The classes are found by walking all patterns at the
 * same time, letter by letter, as the state machines that they are; no text outside the classes exists. Pure.
 */
import * as Result from "effect/Result"
import { matches } from "../internal/wildcard.ts"

/** Texts that the chains cannot tell apart. */
export interface TextClass {
  /** For each chain the index of the first pattern that matches; -1 if none does. */
  readonly firsts: ReadonlyArray<number>
  /** A short text of the class. */
  readonly text: string
}

/** Limit of the states that are walked. */
export const mostStates = 20_000

/**
 * Gives every class that has a text, each once. Fails with a reason if the patterns overlap in too many ways to be
 * walked.
 */
export const classesOf = (
  chains: ReadonlyArray<ReadonlyArray<string>>,
  limit: number = mostStates
): Result.Result<ReadonlyArray<TextClass>, string> => {
  const patterns = Array.from(new Set(chains.flat()))
  const found = new Map<string, TextClass>()
  const note = (firsts: ReadonlyArray<number>, text: string): void => {
    const key = firsts.join(",")
    if (!found.has(key)) found.set(key, { firsts, text })
  }
  for (const text of readable(patterns)) note(firstsOf(chains, text), text)
  const walk = walkOf(chains, patterns)
  const start = walk.prune(patterns.map((it) => closed(Array.from(it), [0])), chains.map((it) => it.length))
  const queue: Array<readonly [state: State, text: string]> = [[start, ""]]
  const seen = new Set([keyOf(start)])
  for (let at = 0; at < queue.length; at++) {
    const [state, text] = queue[at]!
    note(walk.firsts(state), text)
    for (const char of walk.letters(state)) {
      const next = walk.step(state, char)
      const key = keyOf(next)
      if (seen.has(key)) continue
      if (seen.size >= limit) {
        return Result.fail(`${patterns.length} patterns overlap in more than ${limit} ways`)
      }
      seen.add(key)
      queue.push([next, text + char])
    }
  }
  return Result.succeed(Array.from(found.values()))
}

/** How far each pattern has got, and the first pattern of each chain that matches whatever comes. */
interface State {
  /** Places that a pattern may have reached; `undefined` if it cannot match, or does not count any more. */
  readonly reached: ReadonlyArray<ReadonlyArray<number> | undefined>
  readonly settled: ReadonlyArray<number>
}

const keyOf = ({ reached, settled }: State): string =>
  `${settled.join(",")}|${reached.map((it) => it === undefined ? "" : it.join(".")).join(",")}`

const firstsOf = (chains: ReadonlyArray<ReadonlyArray<string>>, text: string): ReadonlyArray<number> =>
  chains.map((chain) => chain.findIndex((it) => matches(it, text)))

const walkOf = (chains: ReadonlyArray<ReadonlyArray<string>>, patterns: ReadonlyArray<string>) => {
  const letters = patterns.map((it) => Array.from(it))
  const numbers = chains.map((chain) => chain.map((it) => patterns.indexOf(it)))
  const isFinal = (pattern: number, reached: State["reached"][number]): boolean =>
    reached?.includes(letters[pattern]!.length) === true
  /** A star at the end matches whatever comes. */
  const isForGood = (pattern: number, reached: State["reached"][number]): boolean =>
    letters[pattern]!.at(-1) === "*" && isFinal(pattern, reached)
  const prune = (reached: State["reached"], before: ReadonlyArray<number>): State => {
    const settled = numbers.map((chain, index) => {
      const at = chain.findIndex((pattern, place) => place < before[index]! && isForGood(pattern, reached[pattern]))
      return at === -1 ? before[index]! : at
    })
    const counts = (pattern: number) =>
      numbers.some((chain, index) => {
        const place = chain.indexOf(pattern)
        return place !== -1 && place < settled[index]!
      })
    return { settled, reached: reached.map((it, pattern) => it !== undefined && counts(pattern) ? it : undefined) }
  }
  return {
    prune,
    step: ({ reached, settled }: State, char: string): State =>
      prune(reached.map((it, pattern) => it === undefined ? undefined : stepped(letters[pattern]!, it, char)), settled),
    firsts: ({ reached, settled }: State): ReadonlyArray<number> =>
      numbers.map((chain, index) => {
        const at = chain.findIndex((pattern) => isFinal(pattern, reached[pattern]))
        const end = settled[index]!
        return at === -1 || end < at ? (end < chain.length ? end : -1) : at
      }),
    /** Letters that lead to different states: those that a pattern wants next, and one that none wants. */
    letters: ({ reached }: State): ReadonlyArray<string> => {
      const wanted = new Set<string>()
      reached.forEach((places, pattern) => {
        for (const place of places ?? []) {
          const letter = letters[pattern]![place]
          if (letter !== undefined && letter !== "*" && letter !== "?") wanted.add(letter)
        }
      })
      return [...wanted, otherThan(wanted)]
    }
  }
}

const stepped = (
  pattern: ReadonlyArray<string>,
  reached: ReadonlyArray<number>,
  char: string
): ReadonlyArray<number> | undefined => {
  const next = reached.flatMap((place) => {
    const letter = pattern[place]
    return letter === "*" ? [place] : letter === "?" || letter === char ? [place + 1] : []
  })
  return next.length === 0 ? undefined : closed(pattern, next)
}

/** Adds the places behind stars, and leaves out those before the last star: from there everything else matches too. */
const closed = (pattern: ReadonlyArray<string>, places: ReadonlyArray<number>): ReadonlyArray<number> => {
  const all = new Set(places)
  for (const place of all) if (pattern[place] === "*") all.add(place + 1)
  const star = Math.max(-1, ...Array.from(all).filter((it) => pattern[it] === "*"))
  return Array.from(all).filter((it) => it >= star).sort((a, b) => a - b)
}

const otherThan = (taken: ReadonlySet<string>): string => {
  for (const char of "xyzabcdefghijklmnopqrstuvw0123456789") if (!taken.has(char)) return char
  let code = 0x4e00
  while (taken.has(String.fromCodePoint(code))) code++
  return String.fromCodePoint(code)
}

/** Texts that people read well: patterns with something for their wildcards, and nothing where that ends a word. */
const readable = (patterns: ReadonlyArray<string>): ReadonlyArray<string> =>
  ["example", "a", ""].flatMap((word) => [
    word,
    ...patterns.map((it) =>
      it.replaceAll(/(?<=[a-z\d])\*|\*(?=[a-z\d])/gi, word === "example" ? "" : word).replaceAll("*", word).replaceAll(
        "?",
        "x"
      )
    )
  ]).filter((it) => it !== "")
