/**
 * Where in a value secrets are, as far as somebody has said so: by paths, or by a schema with `Schema.Redacted` in it.
 */
import type * as SchemaAST from "effect/SchemaAST"
import { keysOf } from "../valuePath.ts"

/** What is marked in a value. Schemas may be recursive: so are their marks. */
export interface Marks {
  /** All of it is secret. */
  readonly isSecret: boolean
  readonly keys: ReadonlyMap<string, Marks>
  /** What holds for every key. */
  readonly rest: ReadonlyArray<Marks>
  /** Whose marks hold here, too. */
  readonly also: ReadonlyArray<Marks>
}

interface Open extends Marks {
  isSecret: boolean
  readonly keys: Map<string, Marks>
  readonly rest: Array<Marks>
  readonly also: Array<Marks>
}

const open = (isSecret = false): Open => ({ isSecret, keys: new Map(), rest: [], also: [] })

/** All marks that hold for a value, of which some do. */
export const all = (some: ReadonlyArray<Marks>): ReadonlyArray<Marks> => {
  if (some.every((it) => it.also.length === 0)) return some
  const found = new Set<Marks>(some)
  // includes those that are added during the iteration
  for (const marks of found) for (const it of marks.also) found.add(it)
  return Array.from(found)
}

/** The marks that hold for what is at a key; `every` as `all` gives them. */
export const under = (every: ReadonlyArray<Marks>, key: string): ReadonlyArray<Marks> =>
  every.flatMap(({ keys, rest }) => {
    const own = keys.get(key)
    return own === undefined ? rest : [own, ...rest]
  })

/** The marks of a path, whose key `*` is any key; `undefined` if the text is not a path. */
export const fromPath = (path: string): Marks | undefined => {
  const keys = keysIn(path)
  if (keys === undefined || keys.length === 0 || keys.includes("")) return undefined
  return keys.reduceRight<Open>((inner, key) => {
    const marks = open()
    if (key === "*") marks.rest.push(inner)
    else marks.keys.set(key, inner)
    return marks
  }, open(true))
}

/** The marks of a schema, for encoded and decoded values; `undefined` without marks. */
export const fromSchema = (root: SchemaAST.AST): Marks | undefined => {
  const known = new Map<SchemaAST.AST, Open>()
  const marksOf = (ast: SchemaAST.AST): Marks => {
    const found = known.get(ast)
    if (found !== undefined) return found
    const marks = open(isRedacted(ast))
    known.set(ast, marks)
    if (marks.isSecret) return marks
    switch (ast._tag) {
      case "Objects":
        for (const { name, type } of ast.propertySignatures) marks.keys.set(String(name), marksOf(type))
        for (const { type } of ast.indexSignatures) marks.rest.push(marksOf(type))
        break
      case "Arrays":
        // elements after a rest have no fixed position
        for (const it of [...ast.elements, ...ast.rest]) marks.rest.push(marksOf(it))
        break
      case "Union":
        for (const it of ast.types) marks.also.push(marksOf(it))
        break
      case "Suspend":
        marks.also.push(marksOf(ast.thunk()))
        break
    }
    const encodings = (ast.encoding ?? []).map(({ to }) => marksOf(to))
    const isOpaque = ast._tag === "Declaration" || encodings.length > 0
    if (isOpaque && !encodings.some(hasAny)) {
      // the position in the other form is unknown
      const inner = ast._tag === "Declaration" ? ast.typeParameters.map(marksOf) : [marks]
      marks.isSecret = inner.some(hasAny)
    }
    marks.also.push(...encodings)
    return marks
  }
  const marks = marksOf(root)
  return hasAny(marks) ? marks : undefined
}

/** Tells whether a value of the schema may have something at a path. */
export const admits = (root: SchemaAST.AST, path: string): boolean => {
  const reach = (ast: SchemaAST.AST, keys: ReadonlyArray<string>, above: ReadonlyArray<SchemaAST.AST>): boolean => {
    const [key, ...below] = keys
    if (key === undefined) return true
    if ((ast.encoding ?? []).some(({ to }) => reach(to, keys, above))) return true
    switch (ast._tag) {
      case "Objects": {
        const { indexSignatures, propertySignatures } = ast
        if (indexSignatures.length === 0 && propertySignatures.length === 0) return true
        return propertySignatures.some((it) => (key === "*" || String(it.name) === key) && reach(it.type, below, [])) ||
          indexSignatures.some((it) => reach(it.type, below, []))
      }
      case "Arrays":
        return (key === "*" || /^\d+$/.test(key)) && [...ast.elements, ...ast.rest].some((it) => reach(it, below, []))
      case "Union":
        return ast.types.some((it) => reach(it, keys, above))
      case "Suspend":
        return above.includes(ast) || reach(ast.thunk(), keys, [...above, ast])
      case "Any":
      case "Declaration":
      case "ObjectKeyword":
      case "Unknown":
        return true
      default:
        return false
    }
  }
  return reach(root, keysIn(path) ?? [], [])
}

/** The names of what is marked, for texts that cannot be read as values. */
export const namesOf = (roots: ReadonlyArray<Marks>): ReadonlySet<string> => {
  const names = new Set<string>()
  for (const { keys } of reachable(roots)) {
    for (const [key, inner] of keys) if (all([inner]).some((it) => it.isSecret)) names.add(key)
  }
  return names
}

/** `rows[*].pin` is `rows.*.pin`. */
const keysIn = (path: string): ReadonlyArray<string> | undefined =>
  keysOf(path.startsWith("/") ? path : path.replaceAll("[*]", ".*").replace(/^\./, ""))

const reachable = (roots: ReadonlyArray<Marks>): ReadonlySet<Marks> => {
  const found = new Set<Marks>(roots)
  // includes those that are added during the iteration
  for (const { also, keys, rest } of found) {
    for (const it of [...keys.values(), ...rest, ...also]) found.add(it)
  }
  return found
}

const hasAny = (root: Marks): boolean => Array.from(reachable([root])).some((it) => it.isSecret)

const isRedacted = ({ annotations }: SchemaAST.AST): boolean => {
  const { representation } = (annotations ?? {}) as { readonly representation?: { readonly id?: unknown } }
  return representation?.id === "effect/schema/Redacted"
}
