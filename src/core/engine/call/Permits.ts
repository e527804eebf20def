/**
 * Permits: a call waits in line for the resources it touches, its tool's concurrency limit and the pool of its class.
 *
 * Calls get in line in the order in which they were admitted. The resources of a call may have to be looked up first;
 * later calls that touch resources wait for that.
 */
import * as Effect from "effect/Effect"
import { exitOf } from "../../../internal/exitOf.ts"
import * as ToolAnswers from "./arrive/ToolAnswers.ts"
import type { Call } from "./Call.ts"
import type { WaveHost } from "./WaveHost.ts"

/** Ends once the call holds everything it needs. */
export const permits = (wave: WaveHost, call: Call): Effect.Effect<void> => {
  const { approval, pools } = wave.engine
  // with upfront approval nothing starts while requests are pending
  if (approval === "upfront" && wave.waits.requests > 0) {
    return Effect.flatMap(wave.waits.quiet(call.index), () => inLine(wave, call))
  }
  const keys = ToolAnswers.resources(wave, call)
  const known = exitOf(keys)
  return known?._tag === "Success" && (wave.waits.line.length === 0 || known.value.length === 0)
    ? enter(pools, call, known.value)
    : inLine(wave, call, keys)
}

const enter = (pools: WaveHost["engine"]["pools"], call: Call, keys: ReadonlyArray<string>): Effect.Effect<void> => {
  call.resources = keys
  return pools.enter(call)
}

const inLine = Effect.fnUntraced(function*(
  wave: WaveHost,
  call: Call,
  keys: Effect.Effect<ReadonlyArray<string>> = ToolAnswers.resources(wave, call)
) {
  const place = { isKnown: false, go: () => {} }
  const { waits } = wave
  waits.line.push(place)
  const leave = Effect.sync(() => {
    const at = waits.line.indexOf(place)
    if (at !== -1) waits.line.splice(at, 1)
    // detached: the current call goes to its permits first
    wave.detach(Effect.andThen(Effect.yieldNow, Effect.sync(() => advance(wave))))
  })
  call.resources = yield* Effect.onInterrupt(keys, () => leave)
  if (waits.line[0] === place || call.resources.length === 0) yield* leave
  else {
    yield* Effect.callback<void>((resume) => {
      place.isKnown = true
      place.go = () => resume(Effect.void)
      return leave
    })
  }
  yield* wave.engine.pools.enter(call)
})

/** Lets the calls at the front of the line whose resources are known go to their permits. */
const advance = (wave: WaveHost): void => {
  const { line } = wave.waits
  while (line[0]?.isKnown === true) line.shift()!.go()
}
