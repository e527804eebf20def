/** The form that starts a conversation with an agent. */
import type { VNode } from "preact"
import { useEffect, useState } from "preact/hooks"
import type { Agent } from "../server/api/ApiOperations.ts"
import { get, post, type Problem } from "./api.ts"
import { html } from "./html.ts"
import { Heading, PaneBar } from "./layout.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure, icon } from "./pieces.ts"
import { to } from "./routes.ts"
import { me } from "./state.ts"

/** The form. */
export const NewConversation = (): VNode => {
  const [agents, setAgents] = useState<ReadonlyArray<Agent> | undefined>(undefined)
  const [chosen, choose] = useState<string | undefined>(undefined)
  const [prompt, setPrompt] = useState("")
  const [isSending, setIsSending] = useState(false)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  useEffect(() => {
    void get<ReadonlyArray<Agent>>("api/agents").then((reply) =>
      reply.ok ? setAgents(reply.value) : setProblem(reply.problem)
    )
  }, [])
  const agent = agents?.find(({ name }) => name === chosen) ?? agents?.[0]
  const send = async () => {
    if (isSending || agent === undefined || prompt.trim() === "") return
    setIsSending(true)
    setProblem(undefined)
    const session = `c-${crypto.getRandomValues(new Uint32Array(3)).reduce((text, it) => text + it.toString(36), "")}`
    const reply = await post(`api/sessions/${session}/operations`, { agent: agent.name, prompt: prompt.trim() })
    setIsSending(false)
    if (!reply.ok) return setProblem(reply.problem)
    if (typeof me.value === "object") location.hash = to("conversations", me.value.name, session)
  }
  return html`<${PaneBar} back=${{
    href: to("conversations"),
    name: "Conversations"
  }}><${Heading}>New conversation</${Heading}></${PaneBar}>
    <div class="scroll" tabindex="0"><form class="body start-form" onSubmit=${(event: Event) => {
    event.preventDefault()
    void send()
  }}>
      ${problem === undefined ? null : html`<${Failure} problem=${problem} />`}
      ${
    agents?.length === 0 ? html`<p><b>No agents.</b> The operator adds <code>agents</code> to the config.</p>` : null
  }
      ${
    agents === undefined || agents.length === 0 ? null : html`
      <label class="field"><span>Agent</span><select class="input" data-key="agent" value=${agent?.name} onChange=${(
      event: Event
    ) => choose((event.currentTarget as HTMLSelectElement).value)}>${
      agents.map(({ name }) => html`<option value=${name}>${name}</option>`)
    }</select></label>
      ${agent === undefined ? null : html`<${About} of=${agent} />`}
      <label class="field"><span>Message</span><textarea class="input" rows="5" maxlength="100000" value=${prompt} placeholder="What should the agent do?"
        onInput=${(event: Event) => setPrompt((event.currentTarget as HTMLTextAreaElement).value)} onKeyDown=${(
      event: KeyboardEvent
    ) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      void send()
    }}></textarea></label>
      <p><button class="btn primary" type="submit" aria-disabled=${isSending || prompt.trim() === ""}>${icon("send")}${
      isSending ? "Sending" : "Start"
    }</button></p>`
  }
    </form></div>`
}

const About = ({ of: { description, model, subAgents, tools } }: { readonly of: Agent }): VNode =>
  html`<dl class="why">
    ${description === undefined ? null : html`<dt>Purpose</dt><dd><${SafeText} text=${description} /></dd>`}
    ${model === undefined ? null : html`<dt>Model</dt><dd class="mono"><${SafeText} text=${model} /></dd>`}
    ${tools.length === 0 ? null : html`<dt>Tools</dt><dd class="mono"><${SafeText} text=${tools.join(", ")} /></dd>`}
    ${
    subAgents.length === 0
      ? null
      : html`<dt>Sub-agents</dt><dd class="mono"><${SafeText} text=${subAgents.join(", ")} /></dd>`
  }
  </dl>`
