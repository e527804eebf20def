/** What a model gives to tools: paths, commands, texts to replace. */
import * as Effect from "effect/Effect"
import * as EditFile from "../../../src/tools/files/EditFile.ts"
import * as WiderTargets from "../../../src/tools/workspace/WiderTargets.ts"
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

export const rows: ReadonlyArray<Row> = [
  edited("a long text in a text like it", (size) => around(size / 8, "a"), (size) => "a".repeat(size)),
  edited("a periodic text", (size) => around(size / 16, "xy"), (size) => "xy".repeat(size / 2)),
  edited("a text that is there often", (size) => "a".repeat(Math.ceil(size / 100)), (size) => "a".repeat(size)),
  edited("one letter", () => "a", (size) => "a".repeat(size)),
  edited("line ends", (size) => "a\n".repeat(size / 8), (size) => "a\r\n".repeat(size / 3)),
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
