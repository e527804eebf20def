/** What the form of a link means, and the pages that say what became of it. Pure. */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { Answer } from "../../core/gates/ApprovalRequest.ts"
import * as WhoApproves from "../../core/vocabulary/WhoApproves.ts"
import type { AnsweredApproval, ApprovalRequest, ResolvedApproval } from "../api/ApiApprovals.ts"
import type * as Problems from "../api/ApiProblems.ts"
import * as ResolvedRequest from "../approvals/ResolvedRequest.ts"
import * as LinkPages from "./LinkPages.ts"

/** A page with its status. */
export interface Page {
  readonly status: number
  readonly body: string
}

const said = (status: number, title: string, ...sentences: ReadonlyArray<string>): Page => ({
  status,
  body: LinkPages.said(title, sentences)
})

const nothing = "Nothing was answered."

/** Pages that say nothing of any request. */
export const pages = {
  unknown: said(404, "This link is not valid", "It may have been cut when it was copied. " + nothing),
  tooMany: said(429, "Too many wrong links", "Try again later. " + nothing),
  expired: said(410, "This link has expired", "Answer on the page instead. " + nothing),
  notAllowed: said(403, "This link no longer works", "Its person may no longer answer by links. " + nothing),
  gone: said(404, "There is no such request", "It is over, or its person may no longer answer it. " + nothing),
  noForm: said(415, "That was not the form of this link", "Open the link in a browser, and answer there. " + nothing)
} as const satisfies Readonly<Record<string, Page>>

/** The request of the link has ended. */
export const ended = (approval: ResolvedApproval): Page =>
  said(410, "This request is already resolved", ResolvedRequest.sentence(approval), approval.next)

/** The person of the link cannot approve the request. */
export const refused = (
  why: "Approved" | "NotNamed",
  { approvals = [], approvers = [], requestedAt, user }: ApprovalRequest
): Page => {
  const missing = WhoApproves.sentence(approvers, approvals, { principal: user, requestedAt })
  return why === "Approved"
    ? said(410, "You have already approved this request", missing)
    : said(403, "Others approve this request", missing, nothing)
}

/** The page after an answer. */
export const done = (person: string, { how, next }: AnsweredApproval): Page =>
  said(
    200,
    how === "denied" ? "Denied" : how === "waiting" ? "Your approval counts, and others are needed" : "Approved once",
    `You answered as ${person}. This link does not work again.`,
    next
  )

/** Why there may be no answer. */
export type Problem =
  | Problems.AlreadyEnded
  | Problems.Invalid
  | Problems.NotAnswered
  | Problems.NotFound
  | Problems.TooLarge
  | Problems.TooMany
  | Problems.TooSlow
  | Problems.Unavailable

const notAnswered = (status: number, ...sentences: ReadonlyArray<string>): Page =>
  said(status, "Nothing was answered", ...sentences, "Open the link again.")

/** Says why there was no answer. */
export const ofProblem = (problem: Problem): Page => {
  switch (problem._tag) {
    case "AlreadyEnded":
      return said(410, "This request is already resolved", problem.detail ?? problem.title, "Your answer was not used.")
    case "NotAnswered":
      return notAnswered(problem.status, ...problem.errors.map((it) => it.problem))
    case "NotFound":
      return pages.gone
    default:
      return said(problem.status, problem.title, ...(problem.detail === undefined ? [] : [problem.detail]), nothing)
  }
}

/** The answer that a form holds, to what the page showed. */
export const read = (
  fields: URLSearchParams,
  { form }: Pick<ApprovalRequest, "form">,
  mayApprove: boolean
): Result.Result<{ readonly hash: string; readonly answer: Answer }, Page> => {
  const wrong = (sentence: string) => Result.fail(notAnswered(422, sentence))
  const names = Array.from(fields.keys())
  if (names.some((it) => !known.has(it)) || new Set(names).size < names.length) {
    return wrong("The form is not this one.")
  }
  const [hash, note, data] = [fields.get("hash") ?? "", (fields.get("note") ?? "").trim(), fields.get("data") ?? ""]
  if (note.length > LinkPages.limits.note) {
    return wrong(`The note has more than ${LinkPages.limits.note} characters.`)
  }
  switch (fields.get("answer")) {
    case "deny":
      return Result.succeed({ hash, answer: { _tag: "Deny", ...note === "" ? {} : { reason: note } } })
    case "approve": {
      if (!mayApprove) return wrong("This request cannot be approved by a link. Approve it on the page.")
      const filled = form === undefined ? Result.succeed(undefined) : jsonOf(data)
      if (Result.isFailure(filled)) return wrong(`The data is not valid JSON: ${filled.failure}`)
      return Result.succeed({
        hash,
        answer: {
          _tag: "ApproveOnce",
          ...note === "" ? {} : { note },
          ...filled.success === undefined ? {} : { data: filled.success }
        }
      })
    }
    default:
      return wrong("Choose an answer.")
  }
}

const known: ReadonlySet<string> = new Set(["answer", "data", "hash", "note"])

const jsonOf = (text: string): Result.Result<Schema.Json | undefined, string> =>
  Result.try({ try: () => JSON.parse(text) as Schema.Json, catch: (error) => (error as Error).message })
