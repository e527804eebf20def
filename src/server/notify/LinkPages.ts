/**
 * The pages of links that answer an approval request: one to confirm the answer, and one that says what became of it.
 *
 * They have no script and load nothing. Text of others is escaped, and its invisible characters are written out. Pure.
 */
import { sha256 } from "@noble/hashes/sha2.js"
import * as DateTime from "effect/DateTime"
import * as Base64 from "effect/encoding/Base64"
import { sentence } from "../../core/facts/EvidenceText.ts"
import * as WhoApproves from "../../core/vocabulary/WhoApproves.ts"
import { escape, escapeJson, escapeLines } from "../../internal/escape.ts"
import { html } from "../../internal/htmlText.ts"
import type { ApprovalRequest } from "../api/ApiApprovals.ts"
import { isForOne } from "./AnswerLinks.ts"

/** What a call would write, as far as it fits on the page. */
export interface Write {
  readonly text: string
  readonly isWhole: boolean
}

/** What the page that confirms an answer says besides the request. */
export interface About {
  /** Who answers. */
  readonly person: string
  readonly write: Write | undefined
  /** The request on the page of the server. */
  readonly url: string
}

/** Characters of the arguments on the page. */
const mostArgs = 50_000

/** Whether the page shows all of a request. Otherwise, it can only be denied there. */
export const isWhole = ({ args }: ApprovalRequest, write: Write | undefined): boolean =>
  JSON.stringify(args, undefined, 2).length <= mostArgs && write?.isWhole !== false

/**
 * Whether the page can approve a request. Who has to approve may have changed since its links were made: several people
 * do not approve by links.
 */
export const mayApprove = (request: ApprovalRequest, write: Write | undefined): boolean =>
  isWhole(request, write) && isForOne(request)

/** The page that shows a request, and whose form answers it. */
export const confirm = (request: ApprovalRequest, { person, url, write }: About): string => {
  const { agentPath, evidence = [], expiresAt, form, hash, isRunning, requestedAt, session, targets, tool, user, why } =
    request
  const args = JSON.stringify(request.args, undefined, 2)
  const isAll = mayApprove(request, write)
  const agent = agentPath.length === 0 ? [] : [row("Agent", line(agentPath.join(" › ")))]
  return page(`Approve ${escape(tool)}?`, [
    `<h1>Approve ${line(tool)}?</h1>`,
    `<p class="who">You answer as <strong>${line(person)}</strong>. ` +
    "Your answer is final, and holds for this call only.</p>",
    "<dl>",
    row("Call of", `${line(user)}, session ${line(session)}`),
    ...agent,
    row(
      "Targets",
      targets.length === 0
        ? "none known"
        : list(targets.map(({ kind, text }) => `${line(text)}${kind === undefined ? "" : ` (${kind})`}`))
    ),
    row("Asked because", line(why)),
    ...(evidence.length === 0 ? [] : [row("Known about it", list(evidence.map((it) => line(sentence(it)))))]),
    ...(request.approvers === undefined ? [] : [row("Who approves", approvalsOf(request))]),
    row("Requested", timeOf(requestedAt)),
    row("Expires", expiresAt === "unlimited" ? "no time limit" : timeOf(expiresAt)),
    ...(isRunning ? [row("State", "the call is running, and its write waits")] : []),
    "</dl>",
    "<h2>Arguments</h2>",
    block(escapeJson(args.slice(0, mostArgs))),
    ...(request.preview?._tag === "None"
      ? [`<p>There is no preview of what it writes: ${line(request.preview.because)}</p>`]
      : []),
    ...(write === undefined ? [] : ["<h2>What it writes</h2>", block(escapeLines(write.text))]),
    ...(isAll
      ? []
      : [`<p class="note">${whyNot(request)} <a href="${html(url)}">Open the page</a> to approve it.</p>`]),
    `<form method="post" autocomplete="off">`,
    `<input type="hidden" name="hash" value="${html(hash)}">`,
    ...(form === undefined || !isAll ? [] : [
      "<h2>The tool needs data from you</h2>",
      block(escapeJson(JSON.stringify(form, undefined, 2))),
      `<label for="data">Data to approve it with, as JSON that fits this schema</label>`,
      `<textarea id="data" name="data" rows="4" maxlength="${limits.data}" spellcheck="false"></textarea>`
    ]),
    `<label for="note">Note for the model (optional)</label>`,
    `<textarea id="note" name="note" rows="2" maxlength="${limits.note}"></textarea>`,
    `<p class="acts">`,
    `<button name="answer" value="deny">Deny</button>`,
    ...(isAll ? [`<button name="answer" value="approve" class="go">Approve once</button>`] : []),
    "</p>",
    "</form>",
    `<p><a href="${html(url)}">Open the page</a> for other answers. Nothing has been answered yet.</p>`
  ])
}

