// Runs one wave after another until it is killed, and says which.
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { writeSync } from "node:fs"
import * as Subject from "./subject.ts"

const [database, service, name] = process.argv.slice(2) as [string, string, string]

const work = Effect.gen(function*() {
  for (let index = 0;; index++) {
    const batch = `${name}.${index}`
    const turn = yield* Subject.processOf(batch)
    // written whole before the wave begins: whoever kills this process knows which one it was
    writeSync(1, `${batch}\n`)
    yield* turn.executeWave(Subject.waveOf(batch))
  }
})

await Effect.runPromise(
  Effect.scoped(Effect.provide(work, Subject.layer(database, service, { lease: Subject.lease }))).pipe(
    // the lines of stdout are names of waves
    Effect.provideService(Logger.LogToStderr, true)
  )
)
