/** Answers the messages to sessions in the process that holds them. */
import * as Entity from "effect/cluster/Entity"
import type { Sharding } from "effect/cluster/Sharding"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { User } from "../server/ApiAccess.ts"
import type { Submission } from "../server/ApiModels.ts"
import type { OperationSubmission } from "../server/ApiOperations.ts"
import { fromPrincipal, type Owner } from "../server/Principals.ts"
import type { Cancellation, PartOf, Said, SessionDirectory } from "../server/SessionDirectory.ts"
import { type Around, HostedSession } from "./HostedSession.ts"
import { SessionEntity } from "./SessionMessages.ts"

/** How long a message waits for the end of a wave before the question has to be repeated. */
const resultWait = "20 seconds"

/** What a session answers, by the names of its messages. */
export const messagesOf = (directory: SessionDirectory["Service"], owner: Owner, session: HostedSession) => ({
  Submit: ({ message }: { readonly message: Submission }) => session.use(directory.submit(owner, message)),
  Wave: ({ name }: Named) => session.use(directory.wave(owner, name)),
  Result: ({ name }: Named) =>
    session.use(
      Effect.map(Effect.timeoutOption(directory.result(owner, name), resultWait), Option.getOrNull)
    ),
  HasWave: ({ name }: Named) => session.use(Effect.asVoid(directory.watch(owner, name))),
  Watch: ({ after, name }: From) => session.stream(directory.watch(owner, name, after)),
  Happened: ({ from, name }: Named & { readonly from: number }) => session.use(directory.happened(owner, name, from)),
  Cancel: ({ name, ...of }: Named & Cancellation) => session.use(directory.cancel(owner, name, of)),
  EndTurn: ({ name }: Named) => session.use(directory.endTurn(owner, name)),
  EndSession: () => session.use(directory.endSession(owner)),
  Tools: () => session.use(directory.tools(owner)),
  Start: ({ message }: { readonly message: OperationSubmission }) => session.use(directory.start(owner, message)),
  Operation: ({ name }: Named) => session.use(directory.operation(owner, name)),
  Operations: () => session.use(directory.operations(owner)),
  Running: () => session.use(Effect.map(directory.running(owner), Option.getOrNull)),
  WatchOperation: ({ after, name }: From) => session.stream(directory.watchOperation(owner, name, after)),
  Say: ({ name, ...message }: Named & Said & { readonly id: string }) =>
    session.use(directory.say(owner, name, message)),
  CancelOperation: ({ name, reason }: Named & { readonly reason: string }) =>
    session.use(directory.cancelOperation(owner, name, reason)),
  History: () => session.use(directory.history(owner)),
  Conversation: () => session.use(Effect.map(directory.conversation(owner), Option.getOrNull)),
  ConversationDetail: ({ isShared }: { readonly isShared: boolean }) =>
    session.use(directory.conversationDetail(owner, isShared)),
  WatchConversation: (reading: { readonly after?: string; readonly isShared: boolean }) =>
    session.stream(directory.watchConversation(owner, reading)),
  ApprovalPart: (of: PartOf) => session.use(directory.approvalPart(approverOf(owner), of)),
  Revoke: ({ name }: Named) => session.use(directory.revoke(owner, name)),
  Checkpoints: () => session.use(directory.checkpoints(owner)),
  UndoPlan: ({ name }: Named) => session.use(directory.undoPlan(owner, name)),
  Undo: ({ force, name }: Named & { readonly force: boolean }) => session.use(directory.undo(owner, name, force)),
  Poke: () => session.poke,
  Run: () => session.stay
})

/** The messages of one session. */
export type Messages = ReturnType<typeof messagesOf>

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

interface Named {
  readonly name: string
}

interface From extends Named {
  readonly after?: string
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
      const session = new HostedSession(owner, around, Effect.asVoid(Effect.exit(self.Run())))
      // however the entity ends, the session ends before
      yield* Effect.addFinalizer(() => session.move)
      const messages = messagesOf(directory, owner, session)
      yield* hosted.add(address.entityId, session, messages)
      return SessionEntity.of({
        Submit: ({ payload }) => messages.Submit(payload),
        Wave: ({ payload }) => messages.Wave(payload),
        Result: ({ payload }) => messages.Result(payload),
        HasWave: ({ payload }) => messages.HasWave(payload),
        Watch: ({ payload }) => messages.Watch(payload),
        Happened: ({ payload }) => messages.Happened(payload),
        Cancel: ({ payload }) => messages.Cancel(payload),
        EndTurn: ({ payload }) => messages.EndTurn(payload),
        EndSession: () => messages.EndSession(),
        Tools: () => messages.Tools(),
        Start: ({ payload }) => messages.Start(payload),
        Operation: ({ payload }) => messages.Operation(payload),
        Operations: () => messages.Operations(),
        Running: () => messages.Running(),
        WatchOperation: ({ payload }) => messages.WatchOperation(payload),
        Say: ({ payload }) => messages.Say(payload),
        CancelOperation: ({ payload }) => messages.CancelOperation(payload),
        History: () => messages.History(),
        Conversation: () => messages.Conversation(),
        ConversationDetail: ({ payload }) => messages.ConversationDetail(payload),
        WatchConversation: ({ payload }) => messages.WatchConversation(payload),
        ApprovalPart: ({ payload }) => messages.ApprovalPart(payload),
        Revoke: ({ payload }) => messages.Revoke(payload),
        Checkpoints: () => messages.Checkpoints(),
        UndoPlan: ({ payload }) => messages.UndoPlan(payload),
        Undo: ({ payload }) => messages.Undo(payload),
        Poke: () => messages.Poke(),
        Run: () => messages.Run()
      })
    }),
    // gates of the session serialise what must not run at once; a defect of one message is not one of the others
    { concurrency: "unbounded", disableFatalDefects: true }
  )

/** Whoever sent the message has checked that its user may approve. */
const approverOf = ({ user }: Owner): User => ({ name: "", run: false, approve: [user], records: [], operate: false })
