/** One conversation: what was said, what runs, how much of its limits is used, and where to write to the agent. */
import type { VNode } from "preact"
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks"
import type { Agent, ConversationDetail, Operation } from "../server/api/ApiOperations.ts"
import { post } from "./api.ts"
import { Compose } from "./Compose.ts"
import { html } from "./html.ts"
import { Heading, Note, PaneBar } from "./layout.ts"
import { Meters } from "./Meters.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure, icon, StateMark } from "./pieces.ts"
import { to } from "./routes.ts"
import { SessionView } from "./SessionView.ts"
import { connection, known, me, say } from "./state.ts"
import { ofOperation } from "./states.ts"
import { nothing, ofHistory, type Part, type Thread, type Work } from "./thread.ts"
import { countWaiting, isThinking, Parts, type Scene } from "./ThreadView.ts"
import { type Followed, useConversation } from "./useConversation.ts"
import { useRead } from "./useRead.ts"

const back = { href: to("conversations"), name: "Conversations" }

export const ConversationView = ({ session, user }: { readonly user: string; readonly session: string }): VNode => {
  const followed = useConversation(user, session)
  const { again, detail, problem } = followed
  if (detail !== undefined) return html`<${Whole} of=${detail} followed=${followed} />`
  // its calls come from elsewhere
  if (problem?.status === 404) return html`<${SessionView} user=${user} session=${session} />`
  return html`<${PaneBar} back=${back}><${Heading}>Conversation</${Heading}></${PaneBar}>${
    problem === undefined
      ? html`<p class="hint muted" role="status">Loading …</p>`
      : html`<div class="body"><${Failure} problem=${problem} onAgain=${again} /></div>`
  }`
}

const Whole = ({ followed: { first, thread }, of }: {
  readonly of: ConversationDetail
  readonly followed: Followed
}): VNode => {
  const { agent, session, title, user } = of
  const live = known.value.conversations.find((it) => it.user === user && it.session === session)
  // empty for users who may not start any
  const { value: agents = [] } = useRead<ReadonlyArray<Agent>>("api/agents")
  const roots = rootsOf(thread, first)
  const current = roots.at(-1)
  const operation = of.operations.find(({ id }) => id === current) ?? of.operations[0]
  const work = current === undefined ? undefined : thread.works.get(current)
  const end = endOf(operation, work)
  const isActive = end === undefined && current !== undefined && operation?.state !== "suspended"
  const waiting = countWaiting(thread, current)
  const state = !isActive
    ? end !== undefined && isBad(end) ? "failed" : operation === undefined ? "queued" : ofOperation[operation.state]
    : waiting > 0
    ? "approval"
    : "running"
  const isOwn = typeof me.value === "object" && me.value.name === user && me.value.run
  const scene: Scene = { user, session, agent, thread }
  return html`
    <${PaneBar} back=${back}><${Heading} class="cut grow"><${SafeText} text=${
    title === "" ? session : title
  } /></${Heading}>
      <span class="hide-s"><${StateMark} of=${state} word=${
    state === "succeeded" ? "Finished" : state === "failed" ? "Stopped" : undefined
  } /></span>
      ${isOwn && isActive ? html`<${Stop} session=${session} operation=${current} />` : null}</${PaneBar}>
    <${Meters} of=${operation} cost=${live?.cost ?? of.cost} limits=${
    agents.find((it) => it.name === operation?.agent)?.limits
  } thread=${thread} isOnly=${of.operations.length === 1} />
    <${Scroll} follows=${thread}><div class="thread">
      <${History} of=${of} scene=${scene} />
      ${
    roots.map((id) =>
      html`<${Root} key=${id} id=${id} scene=${scene} operation=${of.operations.find((it) => it.id === id)} isLast=${
        id === current
      } />`
    )
  }
      ${end === undefined || roots.length === 0 && !isBad(end) ? null : html`<${EndNote} of=${end} />`}
    </div></${Scroll}>
    <${Compose} agent=${agent} session=${session} operation=${
    isActive ? current : undefined
  } waiting=${waiting} owner=${user} isOwn=${isOwn} />`
}

/** Operations that are shown from their events, oldest first. */
const rootsOf = ({ works }: Thread, first: string | undefined): ReadonlyArray<string> => {
  const begun = Array.from(works.values()).flatMap(({ agentPath, id }) => agentPath.length === 0 ? [id] : [])
  return first === undefined || begun.includes(first) ? begun : [first, ...begun]
}

type End = NonNullable<Operation["end"]>

const endOf = (operation: Operation | undefined, work: Work | undefined): Pick<End, "message" | "reason"> | undefined =>
  work === undefined ? operation?.end : work.end

const isBad = ({ reason }: Pick<End, "reason">): boolean =>
  reason._tag !== "Finished" && reason._tag !== "Exited" && reason._tag !== "Cancelled" && reason._tag !== "Suspended"

