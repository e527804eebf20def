/** One approval request: all of it, the bar that answers it, and how it ended. */
import type { VNode } from "preact"
import { useCallback, useRef, useState } from "preact/hooks"
import type { Answer } from "../core/gates/ApprovalRequest.ts"
import type { AnsweredApproval, ApprovalRequest, ResolvedApproval } from "../server/api/ApiApprovals.ts"
import { post, type Problem } from "./api.ts"
import { ApprovalBody, RequestHead, useApproval } from "./ApprovalBody.ts"
import { useContext } from "./context.ts"
import { DecisionBar } from "./DecisionBar.ts"
import { html } from "./html.ts"
import { afterAnswer } from "./known.ts"
import { useLater } from "./later.ts"
import { Heading, Note, PaneBar } from "./layout.ts"
import { SafeText } from "./parts/SafeText.ts"
import type { Edited } from "./parts/types.ts"
import { Deadline, Failure, icon, Left, StateMark } from "./pieces.ts"
import { commandIn, consequenceOf, inOrder, isUndoable } from "./request.ts"
import { to } from "./routes.ts"
import { answered, known, me, say, ticked } from "./state.ts"
import { clock, ending, span } from "./words.ts"

const formModule = () => import("./parts/ArgsForm.ts")

/** Shows the approval request of an id; `back` is the list that it was chosen from. */
export const ApprovalView = (
  { back, id }: { readonly id: string; readonly back: { readonly href: string; readonly name: string } }
): VNode => {
  const { again, read, seen } = useApproval(id)
  const first = useRef<string | undefined>(undefined)
  first.current ??= seen?.hash
  if (read._tag === "Ended") return html`<${Ended} approval=${read.approval} seen=${seen} back=${back} />`
  return html`
    <${Position} id=${id} back=${back} />
    <${Toast} />
    ${
    read._tag === "Open" && seen !== undefined
      ? html`<${Open} key=${seen.hash} approval=${seen} onStale=${again} isChanged=${first.current !== seen.hash} />`
      : html`<div class="scroll"><div class="body"><${Heading} class="title">Approval request</${Heading}>${
        read._tag === "Failed" ? html`<${Failure} problem=${read.problem} onAgain=${again} />` : html`<p>Loading …</p>`
      }</div></div>`
  }`
}

/** Where in the list the request is, and the way to its neighbours. */
const Position = (
  { back, id }: { readonly id: string; readonly back: { readonly href: string; readonly name: string } }
): VNode => {
  const all = inOrder(known.value.open)
  const at = all.findIndex((it) => it.id === id)
  const step = (to: number, name: string, of: string) => {
    const other = at === -1 ? undefined : all[to]
    return html`<button class="btn quiet icon" type="button" aria-label=${name} disabled=${other === undefined}
      onClick=${() => other !== undefined && go(other.id)}>${icon(of)}</button>`
  }
  return html`<${PaneBar} back=${back}>
    <span class="muted small num grow">${at === -1 ? "" : `${at + 1} of ${all.length}`}${
    at === -1 ? null : html`<span class="show-s nowrap"> · <${Left} expiresAt=${all[at]!.expiresAt} /></span>`
  }</span>
    ${step(at - 1, "Previous request", "up")}${step(at + 1, "Next request", "down")}
  </${PaneBar}>`
}

const go = (id: string): void => {
  location.hash = to("approvals", id)
}

/** What was answered last; it takes no focus and stays until the next answer. */
export const Toast = (): VNode | null => {
  if (answered.value === undefined) return null
  const { approval, isUndoable } = answered.value
  const { callId, how, id, session, targets, tool, user } = approval
  return html`<p class="toast"><${StateMark} of=${how === "approved" ? "succeeded" : "denied"} word=${
    ending(approval)
  } /><a class="cut grow mono" href=${to("approvals", "resolved", id)}><${SafeText} text=${
    targets[0]?.text.slice(0, 100) ?? tool
  } /></a>
    ${isUndoable ? html`<a class="btn slim" href=${to("undo", user, session, callId)}>Undo…</a>` : null}
    <button class="btn quiet icon" type="button" aria-label="Dismiss" onClick=${() => {
    answered.value = undefined
  }}>${icon("x")}</button></p>`
}

