/**
 * All there is to see of an approval request before it is answered, in the order in which a person decides: what is
 * done to what, facts, who asks, the evidence, and only then the reasons.
 */
import type { ComponentChildren, VNode } from "preact"
import { useCallback, useEffect, useMemo, useState } from "preact/hooks"
import { sentence } from "../core/facts/EvidenceText.ts"
import * as WhoApproves from "../core/vocabulary/WhoApproves.ts"
import type { ApprovalRequest, Part, ResolvedApproval } from "../server/api/ApiApprovals.ts"
import { get, type Problem, type Reply } from "./api.ts"
import type { Context } from "./context.ts"
import { html } from "./html.ts"
import { titleOf } from "./known.ts"
import { Heading, Note } from "./layout.ts"
import { Arguments } from "./parts/Arguments.ts"
import { countMarked } from "./parts/pieces.ts"
import { SafeText } from "./parts/SafeText.ts"
import { icon } from "./pieces.ts"
import { Preview } from "./Preview.ts"
import { commandIn, factsOf, headlineOf, leftOf } from "./request.ts"
import { to } from "./routes.ts"
import { known } from "./state.ts"
import { clock, count, time } from "./words.ts"

/** An approval request as it was read, or why it was not. */
export type Read =
  | { readonly _tag: "Reading" }
  | { readonly _tag: "Open"; readonly approval: ApprovalRequest }
  | { readonly _tag: "Ended"; readonly approval: ResolvedApproval }
  | { readonly _tag: "Failed"; readonly problem: Problem }

/**
 * Reads an approval request whole, and again whenever another one is asked under its id. What is heard of its end
 * counts immediately; what was read before stays visible.
 */
export const useApproval = (
  id: string
): { readonly read: Read; readonly seen: ApprovalRequest | undefined; readonly again: () => void } => {
  const [read, setRead] = useState<Read>({ _tag: "Reading" })
  const [seen, setSeen] = useState<ApprovalRequest | undefined>(undefined)
  const [attempt, setAttempt] = useState(0)
  const waiting = known.value.open.find((it) => it.id === id)
  const ended = known.value.ended.find((it) => it.id === id)
  useEffect(() => {
    const asked = { isCurrent: true }
    void get<ApprovalRequest | ResolvedApproval>(`api/approvals/${encodeURIComponent(id)}`).then((reply) => {
      if (!asked.isCurrent) return
      const read = readOf(reply)
      setRead(read)
      if (read._tag === "Open") setSeen(read.approval)
    })
    return () => {
      asked.isCurrent = false
    }
  }, [id, waiting?.hash, waiting?.requestedAt, waiting?.approvals?.length, attempt])
  return {
    read: ended === undefined ? read : { _tag: "Ended", approval: ended },
    seen,
    again: useCallback(() => setAttempt((it) => it + 1), [])
  }
}

/** The headline, the facts and the agent of requests; `level` 1 for the one that is shown alone. */
export const RequestHead = ({ approval, children }: {
  readonly approval: ApprovalRequest | ResolvedApproval
  /** States next to the facts. */
  readonly children?: ComponentChildren
}): VNode => {
  const { of, verb } = headlineOf(approval, "args" in approval ? commandIn(approval.args) : undefined)
  return html`<header>
    <${Heading} class="title"><span class="verb"><${SafeText} text=${verb} /></span> ${
    of === undefined ? null : html`<span class="mono"><${SafeText} text=${of} /></span>`
  }</${Heading}>
    <p class="row">${children}<${Facts} of=${[approval]} /></p>
    <${Trail} of=${approval} />
  </header>`
}

/** Facts of requests, as the server knows them. */
export const Facts = ({ of }: { readonly of: Parameters<typeof factsOf>[0] }): VNode =>
  html`${factsOf(of).map(({ as, icon: name, text }) => html`<span class=${`tag ${as}`}>${icon(name)}${text}</span>`)}`

/** The agent that asks, and the conversation it works in. */
const Trail = (
  { of: { agentPath, session, user } }: {
    readonly of: { readonly user: string; readonly session: string; readonly agentPath: ReadonlyArray<string> }
  }
): VNode =>
  html`<p class="trail">${icon("agent")}${
    agentPath.map((it) => html`<span><${SafeText} text=${it} /></span><span class="muted">›</span>`).slice(
      0,
      -1
    )
  }${
    agentPath.length === 0
      ? null
      : html`<span><${SafeText} text=${agentPath.at(-1)} /></span><span class="muted">in</span>`
  }<a href=${to("conversations", user, session)}><${SafeText} text=${
    titleOf(known.value, user, session)
  } /></a><span class="muted">of <${SafeText}
    text=${user} /></span></p>`

