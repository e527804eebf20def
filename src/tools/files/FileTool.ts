/** What the file tools of a workspace share: annotations, parameters, fields of results and the type of a handler. */
import * as Tool from "effect/ai/Tool"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as ToolAnnotations from "../../core/vocabulary/ToolAnnotations.ts"
import type * as Workspace from "../workspace/Workspace.ts"
import type { WorkspaceFailure } from "../workspace/WorkspaceFailure.ts"

/** Makes the handler of a tool for a workspace. */
export type Handler<T extends Tool.Any> = (
  workspace: Workspace.Workspace
) => (params: Tool.Parameters<T>) => Effect.Effect<Tool.Success<T>, WorkspaceFailure>

/** Annotates a tool that only reads files. */
export const reads = <T extends Tool.Any>(tool: T, title: string): T =>
  annotated(tool, title, { changes: false, isIdempotent: true })

/** Annotates a tool that changes files. */
export const writes = <T extends Tool.Any>(tool: T, title: string, isIdempotent: boolean): T =>
  annotated(tool, title, { changes: true, isIdempotent })

/** The path of the file that a call is about. */
export const filePath = Schema.String.annotate({ description: "Path of the file, relative to the workspace root" })

/** An optional text parameter. */
export const text = (description: string) => Schema.optionalKey(Schema.String.annotate({ description }))

export const flag = (description: string) => Schema.optionalKey(Schema.Boolean.annotate({ description }))

/** An optional number of 1 or more. */
export const count = (description: string) =>
  Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({ description }))

/** Fields of a result that may leave things out. */
export const omissions = {
  /** How many entries the policy does not permit; absent for 0. */
  notPermitted: Schema.optionalKey(Schema.Int),
  /** What is missing, and how to see it. */
  note: Schema.optionalKey(Schema.String)
}

/** Gives these fields. */
export const omissionsOf = (notPermitted: number, notes: ReadonlyArray<string>) => ({
  ...(notPermitted === 0 ? {} : { notPermitted }),
  ...(notes.length === 0 ? {} : { note: notes.join(" ") })
})

const annotated = <T extends Tool.Any>(
  tool: T,
  title: string,
  { changes, isIdempotent }: { readonly changes: boolean; readonly isIdempotent: boolean }
): T =>
  tool
    .annotate(Tool.Title, title)
    .annotate(Tool.Readonly, !changes)
    .annotate(Tool.Destructive, changes)
    .annotate(Tool.Idempotent, isIdempotent)
    .annotate(Tool.OpenWorld, false)
    .annotate(ToolAnnotations.Closed, true) as unknown as T
