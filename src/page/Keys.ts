/**
 * Keyboard shortcuts. They only move the focus and never answer a request. They are off while a person types, and can
 * be switched off, as WCAG 2.1 requires for character keys (2.1.4).
 */
import { signal } from "@preact/signals"
import type { VNode } from "preact"
import { useEffect, useLayoutEffect, useRef } from "preact/hooks"
import { html } from "./html.ts"
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
      <h2 id="keys-title">Keyboard shortcuts</h2>
      <dl class="keys">
        ${keys.map(({ key, what }) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}
      </dl>
      <p>Shortcuts only move the focus. Press Enter or Space to answer.</p>
      <p><label><input type="checkbox" checked=${areOn.value} onChange=${(event: Event) => {
    areOn.value = (event.currentTarget as HTMLInputElement).checked
  }} /> Shortcuts are on</label></p>
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
  const { open } = known.value
  if (open.length === 0) return say("No pending requests.")
  const at = open.findIndex((it) => it.id === shownId())
  const next = open[at === -1 ? 0 : Math.min(open.length - 1, Math.max(0, at + step))]
  if (next !== undefined) location.hash = to("approvals", next.id)
}

const shownId = (): string | undefined => route.value.view === "approvals" ? route.value.parts[0] : undefined

const focus = (name: string) => (): void => {
  const found = document.querySelector<HTMLElement>(`[data-key="${name}"]`)
  if (found === null) say("There is nothing to approve here.")
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

const views = ["approvals", "conversations", "runs", "journal", "grants", "rules", "health"] as const

const keys: ReadonlyArray<Key> = [
  { key: "j", what: "next request", run: goBy(1) },
  { key: "k", what: "previous request", run: goBy(-1) },
  { key: "y", what: "go to “Approve once”", run: focus("yes") },
  { key: "w", what: "go to “Approve similar calls”", run: focus("while") },
  { key: "n", what: "go to the reason for denying", run: focus("no") },
  { key: "e", what: "go to “Edit arguments”", run: focus("edit") },
  { key: "x", what: "select or deselect the request", run: tick },
  ...views.map((name, at) => ({
    key: String(at + 1),
    what: `to ${name[0]!.toUpperCase()}${name.slice(1)}`,
    run: () => {
      location.hash = to(name)
    }
  })),
  {
    key: "?",
    what: "this list, with a switch for shortcuts",
    run: () => {
      isHelpOpen.value = true
    }
  }
]

const onKey = (event: KeyboardEvent): void => {
  const { target } = event
  const isTyping = target instanceof HTMLElement &&
    target.closest("input:not([type=checkbox]), textarea, select, dialog")
  if (isTyping || event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return
  const key = keys.find((it) => it.key === event.key)
  // the list must open even if shortcuts are off
  if (key === undefined || (!areOn.value && key.key !== "?")) return
  event.preventDefault()
  key.run()
}
