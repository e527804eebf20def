/** Standing approvals, and revoking them. */
import type { VNode } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import type { Grant } from "../server/ApiRecords.ts"
import { get, type Problem, remove } from "./api.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure, Who } from "./pieces.ts"
import { now, say } from "./state.ts"
import { count, span, time } from "./words.ts"

/** The view. */
export const Grants = (): VNode => {
  const [grants, setGrants] = useState<ReadonlyArray<typeof Grant.Type> | undefined>(undefined)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const heading = useRef<HTMLHeadingElement>(null)
  const read = async () => {
    const reply = await get<ReadonlyArray<typeof Grant.Type>>("api/grants")
    if (!reply.ok) return setProblem(reply.problem)
    setProblem(undefined)
    setGrants(reply.value)
  }
  useEffect(() => void read(), [])
  const revoke = async ({ id, tool }: typeof Grant.Type) => {
    const reply = await remove(`api/grants/${encodeURIComponent(id)}`)
    if (!reply.ok) setProblem(reply.problem)
    else say(`Revoked. The next call of ${tool} needs approval again.`)
    heading.current?.focus()
    await read()
  }
  const valid = grants?.filter((it) => it.expiresAt === undefined || it.expiresAt > now.value)
  return html`
    <h1 tabindex="-1" data-heading ref=${heading}>Grants</h1>
    ${problem === undefined ? null : html`<${Failure} problem=${problem} onAgain=${() => void read()} />`}
    ${
    valid === undefined
      ? problem === undefined ? html`<p>Loading …</p>` : null
      : html`<p>${valid.length === 0 ? "There are no grants." : `${count(valid.length, "grant")}.`}</p>`
  }
    <ul class="cards">
      ${valid?.map((it) => html`<${One} key=${it.id} grant=${it} onRevoke=${() => void revoke(it)} />`)}
    </ul>`
}

const One = (
  { grant, onRevoke }: { readonly grant: typeof Grant.Type; readonly onRevoke: () => void }
): VNode => {
  const [isSure, setIsSure] = useState(false)
  const { expiresAt, grantedAt, targets, tool } = grant
  return html`
    <li class="card"><div class="what">
      <strong><${SafeText} text=${tool} /></strong>
      ${
    targets === undefined
      ? html`<p>All calls</p>`
      : html`<ul class="plain">${targets.map((it) => html`<li class="target"><${SafeText} text=${it} /></li>`)}</ul>`
  }
      <p class="muted"><${Who} of=${grant} />, since ${time(grantedAt)}, ${
    expiresAt === undefined ? "until revoked" : `expires in ${span(expiresAt - now.value)}`
  }</p>
      <p class="row">${
    isSure
      ? html`<button type="button" class="deny" onClick=${onRevoke}>Revoke now</button>
        <button type="button" onClick=${() => setIsSure(false)}>Keep</button>`
      : html`<button type="button" aria-label=${`Revoke ${tool}`} onClick=${() => setIsSure(true)}>Revoke</button>`
  }</p>
    </div></li>`
}
