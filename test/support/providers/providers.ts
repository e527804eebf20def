/** A server of each protocol that follows one script, with the model of the AI SDK that speaks to it. */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createGoogle } from "@ai-sdk/google"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import type { JSONObject, LanguageModelV4 } from "@ai-sdk/provider"
import { defaultSettingsMiddleware, wrapLanguageModel } from "ai"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { anthropic } from "./anthropic.ts"
import { google } from "./google.ts"
import { openaiChat } from "./openaiChat.ts"
import { openaiCompatible } from "./openaiCompatible.ts"
import { openaiResponses } from "./openaiResponses.ts"
import type { Quirks, Script } from "./script.ts"
import { serve, type Server } from "./server.ts"

export interface Provider {
  readonly name: Name
  readonly server: Server
  readonly model: LanguageModelV4
}

export const names = ["openai-chat", "openai-responses", "anthropic", "google", "openai-compatible"] as const

export type Name = typeof names[number]

export interface Options {
  /** How the compatible server is odd in every turn. */
  readonly quirks?: Quirks
  /** Whether OpenAI keeps what it said, and reads references to it; by default it does not. */
  readonly store?: boolean
}

/** One server with its model. */
export const provider = (
  name: Name,
  script: Script,
  { quirks, store }: Options = {}
): Effect.Effect<Provider, never, Scope.Scope> =>
  Effect.map(serverOf(name, script, quirks), (server) => ({ name, server, model: modelAt(name, server.url, store) }))

/** The model that speaks to a server, which may be in another process. */
export const modelAt = (name: Name, url: string, store = false): LanguageModelV4 => {
  switch (name) {
    case "openai-chat":
      return reasoning(createOpenAI({ apiKey, baseURL: `${url}/v1` }).chat("gpt-5"), {
        openai: { reasoningEffort: "low" }
      })
    case "openai-responses":
      return reasoning(createOpenAI({ apiKey, baseURL: `${url}/v1` }).responses("gpt-5"), {
        openai: { reasoningEffort: "low", reasoningSummary: "auto", store }
      })
    case "anthropic":
      return reasoning(createAnthropic({ apiKey, baseURL: `${url}/v1` })("claude-sonnet-4-5"), {
        anthropic: { thinking: { type: "enabled", budgetTokens: 1_024 } }
      })
    case "google":
      return reasoning(createGoogle({ apiKey, baseURL: `${url}/v1beta` })("gemini-3-pro-preview"), {
        google: { thinkingConfig: { includeThoughts: true } }
      })
    case "openai-compatible":
      return createOpenAICompatible({ name: "local", apiKey, baseURL: `${url}/v1`, includeUsage: true })("model")
  }
}

export const providers = (
  script: Script,
  options: Options = {}
): Effect.Effect<ReadonlyArray<Provider>, never, Scope.Scope> =>
  Effect.forEach(names, (name) => provider(name, script, options))

// Utilities

const serverOf = (name: Name, script: Script, quirks: Quirks | undefined) => {
  switch (name) {
    case "openai-chat":
      return serve(openaiChat(), script)
    case "openai-responses":
      return serve(openaiResponses(), script)
    case "anthropic":
      return serve(anthropic(), script)
    case "google":
      return serve(google(), script)
    case "openai-compatible":
      return serve(openaiCompatible(), script, quirks)
  }
}

const apiKey = "key"

const reasoning = (model: LanguageModelV4, providerOptions: Record<string, JSONObject>) =>
  wrapLanguageModel({ model, middleware: defaultSettingsMiddleware({ settings: { providerOptions } }) })
