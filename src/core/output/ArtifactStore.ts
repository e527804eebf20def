/**
 * Keeps the full payload of outputs that are too large for a model's context.
 *
 * Ids are opaque and bound to the principal and batch that made them. A store forgets after a time and where a
 * principal has more than its share; what one principal puts never costs another a payload. The driver in memory is
 * here, that of a folder in `tools/folders/ArtifactFolder`, that of a database in `sql/SqlArtifacts`; what they decide alike
 * (`fit`, `surplus`, `isOver`, `partOf`) is here, too.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Surplus from "../../internal/surplus.ts"
import { type ConfigurationError, readOptions } from "../vocabulary/ConfigurationError.ts"
import type { ArtifactRef } from "../vocabulary/ToolOutcome.ts"

/** Who may read an artifact. */
export interface Owner {
  readonly principal: string
  readonly batch: string
}

/** Error of a payload that could not be kept or read. */
export class ArtifactError extends Schema.TaggedError<ArtifactError>("effect-tool-executor/ArtifactError")(
  "ArtifactError",
  {
    /** `NotFound` holds for an id of somebody else, too. */
    reason: Schema.Literals(["NotFound", "Expired", "TooLarge", "Full", "StoreFailed"]),
    id: Schema.String,
    cause: Schema.optionalKey(Schema.Defect())
  }
) {
  override get message(): string {
    switch (this.reason) {
      case "NotFound":
        return `There is no artifact "${this.id}" for this request`
      case "Expired":
        return `Artifact "${this.id}" has expired; run the tool again`
      case "TooLarge":
        return "The payload is larger than everything that is kept for one principal"
      case "Full":
        return "The artifact store is full of other principals' artifacts; it has room again when they expire"
      case "StoreFailed":
        return "The artifact store failed"
    }
  }
}

/** A part of a payload, in characters. */
export interface Range {
  readonly offset: number
  readonly length: number
}

/** Keeps payloads and reads them in parts. */
export class ArtifactStore extends Context.Service<ArtifactStore, {
  /** Keeps a payload, whole or not at all; the owner's oldest give way where they have to. */
  readonly put: (owner: Owner, payload: string) => Effect.Effect<ArtifactRef, ArtifactError>
  /**
   * Reads `length` characters from `offset`, those that there are. `chars` are those of the whole payload. `Expired`
   * may be `NotFound` once the payload is gone.
   */
  readonly read: (
    owner: Owner,
    id: string,
    range: Range
  ) => Effect.Effect<{ readonly text: string; readonly chars: number }, ArtifactError>
  /**
   * Forgets what is past its time; gives the number of payloads dropped. A driver does so whenever something is put:
   * call this for a store that is no longer written to.
   */
  readonly prune: Effect.Effect<number, ArtifactError>
}>()("effect-tool-executor/output/ArtifactStore") {}

/** Bounds of a store, whichever driver it has. A character takes up to two bytes. */
export interface Options {
  /** How long a payload is kept. Default 1 hour. */
  readonly timeToLive?: Duration.Input | undefined
  /** Characters kept for each principal; its oldest payload goes first. Default 50,000,000. */
  readonly maxChars?: number | undefined
  /** Payloads kept for each principal; its oldest goes first. Default 1,000. */
  readonly maxCount?: number | undefined
  /**
   * Characters kept for all principals together. Where they are reached a principal has what it keeps already, and a
   * payload that needs more is refused as `Full`: no principal evicts another's. Default 500,000,000.
   */
  readonly maxTotalChars?: number | undefined
}

export const defaults = {
  timeToLive: "1 hour",
  maxChars: 50_000_000,
  maxCount: 1_000,
  maxTotalChars: 500_000_000
} as const satisfies Options

/** The bounds in plain numbers. */
export interface Bounds {
  readonly timeToLiveMillis: number
  readonly maxChars: number
  readonly maxCount: number
  readonly maxTotalChars: number
}

/** Reads bounds, for drivers; fails with everything that is wrong with them. */
export const boundsOf = (options: Options = {}): Effect.Effect<Bounds, ConfigurationError> =>
  readOptions("ArtifactStore", (read) => ({
    timeToLiveMillis: read.millis("timeToLive", options.timeToLive ?? defaults.timeToLive),
    maxChars: read.atLeast("maxChars", options.maxChars ?? defaults.maxChars, 0),
    maxCount: read.atLeast("maxCount", options.maxCount ?? defaults.maxCount, 0),
    maxTotalChars: read.atLeast("maxTotalChars", options.maxTotalChars ?? defaults.maxTotalChars, 0)
  }))

