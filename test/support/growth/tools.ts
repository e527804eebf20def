/** What a model gives to tools: paths, commands, texts to replace. */
import * as Effect from "effect/Effect"
import * as NodeFs from "node:fs"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import * as RunCommand from "../../../src/tools/command/RunCommand.ts"
import * as FetchTarget from "../../../src/tools/fetch/FetchTarget.ts"
import * as EditFile from "../../../src/tools/files/EditFile.ts"
import * as WiderTargets from "../../../src/tools/workspace/WiderTargets.ts"
import { call } from "../../tools/fixture.ts"
import type { Row } from "./Growth.ts"

const edited = (name: string, oldText: (size: number) => string, text: (size: number) => string): Row => ({
  name: `edit_file: ${name}`,
  feeds: ["internal/textSearch.ts", "tools/files/EditFile.ts"],
  size: 30_000,
  input: (size) => {
    const before = new TextEncoder().encode(text(size))
    const params = { path: "a", oldText: oldText(size), newText: "c", replaceAll: true }
    return () => Effect.runSyncExit(EditFile.edit(params, before))
  }
})

const around = (size: number, letter: string) => `${letter.repeat(size)}b${letter.repeat(size)}`

const folders = (name: string, piece: string): Row => ({
  name: `folders of a path: ${name}`,
  feeds: ["tools/workspace/WiderTargets.ts"],
  size: 5_000,
  input: (size) => {
    const path = `${piece.repeat(size / piece.length)}a`
    return () => WiderTargets.folders(path)
  }
})

const targets = (name: string, file: string, of: (text: string) => unknown, piece: string): Row => ({
  name: `targets: ${name}`,
  feeds: [file],
  size: 10_000,
  input: (size) => {
    const text = piece.repeat(Math.ceil(size / piece.length))
    return () => of(text)
  }
})

const command = (name: string, piece: string): Row =>
  targets(
    name,
    "tools/command/RunCommand.ts",
    (text) => RunCommand.targets({ command: `git ${text.slice(0, 100_000)}` }),
    piece
  )

/** A tool of a workspace with files in it. */
const called = (
  name: Parameters<typeof call>[1],
  shape: string,
  size: number,
  files: (size: number) => Readonly<Record<string, string>>,
  params: (size: number) => object
): Row => ({
  name: `${name}: ${shape}`,
  feeds: [`tools/files/${name.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())}.ts`],
  size,
  input: (size) => {
    const root = NodeFs.realpathSync(NodeFs.mkdtempSync(NodePath.join(NodeOs.tmpdir(), "growth-")))
    for (const [path, text] of Object.entries(files(size))) NodeFs.writeFileSync(NodePath.join(root, path), text)
    return () =>
      Effect.runPromise(Effect.exit(call({ root }, name, params(size) as never))).finally(() =>
        NodeFs.rmSync(root, { recursive: true })
      )
  }
})

const manyFiles = (size: number) =>
  Object.fromEntries(Array.from({ length: size }, (_, index) => [`${"a".repeat(40)}${index}`, "a"]))

export const rows: ReadonlyArray<Row> = [
  edited("a long text in a text like it", (size) => around(size / 8, "a"), (size) => "a".repeat(size)),
  edited("a periodic text", (size) => around(size / 16, "xy"), (size) => "xy".repeat(size / 2)),
  edited("a text that is there often", (size) => "a".repeat(Math.ceil(size / 100)), (size) => "a".repeat(size)),
  edited("one letter", () => "a", (size) => "a".repeat(size)),
  edited("line ends", (size) => "a\n".repeat(size / 8), (size) => "a\r\n".repeat(size / 3)),
  called("read_file", "one long line", 60_000, (size) => ({ a: "a".repeat(size) }), () => ({ path: "a" })),
  called("read_file", "many lines", 60_000, (size) => ({ a: "a\n".repeat(size) }), () => ({ path: "a" })),
  called("write_file", "a long text", 60_000, () => ({}), (size) => ({ path: "a", content: "a".repeat(size) })),
  called("list_directory", "many files", 100, manyFiles, () => ({ path: "." })),
  called("find_files", "many stars", 20, manyFiles, (size) => ({ pattern: "*a".repeat(size / 2) })),
  called("search_text", "a pattern in a text like it", 10_000, (size) => ({ a: "a".repeat(size) }), (size) => ({
    pattern: `${"a".repeat(size / 100)}b`
  })),
  command("many words", "a "),
  command("many quotes", "'a' "),
  command("many segments", "a;b "),
  command("substitutions", "$(a "),
  command("redirects", "a>b "),
  targets(
    "labels of a host",
    "tools/fetch/FetchUrl.ts",
    (text) => FetchTarget.targets({ url: `https://${text}c` }),
    "a."
  ),
  targets(
    "parts of a link",
    "tools/fetch/FetchUrl.ts",
    (text) => FetchTarget.targets({ url: `https://a.b/${text}` }),
    "a/"
  ),
  folders("many parts", "a/"),
  folders("many wildcards", "a*/"),
  folders("steps back", "a/b/../"),
  {
    name: "domains of a host with many labels",
    feeds: ["tools/workspace/WiderTargets.ts"],
    size: 5_000,
    input: (size) => {
      const host = `${"a.".repeat(size / 2)}com`
      return () => WiderTargets.domains(host)
    }
  },
  {
    name: "beginnings of a command with many words",
    feeds: ["tools/workspace/WiderTargets.ts"],
    size: 5_000,
    input: (size) => {
      const words = ["git", "commit", ...Array.from({ length: size }, () => "a")]
      return () => WiderTargets.commands(words)
    }
  }
]
