/** The file of a recorded model: requests with their answers, as text, and how a request is compared with it. Pure. */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { canonicalJson } from "../internal/canonicalJson.ts"
import * as Secrets from "../internal/secrets/index.ts"
import * as Versioned from "../internal/versioned.ts"

const Json = Schema.Json
const List = Schema.Array(Json)

/** A request to a model, as plain JSON. */
export interface Request {
  readonly method: "generateText" | "streamText"
  readonly prompt: ReadonlyArray<Schema.Json>
  readonly tools: ReadonlyArray<Schema.Json>
  readonly toolChoice: Schema.Json
  /** The object that was asked for, with its schema; null for text. */
  readonly object: Schema.Json
}

/** A request with its answer: the parts of a response, or the reason of an error. */
export interface Exchange extends Request {
  readonly response?: ReadonlyArray<Schema.Json> | undefined
  readonly fails?: Schema.Json | undefined
}

/** A recording: whose answers it has, and the exchanges in the order in which they ended. */
export interface Recording {
  readonly provider: string
  readonly model: string
  readonly exchanges: ReadonlyArray<Exchange>
}

/** What is not compared, and never written. */
export interface Hidden {
  /** Texts that are secret. */
  readonly secrets: ReadonlyArray<string>
  /** Parts of texts that differ from run to run. */
  readonly volatile: ReadonlyArray<RegExp>
}

/** A request as JSON, without what is volatile. */
export const requestOf = (
  method: Request["method"],
  { prompt, responseFormat, toolChoice, tools }: LanguageModel.ProviderOptions,
  { volatile }: Hidden
): Request => {
  const request: Request = {
    method,
    prompt: prompt.content.map((it) => bare(toMessage(it)) as Schema.Json),
    tools: tools.map(toolOf),
    toolChoice: toolChoice as Schema.Json,
    object: responseFormat.type === "text"
      ? null
      : { name: responseFormat.objectName, schema: schemaOf(responseFormat.schema) }
  }
  const patterns = volatile.map((it) => new RegExp(it, it.global ? it.flags : `${it.flags}g`))
  return Secrets.mapTexts(
    request,
    (text) => patterns.reduce((left, pattern) => left.replace(pattern, changing), text)
  ) as Request
}

/** The parts of an answer as JSON, without anything about HTTP. Deltas of one text are one part. */
export const answerOf = (parts: ReadonlyArray<unknown>): ReadonlyArray<Schema.Json> => {
  const found: Array<Schema.JsonObject> = []
  for (const part of toParts(parts)) {
    // they hold headers, or a time
    const { metadata, request: _, response: __, timestamp: ___, ...rest } = part as Schema.JsonObject
    const own = { ...rest, ...isEmpty(metadata) ? {} : { metadata } } as Schema.JsonObject
    const { delta, ...start } = own
    const last = found.at(-1)
    if (delta === undefined || !isEmpty(metadata)) found.push(own)
    else if (last?.["deltas"] === undefined || last["type"] !== own["type"] || last["id"] !== own["id"]) {
      found.push({ ...start, deltas: [delta] })
    } else found[found.length - 1] = { ...last, deltas: [...last["deltas"] as ReadonlyArray<Schema.Json>, delta] }
  }
  return found
}

/** The parts of a recorded answer, as providers encode them. */
export const partsOf = (answer: ReadonlyArray<Schema.Json>): ReadonlyArray<Response.AllPartsEncoded> =>
  encodeParts(fromParts(
    answer.flatMap((it) => {
      const { deltas, ...rest } = it as { readonly deltas?: ReadonlyArray<string> }
      return deltas === undefined ? [it] : deltas.map((delta) => ({ ...rest, delta }))
    })
  ))

/** Parts of a response as providers encode them. */
export const encoded = (parts: ReadonlyArray<unknown>): ReadonlyArray<Response.AllPartsEncoded> =>
  encodeParts(parts as ReadonlyArray<Response.AllParts<{}>>)

/**
 * Writes a recording: a line per message, tool and part, so that differences can be read. A request that continues
 * another one has only what is new, and `after` names the other one.
 */
