/** Conversations: a list of those that have pending requests or runs, and of each what waits and what ran. */
import type { VNode } from "preact"
import type { ApprovalSummary } from "../server/ApiApprovals.ts"
import { html } from "./html.ts"
import type { Known, KnownWave } from "./known.ts"
import { Empty, Heading, ListBar, PaneBar, Split } from "./layout.ts"
import { SafeText } from "./parts/SafeText.ts"
import { StateMark } from "./pieces.ts"
import { route, to } from "./routes.ts"
import { known } from "./state.ts"
import { clock, count } from "./words.ts"

/** What is known of a session of a user. */
interface Conversation {
  readonly user: string
  readonly session: string
  readonly pending: ReadonlyArray<ApprovalSummary>
  /** Newest first. */
  readonly runs: ReadonlyArray<KnownWave>
  readonly at: number
}

/** The view. */
export const Conversations = (): VNode => {
  const [user, session] = route.value.parts
  const all = conversationsIn(known.value)
  const chosen = all.find((it) => it.user === user && it.session === session)
  return html`<${Split} isNarrow isOpen=${
    user !== undefined
  } label="Conversations" list=${html`<${ListBar} title="Conversations" isOpen=${user !== undefined} />
      <ul>${all.map((it) => html`<${Item} key=${addressOf(it)} of=${it} isChosen=${it === chosen} />`)}</ul>`}>${
    chosen !== undefined
      ? html`<${One} of=${chosen} />`
      : user === undefined
      ? html`<${Empty} of="chat" title=${all.length === 0 ? "No conversations yet." : "Choose a conversation."} />`
      : html`<${PaneBar} back=${back}><${Heading}>Conversation</${Heading}></${PaneBar}><${Empty} of="chat" title="Nothing is known of this conversation.">Its calls are in the <a href=${
        to("journal")
      }>journal</a>.</${Empty}>`
  }</${Split}>`
}

const back = { href: to("conversations"), name: "Conversations" }

const addressOf = ({ session, user }: Pick<Conversation, "user" | "session">): string =>
  to("conversations", user, session)

const conversationsIn = ({ open, waves }: Known): ReadonlyArray<Conversation> => {
  const keys = new Map([...open, ...waves.values()].map((it) => [addressOf(it), it]))
  return Array.from(keys.values(), ({ session, user }) => {
    const isOwn = (it: { readonly user: string; readonly session: string }) =>
      it.user === user && it.session === session
    const pending = open.filter(isOwn)
    const runs = Array.from(waves.values()).filter(isOwn).toSorted((a, b) => b.beganAt - a.beganAt)
    const at = Math.max(...pending.map((it) => it.requestedAt), ...runs.map((it) => it.beganAt))
    return { user, session, pending, runs, at }
  }).toSorted((a, b) => b.at - a.at)
}

const stateOf = ({ pending, runs }: Conversation) =>
  pending.length > 0
    ? "approval" as const
    : runs.some((it) => it.status === "running")
    ? "running" as const
    : "succeeded" as const

const Item = ({ isChosen, of }: { readonly of: Conversation; readonly isChosen: boolean }): VNode =>
  html`<li class="item"><${StateMark} of=${stateOf(of)} isBrief word=${of.runs.length > 0 ? undefined : "Idle"} />
    <div class="t"><a class="cut" href=${addressOf(of)} aria-current=${
    isChosen ? "true" : undefined
  }><${SafeText} text=${of.session} /></a>
      <span class="when">${clock(of.at)}</span></div>
    <p class="s cut"><${SafeText} text=${of.user} />${
    of.pending.length === 0 ? null : html`<span class="wait-t">· ${of.pending.length} pending</span>`
  }</p></li>`

const One = ({ of }: { readonly of: Conversation }): VNode =>
  html`<${PaneBar} back=${back}><${Heading} class="cut grow"><${SafeText} text=${of.session} /></${Heading}></${PaneBar}>
    <div class="scroll"><div class="body">
      ${of.pending.length === 0 ? null : html`<h2>Pending requests</h2>`}
      <ul class="lines">${
    of.pending.map((it) =>
      html`<li key=${it.id}><${StateMark} of="approval" isBrief /><a class="grow" href=${
        to("approvals", it.id)
      }><${SafeText} text=${[it.tool, ...it.targets.map(({ text }) => text)].join(" ").slice(0, 200)} /></a></li>`
    )
  }</ul>
      ${of.runs.length === 0 ? null : html`<h2>Runs</h2>`}
      <ul class="lines">${
    of.runs.map((it) =>
      html`<li key=${it.wave}><${StateMark} of=${
        it.status === "running" ? "running" : it.status === "suspended" ? "suspended" : "succeeded"
      } word="" isBrief /><a class="grow" href=${to("runs", it.user, it.session, it.wave)}>${
        count(it.calls, "call")
      }</a><span class="muted small">${clock(it.beganAt)}</span></li>`
    )
  }</ul>
    </div></div>`
