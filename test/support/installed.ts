/** Programs of the system that some tests need, and that no package brings. */
import { spawnSync } from "node:child_process"

/** The Debian package of each program. */
const packages = { bwrap: "bubblewrap", rg: "ripgrep", socat: "socat" }

type Program = keyof typeof packages

const found = new Map<Program, boolean>()

/** Tells whether a program can be started here. Tests that need it are skipped otherwise. */
export const isInstalled = (program: Program): boolean => {
  const known = found.get(program)
  if (known !== undefined) return known
  const { error } = spawnSync(program, ["--version"], { stdio: "ignore" })
  found.set(program, error === undefined)
  return error === undefined
}

/** Tells what a run did not check, and how to have it checked. */
export const unchecked = (
  skipped: ReadonlyArray<{ readonly needs: ReadonlyArray<string>; readonly tags: ReadonlyArray<string> }>,
  has: (program: Program) => boolean = isInstalled
): string | undefined => {
  const missing = (Object.keys(packages) as ReadonlyArray<Program>).filter((it) =>
    skipped.some(({ needs }) => needs.includes(it)) && !has(it)
  )
  const left = skipped.filter(({ needs }) => missing.some((it) => needs.includes(it)))
  if (left.length === 0) return undefined
  const numbers = Array.from(new Set(left.flatMap(({ tags }) => tags))).sort()
  return [
    `${left.length} skipped tests need what this system does not have: ${missing.join(", ")}.`,
    ...(numbers.length === 0 ? [] : [`Not checked, or not by all their tests: ${numbers.join(", ")}.`]),
    `Install what is missing: apt-get install -y ${missing.map((it) => packages[it]).join(" ")}`
  ].join("\n")
}
