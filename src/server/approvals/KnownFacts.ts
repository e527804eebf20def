/** What is known of a call that needs approval, without asking the model. */
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import type * as Approvals from "../../core/gates/Approvals.ts"
import type { RegisteredTool } from "../../core/vocabulary/ToolHandlers.ts"
import type { CallFacts } from "../api/ApiApprovals.ts"

/**
 * Collects the facts of a request. `tool` is absent if it is not registered; `keepsWrites` says whether the content of
 * files is kept before they are written.
 */
export const of = (
  { preview }: Approvals.ApprovalRequest,
  tool: RegisteredTool | undefined,
  keepsWrites: boolean
): CallFacts => {
  const changes = preview?._tag === "Diff" ? preview.changes : undefined
  const title = tool === undefined ? undefined : Context.getOrUndefined(tool.annotations, Tool.Title)
  const lines = preview?._tag === "Diff" ? linesIn(preview.diff) : undefined
  return {
    ...title === undefined ? {} : { title },
    readOnly: tool?.readOnly ?? false,
    openWorld: tool?.openWorld ?? false,
    undoable: keepsWrites && changes !== undefined,
    ...changes === undefined
      ? {}
      : { files: { changed: changes.length, created: changes.filter((it) => it.before === undefined).length } },
    ...lines === undefined ? {} : { lines }
  }
}

/** Counts the lines of a unified diff; `undefined` if it has a note in place of lines, such as where it is cut. */
const linesIn = (diff: string): CallFacts["lines"] => {
  let [added, removed, before, after] = [0, 0, 0, 0]
  for (const line of diff.split("\n")) {
    const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line)
    if (before > 0 && line.startsWith("-")) {
      removed++
      before--
    } else if (after > 0 && line.startsWith("+")) {
      added++
      after--
    } else if (before > 0 && after > 0 && line.startsWith(" ")) {
      before--
      after--
    } else if (hunk !== null) [before, after] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)]
    else if (line.startsWith("[")) return undefined
  }
  return { added, removed }
}
