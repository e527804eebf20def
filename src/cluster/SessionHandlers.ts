/** Answers the messages to sessions in the process that holds them. */
import * as Entity from "effect/cluster/Entity"
import type { Sharding } from "effect/cluster/Sharding"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Rpc from "effect/rpc/Rpc"
import type * as RpcSchema from "effect/rpc/RpcSchema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { User } from "../server/api/ApiAccess.ts"
import type { SessionDirectory } from "../server/sessions/SessionDirectory.ts"
import * as Methods from "../server/sessions/SessionMethods.ts"
import { fromPrincipal, type Owner } from "../server/users/Principals.ts"
import { type Around, HostedSession } from "./HostedSession.ts"
import { type Message, SessionEntity } from "./SessionMessages.ts"

/** How long a message waits for the end of a wave before the question has to be repeated. */
const resultWait = "20 seconds"

/** What a session answers, by the names of its messages. */
export type Messages = {
  readonly [R in Message as R["_tag"]]: (
    payload: Rpc.Payload<R>
  ) => Rpc.SuccessSchema<R> extends RpcSchema.Stream<infer Item, infer _> ?
    Stream.Stream<Item["Type"], Rpc.ErrorExit<R>>
    : Effect.Effect<Rpc.Success<R>, Rpc.ErrorExit<R>>
}

/** The messages of one session. */
export const messagesOf = (
  directory: SessionDirectory["Service"],
  owner: Owner,
  session: HostedSession
): Messages => ({
  ...Methods.each<Pick<Messages, Methods.Name>>((name) => {
    const run = directory[name] as (owner: Owner, ...args: ReadonlyArray<unknown>) => Effect.Effect<never, never>
    return Methods.endOf(name) === undefined
      ? (args: ReadonlyArray<unknown>) => session.use(Effect.suspend(() => run(owner, ...args)))
      : (args: ReadonlyArray<unknown>) => session.stream(Effect.suspend(() => run(owner, ...args)))
  }),
  result: ([name]) =>
    session.use(
      Effect.map(Effect.timeoutOption(directory.result(owner, name), resultWait), Option.getOrNull)
    ),
  part: ([of]) => session.use(directory.approvalPart(approverOf(owner), of)),
  poke: () => session.poke,
  run: () => session.stay
})

/** The sessions of this process. */
export class Hosted {
  private readonly all = new Map<string, { readonly session: HostedSession; readonly messages: Messages }>()

  /** The messages of a session that is open here, which need no way. */
  open(principal: string): Messages | undefined {
    const hosted = this.all.get(principal)
    return hosted?.session.isOpen === true ? hosted.messages : undefined
  }

  /** Notes a session for the rest of the scope. */
  add(principal: string, session: HostedSession, messages: Messages): Effect.Effect<void, never, Scope.Scope> {
    const hosted = { session, messages }
    return Effect.asVoid(Effect.acquireRelease(
      Effect.sync(() => this.all.set(principal, hosted)),
      () =>
        Effect.sync(() => {
          if (this.all.get(principal) === hosted) this.all.delete(principal)
        })
    ))
  }
}

/** Layer that hosts the sessions of this process. */
export const layer = (
  directory: SessionDirectory["Service"],
  around: Around,
  hosted: Hosted
): Layer.Layer<never, never, Sharding> =>
  SessionEntity.toLayer(
    Effect.gen(function*() {
      const address = yield* Entity.CurrentAddress
      const self = (yield* SessionEntity.client)(address.entityId)
      const owner = fromPrincipal(address.entityId)
      const session = new HostedSession(owner, around, Effect.asVoid(Effect.exit(self.run())))
      // however the entity ends, the session ends before
      yield* Effect.addFinalizer(() => session.move)
      const messages = messagesOf(directory, owner, session)
      yield* hosted.add(address.entityId, session, messages)
      const handlers = Object.entries(messages).map(([name, answer]) =>
        [name, ({ payload }: { readonly payload: never }) => answer(payload)] as const
      )
      return Object.fromEntries(handlers) as unknown as Entity.HandlersFrom<Message>
    }),
    // gates of the session serialise what must not run at once; a defect of one message is not one of the others
    { concurrency: "unbounded", disableFatalDefects: true }
  )

/** Whoever sent the message has checked that its user may approve. */
const approverOf = ({ user }: Owner): User => ({ name: "", run: false, approve: [user], records: [], operate: false })
