/** Conversations: a list of them, and next to it one of them or the form that starts one. */
import type { VNode } from "preact"
import type { Conversation } from "../server/api/ApiOperations.ts"
import { ConversationView } from "./ConversationView.ts"
import { html } from "./html.ts"
import type { Known } from "./known.ts"
import { Empty, ListBar, Split } from "./layout.ts"
import { NewConversation } from "./NewConversation.ts"
import { SafeText } from "./parts/SafeText.ts"
import { icon, StateMark } from "./pieces.ts"
import { route, to } from "./routes.ts"
import { known, me, now } from "./state.ts"
import { ofOperation, type State } from "./states.ts"
import { ago } from "./words.ts"

/** The view. */
export const Conversations = (): VNode => {
  const [user, session] = route.value.parts
  const all = listedIn(known.value)
  const mayStart = typeof me.value === "object" && me.value.run
  return html`<${Split} isNarrow isOpen=${
    user !== undefined
  } label="Conversations" list=${html`<${ListBar} title="Conversations" isOpen=${
    user !== undefined
  }><span class="grow"></span>${
    mayStart ? html`<a class="btn slim" href=${to("conversations", "new")}>${icon("plus")}New</a>` : null
  }</${ListBar}>
      <ul>${
    all.map((it) =>
      html`<${Item} key=${addressOf(it)} of=${it} isChosen=${it.user === user && it.session === session} />`
    )
  }</ul>`}>${
    user === "new" && session === undefined
      ? html`<${NewConversation} />`
      : user !== undefined && session !== undefined
      ? html`<${ConversationView} key=${addressOf({ user, session })} user=${user} session=${session} />`
      : all.length === 0
      ? html`<${Empty} of="chat" title="No conversations yet.">Start one with New, or over the API.</${Empty}>`
      : html`<${Empty} of="chat" title="Choose a conversation." />`
  }</${Split}>`
}

/** A conversation in the list. Sessions whose calls come from elsewhere have no agent. */
interface Listed extends Pick<Conversation, "user" | "session" | "title" | "pending"> {
  readonly agent: string | undefined
  readonly state: State
  readonly at: number
}

const addressOf = ({ session, user }: Pick<Conversation, "user" | "session">): string =>
  to("conversations", user, session)

/** The agent did not do what it was asked to. */
const hasFailed = ({ ended = "Finished", state }: Conversation): boolean =>
  state === "ended" && ended !== "Finished" && ended !== "Exited" && ended !== "Cancelled"

const listedIn = ({ conversations, open, waves }: Known): ReadonlyArray<Listed> => {
  const listed = new Map<string, Listed>()
  for (const it of conversations) {
    const { agent, pending, session, state, title, updatedAt: at, user } = it
    listed.set(addressOf(it), {
      user,
      session,
      title: title || session,
      pending,
      agent,
      state: hasFailed(it) ? "failed" : ofOperation[state],
      at
    })
  }
  // sessions of waves and requests that belong to no conversation
  for (const { session, user } of [...open, ...waves.values()]) {
    const key = addressOf({ user, session })
    if (listed.has(key)) continue
    const isOwn = (it: { readonly user: string; readonly session: string }) =>
      it.user === user && it.session === session
    const pending = open.filter(isOwn)
    const runs = Array.from(waves.values()).filter(isOwn)
    listed.set(key, {
      user,
      session,
      title: session,
      pending: pending.length,
      agent: undefined,
      state: pending.length > 0 ? "approval" : runs.some((it) => it.status === "running") ? "running" : "succeeded",
      at: Math.max(...pending.map((it) => it.requestedAt), ...runs.map((it) => it.beganAt))
    })
  }
  return Array.from(listed.values()).toSorted((a, b) => b.at - a.at)
}

const Item = ({ isChosen, of }: { readonly of: Listed; readonly isChosen: boolean }): VNode =>
  html`<li class="item"><${StateMark} of=${of.state} isBrief word=${said[of.state]} />
    <div class="t"><a class="cut" href=${addressOf(of)} aria-current=${
    isChosen ? "true" : undefined
  }><${SafeText} text=${of.title} /></a>
      <${Ago} at=${of.at} /></div>
    <p class="s"><span class="cut"><${SafeText} text=${of.agent ?? of.user} /></span><span class=${
    of.pending > 0 ? "nowrap wait-t" : "nowrap"
  }>${
    of.pending > 0 ? `${of.pending} ${of.pending === 1 ? "needs" : "need"} approval` : said[of.state] ?? ""
  }</span></p></li>`

const said: Partial<Record<State, string>> = {
  queued: "Queued",
  approval: "Needs approval",
  running: "Running",
  suspended: "Suspended",
  succeeded: "Finished",
  failed: "Stopped"
}

/** Only this is redrawn every second. */
const Ago = ({ at }: { readonly at: number }): VNode => html`<span class="when">${ago(at, now.value)}</span>`
