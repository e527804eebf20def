/**
 * The waves of a server over a handful of tools, in lives one after the other: what the
 * stores of a life have is there for the next one.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"
import { type Rows, SessionRows } from "../../src/core/store/SessionRows.ts"
import {
  type Approvals,
  Dedupe,
  Journal,
  Permissions,
  type Policy,
  Pools,
  Rules,
  StateStore,
  ToolExecutors,
  ToolHandlers,
  type ToolRule
} from "../../src/index.ts"
import type { LiveItem } from "../../src/server/api/ApiApprovals.ts"
import * as PendingApprovals from "../../src/server/approvals/PendingApprovals.ts"
import * as LiveLog from "../../src/server/live/LiveLog.ts"
import * as Agents from "../../src/server/operations/Agents.ts"
import * as Operations from "../../src/server/operations/Operations.ts"
import * as OperationStore from "../../src/server/operations/OperationStore.ts"
import * as SessionHost from "../../src/server/sessions/SessionHost.ts"
import * as Access from "../../src/server/users/Access.ts"
import * as Waves from "../../src/server/waves/Waves.ts"
import * as WaveStore from "../../src/server/waves/WaveStore.ts"
import * as SqlApprovals from "../../src/sql/SqlApprovals.ts"
import * as Sqlite from "../../src/sql/Sqlite.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as SqlOwnRows from "../../src/sql/SqlOwnRows.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlSessionRows from "../../src/sql/SqlSessionRows.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import { toolkit, type ToolSpec } from "./Harness.ts"
import * as Postgres from "./Postgres.ts"

export interface Options {
  readonly waves?: Waves.Options | undefined
  readonly rules?: ReadonlyArray<ToolRule.ToolRule>
  readonly policy?: Policy.Policy
  /** Who may run calls, by name. */
  readonly mayRun?: (user: string) => boolean
  /** Everything that the live log is told. */
  readonly told?: Array<LiveItem>
  /** The agents of each life. */
  readonly agents?: { readonly [name: string]: Agents.Options }
  readonly operations?: Operations.Options
}

export type Tools = { readonly [name: string]: ToolSpec }

type Provided =
  | Operations.Operations
  | Waves.Waves
  | ToolExecutors.ToolExecutors
  | PendingApprovals.PendingApprovals
  | SessionHost.SessionHost
  | Approvals.Approvals

/** Everything above the stores. */
const above = (
  tools: Tools,
  { agents = {}, mayRun = () => true, operations, policy = { default: "allow" }, rules = [], told, waves }: Options
) => {
  const { handlers, kit } = toolkit(tools)
  const gates = Layer.mergeAll(
    Rules.layer(rules),
    Permissions.layer(policy),
    Dedupe.layerNoop,
    Pools.layer()
  ).pipe(Layer.provideMerge(ToolHandlers.layer(kit).pipe(Layer.provide(handlers))))
  const live = told === undefined ? LiveLog.layer({ maxItems: 500 }) : Layer.succeed(LiveLog.LiveLog, {
    tell: (_, item) => void told.push(item),
    cursor: Effect.succeed(""),
    stream: () => Stream.empty,
    stop: Effect.void
  })
  const users = Layer.succeed(Access.Access, {
    userOf: () => Effect.succeedNone,
    mayRun: (user) => Effect.sync(() => mayRun(user))
  })
  return SessionHost.layer.pipe(
    Layer.provideMerge(Layer.merge(Waves.layer(waves), Operations.layer({ listed: "1 hour", ...operations }))),
    Layer.provideMerge(ToolExecutors.layer()),
    Layer.provide([gates, Agents.layer(agents)]),
    Layer.provideMerge(PendingApprovals.layer()),
    Layer.provide([live, users])
  )
}

/** A server that keeps everything in memory. */
export const inMemory = (tools: Tools, options: Options = {}, journal = Journal.layerMemory()) =>
  above(tools, options).pipe(Layer.provideMerge(journal))

