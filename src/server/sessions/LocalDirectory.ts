/** The `SessionDirectory` of one process: all its sessions run here. */
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import { SessionRows } from "../../core/store/SessionRows.ts"
import { type RegisteredTool, ToolHandlers } from "../../core/vocabulary/ToolHandlers.ts"
import type * as Models from "../api/ApiModels.ts"
import { NotFound, type Unavailable, type WaveUnreadable } from "../api/ApiProblems.ts"
import * as PendingApprovals from "../approvals/PendingApprovals.ts"
import * as History from "../operations/History.ts"
import * as Operations from "../operations/Operations.ts"
import * as Records from "../records/Records.ts"
import * as Undoing from "../records/Undoing.ts"
import type { Owner } from "../users/Principals.ts"
import * as Rights from "../users/Rights.ts"
import * as Waves from "../waves/Waves.ts"
import { mostListed, SessionDirectory } from "./SessionDirectory.ts"
import * as SharedLists from "./SharedLists.ts"

/**
 * Layer of the directory. Without `Undoing` there are no checkpoints. With `SessionRows` its lists have what other
 * processes run, too.
 */
export const layer: Layer.Layer<
  SessionDirectory,
  never,
  Operations.Operations | PendingApprovals.PendingApprovals | Records.Records | Waves.Waves
