/** Answers the messages to sessions in the process that holds them. */
import * as Entity from "effect/cluster/Entity"
import type { Sharding } from "effect/cluster/Sharding"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { fromPrincipal } from "../server/Principals.ts"
import type { SessionDirectory } from "../server/SessionDirectory.ts"
import { type Around, HostedSession } from "./HostedSession.ts"
import { SessionEntity } from "./SessionMessages.ts"

/** How long a message waits for the end of a wave before the question has to be repeated. */
const resultWait = "20 seconds"

/** Layer that hosts the sessions of this process. */
export const layer = (
  directory: SessionDirectory["Service"],
  around: Around
): Layer.Layer<never, never, Sharding> =>
  SessionEntity.toLayer(
    Effect.gen(function*() {
      const address = yield* Entity.CurrentAddress
      const self = (yield* SessionEntity.client)(address.entityId)
      const owner = fromPrincipal(address.entityId)
      const session = new HostedSession(owner, around, Effect.asVoid(Effect.exit(self.Run())))
      // however the entity ends, the session ends before
      yield* Effect.addFinalizer(() => session.move)
      return SessionEntity.of({
        Submit: ({ payload }) => session.use(directory.submit(owner, payload.message)),
        Wave: ({ payload }) => session.use(directory.wave(owner, payload.name)),
        Result: ({ payload }) =>
          session.use(
            Effect.map(Effect.timeoutOption(directory.result(owner, payload.name), resultWait), Option.getOrNull)
          ),
        HasWave: ({ payload }) => session.use(Effect.asVoid(directory.watch(owner, payload.name))),
        Watch: ({ payload }) => session.stream(directory.watch(owner, payload.name, payload.after)),
        Happened: ({ payload }) => session.use(directory.happened(owner, payload.name, payload.from)),
        Cancel: ({ payload: { name, ...of } }) => session.use(directory.cancel(owner, name, of)),
        EndTurn: ({ payload }) => session.use(directory.endTurn(owner, payload.name)),
        EndSession: () => session.use(directory.endSession(owner)),
        Tools: () => session.use(directory.tools(owner)),
        Start: ({ payload }) => session.use(directory.start(owner, payload.message)),
        Operation: ({ payload }) => session.use(directory.operation(owner, payload.name)),
        Operations: () => session.use(directory.operations(owner)),
        Running: () => session.use(Effect.map(directory.running(owner), Option.getOrNull)),
        WatchOperation: ({ payload }) => session.stream(directory.watchOperation(owner, payload.name, payload.after)),
        Say: ({ payload: { name, ...message } }) => session.use(directory.say(owner, name, message)),
        CancelOperation: ({ payload }) => session.use(directory.cancelOperation(owner, payload.name, payload.reason)),
        History: () => session.use(directory.history(owner)),
        Conversation: () => session.use(Effect.map(directory.conversation(owner), Option.getOrNull)),
        ConversationDetail: ({ payload }) => session.use(directory.conversationDetail(owner, payload.isShared)),
        WatchConversation: ({ payload }) => session.stream(directory.watchConversation(owner, payload)),
        Revoke: ({ payload }) => session.use(directory.revoke(owner, payload.name)),
        Checkpoints: () => session.use(directory.checkpoints(owner)),
        UndoPlan: ({ payload }) => session.use(directory.undoPlan(owner, payload.name)),
        Undo: ({ payload }) => session.use(directory.undo(owner, payload.name, payload.force)),
        Poke: () => session.poke,
        Run: () => session.stay
      })
    }),
    // gates of the session serialise what must not run at once; a defect of one message is not one of the others
    { concurrency: "unbounded", disableFatalDefects: true }
  )
