// Prints what a call allocates, in kilobytes: through the executor, without dedupe, by hand. Run by `memory.ts`, with a
// young generation so wide that nothing is collected during a wave.
import { Effect } from "effect"
import { heap, median, type Side } from "./measure.ts"
import { byHand, open, ours, plenty } from "./subject.ts"

const used = async ({ calls, prepare }: Side): Promise<number> => {
  const run = prepare()
  heap()
  const before = process.memoryUsage().heapUsed
  await run()
  return (process.memoryUsage().heapUsed - before) / 1_000 / calls
}

const main = Effect.gen(function*() {
  const [full, bare] = [yield* open(plenty), yield* open(plenty, { dedupe: false })]
  const sides = [ours(full, "read", 1_000), ours(bare, "read", 1_000), byHand(plenty, "read", 1_000)]
  const all = sides.map((): Array<number> => [])
  yield* Effect.promise(async () => {
    for (let round = -30; round < 15; round++) {
      for (const [index, side] of sides.entries()) {
        const kilobytes = await used(side)
        if (round >= 0) all[index]!.push(kilobytes)
      }
    }
  })
  console.log(JSON.stringify(all.map(median)))
}).pipe(Effect.scoped)

await Effect.runPromise(main)
