/** How models refuse a request that is longer than their context window. */

/** The constraint of an `InvalidRequestError` that says so. */
export const constraint = "is longer than the model's context window"

/** Whether a provider's message says so: OpenAI, Anthropic, Google, Mistral, Bedrock, vLLM and llama.cpp. */
export const isIn = (message: string): boolean =>
  /prompt is too long|context(?: |_)(?:length|window|size)|input token count.{0,40}exceeds|too large for model with|input is too long/i
    .test(message)
