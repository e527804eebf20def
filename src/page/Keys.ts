/**
 * Keyboard shortcuts. They only move the focus and never answer a request. They are off while a person types, and can
 * be switched off, as WCAG 2.1 requires for character keys (2.1.4).
 */
import { signal } from "@preact/signals"
import type { VNode } from "preact"
import { useEffect, useLayoutEffect, useRef } from "preact/hooks"
import { html } from "./html.ts"
import { inOrder } from "./request.ts"
import { route, to } from "./routes.ts"
import { known, say, shownApproval, ticked } from "./state.ts"

/** Whether the list of shortcuts is shown. */
export const isHelpOpen = signal(false)

/** The shortcuts and the dialog that lists them. */
export const Keys = (): VNode => {
  const dialog = useRef<HTMLDialogElement>(null)
  // before the first paint, so that an early key press counts
  useLayoutEffect(() => {
    addEventListener("keydown", onKey)
    return () => removeEventListener("keydown", onKey)
  }, [])
  useEffect(() => {
    if (isHelpOpen.value) dialog.current?.showModal()
    else dialog.current?.close()
  }, [isHelpOpen.value])
  const close = () => {
    isHelpOpen.value = false
  }
  return html`
    <dialog ref=${dialog} onClose=${close} aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">
        ${keys.map(({ key, what }) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}
      </dl>
      <p class="muted">Keys only move the focus. Press Enter or Space to answer.</p>
      <p><label class="row"><input type="checkbox" checked=${areOn.value} onChange=${(event: Event) => {
    areOn.value = (event.currentTarget as HTMLInputElement).checked
  }} /> Keys are on</label></p>
      <button class="btn" type="button" onClick=${close}>Close</button>
    </dialog>`
}

const areOn = signal(true)

interface Key {
  readonly key: string
  readonly what: string
  readonly run: () => void
}

/** Goes to the approval request that many places away from the one that is shown. */
const goBy = (step: 1 | -1) => (): void => {
  const open = inOrder(known.value.open)
  if (open.length === 0) return say("No pending requests.")
  const at = open.findIndex((it) => it.id === shownId())
  const next = open[at === -1 ? 0 : Math.min(open.length - 1, Math.max(0, at + step))]
  if (next !== undefined) location.hash = to("approvals", next.id)
}

/** The request that is shown; one that a wide screen opened automatically counts once the heading has the focus. */
const shownId = (): string | undefined => route.value.view === "approvals" ? route.value.parts[0] : undefined

const focus = (name: string) => (): void => {
  const found = document.querySelector<HTMLElement>(`[data-key="${name}"]`)
  if (found === null) say("There is nothing like this here.")
  else found.focus()
}

const tick = (): void => {
  const id = shownApproval.value
  if (id === undefined || !known.value.open.some((it) => it.id === id)) return say("No request is open.")
  const next = new Set(ticked.value)
  if (!next.delete(id)) next.add(id)
  ticked.value = next
  say(next.has(id) ? "Selected." : "Deselected.")
}

const goTo = (view: string) => (): void => {
  location.hash = to(view)
}

/** The conversation of the request that is shown. */
const goToConversation = (): void => {
  const found = known.value.open.find((it) => it.id === shownApproval.value)
  if (found === undefined) return say("No request is open.")
  location.hash = to("conversations", found.user, found.session)
}

const goBack = (): void => {
  const { parts, view } = route.value
  if (parts.length > 0) location.hash = to(view)
}

const keys: ReadonlyArray<Key> = [
  { key: "j", what: "next request", run: goBy(1) },
  { key: "k", what: "previous request", run: goBy(-1) },
  { key: "a", what: "to Approve once", run: focus("approve") },
  { key: "d", what: "to Reason; Enter denies", run: focus("deny") },
  { key: "m", what: "to more ways to approve", run: focus("more") },
  { key: "e", what: "to Edit arguments", run: focus("edit") },
  { key: "x", what: "select, deselect", run: tick },
  { key: "o", what: "open the conversation", run: goToConversation },
  { key: "/", what: "to search", run: focus("search") },
  { key: "g a", what: "to Approvals", run: goTo("approvals") },
  { key: "g c", what: "to Conversations", run: goTo("conversations") },
  { key: "g r", what: "to Runs", run: goTo("runs") },
  { key: "g j", what: "to Journal", run: goTo("journal") },
  { key: "Escape", what: "back to the list", run: goBack },
  {
    key: "?",
    what: "this list",
    run: () => {
      isHelpOpen.value = true
    }
  }
]

/** The key before, if it begins a pair. */
const begun = signal("")

const onKey = (event: KeyboardEvent): void => {
  const { target } = event
  const isTyping = target instanceof HTMLElement &&
    target.closest("input:not([type=checkbox], [type=radio]), textarea, select, dialog")
  if (isTyping || event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return
  const pair = `${begun.value}${event.key}`
  begun.value = event.key === "g" ? "g " : ""
  const key = keys.find((it) => it.key === pair)
  // the list must open even if shortcuts are off
  if (key === undefined || (!areOn.value && key.key !== "?")) return
  event.preventDefault()
  begun.value = ""
  key.run()
}
