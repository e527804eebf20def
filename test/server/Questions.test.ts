/** Questions of all sessions: who sees and answers them, what is shown, how they end. */
import { assert, describe, it } from "@effect/vitest"
import { Approvals } from "effect-tool-executor"
import { type ApiAccess, LiveLog, Questions } from "effect-tool-executor/server"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"

export const user = (name: string, approve: ReadonlyArray<string>): ApiAccess.User => ({
  name,
  run: true,
  approve,
  records: [],
  operate: false
})

const ada = user("ada", ["bob"])
const eve = user("eve", ["eve"])

const question = (more: Partial<Approvals.Question> = {}): Approvals.Question => ({
  principal: "bob/s",
  agentPath: [],
  batch: "b",
  process: "p",
  callId: "c",
  tool: "write",
  class: "SerialMut",
  args: { path: "a.txt" },
  targets: [{ text: "a.txt" }],
  why: "the policy asks",
  preview: undefined,
  isRunning: false,
  remember: "tool",
  ...more
})

const layer = (options?: Questions.Options) => Questions.layer(options).pipe(Layer.provideMerge(LiveLog.layer()))

const ask = Effect.fnUntraced(function*(more?: Partial<Approvals.Question>) {
  const approvals = yield* Approvals.Approvals
  const request = yield* approvals.request(question(more))
  const fiber = yield* Effect.forkChild(approvals.ask(request), { startImmediately: true })
  return { id: request.id, fiber }
})

describe("Questions", () => {
  it.effect("answers once: the second is told who was first, and how", () =>
    Effect.gen(function*() {
      const questions = yield* Questions.Questions
      const { fiber, id } = yield* ask()
      const [open] = (yield* questions.list(ada)).open
      const given = { id, hash: open!.hash, answer: { _tag: "ApproveOnce" } as const }
      assert.strictEqual((yield* Effect.flip(questions.answer(eve, given)))._tag, "NotFound")
      const ended = yield* questions.answer(ada, given)
      assert.strictEqual(ended.how, "approved")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "Approved")
      const second = yield* Effect.flip(questions.answer(user("cy", ["*"]), given))
      assert.deepInclude(second, { _tag: "AlreadyEnded", how: "approved", by: "ada", at: 0 })
    }).pipe(Effect.provide(layer())))
})
