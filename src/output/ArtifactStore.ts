/**
 * Keeps the full payload of outputs that are too large for a model's context.
 *
 * Ids are opaque and bound to the principal and batch that made them. The
 * memory store is here; it forgets after a time and where a principal has more
 * than its share. What one principal puts never costs another a payload.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import { type ConfigurationError, readOptions } from "../ConfigurationError.ts"
import type { ArtifactRef } from "../ToolOutcome.ts"

/**
 * Who may read an artifact.
 *
 * @category models
 * @since 0.1.0
 */
export interface Owner {
  readonly principal: string
  readonly batch: string
}

/**
 * Error of a payload that could not be kept or read.
 *
 * @category errors
 * @since 0.1.0
 */
export class ArtifactError extends Schema.TaggedError<ArtifactError>("effect-tool-executor/ArtifactError")(
  "ArtifactError",
  {
    /** `NotFound` holds for an id of somebody else, too. */
    reason: Schema.Literals(["NotFound", "Expired", "TooLarge", "Full", "StoreFailed"]),
    id: Schema.String
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

/**
 * Keeps payloads and reads them in parts.
 *
 * @category services
 * @since 0.1.0
 */
export class ArtifactStore extends Context.Service<ArtifactStore, {
  /** Keeps a payload. */
  readonly put: (owner: Owner, payload: string) => Effect.Effect<ArtifactRef, ArtifactError>
  /** Reads `length` characters from `offset`. */
  readonly read: (
    owner: Owner,
    id: string,
    range: { readonly offset: number; readonly length: number }
  ) => Effect.Effect<{ readonly text: string; readonly chars: number }, ArtifactError>
}>()("effect-tool-executor/output/ArtifactStore") {}

/**
 * Bounds of the memory store.
 *
 * @category options
 * @since 0.1.0
 */
export interface MemoryOptions {
  /** How long a payload is kept. Default 1 hour. */
  readonly timeToLive?: Duration.Input | undefined
  /** Characters kept for each principal; its oldest payload goes first. Default 50,000,000. */
  readonly maxChars?: number | undefined
  /** Payloads kept for each principal; its oldest goes first. Default 1,000. */
  readonly maxCount?: number | undefined
  /**
   * Characters kept for all principals together. Where they are reached a principal
   * has what it keeps already, and a payload that needs more is refused as `Full`:
   * nobody's makes another's go. Default 500,000,000.
   */
  readonly maxTotalChars?: number | undefined
}

/**
 * What holds where nobody says anything.
 *
 * @category constants
 * @since 0.1.0
 */
export const defaults = {
  timeToLive: "1 hour",
  maxChars: 50_000_000,
  maxCount: 1_000,
  maxTotalChars: 500_000_000
} as const satisfies MemoryOptions

/**
 * Creates a store in memory.
 *
 * @category constructors
 * @since 0.1.0
 */
export const makeMemory = (options?: MemoryOptions): ArtifactStore["Service"] => {
  const timeToLive = Duration.toMillis(Duration.fromInputUnsafe(options?.timeToLive ?? defaults.timeToLive))
  const {
    maxChars = defaults.maxChars,
    maxCount = defaults.maxCount,
    maxTotalChars = defaults.maxTotalChars
  } = options ?? {}
  // insertion order is order of age, in each share and in all
  const artifacts = new Map<string, Artifact>()
  const shares = new Map<string, { readonly ids: Set<string>; readonly chars: number }>()
  let total = 0

  const forget = (id: string, { owner, payload }: Artifact) => {
    const { chars, ids } = shares.get(owner.principal)!
    artifacts.delete(id)
    ids.delete(id)
    total -= payload.length
    if (ids.size === 0) shares.delete(owner.principal)
    else shares.set(owner.principal, { ids, chars: chars - payload.length })
  }

  return ArtifactStore.of({
    put: Effect.fnUntraced(function*(owner, payload) {
      if (payload.length > maxChars || maxCount < 1) return yield* new ArtifactError({ reason: "TooLarge", id: "" })
      const now = yield* Clock.currentTimeMillis
      const id = `art_${(yield* hex)}${yield* hex}`
      for (const [old, artifact] of artifacts) {
        if (artifact.until > now) break
        forget(old, artifact)
      }
      const { chars, ids } = shares.get(owner.principal) ?? { ids: new Set<string>(), chars: 0 }
      const room = Math.min(maxChars, maxTotalChars - (total - chars)) - payload.length
      if (room < 0) return yield* new ArtifactError({ reason: "Full", id: "" })
      let kept = chars
      for (const old of ids) {
        if (kept <= room && ids.size < maxCount) break
        const artifact = artifacts.get(old)!
        kept -= artifact.payload.length
        forget(old, artifact)
      }
      shares.set(owner.principal, { ids: ids.add(id), chars: kept + payload.length })
      total += payload.length
      artifacts.set(id, { owner, payload, until: now + timeToLive })
      return { id, chars: payload.length }
    }),
    read: Effect.fnUntraced(function*(owner, id, range) {
      const found = artifacts.get(id)
      if (found === undefined || found.owner.principal !== owner.principal || found.owner.batch !== owner.batch) {
        return yield* new ArtifactError({ reason: "NotFound", id })
      }
      if ((yield* Clock.currentTimeMillis) >= found.until) return yield* new ArtifactError({ reason: "Expired", id })
      return {
        text: found.payload.slice(range.offset, range.offset + range.length),
        chars: found.payload.length
      }
    })
  })
}

/**
 * Layer that keeps artifacts in memory.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory = (options?: MemoryOptions): Layer.Layer<ArtifactStore, ConfigurationError> =>
  Layer.effect(ArtifactStore, checked(options))

/**
 * The same with bounds from the configuration, such as environment variables.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemoryConfig = (
  options: Config.Wrap<MemoryOptions>
): Layer.Layer<ArtifactStore, ConfigurationError | Config.ConfigError> =>
  Layer.effect(ArtifactStore, Effect.flatMap(Config.unwrap(options), checked))

// Utilities

const checked = (options: MemoryOptions = {}): Effect.Effect<ArtifactStore["Service"], ConfigurationError> =>
  Effect.map(
    readOptions("ArtifactStore", (read) => ({
      timeToLive: read.millis("timeToLive", options.timeToLive ?? defaults.timeToLive),
      maxChars: read.atLeast("maxChars", options.maxChars ?? defaults.maxChars, 0),
      maxCount: read.atLeast("maxCount", options.maxCount ?? defaults.maxCount, 0),
      maxTotalChars: read.atLeast("maxTotalChars", options.maxTotalChars ?? defaults.maxTotalChars, 0)
    })),
    makeMemory
  )

interface Artifact {
  readonly owner: Owner
  readonly payload: string
  readonly until: number
}

const hex = Effect.map(Random.nextIntBetween(0, 0xffffffff), (n) => n.toString(16).padStart(8, "0"))
