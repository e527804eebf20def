/** Gives clients what a schema lets through: the fields that it names, as plain JSON. */
import type * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as PlainJson from "./PlainJson.ts"

/**
 * Makes a projection to a schema of tagged structs, arrays and plain values. It never throws and copies no field that
 * the schema does not name.
 *
 * The first field with a different literal in each struct discriminates a union. `Schema.Json` accepts any value
 * (`PlainJson.shown`). Non-strings in a string field become text, and numbers that JSON does not have become null.
 */
export const make = <S extends Schema.Top>(schema: S): (value: object) => S["Type"] => {
  const project = projectionOf(schema.ast)
  return (value) => project(value, undefined) as S["Type"]
}

/** Annotates the schema of a field with how its value is projected; `of` is the struct that has the field. */
export const as = <S extends Schema.Top>(
  schema: S,
  project: (value: unknown, of: { readonly [name: string]: unknown }) => S["Type"]
): S["Rebuild"] => schema.annotate({ [annotation]: project })

const annotation = "~effect-tool-executor/wire/Projection"

type Project = (value: unknown, of: unknown) => unknown

const projectionOf = (ast: SchemaAST.AST): Project => {
  const own = SchemaAST.resolveAt<Project>(annotation)(ast)
  if (own !== undefined) return own
  if (SchemaAST.isString(ast)) return text
  if (SchemaAST.isObjects(ast)) return struct(ast)
  if (SchemaAST.isArrays(ast) && ast.rest.length === 1) {
    const each = projectionOf(ast.rest[0]!)
    return (values) => Array.isArray(values) ? values.map((it) => each(it, undefined)) : []
  }
  if (SchemaAST.isNumber(ast)) return number
  if (SchemaAST.isUnion(ast)) {
    const types = ast.types.filter((it) => !SchemaAST.isNull(it) && !SchemaAST.isUndefined(it))
    if (types.length < ast.types.length && types.length === 1) {
      const some = projectionOf(types[0]!)
      return (value, of) => value === null || value === undefined ? value : some(value, of)
    }
    if (types.every(SchemaAST.isObjects)) return union(types)
  }
  return PlainJson.shown
}

const struct = (ast: SchemaAST.Objects): Project => {
  const fields = ast.propertySignatures.map(({ name, type }) => ({
    name: String(name),
    isOptional: SchemaAST.isOptional(type),
    project: projectionOf(type)
  }))
  return (value) => {
    const from = value as { readonly [name: string]: unknown }
    const to: { [name: string]: unknown } = {}
    for (const { isOptional, name, project } of fields) {
      const it = from[name]
      if (it !== undefined || (!isOptional && Object.hasOwn(from, name))) to[name] = project(it, from)
    }
    return to
  }
}

const union = (types: ReadonlyArray<SchemaAST.Objects>): Project => {
  const discriminator = types[0]!.propertySignatures.map(({ name }) => name).find((name) =>
    new Set(types.flatMap((it) => literalOf(it, name))).size === types.length
  )
  if (discriminator === undefined) throw new Error("no field tells the structs of a union apart")
  const members = new Map(types.map((it) => [literalOf(it, discriminator)[0], struct(it)]))
  return (value, of) =>
    members.get((value as { readonly [name: PropertyKey]: unknown })[discriminator])?.(value, of) ?? {}
}

const literalOf = ({ propertySignatures }: SchemaAST.Objects, name: PropertyKey): ReadonlyArray<unknown> => {
  const type = propertySignatures.find((it) => it.name === name)?.type
  return type !== undefined && SchemaAST.isLiteral(type) ? [type.literal] : []
}

const number: Project = (value) => typeof value === "number" && Number.isFinite(value) ? value : null

const text: Project = (value) => {
  const plain = PlainJson.shown(value)
  return typeof plain === "string" ? plain : JSON.stringify(plain)
}