> = Layer.effect(
  SessionDirectory,
  Effect.gen(function*() {
    const approvals = yield* PendingApprovals.PendingApprovals
    const operations = yield* Operations.Operations
    const records = yield* Records.Records
    const undoing = Option.getOrElse(yield* Effect.serviceOption(Undoing.Undoing), () => Undoing.none)
    const waves = yield* Waves.Waves
    const rows = Option.getOrUndefined(yield* Effect.serviceOption(SessionRows))
    const shared = rows === undefined ? undefined : SharedLists.make(rows)
    const tools = Option.getOrUndefined(yield* Effect.serviceOption(ToolHandlers))
    const redactorOf = (tool: string) => tools?.current().get(tool)?.redactor

    const wave = (owner: Owner, name: string) => found(waves.get(owner, name))
    const operation = (owner: Owner, name: string) => found(operations.get(owner, name))

    return SessionDirectory.of({
      submit: (owner, message) => Effect.flatMap(waves.submit(owner, message), ({ info }) => info),
      wave: (owner, name) => Effect.flatMap(wave(owner, name), (it) => it.wave),
      result: (owner, name) => Effect.flatMap(wave(owner, name), ({ ended }) => ended),
      watch: (owner, name, after) => Effect.map(wave(owner, name), ({ events }) => events(after)),
      happened: Effect.fnUntraced(function*(owner, name, after) {
        const { happened, info } = yield* Effect.catchTag(wave(owner, name), "WaveUnreadable", () => new NotFound({}))
        return { wave: yield* info, ...yield* happened(after) }
      }),
      cancel: (owner, name, of) =>
        Effect.flatMap(wave(owner, name), ({ cancel }) => cancel(of)).pipe(
          Effect.catchTag(
            "WaveUnreadable",
            (error): Effect.Effect<void, Unavailable | WaveUnreadable> =>
              of.callId === undefined ? waves.discard(owner, name) : Effect.fail(error)
          )
        ),
      endTurn: (owner, turn) => orNotFound(waves.endTurn(owner, turn)),
      endSession: (owner) =>
        // operations first: they use the executor that ends with the waves
        orNotFound(Effect.zipWith(operations.endSession(owner), waves.endSession(owner), (one, other) => one || other)),
      tools: (owner) => Effect.map(waves.tools(owner), (all) => all.map(toolOf)),

      agents: operations.agents,
      start: Effect.fnUntraced(function*(owner, message) {
        const { after, info } = yield* operations.start(owner, message)
        return { operation: yield* info, ...after === undefined ? {} : { after } }
      }),
      operation: (owner, name) => Effect.flatMap(operation(owner, name), ({ info }) => info),
      operations: operations.list,
      running: (owner) =>
        Effect.flatMap(
          operations.running(owner),
          Option.match({ onNone: () => Effect.succeedNone, onSome: ({ info }) => Effect.asSome(info) })
        ),
      watchOperation: (owner, name, after) => Effect.map(operation(owner, name), ({ events }) => events(after)),
      say: (owner, name, { text, ...how }) => Effect.flatMap(operation(owner, name), ({ say }) => say(text, how)),
      cancelOperation: (owner, name, reason) => Effect.flatMap(operation(owner, name), ({ cancel }) => cancel(reason)),

      history: (owner) =>
        Effect.map(
          operations.history(owner),
          ({ content }) => History.toWire(content, { redactorOf, isShared: false })
        ),
      conversation: operations.conversation,
      conversationDetail: Effect.fnUntraced(function*(owner, isShared) {
        const conversation = yield* found(operations.conversation(owner))
        const { content } = yield* operations.history(owner)
        const messages = History.toWire(content, { redactorOf, isShared })
        const begun = messages.findIndex((it) => it.operation !== undefined && it.operation === conversation.operation)
        const all = yield* operations.list(owner)
        const secrets = isShared ? History.secretsIn(content, redactorOf) : []
        return {
          ...conversation,
          // the rest is in the events of the operation
          history: begun < 0 ? messages : messages.slice(0, begun),
          operations: isShared ? all.map((it) => Operations.shared(it, secrets)) : all
        }
      }),
      watchConversation: (owner, isShared, after) =>
        Effect.andThen(found(operations.conversation(owner)), found(operations.events(owner, after, isShared))),

      sessions: Effect.fnUntraced(function*(user) {
        const here = yield* waves.sessions(user)
        const all = shared === undefined ? [] : yield* shared.sessions(user, mostListed)
        return together(all, here, ({ session }) => session)
      }),
      waves: Effect.fnUntraced(function*(user) {
        const seen = (yield* waves.list).filter(({ owner }) => Rights.seesWavesOf(user, owner.user))
        const here = yield* Effect.forEach(seen.slice(-mostListed), ({ info }) => info)
        if (shared === undefined) return here
        return SharedLists.latest(together(yield* shared.waves(user, mostListed), here, keyOf), mostListed)
      }),
      conversations: Effect.fnUntraced(function*(user) {
        const here = (yield* operations.conversations).filter((it) => Rights.seesWavesOf(user, it.user))
        if (shared === undefined) return here.slice(0, mostListed)
        const all = yield* shared.conversations(user, mostListed)
        // what their processes know of them is on record as approval requests, which are only counted here
        const { open } = yield* approvals.list({ ...user, approve: Rights.seenBy(user) ?? ["*"] })
        return together(SharedLists.waiting(all, open), here, keyOf)
          .sort((one, other) => other.updatedAt - one.updatedAt).slice(0, mostListed)
      }),

      approvals: approvals.list,
      approval: (user, id) => found(approvals.get(user, id)),
      approvalPart: (user, of) => found(approvals.part(user, of)),
      isPending: approvals.isPending,
      answer: approvals.answer,
      answerAll: approvals.answerAll,

      grants: records.grants,
      revoke: records.revoke,

      checkpoints: undoing.list,
      undoPlan: undoing.plan,
      undo: undoing.restore,

      journal: records.entries,
      journalCalls: records.calls,
      journalCall: records.call
    })
  })
)

const found = <A, E>(effect: Effect.Effect<Option.Option<A>, E>): Effect.Effect<A, E | NotFound> =>
  Effect.flatMap(effect, (it) => Option.isSome(it) ? Effect.succeed(it.value) : Effect.fail(new NotFound({})))

const orNotFound = <E>(is: Effect.Effect<boolean, E>): Effect.Effect<void, E | NotFound> =>
  Effect.flatMap(is, (it) => it ? Effect.void : Effect.fail(new NotFound({})))

const toolOf = ({ annotations, description, jsonSchema, name }: RegisteredTool): typeof Models.Tool.Type => ({
  name,
  ...description === undefined ? {} : { description },
  parameters: jsonSchema as Schema.Json,
  readOnly: Context.get(annotations, Tool.Readonly)
})

/** What all processes list, with what this one knows better. */
const together = <A>(all: ReadonlyArray<A>, here: ReadonlyArray<A>, keyOf: (it: A) => string): Array<A> =>
  Array.from(new Map([...all, ...here].map((it) => [keyOf(it), it])).values())

const keyOf = ({ session, user, wave }: Owner & { readonly wave?: string }): string =>
  JSON.stringify([user, session, wave])
