/** The health of the server, refreshed every ten seconds while it is shown. */
import type { VNode } from "preact"
import { useEffect } from "preact/hooks"
import type { Status } from "../server/api/ApiRecords.ts"
import { html } from "./html.ts"
import { Note, Page } from "./layout.ts"
import { SafeText } from "./parts/SafeText.ts"
import { StateMark } from "./pieces.ts"
import { to } from "./routes.ts"
import { connection, me } from "./state.ts"
import { useRead } from "./useRead.ts"
import { count, time } from "./words.ts"

/** The view. */
export const Health = (): VNode => {
  const { failure, read, value: status } = useRead<Status>("api/status")
  const user = me.value
  useEffect(() => {
    const timer = setInterval(() => void read(), 10_000)
    return () => clearInterval(timer)
  }, [])
  const failing = status?.checks.filter((it) => !it.isOk).length ?? 0
  return html`<${Page} title="Health" note=${connection.value === "live" ? "Updated every 10 s" : "Not connected"}>
    ${failure}
    ${
    status === undefined
      ? failure === null ? html`<p>Loading …</p>` : null
      : html`
        ${
        status.status === "ready" && failing === 0
          ? html`<${Note} as="ok" of="ok"><b>Ready.</b> The server accepts work, and all checks pass.</${Note}>`
          : status.status === "ready"
          ? html`<${Note} as="wait"><b>Ready, with ${
            count(failing, "problem")
          }.</b> Calls run; see the checks.</${Note}>`
          : html`<${Note} as="bad"><b>${status.status === "stopping" ? "Stopping." : "Failing."}</b> ${
            status.status === "stopping"
              ? "The server takes no new work."
              : "The server refuses work until the checks pass."
          }</${Note}>`
      }
        ${
        status.counts === null
          ? null
          : html`<dl class="cards part">${
            counted.map(([key, title, view]) =>
              html`<div class="card" key=${key}><dt class="small muted">${
                view === undefined ? title : html`<a href=${to(view)}>${title}</a>`
              }</dt><dd class="big">${status.counts?.[key]}</dd></div>`
            )
          }</dl>`
      }
        <section class="part"><h2>Checks</h2><ul class="lines">${
        status.checks.map((it) =>
          html`<li key=${it.name}><${StateMark} of=${it.isOk ? "succeeded" : "failed"} word=${
            it.isOk ? "Passes" : "Fails"
          } isBrief /><span class="grow"><b>${it.name[0]?.toUpperCase()}${it.name.slice(1)}</b><br />${
            it.problem === undefined
              ? html`<span class="small muted">${it.isOk ? "Answers" : "Does not answer"}</span>`
              : html`<span class="small bad-t"><${SafeText} text=${it.problem} /></span>`
          }</span></li>`
        )
      }</ul></section>`
  }
    ${
    typeof user !== "object"
      ? null
      : html`<section class="part"><h2>Your permissions</h2><dl class="why">
          <dt>Run calls</dt><dd>${user.run ? "Yes" : "No"}</dd>
          <dt>Approve for</dt><dd>${usersIn(user.approve)}</dd>
          <dt>See records of</dt><dd>${usersIn(user.records)}</dd>
          <dt>Metrics</dt><dd>${user.operate ? "Yes" : "No"}</dd>
          <dt>Token expires</dt><dd>${user.expiresAt === undefined ? "Never" : time(user.expiresAt)}</dd>
        </dl></section>`
  }
  </${Page}>`
}

const counted = [
  ["approvals", "Pending approvals", "approvals"],
  ["waves", "Runs in progress", "runs"],
  ["operations", "Running agents", "conversations"],
  ["sessions", "Sessions", "conversations"],
  ["streams", "Open streams", undefined]
] as const

const usersIn = (names: ReadonlyArray<string>): VNode | string =>
  names.includes("*") ? "everyone" : names.length === 0 ? "nobody" : html`<${SafeText} text=${names.join(", ")} />`
