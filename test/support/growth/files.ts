/** Lines of journals and of MCP servers. */
import * as NodeFs from "node:fs"
import * as NodeFsPromises from "node:fs/promises"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import { Readable } from "node:stream"
import { linesInTurns } from "../../../src/mcp/lines.ts"
import * as JournalParts from "../../../src/tools/folders/JournalParts.ts"
import type { Row } from "./Growth.ts"

const read = async (path: string, order: "newest" | "oldest"): Promise<void> => {
  const lines = JournalParts.lines(path, { order })
  while ((await lines.next()).done !== true);
}

const withFile = async (path: string, use: (file: NodeFsPromises.FileHandle) => Promise<unknown>): Promise<void> => {
  const file = await NodeFsPromises.open(path, "r")
  try {
    await use(file)
  } finally {
    await file.close()
  }
}

const journal = (
  name: string,
  size: number,
  text: (size: number) => string,
  use: (path: string) => Promise<void>
): Row => ({
  name: `journal: ${name}`,
  feeds: ["tools/folders/JournalParts.ts"],
  size,
  input: (size) => {
    const folder = NodeFs.mkdtempSync(NodePath.join(NodeOs.tmpdir(), "growth-"))
    const path = NodePath.join(folder, "journal.ndjson")
    NodeFs.writeFileSync(path, text(size))
    return () => use(path).finally(() => NodeFs.rmSync(folder, { recursive: true }))
  }
})

const line = (size: number) => `{"place":1,"text":"${"a".repeat(size)}"}\n`

const fromServer = (name: string, piece: string): Row => ({
  name: `lines of an MCP server: ${name}`,
  feeds: ["mcp/lines.ts"],
  size: 30_000,
  input: (size) => {
    const chunk = Buffer.from(piece.repeat(size / piece.length))
    return () =>
      new Promise<void>((done) => {
        const source = new Readable({ read: () => {} })
        source.resume = () => (done(), source)
        linesInTurns(1_000_000, () => {}, (goOn) => goOn())(chunk, source)
      })
  }
})

export const rows: ReadonlyArray<Row> = [
  journal("one long line, the oldest first", 1_000_000, line, (path) => read(path, "oldest")),
  journal("one long line, the newest first", 1_000_000, line, (path) => read(path, "newest")),
  journal(
    "many torn lines at its end",
    3_000,
    (size) => line(10) + "{\n".repeat(size),
    (path) => withFile(path, JournalParts.lastOf)
  ),
  journal(
    "one long line in an index",
    1_000_000,
    line,
    (path) => withFile(path, async (file) => JournalParts.indexOf(file, (await file.stat()).size))
  ),
  fromServer("empty ones", "\n"),
  fromServer("empty objects", "{}\n")
]
