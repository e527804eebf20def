/** One call of the journal: what happened to it step by step, its arguments, and what the model read. */
import type { ComponentChildren, VNode } from "preact"
import type { RecordedCallDetail } from "../server/api/ApiRecords.ts"
import { html } from "./html.ts"
import { Heading, Note } from "./layout.ts"
import { Arguments } from "./parts/Arguments.ts"
import { DiffText } from "./parts/Diff.ts"
import { SafeText } from "./parts/SafeText.ts"
import { icon } from "./pieces.ts"
import { clockOf, dayOf, Path, RecordMark, targetIn, took } from "./record.ts"
import { to } from "./routes.ts"
import { known, say } from "./state.ts"
import { useRead } from "./useRead.ts"
import { span } from "./words.ts"

/** The drawer. */
export const JournalCall = ({ place }: { readonly place: string }): VNode => {
  const { failure, value: call } = useRead<RecordedCallDetail>(`api/journal/calls/${encodeURIComponent(place)}`)
  return html`<section class="pane" aria-label="Call" onKeyDown=${(event: KeyboardEvent) => {
    if (event.key === "Escape") location.hash = to("journal")
  }}>
    <div class="bar"><a class="btn quiet back" href=${to("journal")}>${icon("left")}Journal</a>
      <${Heading} class="cut grow mono"><${SafeText} text=${call?.tool ?? "Call"} /></${Heading}>
      ${
    call?.checkpoint === undefined
      ? null
      : html`<a class="btn slim" href=${to("undo", call.user, call.session, call.checkpoint)}>${icon("undo")}Undo…</a>`
  }
      <a class="btn quiet icon hide-s" href=${to("journal")} aria-label="Close">${icon("x")}</a></div>
    <div class="scroll" tabindex="0"><div class="body">
      ${failure}
      ${
    call === undefined
      ? failure === null ? html`<p class="muted" role="status">Loading …</p>` : null
      : html`<${Body} of=${call} />`
  }
    </div></div>
  </section>`
}

const Body = ({ of }: { readonly of: RecordedCallDetail }): VNode => {
  const ran = took(of)
  const conversation = known.value.conversations.find((it) => it.user === of.user && it.session === of.session)
  const agents = [...conversation === undefined ? [] : [conversation.agent], ...of.agentPath]
  return html`
    <p class="mono wrap"><b><${SafeText} text=${targetIn(of)} /></b></p>
    <p class="row small"><${RecordMark} of=${of.state} /><span class="muted">${ran === "–" ? "" : `in ${ran} · `}${
    dayOf(of.at)
  } ${clockOf(of.at)}</span></p>
    ${
    of.state === "unknown"
      ? html`<${Note} as="wait"><b>The outcome is unknown.</b> The server stopped while this call ran. It was not repeated.</${Note}>`
      : of.state === "waiting" && of.requestId !== undefined
      ? html`<p><a class="btn slim" href=${to("approvals", of.requestId)}>Review request</a></p>`
      : null
  }
    <section class="part"><h2>What happened</h2><${Steps} of=${of.entries as ReadonlyArray<Entry>} /></section>
    ${
    of.diff === undefined
      ? null
      : html`<section class="part"><h2>What approvers saw</h2><${DiffText} diff=${of.diff} /></section>`
  }
    <section class="part"><h2>Arguments</h2>${
    of.args === undefined
      ? html`<p class="muted small">The journal does not keep arguments.</p>`
      : html`<div class="block"><${Arguments} value=${of.args} /></div>`
  }</section>
    ${
    of.modelText === undefined
      ? null
      : html`<section class="part"><h2>What the model read</h2><div class="out"><${SafeText} text=${
        of.modelText === "" ? "(an empty text)" : of.modelText
      } block /></div></section>`
  }
    <section class="part"><h2>Context</h2><dl class="why">
      <dt>Conversation</dt><dd><a href=${to("conversations", of.user, of.session)}><${SafeText} text=${
    conversation?.title || of.session
  } /></a></dd>
      <dt>Agent</dt><dd><${Path} of=${
    agents.length === 0 ? ["none"] : agents
  } />, for <${SafeText} text=${of.user} /></dd>
      ${
    of.requestId === undefined
      ? null
      : html`<dt>Approval</dt><dd><a href=${to("approvals", of.requestId)}>Request</a></dd>`
  }
      <dt>Others</dt><dd><a href=${to("journal", "of", of.user, of.session)}>Calls of this conversation</a></dd>
      <dt>Call ID</dt><dd><span class="mono"><${SafeText} text=${of.callId} /></span> <button class="btn quiet slim icon" type="button" aria-label="Copy call ID" onClick=${() =>
    void navigator.clipboard.writeText(of.callId).then(() => say("Copied."), () => say("Copying is not allowed."))}>${
    icon("copy")
  }</button></dd>
    </dl></section>`
}

/** An entry of the journal, as the server shows it. */
interface Entry {
  readonly _tag: string
  readonly at: number
  readonly [field: string]: unknown
}

