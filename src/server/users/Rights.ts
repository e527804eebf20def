/** Checks of the rights of users, for handlers. A missing right is a 403; a resource of another user is a 404. */
import * as Effect from "effect/Effect"
import { covers, CurrentUser, type User } from "../api/ApiAccess.ts"
import type { LiveItem } from "../api/ApiApprovals.ts"
import { NotAllowed } from "../api/ApiProblems.ts"
import type { Owner } from "./Principals.ts"

const may = (is: (user: User) => boolean) => Effect.filterOrFail(CurrentUser, is, () => new NotAllowed({}))

/** The current user, if they may run calls. */
export const runner: Effect.Effect<User, NotAllowed, CurrentUser> = may((user) => user.run)

/** The current user, if they may approve for anybody. */
export const approver: Effect.Effect<User, NotAllowed, CurrentUser> = may((user) => user.approve.length > 0)

/** The current user, if they may manage grants: their own, or those of users they approve for. */
export const grantKeeper: Effect.Effect<User, NotAllowed, CurrentUser> = may((user) =>
  user.run || user.approve.length > 0
)

/** The current user, if they may read a journal. */
export const reader: Effect.Effect<User, NotAllowed, CurrentUser> = may((user) => user.run || user.records.length > 0)

/** The current user, if they may operate the server. */
export const operator: Effect.Effect<User, NotAllowed, CurrentUser> = may((user) => user.operate)

/** A session of the current user, if they may run calls. */
export const ownSession = (session: string): Effect.Effect<Owner, NotAllowed, CurrentUser> =>
  Effect.map(runner, ({ name }) => ({ user: name, session }))

/** A session whose writes the current user may undo: their own sessions, and those of users they approve for. */
export const undoneSession = (session: string, user?: string): Effect.Effect<Owner, NotAllowed, CurrentUser> =>
  Effect.flatMap(CurrentUser, (it) => {
    if (user === undefined || user === it.name) return ownSession(session)
    return covers(it.approve, user) ? Effect.succeed({ user, session }) : Effect.fail(new NotAllowed({}))
  })

/** A session whose waves the current user may cancel: their own sessions, and all if they operate the server. */
export const operatedSession = (session: string, user?: string): Effect.Effect<Owner, NotAllowed, CurrentUser> =>
  Effect.flatMap(
    CurrentUser,
    (it) => user === undefined || user === it.name ? ownSession(session) : Effect.as(operator, { user, session })
  )

/** Tells whether a user may read records of another user. Users who may run calls may read their own. */
export const readsRecordsOf = (user: User, owner: string): boolean =>
  covers(user.records, owner) || (user.run && owner === user.name)

/**
 * Tells whether a user may see waves of another user: their own, and those of users whose records they read or for whom
 * they approve.
 */
export const seesWavesOf = (user: User, owner: string): boolean =>
  owner === user.name || covers(user.records, owner) || covers(user.approve, owner)

/** The users whose waves a user may see; `undefined`: all. */
export const seenBy = ({ approve, name, records }: User): ReadonlyArray<string> | undefined => {
  const all = new Set([name, ...records, ...approve])
  return all.has("*") ? undefined : Array.from(all)
}

/** Tells whether a user may see a live event. */
export const sees = (user: User) => (owner: string, item: LiveItem): boolean => {
  switch (item._tag) {
    case "ApprovalRequested":
    case "ApprovalChanged":
    case "ApprovalResolved":
      return covers(user.approve, owner)
    default:
      return seesWavesOf(user, owner)
  }
}
