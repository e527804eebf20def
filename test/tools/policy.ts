import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { Approvals, LocalExecutor, type Policy, ToolCall, ToolExecutor } from "../../src/index.ts"
import { WorkspaceTools } from "../../src/tools/index.ts"

/** The texts that a model gets for calls over a folder, with the same answer to every question; without one, and after so many, nobody is there. */
export const throughPolicy = Effect.fnUntraced(function*(
  options: WorkspaceTools.Options,
  policy: Policy.Policy,
  wave: ReadonlyArray<readonly [name: string, params: object]>,
  answer?: Approvals.Answer,
  questions = Infinity
) {
  const made = WorkspaceTools.make(options)
  return yield* Effect.gen(function*() {
    const executor = yield* ToolExecutor.ToolExecutor
    const process = yield* executor.process()
    const people = yield* Approvals.Approvals
    const calls = wave.map(([name, params], index) => ToolCall.make(String(index), name, params))
    let left = questions
    const running = yield* Effect.forkChild(process.executeWave(calls))
    while (running.pollUnsafe() === undefined) {
      for (const { id } of yield* people.list) {
        yield* answer === undefined || --left < 0 ? people.giveUp(id) : Effect.ignore(people.answer(id, answer))
      }
      yield* Effect.sleep(5)
    }
    const { toolMessages } = yield* Fiber.join(running)
    return toolMessages.map((it) => it.text)
  }).pipe(
    Effect.scoped,
    Effect.provide(
      LocalExecutor.layer(made.toolkit, { policy, dedupe: false }).pipe(
        Layer.provide(made.layer),
        Layer.provideMerge(Approvals.layer())
      )
    )
  )
})
