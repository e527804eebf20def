/** The rules, in sentences and as a graph. The code of the graph loads on demand. */
import type { VNode } from "preact"
import type { Rules as Given } from "../server/api/ApiRecords.ts"
import { html } from "./html.ts"
import { useLater } from "./later.ts"
import { Empty, Page } from "./layout.ts"
import { SafeText } from "./parts/SafeText.ts"
import { icon } from "./pieces.ts"
import { useRead } from "./useRead.ts"

const graphModule = () => import("./parts/RuleGraph.ts")

/** The view. */
export const Rules = (): VNode => {
  const { failure, value: rules } = useRead<typeof Given.Type>("api/rules")
  const graph = useLater(true, graphModule)
  return html`<${Page} title="Rules">
    ${failure}
    ${rules === undefined && failure === null ? html`<p>Loading …</p>` : null}
    ${
    rules === undefined
      ? null
      : rules.sentences.length === 0
      ? html`<${Empty} of="rules" title="No rules.">Calls run in any order. Add <code>rules</code> to the config.</${Empty}>`
      : html`
        <p class="lead">Rules are checked before the policy and approvals. Models read these sentences.</p>
        <ul class="lines">${
        rules.sentences.map((it) =>
          html`<li><span class="state none">${
            icon("shield")
          }</span><span class="grow"><${SafeText} text=${it} /></span></li>`
        )
      }</ul>
        ${
        rules.nodes.length === 0
          ? null
          : html`<section class="part"><h2>Order of calls</h2>${
            graph === undefined
              ? html`<p>Loading …</p>`
              : graph === "failed"
              ? html`<p class="note wait">The graph could not be loaded. Reload the page to try again.</p>`
              : html`<${graph.module.RuleGraph} rules=${rules} />`
          }</section>`
      }`
  }
  </${Page}>`
}
