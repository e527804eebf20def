/**
 * Several approval requests answered at once: all of them, or none where one is not as it was shown any
 * more. All of each is there to be seen before anybody can say yes to them.
 *
 * @since 0.1.0
 */
import type { VNode } from "preact"
import { useCallback, useEffect, useState } from "preact/hooks"
import type { Answer } from "../core/gates/ApprovalRequest.ts"
import type { ApprovalSummary, ResolvedApproval } from "../server/ApiApprovals.ts"
import { post, type Problem } from "./api.ts"
import { ApprovalBody, useApproval } from "./ApprovalBody.ts"
import { html } from "./html.ts"
import { after, type Known } from "./known.ts"
import { No } from "./No.ts"
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
    say(`${count(reply.value.length, "approval")} answered. ${known.value.open.length} wait.`)
  }
  const off = isWhole ? "" : `Yes is off until everything has been loaded (${loaded} of ${approvals.length}).`
  const stale = problem?.errors?.flatMap((it) => it.id === undefined ? [] : [it.id]) ?? []
  if (approvals.length === 0) {
    return html`
      <p class="back"><a href=${to("approvals")}>All approvals</a></p>
      <h2 tabindex="-1" data-heading>None is ticked</h2><p>Tick approvals in the list to answer them together.</p>
      ${problem === undefined ? null : html`<${Failure} problem=${problem} />`}`
  }
  return html`
    <p class="back"><a href=${to("approvals")}>All approvals</a></p>
    <h2 tabindex="-1" data-heading>${count(approvals.length, "approval")} together</h2>
    ${problem === undefined ? null : html`<${Failure} problem=${problem} />`}
    ${
    stale.length === 0 ? null : html`<p class="row"><button type="button" onClick=${() => {
      ticked.value = new Set(Array.from(ticked.value).filter((it) => !stale.includes(it)))
      setProblem(undefined)
    }}>Untick ${stale.length === 1 ? "the one" : "those"} that cannot be answered</button></p>`
  }
    ${
    approvals.map((it) =>
      html`<${One} key=${it.id} summary=${it} isStale=${stale.includes(it.id)} onWhole=${onWhole} />`
    )
  }
    <section class="answer" aria-labelledby="answer-title">
      <h3 id="answer-title">Your answer to all ${approvals.length}</h3>
      <p id="yes-off" class="muted" role="status">${off}</p>
      <p class="row"><button type="button" class="main" data-key="yes" aria-disabled=${!isWhole || isSending}
        aria-describedby="yes-off" onClick=${() =>
    isWhole ? void send({ _tag: "ApproveOnce" }) : say(off)}>Yes to all, once</button></p>
      <${No} label="No to all" send=${(answer: Answer) => void send(answer)} />
    </section>`
}

// Utilities

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
      <h3><${SafeText} text=${summary.tool} />${isStale ? " (cannot be answered any more)" : ""}</h3>
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
