/** Answers an approval request inside a conversation, if all that there is to see of it fits there. */
import type { VNode } from "preact"
import { useCallback, useEffect, useState } from "preact/hooks"
import type { Answer } from "../core/gates/ApprovalRequest.ts"
import type { AnsweredApproval, ApprovalRequest, ApprovalSummary, Part } from "../server/api/ApiApprovals.ts"
import { get, post, type Problem, type Reply } from "./api.ts"
import { useApproval } from "./ApprovalBody.ts"
import { fits } from "./evidence.ts"
import { html } from "./html.ts"
import { afterAnswer } from "./known.ts"
import { Arguments } from "./parts/Arguments.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure, Lines } from "./pieces.ts"
import { Preview } from "./Preview.ts"
import { commandIn, consequenceOf, isUndoable, leftOf } from "./request.ts"
import { to } from "./routes.ts"
import { connection, known, say } from "./state.ts"
import { ending } from "./words.ts"

/** How long the buttons ignore input after the request is shown, in milliseconds. */
const pause = 500

/** The request, with buttons or with a link to where it can be seen whole. */
export const InlineApproval = ({ of }: { readonly of: ApprovalSummary }): VNode => {
  const { again, read } = useApproval(of.id)
  const [texts, setTexts] = useState<ReadonlyArray<string> | undefined>(undefined)
  const load = useCallback(
    (index: number, side: "before" | "after", from: number): Promise<Reply<typeof Part.Type>> =>
      get(`api/approvals/${encodeURIComponent(of.id)}/files/${index}/${side}?from=${from}`),
    [of.id]
  )
  const review = html`<a class="btn" href=${to("approvals", of.id)}>Review request</a>`
  if (read._tag === "Failed") return html`<${Failure} problem=${read.problem} onAgain=${again} />`
  if (read._tag !== "Open") return html`<p class="small soft" role="status">Loading …</p>`
  const { approval } = read
  const { args, preview, targets } = approval
  if (!fits(approval, texts)) {
    return html`<p class="small soft">${
      consequenceOf([approval], commandIn(args))
    } There is more to see than fits here.</p><div class="acts">${review}</div>`
  }
  const hasPreview = preview !== null && preview._tag !== "None"
  const command = commandIn(args)
  const left = hasPreview && texts === undefined ? {} : leftOf(args, { command, targets, texts: texts ?? [] })
  const isEmpty = typeof left === "object" && left !== null && Object.keys(left).length === 0
  return html`
    ${
    hasPreview
      ? html`<${Preview} preview=${preview} load=${load} onShown=${setTexts} title=${targets[0]?.text} />`
      : null
  }
    ${command === undefined ? null : html`<div class="block cmd"><${SafeText} text=${command.line} block /></div>`}
    ${isEmpty ? null : html`<div class="block"><${Arguments} value=${left} /></div>`}
    <${Buttons} of=${approval} isWhole=${!hasPreview || texts !== undefined} again=${again} />`
}

const Buttons = ({ again, isWhole, of }: {
  readonly of: ApprovalRequest
  readonly isWhole: boolean
  readonly again: () => void
}): VNode => {
  const [isSettled, setIsSettled] = useState(false)
  const [isSending, setIsSending] = useState(false)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  useEffect(() => {
    const timer = setTimeout(() => setIsSettled(true), pause)
    return () => clearTimeout(timer)
  }, [of.hash])
  const isLost = connection.value === "lost"
  const send = async (answer: Answer) => {
    if (!isSettled || isSending || isLost) return
    setIsSending(true)
    const { hash, id } = of
    const reply = await post<AnsweredApproval>(`api/approvals/${encodeURIComponent(id)}/answer`, { hash, answer })
    setIsSending(false)
    if (!reply.ok) {
      setProblem(reply.problem)
      return again()
    }
    known.value = afterAnswer(known.value, reply.value)
    say(`${ending(reply.value)}. ${known.value.open.length} pending.`)
  }
  const isOff = !isWhole || isLost || isSending
  const { facts } = of
  return html`
    ${problem === undefined ? null : html`<${Failure} problem=${problem} />`}
    <p class=${isUndoable([of]) ? "small soft" : "small bad-t"}>${consequenceOf([of], commandIn(of.args))} ${
    facts.lines === undefined ? null : html`<${Lines} of=${facts.lines} />`
  } <a href=${to("approvals", of.id)}>More options</a></p>
    <div class="acts" data-settled=${isSettled && !isOff}>
      <button class="btn deny" type="button" aria-disabled=${isLost || isSending} onClick=${() =>
    void send({ _tag: "Deny" })}>Deny</button>
      <button class=${
    isUndoable([of]) ? "btn primary" : "btn even"
  } type="button" aria-disabled=${isOff} onClick=${() =>
    isOff
      ? say("Approve is unavailable until everything has loaded.")
      : void send({ _tag: "ApproveOnce" })}>Approve once</button>
      ${isLost ? html`<span class="small">You can answer when you are online again.</span>` : null}
    </div>`
}
