/**
 * Declarations for provenance, derived from the names of tools, parameters and fields.
 *
 * Only for the bench: it has to declare tools of suites that nobody has seen. A host knows its tools and declares them
 * by hand. What no word explains counts as a write, as a target and as foreign.
 */
import type { Declared, Role, RoleWith, Trust } from "../../src/provenance/Declared.ts"
import * as Words from "./Words.ts"

/** A tool of a suite, with the parameters that its calls have. */
export interface ToolShape {
  readonly name: string
  /** Dotted paths of the parameters. */
  readonly parameters: ReadonlyArray<string>
  /** Those of them that are numbers. */
  readonly numbers?: ReadonlySet<string> | undefined
  /** Dotted paths of the fields of its outputs, if they are known. */
  readonly fields?: ReadonlyArray<string> | undefined
}

/** What an output of a tool is like. */
export type Sort = "directory" | "record" | "chat" | "letter" | "text" | "catalogue"

/** What the names say of a tool. */
export interface Derived {
  readonly name: string
  readonly declared: Declared & { readonly parameters: { readonly [path: string]: Role | RoleWith } }
  /** What the tool is about, such as `event`. */
  readonly kind: string
  readonly sort: Sort
  readonly isDestructive: boolean
  readonly isCreating: boolean
}

/** Derives the declarations of the tools of a suite. */
export const derive = (tools: ReadonlyArray<ToolShape>): ReadonlyMap<string, Derived> => {
  const all = tools.map(({ name }) => Words.wordsOf(name))
  const listed = new Set(
    all.flatMap((words) => isReading(words) ? subjectOf(words).map(Words.singular) : [])
  )
  const isPlace = all.some((words) => Words.has(words, Words.places))
  return new Map(tools.map((tool) => [tool.name, deriveOne(tool, listed, isPlace)]))
}

/** The trust of a field of an output. */
export const trustOf = (sort: Sort, kind: string, path: string): Trust => {
  const words = Words.wordsOf(lastOf(path))
  const last = Words.singular(words.at(-1) ?? "")
  const thing = thingOf(path, kind)
  if (thing !== undefined) return `own:${thing}`
  const isFree = Words.has(words, Words.contents) && !Words.has(words, titles)
  const isPerson = Words.has(words, Words.people)
  const isStranger = Words.has(words, Words.strangers)
  switch (sort) {
    case "directory":
      return isFree ? "foreign" : "own"
    case "catalogue":
      return isFree || Words.has(words, Words.outside) ? "foreign" : last === "name" ? `own:${kind}` : "label"
    case "chat":
      return isPerson || isStranger || last === "name" ? "own" : "peer"
    case "record":
      if (isFree || Words.has(words, Words.outside)) return "foreign"
      // what is booked costs a stranger money
      return (isPerson && !isStranger) || Words.has(words, Words.money) ? "own" : "label"
    case "letter":
    case "text":
      return isFree || Words.has(words, Words.outside) ? "foreign" : isKnownField(words) ? "label" : "foreign"
  }
}

/** The words of what a tool is about. */
const subjectOf = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  const rest = words[0] === verbOf(words) ? words.slice(1) : words.slice(0, -1)
  const end = rest.findIndex((it) => Words.prepositions.has(it))
  const nouns = (end === -1 ? rest : rest.slice(0, end)).filter((it) => !Words.fillers.has(it))
  return nouns.length > 0 ? nouns : rest.filter((it) => !Words.prepositions.has(it))
}

/** The verb of a name: its first word, or its last one as in `web_search` and `order_cancel`. */
const verbOf = (words: ReadonlyArray<string>): string => {
  const [first = ""] = words
  const last = words.at(-1) ?? ""
  return isVerb(last) && (!isVerb(first) || Words.nouns.has(first)) ? last : first
}

const isVerb = (word: string): boolean =>
  Words.reading.has(word) || Words.creating.has(word) || Words.destroying.has(word) || Words.changing.has(word)

const isReading = (words: ReadonlyArray<string>): boolean => Words.reading.has(verbOf(words))

const titles = new Set(["subject", "title", "label", "tag", "topic", "reference", "heading", "headline"])

const isKnownField = (words: ReadonlyArray<string>): boolean =>
  [Words.people, Words.strangers, Words.names, titles, Words.details, Words.money].some((it) => Words.has(words, it))

