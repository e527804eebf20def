/**
 * Shows untrusted text so that every character is visible as what it is. Long texts fold and report hidden characters
 * in the folded part.
 */
import type { ComponentChildren, VNode } from "preact"
import { useState } from "preact/hooks"
import { html } from "../html.ts"
import { countMarked, cutBefore, type Piece, pieces } from "./pieces.ts"
import type { SafeTextProps } from "./types.ts"

/** Shows the pieces of a text. `around` is the text it was cut from. */
export const showPieces = (text: string, lines: boolean, around: string = text): ComponentChildren =>
  pieces(text, around).map((piece) => showPiece(piece, lines))

/** Shows untrusted text on one line, or on several lines as a `block`. */
export const SafeText = ({ block = false, text }: SafeTextProps): VNode => {
  const [chosen, open] = useState<number | undefined>(undefined)
  const pages = Math.ceil(text.length / page)
  const opened = chosen === undefined ? undefined : Math.min(chosen, pages - 1)
  const tag = block ? "div" : "span"
  const name = block ? "safe safe-lines" : "safe"
  if (text.length <= folded * 1.2) return html`<${tag} class=${name} dir="ltr">${showPieces(text, block)}</${tag}>`
  const from = cutBefore(text, (opened ?? 0) * page)
  const to = cutBefore(text, opened === undefined ? folded : from + page)
  return html`<${tag} class=${name} dir="ltr">
    ${showPieces(text.slice(from, to), block, text)}
    <span class="safe-fold" dir="ltr">${
    opened === undefined
      ? html`<span>${`… ${restOf(text, to)}`}</span>
        <button class="btn slim" type="button" onClick=${() => open(0)}>${
        pages === 1 ? "Show all" : "Show in pages"
      }</button>`
      : html`<span>${pages === 1 ? "" : `Characters ${shown(from + 1)} to ${shown(to)} of ${shown(text.length)}`}</span>
        ${
        pages > 1 &&
        html`<button class="btn slim" type="button" disabled=${opened === 0} onClick=${() =>
          open(opened - 1)}>Previous page</button>
        <button class="btn slim" type="button" disabled=${opened === pages - 1} onClick=${() =>
          open(opened + 1)}>Next page</button>`
      }
        <button class="btn slim" type="button" onClick=${() => open(undefined)}>Fold</button>`
  }</span>
  </${tag}>`
}

/** How many characters of a longer text are shown. */
const folded = 2_000

/** How many characters a page of an opened text has. */
const page = 20_000

/** How many characters are searched for hidden ones. */
const searched = 200_000

const shown = (count: number): string => count.toLocaleString("en")

const restOf = (text: string, from: number): string => {
  const marked = countMarked(text.slice(from, cutBefore(text, from + searched)))
  const more = `${shown(text.length - from)} more characters`
  if (marked === 0) return text.length - from > searched ? more : `${more}, all of them visible`
  return `${more}, ${text.length - from > searched ? "at least " : ""}${shown(marked)} of them hidden or look-alikes`
}

const showPiece = (piece: Piece, lines: boolean): ComponentChildren => {
  switch (piece.kind) {
    case "plain":
      return piece.text
    case "tab":
      return lines ?
        html`<span class="safe-tab">${piece.text}</span>` :
        [...piece.text].map(() => html`<mark class="safe-hidden" title="tab">⟨tab⟩</mark>`)
    case "newline":
      return lines
        ? piece.text
        : [...piece.text].map(() => html`<mark class="safe-hidden" title="line break">⟨↵⟩</mark>`)
    case "backwards":
      return html`<bdi dir="rtl">${piece.text}</bdi>`
    case "hidden":
      return html`<mark class="safe-hidden" title=${piece.name}>${piece.shown}</mark>`
    case "alike":
      return html`<mark class="safe-alike" title=${piece.name}>${piece.text}<small>${piece.shown}</small></mark>`
  }
}
