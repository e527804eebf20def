/** The field for a message to an agent. While the agent works, it reads the message before its next turn. */
import type { VNode } from "preact"
import { useRef, useState } from "preact/hooks"
import { post, type Problem, type Reply } from "./api.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure, icon } from "./pieces.ts"
import { connection, say } from "./state.ts"
import { count } from "./words.ts"

/** The field, and what the agent waits for. */
export const Compose = ({ agent, isOwn, operation, owner, session, waiting }: {
  readonly agent: string
  readonly owner: string
  readonly session: string
  /** The operation that runs. */
  readonly operation: string | undefined
  /** How many calls need approval. */
  readonly waiting: number
  readonly isOwn: boolean
}): VNode => {
  const field = useRef<HTMLTextAreaElement>(null)
  const [text, setText] = useState("")
  const [isSending, setIsSending] = useState(false)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const send = async (settle: boolean) => {
    const prompt = text.trim()
    if (isSending || prompt === "") return field.current?.focus()
    setIsSending(true)
    setProblem(undefined)
    const path = `api/sessions/${encodeURIComponent(session)}/operations`
    const reply: Reply<unknown> = operation === undefined
      ? await post(path, { agent, prompt })
      : await post(`${path}/${encodeURIComponent(operation)}/messages`, { text: prompt, ...settle ? { settle } : {} })
    setIsSending(false)
    if (!reply.ok) return setProblem(reply.problem)
    setText("")
    say(operation === undefined ? "Sent." : settle ? "Requests denied. Sent." : "Queued until the next turn.")
    field.current?.focus()
  }
  const isLost = connection.value === "lost"
  const isOff = isSending || isLost
  return html`<div class="compose"><form aria-label="Message" onSubmit=${(event: Event) => {
    event.preventDefault()
    if (!isOff) void send(false)
  }}>
    ${
    waiting === 0 ?
      null :
      html`<p class="needs">${
        icon("hand")
      }<span class="grow"><button type="button" class="mini start" data-key="wants" onClick=${showFirst}>${`${
        count(waiting, "call")
      } ${waiting === 1 ? "needs" : "need"} approval`}</button></span>${
        isOwn
          ? html`<button class="btn quiet slim" type="button" aria-disabled=${
            isOff || text.trim() === ""
          } onClick=${() => isOff ? undefined : void send(true)}>Deny and send now</button>`
          : null
      }</p>`
  }
    ${problem === undefined ? null : html`<${Failure} problem=${problem} />`}
    ${
    isOwn
      ? html`<div class="box"><label class="unseen" for="say">Message <${SafeText} text=${agent} /></label>
        <textarea id="say" ref=${field} data-key="say" rows=${
        Math.min(8, text.split("\n").length)
      } maxlength="100000" value=${text} placeholder=${
        operation === undefined ? "Continue this conversation" : `Message ${agent}. Read before the next turn.`
      } onInput=${(event: Event) => setText((event.currentTarget as HTMLTextAreaElement).value)} onKeyDown=${(
        event: KeyboardEvent
      ) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return
        event.preventDefault()
        if (!isOff) void send(false)
      }}></textarea>
        <button class="btn primary" type="submit" aria-disabled=${isOff}>${icon("send")}<span class="hide-s">${
        isSending ? "Sending" : "Send"
      }</span><span class="unseen show-s">Send</span></button></div>`
      : html`<p class="small muted">Only <${SafeText} text=${owner} /> can write in this conversation.</p>`
  }
  </form></div>`
}

/** Goes to the first call that needs approval. */
const showFirst = (): void => {
  const first = document.querySelector<HTMLElement>("[data-wants]")
  first?.scrollIntoView({ block: "center" })
  first?.querySelector<HTMLElement>("button, a")?.focus({ preventScroll: true })
}
