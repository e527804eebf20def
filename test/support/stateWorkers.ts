/** Processes with an executor each, over one PostgreSQL: what they did, and whether a limit was passed. */
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { until } from "./commandProcess.ts"
import { program } from "./programs.ts"
import type { Line } from "./stateWorker.ts"

/** Starts a worker for the rest of the scope; it waits until it is told to go. */
export const start = <L = Line>(
  options: object,
  worker: "permitWorker" | "sessionWorker" | "stateWorker" | "workflowWorker" = "stateWorker"
) =>
  Effect.gen(function*() {
    const written = { text: "", errors: "" }
    const lines: Array<L> = []
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(
          process.execPath,
          [...program(`test/support/${worker}.ts`), JSON.stringify(options)],
          { stdio: "pipe" }
        )
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    child.stdin.on("error", () => undefined)
    child.stderr.setEncoding("utf8").on("data", (text: string) => written.errors += text)
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      written.text += text
      const complete = written.text.split("\n")
      written.text = complete.pop()!
      for (const line of complete) {
        if (line.startsWith("{")) lines.push(JSON.parse(line) as L)
        else written.errors += `${line}\n`
      }
    })
    const ended = { is: false }
    child.once("close", () => ended.is = true)
    const fails = Effect.suspend(() => ended.is ? Effect.die(new Error(written.errors)) : Effect.void)
    yield* until(() => lines.length > 0 || ended.is)
    if (lines.length === 0) yield* fails
    return {
      child,
      lines,
      written,
      go: Effect.sync(() => void child.stdin.write("go\n")),
      over: until(() => ended.is)
    }
  })

type Ran = Extract<Line, { readonly _tag: "Ran" }>

/** What is wrong with what ran, of all workers together. */
export const problemsOf = (lines: ReadonlyArray<Line>, batches: number): ReadonlyArray<string> => {
  const ran = lines.filter((it): it is Ran => it._tag === "Ran")
  const problems: Array<string> = []
  for (let n = 0; n < batches; n++) {
    const own = ran.filter((it) => it.batch === `batch-${n}`)
    const of = (...tools: ReadonlyArray<string>) => own.filter(({ tool }) => tools.includes(tool))
    if (of("limited").length !== 7) problems.push(`batch ${n}: ${of("limited").length} of 7 starts`)
    const group = new Set(of("left", "right").map(({ tool }) => tool))
    if (group.size !== 1) problems.push(`batch ${n}: ${group.size} tools of a group`)
    const keys = of("equal").map(({ key }) => key).sort()
    if (keys.join() !== "0,1,2,3,4,5,6") problems.push(`batch ${n}: equal calls ran as ${keys.join()}`)
  }
  const rests = ran.filter(({ tool }) => tool === "rests").sort((one, other) => one.at - other.at)
  if (rests.length === 0) problems.push("nothing that rests ran")
  for (const [index, { at }] of rests.entries()) {
    const before = rests[index - 1]
    if (before !== undefined && at - before.until < 20) {
      problems.push(`started ${at - before.until} ms after its last end`)
    }
  }
  return problems
}

/** What a trial found. */
export interface Found {
  readonly summary: string
  readonly problems: ReadonlyArray<string>
}

/** Two processes against every limit. */
export const limits = (url: string, work: { readonly waves: number; readonly calls: number }) =>
  Effect.gen(function*() {
    const options = { url, work: { _tag: "Limits", ...work }, lease: "30 seconds" } as const
    const workers = yield* Effect.all([start(options), start(options)], { concurrency: 2 })
    yield* Effect.forEach(workers, (it) => it.go)
    yield* Effect.forEach(workers, (it) => it.over)
    const lines = workers.flatMap((it) => it.lines)
    const ended = lines.filter((it) => it._tag === "Ended")
    const outcomes = new Map<string, number>()
    for (const { outcomes: counts } of ended) {
      for (const [name, count] of Object.entries(counts)) outcomes.set(name, (outcomes.get(name) ?? 0) + count)
    }
    const problems = [
      ...ended.length === 2 * work.waves
        ? []
        : [`${ended.length} waves ended`, ...workers.map((it) => it.written.errors)],
      ...["StoreUnavailable", "Unknown", "Failed"].filter((it) => outcomes.has(it)),
      ...problemsOf(lines, work.waves)
    ]
    const summary = `${2 * work.waves * work.calls} calls of two processes (${
      Array.from(outcomes, ([name, count]) => `${count} ${name}`).join(", ")
    })`
    const found: Found = { summary, problems }
    return found
  }).pipe(Effect.scoped)
