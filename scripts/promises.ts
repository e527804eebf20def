/** Reads the promises of docs/contract.md, and which tests carry their numbers as tags. */
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("..", import.meta.url))

const contract = readFileSync(join(root, "docs/contract.md"), "utf8")

/** The numbers of all promises, and the kinds of rules: each is a promise too. */
export const promises: ReadonlyArray<string> = [
  ...Array.from(contract.matchAll(/^- \*\*([A-Z]+\d+)\*\* /gm), ([, number = ""]) => number),
  ...Array.from(
    contract.matchAll(/^\| ((?:`[A-Z]\w+`(?:, )?)+) +\| (?:process|batch|every call|principal|executor) /gm)
  )
    .flatMap(([, kinds = ""]) => kinds.replaceAll("`", "").split(", "))
]

const quoted = (text: string): ReadonlyArray<string> => Array.from(text.matchAll(/"([^"]+)"/g), ([, it = ""]) => it)

/** The tags in the text of a file: of tests, of the whole file, and of tests that are data. */
const tagsIn = (file: string, text: string): ReadonlyArray<string> => [
  ...Array.from(text.matchAll(/\btags: (\[[^\]]*\]|"[^"]*")/g)).flatMap(([, tags = ""]) => quoted(tags)),
  ...Array.from(text.matchAll(/^ \* @module-tag (\w+)$/gm), ([, tag = ""]) => tag),
  ...(file === "test/support/promises.ts"
    ? Array.from(text.matchAll(/: (\[[^\]]*\])/g)).flatMap(([, tags = ""]) => quoted(tags))
    : [])
]

/** The texts of tests and of what supports them, by file. */
export const sources: ReadonlyArray<readonly [file: string, text: string]> = globSync("test/**/*.ts", { cwd: root })
  .map((file) => [file, readFileSync(join(root, file), "utf8")])

/** The same files with the tags that they carry. */
export const tagged: ReadonlyArray<readonly [file: string, tags: ReadonlyArray<string>]> = sources
  .map(([file, text]) => [file, tagsIn(file, text)])
