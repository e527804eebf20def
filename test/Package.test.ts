/**
 * Holds what the package shows: what guides, examples and the reference of the
 * ports name, and nothing else.
 */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../", import.meta.url))

const { exports } = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as {
  readonly exports: Readonly<Record<string, { readonly default: string } | string | null>>
}

/** More than this nobody keeps in mind, and nobody keeps stable. */
const maxValues = 370

const entries = Object.entries(exports).flatMap(([entry, it]) =>
  typeof it === "object" && it !== null
    ? [[entry, it.default.replace("./dist/", "src/").replace(/\.js$/, ".ts")] as const]
    : []
)

interface Shown {
  readonly entry: string
  /** As a reader writes it: `Approvals.layer`, or `toTools` where the entry is the module. */
  readonly name: string
}

/** The values that an entry shows, those of its namespaces included. */
const shownBy = async (entry: string, file: string): Promise<ReadonlyArray<Shown>> => {
  const module = await import(root + file) as Readonly<Record<string, unknown>>
  return Object.entries(module).flatMap(([name, value]) =>
    Object.prototype.toString.call(value) === "[object Module]"
      ? Object.keys(value as object).map((it) => ({ entry, name: `${name}.${it}` }))
      : [{ entry, name }]
  )
}

const read = (folder: string, extension: string): ReadonlyArray<string> =>
  readdirSync(`${root}${folder}`).filter((file) => file.endsWith(extension))
    .map((file) => readFileSync(`${root}${folder}/${file}`, "utf8"))

const texts = [readFileSync(`${root}README.md`, "utf8"), ...read("docs", ".md"), ...read("scripts/examples", ".ts")]

/**
 * Whether a text names a value: as `Approvals.layer`, or a class as `ApprovalError` beside its namespace. Of an
 * entry without namespaces, in a text that imports the entry.
 */
const names = (text: string, { entry, name }: Shown): boolean => {
  const has = (word: string) => new RegExp(`\\b${word.replace(".", "\\.")}\\b`).test(text)
  const [space, value] = name.split(".")
  if (space === undefined || value === undefined) {
    return has(name) && text.includes(`effect-tool-executor${entry.slice(1)}`)
  }
  return has(name) || (value !== space && /^[A-Z]/.test(value) && has(value) && has(space))
}

describe("the package", () => {
  it("has entries for modules, and none for folders", () => {
    assert.isAbove(entries.length, 10)
    assert.deepStrictEqual(entries.filter(([entry, file]) => entry.includes("*") || !existsSync(root + file)), [])
  })

  it(`shows at most ${maxValues} values, each of them in a guide, an example or the reference of the ports`, async () => {
    const shown = (await Promise.all(entries.map(([entry, file]) => shownBy(entry, file)))).flat()
    assert.isAbove(shown.length, 100)
    assert.deepStrictEqual(
      shown.filter((it) => !texts.some((text) => names(text, it))).map((it) => `${it.entry} ${it.name}`),
      []
    )
    assert.isAtMost(shown.length, maxValues)
  })

  it("would miss a value that no text names", () => {
    assert.isFalse(texts.some((text) => names(text, { entry: ".", name: "Approvals.neverMentioned" })))
    assert.isFalse(names("import { other } from 'effect-tool-executor/ai-sdk'", { entry: "./ai-sdk", name: "toTools" }))
  })
})
