/** Decides who may approve, and whether enough people have. Pure, and used in browsers. */
import { millisOf } from "../../internal/interval.ts"
import type { Approvers, GivenApproval } from "./Approvers.ts"

/** Somebody who answers. The name is that of an authenticated user. */
export interface Person {
  readonly name: string
  readonly roles?: ReadonlyArray<string> | undefined
}

/** What decides about approvers besides their rules. */
export interface About {
  /** Whose call it is. */
  readonly principal: string
  /** Epoch milliseconds. */
  readonly requestedAt: number
}

/** The user of a principal, which may name a session after a slash. */
export const userOf = (principal: string): string => {
  const at = principal.indexOf("/")
  return at < 0 ? principal : principal.slice(0, at)
}

/** Whether two names could be one person: capitals, forms of letters and invisible characters do not count. */
export const isSame = (one: string, other: string): boolean => folded(one) === folded(other)

/** Tells whether a person may answer at a time, as far as one of the rules says. */
export const isNamed = (all: ReadonlyArray<Approvers>, person: Person, at: number, about: About): boolean =>
  all.some((it) => counts(it, person, at, about))

/** Tells whether enough people have approved. */
export const isEnough = (
  all: ReadonlyArray<Approvers>,
  given: ReadonlyArray<GivenApproval>,
  about: About
): boolean => all.every((it) => missing(it, given, about) === 0)

/** Tells whether an approval of a person would bring a request nearer to its end. */
export const adds = (
  all: ReadonlyArray<Approvers>,
  given: ReadonlyArray<GivenApproval>,
  next: GivenApproval,
  about: About
): boolean => all.some((it) => missing(it, [...given, next], about) < missing(it, given, about))

/** Tells whether one person alone can approve. */
export const isForOne = (all: ReadonlyArray<Approvers>): boolean => all.every(({ count = 1 }) => count === 1)

/** Says who has to approve, of whatever call. */
export const words = (all: ReadonlyArray<Approvers>): string => `It needs ${saidOf(all, [], undefined).join("; and ")}.`

/** Tells whether a rule names nobody: it only reminds. */
export const isAnybody = (self: Approvers): boolean => isOpen(self) && !isOthersOnly(self)

/** The first time at which others may answer, as a field of a request. */
export const escalationOf = (
  all: ReadonlyArray<Approvers> | undefined,
  requestedAt: number
): { readonly escalatesAt?: number } => {
  const times = all === undefined ? [] : escalations(all)
  return times.length === 0 ? {} : { escalatesAt: requestedAt + Math.min(...times) }
}

/** A time at which somebody is notified again. */
interface Notice {
  readonly at: number
  readonly why: "Escalated" | "Reminded"
}

/** The next time after `after` at which somebody is notified again, and why. */
export const nextNotice = (
  all: ReadonlyArray<Approvers>,
  requestedAt: number,
  after: number
): Notice | undefined => {
  const notices = [...escalated(all, requestedAt), ...reminded(all, requestedAt, after, 1)]
  return notices.filter(({ at }) => at > after).sort((a, b) => a.at - b.at)[0]
}

/**
 * The last time until `now` at which somebody was to be notified again, and why. Others who may answer since `since` are
 * told that, whatever was due after it.
 */
export const lastNotice = (
  all: ReadonlyArray<Approvers>,
  requestedAt: number,
  now: number,
  since: number
): Notice | undefined => {
  const due = (notices: ReadonlyArray<Notice>, from: number) =>
    notices.filter(({ at }) => at >= from && at > requestedAt && at <= now).sort((a, b) => b.at - a.at)[0]
  const others = escalated(all, requestedAt)
  return due(others, since) ?? due([...others, ...reminded(all, requestedAt, now, 0)], 0)
}

/** Says who can approve, and whose approval is still missing. */
export const sentence = (
  all: ReadonlyArray<Approvers>,
  given: ReadonlyArray<GivenApproval>,
  about: About
): string => {
  const said = saidOf(all, given, about)
  return said.length === 0 ? "Nobody else has to approve." : `It needs ${said.join("; and ")}.`
}

