/** Checks the chain of a journal in files: all of its lines, byte by byte. */
import { createHash } from "node:crypto"
import * as NodeFsPromises from "node:fs/promises"
import * as Chain from "../../core/store/JournalChain.ts"
import * as ChainedLine from "../command/ChainedLine.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as JournalEnd from "./JournalEnd.ts"
import * as Parts from "./JournalParts.ts"

/** What a journal in files may lack. */
export interface Options {
  /** The entries up to the checkpoint were moved elsewhere: the journal may begin right after it. Default `false`. */
  readonly earlierElsewhere?: boolean | undefined
}

/** Checks a journal, and compares it with a checkpoint. What follows the last complete line is being written, or torn. */
export const verify = async (
  path: string,
  checkpoint: Chain.Checkpoint | undefined,
  { earlierElsewhere = false }: Options
): Promise<Chain.Verified> => {
  const check = new Check(checkpoint, earlierElsewhere, await JournalEnd.read(path))
  // opened first: a part that becomes full meanwhile must not be left out
  const current = await Parts.opened(path)
  try {
    const { ino, size } = current === undefined ? { ino: 0, size: 0 } : await current.stat()
    for (const number of await Parts.numbers(path)) {
      const part = await NodeFsPromises.open(`${path}.${number}`, "r")
      try {
        const full = await part.stat()
        if (current === undefined || full.ino !== ino) await Parts.eachLine(part, full.size, (line) => check.add(line))
      } finally {
        await part.close()
      }
    }
    if (current !== undefined) await Parts.eachLine(current, size, (line) => check.add(line))
  } finally {
    await current?.close()
  }
  return { journal: await journalOf(path), ...check.ended() }
}

/** Identifies a journal, without revealing its key; empty for a copy without the key. */
const journalOf = async (path: string): Promise<string> => {
  try {
    const key = Buffer.from((await NodeFsPromises.readFile(`${path}.key`, "utf8")).trim(), "hex")
    return createHash("sha256").update(key).digest("hex").slice(0, 16)
  } catch (cause) {
    if (WorkspaceFailure.codeOf(cause) === "ENOENT") return ""
    throw cause
  }
}

/** Follows the lines of a journal. */
class Check {
  private readonly checkpoint: Chain.Checkpoint | undefined
  private readonly earlierElsewhere: boolean
  /** The last entry that was on the disk. */
  private readonly marked: ChainedLine.Link
  private readonly findings: Array<Chain.Finding> = []
  private last: ChainedLine.Link = ChainedLine.start
  private entries = 0
  private unchained = 0
  private compared: Chain.Compared = "not compared"
  private isFirst = true

  constructor(checkpoint: Chain.Checkpoint | undefined, earlierElsewhere: boolean, marked: ChainedLine.Link) {
    this.checkpoint = checkpoint
    this.earlierElsewhere = earlierElsewhere
    this.marked = marked
  }

  add(line: Buffer): void {
    const found = ChainedLine.read(line.toString("latin1", 0, 100))
    if (found === undefined) {
      const from = this.last.place + 1
      this.findings.push({ from, to: from, problem: `the line after entry ${from - 1} is not an entry` })
      return
    }
    const { chain, length, place } = found
    const { checkpoint, marked } = this
    if (this.isFirst && this.earlierElsewhere && place - 1 === checkpoint?.place) {
      this.last = { place: checkpoint.place, chain: checkpoint.chain }
      this.compared = "follows"
    }
    this.isFirst = false
    const { last } = this
    const isNext = place === last.place + 1
    if (place <= last.place) {
      this.findings.push({ from: place, to: place, problem: `entry ${place} stands after entry ${last.place}` })
    } else if (!isNext) this.findings.push(Chain.missing(last.place + 1, place - 1))
    if (chain === "") {
      if (last.chain === "") this.unchained++
      else this.findings.push({ from: place, to: place, problem: `entry ${place} has no hash` })
    } else {
      const isRight = ChainedLine.hashOf(last.chain, place, line.subarray(length)) === chain
      if (isRight) this.entries++
      else if (isNext) this.findings.push(Chain.changed(place))
    }
    if (place === checkpoint?.place) {
      this.compared = chain === checkpoint.chain ? "matches" : "differs"
      if (chain !== checkpoint.chain) this.findings.push(Chain.other(checkpoint))
    }
    if (place === marked.place && marked.chain !== "" && chain !== marked.chain) {
      this.findings.push({ from: 1, to: place, problem: `entry ${place} is not the one that was on the disk` })
    }
    this.last = { place: Math.max(place, last.place), chain: chain === "" ? last.chain : chain }
  }

  ended(): Omit<Chain.Verified, "journal"> {
    const { compared, entries, last, unchained } = this
    const known = Math.max(this.marked.place, this.checkpoint?.place ?? 0)
    const findings = known > last.place ? [...this.findings, Chain.missing(last.place + 1, known)] : this.findings
    return { entries, unchained, pruned: 0, head: last.chain === "" ? undefined : last, compared, findings }
  }
}
