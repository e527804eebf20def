/** One approval request: all of it, the answers that it takes, and how it ended. */
import type { VNode } from "preact"
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import type { ResolvedApproval } from "../server/ApiApprovals.ts"
import { AnswerForm } from "./AnswerForm.ts"
import { ApprovalBody, useApproval } from "./ApprovalBody.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Deadline, Failure } from "./pieces.ts"
import { to } from "./routes.ts"
import { known, me } from "./state.ts"
import { ending, time } from "./words.ts"

/** Shows the approval request of an id. */
export const ApprovalView = ({ id }: { readonly id: string }): VNode => {
  const { again, read, seen } = useApproval(id)
  const hash = seen?.hash
  // a new request under the same id has to load again
  const [whole, setWhole] = useState<string | undefined>(undefined)
  const onWhole = useCallback((it: boolean) => setWhole(it ? hash : undefined), [hash])
  const body = (isOver: boolean) =>
    seen === undefined
      ? null
      : html`<${ApprovalBody} key=${seen.hash} approval=${seen} onWhole=${onWhole} isOver=${isOver} />`
  return html`
    <p class="back"><a href=${to("approvals")}>All approvals</a></p>
    ${
    read._tag === "Reading"
      ? html`<h2 tabindex="-1" data-heading>Approval request</h2><p>Loading …</p>`
      : read._tag === "Failed"
      ? html`<h2 tabindex="-1" data-heading>Approval request</h2><${Failure} problem=${read.problem} onAgain=${again} />`
      : read._tag === "Ended"
      ? html`<${Ended} approval=${read.approval} />${
        seen === undefined ? null : html`<details><summary>Request</summary>${body(true)}</details>`
      }`
      : html`
        <h2 tabindex="-1" data-heading><${SafeText} text=${read.approval.tool} /></h2>
        <p><${Deadline} expiresAt=${read.approval.expiresAt} /></p>
        ${body(false)}
        <${AnswerForm} key=${read.approval.hash} approval=${read.approval} isWhole=${
        whole === read.approval.hash
      } onStale=${again} />`
  }`
}

const Ended = ({ approval }: { readonly approval: ResolvedApproval }): VNode => {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    // the focused button is gone: move the focus here unless it is elsewhere
    if (document.activeElement === document.body) heading.current?.focus()
  }, [])
  const user = me.value
  const isOther = approval.by !== undefined && typeof user === "object" && approval.by !== user.name
  const [next] = known.value.open
  return html`
    <h2 tabindex="-1" data-heading ref=${heading}><${SafeText} text=${approval.tool} />: ${ending(approval)}</h2>
    <p>${time(approval.endedAt)}${
    approval.by === undefined
      ? null
      : html`, by <strong><${SafeText} text=${approval.by} /></strong>${isOther ? ", who answered first" : ""}`
  }.</p>
    ${approval.reason === undefined ? null : html`<p>Reason: <${SafeText} text=${approval.reason} /></p>`}
    <p>${approval.next}</p>
    ${
    next === undefined
      ? html`<p>No other requests are pending.</p>`
      : html`<p><a class="btn" href=${
        to("approvals", next.id)
      }>Next request</a> ${known.value.open.length} pending.</p>`
  }`
}
