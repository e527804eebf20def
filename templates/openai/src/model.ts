import { openai } from "@ai-sdk/openai"

/** The model. Replace the name to use another one of this provider. */
export const model = openai("gpt-5")

/** The environment variable with the key of the provider. */
export const keyName = "OPENAI_API_KEY"