const Steps = ({ of }: { readonly of: ReadonlyArray<Entry> }): VNode =>
  html`<ol class="journal-steps">${
    of.map((it, at) => {
      const { color, mark, more, what } = stepOf(it, of.slice(0, at))
      return html`<li key=${at}><span class=${`state ${color}`}>${
        icon(mark)
      }</span><span>${what}</span><time class="muted num">${exact(it.at)}</time>${
        more === undefined ? null : html`<small><${SafeText} text=${more} /></small>`
      }</li>`
    })
  }</ol>`

interface Step {
  readonly color: "none" | "wait" | "ok" | "bad"
  readonly mark: string
  readonly what: ComponentChildren
  readonly more?: string | undefined
}

const text = (value: unknown): string => typeof value === "string" ? value : ""

const step = (mark: string, what: ComponentChildren, more?: string): Step => ({ color: "none", mark, what, more })

const stepOf = (entry: Entry, before: ReadonlyArray<Entry>): Step => {
  switch (entry._tag) {
    case "Arrived":
      return step("ok", entry["isResumed"] === true ? "Continued after a restart" : "Received")
    case "Decided":
      return { ...step("shield", "Refused", text(entry["sentence"])), color: "bad" }
    case "Shadowed":
      return step(
        "shield",
        html`Shadow policy <${SafeText} text=${text(entry["policy"])} />: ${text(entry["would"])}`,
        text(entry["because"]) || undefined
      )
    case "Reviewed":
      return reviewed(entry)
    case "Asked":
      return { ...step("hand", "Approval requested", text(entry["why"])), color: "wait" }
    case "Answered":
      return answered(entry, before.findLast(({ _tag }) => _tag === "Asked")?.at)
    case "Started":
      return step("play", Number(entry["attempt"]) > 1 ? `Attempt ${String(entry["attempt"])} started` : "Started")
    case "Committed":
      return step("file", "Wrote")
    case "Suspended":
      return step("hand", "Suspended", text(entry["reason"]))
    case "LateWriteBlocked":
      return { ...step("shield", "A late write was blocked"), color: "wait" }
    case "OrphanEnded":
      return step("x", "The handler ended after its outcome")
    default: {
      const outcome = text((entry["outcome"] as { readonly _tag?: unknown } | undefined)?._tag)
      const [color, mark, what] = ends[outcome as keyof typeof ends] ?? ["none", "ok", entry._tag]
      const unseen = text(entry["unseen"])
      return { color, mark, what, more: unseen === "" ? undefined : `The result holds invisible text: ${unseen}` }
    }
  }
}

const ends = {
  Succeeded: ["ok", "ok", "Succeeded"],
  Failed: ["bad", "bad", "Failed"],
  TimedOut: ["bad", "clock", "Timed out"],
  Denied: ["bad", "shield", "Denied"],
  Cancelled: ["none", "x", "Cancelled"],
  Skipped: ["none", "x", "Skipped"],
  Unknown: ["wait", "unknown", "Outcome unknown"]
} as const

const reviewed = (entry: Entry): Step => {
  const verdict = text(entry["verdict"])
  const what = entry["decides"] !== true ? "Reviewed, a person decides" : verdict === "allow" ? "Approved" : "Denied"
  return {
    color: entry["decides"] !== true ? "wait" : verdict === "allow" ? "ok" : "bad",
    mark: "shield",
    what: html`${what} by the reviewer <b><${SafeText} text=${text(entry["model"])} /></b>`,
    more: text(entry["reason"]) || undefined
  }
}

const answers: Readonly<Record<string, string>> = {
  ApproveOnce: "Approved once",
  ApproveForDuration: "Approved for a limited time",
  ApproveForScope: "Approved until revoked",
  Deny: "Denied",
  timeout: "Expired, so denied",
  closed: "Closed: the caller has ended",
  noApprover: "Denied: there was no approver",
  withdrawn: "Withdrawn",
  suspended: "Suspended, will be asked again"
}

const answered = (entry: Entry, asked: number | undefined): Step => {
  const answer = text(entry["answer"])
  const isYes = answer.startsWith("Approve")
  const what = answers[answer] ?? answer
  const person = text(entry["person"])
  const waited = asked === undefined ? undefined : `after ${span(entry.at - asked)}`
  const reason = text(entry["reason"])
  const by = person === ""
    ? entry["by"] === "grant" ? " by a grant" : ""
    : html` by <b><${SafeText} text=${person} /></b>`
  return {
    color: isYes ? "ok" : "bad",
    mark: isYes ? "ok" : "bad",
    what: html`${what}${by}${entry["isEdited"] === true ? ", as edited" : ""}`,
    more: [waited, reason].filter((it) => it !== undefined && it !== "").join(": ") || undefined
  }
}

/** With milliseconds. */
const exact = (at: number): string => `${clockOf(at)}.${String(at % 1_000).padStart(3, "0")}`
