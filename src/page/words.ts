/** Formats values for people. Pure. */
import type { AnsweredApproval } from "../server/api/ApiApprovals.ts"

/** Formats a duration in its two largest units, such as `4 min 12 s`. */
export const span = (millis: number): string => {
  const seconds = Math.max(0, Math.floor(millis / 1_000))
  const units = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]] as const
  const first = units.findIndex(([, size]) => seconds >= size)
  if (first === -1) return "0 s"
  return units.slice(first, first + 2).map(([name, size], at) => {
    const count = Math.floor((at === 0 ? seconds : seconds % units[first]![1]) / size)
    return count === 0 ? "" : `${count} ${name}`
  }).filter((it) => it !== "").join(" ")
}

/** Describes when an approval request expires. */
export const expires = (expiresAt: number | "unlimited", now: number): string =>
  expiresAt === "unlimited"
    ? "No time limit"
    : expiresAt <= now
    ? "Expired"
    : `Expires in ${span(expiresAt - now)}`

/** Formats a time of day; of another day, its date as well. */
export const clock = (millis: number): string => {
  const date = new Date(millis)
  const day = { day: "numeric", month: "short" } as const
  const isToday = date.toDateString() === new Date().toDateString()
  return date.toLocaleString([], { ...isToday ? {} : day, hour: "2-digit", minute: "2-digit" })
}

/** Formats a time in the reader's locale. */
export const time = (millis: number): string => new Date(millis).toLocaleString()

/** Formats a count with its noun. */
export const count = (number: number, one: string, many = `${one}s`): string => `${number} ${number === 1 ? one : many}`

const endings: Readonly<Record<AnsweredApproval["how"], string>> = {
  waiting: "Approved by you, others are needed",
  approved: "Approved",
  denied: "Denied",
  covered: "Covered by a grant",
  expired: "Expired",
  withdrawn: "Withdrawn",
  suspended: "Suspended, will be asked again",
  closed: "Closed"
}

const answers: Readonly<Record<string, string>> = {
  ApproveOnce: "once",
  ApproveForDuration: "for a limited time",
  ApproveForScope: "until revoked"
}

/** How an approval request ended, without who ended it. */
export const ending = ({ answer, how }: Pick<AnsweredApproval, "how" | "answer">): string => {
  const kind = answer === undefined || how !== "approved" ? undefined : answers[answer]
  return kind === undefined ? endings[how] : `${endings[how]} ${kind}`
}

/** Formats a number of tokens, such as `61.2k`. */
export const tokens = (number: number): string =>
  number < 1_000
    ? String(number)
    : number < 1_000_000
    ? `${Number((number / 1_000).toFixed(1))}k`
    : `${Number((number / 1_000_000).toFixed(1))}M`

/** Formats a cost in the unit of the prices. */
export const cost = (amount: number): string => `$${amount.toFixed(amount !== 0 && amount < 0.1 ? 3 : 2)}`

/** How long ago something was, in its largest unit; `now` within a minute. */
export const ago = (millis: number, now: number): string =>
  now - millis < 60_000 ? "now" : span(now - millis).split(" ").slice(0, 2).join(" ")

/** Formats minutes and seconds, such as `2:18`. */
export const minutes = (millis: number): string => {
  const seconds = Math.max(0, Math.floor(millis / 1_000))
  const [hours, rest] = [Math.floor(seconds / 3_600), seconds % 3_600]
  const two = (number: number) => String(number).padStart(2, "0")
  return hours > 0
    ? `${hours}:${two(Math.floor(rest / 60))}:${two(rest % 60)}`
    : `${Math.floor(rest / 60)}:${two(rest % 60)}`
}
