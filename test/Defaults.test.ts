/** The table of defaults in the documents, row by row beside the code that has them. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { readFileSync } from "node:fs"
import * as AiSdkModel from "../src/adapters/AiSdkModel.ts"
import * as RunnerOptions from "../src/cluster/RunnerOptions.ts"
import { RolesOf } from "../src/core/engine/data/Principal.ts"
import * as ExecutorSettings from "../src/core/engine/state/ExecutorSettings.ts"
import * as ToolExecutor from "../src/core/engine/ToolExecutor.ts"
import * as Dedupe from "../src/core/gates/Dedupe.ts"
import * as HostGates from "../src/core/gates/HostGates.ts"
import * as Policy from "../src/core/gates/Policy.ts"
import * as TurnBudget from "../src/core/gates/TurnBudget.ts"
import * as ArtifactStore from "../src/core/output/ArtifactStore.ts"
import * as Checkpoints from "../src/core/output/Checkpoints.ts"
import * as StateStore from "../src/core/store/StateStore.ts"
import * as ToolLimits from "../src/core/vocabulary/ToolLimits.ts"
import * as Reviewer from "../src/review/Reviewer.ts"
import * as PendingApprovals from "../src/server/approvals/PendingApprovals.ts"
import * as Limits from "../src/server/guard/Limits.ts"
import * as Operations from "../src/server/operations/Operations.ts"
import * as Draining from "../src/server/sessions/Draining.ts"
import * as Waves from "../src/server/waves/Waves.ts"
import * as SqlJournal from "../src/sql/SqlJournal.ts"
import * as SqlStateStore from "../src/sql/SqlStateStore.ts"
import * as JournalFile from "../src/tools/folders/JournalFile.ts"

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8")

const rows = new Map(
  read("docs/defaults.md").split("\n").flatMap((line) => {
    const [, option, value] = line.split("|").map((it) => it.trim())
    return option?.startsWith("`") === true && value !== undefined
      ? [[option.replaceAll("`", ""), value.replaceAll("`", "")] as const]
      : []
  })
)

/** The fields of an object, those of objects in it with a dot between. */
const dotted = (prefix: string, fields: object): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]: [string, unknown]) =>
      typeof value === "object" && !Array.isArray(value)
        ? Object.entries(dotted(`${prefix}${name}.`, value as object))
        : [[`${prefix}${name}`, value]]
    )
  )

/** Options that the table leaves to their types: buffers, timing of stores, what is kept of things that have ended. */
const inside = new Set([
  "eventBuffer",
  "commitTimeout",
  "cleanupGrace",
  "storePatience",
  "storeRetry",
  "output.previewString",
  "output.previewList",
  "output.previewKeys",
  "output.previewDepth",
  "SqlStateStore.layer patience",
  "SqlStateStore.layer pruneEvery",
  "JournalFile.layer maxBytes",
  "Reviewer.layer breaker.inARow",
  "Reviewer.layer breaker.denials",
  "Reviewer.layer breaker.window",
  "Reviewer.layer concurrency",
  "PendingApprovals.layer maxEnded",
  "PendingApprovals.layer keepEnded",
  "Waves.layer keptEvents",
  "Waves.layer keptChars",
  "Waves.layer maxOpenCallsPerUser",
  "Waves.layer maxOpenCharsPerUser",
  "Waves.layer maxOpenChars",
  "Waves.layer maxTurns",
  "Waves.layer maxTurnsPerUser",
  "Waves.layer maxTurnsAway",
  "Waves.layer turnIdle",
  "Waves.layer listed",
  "Waves.layer maxListed",
  "Waves.layer listedChars",
  "Operations.layer keptEvents",
  "Operations.layer keptChars",
  "Operations.layer listed",
  "Operations.layer maxListed",
  "Limits.layer strangers.perAddress",
  "Limits.layer strangers.ofAll",
  "Limits.layer bodies.perUser",
  "Limits.layer bodies.ofAll",
  "Limits.layer answers.perUser",
  "Limits.layer answers.ofAll",
  "Cluster.layer healthCheck",
  "Cluster.layer refreshAssignments",
  "Cluster.layer linger",
  "Cluster.layer sweep"
])

