// Benchmarks as one table. Nothing here fails: it is for reading.
//
//     npm run bench                                everything, a few minutes
//     npm run bench -- --only single,wave          some of it, by name
//     npm run bench -- --markdown                  the table for a document
//     npm run bench -- --cpu                       time of the processor: for a machine that others keep busy
import { Effect, type Scope } from "effect"
import { parseArgs } from "node:util"
import { agents, longAgent } from "./agents.ts"
import { approvals } from "./approvals.ts"
import { guard } from "./guard.ts"
import { allocated, long, remembered, wide } from "./memory.ts"
import { others } from "./others.ts"
import { provenance } from "./provenance.ts"
import { durable, recorded } from "./records.ts"
import { rules } from "./rules.ts"
import { idle, served } from "./served.ts"
import { start } from "./start.ts"
import * as Table from "./table.ts"
import { telemetry } from "./telemetry.ts"
import { capped, growth, limited, single, waiting, wave, yielding } from "./waves.ts"

type Measurement = Effect.Effect<ReadonlyArray<Table.Line>, unknown, Scope.Scope>

/** In the order of the table; first what has bars. */
const measurements: Readonly<Record<string, Measurement>> = {
  single,
  wave,
  limited,
  allocated,
  remembered,
  waiting,
  yielding,
  growth,
  rules,
  provenance,
  telemetry,
  capped,
  long,
  wide,
  approvals,
  recorded,
  durable,
  guard,
  agents,
  longAgent,
  served,
  idle,
  others,
  start
}

const { values: { markdown, only } } = parseArgs({
  options: { cpu: { type: "boolean" }, only: { type: "string" }, markdown: { type: "boolean", default: false } }
})
const wanted = only?.split(",") ?? Object.keys(measurements)
const unknown = wanted.filter((name) => !Object.hasOwn(measurements, name))
if (unknown.length > 0) {
  console.error(`--only: ${unknown.join(", ")} is not measured; there is ${Object.keys(measurements).join(", ")}`)
  process.exit(1)
}

const lines: Array<Table.Line> = []
for (const name of wanted) {
  process.stderr.write(`${name} `)
  lines.push(...await Effect.runPromise(Effect.scoped(measurements[name]!)))
}
process.stderr.write("\n\n")
console.log(markdown ? Table.markdown(lines) : Table.text(lines))
