/**
 * Carries parts of an answer for which `effect/ai` has no type, in the options of an empty text, back to the same
 * model.
 *
 * These are provider-executed calls and results of tools in no toolkit, files of reasoning, and provider-specific parts
 * (`custom`), such as a compaction.
 */
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as PlainJson from "./PlainJson.ts"
import * as Shape from "./Shape.ts"

/** The model that sent it; other models cannot read it. */
export interface Origin {
  readonly provider: string
  readonly modelId: string
}

/** A part and its model. */
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

/** A call that a provider executes itself, or its result: as a part of its own, or carried. */
export const providedOf = (
  part: Prompt.AssistantMessagePart
): { readonly type: "tool-call" | "tool-result"; readonly id: string } | undefined => {
  if (part.type === "tool-call" || part.type === "tool-result") return part.providerExecuted ? part : undefined
  const carried = part.type === "text" ? unpack(part.options)?.part : undefined
  return carried?.type === "tool-call" || carried?.type === "tool-result"
    ? { type: carried.type, id: String(carried.toolCallId) }
    : undefined
}

/** Whether this model sent it. */
export const isFrom = (carried: Carried, { modelId, provider }: Origin): boolean =>
  carried.provider === provider && carried.modelId === modelId

/** Differs from the key agents use for a message's origin. */
const key = "effect-tool-executor/ai-sdk"
