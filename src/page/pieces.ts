/** Small components shared by views. */
import type { VNode } from "preact"
import { type Problem, sentenceOf } from "./api.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { now } from "./state.ts"
import type { State } from "./states.ts"
import { expires, span } from "./words.ts"

/** An icon of the sprite in the document. */
export const icon = (name: string, turns = false): VNode =>
  html`<svg class=${turns ? "i spin" : "i"} aria-hidden="true"><use href=${`#i-${name}`} /></svg>`

/** The marks of states: each has its own shape, color and word. */
const states: { readonly [S in State]: readonly [color: string, shape: string, name: string] } = {
  queued: ["none", "queue", "Queued"],
  approval: ["wait", "hand", "Needs approval"],
  running: ["run", "run", "Running"],
  succeeded: ["ok", "ok", "Succeeded"],
  failed: ["bad", "bad", "Failed"],
  denied: ["bad", "shield", "Denied"],
  timedOut: ["bad", "clock", "Timed out"],
  cancelled: ["none", "x", "Cancelled"],
  suspended: ["none", "hand", "Suspended"],
  unknown: ["none", "unknown", "Unknown"]
}

/** A state as mark and word; with `isBrief` the word is for screen readers only. */
export const StateMark = (
  { isBrief = false, of, word }: {
    readonly of: State
    readonly isBrief?: boolean | undefined
    readonly word?: string | undefined
  }
): VNode => {
  const [color, shape, name] = states[of]
  return html`<span class=${`state ${color}`}>${icon(shape, shape === "run")}<span class=${isBrief ? "unseen" : ""}>${
    word ?? name
  }</span></span>`
}

/** How long an approval request has left. Only this is redrawn every second. */
export const Deadline = ({ expiresAt }: { readonly expiresAt: number | "unlimited" }): VNode =>
  html`<span class=${expiresAt !== "unlimited" && expiresAt - now.value < 300_000 ? "wait-t" : ""}>${
    expires(expiresAt, now.value)
  }</span>`

/** The same in its largest unit, for lists. */
export const Left = ({ expiresAt }: { readonly expiresAt: number | "unlimited" }): VNode => {
  if (expiresAt === "unlimited") return html`<span class="when">no limit</span>`
  const left = expiresAt - now.value
  return html`<span class=${left < 300_000 ? "when soon" : "when"}><span class="unseen">expires in </span>${
    left <= 0 ? "expired" : span(left).split(" ").slice(0, 2).join(" ")
  }</span>`
}

/** How many lines are added and removed. */
export const Lines = (
  { of: { added, removed } }: { readonly of: { readonly added: number; readonly removed: number } }
): VNode =>
  html`<span class="num nowrap">${added > 0 ? html`<span class="plus">+${added}</span>` : null}${
    added > 0 && removed > 0 ? " " : null
  }${removed > 0 ? html`<span class="minus">−${removed}</span>` : null}</span>`

/** Shows a problem and a button to try again. */
export const Failure = (
  { onAgain, problem }: { readonly problem: Problem; readonly onAgain?: (() => void) | undefined }
): VNode =>
  html`<p class="note wait problem" role="alert">${icon("wait")}<${SafeText} text=${sentenceOf(problem)} />${
    onAgain === undefined ? null : html`<button class="btn slim" type="button" onClick=${onAgain}>Try again</button>`
  }</p>`

/** The user, session and agent path of a request. Names are untrusted; separators are the page's. */
export const Who = (
  { of: { agentPath = [], session, user } }: {
    readonly of: { readonly user: string; readonly session: string; readonly agentPath?: ReadonlyArray<string> }
  }
): VNode =>
  html`<span>${
    [user, ...session === "" ? [] : [session], ...agentPath].map((name, at) =>
      html`${at === 0 ? "" : at === 1 && session !== "" ? "/" : " › "}<${SafeText} text=${name} />`
    )
  }</span>`