/** Messages from before the events. The latest are shown first. */
const History = ({ of, scene }: { readonly of: ConversationDetail; readonly scene: Scene }): VNode => {
  const [most, setMost] = useState(60)
  const { calls, parts } = useMemo(() => ofHistory(of.history), [of.history])
  const shown: ReadonlyArray<Part> = parts.slice(-most)
  const known = useMemo(() => ({ ...scene, thread: { ...nothing, calls } }), [calls])
  const list = useMemo(() => html`<${Parts} of=${shown} scene=${known} />`, [parts, most])
  return html`${
    parts.length > most
      ? html`<button class="btn slim" type="button" onClick=${() => setMost(most + 200)}>Show earlier messages</button>`
      : null
  }${list}`
}

/** An operation: the message that began it, and what its agent does. */
const Root = ({ id, isLast, operation, scene }: {
  readonly id: string
  readonly isLast: boolean
  readonly operation: Operation | undefined
  readonly scene: Scene
}): VNode => {
  const work = scene.thread.works.get(id)
  const began = operation === undefined ? [] : [
    { _tag: "Said", id, text: operation.prompt, at: operation.startedAt, isQueued: false } as const
  ]
  const own = { ...scene, agent: operation?.agent ?? scene.agent }
  const queued = work?.parts.filter((it) => it._tag === "Said" && it.isQueued) ?? []
  const done = work?.parts.filter((it) => !queued.includes(it)) ?? []
  const isActive = isLast && work?.end === undefined && operation?.state !== "ended"
  return html`<${Parts} of=${began} scene=${own} /><${Parts} of=${done} scene=${own} />${
    isActive && isThinking(scene.thread, id)
      ? html`<p class="row small muted"><${StateMark} of="running" isBrief word="The model is asked" />Waiting for the model</p>`
      : null
  }<${Parts} of=${queued} scene=${own} />`
}

/** Why the agent stopped, and what to do. */
const EndNote = ({ of: { message, reason } }: { readonly of: Pick<End, "message" | "reason"> }): VNode | null => {
  switch (reason._tag) {
    case "Finished":
    case "Exited":
      return null
    case "LimitReached":
      return html`<${Note} as="bad" of="bad"><b>The agent stopped: the ${limits[reason.limit]} limit of ${
        limitOf(reason)
      } has been reached.</b> Send a message to continue with a new limit.</${Note}>`
    case "ModelFailed":
      return html`<${Note} as="bad" of="bad"><b>The model did not answer: <${SafeText} text=${
        message.replace(/^The model request failed: /, "")
      } /></b> The operator can fix it. No call is open.</${Note}>`
    case "Cancelled":
      return html`<${Note} of="stop"><b>Stopped.</b> <${SafeText} text=${message} /> Send a message to continue.</${Note}>`
    case "CutOff":
      return html`<${Note} as="wait"><b>The answer was cut off.</b> Send a message to continue.</${Note}>`
    case "Suspended":
      return html`<${Note} of="hand"><b>The server is restarting.</b> The agent continues when it is back. No request is lost.</${Note}>`
    default:
      return html`<${Note} as="bad" of="bad"><b>The agent stopped.</b> <${SafeText} text=${message} /></${Note}>`
  }
}

const limits = { turns: "turn", calls: "call", tokens: "token", time: "time", cost: "cost" } as const

const limitOf = ({ limit, max }: Extract<End["reason"], { readonly _tag: "LimitReached" }>): string =>
  limit === "cost" ? `$${max.toFixed(2)}` : limit === "time" ? `${max / 1_000} s` : max.toLocaleString("en")

const Stop = ({ operation, session }: { readonly session: string; readonly operation: string }): VNode => {
  const [isSending, setIsSending] = useState(false)
  const stop = async () => {
    if (isSending) return
    setIsSending(true)
    const path = `api/sessions/${encodeURIComponent(session)}/operations/${encodeURIComponent(operation)}/cancel`
    const reply = await post(path, { reason: "a person stopped it" })
    if (!reply.ok) {
      setIsSending(false)
      say(reply.problem.title)
    }
  }
  return html`<button class="btn slim" type="button" data-key="stop" aria-disabled=${
    isSending || connection.value === "lost"
  } onClick=${stop}>${icon("stop")}${isSending ? "Stopping" : "Stop"}</button>`
}

/** Stays at the end while somebody reads there. */
const Scroll = ({ children, follows }: { readonly follows: unknown; readonly children?: VNode }): VNode => {
  const place = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  const last = useRef(0)
  useLayoutEffect(() => {
    const at = place.current
    if (at === null) return
    const stick = () => {
      if (isAtEnd.current) at.scrollTop = at.scrollHeight
    }
    stick()
    const seen = new ResizeObserver(stick)
    if (at.firstElementChild !== null) seen.observe(at.firstElementChild)
    return () => seen.disconnect()
  }, [follows])
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Messages" ref=${place} onScroll=${() => {
    const at = place.current
    if (at === null) return
    const isNear = at.scrollHeight - at.scrollTop - at.clientHeight < 40
    // what grows below is no reason to leave the end, only a person is
    if (isNear || at.scrollTop < last.current - 1) isAtEnd.current = isNear
    last.current = at.scrollTop
  }}>${children}</div>`
}
