/**
 * What users may do, asked by the handlers. Who may not do a thing at all is told so
 * (403); what is somebody else's is not there for them (404).
 */
import * as Effect from "effect/Effect"
import { covers, CurrentUser, type User } from "./ApiAccess.ts"
import type { LiveItem } from "./ApiApprovals.ts"
import { NotAllowed } from "./ApiProblems.ts"
import type { Owner } from "./Principals.ts"

const may = (is: (user: User) => boolean) => Effect.filterOrFail(CurrentUser, is, () => new NotAllowed({}))

/** The user who asks, if they may hand calls over. */
export const runner: Effect.Effect<User, NotAllowed, CurrentUser> = may((user) => user.run)

/** The user who asks, if they may answer for anybody. */
export const approver: Effect.Effect<User, NotAllowed, CurrentUser> = may((user) => user.approve.length > 0)

/** The user who asks, if they may look after standing permissions: their own, or those of whom they answer for. */
export const grantKeeper: Effect.Effect<User, NotAllowed, CurrentUser> = may((user) =>
  user.run || user.approve.length > 0
)

/** The user who asks, if they may read anybody's journal. */
export const reader: Effect.Effect<User, NotAllowed, CurrentUser> = may((user) => user.run || user.records.length > 0)

/** The user who asks, if they may operate the server. */
export const operator: Effect.Effect<User, NotAllowed, CurrentUser> = may((user) => user.operate)

/** A session of the user who asks, if they may hand calls over. */
export const ownSession = (session: string): Effect.Effect<Owner, NotAllowed, CurrentUser> =>
  Effect.map(runner, ({ name }) => ({ user: name, session }))

/** Tells whether a user may read what is on record of another one; who may run calls may read of their own. */
export const readsRecordsOf = (user: User, owner: string): boolean =>
  covers(user.records, owner) || (user.run && owner === user.name)

/**
 * Tells whether a user may see the waves of another one: of their own, of those whose
 * records they read, and of those whom they answer for.
 */
export const seesWavesOf = (user: User, owner: string): boolean =>
  owner === user.name || covers(user.records, owner) || covers(user.approve, owner)

/** Tells whether a user may see an item of the live stream. */
export const sees = (user: User) => (owner: string, item: LiveItem): boolean => {
  switch (item._tag) {
    case "ApprovalRequested":
    case "ApprovalResolved":
      return covers(user.approve, owner)
    default:
      return seesWavesOf(user, owner)
  }
}
