/**
 * What a running example finds around it: the sources under their published
 * names, and the check behind `// =>`.
 */
import { writeSync } from "node:fs"
import { inspect, isDeepStrictEqual } from "node:util"
import "./source-resolver.ts"

const failures: Array<string> = []
const open = new Set((process.env["DOCTEST_CHECKS"] ?? "").split("\n").filter((it) => it !== ""))

const text = (value: unknown): string =>
  inspect(value, { depth: 20, breakLength: Number.POSITIVE_INFINITY, compact: true, maxArrayLength: 1000 })

const json = (value: unknown): string | undefined => {
  // A map or a set has no JSON of its own: all of them would be equal.
  if (value instanceof Map || value instanceof Set) return undefined
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}

/** Compares with the written value: as a value, as what `inspect` prints, or as JSON. */
const equals = (actual: unknown, written: string, read: (() => unknown) | undefined): boolean => {
  if (text(actual) === written || json(actual) === written || (typeof actual === "string" && actual === written)) {
    return true
  }
  let expected: unknown
  try {
    if (read === undefined) return false
    expected = read()
  } catch {
    return false
  }
  if (isDeepStrictEqual(actual, expected) || text(actual) === text(expected)) return true
  // A class instance is written as the plain object it looks like.
  return typeof actual === "object" && actual !== null && typeof expected === "object" && expected !== null &&
    json(expected) !== undefined && json(actual) === json(expected)
}

const check = <A>(actual: A, where: string, written: string, read?: () => unknown): A => {
  open.delete(where)
  if (!equals(actual, written, read)) failures.push(`${where}: expected ${written}, got ${text(actual)}`)
  return actual
}

Object.assign(globalThis, { __doctest: check })

process.on("exit", (code) => {
  if (code === 0) { for (const where of open) failures.push(`${where}: the line was never reached`) }
  if (failures.length === 0) return
  writeSync(2, `${failures.join("\n")}\n`)
  process.exitCode = 1
})
