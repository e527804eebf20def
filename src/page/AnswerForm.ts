/**
 * The form that answers an approval request. Approving is unavailable until the whole request has loaded; denying is
 * always possible.
 */
import type { VNode } from "preact"
import { useState } from "preact/hooks"
import type { Answer } from "../core/gates/ApprovalRequest.ts"
import type { ApprovalRequest, ResolvedApproval } from "../server/ApiApprovals.ts"
import { post, type Problem } from "./api.ts"
import { DenyForm } from "./DenyForm.ts"
import { html } from "./html.ts"
import { after } from "./known.ts"
import { useLater } from "./later.ts"
import { SafeText } from "./parts/SafeText.ts"
import type { Edited } from "./parts/types.ts"
import { Failure } from "./pieces.ts"
import { known, say, ticked } from "./state.ts"
import { ending, time } from "./words.ts"

/** Durations of a standing approval; the first is the default. */
const durations = ["15 minutes", "1 hour", "8 hours", "7 days"] as const

const formModule = () => import("./parts/ArgsForm.ts")

/** The form. `onStale` is called when the request has changed or ended. */
export const AnswerForm = (
  { isWhole, onStale, approval }: {
    readonly approval: ApprovalRequest
    readonly isWhole: boolean
    readonly onStale: () => void
  }
): VNode => {
  const { hash, id, isRunning, remember, targets, tool } = approval
  const [duration, setDuration] = useState<string>(durations[0])
  const [isWide, setIsWide] = useState(false)
  const [isEditing, setIsEditing] = useState(false)
  const [edited, setEdited] = useState<Edited | undefined>(undefined)
  const form = useLater(isEditing, formModule)
  const [isSending, setIsSending] = useState(false)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)

  const send = async (answer: Answer) => {
    if (isSending) return
    setIsSending(true)
    setProblem(undefined)
    const reply = await post<ResolvedApproval>(`api/approvals/${encodeURIComponent(id)}/answer`, { hash, answer })
    setIsSending(false)
    if (reply.ok) {
      const next = new Set(ticked.value)
      next.delete(id)
      ticked.value = next
      known.value = after(known.value, { _tag: "ApprovalResolved", approval: reply.value })
      return say(`${ending(reply.value)}. ${known.value.open.length} pending.`)
    }
    setProblem(reply.problem)
    const { at, by } = reply.problem
    if (by !== undefined) say(`${by} answered first${at === undefined ? "" : `, at ${time(at)}`}.`)
    if (reply.problem.status === 409 || reply.problem.status === 404) onStale()
  }

  const isOff = !isWhole || isSending || (isEditing && edited?._tag !== "Fits")
  const why = !isWhole
    ? "Approve is unavailable until everything above has loaded."
    : isEditing && edited?._tag !== "Fits"
    ? "Approve is unavailable until the arguments are valid."
    : ""
  const yes = (answer: Answer) => () => {
    if (isOff) return say(why)
    void send(answer)
  }
  const scope = isWide || targets.length === 0 ? { scope: "tool" as const } : { scope: "resources" as const }
  const params = isEditing && edited?._tag === "Fits" ? { params: edited.value as ApprovalRequest["args"] } : {}
  const mayRemember = remember !== "call" && !isEditing
  return html`
    <section class="answer" aria-labelledby="answer-title">
      <h3 id="answer-title">Decision</h3>
      ${problem === undefined ? null : html`<${Failure} problem=${problem} />`}
      ${
    isRunning
      ? html`<p class="muted">The call is already running, so its arguments cannot be edited.</p>`
      : html`<p class="row"><button class="btn" type="button" data-key="edit" aria-expanded=${isEditing} onClick=${() => {
        setIsEditing(!isEditing)
        setEdited(undefined)
      }}>${isEditing ? "Cancel editing" : "Edit arguments"}</button></p>`
  }
      ${
    isEditing
      ? html`<p class="muted">The edited call passes all checks again. The approval holds for this call only.</p>
        ${
        form === undefined
          ? html`<p>Loading …</p>`
          : form === "failed"
          ? html`<p class="note wait problem">The form could not be loaded. Reload the page to try again.</p>`
          : html`<${form.module.ArgsForm} schema=${approval.parameters} value=${approval.args} onChange=${setEdited} />`
      }`
      : null
  }
      <p id="yes-off" class="muted" role="status">${why}</p>
      <p class="row">
        <button type="button" class="btn primary" data-key="yes" aria-disabled=${isOff} aria-describedby="yes-off"
          onClick=${yes({ _tag: "ApproveOnce", ...params })}>${
    isEditing ? "Approve edited call" : "Approve once"
  }</button>
      </p>
      ${
    mayRemember
      ? html`
        <fieldset>
          <legend>Approve similar calls ${
        targets.length > 0 ? "" : html`(all calls of <${SafeText} text=${tool} />)`
      }</legend>
          ${
        targets.length > 0 && remember === "tool"
          ? html`<p class="row">
            <label><input type="radio" name="scope" checked=${!isWide} onChange=${() => setIsWide(false)} /> ${
            targets.length === 1 ? "This target only" : "These targets only"
          }</label>
            <label><input type="radio" name="scope" checked=${isWide} onChange=${() =>
            setIsWide(true)} /> all calls of <${SafeText} text=${tool} /></label>
          </p>`
          : targets.length > 0
          ? html`<p>Only for ${targets.length === 1 ? "this target" : "these targets"}.</p>`
          : null
      }
          <p class="row">
            <label for="duration">Duration</label>
            <select id="duration" data-key="while" value=${duration} onChange=${(event: Event) =>
        setDuration((event.currentTarget as HTMLSelectElement).value)}>
              ${durations.map((it) => html`<option value=${it}>${it}</option>`)}
            </select>
            <button class="btn" type="button" aria-disabled=${isOff} aria-describedby="yes-off"
              onClick=${yes({ _tag: "ApproveForDuration", duration, ...scope })}>Approve for ${duration}</button>
            <button class="btn" type="button" aria-disabled=${isOff} aria-describedby="yes-off"
              onClick=${yes({ _tag: "ApproveForScope", ...scope })}>Approve until revoked</button>
          </p>
        </fieldset>`
      : null
  }
      <${DenyForm} label="Deny" send=${(answer: Answer) => void send(answer)} />
    </section>`
}
