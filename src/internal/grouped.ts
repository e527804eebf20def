/**
 * Combines requests of the same moment into one group. Requests that arrive while a group is being answered form the
 * next group.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

/** One request of a group. */
interface Waiting<A, B, E> {
  readonly question: A
  readonly resume: (answer: Effect.Effect<B, E>) => void
}

/** Groups questions; the answers of a group are in its order. */
export class Grouped<A, B, E = never> {
  private readonly answer: (questions: ReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E>
  private readonly context: Context.Context<never>
  private next: Array<Waiting<A, B, E>> = []
  private isAsking = false

  constructor(
    answer: (questions: ReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E>,
    context: Context.Context<never>
  ) {
    this.answer = answer
    this.context = context
  }

  /** Asks with the next group. Who waits no longer takes nothing from the others: the group is answered. */
  ask(question: A): Effect.Effect<B, E> {
    return Effect.callback((resume) => {
      this.next.push({ question, resume })
      if (this.isAsking) return
      this.isAsking = true
      Effect.runForkWith(this.context)(this.asking)
    })
  }

  private readonly asking = Effect.gen({ self: this }, function*() {
    // requests of the same moment join the group
    yield* Effect.yieldNow
    while (this.next.length > 0) {
      const group = this.next
      this.next = []
      const exit = yield* Effect.exit(Effect.suspend(() => this.answer(group.map((it) => it.question))))
      for (const [index, { resume }] of group.entries()) {
        resume(Exit.isSuccess(exit) ? Effect.succeed(exit.value[index]!) : Effect.failCause(exit.cause))
      }
    }
    this.isAsking = false
  })
}
