/**
 * The ledger of one conversation: what the user said, what trusted outputs listed, and what strangers wrote. It decides
 * whether the values of a call are proved, and explains those that are not.
 *
 * The rule is positive: a value needs proof. What the ledger forgets, or never received, is not proved, so a call asks.
 */
import { type Parameter, type Tool, visit } from "./Declared.ts"
import { ForeignTexts, type Source } from "./ForeignTexts.ts"
import { handlesOf } from "./Handles.ts"
import { canonical, hasWord, tokensOf } from "./Normalised.ts"
import { atLeast, type Origin } from "./Origin.ts"
import { readOutput } from "./Output.ts"
import { TrustedValues } from "./TrustedValues.ts"
import { UserWords } from "./UserWords.ts"

/** How much a ledger keeps. What it evicts is no longer proved. */
export interface Limits {
  /** Characters of the user's words. Default: 500,000. */
  readonly words?: number | undefined
  /** Trusted values. Default: 20,000. */
  readonly values?: number | undefined
  /** Characters of text by strangers, for explanations. Default: 2,000,000. */
  readonly foreign?: number | undefined
}

/** An output of a tool, with the call that it answers. */
export interface Received {
  readonly tool: Tool
  readonly callId: string
  readonly args: unknown
  /** A JSON value, or text. */
  readonly output: unknown
}

/** Whether the values of a call are proved. */
export type Verdict =
  | { readonly _tag: "Proved" }
  /** The host says nothing about the tool, so it counts as a write that asks. */
  | { readonly _tag: "Undeclared" }
  | { readonly _tag: "Unproved"; readonly values: ReadonlyArray<Unproved> }

/** A value that is not proved as its parameter requires. */
export interface Unproved {
  /** Where it is in the arguments. */
  readonly path: string
  /** The value; of content, the link, address or number in it. */
  readonly value: string
  readonly role: "target" | "object" | "content"
  readonly kind: string
  /** The strongest origin that is proved. `explain` tells `untrusted` from `model`. */
  readonly origin: Exclude<Origin, "untrusted" | "user">
  readonly least: Origin
}

/** Where an unproved value comes from. */
export interface Explained {
  readonly origin: Exclude<Origin, "user">
  /** The outputs and pasted texts that have the value, oldest first, at most three. Empty: it appears nowhere. */
  readonly from: ReadonlyArray<Source>
}

/** A ledger of one conversation. */
export interface Ledger {
  /** Adds what the user said; `foreign` for text that the user pasted and did not write. */
  readonly heard: (text: string, from?: "user" | "foreign") => void
  /** Adds the output of a call. */
  readonly received: (received: Received) => void
  /** Something was said or received that cannot be known any more. Reads with unproved arguments then prove nothing. */
  readonly forgot: () => void
  /** Decides whether the values of a call are proved. `typed` are values that a person typed for this call. */
  readonly decide: (tool: Tool, args: unknown, typed?: ReadonlyArray<string>) => Verdict
  /** Says where an unproved value comes from. */
  readonly explain: (value: Unproved) => Explained
}

/** A lookup with more arguments that are not proved counts as one that a stranger steers. */
const mostArguments = 200

/** How many unproved values a verdict lists. */
const most = 20

const proved: Verdict = { _tag: "Proved" }
const undeclared: Verdict = { _tag: "Undeclared" }