const Open = ({ approval, isChanged, onStale }: {
  readonly approval: ApprovalRequest
  readonly isChanged: boolean
  readonly onStale: () => void
}): VNode => {
  const { hash, id, isRunning, remember } = approval
  const context = useContext(approval)
  const [isWhole, setIsWhole] = useState(false)
  const [isEditing, setIsEditing] = useState(false)
  const [edited, setEdited] = useState<Edited | undefined>(undefined)
  const [filled, setFilled] = useState<Edited | undefined>(undefined)
  const form = useLater(isEditing || approval.form !== undefined, formModule)
  const fields = (schema: unknown, value: unknown, onChange: (edited: Edited | undefined) => void): VNode =>
    html`<div class="edit">${
      form === undefined
        ? html`<p>Loading …</p>`
        : form === "failed"
        ? html`<p>The form could not be loaded. Reload the page to try again.</p>`
        : html`<${form.module.ArgsForm} schema=${schema} value=${value} onChange=${onChange} />`
    }</div>`
  const [isSending, setIsSending] = useState(false)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const onWhole = useCallback((it: boolean) => setIsWhole(it), [])

  const send = async (given: Answer) => {
    const data = given._tag !== "Deny" && filled?._tag === "Fits"
      ? { data: filled.value as ApprovalRequest["args"] }
      : {}
    const answer = given._tag === "ApproveOnce" && isEditing && edited?._tag === "Fits"
      ? { ...given, ...data, params: edited.value as ApprovalRequest["args"] }
      : { ...given, ...data }
    setIsSending(true)
    setProblem(undefined)
    const reply = await post<AnsweredApproval>(`api/approvals/${encodeURIComponent(id)}/answer`, { hash, answer })
    setIsSending(false)
    if (reply.ok) {
      const all = inOrder(known.value.open)
      const at = all.findIndex((it) => it.id === id)
      const next = all[at + 1] ?? all[at - 1]
      ticked.value = new Set(Array.from(ticked.value).filter((it) => it !== id))
      known.value = afterAnswer(known.value, reply.value)
      answered.value = {
        approval: reply.value,
        isUndoable: approval.facts.undoable && reply.value.how === "approved"
      }
      say(`${ending(reply.value)}. ${known.value.open.length} pending.`)
      // the next request on a wide screen; otherwise the list has the focus
      location.hash = next === undefined ? to("approvals") : to("approvals", next.id)
      return
    }
    setProblem(reply.problem)
    const { at, by, status } = reply.problem
    if (by !== undefined) second.set(id, at ?? Date.now())
    if (status === 409 || status === 404) onStale()
  }
  const off = !isWhole
    ? "Approve is unavailable until everything has loaded."
    : isEditing && edited?._tag !== "Fits"
    ? "Approve is unavailable until the arguments are valid."
    : approval.form !== undefined && filled?._tag !== "Fits"
    ? "Approve is unavailable until the form is filled in."
    : ""
  const edit = isRunning
    ? null
    : html`<button class="btn quiet slim" type="button" data-key="edit" aria-expanded=${isEditing} onClick=${() => {
      setIsEditing(!isEditing)
      setEdited(undefined)
    }}>${icon("edit")}<span>${isEditing ? "Cancel editing" : "Edit"}<span class="hide-s">${
      isEditing ? "" : " arguments"
    }</span></span></button>`
  const isGrave = !isUndoable([approval])
  return html`
    <div class="scroll" tabindex="0" role="group" aria-label="Request"><div class="body ask">
      ${
    isChanged
      ? html`<${Note} as="wait"><b>This request changed while you were reading.</b> Review it again.</${Note}>`
      : null
  }
      ${problem === undefined ? null : html`<${Failure} problem=${problem} />`}
      <${RequestHead} approval=${approval} />
      ${
    isEditing
      ? html`<section class="block"><header><span class="grow">The edited call passes all checks again. The approval holds
          for this call only.</span>${edit}</header>${fields(approval.parameters, approval.args, setEdited)}</section>`
      : null
  }
      <${ApprovalBody} approval=${approval} onWhole=${onWhole} context=${context}
        actions=${isEditing ? null : edit} />
      ${
    approval.form === undefined
      ? null
      : html`<section class="block" aria-label="Form"><header><span class="grow">The tool gets what you fill in
          here.</span></header>${fields(approval.form, approval.approvals?.at(-1)?.data ?? {}, setFilled)}</section>`
  }
    </div></div>
    <${DecisionBar} consequence=${consequenceOf([approval], commandIn(approval.args))} isGrave=${isGrave} why=${off}
      isSending=${isSending} labels=${{ deny: "Deny", approve: isEditing ? "Approve as edited" : "Approve once" }}
      late=${html`<${Deadline} expiresAt=${approval.expiresAt} />`} remember=${
    remember === "call" || isEditing ? undefined : approval
  } send=${(it: Answer) => void send(it)} />`
}

/** Requests that somebody else answered while this user answered them, and when. */
const second = new Map<string, number>()

const Ended = ({ approval, back, seen }: {
  readonly approval: ResolvedApproval
  readonly seen: ApprovalRequest | undefined
  readonly back: { readonly href: string; readonly name: string }
}): VNode => {
  const { by, endedAt, how, next, reason, requestedAt } = approval
  const user = me.value
  const isOther = by !== undefined && typeof user === "object" && by !== user.name
  const nothing = useCallback(() => {}, [])
  const color = how === "approved" || how === "covered" ? "ok" : how === "denied" || how === "expired" ? "bad" : ""
  const tag = html`<span class=${`tag ${color}`}><span>${ending(approval)}${
    by === undefined ? null : html` by <${SafeText} text=${by} />`
  }</span></span>`
  const [first] = inOrder(known.value.open)
  const isUndoable = how === "approved" && approval.facts.undoable
  return html`
    <${PaneBar} back=${back}><span class="muted small grow">Resolved request</span>${
    isUndoable
      ? html`<a class="btn quiet slim" href=${to("undo", approval.user, approval.session, approval.callId)}>Undo…</a>`
      : null
  }${
    first === undefined ? null : html`<a class="btn slim" href=${to("approvals", first.id)}>Next request</a>`
  }</${PaneBar}>
    <div class="scroll" tabindex="0" role="group" aria-label="Request"><div class="body ask">
      <${RequestHead} approval=${seen ?? approval}>${tag}</${RequestHead}>
      ${
    second.has(approval.id) && isOther
      ? html`<${Note} of="clock"><b><${SafeText} text=${by} /> answered ${
        span(Math.max(1_000, second.get(approval.id)! - endedAt))
      } before you.</b> Your answer was not used.</${Note}>`
      : null
  }
      <${Note} as=${how === "expired" ? "bad" : ""} of=${how === "expired" ? "clock" : "check"}>${next}</${Note}>
      <dl class="why">
        ${
    reason === undefined
      ? null
      : html`<dt>Reason</dt><dd><blockquote class="said"><${SafeText} text=${reason} /></blockquote></dd>`
  }
        <dt>Requested</dt><dd>${clock(requestedAt)}, ended after ${span(endedAt - requestedAt)}</dd>
      </dl>
      ${seen === undefined ? null : html`<${ApprovalBody} approval=${seen} onWhole=${nothing} isOver />`}
    </div></div>`
}
