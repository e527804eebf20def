/**
 * The texts of stored waves: JSON with a version. They hold events as the host has them; what clients see of them is
 * decided when they are read.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as Event from "../../core/facts/ToolEvent.ts"
import { TurnState } from "../../core/gates/TurnState.ts"
import { ToolOutcome } from "../../core/vocabulary/ToolOutcome.ts"
import * as Versioned from "../../internal/versioned.ts"
import * as Projection from "../../wire/Projection.ts"
import * as WireFormat from "../../wire/WireFormat.ts"
import { Stuck, WaveInfo } from "../api/ApiModels.ts"

export const SubmittedWave = Schema.Struct({
  user: Schema.String,
  session: Schema.String,
  turn: Schema.String,
  wave: Schema.String,
  format: WireFormat.Format,
  message: Schema.Json,
  /** What the user said before it. */
  said: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Epoch milliseconds. */
  beganAt: Schema.Finite,
  /** It could not continue. */
  stuck: Schema.optionalKey(Stuck)
})

const ofCalls = [
  Event.ToolCallQueued,
  Event.ToolShadowed,
  Event.ToolReviewed,
  Event.ToolApprovalRequested,
  Event.ToolApprovalResolved,
  Event.ToolCallStart,
  Event.ToolCallComplete
] as const

/** Schema of the events that are always kept: what happens to calls, and the end of the wave. */
export const LifecycleEvent = Schema.Union([...ofCalls, Event.ToolsEnd, Event.WaveSuspended])

export type LifecycleEvent = typeof LifecycleEvent.Type

/** Schema of the result of a wave: what the provider is sent, and the lifecycle events. */
export const Ended = Schema.Struct({
  /** Epoch milliseconds. */
  at: Schema.Finite,
  messages: Schema.Json,
  events: Schema.Array(LifecycleEvent)
})

/** Schema of what a turn remembers between its waves. */
export const KeptTurn = Schema.Struct({
  state: TurnState,
  /** The last wave whose end is in the state. */
  wave: Schema.String,
  /** Epoch milliseconds of that end. */
  at: Schema.Finite
})

export const EndedAt = Schema.Struct({ at: Schema.Finite, id: Schema.String })

/** Tells whether an event is always kept. */
export const isLifecycle = <Tagged extends { readonly _tag: string }>(
  event: Tagged
): event is Extract<Tagged, { readonly _tag: LifecycleEvent["_tag"] }> => lifecycle.has(event._tag)

/** Encodes and decodes the texts of one kind of record. */
export interface Text<A> {
  readonly encode: (value: A) => string
  readonly decode: (text: string) => Result.Result<A, Error>
}

export const textOf = <A>(schema: Schema.Codec<A, unknown>): Text<A> => {
  const read = Schema.decodeUnknownResult(schema)
  return {
    encode: (value) => Versioned.encode(1, JSON.stringify(value)),
    decode: (text) => Versioned.decode({ 1: read }, text)
  }
}

export const submitted = textOf(SubmittedWave)

export const keptTurn = textOf(KeptTurn)

/** How a turn is found. */
export const turnName = textOf(Schema.Struct({ turn: Schema.String }))

export const endedAt = textOf(EndedAt)

/** What lists over several processes show of a wave. */
export const info = textOf(WaveInfo)

/** An outcome that a `ToolCallComplete` has already is stored once: its second place holds the number of that event. */
export const ended: Text<typeof Ended.Type> = {
  encode: ({ events, ...rest }) => {
    const places = new Map(events.map((it, place) => [it._tag === "ToolCallComplete" ? it.outcome : it, place]))
    const stored = events.map((it) =>
      project("executionResults" in it ? { ...it, executionResults: it.executionResults.map(placeIn(places)) } : it)
    )
    return Versioned.encode(1, JSON.stringify({ ...rest, events: stored }))
  },
  decode: (text) => Versioned.decode({ 1: readEnded }, text)
}

const lifecycle: ReadonlySet<string> = new Set(
  LifecycleEvent.members.flatMap(({ fields: { _tag: { ast } } }) =>
    SchemaAST.isLiteral(ast) ? [String(ast.literal)] : []
  )
)

const executionResults = Schema.Array(Schema.Union([Schema.Finite, ToolOutcome]))

const StoredEvent = Schema.Union([
  ...ofCalls,
  Schema.Struct({ ...Event.ToolsEnd.fields, executionResults }),
  Schema.Struct({ ...Event.WaveSuspended.fields, executionResults })
])

const project = Projection.make(StoredEvent)

const placeIn = (places: ReadonlyMap<object, number>) => (outcome: ToolOutcome): ToolOutcome | number =>
  places.get(outcome) ?? outcome

const readStored = Schema.decodeUnknownResult(Schema.Struct({ ...Ended.fields, events: Schema.Array(StoredEvent) }))

const readEnded: Versioned.Reader<typeof Ended.Type> = (value) =>
  Result.flatMap(readStored(value), ({ events, ...rest }) => {
    const outcomeOf = (it: ToolOutcome | number) => {
      if (typeof it !== "number") return [it]
      const event = events[it]
      return event?._tag === "ToolCallComplete" ? [event.outcome] : []
    }
    const restored = events.map((it): LifecycleEvent =>
      "executionResults" in it ? { ...it, executionResults: it.executionResults.flatMap(outcomeOf) } : it
    )
    return Result.succeed({ ...rest, events: restored })
  })