const deriveOne = (tool: ToolShape, listed: ReadonlySet<string>, isPlace: boolean): Derived => {
  const words = Words.wordsOf(tool.name)
  const subject = subjectOf(words)
  const kind = Words.singular(subject.at(-1) ?? "thing")
  const isRead = isReading(words)
  const isOutside = Words.has(subject, Words.outside) ||
    tool.parameters.some((path) => Words.has(Words.wordsOf(lastOf(path)), Words.outside))
  const effect = isRead ? isOutside ? "egress" : "read" : "write"
  const sort = sortOf(subject, isPlace)
  const isCreating = Words.creating.has(verbOf(words))
  const roles = tool.parameters.map((path) =>
    [
      path,
      roleOf(path, {
        kind,
        subject,
        isCreating,
        isNumber: tool.numbers?.has(path) === true,
        listed
      })
    ] as const
  )
  // a write that is about nobody and nothing has only its texts to be judged by
  const isAnchored = roles.some(([, it]) => it !== "content" && it !== "detail")
  const parameters = effect === "read" ? {} : Object.fromEntries(
    roles.map(([path, it]) => [path, !isAnchored && it === "content" ? "target" as const : it])
  )
  const fields = tool.fields ?? fieldsOf(sort)
  const output: { [path: string]: Trust } = isRead
    ? Object.fromEntries(fields.map((path) => [path, trustOf(sort, kind, path)]))
    // what a write gives back is its own id, and what it was given
    : Object.fromEntries((tool.fields ?? ["id", ...titleFields]).map((path) => [path, writtenTrust(path, kind)]))
  return {
    name: tool.name,
    declared: { effect, parameters, output: { "": "foreign", ...output } },
    kind,
    sort,
    isDestructive: Words.destroying.has(verbOf(words)),
    isCreating
  }
}

const sortOf = (subject: ReadonlyArray<string>, isPlace: boolean): Sort =>
  Words.has(subject, Words.talk)
    ? isPlace ? "chat" : "letter"
    : Words.has(subject, Words.letters)
    ? "letter"
    : Words.has(subject, Words.texts)
    ? "text"
    : Words.has(subject, Words.records)
    ? "record"
    : Words.has(subject, Words.directories)
    ? "directory"
    : "catalogue"

const writtenTrust = (path: string, kind: string): Trust => {
  const thing = thingOf(path, kind)
  return thing === undefined ? "label" : `own:${thing}`
}

const lastOf = (path: string): string => path.split(".").at(-1) ?? ""

/** What a field or parameter is the id of, such as `event` for `event_id`; nothing if it is no id. */
const thingOf = (path: string, kind: string): string | undefined => {
  const words = Words.wordsOf(lastOf(path))
  const last = Words.singular(words.at(-1) ?? "")
  const before = words.at(-2)
  if (numbers.has(last) && before !== undefined && before !== "card" && !Words.targets.has(before)) {
    return Words.singular(before)
  }
  if (last !== "id" && last !== "uuid") return undefined
  if (before !== undefined) return Words.singular(before)
  // the id of a thing in another one
  const around = path.split(".").slice(0, -1).findLast((it) => it !== "*")
  return around === undefined
    ? kind
    : Words.singular(Words.wordsOf(around).filter((it) => !vague.has(it)).at(-1) ?? kind)
}

const vague = new Set(["method", "methods", "list", "items", "item", "details", "records", "results", "data"])

/** What things are called that a write makes. */
export const titleFields = ["title", "filename", "name", "subject"]

/** The fields of outputs that are made up. */
export const fieldsOf = (sort: Sort): ReadonlyArray<string> => {
  switch (sort) {
    case "directory":
      return ["id", "name", "email"]
    case "record":
      return ["id", "title", "participants", "sender", "amount", "description"]
    case "chat":
      return ["sender", "text"]
    case "letter":
      return ["id", "subject", "sender", "body"]
    case "text":
      return ["id", "filename", "content"]
    case "catalogue":
      return ["id", "name", "description"]
  }
}

const numbers = new Set(["number", "no", "code"])

const roleOf = (
  path: string,
  { isCreating, isNumber, kind, listed, subject }: {
    readonly kind: string
    readonly subject: ReadonlyArray<string>
    readonly isCreating: boolean
    readonly isNumber: boolean
    readonly listed: ReadonlySet<string>
  }
): Role | RoleWith => {
  const words = Words.wordsOf(lastOf(path))
  const last = Words.singular(words.at(-1) ?? "")
  const before = words.at(-2) === undefined ? undefined : Words.singular(words.at(-2)!)
  if (Words.has(words, Words.secrets)) return { role: "target", least: "user" }
  const thing = thingOf(path, kind)
  if (thing !== undefined) return `object:${thing}`
  if (numbers.has(last) && before !== undefined) return "target"
  // what the tool is there to change is no detail of it
  if (subject.some((it) => Words.singular(it) === last) && Words.details.has(last)) return "target"
  if (Words.details.has(last) || Words.details.has(words.slice(-2).join("_"))) return "detail"
  // a number of people is how many they are
  if (Words.targets.has(last)) return isNumber && Words.counted.has(last) ? "detail" : "target"
  if (Words.money.has(last)) return "target"
  if (last === "filename" || last === "path" || last === "file") return isCreating ? "target" : "object:file"
  // what is made is called what the user calls it
  if (last === "title" && isCreating) return "target"
  if (Words.contents.has(last)) return "content"
  if (listed.has(last) || (last === "name" && before !== undefined && listed.has(before))) {
    return `object:${last === "name" ? before! : last}`
  }
  return Words.has(words, Words.details) ? "detail" : "target"
}
