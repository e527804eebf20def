/** The form that denies, with an optional reason for the model. */
import type { VNode } from "preact"
import { useState } from "preact/hooks"
import type { Answer } from "../core/gates/ApprovalRequest.ts"
import { html } from "./html.ts"

/** The form; `label` is the text of its button. */
export const DenyForm = (
  { label, send }: { readonly label: string; readonly send: (answer: Answer) => void }
): VNode => {
  const [reason, setReason] = useState("")
  return html`
    <form class="row no" onSubmit=${(event: Event) => {
    event.preventDefault()
    send({ _tag: "Deny", ...reason.trim() === "" ? {} : { reason: reason.trim() } })
  }}>
      <label for="reason">Reason for denying, sent to the model (optional)</label>
      <input id="reason" data-key="no" type="text" maxlength="1000" value=${reason} onInput=${(event: Event) =>
    setReason((event.currentTarget as HTMLInputElement).value)} />
      <button type="submit" class="btn deny">${label}</button>
    </form>`
}
