/** What `tool-executor policy diff` knows of the tools of the command line: which forms their targets have. */
import type { RegisteredTool, Registry } from "../../core/vocabulary/ToolHandlers.ts"
import type * as PolicyExamples from "../../policy/PolicyExamples.ts"

type Forms = Omit<PolicyExamples.Tool, "subject">

const unconfined = { isSpelled: false, isSandboxed: false } as const
const reads: Forms = { ...unconfined, kinds: [undefined, "protected"] }
const writes: Forms = { ...reads, runBy: ["run_command"] }

const known: ReadonlyMap<string, Forms> = new Map([
  ["read_file", reads],
  ["list_directory", reads],
  ["find_files", reads],
  ["search_text", reads],
  ["write_file", writes],
  ["edit_file", writes],
  ["run_command", { kinds: [undefined, "exact", "always", "host"] }],
  ["fetch_url", { ...unconfined, kinds: [undefined, "exact"] }],
  ["read_artifact", unconfined],
  ["search_artifact", unconfined]
])

/** Gives the tools of a registry with the forms that their targets have. */
export const of = (tools: Registry): ReadonlyArray<PolicyExamples.Tool> =>
  Array.from(tools.values(), (subject: RegisteredTool) => ({ subject, ...known.get(subject.name) }))

/** Whether calls of a tool may run in a sandbox. */
export const mayBeConfined = (name: string): boolean => known.get(name)?.isSandboxed !== false
