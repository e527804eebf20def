/** The journal as a table of calls, filtered, page after page, with one of them next to it. */
import type { VNode } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import type { CallState, RecordedCall, RecordedCalls } from "../server/api/ApiRecords.ts"
import { get, type Problem } from "./api.ts"
import { html } from "./html.ts"
import { JournalCall } from "./JournalCall.ts"
import { Heading } from "./layout.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure, icon } from "./pieces.ts"
import { clockOf, dayOf, decided, Path, RecordMark, targetIn, took } from "./record.ts"
import { route, to } from "./routes.ts"
import { known, say } from "./state.ts"
import { count } from "./words.ts"

/** The view. `#/journal/<place>` shows a call, `#/journal/of/<user>/<session>` those of a conversation. */
export const Journal = (): VNode => {
  const [first, user, session] = route.value.parts
  const isOf = first === "of" && user !== undefined && session !== undefined
  const place = isOf ? undefined : first
  // opening a call does not reload the list
  const scope = useRef<Scope | undefined>(undefined)
  if (isOf) scope.current = { user, session }
  return html`<div class=${place === undefined ? "split" : "split drawer open"}>
    <${Calls} key=${JSON.stringify(scope.current ?? "")} scope=${scope.current} place=${place} onEverything=${() => {
    scope.current = undefined
    location.hash = to("journal")
  }} />
    ${place === undefined ? null : html`<${JournalCall} key=${place} place=${place} />`}
  </div>`
}

/** A conversation whose calls are listed. */
interface Scope {
  readonly user: string
  readonly session: string
}

const times = [
  { name: "Last hour", millis: 3_600_000 },
  { name: "Last 24 hours", millis: 86_400_000 },
  { name: "Last 7 days", millis: 604_800_000 },
  { name: "All time", millis: undefined }
] as const

const outcomes: ReadonlyArray<readonly [CallState, string]> = [
  ["waiting", "Needs approval"],
  ["running", "Running"],
  ["succeeded", "Succeeded"],
  ["failed", "Failed"],
  ["timedOut", "Timed out"],
  ["denied", "Denied"],
  ["cancelled", "Cancelled"],
  ["skipped", "Skipped"],
  ["suspended", "Suspended"],
  ["unknown", "Unknown"]
]

/** Filters as the form has them; empty: any. */
interface Filters {
  readonly search: string
  readonly time: string
  readonly state: string
  readonly tool: string
  readonly agent: string
}

/** Calls of a page. */
const size = 50

/** Empty pages in a row that are read without being asked for: matches may be rare. */
const mostEmpty = 10

const Calls = ({ onEverything, place, scope }: {
  readonly scope: Scope | undefined
  readonly place: string | undefined
  readonly onEverything: () => void
}): VNode => {
  const initial: Filters = { search: "", time: scope === undefined ? "1" : "3", state: "", tool: "", agent: "" }
  const [filters, setFilters] = useState(initial)
  const [calls, setCalls] = useState<ReadonlyArray<RecordedCall>>([])
  const [next, setNext] = useState<number | undefined>(undefined)
  const [isReading, setIsReading] = useState(true)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const latest = useRef(0)
  const read = async (filters: Filters, before: number | undefined) => {
    const number = ++latest.current
    setIsReading(true)
    const query = queryOf(filters, scope)
    let [from, found] = [before, [] as ReadonlyArray<RecordedCall>]
    for (let empty = 0; empty < mostEmpty && found.length === 0; empty++) {
      const reply = await get<typeof RecordedCalls.Type>(
        `api/journal/calls?limit=${size}${query}${from === undefined ? "" : `&before=${from}`}`
      )
      if (number !== latest.current) return
      if (!reply.ok) {
        setIsReading(false)
        return setProblem(reply.problem)
      }
      found = reply.value.calls
      from = reply.value.next
      if (from === undefined) break
    }
    setProblem(undefined)
    setIsReading(false)
    setNext(from)
    setCalls((all) => before === undefined ? found : [...all, ...found])
    say(`${count(found.length, "call")} found.`)
  }
  useEffect(() => {
    const timer = setTimeout(() => void read(filters, undefined), filters === initial ? 0 : 250)
    return () => clearTimeout(timer)
  }, [filters])
  const set = (name: keyof Filters) => (event: Event) =>
    setFilters({ ...filters, [name]: (event.currentTarget as HTMLInputElement).value })
  const pick = (name: keyof Filters, label: string, options: ReadonlyArray<readonly [string, string]>) =>
    html`<select class=${filters[name] === "" ? "pick" : "pick on"} aria-label=${label} value=${
      filters[name]
    } onChange=${set(name)}>${options.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select>`
  const isFiltered = filters.search !== "" || filters.state !== "" || filters.tool !== "" || filters.agent !== ""
  return html`<section class="pane first" aria-label="Calls">
    <div class="bar">${
    place === undefined ? html`<${Heading}>Journal</${Heading}>` : html`<h2>Journal</h2>`
  }<span class="muted small num nowrap">${
    calls.length === 0 ? "" : `${calls.length}${next === undefined ? "" : "+"} ${calls.length === 1 ? "call" : "calls"}`
  }</span><span class="grow"></span>${
    scope === undefined
      ? null
      : html`<span class="tag cut"><${SafeText} text=${
        titleOf(scope)
      } /></span><button class="btn quiet slim" type="button" onClick=${onEverything}>All conversations</button>`
  }</div>
    <form class="tools" role="search" onSubmit=${(event: Event) => {
    event.preventDefault()
    void read(filters, undefined)
  }}>
      <label class="inset">${
    icon("search")
  }<span class="unseen">Search calls</span><input type="search" data-key="search" placeholder="Search" autocomplete="off" value=${filters.search} onInput=${
    set("search")
  } /></label>
      ${pick("time", "Time", times.map(({ name }, at) => [String(at), name]))}
      ${pick("state", "Outcome", [["", "Any outcome"], ...outcomes])}
      <input class="pick" type="text" aria-label="Tool" placeholder="Tool" list="journal-tools" autocomplete="off" size="12" value=${filters.tool} onInput=${
    set("tool")
  } />
      <datalist id="journal-tools">${namesIn(calls, ({ tool }) => tool)}</datalist>
      <input class="pick" type="text" aria-label="Agent" placeholder="Agent" list="journal-agents" autocomplete="off" size="12" value=${filters.agent} onInput=${
    set("agent")
  } />
      <datalist id="journal-agents">${namesIn(calls, ({ agentPath }) => agentPath.at(-1) ?? "")}</datalist>
    </form>
    <div class="scroll" tabindex="0" role="region" aria-label="Calls, newest first">
      ${
    problem === undefined
      ? null
      : html`<div class="body"><${Failure} problem=${problem} onAgain=${() => void read(filters, undefined)} /></div>`
  }
      ${calls.length === 0 ? null : html`<${Table} of=${calls} place=${place} />`}
      ${
    calls.length > 0 || problem !== undefined
      ? null
      : isReading
      ? html`<p class="hint muted" role="status">Loading …</p>`
      : html`<div class="empty">${icon("journal")}<h2>${
        isFiltered
          ? "No calls match."
          : filters.time === "3"
          ? "No calls."
          : `No calls in the ${times[Number(filters.time)]!.name.toLowerCase()}.`
      }</h2>${
        isFiltered
          ? html`<p><button class="btn slim" type="button" onClick=${() =>
            setFilters(initial)}>Clear filters</button></p>`
          : null
      }</div>`
  }
      ${
    next === undefined
      ? null
      : html`<p class="hint"><button class="btn slim" type="button" aria-disabled=${isReading} onClick=${() =>
        isReading ? undefined : void read(filters, next)}>${
        isReading ? "Loading" : calls.length === 0 ? "Search further back" : "Show older"
      }</button></p>`
  }
    </div>
  </section>`
}

