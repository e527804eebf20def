/** A call whole: what it was called with, what people said, each attempt, and what became of it. */
import type { ComponentChildren, VNode } from "preact"
import { useMemo } from "preact/hooks"
import { duration, lanesOf, stateOf, summary } from "../../core/facts/Lanes.ts"
import type { Wire } from "../../core/facts/ToolEvent.ts"
import { html } from "../html.ts"
import { Arguments } from "./Arguments.ts"
import { DiffText } from "./Diff.ts"
import { SafeText } from "./SafeText.ts"
import { targetOf } from "./Timeline.ts"
import type { CallViewProps } from "./types.ts"

export const CallView = ({ events, approvals }: CallViewProps): VNode => {
  const lanes = useMemo(() => lanesOf(events), [events])
  if (lanes.length === 0) return html`<p>This call is no longer stored.</p>`
  return html`<div class="calls">${
    lanes.map((lane) => {
      const own = events.filter((it): it is CallEvent =>
        "callId" in it && it.index === lane.index && it.wave === lane.wave && it.process === lane.process
      )
      return html`<${One} key=${lane.key} state=${stateOf(lane)} from=${lane.from} events=${
        inOrder(own)
      } approvals=${approvals} />`
    })
  }</div>`
}

type CallEvent = Extract<Wire, { readonly callId: string }>
type Outcome = Extract<Wire, { readonly _tag: "ToolCallComplete" }>["outcome"]

/** How many events are listed. */
const maxEvents = 200

const inOrder = (events: ReadonlyArray<CallEvent>): ReadonlyArray<CallEvent> =>
  [...new Map(events.map((event) => [event.sequence, event])).values()].sort((a, b) => a.sequence - b.sequence)

const One = ({ events, from, approvals, state }: Pick<CallViewProps, "approvals"> & {
  readonly events: ReadonlyArray<CallEvent>
  readonly from: number
  readonly state: string
}): VNode => {
  const first = events[0]!
  const queued = events.find((it) => it._tag === "ToolCallQueued")
  const complete = events.findLast((it) => it._tag === "ToolCallComplete")
  const shown = events.filter((it) => it._tag !== "ToolCallQueued" && it._tag !== "ToolCallComplete")
  return html`<article class="call-view">
    <h2 tabindex="-1" data-heading><span class="mono"><${SafeText} text=${first.tool} /></span> <span class="mono soft"><${SafeText}
      text=${targetOf(queued?.params)} /></span></h2>
    <dl class="why">
      ${fact("State", html`<${SafeText} text=${state} />`)}
      ${first.agentPath.length > 0 && fact("Agent", html`<${SafeText} text=${first.agentPath.join(" › ")} />`)}
      ${fact("Arrived", time(from))}
      ${complete !== undefined && times(complete.outcome, complete.at)}
      ${fact("Call id", html`<span class="mono"><${SafeText} text=${first.callId} /></span>`)}
    </dl>
    ${
    approvals.map((it) =>
      html`<p key=${it.id} class="note wait">Approval requested: <${SafeText} text=${it.why} /> <a href=${`#/approvals/${
        encodeURIComponent(it.id)
      }`}>Review request</a></p>`
    )
  }
    <h3>Arguments</h3>
    ${
    queued === undefined
      ? html`<p>The arguments are no longer stored.</p>`
      : html`<div class="block"><${Arguments} value=${queued.params} /></div>`
  }
    ${
    complete !== undefined &&
    html`<h3>Outcome</h3><${OutcomeOf} outcome=${complete.outcome} dropped=${complete.dropped} />`
  }
    <h3>What happened</h3>
    <ol class="steps">
      ${
    shown.slice(0, maxEvents).map((it) =>
      html`<li key=${it.sequence}><time class="muted num">${`+${duration(it.at - from)}`}</time><div>${
        said(it)
      }</div></li>`
    )
  }
      ${shown.length > maxEvents && html`<li>${`and ${shown.length - maxEvents} more`}</li>`}
      ${shown.length === 0 && html`<li>The call has not started.</li>`}
    </ol>
  </article>`
}

const fact = (name: string, value: ComponentChildren): VNode => html`<dt>${name}</dt><dd>${value}</dd>`

const time = (at: number): string => new Date(at).toLocaleString()