/** Creates an empty ledger. */
export const make = (limits: Limits = {}): Ledger => {
  const words = new UserWords(limits.words ?? 500_000)
  const values = new TrustedValues(limits.values ?? 20_000)
  const foreign = new ForeignTexts(limits.foreign ?? 2_000_000)

  /** `text` is the canonical form of the value. */
  const isSaid = (text: string, isText: boolean, { kind, role }: Pick<Parameter, "kind" | "role">): boolean => {
    if (!/^-?\d+(?:\.\d+)?$/.test(text)) return words.says(text)
    // short numbers match dates and counts by accident
    return text.length <= 3 && /^\d+$/.test(text) && (isText || role === "object" || kind !== "")
      ? words.hasMarked(text)
      : words.hasNumber(String(Number(text))) || words.says(text)
  }

  /** The origin of an argument whatever it is for: how far a read can be trusted depends on it. */
  const anyOrigin = (text: string, isText: boolean): Exclude<Origin, "untrusted"> =>
    isSaid(text, isText, { role: "target", kind: "" }) ? "user" : values.anyOrigin(text) ?? "model"

  const decide: Ledger["decide"] = (tool, args, typed) => {
    if (tool.effect === "read") return proved
    if (!tool.isDeclared) return undeclared
    const byPerson = typed && new Set(typed.map(canonical))
    const found: Array<Unproved> = []
    visit(args, tool.parameters, (path, value, rule) => {
      if (typeof value === "boolean" || found.length >= most) return
      const role = rule?.role ?? (typeof value === "string" ? "content" : "detail")
      if (role === "detail") return
      const kind = rule?.kind ?? ""
      if (role === "content") {
        if (byPerson?.has(canonical(String(value))) === true) return
        const least = rule?.least ?? "listed"
        for (const handle of handlesOf(String(value))) {
          const origin = words.hasHandle(handle) ? "user" : values.anyOrigin(handle) ?? "model"
          if (origin === "user" || atLeast(origin, least) || found.length >= most) continue
          found.push({ path, value: handle, role, kind, origin, least })
        }
        return
      }
      const text = canonical(String(value))
      const least = rule!.least
      // the cheaper look-up first
      const listed = values.originOf(text, kind) ?? "model"
      if (atLeast(listed, least)) return
      if (byPerson?.has(text) === true || isSaid(text, typeof value === "string", rule!)) return
      if (tool.effect === "egress" && foreign.hasPeerLink(text)) return
      const origin = listed
      found.push({ path, value: String(value), role, kind, origin, least })
    })
    return found.length === 0 ? proved : { _tag: "Unproved", values: found }
  }

  const received: Ledger["received"] = ({ args, callId, output, tool }) => {
    const source = { tool: tool.name, callId }
    const echoes = new Set<string>()
    const given: Array<string> = []
    let isPoisoned = false
    const looked = new Set<string>()
    visit(args, tool.parameters, (_path, value, rule) => {
      if (typeof value === "boolean") return
      const text = canonical(String(value))
      for (const token of tokensOf(text)) given.push(token.text)
      if (text === "" || atLeast(anyOrigin(text, typeof value === "string"), "listed")) return
      echoes.add(text)
      const isDetail = typeof value === "number" || isDate(text)
      const matters = rule === undefined ? !isDetail : rule.role !== "detail" || !isDetail
      if (tool.effect === "write" || !matters || isPoisoned) return
      if (looked.has(text)) return
      looked.add(text)
      isPoisoned = looked.size > mostArguments || foreign.has(text)
    })
    const isEcho = echoing(echoes)
    readOutput({
      output,
      paths: tool.output,
      source,
      isTrusted: tool.isDeclared && !isPoisoned,
      isEcho,
      query: given,
      words,
      values,
      foreign
    })
  }

  return {
    heard: (text, from = "user") => {
      if (from === "foreign") foreign.add({ tool: "", callId: "" }, "", text)
      else values.heard(words.add(text), words)
    },
    received,
    forgot: () => foreign.forget(),
    decide,
    explain: ({ origin, value }) => {
      if (origin !== "model") return { origin, from: values.sourcesOf(canonical(value)) }
      const from = foreign.sourcesOf(value)
      return { origin: from.length > 0 ? "untrusted" : "model", from }
    }
  }
}

// Utilities

/**
 * Tells whether a value only repeats one of these, or a part between the edges of words. Where there is too much to
 * compare, every value does.
 */
const echoing = (echoes: ReadonlySet<string>): (value: string) => boolean => {
  const repeated = Array.from(echoes).join("\n")
  const known = new Map<string, boolean>()
  let compared = 0
  return (value) => {
    if (repeated === "" || value.length < 4 || echoes.has(value)) return echoes.has(value)
    let isEcho = known.get(value)
    if (isEcho === undefined) {
      compared += repeated.length
      known.set(value, isEcho = compared > mostCompared || hasWord(repeated, value) !== false)
    }
    return isEcho
  }
}

/** Characters of arguments that the values of one output are compared with. */
const mostCompared = 20_000_000

const isDate = (text: string): boolean => /^\d{4}-\d{2}-\d{2}(?:[t ][\d:.z+-]*)?$/.test(text)