/**
 * Fails if a payload cannot be kept, given the characters of other principals, even if all that its own principal has
 * gives way.
 */
export const fit = (chars: number, others: number, bounds: Bounds): Effect.Effect<void, ArtifactError> => {
  if (chars > bounds.maxChars || bounds.maxCount < 1) return new ArtifactError({ reason: "TooLarge", id: "" })
  return chars > bounds.maxTotalChars - others ? new ArtifactError({ reason: "Full", id: "" }) : Effect.void
}

/**
 * Gives the payloads of a principal to evict, oldest first, given the characters of other principals. `own` are all it
 * has, the new one last.
 */
export const surplus = <A extends { readonly chars: number }>(
  own: ReadonlyArray<A>,
  others: number,
  bounds: Bounds
): ReadonlyArray<A> =>
  Surplus.surplus(own, (it) => it.chars, Math.min(bounds.maxChars, bounds.maxTotalChars - others), bounds.maxCount)

/**
 * Whether a payload put at this time has expired. A clock that was set back does not keep payloads for long: one from a
 * distant future has expired as well.
 */
export const isOver = (at: number, now: number, { timeToLiveMillis }: Pick<Bounds, "timeToLiveMillis">): boolean =>
  Math.abs(now - at) >= timeToLiveMillis

/** Gives the first character of a range and the one behind its last, both within the payload. */
export const partOf = ({ length, offset }: Range, chars: number): readonly [start: number, end: number] => {
  const within = (n: number) => Math.min(Math.max(Math.trunc(n) || 0, 0), chars)
  const start = within(offset)
  return [start, Math.max(start, within(start + within(length)))]
}

/** Creates a store in memory. */
export const makeMemory = (options?: Options): ArtifactStore["Service"] => memory(Effect.runSync(boundsOf(options)))

/** Layer that keeps artifacts in memory. */
export const layerMemory = (options?: Options): Layer.Layer<ArtifactStore, ConfigurationError> =>
  Layer.effect(ArtifactStore, Effect.map(boundsOf(options), memory))

interface Artifact {
  readonly id: string
  readonly owner: Owner
  readonly payload: string
  readonly chars: number
  readonly at: number
}

const memory = (bounds: Bounds): ArtifactStore["Service"] => {
  const artifacts = new Map<string, Artifact>()
  // oldest first
  const shares = new Map<string, ReadonlyArray<Artifact>>()
  let total = 0

  const shareOf = (principal: string) => shares.get(principal) ?? []
  const charsOf = (share: ReadonlyArray<Artifact>) => share.reduce((sum, it) => sum + it.chars, 0)
  const forget = (gone: ReadonlyArray<Artifact>) => {
    for (const { chars, id, owner: { principal } } of gone) {
      artifacts.delete(id)
      total -= chars
      const rest = shareOf(principal).filter((it) => it.id !== id)
      if (rest.length === 0) shares.delete(principal)
      else shares.set(principal, rest)
    }
  }
  // insertion order is order of age
  const prune = (now: number) => {
    const before = artifacts.size
    for (const it of artifacts.values()) {
      if (!isOver(it.at, now, bounds)) break
      forget([it])
    }
    return before - artifacts.size
  }

  return ArtifactStore.of({
    put: Effect.fnUntraced(function*(owner, payload) {
      const at = yield* Clock.currentTimeMillis
      const id = `art_${(yield* hex)}${yield* hex}`
      prune(at)
      const chars = payload.length
      const own = shareOf(owner.principal)
      const others = total - charsOf(own)
      yield* fit(chars, others, bounds)
      const artifact = { id, owner: { ...owner }, payload, chars, at }
      artifacts.set(id, artifact)
      shares.set(owner.principal, [...own, artifact])
      total += chars
      forget(surplus(shareOf(owner.principal), others, bounds))
      return { id, chars }
    }),
    read: Effect.fnUntraced(function*(owner, id, range) {
      const found = artifacts.get(id)
      if (found === undefined || found.owner.principal !== owner.principal || found.owner.batch !== owner.batch) {
        return yield* new ArtifactError({ reason: "NotFound", id })
      }
      if (isOver(found.at, yield* Clock.currentTimeMillis, bounds)) {
        return yield* new ArtifactError({ reason: "Expired", id })
      }
      return { text: found.payload.slice(...partOf(range, found.chars)), chars: found.chars }
    }),
    prune: Effect.map(Clock.currentTimeMillis, prune)
  })
}

const hex = Effect.map(Random.nextIntBetween(0, 0xffffffff), (n) => n.toString(16).padStart(8, "0"))
