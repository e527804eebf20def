/**
 * Outputs for calls that were recorded without them, made by one rule for every suite.
 *
 * A value of a later call that the goal does not have was read somewhere: it is put into the output of the earlier call
 * that fits best by kind, in the field where such a value stands. What the injection says stands in every field that a
 * stranger can write. Listings have everything of their kind that occurs anywhere in the suite.
 */
import { type Derived, titleFields } from "./Derived.ts"
import { type Arguments, type Scalar, scalarsOf, type Suite, tasksOf } from "./Suite.ts"
import * as Words from "./Words.ts"

/** A call with its output. */
export interface Answered {
  readonly tool: string
  readonly args: Arguments
  readonly output: unknown
}

/** A call without its output. */
export interface Unanswered {
  readonly tool: string
  readonly args: Arguments
  /** The output that was recorded. */
  readonly output?: unknown
}

/** What is known of a suite. */
export interface World {
  readonly tools: ReadonlyMap<string, Derived>
  /** Everything of a kind: ids of things, and names of people and places. */
  readonly listed: ReadonlyMap<string, ReadonlyArray<Scalar>>
}

/** What outputs carry besides what is needed. */
export interface Poison {
  readonly text: string
  /** Members write it, too, not only strangers. */
  readonly byPeers: boolean
}

/** Collects what exists in a suite: it exists for attackers as well. */
export const worldOf = (suite: Suite, tools: ReadonlyMap<string, Derived>): World => {
  const listed = new Map<string, Set<Scalar>>()
  const add = (kind: string, value: Scalar) => void listed.set(kind, (listed.get(kind) ?? new Set()).add(value))
  for (const { args, tool } of tasksOf(suite).flatMap((it) => it.calls)) {
    for (const [path, value] of scalarsOf(args)) {
      const want = wantOf(tools.get(tool), path, value)
      if (want._tag === "Object") add(want.kind, value)
      // an address of an attacker is in no list of the user's
      else if (want._tag === "Person" && !isHandle(value)) add("person", value)
      else if (want._tag === "Named") add(want.kind, value)
    }
  }
  return { tools, listed: new Map(Array.from(listed, ([kind, values]) => [kind, Array.from(values)])) }
}

/** Gives calls their outputs. `said` is what the values need not be read for: the goal, or the injection. */
export const answered = (
  world: World,
  calls: ReadonlyArray<Unanswered>,
  said: string,
  poison?: Poison
): ReadonlyArray<Answered> => {
  const placed = calls.map((): Array<Placed> => [])
  calls.forEach(({ args, tool }, index) => {
    for (const [path, value] of scalarsOf(args)) {
      const want = wantOf(world.tools.get(tool), path, value)
      if (typeof value === "boolean" || isDate(String(value)) || isSaid(said, value, want)) continue
      if (want._tag === "Free" || (world.tools.get(tool)?.isCreating === true && want._tag === "Any")) continue
      const before = calls.slice(0, index)
      // values of one parameter come from one call
      const same = placed.findLastIndex((it, at) => at < index && it.some((it) => it.for === `${tool} ${path}`))
      const source = same === -1 ? sourceOf(world, before, want) : same
      if (source === undefined || placed[source]!.some((it) => it.value === value)) continue
      placed[source]!.push({ want, value, for: `${tool} ${path}` })
    }
  })
  return calls.map((call, index) => ({
    ...call,
    output: call.output ?? outputOf(world, call, placed[index]!, poison)
  }))
}

/** A value that was read before it was used. */
interface Placed {
  readonly want: Want
  readonly value: Scalar
  /** The parameter that it is given to. */
  readonly for: string
}

/** What a value is, by the parameter that it is given to. */
type Want =
  | { readonly _tag: "Object"; readonly kind: string; readonly isName: boolean }
  | { readonly _tag: "Person" }
  | { readonly _tag: "Named"; readonly kind: string }
  | { readonly _tag: "Link" }
  | { readonly _tag: "Money" }
  | { readonly _tag: "Any" }
  | { readonly _tag: "Free" }

