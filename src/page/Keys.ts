/**
 * Keys for who answers much. None of them answers anything: they take one to where Enter or Space
 * does. They are off while somebody types, and can be switched off.
 *
 * Screen readers keep single letters to themselves while they read; where they hand them on,
 * the switch is what WCAG 2.1 asks for (2.1.4, character key shortcuts).
 *
 * @since 0.1.0
 */
import { signal } from "@preact/signals"
import type { VNode } from "preact"
import { useEffect, useLayoutEffect, useRef } from "preact/hooks"
import { html } from "./html.ts"
import { route, to } from "./routes.ts"
import { known, say, shownApproval, ticked } from "./state.ts"

/** The list of keys is shown. */
export const isHelpOpen = signal(false)

/** The dialog that lists the keys, and the keys. */
export const Keys = (): VNode => {
  const dialog = useRef<HTMLDialogElement>(null)
  // before anything can be seen: whoever is quick is not to press into nothing
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
      <p>None of these answers an approval request: they lead to where Enter or Space does.</p>
      <p><label><input type="checkbox" checked=${areOn.value} onChange=${(event: Event) => {
    areOn.value = (event.currentTarget as HTMLInputElement).checked
  }} /> Keys are on</label></p>
      <button type="button" onClick=${close}>Close</button>
    </dialog>`
}

// Utilities

const areOn = signal(true)

interface Key {
  readonly key: string
  readonly what: string
  readonly run: () => void
}

/** Goes to the approval request that many places away from the one that is shown. */
const goBy = (step: 1 | -1) => (): void => {
  const { open } = known.value
  if (open.length === 0) return say("No approval waits.")
  const at = open.findIndex((it) => it.id === shownId())
  const next = open[at === -1 ? 0 : Math.min(open.length - 1, Math.max(0, at + step))]
  if (next !== undefined) location.hash = to("approvals", next.id)
}

const shownId = (): string | undefined => route.value.view === "approvals" ? route.value.parts[0] : undefined

const focus = (name: string) => (): void => {
  const found = document.querySelector<HTMLElement>(`[data-key="${name}"]`)
  if (found === null) say("There is nothing to answer here.")
  else found.focus()
}

const tick = (): void => {
  const id = shownApproval.value
  if (id === undefined || !known.value.open.some((it) => it.id === id)) return say("No approval is shown.")
  const next = new Set(ticked.value)
  if (!next.delete(id)) next.add(id)
  ticked.value = next
  say(next.has(id) ? "Ticked." : "Not ticked any more.")
}

const views = ["approvals", "waves", "journal", "grants", "rules", "health"] as const

const keys: ReadonlyArray<Key> = [
  { key: "j", what: "the next approval", run: goBy(1) },
  { key: "k", what: "the approval before", run: goBy(-1) },
  { key: "y", what: "to “Yes, once”", run: focus("yes") },
  { key: "w", what: "to “Yes, and remember it”", run: focus("while") },
  { key: "n", what: "to the reason for a no", run: focus("no") },
  { key: "e", what: "to editing the arguments", run: focus("edit") },
  { key: "x", what: "tick the approval, or not", run: tick },
  ...views.map((name, at) => ({
    key: String(at + 1),
    what: `to ${name[0]!.toUpperCase()}${name.slice(1)}`,
    run: () => {
      location.hash = to(name)
    }
  })),
  {
    key: "?",
    what: "this list, and a switch that turns the keys off",
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
  // the list itself is where they are switched on again
  if (key === undefined || (!areOn.value && key.key !== "?")) return
  event.preventDefault()
  key.run()
}
