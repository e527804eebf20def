/**
 * All there is to see of an approval request before it is answered: who asks, why, for what, with which arguments, and
 * what would be written.
 */
import type { VNode } from "preact"
import { useCallback, useEffect, useState } from "preact/hooks"
import type { ApprovalRequest, Part, ResolvedApproval } from "../server/ApiApprovals.ts"
import { get, type Problem, type Reply } from "./api.ts"
import { html } from "./html.ts"
import { Arguments } from "./parts/Arguments.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Who } from "./pieces.ts"
import { Preview } from "./Preview.ts"
import { known } from "./state.ts"
import { time } from "./words.ts"

/** An approval request as it was read, or why it was not. */
export type Read =
  | { readonly _tag: "Reading" }
  | { readonly _tag: "Open"; readonly approval: ApprovalRequest }
  | { readonly _tag: "Ended"; readonly approval: ResolvedApproval }
  | { readonly _tag: "Failed"; readonly problem: Problem }

/**
 * Reads an approval request whole, and again whenever another one is asked under its id. What is heard of its end
 * counts immediately; what was read before stays visible.
 */
export const useApproval = (
  id: string
): { readonly read: Read; readonly seen: ApprovalRequest | undefined; readonly again: () => void } => {
  const [read, setRead] = useState<Read>({ _tag: "Reading" })
  const [seen, setSeen] = useState<ApprovalRequest | undefined>(undefined)
  const [attempt, setAttempt] = useState(0)
  const waiting = known.value.open.find((it) => it.id === id)
  const ended = known.value.ended.find((it) => it.id === id)
  useEffect(() => {
    const asked = { isCurrent: true }
    void get<ApprovalRequest | ResolvedApproval>(`api/approvals/${encodeURIComponent(id)}`).then((reply) => {
      if (!asked.isCurrent) return
      const read = readOf(reply)
      setRead(read)
      if (read._tag === "Open") setSeen(read.approval)
    })
    return () => {
      asked.isCurrent = false
    }
  }, [id, waiting?.hash, waiting?.requestedAt, attempt])
  return {
    read: ended === undefined ? read : { _tag: "Ended", approval: ended },
    seen,
    again: useCallback(() => setAttempt((it) => it + 1), [])
  }
}

/** Shows an approval request; `onWhole` is called with whether all of it has loaded. Resolved requests have nothing more to load. */
export const ApprovalBody = (
  { isOver = false, onWhole, approval }: {
    readonly approval: ApprovalRequest
    readonly onWhole: (isWhole: boolean) => void
    readonly isOver?: boolean | undefined
  }
): VNode => {
  const { args, requestedAt, callId, class: kind, id, preview, targets, why } = approval
  const hasPreview = preview !== null
  useEffect(() => {
    if (!hasPreview) onWhole(true)
  }, [hasPreview, onWhole])
  const load = useCallback(
    (index: number, side: "before" | "after", from: number): Promise<Reply<typeof Part.Type>> =>
      get(`api/approvals/${encodeURIComponent(id)}/files/${index}/${side}?from=${from}`),
    [id]
  )
  return html`
    <dl class="facts">
      <div><dt>Reason</dt><dd><${SafeText} text=${why} /></dd></div>
      <div><dt>Targets</dt><dd>${
    targets.length === 0
      ? "none known"
      : html`<ul class="plain">${
        targets.map((it) =>
          html`<li><${SafeText} text=${it.text} />${
            it.kind === undefined ? "" : html` <em>${kinds[it.kind]}</em>`
          }</li>`
        )
      }</ul>`
  }</dd></div>
      <div><dt>Class</dt><dd><${SafeText} text=${kind} />${classes[kind] ?? ""}${
    approval.isRunning ? ", already running; its write waits for approval" : ""
  }</dd></div>
      <div><dt>Requested by</dt><dd><${Who} of=${approval} /></dd></div>
      <div><dt>Requested at</dt><dd>${time(requestedAt)}</dd></div>
      <div><dt>Call</dt><dd><${SafeText} text=${callId} /></dd></div>
    </dl>
    ${
    preview === null || isOver
      ? null
      : html`<h3>Changes</h3><${Preview} preview=${preview} load=${load} onWhole=${onWhole} />`
  }
    <h3>Arguments</h3>
    <div class="text"><${Arguments} value=${args} /></div>`
}

const classes: Readonly<Record<string, string>> = {
  ReadOnly: ": reads only",
  ConcurrentMut: ": may change things; runs in parallel with other calls",
  SerialMut: ": may change things; runs alone"
}

const kinds = { exact: "exact", protected: "protected" } as const

const readOf = (reply: Reply<ApprovalRequest | ResolvedApproval>): Read =>
  !reply.ok
    ? { _tag: "Failed", problem: reply.problem }
    : "hash" in reply.value
    ? { _tag: "Open", approval: reply.value }
    : { _tag: "Ended", approval: reply.value }
