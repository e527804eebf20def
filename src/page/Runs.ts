/** Runs: all waves that are known, a timeline of the one that is chosen, and its calls. */
import type { VNode } from "preact"
import { useEffect, useState } from "preact/hooks"
import { lanesOf, timeOf } from "../core/facts/Lanes.ts"
import type { Wire } from "../core/facts/ToolEvent.ts"
import type { WaveEvents } from "../server/api/ApiModels.ts"
import { get, type Reply } from "./api.ts"
import { html } from "./html.ts"
import { keyOf, type KnownWave, withEvents } from "./known.ts"
import { Empty, Heading, ListBar, Note, PaneBar, Split } from "./layout.ts"
import { CallView } from "./parts/CallView.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Timeline } from "./parts/Timeline.ts"
import { StateMark } from "./pieces.ts"
import { route, to } from "./routes.ts"
import { known, now } from "./state.ts"
import { markOf, type State } from "./states.ts"
import { clock, count, ending, span } from "./words.ts"

const back = { href: to("runs"), name: "Runs" }

const addressOf = ({ session, user, wave }: KnownWave): string => to("runs", user, session, wave)

/** The view. On a wide screen the newest run is open. */
export const Runs = (): VNode => {
  const [user, session, name, process, callId] = route.value.parts
  const waves = Array.from(known.value.waves.values()).sort((a, b) => b.beganAt - a.beganAt)
  const [opened, setOpened] = useState<string | undefined>(undefined)
  const first = opened ??
    (matchMedia("(min-width: 760px)").matches && waves[0] !== undefined ? addressOf(waves[0]) : undefined)
  useEffect(() => setOpened(user === undefined ? first : undefined), [user === undefined, first])
  const wave = waves.find((it) =>
    user === undefined ? addressOf(it) === first : it.user === user && it.session === session && it.wave === name
  )
  const running = waves.filter((it) => it.status === "running").length
  return html`<${Split} isOpen=${user !== undefined} label="Runs" list=${html`<${ListBar} title="Runs" isOpen=${
    wave !== undefined || user !== undefined
  }>
        <span class="muted small num">${running} running</span></${ListBar}>
      ${
    groupsOf(waves).map(({ session, user, waves }) =>
      html`<section class="group" key=${`${user}/${session}`}><h2><span class="cut grow"><${SafeText} text=${session} /></span>
          <span><${SafeText} text=${user} /></span></h2>
          <ul>${waves.map((it) => html`<${Item} key=${it.wave} wave=${it} isChosen=${it === wave} />`)}</ul></section>`
    )
  }
      <p class="tiny muted hint">A run is a wave: all tool calls of one model message.</p>`}>${
    wave !== undefined
      ? html`<${One} key=${addressOf(wave)} wave=${wave} chosen=${
        process === undefined || callId === undefined ? undefined : { process, callId }
      } />`
      : user === undefined
      ? html`<${PaneBar} back=${back} /><${Empty} of="runs" title=${
        waves.length === 0 ? "No runs yet." : "Choose a run."
      }>A
          run is a wave: all tool calls of one model message.</${Empty}>`
      : html`<${PaneBar} back=${back}><${Heading}>Run</${Heading}></${PaneBar}><${Empty} of="runs" title="This run is no longer stored.">Its
          calls are in the <a href=${to("journal")}>journal</a>.</${Empty}>`
  }</${Split}>`
}

const groupsOf = (waves: ReadonlyArray<KnownWave>) => {
  const groups = new Map<string, Array<KnownWave>>()
  for (const it of waves) {
    const key = JSON.stringify([it.user, it.session])
    groups.set(key, [...groups.get(key) ?? [], it])
  }
  return Array.from(groups.values(), (waves) => ({ user: waves[0]!.user, session: waves[0]!.session, waves }))
}

/** The tools of a run: each once, with how often it was called. */
const toolsOf = ({ tools }: KnownWave): string => {
  const counts = new Map<string, number>()
  for (const it of tools) counts.set(it, (counts.get(it) ?? 0) + 1)
  return Array.from(counts, ([name, times]) => times === 1 ? name : `${name} ×${times}`).join(", ")
}

/** Pending requests of the calls of a run. */
const pendingOf = (wave: KnownWave) =>
  known.value.open.filter((it) =>
    it.user === wave.user && it.session === wave.session &&
    // sub-agents have separate processes
    (it.process === wave.wave || wave.events.some(({ process }) => process === it.process))
  )

const stateOf = (wave: KnownWave): State =>
  pendingOf(wave).length > 0 ? "approval" : wave.status === "ended" ? "succeeded" : wave.status

const words = { running: "Running", ended: "Ended", suspended: "Suspended until the server restarts" } as const

