/**
 * The bar that answers approval requests: always in view, deny next to approve. It ignores input for a moment after
 * what it is about has changed, so that people answer only what they have seen.
 */
import type { ComponentChildren, VNode } from "preact"
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import type { Answer } from "../core/gates/ApprovalRequest.ts"
import type { ApprovalSummary } from "../server/api/ApiApprovals.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { icon } from "./pieces.ts"
import { connection, say } from "./state.ts"

/** How long the bar ignores input, in milliseconds. */
const pause = 500

export const DecisionBar = (
  { consequence, isGrave, isSending, labels, late, remember, send, why }: {
    readonly consequence: string
    /** It cannot be undone: nothing suggests approving. */
    readonly isGrave: boolean
    readonly isSending: boolean
    readonly labels: { readonly deny: string; readonly approve: string }
    readonly late: ComponentChildren
    /** The request whose similar calls can be approved as well. */
    readonly remember?: Pick<ApprovalSummary, "remember" | "targets" | "tool" | "wider"> | undefined
    /** Sends an answer; the arguments of an approval are added to it. */
    readonly send: (answer: Answer) => void
    /** Why approving is unavailable; empty if it is not. */
    readonly why: string
  }
): VNode => {
  const [isSettled, setIsSettled] = useState(false)
  const [reason, setReason] = useState("")
  const [isReasoned, setIsReasoned] = useState(false)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const timer = setTimeout(() => setIsSettled(true), pause)
    return () => clearTimeout(timer)
  }, [])
  const isLost = connection.value === "lost"
  const off = isLost ? "You can answer when you are online again." : why
  const kind = isGrave ? "btn even" : "btn primary"
  const give = (answer: Answer) => {
    if (isSettled && !isSending && !isLost) send(answer)
  }
  const approve = (answer: Exclude<Answer, { readonly _tag: "Deny" }>) =>
    off === "" ? give({ ...answer, ...reason.trim() === "" ? {} : { note: reason.trim() } }) : say(off)
  const deny = (event: Event) => {
    event.preventDefault()
    if (isLost) return say(off)
    give({ _tag: "Deny", ...reason.trim() === "" ? {} : { reason: reason.trim() } })
  }
  return html`
    <form class=${isReasoned ? "decide reasoned" : "decide"} aria-label="Decision" data-settled=${
    isSettled && off === ""
  }
      onSubmit=${deny}>
      <p class="line"><span class=${isGrave ? "bad-t grow" : "grow"}>${consequence}</span>
        <span id="approve-off" role="status" class="muted">${isSending ? "Sending" : off}</span>
        <span class="late hide-s num nowrap">${late}</span>
        <button class="mini show-s" type="button" aria-expanded=${isReasoned} onClick=${() => {
    setIsReasoned(!isReasoned)
    requestAnimationFrame(() => field.current?.focus())
  }}>${isReasoned ? "No reason" : "Add a reason"}</button></p>
      <div class="acts">
        <label class="inset"><span class="small nowrap">Reason</span><input ref=${field} data-key="deny" type="text"
          maxlength="1000" autocomplete="off" placeholder="Optional. The model reads it." value=${reason}
          onInput=${(event: Event) => setReason((event.currentTarget as HTMLInputElement).value)} /></label>
        <button class="btn deny" type="submit" aria-disabled=${isLost || isSending}>${labels.deny} <kbd>D</kbd></button>
        <span class="duo">
          <button class=${kind} type="button" data-key="approve" aria-disabled=${off !== "" || isSending}
            aria-describedby="approve-off" onClick=${() => approve({ _tag: "ApproveOnce" })}>${labels.approve}
            <kbd>A</kbd></button>
          ${
    remember === undefined ? null : html`<${Similar} of=${remember} kind=${kind} off=${off} approve=${approve} />`
  }
        </span>
      </div>
    </form>`
}

/** How long similar calls are approved. */
const durations = ["15 minutes", "1 hour", "8 hours", "7 days"] as const

/** Which calls an approval covers. */
type Scope = "resources" | "tool" | { readonly pattern: string }

const isSame = (one: Scope, other: Scope): boolean =>
  typeof one === "object" && typeof other === "object" ? one.pattern === other.pattern : one === other

/** The menu that approves this call and similar ones: first which, then how long. */
const Similar = (
  { approve, kind, of: { remember, targets, tool, wider = [] }, off }: {
    readonly of: Pick<ApprovalSummary, "remember" | "targets" | "tool" | "wider">
    readonly kind: string
    readonly off: string
    readonly approve: (answer: Exclude<Answer, { readonly _tag: "Deny" }>) => void
  }
): VNode => {
  const [isOpen, setIsOpen] = useState(false)
  const [scope, setScope] = useState<Scope>(targets.length === 0 ? "tool" : "resources")
  const [duration, setDuration] = useState<string | undefined>("1 hour")
  const button = useRef<HTMLButtonElement>(null)
  const menu = useRef<HTMLDivElement>(null)
  // before the next key press
  useLayoutEffect(() => {
    if (isOpen) menu.current?.querySelector<HTMLElement>("input:checked")?.focus()
  }, [isOpen])
  const close = () => {
    setIsOpen(false)
    button.current?.focus()
  }
  const which = (it: Scope, words: ComponentChildren) =>
    html`<label class="small"><input type="radio" name="which" checked=${isSame(it, scope)} onChange=${() =>
      setScope(it)} /><span>${words}</span></label>`
  return html`<span class="pop" onKeyDown=${(event: KeyboardEvent) => {
    if (event.key !== "Escape" || !isOpen) return
    event.stopPropagation()
    close()
  }}>
    <button class=${kind} type="button" ref=${button} data-key="more" aria-label="More ways to approve"
      aria-expanded=${isOpen} onClick=${() => isOpen ? close() : setIsOpen(true)}>${icon("down")}</button>
    ${
    isOpen
      ? html`<div class="menu" ref=${menu} role="group" aria-labelledby="similar-title">
        <h2 id="similar-title">Approve this and similar calls</h2>
        <fieldset><legend>Which calls</legend>
          ${
        targets.length === 0 ? null : which(
          "resources",
          html`Calls for ${
            targets.slice(0, 3).map((it, at) =>
              html`${at > 0 ? ", " : ""}<span class="mono"><${SafeText} text=${it.text} /></span>`
            )
          }${targets.length > 3 ? ` and ${targets.length - 3} more` : ""}`
        )
      }
          ${
        wider.map((pattern) =>
          which({ pattern }, html`Calls that fit <span class="mono"><${SafeText} text=${pattern} /></span>`)
        )
      }
          ${
        remember === "tool" || targets.length === 0
          ? which("tool", html`Every call of <span class="mono"><${SafeText} text=${tool} /></span>`)
          : null
      }
        </fieldset>
        <fieldset><legend>For how long</legend><div class="chips">${
        [...durations, undefined].map((it) =>
          html`<label class="chip"><input type="radio" name="long" checked=${it === duration} onChange=${() =>
            setDuration(it)} /><span>${it ?? "Until revoked"}</span></label>`
        )
      }</div></fieldset>
        <p class="tiny muted">Covers this agent and its sub-agents. You can revoke it under Grants.</p>
        <button class="btn primary" type="button" aria-disabled=${off !== ""} onClick=${() =>
        approve(
          duration === undefined
            ? { _tag: "ApproveForScope", scope }
            : { _tag: "ApproveForDuration", duration, scope }
        )}>${duration === undefined ? "Approve until revoked" : `Approve for ${duration}`}</button>
        <button class="btn quiet" type="button" onClick=${close}>Cancel</button>
      </div>`
      : null
  }
  </span>`
}
