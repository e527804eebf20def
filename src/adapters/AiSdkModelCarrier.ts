/**
 * What a model said that `effect/ai` has no part for: it travels in the options of an empty text, and goes back to the
 * same model where it stood. Such are calls and results of tools that a provider ran and no toolkit has, files of
 * reasoning, and parts of a provider's own (`custom`), a compaction for one.
 */
import type * as Response from "effect/ai/Response"
import * as PlainJson from "../wire/PlainJson.ts"
import * as Shape from "../wire/Shape.ts"

/** Who said it. Another model could not read it. */
export interface Origin {
  readonly provider: string
  readonly modelId: string
}

/** A part, and who said it. */
export interface Carried extends Origin {
  readonly part: Shape.JsonObject
}

/** Packs a part into the metadata of a text. */
export const pack = ({ modelId, provider }: Origin, part: Shape.JsonObject): Response.ProviderMetadata =>
  ({ [key]: PlainJson.from({ provider, modelId, part }) }) as Response.ProviderMetadata

/** Finds the part in the options of a text. */
export const unpack = (options: unknown): Carried | undefined => {
  const carried = Shape.own(options, key)
  const part = Shape.own(carried, "part")
  return Shape.isObject(part)
    ? {
      provider: String(Shape.own(carried, "provider")),
      modelId: String(Shape.own(carried, "modelId")),
      part
    }
    : undefined
}

/** Tells whether this model said it. */
export const isFrom = (carried: Carried, { modelId, provider }: Origin): boolean =>
  carried.provider === provider && carried.modelId === modelId

// Utilities

/** Not the name under which agents note who made a part. */
const key = "effect-tool-executor/ai-sdk"
