import { google } from "@ai-sdk/google"

/** The model. Replace the name to use another one of this provider. */
export const model = google("gemini-2.5-pro")

/** The environment variable with the key of the provider. */
export const keyName = "GOOGLE_GENERATIVE_AI_API_KEY"
