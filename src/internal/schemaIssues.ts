/** What is wrong with a value, by a `Schema`: each issue in words for a person or a model. */
import type * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"

/** A property that has to be there and is not. */
export const missing = "It is missing"

/** A property that is there and has no meaning; the names that have one follow. */
export const unknown = "This name is unknown; known names: "

/** One thing that is wrong with a value, and where. */
export interface SchemaProblem {
  readonly path: ReadonlyArray<PropertyKey>
  readonly message: string
}

/** Gives everything that is wrong, in the order it was found. */
export const issuesOf = ({ issue }: Schema.SchemaError): ReadonlyArray<SchemaProblem> =>
  format(issue).issues.map(({ message, path }) => ({
    path: (path ?? []).map((part) => typeof part === "object" ? part.key : part),
    message
  }))

// a schema's own message takes precedence
const leafHook: SchemaIssue.LeafHook = (issue) => {
  const message = SchemaIssue.defaultLeafHook(issue)
  switch (message) {
    case "Missing key":
      return missing
    case "Expected no excess property":
      return unknown + (issue._tag === "UnexpectedKey" ? knownBy(issue.ast) : none)
    // what a record of nothing says of its keys
    case "Expected never":
      return "This name is unknown"
    default:
      return message
  }
}

const format = SchemaIssue.makeFormatterStandardSchemaV1({ leafHook })

const none = "none"

const knownBy = (ast: SchemaAST.AST): string =>
  SchemaAST.isObjects(ast) ? ast.propertySignatures.map(({ name }) => String(name)).join(", ") || none : none