/** Shows an approval request; `onWhole` is called with whether all of it has loaded. Resolved requests have nothing more to load. */
export const ApprovalBody = (
  { actions, approval, context = {}, isOver = false, onWhole }: {
    readonly approval: ApprovalRequest
    readonly onWhole: (isWhole: boolean) => void
    readonly isOver?: boolean | undefined
    readonly context?: Context | undefined
    /** Buttons in the head of the evidence. */
    readonly actions?: ComponentChildren
  }
): VNode => {
  const { args, preview, targets, why } = approval
  const command = commandIn(args)
  const hasPreview = preview !== null && !isOver
  const [texts, setTexts] = useState<ReadonlyArray<string>>([])
  const onShown = useCallback((shown: ReadonlyArray<string> | undefined) => {
    if (shown !== undefined) setTexts(shown)
    onWhole(shown !== undefined)
  }, [onWhole])
  useEffect(() => {
    if (!hasPreview) onWhole(true)
  }, [hasPreview, onWhole])
  const id = approval.id
  const load = useCallback(
    (index: number, side: "before" | "after", from: number): Promise<Reply<typeof Part.Type>> =>
      get(`api/approvals/${encodeURIComponent(id)}/files/${index}/${side}?from=${from}`),
    [id]
  )
  const marked = useMemo(() => Math.max(markedIn(targets.map(({ text }) => text)), markedIn(args)), [approval])
  const left = useMemo(() => leftOf(args, { command, targets, texts }), [approval, texts])
  const isEmpty = typeof left === "object" && left !== null && Object.keys(left).length === 0
  return html`
    ${
    marked === 0 ?
      null :
      html`<${Note} as="wait"><b>${count(marked, "character")} ${
        marked === 1 ? "looks like another or is" : "look like others or are"
      } invisible.</b> Each is marked with its code point.</${Note}>`
  }
    ${
    hasPreview ?
      html`<${Preview} preview=${preview} load=${load} onShown=${onShown} actions=${actions} title=${
        headlineOf(approval, command).of
      } />` :
      null
  }
    ${
    command === undefined ?
      null :
      html`<section class="block"><header><span class="muted mono"><${SafeText} text=${approval.tool} /></span>
      <span class="grow"></span>${hasPreview ? null : actions}</header>
      <div class="cmd"><${SafeText} text=${command.line} block /></div></section>`
  }
    ${
    isEmpty ? null : html`<section class="block" aria-label="Arguments">${
      hasPreview || command !== undefined
        ? null
        : html`<header><span class="muted mono"><${SafeText} text=${approval.tool} /></span><span class="grow"></span>${actions}</header>`
    }<${Arguments} value=${left} /></section>`
  }
    <dl class="why">${
    approval.approvers === undefined
      ? null
      : html`<dt>Who approves</dt><dd>${
        (approval.approvals ?? []).map((it) =>
          html`<p><${SafeText} text=${it.person} /> approved it, ${clock(it.at)}${
            it.note === undefined ? "" : html`: “<${SafeText} text=${it.note} />”`
          }</p>`
        )
      }<p><${SafeText} text=${
        WhoApproves.sentence(approval.approvers, approval.approvals ?? [], {
          principal: approval.user,
          requestedAt: approval.requestedAt
        })
      } /></p></dd>`
  }<dt>Asked because</dt><dd><${SafeText} text=${why} /></dd>${
    approval.evidence === undefined
      ? null
      : html`<dt>Known about it</dt><dd><ul>${
        approval.evidence.map((it) => html`<li><${SafeText} text=${sentence(it)} /></li>`)
      }</ul></dd>`
  }${
    context.task === undefined
      ? null
      : html`<dt>Task</dt><dd>“<${SafeText} text=${context.task.text} />” <span class="muted"><${SafeText} text=${approval.user} />, ${
        clock(context.task.at)
      }</span></dd>`
  }${
    context.says === undefined
      ? null
      : html`<dt>The agent says</dt><dd><blockquote class="said"><${SafeText} text=${context.says} block /></blockquote></dd>`
  }${
    approval.isRunning
      ? html`<dt>State</dt><dd>The call is running, and its write waits. Arguments cannot be edited.</dd>`
      : null
  }</dl>
    <${Details} of=${approval} />`
}

/** What helps to find an error, and not to decide. */
const Details = ({ of }: { readonly of: ApprovalRequest }): VNode =>
  html`<details class="fold small"><summary>Details: call, arguments, times</summary><dl class="why">
    <dt>Tool</dt><dd class="mono"><${SafeText} text=${of.tool} /></dd>
    <dt>Class</dt><dd><${SafeText} text=${of.class} />${classes[of.class] ?? ""}</dd>
    <dt>Targets</dt><dd>${
    of.targets.length === 0
      ? "none known"
      : html`<ul>${
        of.targets.map((it) =>
          html`<li class="mono"><${SafeText} text=${it.text} />${
            it.kind === undefined ? "" : html` <em>${it.kind}</em>`
          }</li>`
        )
      }</ul>`
  }</dd>
    <dt>Requested</dt><dd>${time(of.requestedAt)}</dd>
    <dt>Call</dt><dd class="mono"><${SafeText} text=${of.callId} /></dd>
    <dt>All arguments</dt><dd><${Arguments} value=${of.args} /></dd>
  </dl></details>`

/** Counts look-alike and invisible characters in all texts. */
const markedIn = (value: unknown): number =>
  typeof value === "string"
    ? countMarked(value.slice(0, searched).replaceAll(/[\n\t]/g, " "))
    : typeof value === "object" && value !== null
    ? Object.entries(value).reduce((sum, [name, it]) => sum + countMarked(name) + markedIn(it), 0)
    : 0

/** How much of a text is searched before it is shown. */
const searched = 200_000

const classes: Readonly<Record<string, string>> = {
  ReadOnly: ": reads only",
  ConcurrentMut: ": may change things; runs in parallel with other calls",
  SerialMut: ": may change things; runs alone"
}

const readOf = (reply: Reply<ApprovalRequest | ResolvedApproval>): Read =>
  !reply.ok
    ? { _tag: "Failed", problem: reply.problem }
    : "hash" in reply.value
    ? { _tag: "Open", approval: reply.value }
    : { _tag: "Ended", approval: reply.value }
