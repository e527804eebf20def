/** The backend: an agent behind HTTP, people who approve its calls, and records that survive a restart. */
import { Layer, type Redacted } from "effect"
import { LocalExecutor, ToolHandlers } from "effect-tool-executor"
import { TranscriptStore } from "effect-tool-executor/agent"
import { Access, Agents, OperationStore, Server, Tokens, WaveStore } from "effect-tool-executor/server"
import { SqlJournal, SqlOwnRows, SqlStateStore } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import type { LanguageModel } from "effect/ai"
import { Handlers, toolkit } from "./tools.ts"

/** Agents that clients start by name: `POST /api/sessions/{session}/operations`. */
const support = <E>(model: Layer.Layer<LanguageModel.LanguageModel, E>) =>
  Agents.layer({
    support: {
      model,
      description: "Helps customers with their orders",
      system: "You help customers of a shop with their orders. Find an order before you pay it back.",
      limits: { turns: 10, time: "5 minutes" }
    }
  })

/** What must survive a restart: calls, conversations, operations and pending approvals. */
const records = (filename: string) =>
  Layer.mergeAll(
    SqlJournal.layer(),
    SqlStateStore.layer(),
    Layer.mergeAll(WaveStore.layer, OperationStore.layer, TranscriptStore.layer).pipe(
      Layer.provide(SqlOwnRows.layer)
    )
  ).pipe(Layer.provide(Sqlite.layer({ filename })))

/** Ada talks to the agent. Bob approves everybody's calls. */
const users = (ada: Redacted.Redacted<string>, bob: Redacted.Redacted<string>) =>
  Access.layer({
    users: [
      { name: "ada", run: true, records: ["ada"], tokens: [{ hash: Tokens.hash(ada) }] },
      { name: "bob", approve: ["*"], records: ["*"], tokens: [{ hash: Tokens.hash(bob) }] }
    ]
  })

export interface Options<E> {
  readonly model: Layer.Layer<LanguageModel.LanguageModel, E>
  /** A file of SQLite, or `:memory:`. */
  readonly filename: string
  readonly ada: Redacted.Redacted<string>
  readonly bob: Redacted.Redacted<string>
}

/** What the routes of `Server.layer()` need. */
export const backend = <E>({ ada, bob, filename, model }: Options<E>) =>
  Server.layerExecutors({ approvals: { timeout: "8 hours" } }).pipe(
    Layer.provide(LocalExecutor.layerGates({
      // what runs without approval, and what a person must approve
      policy: { allow: ["find_order"], ask: ["refund"] },
      rules: [{ _tag: "RequiresPrecedingTools", tool: "refund", tools: ["find_order"] }],
      executionTimeout: "30 seconds"
    })),
    Layer.provide(ToolHandlers.layer(toolkit)),
    Layer.provide([support(model), Handlers, records(filename)]),
    Layer.provideMerge(users(ada, bob))
  )
