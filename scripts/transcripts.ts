/**
 * Counts what a person is asked in the written coding sessions of the tests: without a sandbox, with one, and with the
 * rules that the first half proposes. `npm run try -- transcripts`.
 */
import * as Effect from "effect/Effect"
import { Journal } from "../src/index.ts"
import { all, compared, type Replayed } from "../test/support/transcripts/replay.ts"

const { after, before, half, suggestions, without } = await Effect.runPromise(
  compared.pipe(Effect.provide(Journal.layerMemory()))
)

const row = (name: string, them: ReadonlyArray<Replayed>) => {
  const sum = (of: (it: Replayed) => ReadonlyArray<string>) => them.reduce((total, it) => total + of(it).length, 0)
  console.log(
    `${name.padEnd(46)} ${String(sum((it) => it.asked)).padStart(5)} ${String(sum((it) => it.denied)).padStart(7)}`
  )
}

console.log(`${all.length} sessions, ${all.reduce((sum, { calls }) => sum + calls.length, 0)} calls\n`)
console.log(`${"".padEnd(46)} asked  denied`)
row("first half, without sandbox", without.slice(0, half))
row("first half, with sandbox", before)
row("second half, without sandbox", without.slice(half))
row("second half, with sandbox and proposed rules", after)
console.log("\nProposed rules:")
for (const { approvals, rule } of suggestions) console.log(`  ${rule}  (${approvals} approvals)`)
console.log("\nAsked in the second half:")
for (const it of after.flatMap(({ asked }) => asked)) console.log(`  ${it}`)
