/**
 * Pending approval requests by conversation, and recently resolved ones: a list, and next to it a request in detail, or
 * several that are answered together.
 */
import type { VNode } from "preact"
import { useEffect, useState } from "preact/hooks"
import type { ApprovalSummary, ResolvedApproval } from "../server/api/ApiApprovals.ts"
import { ApprovalView, Toast } from "./ApprovalView.ts"
import { BulkApproval } from "./BulkApproval.ts"
import { html } from "./html.ts"
import { titleOf } from "./known.ts"
import { Empty, ListBar, PaneBar, Split } from "./layout.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Left, Lines, StateMark } from "./pieces.ts"
import { groupsOf, inOrder } from "./request.ts"
import { route, to } from "./routes.ts"
import { known, me, shownApproval, ticked } from "./state.ts"
import type { State } from "./states.ts"
import { clock, ending } from "./words.ts"

/** How many requests are shown first, and added by each "Show more". */
const step = 50

/** From this width on, the list and a request are shown side by side. */
const wide = "(min-width: 760px)"

/** The view. */
export const Approvals = (): VNode => {
  const { open } = known.value
  const { parts } = route.value
  const isResolved = parts[0] === "resolved"
  const chosen = isResolved ? parts[1] : parts[0]
  // on a wide screen the oldest request opens by default and stays open until the user navigates: the request must
  // never change while a person is about to answer
  const [opened, setOpened] = useState<string | undefined>(undefined)
  const looked = chosen ??
    (isResolved ? undefined : opened ?? (matchMedia(wide).matches ? inOrder(open)[0]?.id : undefined))
  useEffect(() => {
    setOpened(chosen === undefined ? looked : undefined)
    shownApproval.value = looked
    return () => {
      shownApproval.value = undefined
    }
  }, [chosen, looked])
  const selected = open.filter((it) => ticked.value.has(it.id))
  const back = isResolved
    ? { href: to("approvals", "resolved"), name: "Resolved" }
    : { href: to("approvals"), name: "Approvals" }
  return html`<${Split} isOpen=${chosen !== undefined} label=${
    isResolved ? "Resolved requests" : "Pending requests"
  } list=${
    isResolved
      ? html`<${Resolved} chosen=${looked} />`
      : html`<${Pending} chosen=${looked} selected=${selected} isOpen=${looked !== undefined} />`
  }>${
    looked === "bulk"
      ? html`<${BulkApproval} approvals=${selected} back=${back} />`
      : looked !== undefined
      ? html`<${ApprovalView} key=${looked} id=${looked} back=${back} />`
      : html`<${PaneBar} back=${back} /><${Toast} />${
        open.length > 0 || isResolved
          ? html`<${Empty} of="inbox" title="Choose a request." />`
          : mayApprove()
          ? html`<${Empty} of="inbox" title="No pending requests.">When an agent needs your approval, the request appears
            here and in the title of this tab.</${Empty}>`
          : html`<${Empty} of="shield" title="You do not have permission to approve requests.">The operator grants it with
            <code>approve</code> in the config.</${Empty}>`
      }`
  }</${Split}>`
}

const mayApprove = (): boolean => typeof me.value === "object" && me.value.approve.length > 0

const Pending = ({ chosen, isOpen, selected }: {
  readonly chosen: string | undefined
  readonly selected: ReadonlyArray<ApprovalSummary>
  readonly isOpen: boolean
}): VNode => {
  const { open } = known.value
  const [most, setMost] = useState(step)
  const isAll = selected.length === open.length
  const rest = open.length - most
  return html`
    <${ListBar} title="Approvals" isOpen=${isOpen}>
      <span class="muted small num nowrap">${open.length} pending</span><span class="grow"></span>
      ${
    selected.length > 0
      ? html`<a class="btn primary slim" href=${to("approvals", "bulk")}>Review ${selected.length}</a>`
      : html`<a class="btn quiet slim" href=${to("approvals", "resolved")}>Resolved</a>`
  }
    </${ListBar}>
    ${
    groupsOf(open.slice(0, most)).map(({ requests, session, user }) =>
      html`<section class="group" key=${`${user}/${session}`}><h2><span class="cut grow"><${SafeText} text=${
        titleOf(known.value, user, session)
      } /></span>
        <span><${SafeText} text=${user} /></span></h2>
        <ul>${requests.map((it) => html`<${Item} key=${it.id} approval=${it} isChosen=${it.id === chosen} />`)}</ul>
      </section>`
    )
  }
    <p class="row hint">
      ${
    rest > 0
      ? html`<button class="btn slim" type="button" onClick=${() =>
        setMost(most + step)}>Show more (${rest} further)</button>`
      : null
  }
      ${
    open.length < 2 ? null : html`<button class="btn quiet slim" type="button" onClick=${() => {
      ticked.value = isAll ? new Set() : new Set(open.map((it) => it.id))
    }}>${isAll ? "Clear selection" : `Select all ${open.length}`}</button>`
  }
    </p>`
}