const times = (outcome: Outcome, at: number): ComponentChildren => [
  outcome.startedAt !== undefined &&
  fact("Started", `${time(outcome.startedAt)}, after ${duration(outcome.startedAt - outcome.queuedAt)}`),
  fact("Ended", time(at)),
  outcome.duration !== undefined && fact("Ran for", duration(outcome.duration)),
  fact("Attempts", String(outcome.attempt)),
  fact("Committed writes", String(outcome.commits)),
  "openCommits" in outcome && outcome.openCommits !== undefined &&
  fact("Writes still running", String(outcome.openCommits))
]

const answers: Readonly<Record<string, string>> = {
  ApproveOnce: "Approved once",
  ApproveForDuration: "Approved for a limited time",
  ApproveForScope: "Approved until revoked",
  Deny: "Denied"
}

const said = (event: CallEvent): ComponentChildren => {
  switch (event._tag) {
    case "ToolApprovalRequested":
      return html`Approval requested: <${SafeText} text=${event.why} />${
        event.diff !== undefined && html`<${DiffText} diff=${event.diff} />`
      }`
    case "ToolApprovalResolved":
      return html`Answer: <${SafeText} text=${
        Object.hasOwn(answers, event.answer) ? answers[event.answer]! : event.answer
      } />`
    case "ToolReviewed":
      return html`The reviewer said ${event.verdict}${
        event.decides ? "" : ", a person decides"
      }: <${SafeText} text=${event.reason} />`
    case "ToolShadowed":
      return html`Shadow policy <${SafeText} text=${event.policy} />: ${event.would}, not ${event.decided}`
    case "ToolCallStart":
      return `${event.attempt > 1 ? `Attempt ${event.attempt} started` : "Started"}${
        event.limitMillis === null ? "" : `, with a timeout of ${duration(event.limitMillis)}`
      }`
    case "ToolProgress":
      return html`Progress: ${event.progress ?? ""}${
        event.total === undefined || event.total === null ? "" : ` of ${event.total}`
      } ${event.message !== undefined && html`<${SafeText} text=${event.message} />`}`
    case "ToolStatus":
      return html`Status: <${SafeText} text=${event.status} />${
        event.message !== undefined && html`, <${SafeText} text=${event.message} />`
      }`
    case "ToolLog":
      return html`${event.level}: <${SafeText} text=${event.message} />${
        event.data !== undefined && html`<${Arguments} value=${event.data} />`
      }`
    case "ToolPartialResult":
      return html`Partial result: <${Arguments} value=${event.value} />`
    case "ToolOptions":
      return html`Options: <${Arguments} value=${event.options} />`
    case "ToolCustom":
      return html`<${SafeText} text=${event.type} />: <${Arguments} value=${event.data} />`
    default:
      return event._tag
  }
}

const OutcomeOf = ({ dropped, outcome }: { readonly outcome: Outcome; readonly dropped: number }): VNode =>
  html`<div class=${outcome._tag === "Succeeded" ? "out" : "out bad"}>
    <p><b><${SafeText} text=${summary(outcome)} /></b></p>
    ${outcome._tag === "Succeeded" && html`<${OutputOf} output=${outcome.output} />`}
    ${
    outcome._tag === "Failed" && (outcome.error === null
      ? html`<p>The cause is in the server's log.</p>`
      : html`<${Arguments} value=${outcome.error} />`)
  }
    ${outcome._tag === "Denied" && html`<${Arguments} value=${outcome.reason} />`}
    ${
    "grant" in outcome && outcome.grant !== undefined &&
    html`<p><b>Approved by a grant</b></p><${Arguments} value=${outcome.grant} />`
  }
    ${dropped > 0 && html`<p>${`${dropped} events of this call were not stored.`}</p>`}
  </div>`

type Output = Extract<Outcome, { readonly _tag: "Succeeded" }>["output"]

const OutputOf = ({ output }: { readonly output: Output }): VNode =>
  output._tag === "Artifact"
    ? html`<p>${`Stored as an artifact of ${
      output.ref.chars.toLocaleString("en")
    } characters. It begins with:`}</p><${SafeText} text=${output.preview} block />`
    : html`<${Arguments} value=${output.value} />`
