/** The journal: what happened to calls lately, searched, page after page. */
import type { VNode } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import type { Entries, Entry } from "../server/ApiRecords.ts"
import { get, type Problem } from "./api.ts"
import { html } from "./html.ts"
import { Page } from "./layout.ts"
import { Arguments } from "./parts/Arguments.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure, Who } from "./pieces.ts"
import { say } from "./state.ts"
import { count, time } from "./words.ts"

const fields = [
  { name: "search", title: "Text" },
  { name: "tool", title: "Tool" },
  { name: "call", title: "Call" },
  { name: "user", title: "User" },
  { name: "session", title: "Session" }
] as const

const size = 100

/** The view. */
export const Journal = (): VNode => {
  const form = useRef<HTMLFormElement>(null)
  const [query, setQuery] = useState("")
  const [entries, setEntries] = useState<ReadonlyArray<typeof Entry.Type>>([])
  const [next, setNext] = useState<number | undefined>(undefined)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const read = async (query: string, place: number | undefined) => {
    const before = place === undefined ? "" : `&before=${place}`
    const reply = await get<typeof Entries.Type>(`api/journal?limit=${size}${query}${before}`)
    if (!reply.ok) return setProblem(reply.problem)
    setProblem(undefined)
    setNext(reply.value.next)
    setEntries((before) => place === undefined ? reply.value.entries : [...before, ...reply.value.entries])
    say(`${count(reply.value.entries.length, "entry", "entries")} found.`)
  }
  useEffect(() => void read("", undefined), [])
  const submit = (event: Event) => {
    event.preventDefault()
    const data = new FormData(form.current ?? undefined)
    const query = fields.flatMap(({ name }) => {
      const value = String(data.get(name) ?? "").trim()
      return value === "" ? [] : [`&${name}=${encodeURIComponent(value)}`]
    }).join("")
    setQuery(query)
    void read(query, undefined)
  }
  return html`<${Page} title="Journal">
    <form class="row search" role="search" ref=${form} onSubmit=${submit}>
      ${
    fields.map(({ name, title }) =>
      html`<p><label for=${`journal-${name}`}>${title}</label><input class="input" data-key=${name} id=${`journal-${name}`} name=${name} type="text" autocomplete="off" /></p>`
    )
  }
      <button type="submit" class="btn primary">Search</button>
    </form>
    ${problem === undefined ? null : html`<${Failure} problem=${problem} />`}
    ${entries.length === 0 && problem === undefined ? html`<p>Nothing found.</p>` : null}
    <ol class="cards">
      ${entries.map((it) => html`<${One} key=${it.place} entry=${it} />`)}
    </ol>
    ${
    next === undefined
      ? null
      : html`<button class="btn" type="button" onClick=${() => void read(query, next)}>Show older</button>`
  }</${Page}>`
}

const One = ({ entry: whole }: { readonly entry: typeof Entry.Type }): VNode => {
  const { entry } = whole
  const [isOpen, setIsOpen] = useState(false)
  const fields = typeof entry === "object" && entry !== null && !Array.isArray(entry)
    ? entry as Readonly<Record<string, unknown>>
    : {}
  const text = (name: string): string => typeof fields[name] === "string" ? fields[name] : ""
  const title = [text("_tag"), text("tool"), text("callId")].filter((it) => it !== "").join(" ")
  return html`
    <li class="card">
      <details onToggle=${(event: Event) => setIsOpen((event.currentTarget as HTMLDetailsElement).open)}>
        <summary><${SafeText} text=${title === "" ? "Entry" : title} /> <span class="muted">${
    typeof fields["at"] === "number" ? time(fields["at"]) : ""
  } <${Who} of=${whole} /></span></summary>
        ${isOpen ? html`<${Arguments} value=${entry} />` : null}
      </details>
    </li>`
}
