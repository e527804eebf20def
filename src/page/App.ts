/** The frame of the page: user, navigation, connection state, and announcements for screen readers. */
import { useComputed } from "@preact/signals"
import type { VNode } from "preact"
import { useEffect, useRef } from "preact/hooks"
import type { Me } from "../server/api/ApiModels.ts"
import { get, post } from "./api.ts"
import { Approvals } from "./Approvals.ts"
import { isNotified, lookAtDevice, notifyHere, stopHere } from "./devices.ts"
import { html } from "./html.ts"
import { isHelpOpen, Keys } from "./Keys.ts"
import { nothing } from "./known.ts"
import { later } from "./later.ts"
import { follow } from "./live.ts"
import { Login } from "./Login.ts"
import { SafeText } from "./parts/SafeText.ts"
import { icon } from "./pieces.ts"
import { route, to } from "./routes.ts"
import { announced, connection, known, me, say } from "./state.ts"
import { count } from "./words.ts"

/** The page for the logged-in user, or the login form. */
export const App = (): VNode => {
  useEffect(() => {
    void get<Me>("api/me").then((reply) => {
      me.value = reply.ok ? reply.value : undefined
    })
  }, [])
  if (me.value === "unknown") return html`<main><h1>tool-executor</h1><p>Loading …</p></main>`
  return html`
    ${me.value === undefined ? html`<${Login} />` : html`<${Frame} me=${me.value} />`}
    <p class="unseen" role="status" aria-live="polite">${announced.value}</p>`
}

const views = [
  { name: "approvals", title: "Approvals", icon: "inbox", of: Approvals },
  {
    name: "conversations",
    title: "Conversations",
    icon: "chat",
    of: later(() => import("./Conversations.ts").then((it) => it.Conversations))
  },
  { name: "runs", title: "Runs", icon: "runs", of: later(() => import("./Runs.ts").then((it) => it.Runs)) },
  {
    name: "journal",
    title: "Journal",
    icon: "journal",
    of: later(() => import("./Journal.ts").then((it) => it.Journal))
  },
  { name: "grants", title: "Grants", icon: "key", of: later(() => import("./Grants.ts").then((it) => it.Grants)) },
  { name: "rules", title: "Rules", icon: "rules", of: later(() => import("./Rules.ts").then((it) => it.Rules)) },
  { name: "health", title: "Health", icon: "pulse", of: later(() => import("./Health.ts").then((it) => it.Health)) }
] as const

/** Undo has no place in the menu: a call leads to it. */
const undo = { name: "undo", title: "Undo", of: later(() => import("./Undo.ts").then((it) => it.Undo)) }

/** A phone shows these views as tabs, and the others under "More". */
const tabs = 4

const Frame = ({ me: user }: { readonly me: Me }): VNode => {
  useEffect(follow, [])
  useTellOfNew()
  useEffect(() => void lookAtDevice(), [user.name])
  const open = useComputed(() => known.value.open.length)
  const { parts, view } = route.value
  const shown = [...views, undo].find((it) => it.name === view) ?? views[0]
  const place = useRef<HTMLElement>(null)
  const isFirst = useRef(true)
  const address = [view, ...parts].join("/")
  useEffect(() => {
    document.title = `${open.value > 0 ? `(${open.value}) ` : ""}${shown.title} – tool-executor`
  }, [open.value, shown])
  useEffect(() => {
    // after navigation the heading of the new view gets the focus
    if (!isFirst.current) place.current?.querySelector<HTMLElement>("[data-heading]")?.focus()
    isFirst.current = false
  }, [address])
  const link = ({ icon: of, name, title }: typeof views[number]) =>
    html`<a href=${to(name)} title=${title} aria-current=${shown.name === name ? "page" : undefined}>${
      icon(of)
    }<span>${title}</span>${
      name === "approvals" && open.value > 0
        ? html`<span class="badge">${open.value}<span class="unseen"> pending</span></span>`
        : null
    }</a>`
  const isDeep = parts.length > 0 && (view === "approvals" || view === "conversations")
  return html`
    <button class="skip" type="button" onClick=${() => place.current?.focus()}>Skip to content</button>
    <div class=${isDeep ? "app deep" : "app"}>
      <header class="side">
        <p class="brand"><span class="logo">${icon("check")}</span><span>tool-executor</span></p>
        <nav class="nav" aria-label="Views"><ul>
          ${
    views.map((it, at) => html`<li class=${at < tabs ? "" : at === tabs ? "wide gap" : "wide"}>${link(it)}</li>`)
  }
          <li class="more"><details class="pop" key=${address}>
            <summary>${icon("more")}<span>More</span></summary>
            <div class="menu">${
    views.slice(tabs).map(link)
  }<${Device} /><button class="btn quiet" type="button" onClick=${logOut}>
              Log out</button></div>
          </details></li>
        </ul></nav>
        <div class="foot">
          <${Device} />
          <span class=${connection.value === "lost" ? "live lost" : "live"}>${states[connection.value]}</span>
          <span class="row"><span class="cut grow"><${SafeText} text=${user.name} /></span>
            <button class="btn quiet slim" type="button" onClick=${() => {
    isHelpOpen.value = true
  }}>Keys</button>
            <button class="btn quiet slim" type="button" onClick=${logOut}>Log out</button></span>
        </div>
      </header>
      <main class="main" ref=${place} tabindex="-1" aria-label=${shown.title}>
        ${
    connection.value === "lost"
      ? html`<p class="banner">${icon("wait")}Connection lost. Reconnecting. No request is lost.</p>`
      : null
  }
        <${shown.of} />
      </main>
    </div>
    <${Keys} />`
}

/** Turns notifications of this device on and off. */
const Device = (): VNode | null =>
  isNotified.value === undefined
    ? null
    : html`<button class="btn quiet slim" type="button" data-device aria-pressed=${isNotified.value} onClick=${() =>
      void (isNotified.value ? stopHere() : notifyHere())}>${
      icon("mail")
    }<span class="cut">Notify me on this device</span>
      </button>`

const states = { connecting: "Connecting", live: "Live", lost: "Reconnecting" } as const

/** Says how many approval requests are new, all that came together in one sentence. */
const useTellOfNew = (): void => {
  const before = useRef<ReadonlySet<string> | undefined>(undefined)
  const { open } = known.value
  useEffect(() => {
    const fresh = before.current === undefined ? [] : open.filter((it) => !before.current!.has(it.id))
    if (fresh.length > 0) say(`${count(fresh.length, "new approval request")}. ${open.length} pending.`)
    if (connection.peek() !== "connecting") before.current = new Set(open.map((it) => it.id))
  }, [open])
}

const logOut = async (): Promise<void> => {
  // the next user of this device is not told of what this one may approve
  if (isNotified.value === true) await stopHere()
  const reply = await post("api/logout", {})
  if (!reply.ok) return say(reply.problem.title)
  known.value = nothing
  me.value = undefined
}
