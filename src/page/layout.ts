/** How views are laid out: one column, or a list and next to it what was chosen of it. Panes scroll, the window does not. */
import type { ComponentChildren, VNode } from "preact"
import { useEffect, useRef } from "preact/hooks"
import { html } from "./html.ts"
import { icon } from "./pieces.ts"

/** The heading of a view or of what is shown of it. It gets the focus after navigation, and if it replaces what had it. */
export const Heading = ({ children, class: of = "cut" }: {
  readonly class?: string
  readonly children?: ComponentChildren
}): VNode => {
  const place = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (document.activeElement === document.body) place.current?.focus()
  }, [])
  return html`<h1 class=${of} tabindex="-1" data-heading ref=${place}>${children}</h1>`
}

/** A view of one column. Its title gets the focus after navigation. */
export const Page = ({ actions, back, children, note, title }: {
  readonly title: ComponentChildren
  readonly note?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly back?: { readonly href: string; readonly name: string } | undefined
  readonly children?: ComponentChildren
}): VNode =>
  html`
    <div class="bar">
      ${back === undefined ? null : html`<a class="btn quiet" href=${back.href}>${icon("left")}${back.name}</a>`}
      <${Heading}>${title}</${Heading}>
      ${note === undefined ? null : html`<span class="muted small num nowrap">${note}</span>`}
      <span class="grow"></span>${actions}
    </div>
    <div class="scroll" tabindex="0"><div class="page">${children}</div></div>`

/** A list, and next to it a pane. On a phone the pane replaces the list once something is chosen. */
export const Split = ({ children, isNarrow = false, isOpen, label, list }: {
  readonly list: ComponentChildren
  /** What the list is of. */
  readonly label: string
  /** Something is chosen. */
  readonly isOpen: boolean
  readonly isNarrow?: boolean | undefined
  /** The content of the pane. */
  readonly children?: ComponentChildren
}): VNode =>
  html`<div class=${`split${isNarrow ? " narrow" : ""}${isOpen ? " open" : ""}`}>
    <section class="list" aria-label=${label}>${list}</section>
    <section class="pane" aria-label="Details">${children}</section>
  </div>`

/** The bar above a list. Its title is the heading of the view while nothing is chosen. */
export const ListBar = ({ children, isOpen, title }: {
  readonly title: string
  readonly isOpen: boolean
  readonly children?: ComponentChildren
}): VNode =>
  html`<div class="bar">${isOpen ? html`<h2>${title}</h2>` : html`<${Heading}>${title}</${Heading}>`}${children}</div>`

/** The bar above a pane; a phone shows `back` in it, which leads to the list. */
export const PaneBar = ({ back, children }: {
  readonly back: { readonly href: string; readonly name: string }
  readonly children?: ComponentChildren
}): VNode =>
  html`<div class="bar"><a class="btn quiet back" href=${back.href}>${icon("left")}${back.name}</a>${children}</div>`

/** What there is to read where nothing is listed or chosen. */
export const Empty = ({ children, of, title }: {
  readonly of: string
  readonly title: string
  readonly children?: ComponentChildren
}): VNode => html`<div class="empty">${icon(of)}<h2>${title}</h2><p>${children}</p></div>`

/** A notice: what happened, and what to do. */
export const Note = ({ as = "", children, of = "wait" }: {
  readonly as?: "" | "wait" | "bad" | "ok"
  readonly of?: string
  readonly children?: ComponentChildren
}): VNode => html`<p class=${`note ${as}`}>${icon(of)}<span>${children}</span></p>`
