/**
 * Answers several approval requests with one decision: all of them, or none if one has changed. Approving requires that
 * every request has loaded completely.
 */
import type { VNode } from "preact"
import { useCallback, useEffect, useState } from "preact/hooks"
import type { Answer } from "../core/gates/ApprovalRequest.ts"
import type { AnsweredApproval, ApprovalSummary } from "../server/api/ApiApprovals.ts"
import { post, type Problem } from "./api.ts"
import { ApprovalBody, Facts, useApproval } from "./ApprovalBody.ts"
import { DecisionBar } from "./DecisionBar.ts"
import { html } from "./html.ts"
import { afterAnswer, type Known } from "./known.ts"
import { Empty, Heading, Note, PaneBar } from "./layout.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Deadline, Failure, Lines } from "./pieces.ts"
import { commandIn, consequenceOf, headlineOf, isUndoable } from "./request.ts"
import { to } from "./routes.ts"
import { known, say, ticked } from "./state.ts"
import { count } from "./words.ts"

/** The hash of each approval request that was loaded whole. */
type Wholes = ReadonlyMap<string, string>

/** Shows the approval requests that are selected, and answers them together. */
export const BulkApproval = ({ approvals, back }: {
  readonly approvals: ReadonlyArray<ApprovalSummary>
  readonly back: { readonly href: string; readonly name: string }
}): VNode => {
  const [wholes, setWholes] = useState<Wholes>(new Map())
  const [reviewed, setReviewed] = useState<ReadonlySet<string>>(new Set())
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const [isSending, setIsSending] = useState(false)
  const onWhole = useCallback((id: string, hash: string) => setWholes((it) => new Map(it).set(id, hash)), [])
  const loaded = approvals.filter((it) => wholes.get(it.id) === it.hash).length

  const send = async (answer: Answer) => {
    setIsSending(true)
    setProblem(undefined)
    const answers = approvals.map(({ hash, id }) => ({ id, hash, answer }))
    const reply = await post<ReadonlyArray<AnsweredApproval>>("api/approvals/answers", { answers })
    setIsSending(false)
    if (!reply.ok) return setProblem(reply.problem)
    ticked.value = new Set()
    known.value = reply.value.reduce<Known>(afterAnswer, known.value)
    say(`${count(reply.value.length, "request")} answered. ${known.value.open.length} pending.`)
    location.hash = to("approvals")
  }
  const stale = problem?.errors?.flatMap((it) => it.id === undefined ? [] : [it.id]) ?? []
  const refused = problem === undefined ? null : html`
    <${Failure} problem=${{
    ...problem,
    title: stale.length === 0 ?
      problem.title :
      `${stale.length} of ${count(approvals.length, "request")} changed, so nothing was sent.`
  }} />
    ${
    stale.length === 0 ? null : html`<p><button class="btn slim" type="button" onClick=${() => {
      ticked.value = new Set(Array.from(ticked.value).filter((it) => !stale.includes(it)))
      setProblem(undefined)
    }}>Deselect ${stale.length === 1 ? "it" : "them"}</button></p>`
  }`
  if (approvals.length === 0) {
    return html`<${PaneBar} back=${back} />${refused}<${Empty} of="inbox" title="Nothing selected.">Select requests in the
      list to answer them together.</${Empty}>`
  }
  const done = approvals.filter((it) => reviewed.has(it.id)).length
  const key = approvals.map((it) => it.hash).join(" ")
  return html`
    <${PaneBar} back=${back}><span class="muted small grow">${count(approvals.length, "request")} selected</span>
      <button class="btn quiet slim" type="button" onClick=${() => {
    ticked.value = new Set()
  }}>Clear selection</button></${PaneBar}>
    <div class="scroll" tabindex="0" role="group" aria-label="Requests"><div class="body ask">
      ${refused}
      <header><${Heading} class="title">${titleOf(approvals)}</${Heading}>
        <p class="row"><${Facts} of=${approvals} /></p></header>
      ${
    approvals.map((it, at) =>
      html`<${One} key=${it.id} summary=${it} isStale=${stale.includes(it.id)} onWhole=${onWhole} isFirst=${at === 0}
        isReviewed=${reviewed.has(it.id)} onReviewed=${(is: boolean) => {
        const next = new Set(reviewed)
        if (is) next.add(it.id)
        else next.delete(it.id)
        setReviewed(next)
      }} />`
    )
  }
      <${Note} of="check">All are answered together. If one of them changes before you answer, nothing is sent and you see
        which one.</${Note}>
    </div></div>
    <${DecisionBar} key=${key} consequence=${`${done} of ${approvals.length} reviewed. ${consequenceOf(approvals)}`}
      isGrave=${!isUndoable(approvals)} isSending=${isSending}
      labels=${{ deny: `Deny all ${approvals.length}`, approve: `Approve all ${approvals.length}` }}
      late=${html`<${Deadline} expiresAt=${firstEnd(approvals)} />`} send=${(it: Answer) => void send(it)}
      why=${
    loaded === approvals.length ? "" : `Approve is unavailable until all are loaded (${loaded} of ${approvals.length}).`
  } />`
}

