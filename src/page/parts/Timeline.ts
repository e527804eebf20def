/**
 * Shows calls over time, one lane per call: a picture that can be zoomed and moved with mouse and keys, and a table
 * with the same content. Only visible lanes are drawn.
 */
import type { VNode } from "preact"
import { useMemo, useRef, useState } from "preact/hooks"
import { duration, type Lane, lanesOf, type Span, stateOf, timeOf } from "../../core/facts/Lanes.ts"
import { escape } from "../../internal/escape.ts"
import { html } from "../html.ts"
import { SafeText } from "./SafeText.ts"
import type { TimelineProps } from "./types.ts"
import { fit, pan, ticksOf, type View, zoom } from "./view.ts"

/** The calls of a wave, and of the sub-agents that work for them. */
export const Timeline = ({ events, now, onOpen }: TimelineProps): VNode => {
  const lanes = useMemo(() => lanesOf(events), [events])
  // what has no end has one where the last thing happened
  const end = now ?? events.reduce((last, { at }) => Math.max(last, at), 0)
  const [zoomed, setView] = useState<View | undefined>(undefined)
  const view = zoomed ?? fit(lanes, end)
  const open = ({ callId, process }: Lane) => onOpen({ process, callId })
  return html`<section class="timeline" aria-label="Timeline of calls">
    <div class="timeline-tools" role="group" aria-label="Zoom">
      <button class="btn slim" type="button" onClick=${() =>
    setView(zoom(view, 0.5))} aria-label="Show less time">+</button>
      <button class="btn slim" type="button" onClick=${() =>
    setView(zoom(view, 2))} aria-label="Show more time">−</button>
      <button class="btn slim" type="button" onClick=${() =>
    setView(pan(view, -0.25))} aria-label="Show earlier times">←</button>
      <button class="btn slim" type="button" onClick=${() =>
    setView(pan(view, 0.25))} aria-label="Show later times">→</button>
      <button class="btn slim" type="button" onClick=${() => setView(undefined)}>Fit</button>
      <${Legend} />
    </div>
    <${Picture} lanes=${lanes} view=${view} now=${end} onView=${setView} onLane=${open} />
    <${Table} lanes=${lanes} now=${end} onLane=${open} />
  </section>`
}

const height = 22
const labels = 240
const width = 1_000
const axis = 20

/** So many lanes are drawn beyond those in sight. */
const margin = 10

/** So many are in sight without scrolling. */
const inSight = 24

const kinds: Readonly<Record<Span["kind"], string>> = {
  waiting: "waiting",
  asking: "waiting for approval",
  permits: "waiting for permits",
  running: "running"
}

const Legend = (): VNode =>
  html`<ul class="timeline-legend">${
    Object.entries(kinds).map(([kind, words]) =>
      html`<li key=${kind}><svg class=${`lane lane-${kind}`} width="14" height="12" aria-hidden="true"><rect x="1" y="1" width="12" height="10" /></svg> ${words}</li>`
    )
  }</ul>`