/** A server over the rows of a PostgreSQL that it shares with others: sessions are opened by those that hold them. */
export const shared = (url: string, tools: Tools, { lease = "2 seconds", ...options }: Options & {
  readonly lease?: Duration.Input
} = {}) =>
  above(tools, options).pipe(
    Layer.provideMerge(Layer.mergeAll(
      SqlJournal.layer(),
      SqlStateStore.layer({ lease }),
      WaveStore.layer,
      OperationStore.layer,
      TranscriptStore.layer,
      SqlApprovals.layer
    )),
    Layer.provide(SqlSessionRows.layer),
    Layer.provideMerge(SqlSessionRegistry.layer({ lease })),
    Layer.provide(Postgres.clientOf(url))
  )

/** Stores in a database. */
const stores = (
  held: { readonly lease: Duration.Input; readonly isAlone: boolean },
  around: Around,
  isLost: (key: string) => boolean
) => {
  const losing = Layer.effect(
    SessionRows,
    Effect.map(SessionRows, (rows): SessionRows["Service"] => ({
      ...rows,
      of: (principal) => {
        const own = rows.of(principal)
        const write: Rows["write"] = (changes) =>
          changes.some(({ key }) => isLost(key)) ? Effect.never : own.write(changes)
        return { ...own, write }
      }
    }))
  ).pipe(Layer.provide(SqlOwnRows.layer))
  return Layer.mergeAll(
    SqlJournal.layer(held),
    SqlStateStore.layer(held.isAlone ? held : {}),
    Layer.effect(WaveStore.WaveStore, Effect.map(WaveStore.WaveStore, around)).pipe(
      Layer.provide(WaveStore.layer),
      Layer.provide(SqlOwnRows.layer)
    ),
    Layer.mergeAll(OperationStore.layer, TranscriptStore.layer).pipe(Layer.provide(losing))
  )
}

/** What a test does to a store of waves. */
export type Around = (store: WaveStore.WaveStore["Service"]) => WaveStore.WaveStore["Service"]

const withoutJournal = Layer.mergeAll(
  StateStore.layerMemory(),
  WaveStore.layer.pipe(Layer.provide(SqlOwnRows.layer))
)

export interface Life {
  readonly context: Context.Context<Provided>
  /** It dies: from one moment to the next nothing of it is written any more. */
  readonly kill: Effect.Effect<void>
  /** It is told to end, and ends. */
  readonly close: Effect.Effect<void>
}

/** Begins a life over a file. */
export const begin = Effect.fnUntraced(function*(
  filename: string,
  tools: Tools,
  {
    around = (store) => store,
    hasJournal = true,
    isAlone = false,
    isLost = () => false,
    lease = "200 millis",
    ...options
  }: Options & {
    readonly around?: Around
    /** Records of operations and conversations that are being written when the life ends, and are not there after it. */
    readonly isLost?: (key: string) => boolean
    readonly hasJournal?: boolean
    readonly isAlone?: boolean
    readonly lease?: Duration.Input
  } = {}
): Effect.fn.Return<Life, unknown, Scope.Scope> {
  const [database, rest] = [yield* Scope.make(), yield* Scope.make()]
  const sqlite = yield* Layer.buildWithScope(Sqlite.layer({ filename }), database)
  // one that has no thread for reads: virtual time knows nothing of what goes on in others
  const client = Context.make(SqlClient.SqlClient, Context.get(sqlite, SqlClient.SqlClient).withoutTransforms())
  const layer = above(tools, options).pipe(
    Layer.provideMerge(hasJournal ? stores({ lease, isAlone }, around, isLost) : withoutJournal),
    Layer.provide(Layer.succeedContext(client))
  )
  const context = yield* Layer.buildWithScope(Layer.fresh(layer), rest)
  let isOver = false
  const once = (end: Effect.Effect<void>) =>
    Effect.suspend(() => {
      if (isOver) return Effect.void
      isOver = true
      return end
    })
  const close = once(Effect.andThen(Scope.close(rest, Exit.void), Scope.close(database, Exit.void)))
  yield* Effect.addFinalizer(() => close)
  // what it was about to do it does not come to: nobody runs its finalizers
  return { context, close, kill: once(Scope.close(database, Exit.void)) }
})

/** A message of OpenAI with a call for each name. */
export const message = (...names: ReadonlyArray<string>) => ({
  role: "assistant",
  tool_calls: names.map((name, index) => ({
    id: `c${index}`,
    type: "function",
    function: { name, arguments: JSON.stringify({ index }) }
  }))
})

export const ada = { user: "ada", session: "one" }
