/**
 * Answers several approval requests with one decision: all of them, or none if one has changed. Approving requires that
 * every request has loaded completely.
 */
import type { VNode } from "preact"
import { useCallback, useEffect, useState } from "preact/hooks"
import type { Answer } from "../core/gates/ApprovalRequest.ts"
import type { ApprovalSummary, ResolvedApproval } from "../server/ApiApprovals.ts"
import { post, type Problem } from "./api.ts"
import { ApprovalBody, useApproval } from "./ApprovalBody.ts"
import { DenyForm } from "./DenyForm.ts"
import { html } from "./html.ts"
import { after, type Known } from "./known.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Deadline, Failure } from "./pieces.ts"
import { to } from "./routes.ts"
import { known, say, ticked } from "./state.ts"
import { count } from "./words.ts"

/** The hash of each approval request that was loaded whole. */
type Wholes = ReadonlyMap<string, string>

/** Shows the approval requests that are ticked, and answers them together. */
export const BulkApproval = ({ approvals }: { readonly approvals: ReadonlyArray<ApprovalSummary> }): VNode => {
  const [wholes, setWholes] = useState<Wholes>(new Map())
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const [isSending, setIsSending] = useState(false)
  const onWhole = useCallback((id: string, hash: string) => setWholes((it) => new Map(it).set(id, hash)), [])
  const loaded = approvals.filter((it) => wholes.get(it.id) === it.hash).length
  const isWhole = loaded === approvals.length

  const send = async (answer: Answer) => {
    if (isSending) return
    setIsSending(true)
    setProblem(undefined)
    const answers = approvals.map(({ hash, id }) => ({ id, hash, answer }))
    const reply = await post<ReadonlyArray<ResolvedApproval>>("api/approvals/answers", { answers })
    setIsSending(false)
    if (!reply.ok) return setProblem(reply.problem)
    ticked.value = new Set()
    known.value = reply.value.reduce<Known>(
      (known, approval) => after(known, { _tag: "ApprovalResolved", approval }),
      known.value
    )
    say(`${count(reply.value.length, "request")} answered. ${known.value.open.length} pending.`)
  }
  const off = isWhole ? "" : `Approve is unavailable until everything has loaded (${loaded} of ${approvals.length}).`
  const stale = problem?.errors?.flatMap((it) => it.id === undefined ? [] : [it.id]) ?? []
  if (approvals.length === 0) {
    return html`
      <p class="back"><a href=${to("approvals")}>All approvals</a></p>
      <h2 tabindex="-1" data-heading>Nothing selected</h2><p>Select requests in the list to answer them together.</p>
      ${problem === undefined ? null : html`<${Failure} problem=${problem} />`}`
  }
  return html`
    <p class="back"><a href=${to("approvals")}>All approvals</a></p>
    <h2 tabindex="-1" data-heading>${count(approvals.length, "selected request")}</h2>
    ${problem === undefined ? null : html`<${Failure} problem=${problem} />`}
    ${
    stale.length === 0 ? null : html`<p class="row"><button class="btn" type="button" onClick=${() => {
      ticked.value = new Set(Array.from(ticked.value).filter((it) => !stale.includes(it)))
      setProblem(undefined)
    }}>Deselect ${stale.length === 1 ? "the request" : "requests"} that cannot be answered</button></p>`
  }
    ${
    approvals.map((it) =>
      html`<${One} key=${it.id} summary=${it} isStale=${stale.includes(it.id)} onWhole=${onWhole} />`
    )
  }
    <section class="answer" aria-labelledby="answer-title">
      <h3 id="answer-title">Decision for all ${approvals.length}</h3>
      <p id="yes-off" class="muted" role="status">${off}</p>
      <p class="row"><button type="button" class="btn primary" data-key="yes" aria-disabled=${!isWhole || isSending}
        aria-describedby="yes-off" onClick=${() =>
    isWhole ? void send({ _tag: "ApproveOnce" }) : say(off)}>Approve all once</button></p>
      <${DenyForm} label="Deny all" send=${(answer: Answer) => void send(answer)} />
    </section>`
}

const One = (
  { isStale, onWhole, summary }: {
    readonly summary: ApprovalSummary
    readonly isStale: boolean
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
  return html`
    <section class=${isStale ? "one stale" : "one"}>
      <h3><${SafeText} text=${summary.tool} />${isStale ? " (can no longer be answered)" : ""}</h3>
      <p><${Deadline} expiresAt=${summary.expiresAt} /></p>
      ${
    read._tag === "Failed"
      ? html`<${Failure} problem=${read.problem} onAgain=${again} />`
      : seen === undefined
      ? html`<p>Loading …</p>`
      : html`<${ApprovalBody} key=${seen.hash} approval=${seen} onWhole=${tell} />`
  }
    </section>`
}
