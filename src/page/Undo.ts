/** Undoes the write of a call: what would be restored or removed, and what has changed since. All files, or none. */
import type { VNode } from "preact"
import { useEffect, useState } from "preact/hooks"
import type { Checkpoint, UndoPlan } from "../server/api/ApiRecords.ts"
import { get, post, type Problem, type Reply } from "./api.ts"
import { html } from "./html.ts"
import { Empty, Heading, Note } from "./layout.ts"
import { DiffText } from "./parts/Diff.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Failure, icon } from "./pieces.ts"
import { route } from "./routes.ts"
import { say } from "./state.ts"
import { count } from "./words.ts"

type Plan = typeof UndoPlan.Type

/** The view: `#/undo/user/session/call`. */
export const Undo = (): VNode => {
  const [user = "", session = "", callId = ""] = route.value.parts
  const [plan, setPlan] = useState<Plan | "none" | undefined>(undefined)
  const [done, setDone] = useState<Plan | undefined>(undefined)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const path = (checkpoint = "", more = "") =>
    `api/sessions/${encodeURIComponent(session)}/checkpoints${checkpoint}${more}?user=${encodeURIComponent(user)}`
  const read = async () => {
    const all = await get<ReadonlyArray<typeof Checkpoint.Type>>(path())
    if (!all.ok) return setProblem(all.problem)
    const found = all.value.find((it) => it.callId === callId && it.paths.length > 0)
    if (found === undefined) return setPlan("none")
    const reply = await get<Plan>(path(`/${encodeURIComponent(found.id)}`))
    if (!reply.ok) return setProblem(reply.problem)
    setProblem(undefined)
    setPlan(reply.value)
  }
  useEffect(() => void read(), [user, session, callId])
  const changed = typeof plan === "object" ? plan.steps.filter((it) => it.action === "changed").length : 0
  const undo = async ({ checkpoint: { id } }: Plan) => {
    const reply: Reply<Plan> = await post(path(`/${encodeURIComponent(id)}`, "/undo"), { force: changed > 0 })
    if (!reply.ok) return setProblem(reply.problem)
    setDone(reply.value)
    say(`Undone: ${count(reply.value.steps.length, "file")}.`)
  }
  return html`
    <div class="bar">
      <button class="btn quiet" type="button" onClick=${() => history.back()}>${icon("left")}Back</button>
      <${Heading} class="cut grow">Undo <span class="mono"><${SafeText} text=${
    typeof plan === "object" ? plan.checkpoint.tool : ""
  } /></span></${Heading}>
    </div>
    <div class="scroll" tabindex="0"><div class="page">
      ${problem === undefined ? null : html`<${Failure} problem=${problem} onAgain=${() => void read()} />`}
      ${
    done !== undefined
      ? html`<${Note} as="ok" of="ok"><b>Undone.</b> ${count(done.steps.length, "file")} ${
        done.steps.length === 1 ? "is" : "are"
      } as before the call.</${Note}>`
      : plan === "none"
      ? html`<${Empty} of="undo" title="Nothing to undo.">The call has written nothing yet, or its checkpoint is no longer
          stored.</${Empty}>`
      : plan === undefined
      ? problem === undefined ? html`<p>Loading …</p>` : null
      : html`<${PlanOf} plan=${plan} />`
  }
    </div></div>
    ${
    typeof plan !== "object" || done !== undefined ? null : html`<div class="decide" role="group" aria-label="Undo">
      <p class="line"><span class=${changed > 0 ? "wait-t" : ""}>${
      changed > 0 ? html`<b>${count(changed, "file")} changed since.</b> Undo would overwrite that change. ` : null
    }All files are restored together, or none.</span></p>
      <div class="acts"><button class="btn" type="button" onClick=${() => history.back()}>Keep files</button>
        <button class=${changed > 0 ? "btn deny" : "btn primary"} type="button" onClick=${() => void undo(plan)}>${
      changed > 0 ? "Overwrite and undo" : "Undo"
    }</button></div>
    </div>`
  }`
}

const actions = {
  restore: ["ok", "undo", "Restore", "Gets the content from before the call."],
  remove: ["ok", "undo", "Remove", "The call created this file."],
  nothing: ["", "check", "Unchanged", "Is as before the call."],
  changed: ["wait", "wait", "Changed since", "Undo would overwrite that change."],
  refused: ["bad", "bad", "Refused", "Cannot be undone."]
} as const

const PlanOf = ({ plan: { diff, notCovered, steps } }: { readonly plan: Plan }): VNode =>
  html`
  <p class="lead">Undo puts files back to what they were before this call. Nothing else is undone: commands, mail and
    network requests stay as they are.</p>
  <ul class="lines">${
    steps.map(({ action, because, path }) => {
      const [color, shape, word, why] = actions[action]
      return html`<li key=${path}><span class=${`state ${color === "" ? "none" : color}`}>${icon(shape)}</span>
      <span class="grow"><span class="mono"><${SafeText} text=${path} /></span><br /><span class="small muted">${
        because === undefined ? why : html`<${SafeText} text=${because} />`
      }</span></span><span class=${`tag ${color}`}>${word}</span></li>`
    })
  }</ul>
  ${
    notCovered.length === 0 ?
      null :
      html`<${Note} as="wait"><b>${
        count(notCovered.length, "later call")
      } may have changed files without saying which.</b> Undo does not cover what they did.</${Note}>`
  }
  ${diff === "" ? null : html`<div class="part"><${DiffText} diff=${diff} /></div>`}`
