/**
 * What a tool says it is. People allow what was described to them: a standing
 * permission belongs to one revision of its tool and holds for no other, so none has
 * to be taken back in time when a tool changes.
 */
import { memoize } from "effect/Function"
import { canonicalJson } from "../../internal/canonicalJson.ts"
import { hashOf } from "../vocabulary/FileChange.ts"
import type { Grant } from "../vocabulary/Grant.ts"
import type { RegisteredTool, ToolHandlers } from "../vocabulary/ToolHandlers.ts"

/** Gives one text for tools that describe themselves in the same words and take the same arguments. */
export const of: (tool: RegisteredTool) => string = memoize(({ description, jsonSchema }: RegisteredTool) =>
  hashOf(canonicalJson([description, jsonSchema]))
)

/** Tells whether a tool is still what it was, at this moment. One that is no longer there counts as unchanged. */
export const isCurrent = (handlers: ToolHandlers["Service"], tool: RegisteredTool): boolean => {
  const now = handlers.current().get(tool.name)
  return now === undefined || now === tool || of(now) === of(tool)
}

/** Tells whether a standing permission is for its tool as it is at this moment. */
export const holds = (handlers: ToolHandlers["Service"], { revision, tool }: Grant): boolean => {
  const now = handlers.current().get(tool)
  return now === undefined || of(now) === revision
}