const Picture = ({ lanes, now, onLane, onView, view }: {
  readonly lanes: ReadonlyArray<Lane>
  readonly view: View
  readonly now: number
  readonly onView: (view: View | undefined) => void
  readonly onLane: (lane: Lane) => void
}): VNode => {
  // by its key: lanes that come move others on
  const [key, choose] = useState<string | undefined>(undefined)
  const [top, setTop] = useState(0)
  const box = useRef<HTMLDivElement>(null)
  const dragged = useRef<number | undefined>(undefined)
  const start = lanes.reduce((first, { from }) => Math.min(first, from), Infinity)
  const x = (time: number) => labels + (time - view.from) / (view.to - view.from) * width
  const first = Math.max(0, Math.floor(top / height) - margin)
  const last = Math.min(lanes.length, first + inSight + 2 * margin)
  const chosen = Math.max(0, lanes.findIndex((it) => it.key === key))
  const lane = lanes[chosen]
  const goTo = (index: number) => {
    const at = Math.max(0, Math.min(lanes.length - 1, index))
    choose(lanes[at]?.key)
    const scrolled = box.current
    if (scrolled === null) return
    const seen = scrolled.clientHeight - axis - height
    if (at * height < scrolled.scrollTop) scrolled.scrollTop = at * height
    else if (at * height > scrolled.scrollTop + seen) scrolled.scrollTop = at * height - seen
  }
  const keys: Readonly<Record<string, () => void>> = {
    "+": () => onView(zoom(view, 0.5)),
    "=": () => onView(zoom(view, 0.5)),
    "-": () => onView(zoom(view, 2)),
    "0": () => onView(undefined),
    ArrowLeft: () => onView(pan(view, -0.1)),
    ArrowRight: () => onView(pan(view, 0.1)),
    ArrowDown: () => goTo(chosen + 1),
    ArrowUp: () => goTo(chosen - 1),
    PageDown: () => goTo(chosen + 10),
    PageUp: () => goTo(chosen - 10),
    Home: () => goTo(0),
    End: () => goTo(lanes.length - 1),
    Enter: () => lane !== undefined && onLane(lane)
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return
    event.preventDefault()
    event.stopPropagation()
    keys[event.key]!()
  }
  const perPixel = () => (view.to - view.from) * (labels + width) / width / (box.current?.clientWidth ?? width)
  const onWheel = (event: WheelEvent) => {
    if (!event.ctrlKey) return
    event.preventDefault()
    const left = box.current?.getBoundingClientRect().left ?? 0
    const share = (event.clientX - left) / (box.current?.clientWidth ?? width) * (labels + width) - labels
    onView(zoom(view, event.deltaY > 0 ? 1.25 : 0.8, view.from + share / width * (view.to - view.from)))
  }
  const onMove = (event: PointerEvent) => {
    if (dragged.current === undefined || event.buttons === 0) return
    const by = (dragged.current - event.clientX) * perPixel() / (view.to - view.from)
    dragged.current = event.clientX
    if (by !== 0) onView(pan(view, by))
  }
  return html`<div class="timeline-box" ref=${box} tabindex="0" role="application"
    aria-label=${`Timeline of ${lanes.length} calls. Plus, minus and 0 zoom, left and right move, up and down select a call, Enter opens it. The table below lists the same calls.`}
    aria-describedby="timeline-chosen" onKeyDown=${onKey} onWheel=${onWheel} onPointerMove=${onMove}
    onPointerDown=${(event: PointerEvent) => {
    dragged.current = event.clientX
  }} onPointerUp=${() => {
    dragged.current = undefined
  }} onScroll=${() => setTop(box.current?.scrollTop ?? 0)}>
    <svg viewBox=${`0 0 ${labels + width} ${axis + lanes.length * height}`} aria-hidden="true"
      preserveAspectRatio="none" width="100%" height=${axis + lanes.length * height}>
      ${
    ticksOf(view, start, 8).map((time) =>
      html`<g key=${time} class="timeline-tick"><line x1=${x(time)} x2=${x(time)} y1="0" y2=${
        axis + lanes.length * height
      } />
        </g>`
    )
  }
      ${
    lanes.slice(first, last).map((it, at) =>
      html`<${LaneOf} key=${it.key} lane=${it} y=${axis + (first + at) * height} x=${x} now=${now}
        isChosen=${it === lane} onLane=${() => {
        choose(it.key)
        onLane(it)
      }} />`
    )
  }
    </svg>
    <div class="timeline-words" aria-hidden="true">
      ${
    ticksOf(view, start, 8).map((time) =>
      html`<span key=${time} class="timeline-time" style=${{ left: `${x(time) / (labels + width) * 100}%` }}>${
        duration(time - start)
      }</span>`
    )
  }
      ${
    lanes.slice(first, last).map((it, at) =>
      html`<span key=${it.key} class=${it === lane ? "timeline-label chosen" : "timeline-label"}
        style=${{
        top: `${axis + (first + at) * height}px`,
        paddingLeft: `${0.3 + Math.min(8, it.agentPath.length) * 0.8}rem`,
        width: `${labels / (labels + width) * 100}%`
      }}><${SafeText} text=${labelOf(it)} /></span>`
    )
  }
    </div>
    <p id="timeline-chosen" class="unseen" aria-live="polite">${lane === undefined ? "" : spoken(lane)}</p>
  </div>`
}

