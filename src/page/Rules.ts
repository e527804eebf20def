/** The rules, in sentences and as a graph. The code of the graph loads on demand. */
import type { VNode } from "preact"
import { useEffect, useState } from "preact/hooks"
import type { Rules as Given } from "../server/ApiRecords.ts"
import { get, type Problem } from "./api.ts"
import { html } from "./html.ts"
import { useLater } from "./later.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure } from "./pieces.ts"

const graphModule = () => import("./parts/RuleGraph.ts")

/** The view. */
export const Rules = (): VNode => {
  const [rules, setRules] = useState<typeof Given.Type | undefined>(undefined)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const graph = useLater(true, graphModule)
  const read = async () => {
    const reply = await get<typeof Given.Type>("api/rules")
    if (!reply.ok) return setProblem(reply.problem)
    setProblem(undefined)
    setRules(reply.value)
  }
  useEffect(() => void read(), [])
  return html`
    <h1 tabindex="-1" data-heading>Rules</h1>
    ${problem === undefined ? null : html`<${Failure} problem=${problem} onAgain=${() => void read()} />`}
    ${rules === undefined && problem === undefined ? html`<p>Loading …</p>` : null}
    ${
    rules === undefined
      ? null
      : html`
        <h2>In sentences</h2>
        ${
        rules.sentences.length === 0
          ? html`<p>There are no rules.</p>`
          : html`<ul>${rules.sentences.map((it) => html`<li><${SafeText} text=${it} /></li>`)}</ul>`
      }
        ${
        rules.nodes.length === 0
          ? null
          : html`<h2>As a graph</h2>${
            graph === undefined
              ? html`<p>Loading …</p>`
              : graph === "failed"
              ? html`<p class="problem">The graph could not be loaded. Reload the page to try again.</p>`
              : html`<${graph.module.RuleGraph} rules=${rules} />`
          }`
      }`
  }`
}
