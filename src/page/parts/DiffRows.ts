/**
 * The rows of one page of a diff, as a table. Signs and elements mark added and removed text, not color alone, and
 * invisible characters are spelled out.
 */
import type { ComponentChildren, VNode } from "preact"
import { html } from "../html.ts"
import type { Segment } from "./marks.ts"
import { endName, hintOf, type Row } from "./rows.ts"
import { showPieces } from "./SafeText.ts"
import type { Shown } from "./shown.ts"

/** Two columns side by side, or one column for both. */
export type Columns = "both" | "one"

/** Shows the rows of a diff from `from` up to `to`, exclusive. */
export const DiffRows = ({ columns, from, onOpen, shown, to }: {
  readonly shown: ReadonlyArray<Shown>
  readonly from: number
  readonly to: number
  readonly columns: Columns
  readonly onOpen: (key: string, row: number) => void
}): VNode => {
  const rows: Array<VNode> = []
  // in one column, lines that changed together are grouped: first the removed lines, then the added ones
  let later: Array<VNode> = []
  for (let at = from; at < to; at++) {
    const it = shown[at]!
    if (it.kind === "fold") {
      rows.push(...later, fold(it, at, columns, () => onOpen(it.key, at)))
      later = []
    } else if (columns === "both") rows.push(...bothSides(it, at))
    else if (it.isChanged && it.row.before !== undefined && it.row.after !== undefined) {
      rows.push(oneSide(it, at, "before"))
      later.push(oneSide(it, at, "after"), ...hint(it, at, columns))
    } else {
      if (it.row.kind !== "removed") {
        rows.push(...later)
        later = []
      }
      rows.push(oneSide(it, at, it.row.kind === "removed" ? "before" : "after"))
    }
  }
  return html`<div class="diff-scroll" tabindex="0" role="region" aria-label="Lines">
    <table class=${`diff-table diff-${columns}`}>
      <colgroup>${
    columns === "both"
      ? html`<col class="diff-numbers" /><col /><col class="diff-numbers" /><col />`
      : html`<col class="diff-numbers diff-old" /><col class="diff-numbers" /><col />`
  }</colgroup>
      <thead class="unseen"><tr>${
    columns === "both"
      ? html`<th>Line before</th><th>Before</th><th>Line after</th><th>After</th>`
      : html`<th>Line before</th><th>Line after</th><th>Text</th>`
  }</tr></thead>
      <tbody>${rows}${later}</tbody>
    </table>
  </div>`
}

type LineShown = Extract<Shown, { readonly kind: "line" }>
type Side = "before" | "after"

/** A cell over the whole width. On a phone, one column hides the old numbers. */
const across = (columns: Columns, content: ComponentChildren): ComponentChildren =>
  columns === "both"
    ? html`<td colspan="4" dir="ltr">${content}</td>`
    : html`<td class="diff-old"></td><td colspan="2" dir="ltr">${content}</td>`

const fold = (it: Extract<Shown, { readonly kind: "fold" }>, at: number, columns: Columns, open: () => void): VNode =>
  html`<tr key=${it.key} class="diff-fold" data-row=${at} tabindex="-1">${
    across(
      columns,
      html`<button type="button" onClick=${open}>${`Show ${
        it.count.toLocaleString("en")
      } unchanged ${it.what}`}</button>`
    )
  }</tr>`

const hint = (it: LineShown, at: number, columns: Columns): ReadonlyArray<VNode> => {
  const said = it.part === 0 ? hintOf(it.row) : undefined
  return said === undefined
    ? []
    : [html`<tr key=${`hint ${at}`} class="diff-hint">${across(columns, said)}</tr>`]
}

const bothSides = (it: LineShown, at: number): ReadonlyArray<VNode> => {
  const { row } = it
  if (row.kind === "note") return [note(it, at, "both")]
  return [
    html`<tr key=${at} data-row=${at} tabindex="-1">
      ${number(it, "before")}${cell(it, "before")}${number(it, "after")}${cell(it, "after")}
    </tr>`,
    ...hint(it, at, "both")
  ]
}