/** Values that the code has by name. */
const named: Readonly<Record<string, unknown>> = {
  principal: Context.get(Context.empty(), ToolExecutor.Principal),
  roles: Context.get(Context.empty(), RolesOf),
  "policy.lock": Result.getOrThrow(Policy.parse({})).locks.length > 0,
  guards: Effect.runSync(HostGates.provided({ first: [], last: [] }))(new Map()).guard,
  ...dotted("", ExecutorSettings.defaults),
  ...dotted("dedupe.", Dedupe.defaults),
  ...dotted("circuitBreaker.", ToolLimits.circuitDefaults),
  ...dotted("Cluster.layer ", RunnerOptions.defaults),
  ...dotted("rateLimit.", ToolLimits.rateDefaults),
  ...dotted("StateStore.layerMemory ", StateStore.memoryDefaults),
  ...dotted("SqlStateStore.layer ", SqlStateStore.defaults),
  ...dotted("ArtifactStore.layerMemory ", ArtifactStore.defaults),
  ...dotted("Checkpoints.layerMemory ", Checkpoints.defaults),
  ...dotted("JournalFile.layer ", JournalFile.defaults),
  ...dotted("SqlJournal.layer ", SqlJournal.defaults),
  ...dotted("AiSdk.layerLanguageModel ", AiSdkModel.defaults),
  ...dotted("Reviewer.layer ", Reviewer.defaults),
  ...dotted("PendingApprovals.layer ", PendingApprovals.defaults),
  ...dotted("Waves.layer ", Waves.defaults),
  ...dotted("Operations.layer ", Operations.defaults),
  ...dotted("Draining.layer ", Draining.defaults),
  ...dotted("Limits.layer ", Limits.defaults),
  "turn.timeout": TurnBudget.unlimited.limitMillis,
  "turn.minimumSlice": `${TurnBudget.unlimited.minimumSliceMillis / 1_000} seconds`,
  "turn.maxCalls": TurnBudget.unlimited.maxCalls
}

const values = Object.fromEntries(Object.entries(named).filter(([option]) => !inside.has(option)))

/** Where the code has each of the others: a file, and what stands before and after the value. */
const places: Readonly<Record<string, readonly [file: string, before: string, after: string]>> = {
  "policy.default": ["src/core/gates/Policy.ts", "isGiven ? defaults : [{ is: ", ","],
  "policy.mode": ["src/core/gates/Policy.ts", "filter((it) => it.is !== ", " &&"],
  "Approvals.layer timeout": ["src/core/gates/Approvals.ts", "options?.timeout ?? ", ")"],
  "Webhook.layer delay": ["src/server/notify/Webhook.ts", "options.delay ?? ", ","],
  "Webhook.layer format": ["src/server/notify/Webhook.ts", "const { format = ", " }"],
  "WebPush.layerNotices delay": ["src/server/notify/WebPush.ts", "options?.delay ?? ", ","],
  "AnswerLinks.layer validFor": ["src/server/notify/AnswerLinks.ts", "options.validFor ?? ", ")"],
  "pools.read": ["src/core/gates/Pools.ts", "pool(\"read\", ", ")"],
  "pools.concurrent": ["src/core/gates/Pools.ts", "pool(\"concurrent\", ", ","],
  "pools.serial": ["src/core/gates/Pools.ts", "pool(\"serial\", ", ")"]
}

/** As people write it: `5 minutes` of a text, with commas in large numbers. */
const spoken = (code: string | undefined): string => {
  if (code === undefined) return "unknown"
  if (code === "Infinity" || code === "[]") return "none"
  if (/^[\d_]+$/.test(code)) return Number(code.replaceAll("_", "")).toLocaleString("en-US")
  return /^"\d+ \w+"$/.test(code) ? code.slice(1, -1) : code
}

describe("the table of defaults", () => {
  for (const [option, [file, before, after]] of Object.entries(places)) {
    it(`has ${option} as the code has it`, () => {
      const source = read(file)
      const start = source.indexOf(before)
      assert.isAbove(start, -1, `${file} has ${JSON.stringify(before)}`)
      const begin = start + before.length
      assert.strictEqual(rows.get(option), spoken(source.slice(begin, source.indexOf(after, begin))))
    })
  }

  for (const [option, value] of Object.entries(values)) {
    it(`has ${option} as it is where nobody sets it`, () => {
      const code = value === Infinity ? "Infinity" : JSON.stringify(value)
      assert.strictEqual(rows.get(option), spoken(code))
    })
  }

  it("has no row that nobody looks at, and every option of the one-line executor", () => {
    assert.sameMembers(Array.from(rows.keys()), [...Object.keys(values), ...Object.keys(places)])
    assert.deepStrictEqual(Array.from(inside).filter((option) => !(option in named)), [])
    const options = read("src/assembly/LocalExecutor.ts").split("export interface Options")[1]!.split("\n}")[0]!
    for (const [, name] of options.matchAll(/readonly (\w+)\?/g)) {
      const isThere = Array.from(rows.keys()).some((it) => it === name || it.startsWith(`${name}.`)) ||
        inside.has(name!)
      assert.isTrue(isThere || ["rules", "tools", "provenance"].includes(name!), name)
    }
  })
})
