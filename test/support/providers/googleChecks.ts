/** What Google Gemini refuses, each rule with where it is told. */
import type { IncomingHttpHeaders } from "node:http"
import { refuse } from "./protocol.ts"
import { isRecord } from "./script.ts"

export interface ContentPart {
  readonly text?: string
  readonly thought?: boolean
  readonly thoughtSignature?: string
  readonly functionCall?: { readonly id?: string; readonly name: string; readonly args?: unknown }
  readonly functionResponse?: {
    readonly id?: string
    readonly name: string
    readonly response: Record<string, unknown>
  }
  readonly inlineData?: object
  readonly fileData?: object
}

export interface Content {
  readonly role?: string
  readonly parts: ReadonlyArray<ContentPart>
}

export interface Body {
  readonly contents: ReadonlyArray<Content>
  readonly systemInstruction?: { readonly parts: ReadonlyArray<ContentPart> }
  readonly tools?: ReadonlyArray<{ readonly functionDeclarations?: ReadonlyArray<{ readonly name: string }> }>
}

/** What the server said before. */
export interface Issued {
  /** The signatures of calls, by their ids. */
  readonly calls: Map<string, string | undefined>
  readonly signatures: Set<string>
}

export const check = ({ contents, tools }: Body, headers: IncomingHttpHeaders, issued: Issued): void => {
  if (headers["x-goog-api-key"] === undefined) refuse("API key not valid. Please pass a valid API key.")
  if (contents.length === 0) refuse("* GenerateContentRequest.contents: contents is not specified\n")
  for (const { name } of tools?.flatMap((tool) => tool.functionDeclarations ?? []) ?? []) checkName(name)
  contents.forEach(({ parts, role }, index) => {
    const path = `GenerateContentRequest.contents[${index}]`
    if (role !== "user" && role !== "model") refuse("Please use a valid role: user, model.")
    // https://github.com/egoist/chatwise-releases/issues/250
    if (parts.length === 0) refuse(`* ${path}.parts: contents.parts must not be empty.\n`)
    parts.forEach((part, n) => checkPart(part, index, n, issued))
    if (parts.some(({ functionCall }) => functionCall !== undefined)) checkCalls(index, contents, issued)
    if (parts.some(({ functionResponse }) => functionResponse !== undefined)) checkResponses(index, contents)
  })
  // of the newer models: https://github.com/pipecat-ai/pipecat/pull/5821
  if (contents.at(-1)?.role === "model") refuse("Requests ending with a model turn are not supported.")
}

// Utilities

/** What a call of somebody else is given instead of a signature: https://ai.google.dev/gemini-api/docs/thought-signatures */
const sentinels = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"]

const checkName = (name: string) => {
  // https://ai.google.dev/api/caching#FunctionDeclaration
  if (!/^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/.test(name)) {
    refuse(
      `Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.) or dashes (-), with a maximum length of 64.`
    )
  }
}

const checkPart = (part: ContentPart, index: number, n: number, issued: Issued) => {
  const { functionCall, functionResponse, text, thoughtSignature: signature } = part
  const data = [text === "" ? undefined : text, functionCall, functionResponse, part.inlineData, part.fileData]
  // an empty text that bears a signature is how a streamed signature comes
  if (data.every((value) => value === undefined) && signature === undefined) {
    // https://github.com/router-for-me/CLIProxyAPI/issues/1292
    refuse(
      `* GenerateContentRequest.contents[${index}].parts[${n}].data: required oneof field 'data' must have one initialized field\n`
    )
  }
  if (signature !== undefined && !issued.signatures.has(signature) && !sentinels.includes(signature)) {
    // https://github.com/google-gemini/gemini-cli/issues/13467, of another provider's https://github.com/lbjlaq/Antigravity-Manager/issues/970
    refuse("Corrupted thought signature.")
  }
  if (functionCall !== undefined) {
    checkName(functionCall.name)
    checkStruct(functionCall.args ?? {}, `contents[${index}].parts[${n}].function_call.args`)
  }
  if (functionResponse !== undefined) {
    checkStruct(functionResponse.response, `contents[${index}].parts[${n}].function_response.response`)
  }
}

/** https://github.com/AstrBotDevs/AstrBot/pull/7216 */
const checkStruct = (value: unknown, path: string) => {
  if (!isRecord(value)) {
    refuse(`Invalid value at '${path}' (type.googleapis.com/google.protobuf.Struct), ${JSON.stringify(value)}`)
  }
}

const callsOf = (content: Content | undefined) =>
  content?.parts.filter(({ functionCall }) => functionCall !== undefined) ?? []

const responsesOf = (content: Content | undefined) =>
  content?.parts.flatMap(({ functionResponse }) => functionResponse === undefined ? [] : [functionResponse]) ?? []

const checkCalls = (index: number, contents: ReadonlyArray<Content>, issued: Issued) => {
  const before = contents[index - 1]
  // https://github.com/google-gemini/gemini-cli/issues/26486
  if (before?.role !== "user") {
    refuse(
      "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
    )
  }
  const calls = callsOf(contents[index])
  const answers = responsesOf(contents[index + 1])
  if (answers.length !== calls.length) unequal()
  calls.forEach(({ functionCall, thoughtSignature: signature }, n) => {
    const answer = answers[n]
    // Ids are paired where both sides have them. Stricter than the real one, which takes any order then:
    // without ids the order is all there is.
    if (answer?.name !== functionCall?.name || answer?.id !== functionCall?.id) unequal()
    const id = functionCall?.id ?? ""
    if (!issued.calls.has(id)) return
    const expected = issued.calls.get(id)
    // Stricter than the real one, which looks at the open turn alone and takes the sentinel on any call:
    // it is meant for calls of somebody else, and on one of its own it hides that the signature was lost.
    if (expected !== undefined && (signature === undefined || sentinels.includes(signature))) {
      // https://github.com/askimo-ai/askimo/issues/543
      refuse(
        `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \`default_api:${functionCall?.name}\` , position ${
          index + 1
        }. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.`
      )
    }
    if (signature !== expected && !sentinels.includes(signature ?? "")) refuse("Corrupted thought signature.")
  })
}

const checkResponses = (index: number, contents: ReadonlyArray<Content>) => {
  const calls = callsOf(contents[index - 1])
  // https://github.com/langchain-ai/langchain/issues/27799
  if (contents[index - 1]?.role !== "model" || calls.length === 0) {
    refuse("Please ensure that function response turn comes immediately after a function call turn.")
  }
  if (responsesOf(contents[index]).length !== calls.length) unequal()
}

/** https://github.com/google-gemini/gemini-cli/issues/3814 */
const unequal = () =>
  refuse(
    "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
  )
