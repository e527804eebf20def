/**
 * Holds what no linter rule holds: that the gates look at anything, and what
 * the sources never contain.
 */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../", import.meta.url))

const sources = readdirSync(`${root}src`, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .sort()

/** Each with a line that must be found, so that a pattern cannot go blind. */
const never: ReadonlyArray<readonly [what: string, pattern: RegExp, example: string]> = [
  ["a namespace object", /^\s*(?:export\s+)?namespace\s/m, "export namespace Rules {"],
  ["an assertion to any", /\bas any\b/, "const value = input as any"],
  ["a suppressed type error", /@ts-(?:ignore|expect-error|nocheck)/, "// @ts-ignore"],
  ["a switched-off linter", /(?:oxlint|eslint)-disable/, "// oxlint-disable-next-line"],
  ["a mutable binding of a module", /^(?:export\s+)?(?:let|var)\s/m, "let count = 0"]
]

/** Leaves doc comments out: they may name what code may not do. */
const code = (text: string): string => text.replaceAll(/^\s*\*.*$/gm, "")

describe("the house", () => {
  it("knows what it is looking for, and where", () => {
    assert.isAbove(sources.length, 100)
    for (const [what, pattern, example] of never) assert.match(example, pattern, what)
  })

  it("has none of it", () => {
    const found = sources.flatMap((file) => {
      const text = code(readFileSync(`${root}src/${file}`, "utf8"))
      return never.filter(([, pattern]) => pattern.test(text)).map(([what]) => `${file}: ${what}`)
    })
    assert.deepStrictEqual(found, [])
  })

  it("keeps the circles of type imports forbidden", () => {
    const lint = JSON.parse(readFileSync(`${root}.oxlintrc.json`, "utf8")) as {
      readonly rules: Record<string, unknown>
    }
    assert.deepStrictEqual(lint.rules["import/no-cycle"], ["error", { ignoreTypes: false }])
  })

  it("keeps Effect's diagnostics switched on", () => {
    // Without this entry effect-tsgo checks no file, and says so without failing.
    assert.include(readFileSync(`${root}tsconfig.json`, "utf8"), `"@effect/language-service"`)
  })
})