const saidOf = (
  all: ReadonlyArray<Approvers>,
  given: ReadonlyArray<GivenApproval>,
  about: About | undefined
): ReadonlyArray<string> =>
  all.flatMap((it) => {
    const count = about === undefined ? it.count ?? 1 : missing(it, given, about)
    if (count === 0) return []
    const who = whoOf(it)
    const others = given.length === 0 ? "" : " more"
    const whose = about === undefined ? "the user whose call it is" : userOf(about.principal)
    const own = isOthersOnly(it) && it.people === undefined ? `, other than ${whose}` : ""
    const later = it.escalate === undefined
      ? ""
      : `, and after ${it.escalate.after} also ${whoOf(it.escalate.to) ?? "nobody"}`
    const many = count === 1 ? `1${others} person` : `${count}${others} different people`
    return [`${many}${who === undefined ? "" : ` of: ${who}`}${own}${later}`]
  })

/** Times in milliseconds after the request at which others may answer. */
const escalations = (all: ReadonlyArray<Approvers>): ReadonlyArray<number> =>
  all.flatMap(({ escalate }) => escalate === undefined ? [] : [millisOf(escalate.after)!])

const escalated = (all: ReadonlyArray<Approvers>, requestedAt: number): ReadonlyArray<Notice> =>
  escalations(all).map((millis) => ({ at: requestedAt + millis, why: "Escalated" }))

/** The reminders around a time: the one before, or with `next` 1 the one after. */
const reminded = (
  all: ReadonlyArray<Approvers>,
  requestedAt: number,
  time: number,
  next: 0 | 1
): ReadonlyArray<Notice> =>
  all.flatMap(({ remind }) => {
    if (remind === undefined) return []
    const every = millisOf(remind)!
    const past = Math.max(0, Math.floor((time - requestedAt) / every))
    return [{ at: requestedAt + (past + next) * every, why: "Reminded" }]
  })

/** Letters that look the same to a computer, without capitals and invisible characters. */
const folded = (name: string): string =>
  name.normalize("NFKC").replace(/\p{Cf}|\p{Cc}|\s/gu, "").toLowerCase().normalize("NFKC")

/** How many approvals a rule still needs. */
const missing = (self: Approvers, given: ReadonlyArray<GivenApproval>, about: About): number => {
  const people = new Set<string>()
  for (const { at, person: name, roles } of given) {
    if (counts(self, { name, roles }, at, about)) people.add(folded(name))
  }
  return Math.max(0, (self.count ?? 1) - people.size)
}

const counts = (self: Approvers, person: Person, at: number, about: About): boolean => {
  const { escalate, people } = self
  const isLate = escalate !== undefined && at >= about.requestedAt + millisOf(escalate.after)!
  const isListed = people?.includes(person.name) === true ||
    (isLate && escalate.to.people?.includes(person.name) === true)
  if (isOthersOnly(self) && !isListed && isSame(person.name, userOf(about.principal))) return false
  return isListed || isOpen(self) || hasRole(self.roles, person) || (isLate && hasRole(escalate.to.roles, person))
}

/** Everybody who may answer counts. */
const isOpen = ({ people, roles }: Approvers): boolean => people === undefined && roles === undefined

/** Nobody counts for their own call without being listed by name. */
const isOthersOnly = ({ count = 1, escalate, roles }: Approvers): boolean =>
  count > 1 || roles !== undefined || escalate?.to.roles !== undefined

const hasRole = (roles: ReadonlyArray<string> | undefined, person: Person): boolean =>
  roles?.some((it) => person.roles?.includes(it) === true) === true

const whoOf = ({ people = [], roles = [] }: Pick<Approvers, "people" | "roles">): string | undefined =>
  people.length + roles.length === 0
    ? undefined
    : [...people, ...roles.map((it) => `anybody with the role ${it}`)].join(", ")