const Item = ({ isChosen, wave }: { readonly wave: KnownWave; readonly isChosen: boolean }): VNode => {
  const pending = pendingOf(wave).length
  return html`<li class="item"><${StateMark} of=${stateOf(wave)} word=${
    pending > 0 ? undefined : words[wave.status]
  } isBrief />
    <div class="t"><a class="cut" href=${addressOf(wave)} aria-current=${
    isChosen ? "true" : undefined
  }><${SafeText} text=${toolsOf(wave)} /></a><span class="when">${
    wave.status === "running" ? "now" : clock(wave.beganAt)
  }</span></div>
    <p class="s cut"><span>${
    pending > 0 ? `${pending} of ${count(wave.calls, "call")} needs approval` : count(wave.calls, "call")
  }</span>${wave.endedAt === undefined ? null : html`<span>${span(wave.endedAt - wave.beganAt)}</span>`}</p></li>`
}

/** Loads the events of a wave that the live stream left out. */
const useEvents = (wave: KnownWave): void => {
  const [key, missing] = [keyOf(wave), wave.missing]
  useEffect(() => {
    const read = async () => {
      const events: Array<Wire> = []
      for (let after: number | undefined = 0; after !== undefined;) {
        const path = [wave.user, wave.session, wave.wave].map(encodeURIComponent).join("/")
        const reply: Reply<typeof WaveEvents.Type> = await get(`api/waves/${path}?after=${after}`)
        if (!reply.ok) return
        events.push(...reply.value.events)
        after = reply.value.next
      }
      known.value = withEvents(known.value, key, events, missing)
    }
    if (missing > 0) void read()
  }, [key, missing])
}

const One = ({ chosen, wave }: {
  readonly wave: KnownWave
  readonly chosen: { readonly process: string; readonly callId: string } | undefined
}): VNode => {
  useEvents(wave)
  const { beganAt, calls, endedAt, events, session, status, user } = wave
  const pending = pendingOf(wave)
  const lanes = lanesOf(events)
  const failed = lanes.filter((it) => ["failed", "timedOut", "denied", "unknown"].includes(markOf(it))).length
  const asking = lanes.reduce((sum, it) => sum + timeOf(it, "asking", now.value), 0)
  const facts = [
    count(calls, "call"),
    ...failed === 0 ? [] : [`${failed} without success`],
    `started ${clock(beganAt)}`,
    `${endedAt === undefined ? "running for" : "took"} ${span((endedAt ?? now.value) - beganAt)}`,
    ...asking < 1_000 ? [] : [`${span(asking)} waiting for a person`]
  ]
  const title = html`<${SafeText} text=${toolsOf(wave)} />`
  return html`
    <${PaneBar} back=${back}>
      ${
    chosen === undefined
      ? html`<${Heading} class="cut grow">${title}</${Heading}>`
      : html`<h1 class="cut grow">${title}</h1>`
  }
      <span class="hide-s"><${StateMark} of=${stateOf(wave)} word=${
    pending.length > 0 ? undefined : words[status]
  } /></span>
    </${PaneBar}>
    <div class="scroll" tabindex="0" role="group" aria-label="Run"><div class="body">
      <p class="soft small">${facts.join(" · ")} · <a href=${
    to("conversations", user, session)
  }><${SafeText} text=${session} /></a></p>
      ${
    pending.slice(0, 3).map((it) =>
      html`<${Note} key=${it.id} as="wait" of="hand"><b><${SafeText} text=${it.tool} /> needs approval.</b> <a href=${
        to("approvals", it.id)
      }>Review request</a></${Note}>`
    )
  }
      <${Timeline} events=${events} now=${status === "running" ? now.value : undefined} chosen=${chosen}
        addressOf=${(it: { readonly process: string; readonly callId: string }) =>
    to("runs", user, session, wave.wave, it.process, it.callId)} />
      ${chosen === undefined ? null : html`<${Call} wave=${wave} process=${chosen.process} id=${chosen.callId} />`}
    </div></div>`
}

const Call = (
  { id, process, wave }: { readonly wave: KnownWave; readonly process: string; readonly id: string }
): VNode => {
  const events = wave.events.filter((it) => it.process === process && "callId" in it && it.callId === id)
  const answered = known.value.ended.filter((it) =>
    it.callId === id && it.user === wave.user && it.session === wave.session && it.requestedAt >= wave.beganAt
  )
  return html`<section class="part" aria-label="Call">
    <${CallView} events=${events} approvals=${
    known.value.open.filter((it) => it.process === process && it.callId === id)
  } />
    ${
    answered.map((it) =>
      html`<p class="small" key=${it.id}>${ending(it)}${
        it.by === undefined ? "" : html` by <${SafeText} text=${it.by} />`
      }, ${clock(it.endedAt)}. <a href=${to("approvals", "resolved", it.id)}>The request</a></p>`
    )
  }${
    events.some((it) => it._tag === "ToolCallComplete" && it.outcome.commits > 0)
      ? html`<p><a class="btn slim" href=${to("undo", wave.user, wave.session, id)}>Undo…</a></p>`
      : null
  }</section>`
}
