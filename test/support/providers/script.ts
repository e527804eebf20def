/**
 * What a model says, as data: one script for servers of every protocol. A server
 * takes a turn of it for each request that it accepts, whatever becomes of the turn.
 */

/** The turns in their order, or what is said to what was asked. */
export type Script = ReadonlyArray<Turn> | ((asked: Asked) => Turn)

/** What the model says at once: reasoning, a search of the provider's own, text, calls, text again, in this order. */
export interface Turn {
  /** Reasoning, where the protocol shows it. */
  readonly reasoning?: string
  /** Reasoning that nobody may read: of Anthropic alone. */
  readonly redacted?: string
  /** What the provider itself searches the web for: Anthropic and OpenAI responses. */
  readonly search?: string
  /** The search ends with an error: Anthropic. */
  readonly searchFails?: true
  readonly text?: string
  readonly calls?: ReadonlyArray<Call>
  /** What it says after the calls, as some models do: https://github.com/leookun/cursor-byok/issues/307 */
  readonly after?: string
  /** Why it ended; by default `calls` if there are any, `stop` if not. */
  readonly finish?: Finish
  /** Tokens; by default those of `usage`. */
  readonly usage?: Partial<Usage>
  /** How many characters a delta has; by default 8. */
  readonly deltas?: number
  /** How a compatible server is odd in this turn. */
  readonly quirks?: Quirks
  readonly fault?: Fault
}

export type Finish = "stop" | "calls" | "length" | "filter"

export interface Call {
  readonly name: string
  readonly args?: unknown
  /** The arguments as they are written, broken if need be, instead of `args`. */
  readonly rawArgs?: string
  /** The id; by default one of the server's own. Where models change, one id on two servers is taken for their own by both. */
  readonly id?: string
}

export interface Usage {
  readonly input: number
  readonly output: number
  /** Those of the output that were reasoning. */
  readonly reasoning: number
  /** Those of the input that were read from a cache. */
  readonly cached: number
}

export const usage: Usage = { input: 10, output: 5, reasoning: 0, cached: 0 }

/** How servers that call themselves compatible are odd. */
export interface Quirks {
  /** A call comes whole in one delta. */
  readonly whole?: boolean
  /** The deltas of calls have no `index`; the calls come whole. */
  readonly noIndex?: boolean
  /** The id of a call is empty on the deltas after its first, or the same on each, instead of left out. */
  readonly ids?: "empty" | "repeated"
  /** The ids of calls are empty on every delta. */
  readonly noIds?: boolean
  readonly noUsage?: boolean
  readonly noFinish?: boolean
}

/**
 * After that many events of the stream, or in the middle of a part: of its reasoning, its text, the first call's
 * arguments (half an event, where a part is one event); `end` is before it says that, and why, it ends.
 */
export type Place = number | "reasoning" | "text" | "arguments" | "end"

/** What goes wrong. */
export type Fault =
  /** The connection breaks; `0` is before any answer. */
  | { readonly cut: Place }
  /** The answer just ends, and the connection with it, as if that were all. */
  | { readonly ends: Place }
  /** HTTP: 429 (wait that many seconds), 529 (overloaded; 503 where nobody says 529), 500, 401 … */
  | { readonly status: number; readonly retryAfter?: number; readonly as?: "date" }
  /** An error inside the stream, which ends it. */
  | { readonly error: Place }
  /** Nothing more is said until the client goes away. */
  | { readonly hang: Place }
  /** It ends, by length or a filter, with the last call half written. */
  | { readonly half: "length" | "filter" }

/** What was asked, whatever the protocol: those who said something at once are one message. */
export interface Asked {
  /** How many turns were taken before. */
  readonly turn: number
  readonly model: string
  readonly stream: boolean
  readonly system: string
  /** The names of the tools. */
  readonly tools: ReadonlyArray<string>
  readonly messages: ReadonlyArray<Message>
}

export type Message =
  | { readonly role: "user"; readonly text: string }
  | { readonly role: "assistant"; readonly text: string; readonly calls: ReadonlyArray<AskedCall> }
  | { readonly role: "tool"; readonly results: ReadonlyArray<AskedResult> }

