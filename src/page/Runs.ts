/** Running and ended waves: a list, a timeline of each, and the details of a call. */
import type { VNode } from "preact"
import { useEffect, useState } from "preact/hooks"
import type { Wire } from "../core/facts/ToolEvent.ts"
import type { WaveEvents } from "../server/ApiModels.ts"
import { get, type Reply } from "./api.ts"
import { html } from "./html.ts"
import { keyOf, type KnownWave, withEvents } from "./known.ts"
import { Page } from "./layout.ts"
import { CallView } from "./parts/CallView.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Timeline } from "./parts/Timeline.ts"
import { Who } from "./pieces.ts"
import { route, to } from "./routes.ts"
import { known, now } from "./state.ts"
import { count, ending, span, time } from "./words.ts"

/** The view. */
export const Runs = (): VNode => {
  const [user, session, name, process, call] = route.value.parts
  const wave = Array.from(known.value.waves.values()).find((it) =>
    it.user === user && it.session === session && it.wave === name
  )
  if (user === undefined) return html`<${List} />`
  if (wave === undefined) {
    return html`<${Page} title="Run" back=${back}><p>This run is no longer stored. Its calls are in the <a href=${
      to("journal")
    }>journal</a>.</p></${Page}>`
  }
  return process === undefined || call === undefined
    ? html`<${One} wave=${wave} />`
    : html`<${Call} wave=${wave} process=${process} id=${call} />`
}

const back = { href: to("runs"), name: "Runs" }

const step = 30

const List = (): VNode => {
  const [shown, setShown] = useState(step)
  const waves = Array.from(known.value.waves.values()).sort((a, b) => b.beganAt - a.beganAt)
  const newest = waves.find((it) => it.status === "running") ?? waves[0]
  return html`<${Page} title="Runs">
    <p>${
    waves.length === 0
      ? "No runs yet. A run is a wave: all tool calls of one model message."
      : `${count(waves.length, "run")}, newest first; ${waves.filter((it) => it.status === "running").length} running.`
  }</p>
    ${
    newest === undefined
      ? null
      : html`<section aria-labelledby="newest-title">
          <h2 id="newest-title"><${SafeText} text=${newest.wave} />${
        newest.status === "running" ? ", running now" : ""
      }</h2>
          <${Picture} wave=${newest} />
        </section>
        <h2>All runs</h2>`
  }
    <ul class="cards">
      ${
    waves.slice(0, shown).map((it) =>
      html`<li class="card" key=${it.wave}><div class="what">
        <a href=${to("runs", it.user, it.session, it.wave)}><${SafeText} text=${it.wave} /></a>
        <p>${states[it.status]}, ${count(it.calls, "call")}</p>
        <p class="muted"><${Who} of=${it} />, ${time(it.beganAt)}${
        it.endedAt === undefined ? "" : `, ${span(it.endedAt - it.beganAt)}`
      }</p>
      </div></li>`
    )
  }
    </ul>
    ${
    waves.length > shown
      ? html`<button class="btn" type="button" onClick=${() => setShown(shown + step)}>Show more (${
        waves.length - shown
      } more)</button>`
      : null
  }</${Page}>`
}

const states = { running: "Running", ended: "Ended", suspended: "Suspended until the server restarts" } as const

const One = ({ wave }: { readonly wave: KnownWave }): VNode =>
  html`<${Page} title=${html`Run <${SafeText} text=${wave.wave} />`} back=${back}>
    <p>${states[wave.status]}, ${count(wave.calls, "call")}, of <${Who} of=${wave} />, started at ${
    time(wave.beganAt)
  }${wave.endedAt === undefined ? "" : `, after ${span(wave.endedAt - wave.beganAt)}`}.</p>
    <${Picture} wave=${wave} /></${Page}>`

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

const Picture = ({ wave }: { readonly wave: KnownWave }): VNode => {
  useEvents(wave)
  return html`<${Timeline} events=${wave.events} now=${wave.status === "running" ? now.value : undefined}
    onOpen=${(call: { readonly process: string; readonly callId: string }) => {
    location.hash = to("runs", wave.user, wave.session, wave.wave, call.process, call.callId)
  }} />`
}

const Call = (
  { id, process, wave }: { readonly wave: KnownWave; readonly process: string; readonly id: string }
): VNode => {
  useEvents(wave)
  const events = wave.events.filter((it) => it.process === process && "callId" in it && it.callId === id)
  const answered = known.value.ended.filter((it) =>
    it.callId === id && it.user === wave.user && it.session === wave.session && it.requestedAt >= wave.beganAt
  )
  return html`<${Page} title=${html`Call <${SafeText} text=${id} />`} back=${{
    href: to("runs", wave.user, wave.session, wave.wave),
    name: "Run"
  }}>
    <${CallView} events=${events} approvals=${
    known.value.open.filter((it) => it.process === process && it.callId === id)
  } />
    ${
    answered.map((it) =>
      html`<p key=${it.id}>${ending(it)}${it.by === undefined ? "" : html` by <${SafeText} text=${it.by} />`}, ${
        time(it.endedAt)
      }.</p>`
    )
  }</${Page}>`
}