const queryOf = ({ agent, search, state, time, tool }: Filters, scope: Scope | undefined): string => {
  const { millis } = times[Number(time)]!
  const fields = {
    search: search.trim(),
    state,
    tool: tool.trim(),
    agent: agent.trim(),
    since: millis === undefined ? "" : String(Date.now() - millis),
    user: scope?.user ?? "",
    session: scope?.session ?? ""
  }
  return Object.entries(fields).filter(([, value]) => value !== "").map(([name, value]) =>
    `&${name}=${encodeURIComponent(value)}`
  ).join("")
}

const titleOf = ({ session, user }: Scope): string =>
  known.value.conversations.find((it) => it.user === user && it.session === session)?.title || session

const namesIn = (calls: ReadonlyArray<RecordedCall>, of: (call: RecordedCall) => string) =>
  Array.from(new Set(calls.map(of))).filter((it) => it !== "").slice(0, 50).map((it) => html`<option value=${it} />`)

const Table = ({ of, place }: {
  readonly of: ReadonlyArray<RecordedCall>
  readonly place: string | undefined
}): VNode =>
  html`<table class="grid fixed calls-table">
    <thead><tr><th class="w-state" scope="col">Outcome</th><th scope="col">Call</th><th class="w-by" scope="col">Decided by</th><th class="w-took" scope="col">Ran</th><th class="w-time" scope="col">Time</th></tr></thead>
    <tbody>${
    of.map((it, at) =>
      html`${
        at > 0 && dayOf(of[at - 1]!.at) === dayOf(it.at)
          ? null
          : html`<tr class="day" key=${dayOf(it.at)}><th colspan="5" scope="colgroup">${dayOf(it.at)}</th></tr>`
      }<${Row} key=${it.place} of=${it} isChosen=${String(it.place) === place} />`
    )
  }</tbody></table>`

const Row = ({ isChosen, of }: { readonly of: RecordedCall; readonly isChosen: boolean }): VNode =>
  html`<tr><td><${RecordMark} of=${of.state} /></td>
    <td class="full"><a class="open mono" href=${to("journal", String(of.place))} aria-current=${
    isChosen ? "true" : undefined
  }><${SafeText} text=${
    targetIn(of)
  } /></a><span class="muted"><span class="mono"><${SafeText} text=${of.tool} /></span> · <${Path} of=${[
    of.user,
    ...of.agentPath
  ]} /></span></td>
    <td class=${of.decidedBy === undefined ? "muted hide-s" : "muted"}><${SafeText} text=${decided(of)} /></td>
    <td class=${of.startedAt === undefined ? "muted num hide-s" : "muted num"}>${took(of)}</td>
    <td class="muted num end"><time>${clockOf(of.at)}</time></td></tr>`