const LaneOf = ({ isChosen, lane, now, onLane, x, y }: {
  readonly lane: Lane
  readonly y: number
  readonly x: (time: number) => number
  readonly now: number
  readonly isChosen: boolean
  readonly onLane: () => void
}): VNode => {
  const left = (time: number) => Math.max(labels, Math.min(labels + width, x(time)))
  const isOut = (from: number, to: number) => x(to) < labels || x(from) > labels + width
  return html`<g class="lane" onDblClick=${onLane}>
    <rect class=${isChosen ? "lane-row chosen" : "lane-row"} x="0" y=${y} width=${labels + width} height=${height} />
    ${
    lane.spans.map((span, at) => {
      const to = span.to ?? now
      return !isOut(span.from, to) && html`<rect key=${at} class=${`lane-${span.kind}`} x=${left(span.from)}
        y=${y + (span.kind === "asking" ? 7 : 4)} width=${Math.max(2, left(to) - left(span.from))}
        height=${height - (span.kind === "asking" ? 14 : 8)} />`
    })
  }
    ${
    lane.outcome !== undefined && lane.to !== undefined && !isOut(lane.to, lane.to) &&
    html`<rect class=${`lane-end lane-${lane.outcome._tag.toLowerCase()}`} x=${left(lane.to)} y=${
      y + 2
    } width="4" height=${height - 4} />`
  }
  </g>`
}

const Table = ({ lanes, now, onLane }: {
  readonly lanes: ReadonlyArray<Lane>
  readonly now: number
  readonly onLane: (lane: Lane) => void
}): VNode => {
  const [most, setMost] = useState(100)
  return html`<details class="timeline-table" open><summary>${`Table of ${
    lanes.length === 1 ? "1 call" : `${lanes.length} calls`
  }`}</summary>
    <div class="timeline-scroll" tabindex="0" role="region" aria-label="Table of calls"><table>
      <thead><tr><th scope="col">Call</th><th scope="col">Tool</th><th scope="col">Agent</th><th scope="col">State</th><th scope="col">Waited</th>
        <th scope="col">Approval</th><th scope="col">Ran</th></tr></thead>
      <tbody>${
    lanes.slice(0, most).map((lane) =>
      html`<tr key=${lane.key}>
        <td><button class="btn slim" type="button" onClick=${() =>
        onLane(lane)}><${SafeText} text=${lane.callId} /></button></td>
        <td><${SafeText} text=${lane.tool} /></td>
        <td><${SafeText} text=${lane.agentPath.join(" / ")} /></td>
        <td><${SafeText} text=${stateOf(lane)} />${
        lane.outcome === undefined && lane.status !== undefined && html`: <${SafeText} text=${lane.status} />`
      }</td>
        <td>${duration(timeOf(lane, "waiting", now) + timeOf(lane, "permits", now))}</td>
        <td>${duration(timeOf(lane, "asking", now))}</td>
        <td>${duration(timeOf(lane, "running", now))}</td>
      </tr>`
    )
  }</tbody>
    </table></div>
    ${
    most < lanes.length && html`<button class="btn slim" type="button" onClick=${() =>
      setMost(most + 200)}>${`${lanes.length - most} more`}</button>`
  }
  </details>`
}

const labelOf = ({ agentPath, callId, tool }: Lane): string =>
  `${agentPath.length === 0 ? "" : `${agentPath.at(-1)}: `}${tool} ${callId}`

/** Leaves out running times, so that the announcement does not change every second. */
const spoken = (lane: Lane): string => {
  const times = lane.to === undefined
    ? ""
    : `; waited ${duration(timeOf(lane, "waiting", lane.to) + timeOf(lane, "permits", lane.to))}, asked ${
      duration(timeOf(lane, "asking", lane.to))
    }, ran ${duration(timeOf(lane, "running", lane.to))}`
  return `${escape(labelOf(lane))}: ${escape(stateOf(lane))}${times}`
}
