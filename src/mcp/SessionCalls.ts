/**
 * Calls of one MCP session. MCP has no turns: calls go as they come, reads side by side, a write alone. A client that
 * knows which of them belong to one turn of its model says so in `_meta`, and they are one wave.
 */
import { InvalidParams } from "effect/ai/McpSchema"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Answer, ToolProcess } from "../core/contract/ToolProcess.ts"
import type { ToolCall } from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import { text, type ToolOutcome } from "../core/vocabulary/ToolOutcome.ts"
import { renewed } from "./renewed.ts"

/** Key in the `_meta` of a call that says which turn it belongs to. */
export const waveKey = "effect-tool-executor/wave"

/**
 * Schema of what a call says about its turn: the turn's own id, the call's place in it from 0, and how many calls it
 * has.
 */
export const Place = Schema.Struct({
  id: Schema.String.check(Schema.isMaxLength(200)),
  index: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  size: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000 }))
}).check(Schema.makeFilter(({ index, size }) => index < size, { expected: "an index below the size" }))

/** What a call says about its turn. */
export type Place = typeof Place.Type

/** How long a turn waits for calls that do not come. */
const turnTimeout = "10 seconds"

/** Runs a call: in its turn, if it says which. Fails where its place is taken, or the turn has another size. */
export type Run = (call: ToolCall, place: Place | undefined) => Effect.Effect<Ended, InvalidParams>

/** How a call ended, and the text and content for the model. */
export type Ended = Pick<Answer, "outcome" | "text" | "content">

/** Creates what runs the calls of a session. A turn that is not whole waits no longer once `hurry` is done. */
export const make = Effect.fnUntraced(function*(
  process: ToolProcess,
  hurry: Effect.Effect<unknown> = Effect.never
): Effect.fn.Return<Run, never, Scope.Scope> {
  const scope = yield* Effect.scope
  // calls without a turn share the step that is running
  const step = renewed(Effect.mapError(process.step, ({ problems }) => {
    const why = problems.map((it) => it.problem).join("; ")
    return new InvalidParams({ message: `${why}. Say in _meta["${waveKey}"] which turn the call belongs to.` })
  }))
  const turns = new Map<string, Turn>()

  const begin = (id: string, turn: Turn): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (turns.get(id) !== turn) return Effect.void
      turns.delete(id)
      const calls = Array.from(turn.calls).flatMap(([index, call]) => call === undefined ? [] : [{ index, call }])
        .sort((a, b) => a.index - b.index)
      return Effect.flatMap(
        process.executeWave(calls.map(({ call }) => call)),
        ({ outcomes }) =>
          Deferred.succeed(turn.outcomes, new Map(outcomes.map((outcome, place) => [calls[place]!.index, outcome])))
      )
    })
  const beginIfWhole = (id: string, turn: Turn) =>
    turn.calls.size < turn.size
      ? Effect.void
      : Effect.forkIn(begin(id, turn), scope, { startImmediately: true })
  const cancel = (call: ToolCall, { id, index }: Place, turn: Turn) =>
    Effect.suspend((): Effect.Effect<unknown> => {
      if (turns.get(id) !== turn) return process.cancelCall(call.id, "the client cancelled it")
      // before its turn has begun: nothing of it is run
      turn.calls.set(index, undefined)
      return beginIfWhole(id, turn)
    })
  const ofTurn = Effect.fnUntraced(function*(call: ToolCall, place: Place) {
    const { id, index, size } = place
    let turn = turns.get(id)
    if (turn === undefined) {
      turn = { size, calls: new Map(), outcomes: Deferred.makeUnsafe() }
      turns.set(id, turn)
      yield* Effect.forkIn(Effect.andThen(Effect.timeoutOption(hurry, turnTimeout), begin(id, turn)), scope)
    }
    if (turn.calls.has(index) || turn.size !== size) {
      const problem = turn.size === size ? `has its call ${index} already` : `has ${turn.size} calls, not ${size}`
      return yield* new InvalidParams({ message: `_meta["${waveKey}"]: the turn ${problem}` })
    }
    turn.calls.set(index, call)
    yield* beginIfWhole(id, turn)
    const outcomes = yield* Effect.onInterrupt(Deferred.await(turn.outcomes), () => cancel(call, place, turn))
    const outcome = outcomes.get(index)!
    const told = text(outcome)
    const shown = outcome._tag === "Succeeded" ? outcome.output.content : undefined
    return { outcome, text: told, content: shown ?? [ToolContent.text(told)] }
  })
  const alone = (call: ToolCall) => Effect.scoped(Effect.flatMap(step, (it) => it.execute(call)))
  return (call, place) => place === undefined ? alone(call) : ofTurn(call, place)
})

interface Turn {
  readonly size: number
  /** By place; `undefined` where it was cancelled before the turn began. */
  readonly calls: Map<number, ToolCall | undefined>
  readonly outcomes: Deferred.Deferred<ReadonlyMap<number, ToolOutcome>>
}
