/** The health of the server, refreshed every ten seconds while it is shown. */
import type { VNode } from "preact"
import { useEffect, useState } from "preact/hooks"
import type { Status } from "../server/ApiRecords.ts"
import { get, type Problem } from "./api.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure } from "./pieces.ts"
import { connection } from "./state.ts"

/** The view. */
export const Health = (): VNode => {
  const [status, setStatus] = useState<Status | undefined>(undefined)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const read = async () => {
    const reply = await get<Status>("api/status")
    if (!reply.ok) return setProblem(reply.problem)
    setProblem(undefined)
    setStatus(reply.value)
  }
  useEffect(() => {
    void read()
    const timer = setInterval(() => void read(), 10_000)
    return () => clearInterval(timer)
  }, [])
  return html`
    <h1 tabindex="-1" data-heading>Health</h1>
    ${problem === undefined ? null : html`<${Failure} problem=${problem} onAgain=${() => void read()} />`}
    <dl class="facts">
      <div><dt>Live updates</dt><dd>${connection.value === "live" ? "connected" : "not connected"}</dd></div>
      ${
    status === undefined
      ? null
      : html`
        <div><dt>Server</dt><dd>${status.status}</dd></div>
        ${
        status.checks.map((it) =>
          html`<div key=${it.name}><dt>${it.name}</dt><dd>${it.isOk ? "ok" : "failing"}${
            it.problem === undefined ? null : html`: <${SafeText} text=${it.problem} />`
          }</dd></div>`
        )
      }
        ${
        Object.entries(status.counts ?? {}).map(([name, number]) =>
          html`<div key=${name}><dt>${name[0]?.toUpperCase()}${name.slice(1)}</dt><dd>${number}</dd></div>`
        )
      }`
  }
    </dl>`
}
