// Has every conversation over every protocol and goes on from it with every model; makes every change of model; stops an
// operation at each of its events, in each way, and goes on. The servers refuse what the real ones refuse.
//
//     npm run try -- talks                             all of it: about half an hour
//     npm run try -- talks talks                       the conversations alone; or changes, or stops
//     npm run try -- talks stops --way killed --over anthropic
//     npm run try -- talks stops --every 10 --seed 7   each tenth event, from another one on
import * as Effect from "effect/Effect"
import { parseArgs } from "node:util"
import { type Name, names } from "../../test/support/providers/providers.ts"
import * as Change from "../../test/support/talks/change.ts"
import * as Stopped from "../../test/support/talks/stopped.ts"
import { talks } from "../../test/support/talks/table.ts"
import * as Talk from "../../test/support/talks/talk.ts"

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    way: { type: "string" },
    over: { type: "string" },
    every: { type: "string", default: "1" },
    seed: { type: "string", default: "0" }
  }
})

const over = names.filter((name) => values.over === undefined || values.over === name)

/** Something to try, and what is not as it has to be. */
interface Trial {
  readonly name: string
  readonly problems: Effect.Effect<ReadonlyArray<string>>
}

const parts: Readonly<Record<string, () => Effect.Effect<ReadonlyArray<Trial>>>> = {
  talks: () =>
    Effect.succeed(over.flatMap((name) =>
      talks.filter((talk) => talk.over?.includes(name) ?? true).map((talk) => ({
        name: `${talk.name}, over ${name}`,
        problems: Talk.problemsOf(talk, name, names)
      }))
    )),
  changes: () =>
    Effect.succeed(over.flatMap((from) =>
      names.flatMap((to) => Change.changes(from, to)).map((change) => ({
        name: JSON.stringify(change),
        problems: Change.problemsOf(change)
      }))
    )),
  stops: () =>
    Effect.map(
      Effect.forEach(over, (name) => Effect.map(Stopped.eventsOver(name), ({ length }) => stopsOver(name, length))),
      (all) => all.flat()
    )
}

const stopsOver = (over: Name, count: number): ReadonlyArray<Trial> =>
  Stopped.ways.filter((way) => values.way === undefined || values.way === way).flatMap((way) =>
    [
      ...Array.from({ length: count }, (_, at) => at)
        .filter((at) => (at + Number(values.seed)) % Number(values.every) === 0),
      ...way === "killed" ? Stopped.executions : []
    ].map((at) => ({
      name: `${way} at ${at} over ${over}`,
      problems: Stopped.problemsOf({ way, over, at, next: names })
    }))
  )

const program = Effect.gen(function*() {
  let failed = 0
  for (const part of positionals.length === 0 ? Object.keys(parts) : positionals) {
    const trials = yield* parts[part]!()
    const found = yield* Effect.forEach(trials, ({ name, problems }) =>
      Effect.map(problems, (all) => {
        for (const problem of all) console.log(`${name}: ${problem}`)
        return all.length > 0
      }), { concurrency: 2 })
    const count = found.filter(Boolean).length
    console.log(`${part}: ${trials.length} tried, ${count} not as they have to be`)
    failed += count
  }
  return failed
})

process.exit(await Effect.runPromise(program) === 0 ? 0 : 1)
