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
 * Gives a name in snake case.
 *
 * @category conversions
 * @since 0.1.0
 */
export const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

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
  const fieldOf = (tag: string, name: string, own: Schema.Top): Field | undefined => {
    const known = [`${tag}.${name}`, name].find((key) => Object.hasOwn(otherwise, key))
    // what callers without types give for a text is one all the same
    if (known === undefined) return { key: snake(name), from: SchemaAST.isString(own.ast) ? text.from : json.from, own }
    const other = otherwise[known]
    return other === undefined ? undefined : { key: snake(name), from: other.from, own, other }
  }
  const tables = members.map(({ fields }) => {
    const tag = tagOf(fields)
    const table = new Map<string, Field>()
    for (const [name, own] of Object.entries(fields)) {
      const field = fieldOf(tag, name, own as Schema.Top)
      if (field !== undefined) table.set(name, field)
    }
    return [tag, table] as const
  })
  const byTag = new Map(tables)
  return {
    schema: Schema.Union(
      tables.map(([, table]) => Schema.Struct(Object.fromEntries(Array.from(table.values(), (it) => [it.key, of(it)]))))
    ),
    from: (value) => {
      const { _tag = "" } = value as { readonly _tag?: string }
      return Object.fromEntries(
        Object.entries(value as object).flatMap(([name, own]) => {
          const field = byTag.get(_tag)?.get(name)
          return field === undefined || (isOptional(field) && own === undefined)
            ? []
            : [[field.key, field.from(own, value)]]
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

interface Field {
  readonly key: string
  readonly from: Shown["from"]
  /** The schema that the field has here. */
  readonly own: Schema.Top
  /** How it is shown, where that is otherwise. */
  readonly other?: Shown
}

const of = ({ other, own }: Field): Schema.Top =>
  other === undefined
    ? own
    : isOptional({ own })
    ? Schema.optionalKey(other.schema)
    : other.schema

const isOptional = ({ own }: Pick<Field, "own">): boolean => own.ast.context?.isOptional === true

const tagOf = (fields: Schema.Struct.Fields): string => {
  const ast = fields["_tag"]?.ast
  return ast !== undefined && SchemaAST.isLiteral(ast) ? String(ast.literal) : ""
}
