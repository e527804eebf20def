/** Which request belongs to a call, and whether it can be judged inside a conversation. Pure. */
import type { ApprovalRequest, ApprovalSummary } from "../server/api/ApiApprovals.ts"
import { countMarked } from "./parts/pieces.ts"
import { commandIn, leftOf } from "./request.ts"

/** How many lines of evidence a person can take in here. */
const mostLines = 20

/** Characters of a line, as a phone shows it. */
const lineChars = 60

/** Changed lines come with so many lines around them. */
const around = 6

/** The pending request of a call. */
export const requestOf = (
  open: ReadonlyArray<ApprovalSummary>,
  { callId, events, tool }: {
    readonly callId: string
    readonly tool: string
    readonly events: ReadonlyArray<{ readonly process: string }>
  },
  { session, user }: { readonly user: string; readonly session: string }
): ApprovalSummary | undefined => {
  const process = events[0]?.process
  return open.find((it) =>
    it.callId === callId && it.tool === tool && it.process === process && it.user === user && it.session === session
  )
}

/** Whether the evidence of a request is short and plain enough to be judged in a conversation. */
export const fits = (
  { args, evidence, facts: { files, lines }, form, preview, targets }: Pick<
    ApprovalRequest,
    "args" | "evidence" | "facts" | "form" | "preview" | "targets"
  >,
  texts: ReadonlyArray<string> | undefined
): boolean => {
  // sentences to read and forms to fill in need the whole view
  if (evidence !== undefined || form !== undefined) return false
  const all = JSON.stringify([args, targets])
  // marked characters need the whole view, with its warning
  if (countMarked(all) > 0 || /\\u00[01]/.test(all)) return false
  const command = commandIn(args)
  const hasFiles = preview?._tag === "Files" || (preview?._tag === "Diff" && preview.files !== undefined)
  if (hasFiles && (files?.changed !== 1 || lines === undefined)) return false
  const changed = preview?._tag === "Files"
    ? lines!.added + lines!.removed + around
    : preview?._tag === "Diff"
    ? linesIn(preview.diff)
    : 0
  if (changed > mostLines) return false
  const left = preview !== null && preview._tag !== "None" && texts === undefined
    ? 0
    : linesIn(leftOf(args, { command, targets, texts: texts ?? [] }))
  return changed + left + (command === undefined ? 0 : linesIn(command.line)) <= mostLines
}

const linesIn = (value: unknown): number =>
  typeof value === "string"
    ? value.split("\n").reduce((sum, it) => sum + Math.max(1, Math.ceil(it.length / lineChars)), 0)
    : typeof value === "object" && value !== null
    ? Object.values(value).reduce<number>((sum, it) => sum + linesIn(it), 0)
    : 1
