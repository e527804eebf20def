/**
 * Finds calls in the wrong place: in another field, above the message, in another format's shape or under a misspelt
 * name. Each message is searched after it has been read, and a stray call is an error, so that none is lost.
 */
import { canonicalJson } from "../internal/canonicalJson.ts"
import * as Shape from "./Shape.ts"

/**
 * The entries that a reader has judged to be calls: it has read them, or knows that somebody else runs or answers them.
 */
export type Judged = Set<Shape.JsonObject>

/** Finds the first call in a message that its reader has not judged, unless it is a copy of one that it has. */
export const find = (input: unknown, judged: Judged, expected: string): Shape.Mistake | undefined => {
  const known = knownIn(judged)
  const seen = new Set<unknown>()
  const sweep = (value: unknown, path: string): Shape.Mistake | undefined => {
    if (typeof value !== "object" || value === null || seen.has(value)) return undefined
    seen.add(value)
    if (Shape.isArray(value)) return first(value.entries(), (index, it) => sweep(it, `${path}[${index}]`))
    const entry = value as Shape.JsonObject
    const isShut = isClosed(entry)
    const isOne = judged.has(entry) || isOthers(entry)
    const isLost = !isShut && !isOne && isCall(entry)
    if (isLost && !isKnown(entry, known)) return mistake(path, expected)
    const given = isOne || isLost ? payload : nothing
    // the result of a wrapped call is a separate entry
    const gave = isOthers(entry) && Shape.own(entry, "toolUse") === undefined ? results : nothing
    return first(Object.entries(entry), (key, inner) => {
      if (isShut && !labels.has(key)) return undefined
      if (opaque.has(key) || gave.has(key) || (given.has(key) && !judged.has(inner as Shape.JsonObject))) {
        return undefined
      }
      const at = Shape.at(path, Shape.clip(key))
      return sweep(inner, at) ?? (holders.has(plain(key)) ? sweepHeld(inner, at) : undefined)
    })
  }
  /** What stands under a name for calls is one, whatever it looks like. */
  const sweepHeld = (held: unknown, path: string): Shape.Mistake | undefined => {
    if (held === null || typeof held === "boolean" || typeof held === "number" || held === "") return undefined
    const entries = Shape.isArray(held) ? held : [held]
    const isLost = entries.some((it) =>
      Shape.isObject(it)
        ? Object.keys(it).length > 0 && !isKnown(it, known) && !isClosed(it) && !isOthers(it)
        : it !== null
    )
    return isLost ? mistake(path, expected) : undefined
  }
  return sweep(input, "")
}

/** Whether it is a call, in whatever shape: by its type, by what it holds, or by a name or an id with arguments. */
const isCall = (entry: Shape.JsonObject): boolean => {
  const type = Shape.own(entry, "type")
  if (typeof type === "string" && callTypes.has(plain(type))) return true
  // the AI SDK has the name in the type, or asks for approval of the call
  if (typeof Shape.own(entry, "state") === "string") {
    if (typeof Shape.own(entry, "toolCallId") === "string") return true
    if (typeof type === "string" && type.startsWith("tool-")) return true
  }
  if (wrappers.some((key) => Shape.isObject(Shape.own(entry, key)))) return true
  if (Shape.own(entry, "method") === "tools/call") return true
  const hasId = idsOf(entry).length > 0
  const isNamed = nameKeys.some((key) => typeof Shape.own(entry, key) === "string")
  if (isNamed && ["call_id", "toolCallId", "toolUseId"].some((key) => Shape.own(entry, key) !== undefined)) return true
  if (hasId && isNamed && typeof type === "string" && /tool|func|call/i.test(type)) return true
  return argumentKeys.some((key) => Shape.own(entry, key) !== undefined)
    ? hasId || isNamed
    : hasId && isNamed && declaring.some((key) => Shape.own(entry, key) !== undefined)
}

/** A name without what people misspell in it. */
const plain = (name: string): string => name.length > 40 ? "" : name.toLowerCase().replaceAll(/[-_ ]/g, "")

const callTypes = new Set([
  "function",
  "functioncall",
  "customtoolcall",
  "tooluse",
  "toolcall",
  "invalidtoolcall",
  "toolinvocation",
  "dynamictool",
  "toolapprovalrequest"
])

/** Names under which messages have calls. */
const holders = new Set([
  "toolcall",
  "toolcalls",
  "invalidtoolcalls",
  "toolcallchunks",
  "functioncall",
  "functioncalls",
  "tooluse",
  "tooluses",
  "toolinvocation",
  "toolinvocations"
])

/** Under which an entry has what it says of a call. */
const wrappers = ["function", "custom", "functionCall", "function_call", "toolUse", "toolCall", "toolInvocation"]

const nameKeys = ["name", "toolName", "tool_name"]
const callIdKeys = ["call_id", "callId", "toolCallId", "tool_call_id", "toolUseId", "tool_use_id"]
const idKeys = ["id", ...callIdKeys]
const argumentKeys = ["input", "args", "arguments", "rawInput"]

/** Where nothing may be anything. */
const labels = new Set([...nameKeys, ...idKeys])

/** Declarations of tools have these, too. */
const declaring = ["params", "parameters"]

/** What a call is given, which may be anything. */
const payload: ReadonlySet<string> = new Set([...argumentKeys, ...declaring, "malformed"])

/** What a call has given, where an entry has both. */
const results: ReadonlySet<string> = new Set(["output", "outputs", "result", "results", "error", "errorText"])

const nothing: ReadonlySet<string> = new Set()

