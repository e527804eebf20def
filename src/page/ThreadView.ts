/** The messages of a conversation, with the calls of each answer and the sub-agents that work for them. */
import type { ComponentChildren, VNode } from "preact"
import { useState } from "preact/hooks"
import { duration, timeOf } from "../core/facts/Lanes.ts"
import { requestOf } from "./evidence.ts"
import { html } from "./html.ts"
import { InlineApproval } from "./InlineApproval.ts"
import { Arguments } from "./parts/Arguments.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Left, StateMark } from "./pieces.ts"
import { targetOf } from "./request.ts"
import { known, now } from "./state.ts"
import {
  type Answer,
  type Call,
  callsOf,
  laneOf,
  type Part,
  stateOf,
  type Thread,
  tokensOf,
  waitingIn
} from "./thread.ts"
import { clock, count, ending, tokens } from "./words.ts"

/** Whose conversation it is, and what is known of its calls. */
export interface Scene {
  readonly user: string
  readonly session: string
  readonly agent: string
  readonly thread: Thread
}

/** Parts in their order. */
export const Parts = ({ of, scene }: { readonly of: ReadonlyArray<Part>; readonly scene: Scene }): VNode =>
  html`${of.map((it) => html`<${One} key=${`${it._tag} ${it.id}`} of=${it} scene=${scene} />`)}`

const One = ({ of, scene }: { readonly of: Part; readonly scene: Scene }): VNode => {
  switch (of._tag) {
    case "Said":
      return html`<article class="msg person"><${By} name=${scene.user} at=${of.at}>${
        of.isQueued ? html`<span class="tag">Queued until the next turn</span>` : null
      }</${By}><div class="says"><${Prose} text=${of.text} /></div></article>`
    case "Remark":
      return html`<p class="small muted"><${SafeText} text=${of.text} /></p>`
    case "Answer":
      return html`<article class="msg"><${By} name=${scene.agent} note=${of.model} at=${of.at} /><${AnswerBody} of=${of} scene=${scene} /></article>`
  }
}

const By = ({ at, children, name, note = "" }: {
  readonly name: string
  readonly note?: string
  readonly at: number | undefined
  readonly children?: ComponentChildren
}): VNode =>
  html`<p class="by"><b><${SafeText} text=${name} /></b>${
    note === "" ? null : html`<span><${SafeText} text=${note} /></span>`
  }${at === undefined ? null : html`<time>${clock(at)}</time>`}${children}</p>`

/** Text of a person or a model, in paragraphs as written. */
const Prose = ({ isStreaming = false, text }: { readonly text: string; readonly isStreaming?: boolean }): VNode =>
  html`<div class=${isStreaming ? "prose caret" : "prose"}><${SafeText} text=${text} block /></div>`

const AnswerBody = ({ of, scene }: { readonly of: Answer; readonly scene: Scene }): VNode => {
  const calls = of.calls.flatMap((key) => scene.thread.calls.get(key) ?? [])
  return html`
    ${
    of.thought === ""
      ? null
      : html`<details class="fold small"><summary>Thoughts</summary><${Prose} text=${of.thought} /></details>`
  }
    ${of.text === "" && !of.isStreaming ? null : html`<${Prose} text=${of.text} isStreaming=${of.isStreaming} />`}
    ${of.isCut ? html`<p class="small wait-t">The answer was cut off.</p>` : null}
    ${calls.length === 0 ? null : html`<${Wave} calls=${calls} scene=${scene} />`}`
}

/** The calls of one answer. */
const Wave = ({ calls, scene }: { readonly calls: ReadonlyArray<Call>; readonly scene: Scene }): VNode =>
  html`<section class="wave" aria-label=${count(calls.length, "call")}>
    ${calls.length < 2 ? null : html`<header>${count(calls.length, "call")}</header>`}
    ${calls.map((it) => html`<${CallRow} key=${it.key} call=${it} scene=${scene} />`)}
  </section>`

const CallRow = ({ call, scene }: { readonly call: Call; readonly scene: Scene }): VNode => {
  const [chosen, choose] = useState<boolean | undefined>(undefined)
  const state = stateOf(call)
  const request = requestOf(known.value.open, call, scene)
  const work = call.operation === undefined ? undefined : scene.thread.works.get(call.operation)
  const used = work === undefined ? 0 : tokensOf(scene.thread, work.id)
  const isWaitingBelow = work !== undefined && waitingIn(scene.thread, work.id).length > 0
  const isWaiting = state === "approval" || (request !== undefined && call.result === undefined)
  if (isWaiting && work === undefined) {
    return html`<div class="call wants" data-wants><div class="head"><${StateMark} of="approval" isBrief /><${Name} call=${call} /><span class="took">${
      request === undefined ? "" : html`<${Left} expiresAt=${request.expiresAt} />`
    }</span></div><div class="in">${
      request === undefined
        ? html`<p class="small soft">${overOf(call, scene)}</p>`
        : html`<${InlineApproval} key=${request.hash} of=${request} />`
    }</div></div>`
  }
  const isOpen = chosen ?? (isWaitingBelow || (work !== undefined && state === "running"))
  return html`<details class="call" open=${isOpen} onToggle=${(event: Event) => {
    const { open } = event.currentTarget as HTMLDetailsElement
    if (open !== isOpen) choose(open)
  }}>
    <summary><${StateMark} of=${isWaitingBelow ? "approval" : state} isBrief /><${Name} call=${call} isAgent=${
    work !== undefined
  } /><span class="took">${
    work === undefined ?
      html`<${Took} call=${call} />` :
      html`${count(work.turn, "turn")}${
        used === 0 ? null : html`<span class="hide-s"> · ${tokens(used)} tokens</span>`
      }`
  }</span></summary>
    ${isOpen ? html`<${CallBody} call=${call} scene=${scene} />` : null}
  </details>`
}

