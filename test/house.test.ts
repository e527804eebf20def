/**
 * Holds what no linter rule holds: that the gates look at anything, what the
 * sources never contain, and that links of the guides lead somewhere.
 */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { posix } from "node:path"
import { fileURLToPath } from "node:url"
import { promises, tagged } from "../scripts/promises.ts"
import { trials } from "../scripts/trials.ts"
import { unchecked } from "./support/installed.ts"

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
    // everywhere: no entry for some files says otherwise
    const settings = readFileSync(`${root}.oxlintrc.json`, "utf8").match(/"import\/no-cycle": .*/g)
    assert.deepStrictEqual(settings, [`"import/no-cycle": ["error", { "ignoreTypes": false }],`])
  })

  it("keeps Effect's diagnostics switched on", () => {
    // Without this entry effect-tsgo checks no file, and says so without failing.
    assert.include(readFileSync(`${root}tsconfig.json`, "utf8"), `"@effect/language-service"`)
  })
})

const documents = [
  "README.md",
  "AGENTS.md",
  "CHANGELOG.md",
  ...readdirSync(`${root}docs`).map((file) => `docs/${file}`)
]
  .filter((file) => file.endsWith(".md"))

interface Link {
  readonly text: string
  /** Path from the root of the repository. */
  readonly target: string
}

/**
 * Reads the relative links of a document, `[text](target)` and `[text][label]` alike. What
 * is not part of the package cannot be linked to: such a link has its file as its title.
 */
const linksOf = (file: string, document: string): ReadonlyArray<Link> => {
  const prose = document.replaceAll(/^(`{3,})[^]*?^\1/gm, "")
  const labels = new Map(
    Array.from(
      prose.matchAll(/^\[([^\]]+)\]: (\S+)(?: "([^"]+)")?$/gm),
      ([, label = "", target = "", file]) => [label, file === undefined ? target : `/${file}`]
    )
  )
  return Array.from(prose.matchAll(/\[([^[\]]+)\](?:\(([^)\s]+)\)|\[([^\]]+)\])/g))
    .map(([, text = "", target, label = ""]) => ({
      text: text.replaceAll(/\s+/g, " "),
      target: target ?? labels.get(label) ?? `no target for ${label}`
    }))
    .concat(Array.from(labels, ([text, target]) => ({ text, target })))
    .filter(({ target }) => !/^(?:https?:|#)/.test(target))
    .map(({ target, text }) => ({
      text,
      target: target.startsWith("/") ? target.slice(1) : posix.join(posix.dirname(file), target.replace(/#.*$/, ""))
    }))
}

/** The names of tests and scenarios in a file; what a template fills in is "…". */
const sentencesOf = (text: string): ReadonlySet<string> =>
  new Set(
    Array.from(
      text.matchAll(/(?:\(|^ +"name": |^ +)(?:"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\$]|\\.|\$\{[^`{}]*\})*)`)/gm),
      ([, quoted, template = ""]) => (quoted ?? template).replaceAll(/\$\{[^}]*\}|%[a-z]|\$[a-z]+/g, "…")
    )
  )

/** Tells whether a test is named by a sentence: its own, or that of what it is about before its own. */
const isNamed = (sentence: string, sentences: ReadonlySet<string>): boolean =>
  sentences.has(sentence) ||
  Array.from(sentence.matchAll(/ /g)).some(({ index }) =>
    sentences.has(sentence.slice(0, index)) && sentences.has(sentence.slice(index + 1))
  )

/** Tells whether a module has a binding, a type, a class or a member of a name. */
const declares = (text: string, name: string): boolean =>
  new RegExp(
    `^(?:export )?(?:const|class|type|interface) ${name}\\b|^ +(?:(?:private|static|readonly) )*${name}(?:[(:<]| =|,$)`,
    "m"
  ).test(text)

describe("the guides", () => {
  for (const file of documents) {
    it(`have links that lead somewhere (${file})`, () => {
      const links = linksOf(file, readFileSync(`${root}${file}`, "utf8"))
      assert.deepStrictEqual(links.filter(({ target }) => !existsSync(`${root}${target}`)), [])
    })
  }

  it("name only commands and trials that the repository has", () => {
    const { scripts } = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as { readonly scripts: object }
    const named = documents.filter((file) => file !== "CHANGELOG.md").flatMap((file) =>
      Array.from(readFileSync(`${root}${file}`, "utf8").matchAll(/npm run (?:try -- ([\w:-]+)|(?:-s )?([\w:-]+))/g))
    )
    const known = new Set(Object.keys(scripts))
    const missing = named.filter(([, trial, script = "try"]) =>
      trial === undefined ? !known.has(script) : !trials.has(trial)
    )
    assert.isAbove(named.length, 20)
    assert.deepStrictEqual(missing.map(([text]) => text), [])
  })

  it("list trials whose files are there", () => {
    assert.deepStrictEqual(Array.from(trials.values()).filter(({ file }) => !existsSync(`${root}${file}`)), [])
  })

  it("have a test for each promise of the contract, and no tag that is none", () => {
    const tags = new Set(tagged.flatMap(([, tags]) => tags))
    assert.isAbove(promises.length, 300)
    assert.deepStrictEqual(promises.filter((it, index) => promises.indexOf(it) !== index), [])
    assert.deepStrictEqual(promises.filter((it) => !tags.has(it)), [])
    assert.deepStrictEqual(Array.from(tags).filter((it) => !promises.includes(it)), [])
  })

  it("name tests that there are (docs/architecture.md)", () => {
    const file = "docs/architecture.md"
    const links = linksOf(file, readFileSync(`${root}${file}`, "utf8"))
      .filter(({ target, text }) => /^test\/.*\./.test(target) && text.includes(" "))
    const missing = links.filter(({ target, text }) =>
      !isNamed(text, sentencesOf(readFileSync(`${root}${target}`, "utf8")))
    )
    assert.isAbove(links.length, 10)
    assert.deepStrictEqual(missing, [])
  })

  it("say of names in which file they are", () => {
    const file = "docs/architecture.md"
    const links = linksOf(file, readFileSync(`${root}${file}`, "utf8"))
      .filter(({ target, text }) => /^src\/.*\.ts$/.test(target) && /^`\w+`$/.test(text))
    const missing = links.filter(({ target, text }) =>
      !declares(readFileSync(`${root}${target}`, "utf8"), text.slice(1, -1))
    )
    assert.isAbove(links.length, 20)
    assert.deepStrictEqual(missing, [])
  })
})

describe("a run", () => {
  const skipped = [
    { needs: ["bwrap"], tags: ["SB4"] },
    { needs: ["bwrap", "rg"], tags: ["SB1", "SB4"] },
    { needs: [], tags: ["A1"] }
  ]

  it("ends with the promises that it left unchecked, and the command that installs what is missing", () => {
    assert.strictEqual(
      unchecked(skipped, () => false),
      [
        "2 skipped tests need what this system does not have: bwrap, rg.",
        "Not checked, or not by all their tests: SB1, SB4.",
        "Install what is missing: apt-get install -y bubblewrap ripgrep"
      ].join("\n")
    )
    assert.include(
      unchecked(skipped, (program) => program === "bwrap"),
      "1 skipped tests need what this system does not have: rg."
    )
  })

  it("says nothing of tests that are skipped for other reasons", () => {
    assert.isUndefined(unchecked(skipped, () => true))
    assert.isUndefined(unchecked([], () => false))
  })
})
