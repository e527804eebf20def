/**
 * Reads values of plain schemas: texts, numbers, booleans, literals, lists and objects with known keys, without
 * transformations. Such values are their own encoding.
 *
 * Each schema becomes one function, several times faster than its parser; it knows yes or no. Where it says no, the
 * parser says why.
 */
import * as Predicate from "effect/Predicate"
import * as SchemaAST from "effect/SchemaAST"

/** What a reader gives for a value that the schema does not have. */
export const none = Symbol("effect-tool-executor/internal/plainValues/none")

/** Gives a copy of the value, with the keys that the schema has in its order, or `none`. */
export type Reader = (value: unknown) => unknown

/** The reader of a schema; absent if it is not plain. */
export const readerOf = (ast: SchemaAST.AST): Reader | undefined => {
  if (ast.encoding !== undefined || (ast as { encodingChecks?: unknown }).encodingChecks !== undefined) return undefined
  const read = kindOf(ast)
  const { checks } = ast
  if (read === undefined || checks === undefined) return read
  return (value) => {
    const found = read(value)
    return found === none || !passes(checks, found, ast) ? none : found
  }
}

const kindOf = (ast: SchemaAST.AST): Reader | undefined => {
  switch (ast._tag) {
    case "String":
      return (value) => typeof value === "string" ? value : none
    case "Number":
      return (value) => typeof value === "number" ? value : none
    case "Boolean":
      return (value) => typeof value === "boolean" ? value : none
    case "Null":
      return (value) => value === null ? value : none
    case "Literal":
      return typeof ast.literal === "bigint" ? undefined : (value) => value === ast.literal ? value : none
    case "Union":
      return unionOf(ast)
    case "Arrays":
      return listOf(ast)
    case "Objects":
      return objectOf(ast)
    default:
      return undefined
  }
}

const unionOf = ({ options, types }: SchemaAST.Union): Reader | undefined => {
  // of several objects more than one may fit
  if (options?.mode === "oneOf" || types.some((it) => it._tag === "Objects" || it._tag === "Arrays")) return undefined
  const readers = types.map(readerOf)
  if (!readers.every(Predicate.isNotUndefined)) return undefined
  return (value) => {
    for (let index = 0; index < readers.length; index++) {
      const found = readers[index]!(value)
      if (found !== none) return found
    }
    return none
  }
}

const listOf = ({ elements, rest }: SchemaAST.Arrays): Reader | undefined => {
  const [only] = rest
  const read = elements.length > 0 || only === undefined || rest.length > 1 ? undefined : readerOf(only)
  if (read === undefined) return undefined
  return (value) => {
    if (!Array.isArray(value)) return none
    const list: Array<unknown> = []
    for (let index = 0; index < value.length; index++) {
      const found = read(value[index])
      if (found === none) return none
      list.push(found)
    }
    return list
  }
}

const usual: SchemaAST.ParseOptions = {}

interface Field {
  readonly name: string
  readonly isOptional: boolean
  readonly read: Reader
}

const objectOf = ({ indexSignatures, propertySignatures }: SchemaAST.Objects): Reader | undefined => {
  if (indexSignatures.length > 0 || propertySignatures.length === 0) return undefined
  const fields: Array<Field> = []
  for (const { name, type } of propertySignatures) {
    const read = readerOf(type)
    if (read === undefined || typeof name !== "string" || name === "__proto__") return undefined
    fields.push({ name, isOptional: SchemaAST.isOptional(type), read })
  }
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return none
    const object: Record<string, unknown> = {}
    for (let index = 0; index < fields.length; index++) {
      const { isOptional, name, read } = fields[index]!
      const found = (value as Record<string, unknown>)[name]
      if (found === undefined && !(name in value)) {
        if (isOptional) continue
        return none
      }
      const it = read(found)
      if (it === none) return none
      object[name] = it
    }
    return object
  }
}

const passes = (checks: SchemaAST.Checks, value: unknown, ast: SchemaAST.AST): boolean => {
  for (let index = 0; index < checks.length; index++) {
    const check = checks[index]!
    const isRight = check._tag === "FilterGroup"
      ? passes(check.checks, value, ast)
      : check.run(value, ast, usual) === undefined
    if (!isRight) return false
  }
  return true
}