/** A request that is not pending here, as far as it is known. */
const overOf = ({ callId, tool }: Call, { session, user }: Scene): string => {
  const over = known.value.ended.find((it) =>
    it.callId === callId && it.tool === tool && it.user === user && it.session === session
  )
  return over === undefined
    ? "The call waits for an approver."
    : `${ending(over)}${over.by === undefined ? "" : ` by ${over.by}`}.`
}

const Name = ({ call, isAgent = false }: { readonly call: Call; readonly isAgent?: boolean }): VNode =>
  html`<span class="name"><span class="mono"><${SafeText} text=${call.tool} /></span>${
    isAgent
      ? html`<span class="tag">Sub-agent</span>`
      : html`<span class="mono cut"><${SafeText} text=${targetOf(call.params)} /></span>`
  }</span>`

/** How long a call ran. Only this is redrawn every second. */
const Took = ({ call }: { readonly call: Call }): VNode | null => {
  const lane = laneOf(call)
  if (lane === undefined) return null
  const isRunning = lane.spans.some(({ kind, to }) => kind === "running" && to === undefined)
  const millis = timeOf(lane, "running", isRunning ? now.value : lane.to ?? lane.from)
  return lane.spans.some(({ kind }) => kind === "running") ? html`<span>${duration(millis)}</span>` : null
}

const words = {
  denied: "Denied",
  timedOut: "Timed out",
  failed: "Failed",
  cancelled: "Cancelled"
} as const

/** What is inside a call: the work of its sub-agent, or its arguments and what the model read. */
const CallBody = ({ call, scene }: { readonly call: Call; readonly scene: Scene }): VNode => {
  const state = stateOf(call)
  const work = call.operation === undefined ? undefined : scene.thread.works.get(call.operation)
  const status = laneOf(call)?.status
  const isBad = state === "failed" || state === "timedOut" || state === "denied"
  if (work !== undefined) {
    return html`<div class="sub"><p class="small soft">Task: <${SafeText} text=${targetOf(call.params)} /></p>
      ${
      work.parts.map((it) =>
        it._tag === "Answer"
          ? html`<${AnswerBody} key=${it.id} of=${it} scene=${scene} />`
          : html`<p key=${it.id} class="small muted"><${SafeText} text=${it.text} /></p>`
      )
    }
      ${
      isBad && call.result !== undefined
        ? html`<p class="out bad"><${SafeText} text=${call.result.text} block /></p>`
        : null
    }</div>`
  }
  return html`<div class="in">
    ${call.params === undefined ? null : html`<${Arguments} value=${call.params} />`}
    ${
    status === undefined || call.result !== undefined
      ? null
      : html`<p class="small soft"><${SafeText} text=${status} /></p>`
  }
    ${
    state === "unknown"
      ? html`<p class="note wait"><span><b>The outcome is unknown.</b> The server stopped while this call ran. It was not repeated.</span></p>`
      : state === "suspended"
      ? html`<p class="small soft">The server stopped before this call started. It continues with the conversation.</p>`
      : null
  }
    ${
    call.result === undefined
      ? null
      : html`<div class=${isBad ? "out bad" : "out"}><${SafeText} text=${call.result.text} block /></div>`
  }
    ${
    isBad
      ? html`<p class="small soft"><b class="bad-t">${words[state]}.</b> The model read this text.</p>`
      : null
  }</div>`
}

/** How many calls of an operation need approval. */
export const countWaiting = (thread: Thread, id: string | undefined): number =>
  id === undefined ? 0 : waitingIn(thread, id).length

/** Whether an operation is between its steps: the model has been asked and nothing has come. */
export const isThinking = (thread: Thread, id: string): boolean => {
  const work = thread.works.get(id)
  if (work === undefined) return true
  const last = work.parts.findLast((it) => it._tag === "Answer")
  if (last === undefined) return true
  return !last.isStreaming && callsOf(thread, { parts: [last] }).every((it) => it.result !== undefined)
}
