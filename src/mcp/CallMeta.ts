/** What a client sends with a call in `_meta`. */
import * as McpSchema from "effect/ai/McpSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SessionCalls from "./SessionCalls.ts"

/**
 * Key in the `_meta` of a call with which a client asks for the whole outcome (`true`), and under which it gets it:
 * `ToolOutcome` as JSON.
 */
export const outcomeKey = "effect-tool-executor/outcome"

/** Key in the `_meta` of a call for an id of the client's own, such as the model's: at most 1,000 characters. */
export const callKey = "effect-tool-executor/call"

/** The parts of `_meta` that the gateway reads. */
export interface CallMeta {
  readonly place: SessionCalls.Place | undefined
  readonly call: string | undefined
  readonly progressToken: string | number | undefined
  readonly wantsOutcome: boolean
}

/** Reads it. */
export const readMeta = (meta: Readonly<Record<string, unknown>> = {}) =>
  Result.gen(function*() {
    const place = meta[SessionCalls.waveKey]
    const call = meta[callKey]
    const token = meta.progressToken
    if (call !== undefined && (typeof call !== "string" || call.length > 1_000)) {
      const message = `_meta["${callKey}"]: expected a string of at most 1000 characters`
      return yield* Result.fail(new McpSchema.InvalidParams({ message }))
    }
    return {
      place: place === undefined ? undefined : yield* Result.mapError(
        decodePlace(place),
        (error) =>
          new McpSchema.InvalidParams({
            message:
              `_meta["${SessionCalls.waveKey}"]: ${error.message}\nIt is { id, index, size }: the turn's own id, ` +
              "the call's place in it from 0, and how many calls it has, at most 1000."
          })
      ),
      call,
      progressToken: typeof token === "string" || typeof token === "number" ? token : undefined,
      wantsOutcome: meta[outcomeKey] === true
    }
  })

const decodePlace = Schema.decodeUnknownResult(SessionCalls.Place)
