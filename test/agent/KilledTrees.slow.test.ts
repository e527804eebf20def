/** A tree of agents in real processes that are killed at any moment, over records in files. */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { program } from "../support/programs.ts"
import { randomFrom } from "../support/randomCase.ts"

interface Told {
  readonly reason: string
  readonly text: string
  /** Tasks of the calls of which nobody knows whether they ended. */
  readonly unknown: ReadonlyArray<string>
}

/** Runs the tree in a process, which is killed so long after it has begun. Gives how the tree ended, if it has. */
const run = (directory: string, after: number): Promise<Told | undefined> =>
  new Promise((resolve, reject) => {
    const args = [...program("test/support/treeWorker.ts"), directory]
    const child = spawn(process.execPath, args, { stdio: "pipe" })
    let text = ""
    let errors = ""
    child.stderr.on("data", (it) => errors += String(it))
    child.stdout.on("data", (it) => {
      if (text === "" && after < Infinity) setTimeout(() => child.kill("SIGKILL"), after)
      text += String(it)
    })
    child.once("close", (code) => {
      const last = text.split("\n").find((it) => it.startsWith("{"))
      if (last !== undefined) resolve(JSON.parse(last) as Told)
      else if (code === null) resolve(undefined)
      else reject(new Error(errors))
    })
  })

const linesOf = (directory: string, file: string) => {
  const at = join(directory, file)
  return existsSync(at) ? readFileSync(at, "utf8").trimEnd().split("\n") : []
}

const askedOf = (directory: string) => {
  const asked = new Map<string, Set<string>>()
  for (const line of linesOf(directory, "asked")) {
    const [task, id] = line.split(" ") as [string, string]
    asked.set(task, (asked.get(task) ?? new Set()).add(id))
  }
  return asked
}

/** Runs the tree to its end, in processes that are killed after so long. */
const tree = async (kills: ReadonlyArray<number>) => {
  const directory = mkdtempSync(join(tmpdir(), "tree-"))
  try {
    let told: Told | undefined
    let killed = 0
    for (let life = 0; told?.reason !== "Finished"; life++) {
      assert.isBelow(life, kills.length + 60, "it does not end")
      told = await run(directory, kills[life] ?? Infinity)
      if (told === undefined) killed++
    }
    return { told, killed, writes: linesOf(directory, "writes"), asked: askedOf(directory) }
  } finally {
    rmSync(directory, { recursive: true })
  }
}

describe("a tree of agents in processes that are killed", () => {
  it(
    "does nothing twice, asks under one id, and ends like one that runs through",
    { tags: ["AG12"], timeout: 300_000 },
    async () => {
      const whole = await tree([])
      assert.strictEqual(new Set(whole.writes).size, whole.writes.length)
      const { int } = randomFrom(Number(process.env["SEED"] ?? 1))
      for (let round = 0; round < 2; round++) {
        const kills = Array.from({ length: 12 }, () => 20 + int(600))
        const about = `round ${round}: ${kills.join()}`
        const parts = await tree(kills)
        assert.isAbove(parts.killed, 0, about)
        assert.strictEqual(new Set(parts.writes).size, parts.writes.length, about)
        for (const [task, ids] of parts.asked) assert.strictEqual(ids.size, 1, `${about}: ${task}`)
        // a call that nobody knows of may not have run, and what its sub-agent would have called neither
        const isKnown = (task: string) => !parts.told.unknown.some((it) => task === it || task.startsWith(`${it}/`))
        assert.deepStrictEqual(whole.writes.filter((it) => isKnown(it) && !parts.writes.includes(it)), [], about)
        assert.strictEqual(parts.told.text, whole.told.text, about)
      }
    }
  )
})