export const write = ({ exchanges, model, provider }: Recording, { secrets }: Hidden): string => {
  const found = Secrets.usual.output(exchanges)
  const all = [...secrets, ...found.secrets]
  const clean = Secrets.mapTexts(found.value, (text) => Secrets.without(text, all)) as ReadonlyArray<Exchange>
  const texts = clean.map((it) => it.prompt.map(canonicalJson))
  const blocks = clean.map((exchange, index) => {
    const after = precedingOf(texts, index)
    const before = after === undefined ? undefined : clean[after]
    const { method, object, prompt, response, toolChoice, tools, ...rest } = exchange
    const isSame = before !== undefined && canonicalJson(before.tools) === canonicalJson(tools)
    const fields: Array<readonly [string, unknown]> = [
      ["exchange", index + 1],
      ...after === undefined ? [] : [["after", after + 1] as const],
      ["method", method],
      ["prompt", prompt.slice(before?.prompt.length ?? 0)],
      ...isSame ? [] : [["tools", tools] as const],
      ["toolChoice", toolChoice],
      ...object === null ? [] : [["object", object] as const],
      ...response === undefined ? Object.entries(rest) : [["response", response] as const]
    ]
    return `{\n${fields.map(([name, value]) => `  ${JSON.stringify(name)}: ${lines(value)}`).join(",\n")}\n}`
  })
  const head = [["provider", provider], ["model", model]].map(([name, value]) => `"${name}": ${JSON.stringify(value)}`)
  return `${Versioned.encode(1, `{\n${head.join(",\n")},\n"exchanges": [${blocks.join(", ")}]}`)}\n`
}

/** Reads a recording, or says what is wrong with it. */
export const read = (text: string): Result.Result<Recording, Error> =>
  Result.flatMap(Versioned.decode(readers, text), ({ exchanges, model, provider }) => {
    const found: Array<Exchange> = []
    for (const [index, { after, exchange, method, object = null, prompt, tools, ...rest }] of exchanges.entries()) {
      const before = after === undefined ? undefined : found[after - 1]
      if (exchange !== index + 1 || (after !== undefined && before === undefined)) {
        return Result.fail(new Error(`exchange ${exchange} is not in its place`))
      }
      found.push({
        method,
        object,
        ...rest,
        prompt: [...before?.prompt ?? [], ...prompt],
        tools: tools ?? before?.tools ?? []
      })
    }
    return Result.succeed({ provider, model, exchanges: found })
  })

/** A request in the form that is compared. */
export const redacted = (request: Request): Request => Secrets.usual.output(request).value as Request

/** Where a request differs from a recorded one. */
export interface Difference {
  /** Such as `prompt[2].content[0].text`. */
  readonly path: string
  readonly expected: unknown
  readonly got: unknown
}

/** The first difference between a recorded request and one that is made now; secrets may have any value. */
export const difference = (expected: Request, got: Request): Difference | undefined => {
  for (const field of ["prompt", "method", "tools", "toolChoice", "object"] as const) {
    const found = differing(expected[field], got[field], field)
    if (found !== undefined) return found
  }
  return undefined
}

/** Describes a difference in lines for people. */
export const describe = ({ expected, got, path }: Difference): ReadonlyArray<string> => {
  const from = typeof expected === "string" && typeof got === "string" ? commonStart(expected, got) : 0
  return [`First difference, at ${path}:`, `  expected: ${shown(expected, from)}`, `  got:      ${shown(got, from)}`]
}

// Utilities

const changing = "[volatile]"

const toMessage = Schema.encodeSync(Schema.toCodecJson(Prompt.Message))

const AllParts = Schema.Array(Response.AllParts())
const toParts = (parts: ReadonlyArray<unknown>): ReadonlyArray<unknown> =>
  Schema.encodeSync(Schema.toCodecJson(AllParts))(parts as never) as ReadonlyArray<unknown>
const fromParts = Schema.decodeUnknownSync(Schema.toCodecJson(AllParts))
const encodeParts = Schema.encodeSync(AllParts) as unknown as (
  parts: ReadonlyArray<unknown>
) => ReadonlyArray<Response.AllPartsEncoded>

const toolOf = (tool: Tool.Any): Schema.Json =>
  Tool.isProviderDefined(tool)
    ? { name: tool.name, id: tool.id, args: (tool.args ?? null) as Schema.Json }
    : {
      name: tool.name,
      ...tool.description === undefined ? {} : { description: tool.description },
      parameters: Tool.getJsonSchema(tool) as Schema.Json
    }

