/** Models of the AI SDK's specifications as plain objects, which say what a test says. */
import type { ProviderModel } from "effect-tool-executor/ai-sdk"

/** The options of a call, by what of them tests look at. */
export interface SpecCall extends Readonly<Record<string, unknown>> {
  readonly prompt: ReadonlyArray<
    { readonly role: string; readonly content: unknown; readonly providerOptions?: unknown }
  >
  readonly abortSignal: AbortSignal
}

export interface Said {
  /** Parts of a stream, or what gives it. */
  readonly stream?: ReadonlyArray<unknown> | ((call: SpecCall) => PromiseLike<ReadableStream<unknown>>)
  /** A whole answer, or what gives it. */
  readonly answer?: object | ((call: SpecCall) => PromiseLike<object>)
}

export const specModel = (specificationVersion: ProviderModel["specificationVersion"], { answer, stream }: Said) => {
  const calls: Array<SpecCall> = []
  const model: ProviderModel = {
    specificationVersion,
    provider: "plain.chat",
    modelId: "plain-1",
    doGenerate: (call: SpecCall) => {
      calls.push(call)
      return typeof answer === "function" ? answer(call) : Promise.resolve(answer ?? {})
    },
    doStream: (call: SpecCall) => {
      calls.push(call)
      return typeof stream === "function"
        ? stream(call).then((stream) => ({ stream }))
        : Promise.resolve({ stream: streamOf(stream ?? []) })
    }
  }
  return { model, calls }
}

export const streamOf = (parts: ReadonlyArray<unknown>): ReadableStream<unknown> =>
  new ReadableStream({
    start: (controller) => {
      for (const part of parts) controller.enqueue(part)
      controller.close()
    }
  })
