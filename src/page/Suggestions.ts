/** Rules that approvals on record speak for. An operator copies one into the config; nothing applies it. */
import type { VNode } from "preact"
import { useEffect, useState } from "preact/hooks"
import type { Suggestions as Given } from "../server/ApiRecords.ts"
import { get } from "./api.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { count } from "./words.ts"

/** The section; empty for users who do not operate the server. */
export const Suggestions = (): VNode | null => {
  const [given, setGiven] = useState<typeof Given.Type | undefined>(undefined)
  useEffect(() => void get<typeof Given.Type>("api/suggestions").then((it) => it.ok && setGiven(it.value)), [])
  return given === undefined || given.suggestions.length === 0
    ? null
    : html`<section class="part"><h2>Suggestions</h2>
    <p class="lead">Approved again and again in ${given.days} days, never denied. To accept a rule, add it to
      <code>policy.allow</code> in the config.</p>
    <ul class="lines">${
      given.suggestions.map(({ approvals, beyond, others, rule }) =>
        html`<li><span class="grow"><${SafeText} text=${JSON.stringify(rule)} />
      <span class="soft"> ${count(approvals, "approval")}. Also lets run: <${SafeText} text=${
          [...others, ...beyond].map(({ targets, tool }) => `${tool}(${targets.join(", ")})`).join(", ")
        } /></span></span></li>`
      )
    }</ul></section>`
}
