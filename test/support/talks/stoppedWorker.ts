/** A process that has an operation, and kills itself at an event of it, or in the middle of an execution. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { modelAt, type Name } from "../providers/providers.ts"
import { agentsIn, begin } from "./stopped.ts"

const { at, folder, name, url } = JSON.parse(process.argv[2]!) as {
  readonly at: number | string
  readonly folder: string
  readonly name: Name
  readonly url: string
}

const reached = (place: number | string) => {
  if (place === at) process.kill(process.pid, "SIGKILL")
}

const program = Effect.gen(function*() {
  const agents = yield* agentsIn(folder, modelAt(name, url), reached)
  const agent = yield* agents.start(begin)
  let count = 0
  yield* Stream.runForEach(agent.events, () => Effect.sync(() => reached(count++)))
})

await Effect.runPromise(Effect.scoped(program))
process.exit(0)