/** Shortens a text for the list; the request shows all of it. */
const brief = (text: string): string => text.length > 100 ? `${text.slice(0, 100)}…` : text

const Item = (
  { isChosen, approval }: { readonly approval: ApprovalSummary; readonly isChosen: boolean }
): VNode => {
  const { agentPath, expiresAt, facts, id, targets: [target, ...others], tool } = approval
  const toggle = () => {
    const next = new Set(ticked.value)
    if (!next.delete(id)) next.add(id)
    ticked.value = next
  }
  return html`
    <li class="item">
      <input type="checkbox" checked=${ticked.value.has(id)} onChange=${toggle}
        aria-label=${`Select ${[tool, target?.text].join(" ").slice(0, 100)}`} />
      <div class="t">
        <a class="cut mono" href=${to("approvals", id)} aria-current=${
    isChosen ? "true" : undefined
  }><${SafeText} text=${brief(target?.text ?? tool)} />${others.length > 0 ? ` and ${others.length} more` : ""}</a>
        <${Left} expiresAt=${expiresAt} />
      </div>
      <p class="s cut">${
    target === undefined ? null : html`<span class="mono"><${SafeText} text=${brief(tool)} /></span>`
  }${facts.lines === undefined ? null : html`<${Lines} of=${facts.lines} />`}${
    facts.files !== undefined && facts.files.created > 0 ? html`<span>new file</span>` : null
  }${facts.undoable || facts.readOnly ? null : html`<span>Cannot be undone</span>`}${
    agentPath.length === 0 ? null : html`<span><${SafeText} text=${agentPath.at(-1)} /></span>`
  }</p>
    </li>`
}

const endStates: Readonly<Record<ResolvedApproval["how"], State>> = {
  approved: "succeeded",
  covered: "succeeded",
  denied: "denied",
  expired: "timedOut",
  withdrawn: "cancelled",
  closed: "cancelled",
  suspended: "suspended"
}

const Resolved = ({ chosen }: { readonly chosen: string | undefined }): VNode => {
  const { ended, open } = known.value
  const [most, setMost] = useState(step)
  return html`
    <${ListBar} title="Resolved" isOpen=${chosen !== undefined}><span class="grow"></span>
      <a class="btn quiet slim" href=${to("approvals")}>${open.length} pending</a></${ListBar}>
    ${ended.length === 0 ? html`<${Empty} of="check" title="No resolved requests." />` : null}
    <ul>${
    ended.slice(0, most).map((it) =>
      html`<li class="item" key=${it.id}><${StateMark} of=${endStates[it.how]} isBrief />
        <div class="t"><a class="cut mono" href=${to("approvals", "resolved", it.id)} aria-current=${
        it.id === chosen ? "true" : undefined
      }><${SafeText} text=${brief(it.targets[0]?.text ?? it.tool)} /></a><span class="when">${
        clock(it.endedAt)
      }</span></div>
        <p class="s cut"><span>${ending(it)}${it.by === undefined ? "" : html` by <${SafeText} text=${it.by} />`}</span>
          <span><${SafeText} text=${it.session} /></span></p></li>`
    )
  }</ul>
    ${
    ended.length > most
      ? html`<p class="hint"><button class="btn slim" type="button" onClick=${() => setMost(most + step)}>Show more (${
        ended.length - most
      } further)</button></p>`
      : null
  }`
}
