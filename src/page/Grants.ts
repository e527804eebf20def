/** Standing approvals, and revoking them. */
import type { VNode } from "preact"
import { useState } from "preact/hooks"
import type { Grant } from "../server/api/ApiRecords.ts"
import { remove } from "./api.ts"
import { html } from "./html.ts"
import { Empty, Page } from "./layout.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Who } from "./pieces.ts"
import { now, say } from "./state.ts"
import { Suggestions } from "./Suggestions.ts"
import { useRead } from "./useRead.ts"
import { clock, span } from "./words.ts"

/** The view. */
export const Grants = (): VNode => {
  const { fail, failure, read, value: grants } = useRead<ReadonlyArray<typeof Grant.Type>>("api/grants")
  const revoke = async ({ id, tool }: typeof Grant.Type) => {
    const reply = await remove(`api/grants/${encodeURIComponent(id)}`)
    if (!reply.ok) fail(reply.problem)
    else say(`Revoked. The next call of ${tool} needs approval again.`)
    document.querySelector<HTMLElement>("[data-heading]")?.focus()
    await read()
  }
  const valid = grants?.filter((it) => it.expiresAt === undefined || it.expiresAt > now.value)
  return html`<${Page} title="Grants" note=${valid === undefined ? undefined : `${valid.length} active`}>
    ${failure}
    ${
    valid === undefined
      ? failure === null ? html`<p>Loading …</p>` : null
      : valid.length === 0
      ? html`<${Empty} of="key" title="No grants.">Every call that needs approval asks.</${Empty}>`
      : html`
        <p class="lead">A grant lets matching calls run without a new request. Revoking one stops future calls, not those
          already running.</p>
        <table class="grid"><thead><tr>
          <th scope="col">Calls</th><th scope="col">Of</th><th scope="col">Given</th><th scope="col">Expires</th>
          <th scope="col"><span class="unseen">Action</span></th>
        </tr></thead><tbody>
          ${valid.map((it) => html`<${One} key=${it.id} grant=${it} onRevoke=${() => void revoke(it)} />`)}
        </tbody></table>`
  }
    <${Suggestions} />
  </${Page}>`
}

const One = (
  { grant, onRevoke }: { readonly grant: typeof Grant.Type; readonly onRevoke: () => void }
): VNode => {
  const [isSure, setIsSure] = useState(false)
  const { expiresAt, grantedAt, tool } = grant
  const targets = [...grant.targets ?? [], ...grant.patterns ?? []]
  return html`<tr>
    <td class="full"><span class="mono"><${SafeText} text=${tool} /></span> <span class="mono soft">${
    targets.length === 0
      ? "every call"
      : targets.map((it, at) => html`${at > 0 ? ", " : ""}<${SafeText} text=${it} />`)
  }</span></td>
    <td><${Who} of=${grant} /></td>
    <td class="muted">${clock(grantedAt)}</td>
    <td class=${expiresAt === undefined ? "wait-t" : ""}>${
    expiresAt === undefined ? "Never, until revoked" : `in ${span(expiresAt - now.value)}`
  }</td>
    <td class="end nowrap">${
    isSure
      ? html`<button class="btn deny slim" type="button" onClick=${onRevoke}>Revoke now</button> <button class="btn slim"
          type="button" onClick=${() => setIsSure(false)}>Keep</button>`
      : html`<button class="btn slim" type="button" onClick=${() =>
        setIsSure(true)}>Revoke<span class="unseen"> <${SafeText}
          text=${[tool, ...targets].join(" ")} /></span></button>`
  }</td>
  </tr>`
}
