/** What is wrong with a value, in words for a model: few of them, each with what would be right. */
import { clip } from "../clip.ts"
import type { Failure, Path } from "./check.ts"

/** A value in a message: a text short, an object by its kind. */
export const shown = (value: unknown): string => {
  if (typeof value === "string") return JSON.stringify(clip(value, 100))
  if (Array.isArray(value)) return "an array"
  return typeof value === "object" && value !== null ? "an object" : String(value)
}

/** Values that a schema lists. */
export const literals = (values: ReadonlyArray<unknown>): ReadonlyArray<string> => {
  const texts = values.slice(0, 20).map((value) => clip(JSON.stringify(value) ?? "undefined", 100))
  return values.length > texts.length ? [...texts, "…"] : texts
}

/** One of a few was expected. */
export const orElse = (expected: ReadonlyArray<string>, value: unknown): string =>
  `must be ${clip(Array.from(new Set(expected)).join(" or "), 300)}, got ${shown(value)}`

/** The names of properties that may be there. */
export const knownIn = (properties: unknown): string =>
  clip(Object.keys(Object(properties)).slice(0, 100).map((it) => shown(it)).join(", "), 300)

/** Says that a property may not be there, and which may. */
export const notAllowed = (name: string, known: string): string =>
  `property ${shown(name)} is not allowed${known === "" ? "" : `; the known ones are ${known}`}`

/** Says why no alternative fits: in short where that is short, else what is wrong with the closest. */
export const noneOf = (
  at: Path | undefined,
  value: unknown,
  alternatives: ReadonlyArray<ReadonlyArray<Failure>>
): ReadonlyArray<Failure> => {
  const told = alternatives.filter((it) => it.length > 0)
  if (told.every((it) => it.length === 1 && it[0]!.at === at)) {
    const each = told.map((it) => it[0]!)
    const expected = each.flatMap((it) => it.expected ?? [])
    return each.every((it) => it.expected !== undefined)
      ? [{ at, message: orElse(expected, value), expected }]
      : [{ at, message: Array.from(new Set(each.map((it) => it.message))).slice(0, 10).join(", or ") }]
  }
  const distance = (failures: ReadonlyArray<Failure>) =>
    failures.reduce((sum, it) => sum + (it.expected === undefined ? 1 : it.at === at ? 100 : 10), 0)
  const closest = told.reduce((best, failures) => distance(failures) < distance(best) ? failures : best)
  const message =
    `must match one of ${alternatives.length} alternatives but matches none of them; this is what is wrong with the closest:`
  return [{ at, message }, ...closest]
}