const oneSide = (it: LineShown, at: number, side: Side): VNode => {
  if (it.row.kind === "note") return note(it, at, "one")
  const isBoth = it.row.kind === "same"
  return html`<tr key=${`${at} ${side}`} data-row=${
    side === "before" || it.row.before === undefined || isBoth ? at : undefined
  } tabindex="-1">
    <td class="diff-number diff-old">${isBoth || side === "before" ? numberOf(it, "before") : ""}</td>
    <td class="diff-number">${isBoth || side === "after" ? numberOf(it, "after") : ""}</td>
    ${cell(it, side)}
  </tr>`
}

const note = (it: LineShown, at: number, columns: Columns): VNode =>
  html`<tr key=${at} class="diff-note" data-row=${at} tabindex="-1">${
    across(columns, it.marks().segments.map(({ text }) => showPieces(text, true)))
  }</tr>`

const number = (it: LineShown, side: Side): VNode => html`<td class="diff-number">${numberOf(it, side)}</td>`

const numberOf = ({ part, row }: LineShown, side: Side): string => {
  const line = row[side]
  return line === undefined ? "" : part > 0 ? "…" : String(line.number)
}

const cell = (it: LineShown, side: Side): VNode => {
  const { isChanged, isLast, row } = it
  const line = row[side]
  if (line === undefined) return html`<td class="diff-none"></td>`
  const own = it.marks().segments.filter(({ kind }) => kind === "same" || (kind === "removed") === (side === "before"))
  const kind = !isChanged ? "same" : side === "before" ? "removed" : "added"
  const isWhole = row.kind !== "changed"
  const texts = own.map((segment, index) =>
    showSegment(segment, line.text, isChanged, isWhole, isLast && index === own.length - 1)
  )
  return html`<td class=${`diff-line diff-line-${kind}`} dir="ltr">
    ${sign(kind)}<span class="diff-text">${texts}</span>${isLast && endOf(row, side)}
  </td>`
}

const sign = (kind: "same" | "removed" | "added"): VNode =>
  kind === "same"
    ? html`<span class="diff-sign"> </span>`
    : html`<span class="diff-sign"><span aria-hidden="true">${
      kind === "removed" ? "−" : "+"
    }</span><span class="unseen">${kind}: </span></span>`

const showSegment = (
  { kind, text }: Segment,
  line: string,
  isChanged: boolean,
  isWhole: boolean,
  isEnd: boolean
): ComponentChildren => {
  const isMarked = kind !== "same" && !isWhole
  const shown = spaced(text, line, isMarked, isChanged && isEnd || isMarked)
  return !isMarked ? shown : kind === "removed" ? html`<del>${shown}</del>` : html`<ins>${shown}</ins>`
}

/** Marks leading and trailing spaces, which are easy to miss. */
const spaced = (text: string, line: string, atStart: boolean, atEnd: boolean): ComponentChildren => {
  let from = 0
  let to = text.length
  if (atStart) { while (from < to && text[from] === " ") from++ }
  if (atEnd) { while (to > from && text[to - 1] === " ") to-- }
  return [
    from > 0 && html`<span class="safe-space">${text.slice(0, from)}</span>`,
    showPieces(text.slice(from, to), true, line.length > 4_000 ? text : line),
    to < text.length && html`<span class="safe-space">${text.slice(to)}</span>`
  ]
}

/** Names the end of a line if it is unusual or differs from the other side. */
const endOf = (row: Row, side: Side): VNode | false => {
  const line = row[side]
  if (line === undefined || row.kind === "same") return false
  const other = row[side === "before" ? "after" : "before"]
  if (line.end === "\n" && (other === undefined || other.end === "\n")) return false
  return html`<mark class="safe-hidden" title="line ending">⟨${
    line.end === "" ? "no line ending" : endName(line.end)
  }⟩</mark>`
}
