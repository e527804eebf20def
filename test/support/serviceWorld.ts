/**
 * What the runners of a random world share: tools whose handlers leave lines in a ledger outside of the database, rules,
 * a policy, agents and users.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { LocalExecutor, ToolAnnotations, ToolContext, ToolHandlers, type ToolRule } from "../../src/index.ts"
import * as Access from "../../src/server/users/Access.ts"

/** One life of a runner. What a dead one still does in this process happens nowhere. */
export interface Life {
  readonly name: string
  /** When it was killed. */
  diedAt: number | undefined
}

/** `began` and `left` span the handler; `done` is its effect. */
export interface Line {
  readonly at: number
  readonly phase: "began" | "waits" | "goes on" | "done" | "left"
  readonly tool: string
  readonly key: string
  readonly principal: string
  readonly idempotencyKey: string
  readonly life: Life
}

/** What a handler does with its call. */
export const doings = ["work", "slow", "fail", "hang", "confirm"] as const

/** What a handler does with its call. */
export type Does = typeof doings[number]

const Params = Schema.Struct({ key: Schema.String, does: Schema.Literals(doings) })
type Params = typeof Params.Type

const tool = <const Name extends string>(name: Name) =>
  Tool.make(name, { parameters: Params, success: Schema.String, failure: Schema.String })
    .annotate(ToolAnnotations.Targets, (params) => [{ text: (params as Params).key }])

/** How a tool may be treated, by what it declares. */
export interface Kind {
  /** How often its effect may happen. */
  readonly repeats: "never" | "with its key" | "as it likes"
  /** How many people approve. */
  readonly approvals?: 1 | 2
  /** It is denied by the policy. */
  readonly isDenied?: true
  /** It is asked for afterwards whether it has happened, so that it is never `Unknown`. */
  readonly isReconciled?: true
}

/** The tools. */
export const kinds = {
  look: { repeats: "as it likes" },
  note: { repeats: "never" },
  send: { repeats: "with its key" },
  put: { repeats: "as it likes" },
  book: { repeats: "never", isReconciled: true },
  pay: { repeats: "never", approvals: 1 },
  mail: { repeats: "with its key", approvals: 1 },
  wire: { repeats: "never", approvals: 2 },
  banned: { repeats: "never", isDenied: true },
  limited: { repeats: "never" },
  left: { repeats: "never" },
  right: { repeats: "never", approvals: 1 },
  verify: { repeats: "never" },
  refund: { repeats: "never", approvals: 1 },
  capped: { repeats: "never" },
  keyed: { repeats: "never" }
} as const satisfies Record<string, Kind>

/** Name of a tool. */
export type Name = keyof typeof kinds

/** How a tool may be treated. */
export const kindOf = (name: Name): Kind => kinds[name]

/** Calls of `limited` in one session, ever. */
export const max = 3

/** Calls of `capped` at once, over all runners. */
export const cap = 2

/** Few keys for all sessions, so that runners meet. */
export const shelfOf = (key: string): string => `shelf-${key.charCodeAt(key.length - 1) % 3}`

/** People who approve for everybody. */
export const approvers = ["bob", "cleo", "dan"] as const

const session = { scope: "session" } as const

const rules: ReadonlyArray<ToolRule.ToolRule> = [
  { _tag: "MaxCalls", tool: "limited", max, ...session },
  { _tag: "ExclusiveGroup", tools: ["left", "right"], ...session },
  { _tag: "RequiresPrecedingTools", tool: "refund", tools: ["verify"], ...session }
]

const policy = {
  default: "allow",
  deny: ["banned"],
  ask: [
    "pay",
    "mail",
    "right",
    "refund",
    ...Object.keys(kinds).map((tool) => `${tool}(confirm:*)`),
    { tool: "wire", approvers: { count: 2 } }
  ]
} as const

/** The ledger, and what lets handlers go that hang. */
export class Ledger {
  readonly lines: Array<Line> = []
  private readonly freed = new Set<string>()
  private isOver = false

