/**
 * What is wrong with a value in the eyes of its JSON Schema, as far as a form can tell: the plain
 * keywords. It never refuses what the schema takes; the server checks all of it, patterns included, and has the last
 * word. Pure.
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

// Utilities

const maxProblems = 20
const maxDepth = 20
const maxSteps = 100_000

interface Run {
  readonly root: unknown
  readonly found: Array<Problem>
  left: number
}

const check = (schema: unknown, value: unknown, run: Run, path: string, depth: number): void => {
  if (schema === true || depth > maxDepth || run.left-- < 0 || run.found.length >= maxProblems) return
  const wrong = (message: string) => void run.found.push({ path, message })
  if (isKeys(schema) && typeof schema.$ref === "string") {
    const { $ref, ...rest } = schema
    check(resolved({ $ref }, run.root, 0), value, run, path, depth + 1)
    // until draft 7 nothing counts beside a reference
    if (!/draft-0[3-7]/.test(String(isKeys(run.root) ? run.root.$schema : ""))) check(rest, value, run, path, depth + 1)
    return
  }
  const said = isKeys(schema) ? schema : {}
  if (said.type !== undefined && !typesOf(value).some((name) => allows(said, name))) {
    return wrong(`This has to be ${[said.type].flat().map((it) => kinds.get(String(it)) ?? String(it)).join(" or ")}.`)
  }
  if (Array.isArray(said.enum) && !said.enum.some((it) => same(it, value))) {
    return wrong("This is none of the values it may have.")
  }
  if (Object.hasOwn(said, "const") && !same(said.const, value)) {
    return wrong(`This has to be ${JSON.stringify(said.const)}.`)
  }
  const choices = Array.isArray(said.anyOf) ? said.anyOf : Array.isArray(said.oneOf) ? said.oneOf : []
  if (choices.length > 0) {
    const tried = choices.map((choice) => {
      const found: Array<Problem> = []
      const inner = { root: run.root, found, left: run.left }
      check(choice, value, inner, path, depth + 1)
      run.left = inner.left
      return found
    })
    if (tried.every((found) => found.length > 0)) {
      // with one that is near, its problems say more than that none fits
      const nearest = tried.find((found) => found.every((it) => it.path !== path))
      if (nearest === undefined) return wrong("This fits none of what it may be.")
      run.found.push(...nearest)
    }
  }
  for (const all of Array.isArray(said.allOf) ? said.allOf : []) check(all, value, run, path, depth + 1)
  if (typeof value === "string") checkSize([...value].length, said.minLength, said.maxLength, "character", wrong)
  if (typeof value === "number") checkNumber(value, said, wrong)
  if (Array.isArray(value)) checkList(value, said, run, path, depth, wrong)
  if (isKeys(value)) checkObject(value, said, run, path, depth, wrong)
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

const typesOf = (value: unknown): ReadonlyArray<string> =>
  value === null ?
    ["null"] :
    Array.isArray(value) ?
    ["array"] :
    typeof value === "number" ?
    Number.isInteger(value) ? ["integer", "number"] : ["number"] :
    [typeof value]

const checkSize = (
  size: number,
  least: unknown,
  most: unknown,
  what: string,
  wrong: (message: string) => void
): void => {
  const many = (count: number) => count === 1 ? `1 ${what}` : `${count} ${what}s`
  if (typeof least === "number" && size < least) wrong(`This needs at least ${many(least)}, and has ${size}.`)
  if (typeof most === "number" && size > most) wrong(`This may have at most ${many(most)}, and has ${size}.`)
}

const checkNumber = (value: number, said: Keys, wrong: (message: string) => void): void => {
  const { exclusiveMaximum, exclusiveMinimum, maximum, minimum } = said
  if (typeof minimum === "number" && value < minimum) wrong(`This has to be at least ${minimum}.`)
  if (typeof maximum === "number" && value > maximum) wrong(`This has to be at most ${maximum}.`)
  if (typeof exclusiveMinimum === "number" && value <= exclusiveMinimum) {
    wrong(`This has to be more than ${exclusiveMinimum}.`)
  }
  if (typeof exclusiveMaximum === "number" && value >= exclusiveMaximum) {
    wrong(`This has to be less than ${exclusiveMaximum}.`)
  }
}

const below = (path: string, key: string | number): string =>
  (path === "" ? String(key) : `${path}.${key}`).slice(0, 200)

const checkList = (
  value: ReadonlyArray<unknown>,
  said: Keys,
  run: Run,
  path: string,
  depth: number,
  wrong: (message: string) => void
): void => {
  checkSize(value.length, said.minItems, said.maxItems, "item", wrong)
  if (said.items === undefined || Array.isArray(said.items) || said.prefixItems !== undefined) return
  value.forEach((it, at) => check(said.items, it, run, below(path, at), depth + 1))
}

const checkObject = (
  value: Keys,
  said: Keys,
  run: Run,
  path: string,
  depth: number,
  wrong: (message: string) => void
): void => {
  const properties = isKeys(said.properties) ? said.properties : {}
  for (const name of Array.isArray(said.required) ? said.required : []) {
    if (!Object.hasOwn(value, name)) wrong(`"${String(name)}" is missing.`)
  }
  for (const [name, inner] of Object.entries(value)) {
    if (Object.hasOwn(properties, name)) check(properties[name], inner, run, below(path, name), depth + 1)
    else if (said.additionalProperties === false && said.patternProperties === undefined) {
      wrong(`"${name}" is not known.`)
    }
  }
}