const whyNot = (request: ApprovalRequest): string =>
  isForOne(request) ? "Not all of it is shown here." : "Several people have to approve it."

/** Characters that the fields of the form take. */
export const limits = { note: 2_000, data: 20_000 } as const

/** A page that only says something. The sentences are text. */
export const said = (title: string, sentences: ReadonlyArray<string>): string =>
  page(title, [`<h1>${line(title)}</h1>`, ...sentences.map((it) => `<p>${line(it)}</p>`)])

/** The headers of these pages. They differ from those of the page of the server, which runs scripts. */
export const headers = (): Readonly<Record<string, string>> => ({
  "content-security-policy":
    `default-src 'none'; style-src 'sha256-${Base64.encode(sha256(encoder.encode(style)))}'; ` +
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "cache-control": "no-store",
  // with `no-referrer`, browsers send the form with the origin `null`, which is refused
  "referrer-policy": "same-origin",
  "x-robots-tag": "noindex, nofollow, noarchive"
})

const approvalsOf = ({ approvals = [], approvers = [], requestedAt, user }: ApprovalRequest): string =>
  list([
    ...approvals.map(({ at, note, person }) =>
      `${line(person)} approved it at ${timeOf(at)}${note === undefined ? "" : `: “${line(note)}”`}`
    ),
    line(WhoApproves.sentence(approvers, approvals, { principal: user, requestedAt }))
  ])

const page = (title: string, body: ReadonlyArray<string>): string =>
  [
    "<!doctype html>",
    `<html lang="en">`,
    "<head>",
    `<meta charset="utf-8">`,
    `<meta name="viewport" content="width=device-width, initial-scale=1">`,
    `<meta name="robots" content="noindex, nofollow">`,
    `<title>${html(title)}</title>`,
    `<style>${style}</style>`,
    "</head>",
    "<body>",
    "<main>",
    ...body,
    "</main>",
    "</body>",
    "</html>",
    ""
  ].join("\n")

const row = (name: string, value: string): string => `<dt>${name}</dt><dd>${value}</dd>`

const list = (items: ReadonlyArray<string>): string => `<ul>${items.map((it) => `<li>${it}</li>`).join("")}</ul>`

/** Text of others on one line: it keeps its direction to itself. */
const line = (text: string): string => `<bdi>${html(escape(text))}</bdi>`

/** Text on several lines, of which the invisible characters are already written out. */
const block = (text: string): string => `<pre dir="ltr" tabindex="0">${html(text)}</pre>`

const timeOf = (millis: number): string => {
  const time = DateTime.make(millis)
  return time._tag === "Some" ? DateTime.formatIso(time.value) : "an unknown time"
}

const encoder = new TextEncoder()

/** Text between the tags, to the letter: its hash is in the header. */
const style = [
  ":root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}",
  "body{margin:0;background:Canvas;color:CanvasText}",
  "main{max-width:46rem;margin:0 auto;padding:1rem}",
  "h1{font-size:1.4rem}h2{font-size:1.1rem}",
  "dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem}",
  "dt{font-weight:600}dd{margin:0;min-width:0;overflow-wrap:anywhere}ul{margin:0;padding-left:1.1rem}",
  "pre{overflow:auto;max-height:24rem;padding:.75rem;border:1px solid;border-radius:.4rem;white-space:pre-wrap;",
  "overflow-wrap:anywhere;unicode-bidi:plaintext}",
  "label{display:block;margin-top:.75rem}textarea{width:100%;box-sizing:border-box;font:inherit}",
  ".note{border-left:.25rem solid;padding-left:.75rem}",
  ".acts{display:flex;gap:.75rem;flex-wrap:wrap}",
  "button{font:inherit;min-height:2.75rem;padding:0 1.25rem;border:1px solid;border-radius:.4rem}",
  "@media(max-width:30rem){dl{display:block}}"
].join("")
