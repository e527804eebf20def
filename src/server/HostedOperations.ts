/** The operations of one session: opened, stopped and forgotten together. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { KnownConversations } from "./KnownConversations.ts"
import type { Owner } from "./Principals.ts"
import type { ServedOperation } from "./ServedOperation.ts"
import { type SessionPart, stateOf, type Unfinished, unfinished } from "./SessionPart.ts"

/** What it is made with. */
export interface Given {
  readonly known: KnownConversations
  readonly open: SessionPart["open"]
  readonly interrupt: (operation: ServedOperation) => Effect.Effect<void>
}

export const make = ({ interrupt, known, open }: Given): SessionPart => {
  const all = (owner: Owner): ReadonlyArray<ServedOperation> => known.get(owner)?.operations ?? []
  const running = (owner: Owner) => all(owner).filter((it) => !it.isOver)
  const interruptAll = (operations: ReadonlyArray<ServedOperation>) =>
    Effect.forEach(operations, interrupt, { concurrency: "unbounded", discard: true })
  return {
    open,
    state: (owner) => stateOf(running(owner).map((it) => it.isWaiting ? "waiting" : "running")),
    changed: (owner) => known.stirs.next(owner),
    leave: (owner) =>
      Effect.sync(() => {
        for (const operation of running(owner)) operation.left ??= "closed"
      }),
    stop: (owner) =>
      Effect.suspend(() => {
        const operations = running(owner)
        for (const operation of operations) operation.left = "stopped"
        const over = Effect.forEach(operations, (it) => Deferred.await(it.over), { discard: true })
        return Effect.andThen(interruptAll(operations), over)
      }),
    forget: (owner) =>
      Effect.sync(() => {
        const left = unfinished(all(owner).map(leftOf))
        known.drop(owner)
        return left
      }),
    lose: (owner) =>
      Effect.suspend(() => {
        const operations = running(owner)
        for (const operation of operations) {
          operation.left = "lost"
          operation.log.close()
        }
        known.drop(owner)
        return interruptAll(operations)
      })
  }
}

const leftOf = ({ hasEnded, isStored, left }: ServedOperation): Unfinished =>
  hasEnded ? isStored ? "nothing" : "failed" : left === "stopped" ? left : "waiting"
