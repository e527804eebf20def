/** Shows the arguments of a call: names and values, with strings as plain text. */
import type { VNode } from "preact"
import { useState } from "preact/hooks"
import { html } from "../html.ts"
import { SafeText } from "./SafeText.ts"
import type { ArgumentsProps } from "./types.ts"

/** JSON as a list of names and values. */
export const Arguments = ({ value }: ArgumentsProps): VNode => html`<${Value} value=${value} depth=${0} />`

/** Deeper values are shown as JSON. */
const maxDepth = 6

/** How many entries are shown first. */
const step = 50

const Value = ({ depth, value }: { readonly value: unknown; readonly depth: number }): VNode => {
  if (typeof value === "string") {
    return value.includes("\n") || value.length > 200
      ? html`<div class="args-text"><${SafeText} text=${value} block /></div>`
      : html`<span class="args-string"><${SafeText} text=${value} /></span>`
  }
  if (typeof value !== "object" || value === null) {
    return html`<code>${value === undefined ? "nothing" : JSON.stringify(value)}</code>`
  }
  const entries = Object.entries(value)
  if (entries.length === 0) return html`<code>${Array.isArray(value) ? "[]" : "{}"}</code>`
  if (depth >= maxDepth) return html`<${SafeText} text=${JSON.stringify(value, undefined, 2)} block />`
  return html`<${Entries} entries=${entries} depth=${depth} isList=${Array.isArray(value)} />`
}

const Entries = ({ depth, entries, isList }: {
  readonly entries: ReadonlyArray<readonly [string, unknown]>
  readonly depth: number
  readonly isList: boolean
}): VNode => {
  const [most, setMost] = useState(step)
  const left = entries.length - most
  return html`<div class="args">
    <dl>${
    entries.slice(0, most).map(([name, inner]) =>
      html`<div key=${name}>
        <dt><${SafeText} text=${isList ? String(Number(name) + 1) : name} /></dt>
        <dd><${Value} value=${inner} depth=${depth + 1} /></dd>
      </div>`
    )
  }</dl>
    ${
    left > 0 && html`<button class="btn slim" type="button" onClick=${() =>
      setMost(most + step * 4)}>${`${left} more`}</button>`
  }
  </div>`
}
