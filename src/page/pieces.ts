/** Small components shared by views. */
import type { VNode } from "preact"
import { type Problem, sentenceOf } from "./api.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { now } from "./state.ts"
import { expires } from "./words.ts"

/** How long an approval request has left. Only this is redrawn every second. */
export const Deadline = ({ expiresAt }: { readonly expiresAt: number | "unlimited" }): VNode =>
  html`<span class=${expiresAt !== "unlimited" && expiresAt - now.value < 60_000 ? "urgent" : ""}>${
    expires(expiresAt, now.value)
  }</span>`

/** Shows a problem and a button to try again. */
export const Failure = (
  { onAgain, problem }: { readonly problem: Problem; readonly onAgain?: (() => void) | undefined }
): VNode =>
  html`<p class="problem" role="alert"><${SafeText} text=${sentenceOf(problem)} /> ${
    onAgain === undefined ? null : html`<button type="button" onClick=${onAgain}>Try again</button>`
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
