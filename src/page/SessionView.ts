/** A session whose calls come from elsewhere, not from an agent of the server: what waits and what ran in it. */
import type { VNode } from "preact"
import { html } from "./html.ts"
import { Empty, Heading, PaneBar } from "./layout.ts"
import { SafeText } from "./parts/SafeText.ts"
import { StateMark } from "./pieces.ts"
import { to } from "./routes.ts"
import { known } from "./state.ts"
import { clock, count } from "./words.ts"

const back = { href: to("conversations"), name: "Conversations" }

export const SessionView = ({ session, user }: { readonly user: string; readonly session: string }): VNode => {
  const isOwn = (it: { readonly user: string; readonly session: string }) => it.user === user && it.session === session
  const pending = known.value.open.filter(isOwn)
  const runs = Array.from(known.value.waves.values()).filter(isOwn).toSorted((a, b) => b.beganAt - a.beganAt)
  const isKnown = pending.length > 0 || runs.length > 0
  return html`<${PaneBar} back=${back}><${Heading} class="cut grow"><${SafeText} text=${session} /></${Heading}></${PaneBar}>
    ${
    isKnown
      ? null
      : html`<${Empty} of="chat" title="Nothing is known of this conversation.">Its calls are in the <a href=${
        to("journal", "of", user, session)
      }>journal</a>.</${Empty}>`
  }
    <div class="scroll" tabindex="0"><div class="body">
      ${pending.length === 0 ? null : html`<h2>Pending requests</h2>`}
      <ul class="lines">${
    pending.map((it) =>
      html`<li key=${it.id}><${StateMark} of="approval" isBrief /><a class="grow" href=${
        to("approvals", it.id)
      }><${SafeText} text=${[it.tool, ...it.targets.map(({ text }) => text)].join(" ").slice(0, 200)} /></a></li>`
    )
  }</ul>
      ${runs.length === 0 ? null : html`<h2>Runs</h2>`}
      <ul class="lines">${
    runs.map((it) =>
      html`<li key=${it.wave}><${StateMark} of=${
        it.status === "running" ? "running" : it.status === "suspended" ? "suspended" : "succeeded"
      } isBrief /><a class="grow" href=${to("runs", it.user, it.session, it.wave)}>${
        count(it.calls, "call")
      }</a><span class="muted small">${clock(it.beganAt)}</span></li>`
    )
  }</ul>
    </div></div>`
}
