/**
 * Revisions of tools. People approve what was described to them, so a grant holds for one revision only
 * and lapses when the tool changes.
 */
import { memoize } from "effect/Function"
import { canonicalJson } from "../../../internal/canonicalJson.ts"
import { hashOf } from "../../vocabulary/FileChange.ts"
import type { Grant } from "../../vocabulary/Grant.ts"
import type { RegisteredTool, ToolHandlers } from "../../vocabulary/ToolHandlers.ts"

/** The revision of a tool: equal for tools with the same description and arguments. */
export const of: (tool: RegisteredTool) => string = memoize(({ description, form, jsonSchema }: RegisteredTool) =>
  hashOf(canonicalJson(form === undefined ? [description, jsonSchema] : [description, jsonSchema, form]))
)

/** Whether a tool is unchanged at this moment. A tool that is no longer registered counts as unchanged. */
export const isCurrent = (handlers: ToolHandlers["Service"], tool: RegisteredTool): boolean => {
  const now = handlers.current().get(tool.name)
  return now === undefined || now === tool || of(now) === of(tool)
}

/** Whether a grant is for the current revision of its tool. */
export const holds = (handlers: ToolHandlers["Service"], { revision, tool }: Grant): boolean => {
  const now = handlers.current().get(tool)
  return now === undefined || of(now) === revision
}
