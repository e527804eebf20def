/**
 * Checks the types and required fields of a form's value, so that a field can show its problem while a person types.
 * The server checks the whole schema when the answer is sent, and its problems name the field. This never rejects a
 * value that the schema accepts. Pure.
 */

/** An object of JSON. */
export type Keys = Readonly<Record<string, unknown>>

/** One thing that is wrong, and where, such as `edits.0.text`. */
export interface Problem {
  readonly path: string
  readonly message: string
}

/** Gives what is wrong with a value, nothing if it may fit. */
export const problemsOf = (schema: unknown, value: unknown, root: unknown = schema): ReadonlyArray<Problem> => {
  const found: Array<Problem> = []
  check(schema, value, { root, found, left: maxSteps }, "", 0)
  return found.slice(0, maxProblems)
}

/** Tells whether something is an object of JSON, and no list. */
export const isKeys = (value: unknown): value is Keys =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Tells whether a schema names a type. */
export const allows = ({ type }: Keys, name: string): boolean => {
  const types = Array.isArray(type) ? type : [type]
  return types.includes(name) || (name === "integer" && types.includes("number"))
}

/** Follows references within a schema; others lead nowhere. */
export const resolved = (schema: unknown, root: unknown, steps: number): Keys => {
  if (!isKeys(schema)) return {}
  const { $ref, ...rest } = schema
  if (typeof $ref !== "string") return schema
  if (steps > maxDepth || ($ref !== "#" && !$ref.startsWith("#/"))) return {}
  const target = $ref.slice(1).split("/").slice(1).reduce<unknown>((it, token) => {
    const key = token.replaceAll("~1", "/").replaceAll("~0", "~")
    return typeof it === "object" && it !== null && Object.hasOwn(it, key) ? (it as Keys)[key] : undefined
  }, root)
  return { ...resolved(target, root, steps + 1), ...rest }
}

/** Tells whether two values are the same JSON, whatever the order of their keys. */
export const same = (a: unknown, b: unknown): boolean => {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((it, at) => same(it, b[at]))
  if (!isKeys(a) || !isKeys(b)) return a === b
  const names = Object.keys(a)
  return names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && same(a[name], b[name]))
}

const maxProblems = 20
const maxDepth = 20
const maxSteps = 100_000

interface Run {
  readonly root: unknown
  readonly found: Array<Problem>
  left: number
}

const check = (schema: unknown, value: unknown, run: Run, path: string, depth: number): void => {
  if (depth > maxDepth || run.left-- < 0 || run.found.length >= maxProblems) return
  const known = resolved(schema, run.root, 0)
  const wrong = (message: string) => void run.found.push({ path, message })
  if (known.type !== undefined && !typesOf(value).some((name) => allows(known, name))) {
    return wrong(`Enter ${[known.type].flat().map((it) => kinds.get(String(it)) ?? String(it)).join(" or ")}.`)
  }
  if (Array.isArray(value) && !Array.isArray(known.items) && known.prefixItems === undefined) {
    value.forEach((it, at) => check(known.items, it, run, below(path, at), depth + 1))
  }
  if (!isKeys(value)) return
  for (const name of Array.isArray(known.required) ? known.required : []) {
    if (!Object.hasOwn(value, name)) wrong(`"${String(name)}" is missing.`)
  }
  const properties = isKeys(known.properties) ? known.properties : {}
  for (const [name, inner] of Object.entries(value)) {
    if (Object.hasOwn(properties, name)) check(properties[name], inner, run, below(path, name), depth + 1)
  }
}

const kinds: ReadonlyMap<string, string> = new Map([
  ["string", "a text"],
  ["number", "a number"],
  ["integer", "a whole number"],
  ["boolean", "true or false"],
  ["array", "a list"],
  ["object", "an object"],
  ["null", "null"]
])

const typesOf = (value: unknown): ReadonlyArray<string> => {
  if (value === null) return ["null"]
  if (Array.isArray(value)) return ["array"]
  return Number.isInteger(value) ? ["integer", "number"] : [typeof value]
}

const below = (path: string, key: string | number): string =>
  (path === "" ? String(key) : `${path}.${key}`).slice(0, 200)
