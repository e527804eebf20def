/** How much an operation has used, and of what. */
import type { VNode } from "preact"
import type { Agent, Operation } from "../server/api/ApiOperations.ts"
import { html } from "./html.ts"
import { now } from "./state.ts"
import { type Thread, tokensOf } from "./thread.ts"
import { cost as costText, minutes, tokens } from "./words.ts"

/** The meters of an operation. */
export const Meters = ({ cost, isOnly, limits, of, thread }: {
  readonly of: Operation | undefined
  /** Of all operations of the conversation. */
  readonly cost: number | undefined
  readonly limits: Agent["limits"] | undefined
  readonly thread: Thread
  /** The conversation has one operation, so that its cost is that of the conversation. */
  readonly isOnly: boolean
}): VNode | null => {
  if (of === undefined) return null
  const work = thread.works.get(of.id)
  const turn = Math.max(of.turn, work?.turn ?? 0)
  const used = Math.max(of.usage.inputTokens + of.usage.outputTokens, tokensOf(thread, of.id))
  return html`<div class="stats" role="group" aria-label="Limits">
    <${Meter} name="Turn" value=${turn} max=${limits?.turns} shown=${String} />
    <${Meter} name="Tokens" value=${used} max=${limits?.tokens} shown=${tokens} />
    ${
    cost === undefined
      ? null
      : html`<${Meter} name="Cost" value=${cost} max=${isOnly ? limits?.cost : undefined} shown=${costText} />`
  }
    <${Elapsed} of=${of} />
  </div>`
}

/** Only this is redrawn every second. */
const Elapsed = ({ of }: { readonly of: Operation }): VNode =>
  html`<${Meter} name="Time" value=${(of.endedAt ?? now.value) - of.startedAt} shown=${minutes} />`

const Meter = ({ max, name, shown, value }: {
  readonly name: string
  readonly value: number
  readonly max?: number | undefined
  readonly shown: (value: number) => string
}): VNode => {
  const percent = max === undefined ? 0 : Math.min(100, Math.round(100 * value / max))
  const level = percent >= 100 ? "full" : percent >= 80 ? "high" : ""
  return html`<div class=${`meter ${level}`}><span>${name}${percent >= 100 ? " · reached" : ""}</span><b>${
    shown(value)
  }${max === undefined ? null : html` <span class="muted hide-s">of ${shown(max)}</span>`}</b>${
    max === undefined ?
      null :
      html`<svg class="track" viewBox="0 0 100 3" preserveAspectRatio="none" role="img" aria-label=${`${percent}% used`}><rect
      width="100" height="3" /><rect width=${percent} height="3" /></svg>`
  }</div>`
}
