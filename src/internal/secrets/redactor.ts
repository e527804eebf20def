/**
 * Takes secrets out of what is recorded: out of arguments and outputs by what their tool declares and by the usual
 * names of secrets, and out of texts that repeat them.
 *
 * Secrets are replaced with a mark, never with a hash, which would let a reader check guesses. Values are not modified:
 * a value with secrets is copied.
 */
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as Marks from "./marks.ts"
import { isSecretName } from "./names.ts"
import * as Texts from "./texts.ts"

/** A value without its secrets. */
export interface Found {
  readonly value: unknown
  /** The texts that were taken out. */
  readonly secrets: ReadonlyArray<string>
}

/** Takes secrets out of the arguments, outputs and texts of a tool. Nothing in it throws. */
export interface Redactor {
  readonly arguments: (value: unknown) => Found
  /** Of what the tool gives, or fails with. */
  readonly output: (value: unknown) => Found
  /** A text without these secrets and without those that the text itself reveals. */
  readonly scrub: (text: string, secrets: ReadonlyArray<string>) => string
  /** The same for nothing but what the tool declares; absent if that is nothing. */
  readonly declared: Redactor | undefined
}

/** What a tool declares to be secret: paths, or a function that gives a value without secrets. */
export type Declared =
  | ReadonlyArray<string>
  | ((value: unknown, of: "arguments" | "output") => unknown)

/** Where a tool's secrets are. */
export interface Sources {
  readonly declared: Declared
  readonly parameters: SchemaAST.AST
  readonly results: ReadonlyArray<SchemaAST.AST>
}

/** Of a tool. Nothing is worked out before something is to be redacted. */
export const redactor = (sources: Sources): Redactor => {
  let made: Redactor | undefined
  const lazy = () => made ??= build(sources)
  return {
    arguments: (value) => lazy().arguments(value),
    output: (value) => lazy().output(value),
    scrub: (text, secrets) => lazy().scrub(text, secrets),
    get declared() {
      return lazy().declared
    }
  }
}

/** Redacts by the usual names and shapes of secrets alone. */
export const usual: Redactor = redactor({ declared: [], parameters: Schema.Unknown.ast, results: [] })

/** Declared paths that are invalid, or that neither the arguments nor a result can have. */
export const strayPaths = ({ declared, parameters, results }: Sources): ReadonlyArray<string> =>
  typeof declared === "function" ?
    [] :
    declared.filter((path) =>
      Marks.fromPath(path) === undefined || ![parameters, ...results].some((it) => Marks.admits(it, path))
    )

/** A value with all its texts changed, the names of fields, too; the value itself where none is. */
export const mapTexts = (value: unknown, f: (text: string) => string): unknown => {
  if (typeof value === "string") return value === Texts.mark ? value : f(value)
  if (typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) return mapped(value, (it) => mapTexts(it, f))
  const { toJSON } = value as { readonly toJSON?: unknown }
  if (typeof toJSON === "function") return mapTexts(toJSON.call(value), f)
  const entries = Object.entries(value)
  const left = mapped(entries, (entry) => mapped(entry, (it) => mapTexts(it, f)))
  return left === entries ? value : Object.fromEntries(left)
}

/** What is known of the secrets of one side. */
interface Known {
  readonly marks: ReadonlyArray<Marks.Marks>
  readonly own: ((value: unknown) => unknown) | undefined
}

const build = ({ declared, parameters, results }: Sources): Redactor => {
  const paths = typeof declared === "function" ? [] : declared.flatMap((it) => Marks.fromPath(it) ?? [])
  const known = (of: "arguments" | "output", schemas: ReadonlyArray<SchemaAST.AST>): Known => ({
    marks: [...paths, ...schemas.flatMap((it) => Marks.fromSchema(it) ?? [])],
    own: typeof declared === "function" ? (value) => declared(value, of) : undefined
  })
  const sides = { arguments: known("arguments", [parameters]), output: known("output", results) }
  const names = Marks.namesOf([...sides.arguments.marks, ...sides.output.marks])
  const declares = typeof declared === "function" || sides.arguments.marks.length > 0 || sides.output.marks.length > 0
  const own: Habits = { isName: (name) => names.has(name), isUsual: () => false, wantsShapes: false }
  return redactorOf(
    sides,
    { isName: (name) => names.has(name) || isSecretName(name), isUsual: isSecretName, wantsShapes: true },
    declares ? redactorOf(sides, own, undefined) : undefined
  )
}

