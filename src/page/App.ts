/** The frame of the page: user, navigation, connection state, and announcements for screen readers. */
import { useComputed } from "@preact/signals"
import type { VNode } from "preact"
import { useEffect, useRef } from "preact/hooks"
import type { Me } from "../server/ApiModels.ts"
import { get, post } from "./api.ts"
import { Approvals } from "./Approvals.ts"
import { Grants } from "./Grants.ts"
import { Health } from "./Health.ts"
import { html } from "./html.ts"
import { Journal } from "./Journal.ts"
import { isHelpOpen, Keys } from "./Keys.ts"
import { nothing } from "./known.ts"
import { follow } from "./live.ts"
import { Login } from "./Login.ts"
import { SafeText } from "./parts/SafeText.ts"
import { route, to } from "./routes.ts"
import { Rules } from "./Rules.ts"
import { announced, connection, known, me, say } from "./state.ts"
import { Waves } from "./Waves.ts"
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
  { name: "approvals", title: "Approvals", of: Approvals },
  { name: "waves", title: "Waves", of: Waves },
  { name: "journal", title: "Journal", of: Journal },
  { name: "grants", title: "Grants", of: Grants },
  { name: "rules", title: "Rules", of: Rules },
  { name: "health", title: "Health", of: Health }
] as const

const Frame = ({ me: user }: { readonly me: Me }): VNode => {
  useEffect(follow, [])
  useTellOfNew()
  const open = useComputed(() => known.value.open.length)
  const { parts, view } = route.value
  const shown = views.find((it) => it.name === view) ?? views[0]
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
  return html`
    <button class="skip" type="button" onClick=${() => place.current?.focus()}>Skip to content</button>
    <header>
      <p class="brand">tool-executor</p>
      <nav aria-label="Views">
        <ul>
          ${
    views.map(({ name, title }) =>
      html`<li><a href=${to(name)} aria-current=${shown.name === name ? "page" : undefined}>${title}${
        name === "approvals" && open.value > 0 ? html` <span class="badge">${open.value}</span>` : null
      }</a></li>`
    )
  }
        </ul>
      </nav>
      <p class="user"><${SafeText} text=${user.name} /></p>
      <button type="button" onClick=${() => {
    isHelpOpen.value = true
  }}>Shortcuts</button>
      <button type="button" onClick=${logOut}>Log out</button>
    </header>
    ${
    connection.value === "lost"
      ? html`<p class="lost">Connection lost. Reconnecting. No request is lost.</p>`
      : null
  }
    <main ref=${place} tabindex="-1" aria-label=${shown.title}><${shown.of} /></main>
    <${Keys} />`
}

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

const logOut = (): void =>
  void post("api/logout", {}).then((reply) => {
    if (!reply.ok) return say(reply.problem.title)
    known.value = nothing
    me.value = undefined
  })