  /** Lets the handler of a key go, now or when it comes. */
  free(key: string): void {
    this.freed.add(key)
  }

  /** No handler hangs any more. */
  freeAll(): void {
    this.isOver = true
  }

  isFree(key: string): boolean {
    return this.isOver || this.freed.has(key)
  }

  of(key: string, phase: Line["phase"]): ReadonlyArray<Line> {
    return this.lines.filter((it) => it.key === key && it.phase === phase)
  }
}

/** What runners of a test are built of, but for their stores; the handlers are those of one life. */
export const layer = (
  ledger: Ledger,
  life: Life
): Layer.Layer<Access.Access | LocalExecutor.Gates | ToolHandlers.ToolHandlers> => {
  const toolkit = toolkitOf(ledger)
  const dead = Effect.suspend(() => life.diedAt === undefined ? Effect.void : Effect.never)
  const work = ({ does, key }: Params) =>
    Effect.gen(function*() {
      yield* dead
      const { commit, confirmTarget, idempotencyKey = "", principal = "", tool = "" } = yield* ToolContext.ToolContext
      const mark = (phase: Line["phase"]) =>
        Effect.sync(() => {
          if (life.diedAt !== undefined) return
          ledger.lines.push({ at: Date.now(), phase, tool, key, principal, idempotencyKey, life })
        })
      yield* mark("began")
      return yield* Effect.gen(function*() {
        if (does === "fail") return yield* Effect.fail(`failed ${key}`)
        if (does === "confirm") {
          yield* mark("waits")
          const isAllowed = yield* confirmTarget({ text: `confirm:${key}` })
          yield* mark("goes on")
          if (!isAllowed) return `left out ${key}`
        }
        if (does === "hang") {
          yield* Effect.repeat(Effect.delay(Effect.sync(() => ledger.isFree(key)), "20 millis"), { until: (it) => it })
        }
        yield* Effect.sleep(does === "slow" ? "150 millis" : "5 millis")
        yield* dead
        yield* commit(mark("done"))
        return `done ${key}`
      }).pipe(Effect.onExit(() => mark("left")))
    })
  const handlers = toolkit.toLayer({
    look: work,
    note: work,
    send: work,
    put: work,
    book: work,
    pay: work,
    mail: work,
    wire: work,
    banned: work,
    limited: work,
    left: work,
    right: work,
    verify: work,
    refund: work,
    capped: work,
    keyed: work
  })
  const users = Layer.succeed(Access.Access, {
    userOf: () => Effect.succeedNone,
    mayRun: () => Effect.succeed(true)
  })
  const gates = LocalExecutor.layerGates({ policy, rules, dedupe: false })
  return Layer.mergeAll(gates, users).pipe(
    Layer.provideMerge(Layer.provide(ToolHandlers.layer([toolkit]), handlers)),
    Layer.orDie
  )
}

const toolkitOf = (ledger: Ledger) =>
  Toolkit.make(
    tool("look").annotate(Tool.Readonly, true),
    tool("note"),
    tool("send").annotate(ToolAnnotations.UsesIdempotencyKey, true),
    tool("put").annotate(Tool.Idempotent, true),
    tool("book").annotate(ToolAnnotations.Reconcile, (params) =>
      Effect.sync(() =>
        ledger.of((params as Params).key, "done").length > 0
          ? { _tag: "Happened", result: `done ${(params as Params).key}` } as const
          : { _tag: "DidNotHappen" } as const
      )),
    tool("pay"),
    tool("mail").annotate(ToolAnnotations.UsesIdempotencyKey, true),
    tool("wire"),
    tool("banned"),
    tool("limited"),
    tool("left"),
    tool("right"),
    tool("verify"),
    tool("refund"),
    tool("capped").annotate(ToolAnnotations.Promoted, true).annotate(ToolAnnotations.MaxConcurrent, cap),
    tool("keyed").annotate(ToolAnnotations.Resources, (params) => [shelfOf((params as Params).key)])
  )