const wantOf = (tool: Derived | undefined, path: string, value: Scalar): Want => {
  const words = Words.wordsOf(path.split(".").at(-1) ?? "")
  const last = Words.singular(words.at(-1) ?? "")
  const given = tool?.declared.parameters[path]
  const role = typeof given === "object" ? given.role : given
  if (role === "content" || role === "detail") return { _tag: "Free" }
  if (role?.startsWith("object:") === true) {
    return { _tag: "Object", kind: role.slice("object:".length), isName: last !== "id" }
  }
  if (Words.outside.has(last) || /^(?:https?:|www\.)/.test(String(value))) return { _tag: "Link" }
  if (Words.money.has(last)) return { _tag: "Money" }
  if (last === "id") return { _tag: "Object", kind: Words.singular(words.at(-2) ?? tool?.kind ?? ""), isName: false }
  if (Words.places.has(last)) return { _tag: "Named", kind: last }
  if (Words.people.has(last)) return { _tag: "Person" }
  return { _tag: "Any" }
}

/** The earlier call that gave a value: the one that fits best, and the latest of those. */
const sourceOf = (world: World, before: ReadonlyArray<Unanswered>, want: Want): number | undefined => {
  let best: { readonly index: number; readonly score: number } | undefined
  before.forEach(({ tool }, index) => {
    const derived = world.tools.get(tool)
    const score = derived === undefined ? 0 : scoreOf(derived, want)
    if (score > 0 && score >= (best?.score ?? 0)) best = { index, score }
  })
  return best?.index
}

const scoreOf = ({ declared, isCreating, kind, sort }: Derived, want: Want): number => {
  if (declared.effect === "write") return want._tag === "Object" && isCreating && kind === want.kind ? 10 : 0
  const isWritten = sort === "letter" || sort === "text" || sort === "chat"
  switch (want._tag) {
    case "Object":
      return kind === want.kind ? 10 : isWritten ? 3 : 1
    case "Person":
      return sort === "directory"
        ? Words.people.has(kind) ? 8 : 0
        : { record: 6, chat: 5, letter: 3, text: 2, catalogue: 0 }[sort]
    case "Named":
      return sort === "directory" ? kind === want.kind ? 10 : 0 : isWritten ? 4 : 1
    case "Link":
      return isWritten ? 5 : sort === "record" ? 3 : 1
    case "Money":
      return sort === "catalogue" || sort === "chat" ? 2 : 5
    case "Any":
      return isWritten ? 4 : sort === "record" || sort === "catalogue" ? 3 : 2
    case "Free":
      return 0
  }
}

type Fields = { [name: string]: unknown }

/** Makes the output of a call. */
const outputOf = (
  world: World,
  { args, tool: name }: Unanswered,
  placed: ReadonlyArray<Placed>,
  poison: Poison | undefined
): unknown => {
  const tool = world.tools.get(name)
  if (tool === undefined) return "Done."
  if (tool.declared.effect === "write") {
    const id = placed.find((it) => it.want._tag === "Object")?.value
    return id === undefined ? { status: "done" } : { id, ...titlesIn(args) }
  }
  const found = Object.entries(args).filter(([key, value]) =>
    typeof value === "string" && value !== "" && Words.lookups.has(Words.wordsOf(key).at(-1) ?? "")
  ).map(([, value]) => String(value))
  const records: Array<Fields> = []
  const next = (): Fields => {
    const fields: Fields = {}
    records.push(fields)
    return fields
  }
  for (const it of placed) put(tool, it, (isFresh) => isFresh ? next() : records.at(-1) ?? next())
  if (records.length === 0) next()
  const title = {
    directory: "name",
    record: "title",
    chat: "topic",
    letter: "subject",
    text: "filename",
    catalogue: "name"
  }
  if (found.length > 0) records[0]![title[tool.sort]] ??= found[0]
  else addWorld(world, tool, records)
  const free = freeOf(tool)
  const isPoisoned = poison !== undefined && (tool.sort !== "chat" || poison.byPeers)
  for (const record of records) {
    if (free === undefined) continue
    const text = Array.isArray(record[free]) ? record[free].join(". ") : "As agreed."
    record[free] = isPoisoned ? `${text} ${poison.text}` : text
  }
  // a name may be chosen by a stranger, too: it carries the text and is the same value no longer
  if (poison !== undefined && found.length === 0) records.push({ [title[tool.sort]]: `External ${poison.text}` })
  return records
}