/** Where messages have no calls: what was sent with them, and what is said about them. */
const opaque = new Set([
  "tools",
  "functions",
  "tool_choice",
  "usage",
  "metadata",
  "response_metadata",
  "usage_metadata",
  "usageMetadata",
  "providerMetadata",
  "providerOptions",
  "callProviderMetadata",
  "_meta"
])

/** What answers a call, and data of an application: both may be anything. */
const isClosed = (entry: Shape.JsonObject): boolean => {
  const type = Shape.own(entry, "type")
  return Shape.own(entry, "functionResponse") !== undefined || Shape.own(entry, "toolResult") !== undefined ||
    (typeof type === "string" && (type.startsWith("data-") || (answers.test(type) && !isAskingOnly(entry)))) ||
    (Shape.own(entry, "tool_call_id") !== undefined && Shape.own(entry, "content") !== undefined)
}

/** Whether an entry has arguments and no result, whatever its type says. */
const isAskingOnly = (entry: Shape.JsonObject): boolean =>
  Array.from(payload).some((key) => Shape.own(entry, key) !== undefined) &&
  [...results, "content"].every((key) => Shape.own(entry, key) === undefined)

/** What the provider runs itself, or somebody has answered. */
const isOthers = (entry: Shape.JsonObject): boolean => {
  const type = Shape.own(entry, "type")
  const state = Shape.own(entry, "state")
  return Shape.own(entry, "providerExecuted") === true || (typeof type === "string" && providers.test(type)) ||
    (typeof state === "string" && answered.test(state)) ||
    (Shape.own(Shape.own(entry, "toolUse"), "type") === "server_tool_use" && Shape.own(entry, "name") === undefined)
}

/** The states of the AI SDK in which a call has its answer. */
const answered = /^output-(?:available|error|denied)$/

const providers =
  /^(?:server_tool_(?:use|call)|mcp_(?:tool_use|call|list_tools|approval_request)|(?:web_search|file_search|image_generation|code_interpreter)_call)$/
const answers = /[-_](?:result|output|error|response)$/

/** What an entry says of a call, in itself and in what it wraps. */
const saying = (entry: Shape.JsonObject): ReadonlyArray<Shape.JsonObject> => [
  entry,
  ...wrappers.map((key) => Shape.own(entry, key)).filter(Shape.isObject)
]

const idsOf = (...said: ReadonlyArray<Shape.JsonObject>): ReadonlyArray<string> => idsUnder(idKeys, said)

/** The ids of a call; `id` may be that of its place in the message, where another one names the call. */
const ownIds = (said: ReadonlyArray<Shape.JsonObject>): ReadonlyArray<string> => {
  const own = idsUnder(callIdKeys, said)
  return own.length > 0 ? own : idsUnder(["id"], said)
}

const idsUnder = (keys: ReadonlyArray<string>, said: ReadonlyArray<Shape.JsonObject>): ReadonlyArray<string> =>
  said.flatMap((it) => keys.map((key) => Shape.own(it, key))).flatMap((id) =>
    typeof id === "string" || typeof id === "number" ? [String(id)] : []
  )

const among = (said: ReadonlyArray<Shape.JsonObject>, keys: ReadonlyArray<string>): unknown =>
  said.flatMap((it) => keys.map((key) => Shape.own(it, key))).find((it) => it !== undefined)

/** One text for calls of the same with the same. */
const wordsOf = (said: ReadonlyArray<Shape.JsonObject>): string => {
  const args = among(said, [...argumentKeys, ...declaring])
  return canonicalJson([among(said, nameKeys), typeof args === "string" ? args : JSON.stringify(args)])
}

interface Known {
  /** The names of the calls of each id. */
  readonly ids: ReadonlyMap<string, ReadonlySet<unknown>>
  readonly words: () => ReadonlySet<string>
}

const knownIn = (judged: Judged): Known => {
  const ids = new Map<string, Set<unknown>>()
  for (const entry of judged) {
    const name = among(saying(entry), nameKeys)
    // its content has been checked separately
    for (const id of idsOf(entry)) ids.set(id, (ids.get(id) ?? new Set()).add(name))
  }
  let words: ReadonlySet<string> | undefined
  return { ids, words: () => words ??= new Set(Array.from(judged, (it) => wordsOf([it]))) }
}

/** Whether it is a call that its reader has judged, or a copy of one: by its id and name, or by all it says. */
const isKnown = (entry: Shape.JsonObject, { ids, words }: Known): boolean => {
  const said = saying(entry)
  const all = ownIds(said)
  const isOneKnown = (parts: ReadonlyArray<Shape.JsonObject>): boolean => {
    const own = ownIds(parts)
    const name = among(parts, nameKeys)
    if (all.length === 0) return name !== undefined && words().has(wordsOf(parts))
    return (own.length === 0 ? all : own).some((id) => {
      const names = ids.get(id)
      return names !== undefined && (name === undefined || names.has(undefined) || names.has(name))
    })
  }
  // an entry that names a call and wraps another one is two
  const named = said.filter((it) => among([it], nameKeys) !== undefined)
  return named.length > 1 ? named.every((it) => isOneKnown([it])) : isOneKnown(said)
}

const mistake = (path: string, expected: string): Shape.Mistake => ({
  path,
  problem: "is a tool call where this format has none",
  expected
})

const first = <K, V>(
  entries: Iterable<readonly [K, V]>,
  look: (key: K, value: V) => Shape.Mistake | undefined
): Shape.Mistake | undefined => {
  for (const [key, value] of entries) {
    const found = look(key, value)
    if (found !== undefined) return found
  }
  return undefined
}