/** Which names and shapes count as secrets, in addition to the marks. */
interface Habits {
  /** Of what is named so in a text. */
  readonly isName: (name: string) => boolean
  /** Of what is named so in a value. */
  readonly isUsual: (name: string) => boolean
  /** What has a usual shape in a text. */
  readonly wantsShapes: boolean
}

const redactorOf = (
  sides: { readonly arguments: Known; readonly output: Known },
  habits: Habits,
  declared: Redactor | undefined
): Redactor => ({
  arguments: (value) => redacted(value, sides.arguments, habits),
  output: (value) => redacted(value, sides.output, habits),
  scrub: (text, secrets) => {
    const known = Texts.without(text, secrets)
    const { secrets: more, text: left } = Texts.found(known, habits.isName, habits.wantsShapes)
    return Texts.without(left, more)
  },
  declared
})

const redacted = (value: unknown, { marks, own }: Known, habits: Habits): Found => {
  const walk = new Walk(habits)
  try {
    const left = walk.visit(own === undefined ? value : walk.differing(value, own(value)), marks)
    const secrets = walk.found
    if (secrets.length === 0) return { value: left, secrets }
    const hide = Texts.hider(secrets)
    // what is secret in one place may be repeated in another
    return { value: hide === undefined ? Texts.mark : mapTexts(left, hide), secrets }
  } catch {
    // a value that cannot be looked at, or a function that cannot say what is secret
    return { value: Texts.mark, secrets: textsOf(value) }
  }
}

/** The same list where nothing becomes another. */
const mapped = <T extends ReadonlyArray<unknown>>(values: T, f: (value: T[number], index: number) => unknown): T => {
  const left = values.map(f)
  return left.every((it, index) => Object.is(it, values[index])) ? values : left as unknown as T
}

/** One pass over a value. */
class Walk {
  private readonly secrets = new Set<string>()
  private readonly habits: Habits
  /** The values that the visited one is in. */
  private readonly above = new Set<object>()
  private isInText = false

  constructor(habits: Habits) {
    this.habits = habits
  }

  get found(): ReadonlyArray<string> {
    return Array.from(this.secrets)
  }

  /** The value as a tool's own function gives it; what that left out is secret. */
  differing(value: unknown, without: unknown): unknown {
    const kept = new Set(textsOf(without))
    for (const it of textsOf(value)) if (!kept.has(it)) this.secrets.add(it)
    return without
  }

  visit(value: unknown, some: ReadonlyArray<Marks.Marks>): unknown {
    if (value === null || isNothing(value)) return value
    if (Redacted.isRedacted(value)) return this.take(contentOf(value))
    const marks = Marks.all(some)
    if (marks.some((it) => it.isSecret)) return this.take(value)
    if (typeof value === "string") return this.text(value)
    if (typeof value !== "object") return value
    if (this.above.has(value) || this.above.size > deepest) return Texts.mark
    this.above.add(value)
    try {
      return Array.isArray(value) ? this.list(value, marks) : this.fields(value, marks)
    } finally {
      this.above.delete(value)
    }
  }

  private list(values: ReadonlyArray<unknown>, marks: ReadonlyArray<Marks.Marks>): unknown {
    if (values.every(isPair)) {
      // headers or variables, each its name and its value
      return mapped(values, (it, index) =>
        this.isSecret(it[0])
          ? mapped(it, (part, at) => at === 0 ? part : this.usual(part))
          : this.visit(it, Marks.under(marks, String(index))))
    }
    return mapped(values, (it, index) =>
      // a word of a command line behind `--password`
      typeof it === "string" && this.isFlag(values[index - 1]) && !it.startsWith("-")
        ? this.usual(it)
        : this.visit(it, Marks.under(marks, String(index))))
  }