const schemaOf = (schema: Schema.Top): Schema.Json => {
  const { definitions, schema: own } = Schema.toJsonSchemaDocument(schema)
  return { ...own, ...isEmpty(definitions) ? {} : { definitions } } as Schema.Json
}

const isEmpty = (value: unknown): boolean =>
  value === undefined || (Predicate.isObject(value) && Object.keys(value).length === 0)

/** Without options that are empty. */
const bare = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(bare)
  if (!Predicate.isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, it]) => name === "options" && isEmpty(it) ? [] : [[name, bare(it)]])
  )
}

/** The earlier exchange whose prompt is the longest start of another one's. */
const precedingOf = (texts: ReadonlyArray<ReadonlyArray<string>>, index: number): number | undefined => {
  const own = texts[index]!
  let best: number | undefined
  for (const [other, prompt] of texts.slice(0, index).entries()) {
    const isStart = prompt.length > 0 && prompt.length <= own.length && prompt.every((it, at) => it === own[at])
    if (isStart && (best === undefined || prompt.length >= texts[best]!.length)) best = other
  }
  return best
}

/** A list with an element per line; anything else on one. */
const lines = (value: unknown): string =>
  Array.isArray(value) && value.length > 0
    ? `[\n${value.map((it) => `    ${JSON.stringify(it)}`).join(",\n")}\n  ]`
    : JSON.stringify(value)

const Stored = Schema.Struct({
  provider: Schema.String,
  model: Schema.String,
  exchanges: Schema.Array(Schema.Struct({
    exchange: Schema.Int,
    after: Schema.optionalKey(Schema.Int),
    method: Schema.Literals(["generateText", "streamText"]),
    prompt: List,
    tools: Schema.optionalKey(List),
    toolChoice: Json,
    object: Schema.optionalKey(Json),
    response: Schema.optionalKey(List),
    fails: Schema.optionalKey(Json)
  }))
})

const readers = { 1: Schema.decodeUnknownResult(Stored) }

const differing = (expected: unknown, got: unknown, path: string): Difference | undefined => {
  if (typeof expected === "string" && typeof got === "string") {
    return isLike(expected, got) ? undefined : { path, expected, got }
  }
  // a secret may have been of any type
  if (expected === Secrets.mark) return undefined
  if (Array.isArray(expected) && Array.isArray(got)) {
    for (let index = 0; index < Math.max(expected.length, got.length); index++) {
      const found = differing(expected[index], got[index], `${path}[${index}]`)
      if (found !== undefined) return found
    }
    return undefined
  }
  if (!Predicate.isObject(expected) || !Predicate.isObject(got)) {
    return Object.is(expected, got) ? undefined : { path, expected, got }
  }
  for (const key of new Set([...Object.keys(expected), ...Object.keys(got)])) {
    const at = /^\w+$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`
    const found = differing(own(expected, key), own(got, key), at)
    if (found !== undefined) return found
  }
  return undefined
}

const own = (value: object, key: string): unknown => Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined

/** Whether a text is what was recorded; what was redacted there may be anything. */
const isLike = (expected: string, got: string): boolean => {
  if (expected === got) return true
  const [start = "", ...rest] = expected.split(Secrets.mark)
  const end = rest.pop()
  if (end === undefined || !got.startsWith(start)) return false
  let at = start.length
  for (const part of rest) {
    const next = got.indexOf(part, at)
    if (next === -1) return false
    at = next + part.length
  }
  return got.length - end.length >= at && got.endsWith(end)
}

const commonStart = (one: string, other: string): number => {
  let at = 0
  while (at < one.length && one[at] === other[at]) at++
  return at
}

const longest = 300

const shown = (value: unknown, from: number): string => {
  if (value === undefined) return "nothing"
  if (typeof value !== "string") {
    const text = JSON.stringify(value)
    return text.length > longest ? `${text.slice(0, longest)}…` : text
  }
  const start = Math.max(0, from - 40)
  const part = value.slice(start, start + longest)
  return `${start > 0 ? "…" : ""}${JSON.stringify(part)}${start + longest < value.length ? "…" : ""}`
}
