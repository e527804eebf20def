/**
 * Pending approval requests, oldest first, and recently resolved ones: a list, and next to it the approval request in
 * detail, or several that are answered together.
 */
import type { VNode } from "preact"
import { useEffect, useState } from "preact/hooks"
import type { ApprovalSummary, ResolvedApproval } from "../server/ApiApprovals.ts"
import { ApprovalView } from "./ApprovalView.ts"
import { BulkApproval } from "./BulkApproval.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Deadline, Who } from "./pieces.ts"
import { route, to } from "./routes.ts"
import { known, me, shownApproval, ticked } from "./state.ts"
import { count, ending, time } from "./words.ts"

/** How many requests are shown first, and added by each "Show more". */
const step = 50

/** From this width on, the list and a request are shown side by side. */
const wide = "(min-width: 760px)"

/** The view. */
export const Approvals = (): VNode => {
  const { ended, open } = known.value
  const [chosen] = route.value.parts
  const [shown, setShown] = useState(step)
  const [overs, setOvers] = useState(10)
  const user = me.value
  const mayApprove = typeof user === "object" && user.approve.length > 0
  // on a wide screen the oldest request opens by default and stays open until the user navigates: the request must
  // never change while a person is about to answer
  const [opened, setOpened] = useState<string | undefined>(undefined)
  const looked = chosen ?? opened ?? (matchMedia(wide).matches ? open[0]?.id : undefined)
  useEffect(() => {
    setOpened(chosen === undefined ? looked : undefined)
    shownApproval.value = looked
    return () => {
      shownApproval.value = undefined
    }
  }, [chosen, looked])
  const chosenOnes = open.filter((it) => ticked.value.has(it.id))
  return html`
    <div class=${chosen === undefined ? "split" : "split open"}>
      <section class="list" aria-labelledby="approvals-title">
        <div class="bar"><h1 id="approvals-title" tabindex="-1" data-heading=${
    chosen === undefined ? "" : undefined
  }>Approvals</h1></div><div class="body">
        <p>${
    mayApprove
      ? open.length === 0
        ? "No pending requests."
        : `${count(open.length, "pending request")}, oldest first.`
      : "You do not have permission to approve requests."
  }</p>
        ${
    open.length < 2 && chosenOnes.length === 0 ? null : html`<p class="row">
          <button class="btn" type="button" onClick=${() => {
      ticked.value = chosenOnes.length === open.length ? new Set() : new Set(open.map((it) => it.id))
    }}>${chosenOnes.length === open.length ? "Clear selection" : `Select all ${open.length}`}</button>
          ${
      chosenOnes.length === 0
        ? null
        : html`<a class="btn" href=${to("approvals", "bulk")}>Review ${chosenOnes.length} selected</a>`
    }
        </p>`
  }
        <ol class="cards">
          ${
    open.slice(0, shown).map((it) => html`<${Item} key=${it.id} approval=${it} isChosen=${it.id === looked} />`)
  }
        </ol>
        ${
    open.length > shown
      ? html`<button class="btn" type="button" onClick=${() => setShown(shown + step)}>Show more (${
        open.length - shown
      } further)</button>`
      : null
  }
        <h2>Recently resolved</h2>
        ${ended.length === 0 ? html`<p>None.</p>` : null}
        <ul class="cards">
          ${ended.slice(0, overs).map((it) => html`<${Over} key=${it.id} approval=${it} />`)}
        </ul>
        ${
    ended.length > overs
      ? html`<button class="btn" type="button" onClick=${() => setOvers(overs + step)}>Show more (${
        ended.length - overs
      } further)</button>`
      : null
  }
      </div></section>
      <section class="pane detail" aria-label="Approval request"><div class="scroll" tabindex="0"><div class="body">
        ${
    looked === undefined
      ? html`<p class="muted">${
        open.length === 0 ? "New requests appear here." : "Select a request to see its details."
      } <kbd>?</kbd> lists keyboard shortcuts.</p>`
      : looked === "bulk"
      ? html`<${BulkApproval} approvals=${chosenOnes} />`
      : html`<${ApprovalView} key=${looked} id=${looked} />`
  }
      </div></div></section>
    </div>`
}

/** Shortens a text for the list; the request shows all of it. */
const brief = (text: string): string => text.length > 160 ? `${text.slice(0, 160)}…` : text

const Item = (
  { isChosen, approval }: { readonly approval: ApprovalSummary; readonly isChosen: boolean }
): VNode => {
  const { expiresAt, id, summary, targets, tool } = approval
  const toggle = () => {
    const next = new Set(ticked.value)
    if (!next.delete(id)) next.add(id)
    ticked.value = next
  }
  return html`
    <li class="card">
      <input type="checkbox" checked=${ticked.value.has(id)} onChange=${toggle}
        aria-label=${`Select ${[tool, ...targets.map((it) => it.text)].join(" ").slice(0, 100)}`} />
      <div class="what">
        <a href=${to("approvals", id)} aria-current=${isChosen ? "true" : undefined}><${SafeText} text=${tool} /></a>
        ${targets.slice(0, 3).map((it) => html`<span class="target"><${SafeText} text=${brief(it.text)} /></span>`)}
        ${targets.length > 3 ? html`<span class="muted">and ${targets.length - 3} more</span>` : null}
        <p class="summary"><${SafeText} text=${brief(summary)} /></p>
        <p class="muted">
          <${Who} of=${approval} />, <${Deadline} expiresAt=${expiresAt} />
        </p>
      </div>
    </li>`
}

const Over = ({ approval }: { readonly approval: ResolvedApproval }): VNode =>
  html`
    <li class="card">
      <div class="what">
        <a href=${to("approvals", approval.id)}><${SafeText} text=${approval.tool} /></a>
        <p>${ending(approval)}${approval.by === undefined ? "" : html` by <${SafeText} text=${approval.by} />`}.</p>
        <p class="muted">${time(approval.endedAt)}</p>
      </div>
    </li>`