/** What the requests have in common. */
const titleOf = (approvals: ReadonlyArray<ApprovalSummary>): VNode | string => {
  const tools = new Set(approvals.map((it) => it.tool))
  const changed = approvals.reduce((sum, { facts }) => sum + (facts.files?.changed ?? 0), 0)
  return approvals.every(({ facts }) => facts.files !== undefined)
    ? `Write ${count(changed, "file")}`
    : tools.size === 1
    ? html`${approvals.length} calls of <span class="mono"><${SafeText} text=${approvals[0]!.tool} /></span>`
    : count(approvals.length, "selected request")
}

const firstEnd = (approvals: ReadonlyArray<ApprovalSummary>): number | "unlimited" => {
  const ends = approvals.flatMap(({ expiresAt }) => expiresAt === "unlimited" ? [] : [expiresAt])
  return ends.length === 0 ? "unlimited" : Math.min(...ends)
}

const One = (
  { isFirst, isReviewed, isStale, onReviewed, onWhole, summary }: {
    readonly summary: ApprovalSummary
    readonly isFirst: boolean
    readonly isStale: boolean
    readonly isReviewed: boolean
    readonly onReviewed: (isReviewed: boolean) => void
    readonly onWhole: (id: string, hash: string) => void
  }
): VNode => {
  const { again, read, seen } = useApproval(summary.id)
  const hash = seen?.hash
  const [isWhole, setIsWhole] = useState(false)
  const tell = useCallback((it: boolean) => setIsWhole(it), [])
  useEffect(() => {
    if (isWhole && hash !== undefined) onWhole(summary.id, hash)
  }, [isWhole, hash, summary.id, onWhole])
  const { of, verb } = headlineOf(summary, seen === undefined ? undefined : commandIn(seen.args))
  const { lines } = summary.facts
  const name = [verb, of ?? ""].join(" ").trim()
  return html`
    <section class=${isStale ? "block review stale" : "block review"} aria-label=${name.slice(0, 100)}>
      <details class="fold" open=${isFirst}><summary><span class="mono"><${SafeText} text=${name} /></span>${
    isStale ? html` <span class="wait-t">can no longer be answered</span>` : null
  }${lines === undefined ? null : html`<${Lines} of=${lines} />`}</summary><div class="body">${
    read._tag === "Failed"
      ? html`<${Failure} problem=${read.problem} onAgain=${again} />`
      : seen === undefined
      ? html`<p>Loading …</p>`
      : html`<${ApprovalBody} key=${seen.hash} approval=${seen} onWhole=${tell} />`
  }</div></details>
      <label><input type="checkbox" checked=${isReviewed} onChange=${(event: Event) =>
    onReviewed((event.currentTarget as HTMLInputElement).checked)} />Reviewed</label>
    </section>`
}
