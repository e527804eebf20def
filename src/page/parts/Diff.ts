/**
 * Shows the difference between a file before and after, side by side or in one column. It is computed after the page
 * was drawn and shown in pages, so the page stays usable for files and lines of any length.
 */
import type { ComponentChildren, VNode } from "preact"
import { useEffect, useMemo, useRef, useState } from "preact/hooks"
import { html } from "../html.ts"
import { Lines } from "../pieces.ts"
import { type Columns, DiffRows } from "./DiffRows.ts"
import { hintsOf, type Row, type Rows, rowsOf } from "./rows.ts"
import { SafeText } from "./SafeText.ts"
import { changesIn, countsOf, keptMarks, pagesOf, type Shown, shownOf } from "./shown.ts"
import type { DiffProps, DiffTextProps } from "./types.ts"
import { rowsOfDiff } from "./unified.ts"

/** Shows the difference between two texts of a file. */
export const Diff = ({ actions, after, before, onShown, path }: DiffProps): VNode => {
  const rows = useLater(() => rowsOf(before, after), [before, after], onShown)
  const what = before === null ? "new file" : after === null ? "removed" : ""
  return rows === undefined
    ? html`<p class="diff-busy" aria-busy="true">Comparing…</p>`
    : html`<${DiffOf} rows=${rows} path=${path} what=${what} actions=${actions} />`
}

/** Shows a unified diff. */
export const DiffText = ({ actions, diff, onShown }: DiffTextProps): VNode => {
  const rows = useLater(() => ({ rows: rowsOfDiff(diff), isCoarse: false }), [diff], onShown)
  return rows === undefined
    ? html`<p class="diff-busy" aria-busy="true">Reading…</p>`
    : html`<${DiffOf} rows=${rows} path="" what="" actions=${actions} />`
}

/** Computes something once the browser has drawn the page. */
const useLater = (
  make: () => Rows,
  inputs: ReadonlyArray<unknown>,
  then: (() => void) | undefined
): Rows | undefined => {
  const [made, setMade] = useState<{ readonly of: ReadonlyArray<unknown>; readonly rows: Rows } | undefined>(undefined)
  const isOf = made !== undefined && inputs.every((input, at) => input === made.of[at])
  useEffect(() => {
    const timer = setTimeout(() => setMade({ of: inputs, rows: make() }))
    return () => clearTimeout(timer)
  }, inputs)
  useEffect(() => {
    if (isOf) then?.()
  }, [isOf])
  return isOf ? made.rows : undefined
}

/** The current position; `row` is the row that was jumped to, if any. */
interface Place {
  readonly page: number
  readonly row: number | undefined
}

const DiffOf = ({ actions, path, rows: { isCoarse, rows }, what }: {
  readonly rows: Rows
  readonly path: string
  readonly what: string
  readonly actions: ComponentChildren
}): VNode => {
  const [columns, setColumns] = useState<Columns>("one")
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())
  const [place, setPlace] = useState<Place>({ page: 0, row: undefined })
  const marks = useMemo(keptMarks, [rows])
  const shown = useMemo(() => shownOf(rows, opened, marks), [rows, opened, marks])
  const pages = useMemo(() => pagesOf(shown), [shown])
  const changes = useMemo(() => changesIn(shown), [shown])
  const box = useRef<HTMLElement>(null)
  useEffect(() => {
    if (place.row === undefined) return
    const row = box.current?.querySelector<HTMLElement>(`[data-row="${place.row}"]`)
    row?.focus({ preventScroll: true })
    row?.scrollIntoView({ block: "center" })
  }, [place, shown])
  const page = Math.min(place.page, pages.length - 1)
  const from = pages[page] ?? 0
  const to = pages[page + 1] ?? shown.length
  const goTo = (row: number | undefined) => {
    if (row !== undefined) setPlace({ page: pages.findLastIndex((start) => start <= row), row })
  }
  const here = place.row ?? from
  const open = (key: string, row: number) => {
    setOpened(new Set([...opened, key]))
    setPlace({ page, row })
  }
  const next = changes.find((it) => place.row === undefined ? it >= from : it > here)
  return html`<section class="block diff" ref=${box} aria-label=${
    path === "" ? "Changes" : `Changes in ${plain(path)}`
  }>
    <header>
      ${path !== "" && html`<strong class="mono"><${SafeText} text=${path} /></strong>`}
      ${what !== "" && html`<span class="muted">${what}</span>`}
      <${Counts} rows=${rows} none=${what === "" ? "No differences" : "no lines"} />
      <span class="grow"></span>
      ${
    changes.length > 1 &&
    html`<button class="btn quiet slim hide-s" type="button" disabled=${!changes.some((it) => it < here)}
          onClick=${() => goTo(changes.findLast((it) => it < here))}>Previous change</button>
        <button class="btn quiet slim hide-s" type="button" disabled=${next === undefined} onClick=${() =>
      goTo(next)}>Next change</button>`
  }
      <button class="btn quiet slim hide-s" type="button" aria-pressed=${columns === "both"}
        onClick=${() => setColumns(columns === "both" ? "one" : "both")}>Side by side</button>
      ${actions}
    </header>
    <${Hints} rows=${rows} isCoarse=${isCoarse || shown.slice(from, to).some(isCoarseRow)} />
    <${Pager} page=${page} pages=${pages} rows=${shown.length} onPage=${(it: number) =>
    setPlace({ page: it, row: undefined })} />
    <${DiffRows} shown=${shown} from=${from} to=${to} columns=${columns} onOpen=${open} />
    ${
    pages.length > 1 && html`<${Pager} page=${page} pages=${pages} rows=${shown.length}
      onPage=${(it: number) => setPlace({ page: it, row: pages[it] })} />`
  }
  </section>`
}

const Counts = ({ none, rows }: { readonly rows: ReadonlyArray<Row>; readonly none: string }): VNode => {
  const { added, removed } = useMemo(() => countsOf(rows), [rows])
  return added + removed === 0
    ? html`<span>${none}</span>`
    : html`<${Lines} of=${{ added, removed }} /><span class="unseen">lines</span>`
}

const Hints = ({ isCoarse, rows }: { readonly rows: ReadonlyArray<Row>; readonly isCoarse: boolean }): VNode | null => {
  const said = useMemo(() => hintsOf(rows), [rows])
  const hints = isCoarse
    ? [...said, "These texts differ so much that some unchanged parts may be marked as changed. Nothing is left out."]
    : said
  return hints.length === 0
    ? null
    : html`<ul class="diff-hints">${hints.map((hint) => html`<li key=${hint}>${hint}</li>`)}</ul>`
}

const Pager = ({ onPage, page, pages, rows }: {
  readonly page: number
  readonly pages: ReadonlyArray<number>
  readonly rows: number
  readonly onPage: (page: number) => void
}): VNode | null =>
  pages.length < 2 ? null : html`<nav class="diff-pages" aria-label="Pages of the diff">
    <button class="btn slim" type="button" disabled=${page === 0} onClick=${() =>
    onPage(page - 1)}>Previous page</button>
    <span>${`Rows ${pages[page]! + 1} to ${pages[page + 1] ?? rows} of ${rows}, page ${
    page + 1
  } of ${pages.length}`}</span>
    <button class="btn slim" type="button" disabled=${page === pages.length - 1} onClick=${() =>
    onPage(page + 1)}>Next page</button>
  </nav>`

const isCoarseRow = (it: Shown): boolean => it.kind === "line" && it.isChanged && it.marks().isCoarse

/** A label for screen readers; the full text is visible next to it. */
const plain = (path: string): string => path.slice(0, 200)