  private fields(value: object, marks: ReadonlyArray<Marks.Marks>): unknown {
    const { toJSON } = value as { readonly toJSON?: unknown }
    if (typeof toJSON === "function") {
      const shown: unknown = toJSON.call(value)
      const left = this.visit(shown, marks)
      return left === shown ? value : left
    }
    const isNamed = this.isNamed(value)
    const entries = Object.entries(value)
    const left = entries.map(([key, it]) =>
      this.isSecret(key) || (isNamed && /^value$/i.test(key)) ? this.usual(it) : this.visit(it, Marks.under(marks, key))
    )
    return left.every((it, index) => Object.is(it, entries[index]![1]))
      ? value
      : Object.fromEntries(entries.map(([key], index) => [key, left[index]]))
  }

  private isSecret(name: string): boolean {
    return this.isInText ? this.habits.isName(name) : this.habits.isUsual(name)
  }

  /** It has a secret name in a field next to its value, as headers and variables often do. */
  private isNamed(value: object): boolean {
    const { Key, Name, header, key, name } = value as Record<string, unknown>
    return [name, key, header, Name, Key].some((it) => typeof it === "string" && this.isSecret(it))
  }

  private isFlag(value: unknown): boolean {
    return typeof value === "string" && /^--?[\w-]+$/.test(value) && this.isSecret(value)
  }

  /**
   * A value under a secret name is secret as a whole; short texts inside it may occur elsewhere, so they are not
   * collected.
   */
  private usual(value: unknown): unknown {
    if (isNothing(value)) return value
    if (typeof value !== "object" || Redacted.isRedacted(value)) return this.take(value)
    for (const it of textsOf(value)) if (it.length >= surely) this.secrets.add(it)
    return Texts.mark
  }

  private take(value: unknown): string {
    for (const it of textsOf(value)) this.secrets.add(it)
    const json = typeof value === "string" ? jsonOf(value) : undefined
    if (json !== undefined) this.usual(json)
    return Texts.mark
  }

  private text(text: string): string {
    const json = jsonOf(text)
    if (json !== undefined) return this.json(text, json)
    const { isName, wantsShapes } = this.habits
    const { secrets, text: left } = Texts.found(text, isName, wantsShapes)
    for (const it of secrets) this.secrets.add(it)
    return left
  }

  /** No marks say where in a text something is: names do. */
  private json(text: string, json: unknown): string {
    const was = this.isInText
    this.isInText = true
    const left = this.visit(json, [])
    this.isInText = was
    return left === json ? text : JSON.stringify(left, null, text.includes("\n") ? 2 : undefined)
  }
}

/** What hides nothing. */
const isNothing = (value: unknown): boolean =>
  value === undefined || value === null || typeof value === "boolean" || value === ""

const isPair = (value: unknown): value is readonly [name: string, value: unknown] =>
  Array.isArray(value) && value.length === 2 && typeof value[0] === "string"

/** So deep no value is looked at. */
const deepest = 200

/** So long a text is that of a secret wherever it stands. */
const surely = 8

/** The object or list that a text is. */
const jsonOf = (text: string): unknown => {
  try {
    return /^\s*[[{]/.test(text) ? JSON.parse(text) : undefined
  } catch {
    return undefined
  }
}

const contentOf = (value: Redacted.Redacted<unknown>): unknown => {
  try {
    return Redacted.value(value)
  } catch {
    // wiped
    return undefined
  }
}

/** All texts and numbers in a value. */
const textsOf = (root: unknown): ReadonlyArray<string> => {
  const texts = new Set<string>()
  const seen = new Set<object>()
  const visit = (value: unknown): void => {
    if (typeof value === "string" && value !== "") texts.add(value)
    else if (typeof value === "number" || typeof value === "bigint") texts.add(String(value))
    else if (typeof value === "object" && value !== null && !seen.has(value)) {
      seen.add(value)
      if (Redacted.isRedacted(value)) visit(contentOf(value))
      else for (const it of Object.values(value)) visit(it)
    }
  }
  try {
    visit(root)
  } catch {
    // what cannot be read is not in a text either
  }
  return Array.from(texts)
}
