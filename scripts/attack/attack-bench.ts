/**
 * Replays attack data through the real executor, without a model: `npm run try -- attack-bench DATA`.
 *
 * docs/attack-bench.md has the formats of DATA, how outputs are made, and how to read the table.
 */
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { basename } from "node:path"
import { parseArgs } from "node:util"
import {
  attackedBy,
  type Declarations,
  type Generated,
  policies,
  provenance,
  ready,
  type Row,
  row,
  total
} from "./Bench.ts"
import { declarationsOf } from "./Replay.ts"
import { read } from "./Suite.ts"

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: "boolean", default: false },
    seed: { type: "string", default: "1" },
    names: { type: "boolean", default: false },
    peers: { type: "boolean", default: false },
    declared: { type: "string" },
    declarations: { type: "boolean", default: false }
  }
})

if (positionals.length === 0) {
  console.error(`Usage: npm run try -- attack-bench DATA... [options]

  DATA              suites (AgentDojo's calls) or recorded runs (τ-bench), as JSON
  --declared FILE   declarations by tool, in the place of derived ones
  --declarations    print the declarations that are used, and end
  --seed N          seed of the reviewer's coin (default 1)
  --peers           members write the injection, too, not only strangers
  --names           name the pairs that went through, and the tasks that were asked about
  --json            print JSON`)
  process.exit(2)
}

const json = (path: string): unknown => JSON.parse(readFileSync(path, "utf8"))

const declared = values.declared === undefined ? {} : json(values.declared) as Declarations

const suites = positionals.flatMap((path) => ready(basename(path, ".json"), read(json(path)), declared))

if (values.declarations) {
  const all = Object.fromEntries(
    suites.map(({ name, world }) => [name, declarationsOf(Array.from(world.tools.values()))])
  )
  console.log(JSON.stringify(all, null, 2))
  process.exit(0)
}

const percent = (part: number, of: number) => of === 0 ? "–" : `${part} (${(part / of * 100).toFixed(1)} %)`

const head = "| policy | suite | attack pairs | stopped | asked | through | honest tasks | unasked | asked | refused |"

const line = ({ asked, askedTasks, finished, pairs, policy, refusedTasks, stopped, suite, tasks, through }: Row) =>
  `| ${
    [
      policy,
      suite,
      pairs,
      stopped,
      asked,
      percent(through, pairs),
      tasks,
      finished,
      percent(askedTasks, tasks),
      refusedTasks
    ].join(" | ")
  } |`

const print = (rows: ReadonlyArray<Row>, attacks: ReadonlyArray<Generated>) => {
  console.log(`${head}\n|${" --- |".repeat(10)}\n${rows.map(line).join("\n")}`)
  if (attacks.length > 0) {
    console.log("\n| generated attacker | suite | attacks | through |\n| --- | --- | --- | --- |")
    for (const it of attacks) console.log(`| ${it.attacker} | ${it.suite} | ${it.attacks} | ${it.through} |`)
  }
  for (const it of rows) {
    if (it.harmless > 0) console.log(`\n${it.policy}, ${it.suite}: ${it.harmless} pairs have nothing to stop.`)
    if (it.later > 0) {
      console.log(`\n${it.policy}, ${it.suite}: a later step ran in ${it.later} pairs that were held up.`)
    }
    if (!values.names) continue
    for (const name of it.names.through) console.log(`  through under ${it.policy}, ${it.suite}: ${name}`)
    for (const name of it.names.asked) console.log(`  asked under ${it.policy}, ${it.suite}: ${name}`)
  }
  if (values.names) {
    for (const it of attacks) for (const name of it.names) console.log(`  ${it.attacker} through: ${name}`)
  }
}

const program = Effect.gen(function*() {
  const rows: Array<Row> = []
  for (const gates of policies(Number(values.seed))) {
    const own = yield* Effect.forEach(suites, (it) => row(gates, it, values.peers))
    rows.push(...own, ...own.length > 1 ? [total(gates.name, own)] : [])
  }
  const attacks = (yield* Effect.forEach(suites, (it) => attackedBy(it))).flat()
  const isBroken = rows.some((it) => it.policy === provenance.name && it.refusedTasks > 0) ||
    attacks.some((it) => it.attacker !== "content" && it.through > 0)
  if (isBroken) process.exitCode = 1
  if (values.json) console.log(JSON.stringify({ rows, attacks }, null, 2))
  else print(rows, attacks)
})

await Effect.runPromise(program)
