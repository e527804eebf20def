/**
 * What clients see of our own values: for each a schema and the function that
 * gives it, both made from the schema that the value has here.
 *
 * Fields keep what they say and get names in snake case; some are shown
 * otherwise, or not at all.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as PlainJson from "./PlainJson.ts"

/**
 * How clients see a value.
 *
 * @category models
 * @since 0.1.0
 */
export interface Shown {
  readonly schema: Schema.Top
  /** Gives it, where it is a field of the value that it is `of`. */
  readonly from: (value: unknown, of?: unknown) => unknown
}

/**
 * What is shown otherwise than it is, by the name of the field, or by tag and
 * name where the fields of several tags are called the same; `undefined` is not
 * shown.
 *
 * @category models
 * @since 0.1.0
 */
export interface Fields {
  readonly [name: string]: Shown | undefined
}

/**
 * A name in snake case.
 *
 * @category models
 * @since 0.1.0
 */
export type Snake<S extends string> = S extends `${infer Head}${infer Tail}`
  ? `${Head extends Lowercase<Head> ? Head : `_${Lowercase<Head>}`}${Snake<Tail>}`
  : S

/**
 * The fields of a value with names in snake case, each as it is or, where
 * `Otherwise` has it, as that says.
 *
 * @category models
 * @since 0.1.0
 */
export type Renamed<A, Otherwise = unknown> = {
  readonly [K in keyof A as Snake<K & string>]: K extends keyof Otherwise ? Otherwise[K] : A[K]
}

/**
 * Shows the members of a union.
 *
 * @category constructors
 * @since 0.1.0
 */
export const union = (
  { members }: { readonly members: ReadonlyArray<Member> },
  otherwise: Fields = {}
): Shown => {
  const fieldOf = (tag: string, name: string): Shown | undefined => {
    const qualified = `${tag}.${name}`
    if (Object.hasOwn(otherwise, qualified)) return otherwise[qualified]
    return Object.hasOwn(otherwise, name) ? otherwise[name] : asItIs
  }
  const schemaOf = ({ fields }: Member): Schema.Top => {
    const tag = tagOf(fields)
    return Schema.Struct(Object.fromEntries(
      Object.entries(fields).flatMap(([name, own]) => {
        const field = fieldOf(tag, name)
        if (field === undefined) return []
        if (field === asItIs) return [[snake(name), own]]
        const isOptional = own.ast.context?.isOptional === true
        return [[snake(name), isOptional ? Schema.optionalKey(field.schema) : field.schema]]
      })
    ))
  }
  return {
    schema: Schema.Union(members.map(schemaOf)),
    from: (value) => {
      const { _tag = "" } = value as { readonly _tag?: string }
      return Object.fromEntries(
        Object.entries(value as object).flatMap(([name, own]) => {
          const field = fieldOf(_tag, name)
          return field === undefined || (field === asItIs && own === undefined)
            ? []
            : [[snake(name), field.from(own, value)]]
        })
      )
    }
  }
}

/**
 * Shows each entry of a list.
 *
 * @category constructors
 * @since 0.1.0
 */
export const list = ({ from, schema }: Shown): Shown => ({
  schema: Schema.Array(schema),
  from: (values) => (values as ReadonlyArray<unknown>).map((value) => from(value))
})

/**
 * What is not ours, as plain JSON with its own keys.
 *
 * @category constants
 * @since 0.1.0
 */
export const json: Shown = { schema: Schema.Json, from: PlainJson.shown }

/**
 * A text, whatever was given for it.
 *
 * @category constants
 * @since 0.1.0
 */
export const text: Shown = {
  schema: Schema.String,
  from: (value) => {
    const plain = PlainJson.shown(value)
    return typeof plain === "string" ? plain : JSON.stringify(plain)
  }
}

/**
 * A number, or null for one that JSON does not have.
 *
 * @category constants
 * @since 0.1.0
 */
export const number: Shown = {
  schema: Schema.NullOr(Schema.Finite),
  from: (value) => typeof value === "number" && Number.isFinite(value) ? value : null
}

// Utilities

interface Member {
  readonly fields: Schema.Struct.Fields
}

const asItIs: Shown = { schema: Schema.Unknown, from: PlainJson.shown }

const tagOf = (fields: Schema.Struct.Fields): string => {
  const ast = fields["_tag"]?.ast
  return ast !== undefined && SchemaAST.isLiteral(ast) ? String(ast.literal) : ""
}

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
