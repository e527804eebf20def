/** A process that has an operation, and kills itself at an event of it. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { modelAt, type Name } from "../providers/providers.ts"
import { agentsIn, begin } from "./stopped.ts"

const { at, folder, name, url } = JSON.parse(process.argv[2]!) as {
  readonly at: number
  readonly folder: string
  readonly name: Name
  readonly url: string
}

const program = Effect.gen(function*() {
  const agents = yield* agentsIn(folder, modelAt(name, url))
  const agent = yield* agents.start(begin)
  let count = 0
  yield* Stream.runForEach(agent.events, () =>
    Effect.sync(() => {
      if (count++ === at) process.kill(process.pid, "SIGKILL")
    }))
})

await Effect.runPromise(Effect.scoped(program))
process.exit(0)
