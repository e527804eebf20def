/** Which limits hold for two processes together over one PostgreSQL, and which for each: the table of the guide. */
import { assert, layer } from "@effect/vitest"
import { SqlCircuitBreakerStore, SqlPermits, SqlRateLimiterStore, SqlStateStore } from "effect-tool-executor/sql"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  Approvals,
  LocalExecutor,
  ToolAnnotations,
  ToolCall,
  ToolExecutor,
  type ToolHandlers,
  type ToolRule
} from "../../src/index.ts"
import { tag, toolkit, type ToolSpec } from "../support/Harness.ts"
import * as Postgres from "../support/Postgres.ts"

const shared = Layer.mergeAll(
  SqlStateStore.layer(),
  SqlRateLimiterStore.layer,
  SqlCircuitBreakerStore.layer(),
  SqlPermits.layer()
)

interface Limit {
  readonly rules?: ReadonlyArray<ToolRule.ToolRule>
  readonly tools?: ToolHandlers.Options["tools"]
  readonly dedupe?: LocalExecutor.Options["dedupe"]
  readonly turn?: LocalExecutor.Options["turn"]
  readonly policy?: LocalExecutor.Options["policy"]
  /** The tool that each process calls in turn. */
  readonly calls?: readonly [string, string]
  /** Both make the same call. */
  readonly isSame?: true
  /** The call of the first process fails. */
  readonly fails?: true
  /** A person approves the call of the first process, and everything like it. */
  readonly isApproved?: true
  /** What the call of the second process meets. */
  readonly together: string
  /** The same where each process has stores of its own. Default: it runs. */
  readonly apart?: string
}

/** What the first call of each process meets if both have one limit of one call between them. */
const limits: Readonly<Record<string, Limit>> = {
  MaxCalls: { rules: [{ _tag: "MaxCalls", tool: "t", max: 1 }], together: "RuleViolation" },
  "an exclusive group": {
    rules: [{ _tag: "ExclusiveGroup", tools: ["t", "u"] }],
    calls: ["t", "u"],
    together: "RuleViolation"
  },
  "a cooldown": { rules: [{ _tag: "Cooldown", tool: "t", duration: "1 hour" }], together: "RuleViolation" },
  dedupe: { dedupe: { scope: "batch" }, isSame: true, together: "DuplicateCall" },
  "a rate": { tools: { t: { rateLimit: { limit: 1, window: "1 hour" } } }, together: "RateLimited" },
  "a circuit": { tools: { t: { circuitBreaker: { failures: 1 } } }, fails: true, together: "CircuitOpen" },
  "a remembered approval": {
    policy: { default: "ask" },
    isApproved: true,
    together: "Succeeded",
    apart: "PermissionDenied"
  },
  "the calls of a turn": { turn: { maxCalls: 1 }, together: "Succeeded" }
}

const specs: Record<string, ToolSpec> = {
  t: {
    class: "ConcurrentMut",
    handler: ({ fails }) => fails === true ? Effect.fail("it is down") : Effect.void,
    annotate: (tool) => tool.annotate(ToolAnnotations.Targets, () => [{ text: "one" }])
  },
  u: { class: "ConcurrentMut", handler: () => Effect.void }
}

const trial = Effect.fnUntraced(function*(limit: Limit, stores: ReadonlyArray<Layer.Layer<never>>) {
  const { handlers, kit } = toolkit(specs)
  const { apart: _, calls = ["t", "t"], fails, isApproved, isSame, together: __, ...options } = limit
  const person = isApproved === undefined
    ? Layer.empty
    : Approvals.layerApprover(() => Effect.succeed({ _tag: "ApproveForScope", scope: "tool" }))
  const met: Array<string> = []
  for (const [index, store] of stores.entries()) {
    const executor = LocalExecutor.layer(kit, { policy: { default: "allow" }, dedupe: false, ...options }).pipe(
      Layer.provide(index === 0 ? person : Layer.empty),
      Layer.provide(store),
      Layer.provide(handlers)
    )
    const context = yield* Layer.build(Layer.fresh(executor))
    const batch = yield* Context.get(context, ToolExecutor.ToolExecutor).batch("batch")
    const process = yield* batch.process()
    const params = fails && index === 0 ? { fails } : { n: isSame ? 0 : index }
    met.push(tag(yield* process.execute(ToolCall.make(`${index}`, calls[index]!, params))))
  }
  return met
})

layer(Postgres.layer)("over one PostgreSQL, two processes", (it) => {
  for (const [name, limit] of Object.entries(limits)) {
    const { apart = "Succeeded", fails, together } = limit
    it.effect(`have ${name} ${apart === together ? "each" : "together"}`, () =>
      Effect.gen(function*() {
        const { database } = yield* Postgres.Postgres
        const client = Postgres.clientOf(yield* database).pipe(Layer.provide(Postgres.realTime))
        const stores = shared.pipe(Layer.provide(client), Layer.orDie) as Layer.Layer<never>
        const first = fails === true ? "Failed" : "Succeeded"
        assert.deepStrictEqual(yield* trial(limit, [Layer.fresh(stores), Layer.fresh(stores)]), [first, together])
        assert.deepStrictEqual(yield* trial(limit, [Layer.empty, Layer.empty]), [first, apart])
      }))
  }
})
