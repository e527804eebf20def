/**
 * Google Gemini: `generateContent`, and `streamGenerateContent` with `alt=sse`, as of
 * https://ai.google.dev/api/generate-content; what is refused is in `googleChecks.ts`.
 */
import { type Body, check, type Content, type ContentPart, type Issued } from "./googleChecks.ts"
import { type Frame, ids, type Protocol, Refused } from "./protocol.ts"
import { type Finish, isRecord, messagesOf, parsed, type Part, type Said, type Usage } from "./script.ts"

export const google = (): Protocol<Body> => {
  const id = ids()
  const issued: Issued = { calls: new Map(), signatures: new Set() }

  /**
   * The parts of a turn. What came of reasoning is signed: the first of the calls, and else the end of the text.
   * https://ai.google.dev/gemini-api/docs/thought-signatures
   */
  const partsOf = (said: Said): ReadonlyArray<ContentPart> => {
    const signature = said.reasoning === undefined ? undefined : id("CiQB")
    const signed = signature === undefined ? {} : { thoughtSignature: signature }
    const calls = said.calls.filter(({ half }) => !half).map(({ id, name, raw }, index) => ({
      functionCall: { id, name, args: parsed(raw) },
      ...index === 0 ? signed : {}
    }))
    return [
      ...said.cut(said.reasoning ?? "").map((text) => ({ text, thought: true })),
      ...said.cut(said.text ?? "").map((text) => ({ text })),
      ...calls,
      ...said.cut(said.after ?? "").map((text) => ({ text })),
      ...calls.length === 0 && signature !== undefined ? [{ text: "", ...signed }] : []
    ]
  }

  return {
    route: (path) => {
      const method = /^\/v1beta\/models\/[^:/]+:(\w+)(\?alt=sse)?$/.exec(path)
      if (method?.[1] === "generateContent") return false
      return method?.[1] === "streamGenerateContent" && method[2] !== undefined ? true : undefined
    },
    check: (body, headers) => check(body, headers, issued),
    asked: (body, path) => ({
      model: /models\/([^:]+):/.exec(path)?.[1] ?? "",
      system: body.systemInstruction?.parts.map(({ text }) => text ?? "").join("\n") ?? "",
      tools: body.tools?.flatMap((tool) => tool.functionDeclarations?.map(({ name }) => name) ?? Object.keys(tool)) ??
        [],
      messages: messagesOf(body.contents.flatMap(saidIn))
    }),
    callId: () => id("fn"),
    reply: (said) => {
      // arguments that cannot be read are an answer of their own: https://ai.google.dev/api/generate-content#FinishReason
      const malformed = said.calls.find(({ half, raw }) => !half && !isRecord(parsed(raw)))
      const parts = malformed === undefined ? partsOf(said) : partsOf({ ...said, calls: [] })
      const finish = malformed === undefined
        ? { finishReason: finishes[said.finish] }
        : {
          finishReason: "MALFORMED_FUNCTION_CALL",
          finishMessage: `Malformed function call: call:default_api:${malformed.name}${malformed.raw}`
        }
      const firstCall = parts.find(({ functionCall }) => functionCall !== undefined)
      const responseId = id("resp")
      const response = (content: ReadonlyArray<ContentPart>, end: object) => ({
        candidates: [{ content: { parts: content, role: "model" }, index: 0, ...end }],
        usageMetadata: usageOf(said.usage),
        modelVersion: "gemini",
        responseId
      })
      return {
        frames: [
          ...parts.map((part) => ({
            data: response([part], {}),
            part: placeOf(part, part === firstCall),
            issued: () => issue(part, issued)
          })),
          { data: response([], finish), part: "end" }
        ],
        whole: response(merged(parts), finish)
      }
    },
    error: errorOf,
    // it has no header for it: https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto
    limits: (seconds) => ({
      details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: `${seconds}s` }]
    }),
    overloaded: 503,
    failed: () => ({ data: errorOf(new Refused("The model is overloaded. Please try again later.", 503)) }),
    newline: "\r\n"
  }
}

// Utilities

const finishes: Record<Finish, string> = { stop: "STOP", calls: "STOP", length: "MAX_TOKENS", filter: "SAFETY" }

/** https://cloud.google.com/apis/design/errors#handling_errors */
const statuses: Record<number, string> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE"
}

const errorOf = ({ message, more, status }: Refused) => ({
  error: {
    code: status,
    message,
    status: statuses[status] ?? "UNKNOWN",
    ...more.details === undefined ? {} : { details: more.details }
  }
})

const usageOf = ({ cached, input, output, reasoning }: Usage) => ({
  promptTokenCount: input,
  candidatesTokenCount: output - reasoning,
  totalTokenCount: input + output,
  thoughtsTokenCount: reasoning,
  cachedContentTokenCount: cached
})

const placeOf = ({ functionCall, thought }: ContentPart, first: boolean): Frame["part"] => {
  if (functionCall !== undefined) return first ? "arguments" : undefined
  return thought === true ? "reasoning" : "text"
}

const issue = ({ functionCall, thoughtSignature }: ContentPart, issued: Issued) => {
  if (thoughtSignature !== undefined) issued.signatures.add(thoughtSignature)
  if (functionCall?.id !== undefined) issued.calls.set(functionCall.id, thoughtSignature)
}

/** The deltas of a text are one part where nothing is streamed, and the signature is on the text. */
const merged = (parts: ReadonlyArray<ContentPart>): ReadonlyArray<ContentPart> =>
  parts.reduce<ReadonlyArray<ContentPart>>((all, part) => {
    const last = all.at(-1)
    const joins = last?.text !== undefined && part.text !== undefined && last.thought === part.thought
    return joins
      ? [...all.slice(0, -1), { ...last, ...part, text: `${last.text}${part.text}` }]
      : [...all, part]
  }, [])

const saidIn = ({ parts, role }: Content): ReadonlyArray<Part> =>
  parts.flatMap((part): ReadonlyArray<Part> => {
    if (part.functionCall !== undefined) {
      const { args, id, name } = part.functionCall
      return [{ of: "call", call: { id: id ?? "", name, args: args ?? {} } }]
    }
    if (part.functionResponse !== undefined) {
      const { id, name, response } = part.functionResponse
      const said = response.content ?? response.error ?? response.output ?? response
      return [{ of: "result", id: id ?? "", name, text: typeof said === "string" ? said : JSON.stringify(said) }]
    }
    if (part.thought === true) return []
    return part.text === undefined ? [] : [{ of: role === "model" ? "assistant" : "user", text: part.text }]
  })