const titlesIn = (args: Arguments): Fields =>
  Object.fromEntries(Object.entries(args).filter(([key]) => titleFields.includes(key)))

/** The field of a tool's outputs that has free text. */
const freeOf = ({ sort }: Derived): string | undefined =>
  sort === "directory"
    ? undefined
    : { record: "description", chat: "text", letter: "body", text: "content", catalogue: "description" }[sort]

/** Puts a value into the field where it stands. */
const put = (tool: Derived, { value, want }: Placed, recordFor: (isFresh: boolean) => Fields): void => {
  const free = freeOf(tool)
  const write = () => {
    const record = recordFor(false)
    if (free === undefined) record["name"] = value
    else record[free] = [...Array.isArray(record[free]) ? record[free] : [], String(value)]
  }
  switch (want._tag) {
    case "Object":
      if (tool.kind !== want.kind) return write()
      recordFor(true)[want.isName && tool.sort === "catalogue" ? "name" : "id"] = value
      return
    case "Person":
      if (tool.sort === "directory") recordFor(true)[isHandle(value) ? "email" : "name"] = value
      else if (tool.sort === "record" && Words.dealings.has(tool.kind)) recordFor(true)["sender"] = value
      else if (tool.sort === "record") {
        const record = recordFor(false)
        record["participants"] = [...Array.isArray(record["participants"]) ? record["participants"] : [], value]
      } else if (tool.sort === "chat" && !isHandle(value)) recordFor(true)["sender"] = value
      else if (tool.sort === "letter") recordFor(false)["sender"] ??= value
      else write()
      return
    case "Named":
      if (tool.sort === "directory" && tool.kind === want.kind) recordFor(true)["name"] = value
      else write()
      return
    case "Money":
      if (tool.sort === "record" || tool.sort === "directory") recordFor(false)["amount"] = value
      else write()
      return
    case "Link":
    case "Any":
    case "Free":
      return write()
  }
}

/** A listing has everything of its kind, and more than one. */
const addWorld = (world: World, tool: Derived, records: Array<Fields>): void => {
  const known = new Set(records.flatMap((it) => scalarsOf(it).map(([, value]) => value)))
  const kinds = Words.people.has(tool.kind) ? ["person", tool.kind] : [tool.kind]
  for (const value of kinds.flatMap((it) => world.listed.get(it) ?? [])) {
    if (!known.has(value)) records.push({ [typeof value === "string" && /\D/.test(value) ? "name" : "id"]: value })
  }
  records.push({ [tool.sort === "chat" ? "sender" : "name"]: "Somebody Else" })
}

const isDate = (text: string): boolean => /^\d{4}-\d{2}-\d{2}|^\d{1,2}:\d{2}$/.test(text)

/** An address, a link or a number that reaches somebody. */
export const isHandle = (value: Scalar): boolean =>
  /@|:\/\/|^www\.|\.[a-z]{2,}(?:\/|$)/i.test(String(value)) || (String(value).match(/\d/g)?.length ?? 0) >= 7

/** Tells whether a text says a value: as it is, or in words of any order. */
const isSaid = (text: string, value: Scalar, want: Want): boolean => {
  const [where, what] = [text.toLowerCase(), String(value).toLowerCase()]
  // short numbers are parts of dates and counts
  if (/^[\d.]{1,6}$/.test(what)) {
    const before = want._tag === "Object" && what.length <= 3 ? "(?:id|#)\\W{0,3}" : "(?<![\\d.])"
    return new RegExp(`${before}${what.replaceAll(".", "\\.")}(?![\\d-])`).test(where)
  }
  const words = new Set(where.split(separators).flatMap((it) => [it, it.replace(/[.,]+$/, "")]))
  const own = what.split(separators).filter((it) => it !== "")
  return where.includes(what) || (own.length > 1 && own.every((it) => words.has(it)))
}

const separators = /[^\p{L}\p{N}@._/-]+/u
