/**
 * Reads the options that code gives: plain values come out, and everything that is wrong is collected with its place.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"

interface Problem {
  readonly path: string
  readonly problem: string
  readonly expected: string
}

/** Reads options one by one; a wrong one reads as something, and `problems` says what was wrong. */
export class OptionReader {
  readonly problems: Array<Problem> = []

  /** Reports the keys of an options object that are no options, each with the nearest one. */
  known(at: string, options: object, names: object): void {
    const all = Object.keys(names)
    for (const key of Object.keys(options).filter((it) => !Object.hasOwn(names, it))) {
      const near = all.find((it) => isNear(it, key))
      this.problems.push({
        path: at === "" ? key : `${at}.${key}`,
        problem: near === undefined ? "there is no such option" : `there is no such option; did you mean "${near}"?`,
        expected: `one of ${all.join(", ")}`
      })
    }
  }

  /** Milliseconds of a duration above zero; with `isZeroAllowed`, of one that may be none at all. */
  millis(path: string, input: Duration.Input, isZeroAllowed = false): number {
    const millis = millisOf(input)
    if (millis > 0 || (isZeroAllowed && millis === 0)) return millis
    this.wrong(
      path,
      input,
      isZeroAllowed ? `a duration, ${example}, or 0 for none` : `a duration above zero, ${example}`
    )
    return 0
  }

  /** Milliseconds of a duration that may be none at all, or `"unlimited"`, which is `Infinity`. */
  wait(path: string, input: Duration.Input | "unlimited"): number {
    if (input === "unlimited") return Infinity
    const millis = millisOf(input)
    if (millis >= 0) return millis
    this.wrong(path, input, `a duration, ${example}, or "unlimited"`)
    return 0
  }

  /** A number that is not below the least; `Infinity` is one. */
  atLeast(path: string, value: number, least: number): number {
    if (!(typeof value === "number" && value >= least)) this.wrong(path, value, `${least} or more`)
    return value
  }

  /** A whole number from the least on, up to the most. */
  count(path: string, value: number, least: number, most = Infinity): number {
    if (!(Number.isInteger(value) && value >= least && value <= most)) {
      this.wrong(
        path,
        value,
        `a whole number ${most === Infinity ? `of ${least} or more` : `from ${least} to ${most}`}`
      )
    }
    return value
  }

  /** A share, from 0 to 1. */
  share(path: string, value: number): number {
    if (!(typeof value === "number" && value >= 0 && value <= 1)) this.wrong(path, value, "a number from 0 to 1")
    return value
  }

  /** A number that is not below the least, or `"unbounded"`, which is `Infinity`. */
  bound(path: string, value: number | "unbounded", least: number): number {
    if (value === "unbounded") return Infinity
    if (!(typeof value === "number" && value >= least)) this.wrong(path, value, `${least} or more, or "unbounded"`)
    return value
  }

  /** One of a few values. */
  oneOf<A>(path: string, value: A, values: ReadonlyArray<A>): A {
    if (!values.includes(value)) this.wrong(path, value, `one of ${values.join(", ")}`)
    return value
  }

  /** True or false. */
  flag(path: string, value: boolean): boolean {
    return this.oneOf(path, value, [true, false])
  }

  /** A text that is not empty. */
  text(path: string, value: string): string {
    if (typeof value !== "string" || value === "") this.wrong(path, value, "a text that is not empty")
    return value
  }

  private wrong(path: string, value: unknown, expected: string): void {
    this.problems.push({ path, problem: `it is ${shown(value)}`, expected })
  }
}

/** A value as a person may have written it, on one short line. */
export const shown = (value: unknown): string => {
  // JSON has no word for these, and throws at the last
  if (typeof value === "number") return String(value)
  if (typeof value === "bigint") return `${value}n`
  const text = JSON.stringify(value) ?? "undefined"
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}

/** Whether two names differ by one typo: a letter too many, missing, different or swapped, or the case. */
const isNear = (one: string, other: string): boolean => {
  const [a, b] = [one.toLowerCase(), other.toLowerCase()]
  if (a === b) return true
  let start = 0
  while (start < a.length && a[start] === b[start]) start++
  let end = 0
  while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end++
  const [left, right] = [a.slice(start, a.length - end), b.slice(start, b.length - end)]
  return Math.max(left.length, right.length) <= 1 ||
    (left.length === 2 && left === Array.from(right).reverse().join(""))
}

const example = "such as \"30 seconds\""

/** Negative if it is not a duration. */
const millisOf = (input: Duration.Input): number =>
  Option.match(isNotANumber(input) ? Option.none() : Duration.fromInput(input), {
    onNone: () => -1,
    onSome: Duration.toMillis
  })

/** `Duration` takes it for no time at all. */
const isNotANumber = (input: unknown): boolean =>
  Number.isNaN(input) || (typeof input === "object" && input !== null && Object.values(input).some(Number.isNaN))
