/** Rules that approvals on record speak for. An operator accepts one, and adds it to the config. */
import type { VNode } from "preact"
import type { Suggestions as Given } from "../server/api/ApiRecords.ts"
import { post } from "./api.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { say } from "./state.ts"
import { useRead } from "./useRead.ts"
import { count } from "./words.ts"

const accept = async (rule: string) => {
  const { ok } = await post("api/suggestions/accept", { rule })
  say(ok ? "On record. Add the rule to the config." : "Not accepted. Reload the page.")
}

/** The section; empty for users who do not operate the server. */
export const Suggestions = (): VNode | null => {
  const { value: given } = useRead<typeof Given.Type>("api/suggestions")
  return given === undefined || given.suggestions.length === 0
    ? null
    : html`<section class="part"><h2>Suggestions</h2>
    <p class="lead">Approved again and again in ${given.days} days, never denied. Accepting is on record; the rule takes
      effect in <code>policy.allow</code> of the config.</p>
    <ul class="lines">${
      given.suggestions.map(({ approvals, beyond, others, rule }) =>
        html`<li><span class="grow"><${SafeText} text=${JSON.stringify(rule)} />
      <span class="soft"> ${count(approvals, "approval")}. Also lets run: <${SafeText} text=${
          [...others, ...beyond].map(({ targets, tool }) => `${tool}(${targets.join(", ")})`).join(", ")
        } /></span></span><button type="button" onClick=${() => void accept(rule)}>Accept</button></li>`
      )
    }</ul></section>`
}