export interface AskedCall {
  readonly id: string
  readonly name: string
  readonly args: unknown
}

/** The result of a call; `text` is what the model reads, a JSON text without its quotes. */
export interface AskedResult {
  readonly id: string
  readonly name: string
  readonly text: string
}

/** What a part of a request says, in the order of the request. */
export type Part =
  | { readonly of: "user"; readonly text: string }
  | { readonly of: "assistant"; readonly text: string }
  | { readonly of: "call"; readonly call: AskedCall }
  | { readonly of: "result"; readonly id: string; readonly name?: string | undefined; readonly text: string }

/** Parts in their order, as messages. */
export const messagesOf = (parts: ReadonlyArray<Part>): ReadonlyArray<Message> => {
  const names = new Map(parts.flatMap((part) => part.of === "call" ? [[part.call.id, part.call.name]] : []))
  return parts.reduce<ReadonlyArray<Message>>((messages, part) => {
    const last = messages.at(-1)
    const before = messages.slice(0, -1)
    switch (part.of) {
      case "user":
        return last?.role === "user"
          ? [...before, { role: "user", text: `${last.text}${part.text}` }]
          : [...messages, { role: "user", text: part.text }]
      case "assistant":
        return last?.role === "assistant"
          ? [...before, { ...last, text: `${last.text}${part.text}` }]
          : [...messages, { role: "assistant", text: part.text, calls: [] }]
      case "call":
        return last?.role === "assistant"
          ? [...before, { ...last, calls: [...last.calls, part.call] }]
          : [...messages, { role: "assistant", text: "", calls: [part.call] }]
      case "result": {
        const result = { id: part.id, name: part.name ?? names.get(part.id) ?? "", text: unquoted(part.text) }
        return last?.role === "tool"
          ? [...before, { role: "tool", results: [...last.results, result] }]
          : [...messages, { role: "tool", results: [result] }]
      }
    }
  }, [])
}

/** A turn with all it leaves open filled in. */
export interface Said {
  readonly reasoning: string | undefined
  readonly redacted: string | undefined
  readonly search: string | undefined
  readonly searchFails: boolean
  readonly text: string | undefined
  readonly calls: ReadonlyArray<SaidCall>
  readonly after: string | undefined
  readonly finish: Finish
  readonly usage: Usage
  readonly quirks: Quirks
  /** The deltas of a text. */
  readonly cut: (text: string) => ReadonlyArray<string>
}

export interface SaidCall {
  readonly id: string
  readonly name: string
  readonly raw: string
  /** Whether its arguments end in the middle. */
  readonly half: boolean
}

export const said = (turn: Turn, callId: () => string, quirks: Quirks): Said => {
  const half = turn.fault !== undefined && "half" in turn.fault ? turn.fault.half : undefined
  const calls = turn.calls ?? []
  return {
    reasoning: turn.reasoning,
    redacted: turn.redacted,
    search: turn.search,
    searchFails: turn.searchFails === true,
    text: turn.text,
    after: turn.after,
    calls: calls.map(({ args, id, name, rawArgs }, index) => {
      const raw = rawArgs ?? JSON.stringify(args ?? {})
      const broken = half !== undefined && index === calls.length - 1
      return { id: id ?? callId(), name, raw: broken ? raw.slice(0, raw.length / 2) : raw, half: broken }
    }),
    finish: half ?? turn.finish ?? (calls.length > 0 ? "calls" : "stop"),
    usage: { ...usage, ...turn.usage },
    quirks: { ...quirks, ...turn.quirks },
    cut: (text) => pieces(text, turn.deltas ?? 8)
  }
}

/** What a text says as JSON, or the text itself if it is none. */
export const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

// Utilities

/** Some protocols quote a result that is a text, some do not. */
const unquoted = (text: string): string => {
  const value = parsed(text)
  return typeof value === "string" ? value : text
}

const pieces = (text: string, size: number): ReadonlyArray<string> => {
  const characters = Array.from(text)
  return Array.from(
    { length: Math.ceil(characters.length / size) },
    (_, n) => characters.slice(n * size, (n + 1) * size).join("")
  )
}
