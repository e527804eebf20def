/** Many random waves and agents that die and are resumed: `npm run try -- law:resume --from 1 --count 2000`. */
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as SimulateStores from "../../src/cli/simulate/SimulateStores.ts"
import type { Store } from "../../src/testing/Scenario.ts"
import { tried } from "../../test/support/resumeLaw.ts"
import { flags } from "../flags.ts"

const { count, deaths, from, store } = flags({ from: 1, count: 500, deaths: 4, store: "memory" })

const program = Effect.gen(function*() {
  const stores = yield* SimulateStores.make
  let [worlds, broken] = [0, 0]
  for (let seed = from; seed < from + count; seed++) {
    const found = yield* tried(seed, deaths, { store: store as Store, stores })
    if (found === undefined) continue
    worlds++
    for (const { crash, expected, got, scenario } of found) {
      broken++
      console.log(`seed ${seed}, entry ${crash}: expected ${expected.join(" ")}, got ${got.join(" ")}`)
      if (broken <= 3) console.log(JSON.stringify(scenario))
    }
  }
  console.log(`${store}: ${worlds} worlds, ${broken} deaths after which something was otherwise`)
  if (broken > 0) process.exitCode = 1
})

await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(Logger.layer([]))))
