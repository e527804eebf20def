/** Shows calls over time, one row per call, and the same as a table. It fits its width. */
import type { VNode } from "preact"
import { useMemo, useState } from "preact/hooks"
import { duration, type Lane, lanesOf, type Span, stateOf, timeOf } from "../../core/facts/Lanes.ts"
import { html } from "../html.ts"
import { StateMark } from "../pieces.ts"
import { markOf } from "../states.ts"
import { SafeText } from "./SafeText.ts"
import type { TimelineProps } from "./types.ts"

/** The calls of a wave, and of the sub-agents that work for them. */
export const Timeline = ({ addressOf, chosen, events, now }: TimelineProps): VNode => {
  const lanes = useMemo(() => nested(lanesOf(events)), [events])
  const targets = useMemo(() => targetsIn(events), [events])
  const [most, setMost] = useState(step)
  // what has no end has one where the last thing happened
  const end = now ?? events.reduce((last, { at }) => Math.max(last, at), 0)
  const from = lanes.reduce((first, it) => Math.min(first, it.from), end)
  const to = Math.max(from + 1, lanes.reduce((last, it) => Math.max(last, it.to ?? end), from))
  const isChosen = (it: Lane) => it.process === chosen?.process && it.callId === chosen.callId
  return html`
    <section class="lanes" aria-label="Timeline">
      <div class="axis" aria-hidden="true"><span>Call</span><div>${
    quarters.map((it) => html`<span key=${it}>${duration((to - from) * it)}</span>`)
  }</div><span>Ran</span></div>
      <ol>${
    lanes.slice(0, most).map((it) =>
      html`<li key=${it.key}>
        <a href=${addressOf(it)} aria-current=${isChosen(it) ? "true" : undefined}>${
        it.agentPath.slice(0, 4).map(() => html`<span class="indent"></span>`)
      }<${StateMark} of=${markOf(it)} word=${stateOf(it)} isBrief /><span class="cut"><span class="mono"><${SafeText}
          text=${it.tool} /></span> <span class="muted mono"><${SafeText} text=${
        targets.get(it.key) ?? ""
      } /></span></span></a>
        <${Bars} lane=${it} from=${from} to=${to} now=${end} />
        <span class="took">${ranFor(it, end)}</span>
      </li>`
    )
  }</ol>
    </section>
    ${
    lanes.length > most &&
    html`<p><button class="btn slim" type="button" onClick=${() => setMost(most + step)}>Show more (${
      lanes.length - most
    } further)</button></p>`
  }
    <ul class="legend">${
    legend.map(([name, words, thickness]) =>
      html`<li key=${name}><svg class="lane" viewBox="0 0 18 10" aria-hidden="true"><rect class=${name} width="18"
        y=${5 - thickness / 2} height=${thickness} /></svg>${words}</li>`
    )
  }</ul>
    <details class="fold small"><summary>Show as a table</summary>
      <div class="wide-table" tabindex="0" role="region" aria-label="Table of calls"><table class="grid">
        <thead><tr><th scope="col">Call</th><th scope="col">Agent</th><th scope="col">State</th><th scope="col">Waited</th>
          <th scope="col">For approval</th><th scope="col">Ran</th></tr></thead>
        <tbody>${
    lanes.slice(0, most).map((it) =>
      html`<tr key=${it.key}>
          <td class="full"><a href=${addressOf(it)}><${SafeText} text=${it.tool} /> <${SafeText} text=${
        targets.get(it.key) ?? ""
      } /></a></td>
          <td><${SafeText} text=${it.agentPath.join(" › ")} /></td>
          <td><${SafeText} text=${stateOf(it)} />${
        it.outcome === undefined && it.status !== undefined && html`: <${SafeText} text=${it.status} />`
      }</td>
          <td>${duration(timeOf(it, "waiting", end) + timeOf(it, "permits", end))}</td>
          <td>${duration(timeOf(it, "asking", end))}</td>
          <td>${ranFor(it, end)}</td>
        </tr>`
    )
  }</tbody>
      </table></div>
    </details>`
}

/** Calls of a sub-agent follow the call that it works for, if that call has the name of the sub-agent. */
const nested = (lanes: ReadonlyArray<Lane>): ReadonlyArray<Lane> => {
  const left = new Map<string, Array<Lane>>()
  for (const it of lanes) {
    const key = JSON.stringify(it.agentPath)
    left.set(key, [...left.get(key) ?? [], it])
  }
  const take = (path: ReadonlyArray<string>): ReadonlyArray<Lane> => {
    const key = JSON.stringify(path)
    const own = left.get(key) ?? []
    left.delete(key)
    return own.flatMap((it) => [it, ...take([...path, it.tool])])
  }
  const known = take([])
  return [...known, ...Array.from(left.values()).flat()]
}

/** How many calls are shown first, and added by each "Show more". */
const step = 100

const quarters = [0, 0.25, 0.5, 0.75, 1]

const legend = [
  ["q", "Queued", 2],
  ["w", "Waiting for a person", 6],
  ["r", "Running", 10],
  ["g", "Succeeded", 10],
  ["b", "Failed, denied or timed out", 10]
] as const

const Bars = ({ from, lane, now, to }: {
  readonly lane: Lane
  readonly from: number
  readonly to: number
  readonly now: number
}): VNode => {
  const x = (time: number) => (time - from) / (to - from) * 100
  return html`<svg class="lane" viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">
    ${quarters.slice(1, 4).map((it) => html`<rect class="grid-line" x=${it * 100} width="0.12" height="16" />`)}
    ${
    lane.spans.map((span, at) => {
      const thickness = span.kind === "running" ? 12 : span.kind === "asking" ? 6 : 2
      return html`<rect key=${at} class=${colorOf(span, lane)} x=${x(span.from)}
        width=${Math.max(0.4, x(span.to ?? now) - x(span.from))} y=${8 - thickness / 2} height=${thickness} />`
    })
  }
  </svg>`
}

const colorOf = ({ kind }: Span, { outcome }: Lane): string => {
  if (kind !== "running") return kind === "asking" ? "w" : "q"
  return outcome === undefined ? "r" : outcome._tag === "Succeeded" ? "g" : "b"
}

const ranFor = (lane: Lane, now: number): string =>
  lane.spans.some((it) => it.kind === "running") ? duration(timeOf(lane, "running", now)) : "–"

/** What calls are for, by the key of their lane: their first text argument. */
const targetsIn = (events: TimelineProps["events"]): ReadonlyMap<string, string> =>
  new Map(
    lanesOf(events.filter((it) => it._tag === "ToolCallQueued")).map((lane) => {
      const queued = events.find((it) =>
        it._tag === "ToolCallQueued" && it.process === lane.process && it.wave === lane.wave && it.index === lane.index
      )
      return [lane.key, queued?._tag === "ToolCallQueued" ? targetOf(queued.params) : ""]
    })
  )

/** The first text among arguments, shortened. */
export const targetOf = (params: unknown): string => {
  const [first = ""] = typeof params === "object" && params !== null
    ? Object.values(params).filter((it) => typeof it === "string")
    : []
  return first.length > 80 ? `${first.slice(0, 80)}…` : first
}
