import { anthropic } from "@ai-sdk/anthropic"

/** The model. Replace the name to use another one of this provider. */
export const model = anthropic("claude-sonnet-4-5")

/** The environment variable with the key of the provider. */
export const keyName = "ANTHROPIC_API_KEY"
