/**
 * A host of workflows with the engine of `effect/cluster` over PostgreSQL, and a server over the same database. It
 * executes the workflow of a wave with one call, which notes in a file that it ran.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as ClusterWorkflowEngine from "effect/cluster/ClusterWorkflowEngine"
import * as SingleRunner from "effect/cluster/SingleRunner"
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { appendFileSync } from "node:fs"
import * as ToolWorkflow from "../../src/cluster/ToolWorkflow.ts"
import { LocalExecutor, ToolHandlers } from "../../src/index.ts"
import * as Server from "../../src/server/api/Server.ts"
import { SessionDirectory } from "../../src/server/sessions/SessionDirectory.ts"
import * as Access from "../../src/server/users/Access.ts"
import * as WaveStore from "../../src/server/waves/WaveStore.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as SqlOwnRows from "../../src/sql/SqlOwnRows.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"

export interface Options {
  readonly url: string
  /** Where the call notes that it ran. */
  readonly ledger: string
  /** Whether approval of the call is requested. */
  readonly isAsked: boolean
  /** `begin` executes the workflow and approves nothing; the call of a process that begins never ends. */
  readonly what: "begin" | "finish"
}

export type Line =
  | { readonly _tag: "Pending"; readonly id: string }
  | { readonly _tag: "Calling" }
  | { readonly _tag: "Ended"; readonly status: string; readonly messages: unknown }

const { isAsked, ledger, url, what } = JSON.parse(process.argv[2]!) as Options

const print = (line: Line) => void process.stdout.write(`${JSON.stringify(line)}\n`)

const toolkit = Toolkit.make(
  Tool.make("refund", { parameters: Schema.Struct({ order: Schema.String }), success: Schema.String })
)

const handlers = toolkit.toLayer({
  refund: ({ order }) =>
    Effect.sync(() => {
      appendFileSync(ledger, "ran\n")
      if (what === "begin") print({ _tag: "Calling" })
    }).pipe(Effect.andThen(what === "begin" ? Effect.never : Effect.succeed(`refunded ${order}`)))
})

const engine = ClusterWorkflowEngine.layer.pipe(
  Layer.provideMerge(SingleRunner.layer()),
  Layer.provide(Digest.layerWebCrypto)
)

const stores = Layer.mergeAll(
  SqlJournal.layer({ lease: "2 seconds" }),
  SqlStateStore.layer(),
  Layer.provide(WaveStore.layer, SqlOwnRows.layer)
)

const users = Layer.succeed(Access.Access, {
  userOf: () => Effect.succeedNone,
  mayRun: () => Effect.succeed(true)
})

const server = Server.layerExecutors().pipe(
  Layer.provide([ToolWorkflow.layerEnds, stores, users]),
  Layer.provide(LocalExecutor.layerGates({ policy: { default: isAsked ? "ask" : "allow" } })),
  Layer.provide(Layer.provide(ToolHandlers.layer(toolkit), handlers))
)

const boss = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

const owner = { user: "ada", session: "one" }

const call = { id: "1", type: "function", function: { name: "refund", arguments: "{\"order\":\"17\"}" } }

const wave = { ...owner, name: "refund-17", message: { role: "assistant", tool_calls: [call] } }

const program = Effect.gen(function*() {
  const sessions = yield* SessionDirectory
  const pending = Effect.delay(sessions.approvals(boss), "50 millis").pipe(
    Effect.repeat({ until: ({ open }) => open.length > 0 }),
    Effect.map(({ open }) => open[0]!)
  )
  if (what === "begin") {
    yield* ToolWorkflow.Wave.execute(wave, { discard: true })
    if (isAsked) print({ _tag: "Pending", id: (yield* pending).id })
    return yield* Effect.never
  }
  if (isAsked) {
    const { hash, id } = yield* pending
    print({ _tag: "Pending", id })
    yield* sessions.answer(boss, { id, hash, answer: { _tag: "ApproveOnce" } })
  }
  const ended = yield* ToolWorkflow.Wave.execute(wave)
  const { messages } = yield* sessions.wave(owner, ended.wave)
  print({ _tag: "Ended", status: ended.status, messages })
})

const layer = ToolWorkflow.layer.pipe(
  Layer.provideMerge(server),
  Layer.provideMerge(engine),
  Layer.provideMerge(PgClient.layer({ url: Redacted.make(url), maxConnections: 10 }))
)

await Effect.runPromise(Effect.provide(program, layer))
