/** What strangers write costs time in proportion to its size: `npm run growth` with small inputs. */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { excess } from "./support/growth/Growth.ts"
import { rows } from "./support/growth/rows.ts"

const source = fileURLToPath(new URL("../src/", import.meta.url))

/** What makes a file an entry for texts of strangers: where it is, and what it has. */
const entries: ReadonlyArray<readonly [folder: string, text: RegExp]> = [
  ["internal/secrets/", /: string/],
  ["mcp/", /chunk: Buffer/],
  ["provenance/", /: string\)/],
  ["tools/", /Tool\.make\("/],
  ["wire/", /^export const read = \(input: unknown/m]
]

/** Entries without a row, each with what bounds its work. */
const bounded: Readonly<Record<string, string>> = {
  "internal/secrets/seen.ts": "compares a value once with what redaction left of it",
  "mcp/StdioTransport.ts": "gives what it reads to lines.ts",
  "provenance/Provenance.ts": "gives everything to a ledger",
  "tools/folders/ArtifactTools.ts": "reads windows of 1,000,000 characters, each with a text of at most 200",
  "wire/Parts.ts": "is what the formats of several providers have in common"
}

describe("the work for what strangers write", () => {
  // linear work takes less than the floor
  it.each(rows.map((row) => [row.name, row] as const))("grows with its size: %s", async (_, row) => {
    assert.isUndefined(await excess(row, { floor: 1_500, most: 1.6 }))
  })

  it("is measured for every entry that they reach", () => {
    const fed = new Set(rows.flatMap(({ feeds }) => feeds))
    const found = entries.map(([folder, text]) =>
      readdirSync(source + folder, { recursive: true, encoding: "utf8" })
        .filter((file) => file.endsWith(".ts") && text.test(readFileSync(source + folder + file, "utf8")))
        .map((file) => folder + file)
    )
    // no pattern has gone blind
    assert.deepStrictEqual(found.filter((files) => files.length === 0), [])
    assert.deepStrictEqual(found.flat().filter((file) => !fed.has(file) && !Object.hasOwn(bounded, file)), [])
    assert.deepStrictEqual([...fed, ...Object.keys(bounded)].filter((file) => !existsSync(source + file)), [])
    assert.strictEqual(new Set(rows.map(({ name }) => name)).size, rows.length)
  })
})
