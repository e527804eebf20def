// What the sessions call: tools of every class that do what their arguments say, under every limit there is, and that
// look whether more of them run at once than may.
import { Effect, Schema } from "effect"
import { type Policy, ToolAnnotations, ToolCall, ToolContext, type ToolRule } from "effect-tool-executor"
import { Tool, Toolkit } from "effect/ai"
import type { SeededRandom } from "../../test/support/randomCase.ts"

/** What a handler is told to do. */
const Params = Schema.Struct({
  act: Schema.Literals(["sleep", "fail", "die", "hang", "deaf", "commit", "big"]),
  millis: Schema.Finite,
  key: Schema.String,
  n: Schema.Finite,
  /** What a sub-agent calls. */
  inner: Schema.optionalKey(Schema.Array(Schema.Struct({ id: Schema.String, tool: Schema.String, n: Schema.Finite })))
})

type Params = typeof Params.Type

const declared = <Name extends string>(name: Name) =>
  Tool.make(name, { parameters: Params, success: Schema.String, failure: Schema.String })
    .annotate(Tool.OpenWorld, false)

const concurrent = <Name extends string>(name: Name) => declared(name).annotate(ToolAnnotations.Promoted, true)

const keyed = (params: unknown) => [(params as Params).key]

export const kit = Toolkit.make(
  declared("read").annotate(Tool.Readonly, true),
  declared("note").annotate(ToolAnnotations.Resources, keyed),
  concurrent("write").annotate(ToolAnnotations.Resources, keyed),
  concurrent("capped").annotate(ToolAnnotations.MaxConcurrent, 2).annotate(Tool.Idempotent, true),
  concurrent("limited").annotate(ToolAnnotations.UsesIdempotencyKey, true),
  concurrent("left"),
  concurrent("right"),
  concurrent("rests"),
  concurrent("asked"),
  concurrent("shaky").annotate(ToolAnnotations.CircuitBreaker, { failures: 3, openFor: "1 second" }),
  concurrent("rated").annotate(ToolAnnotations.RateLimit, { limit: 5, window: "1 second" }),
  concurrent("told").annotate(
    ToolAnnotations.Reconcile,
    (params) => Effect.succeed((params as Params).n % 2 === 0 ? { _tag: "DidNotHappen" } : { _tag: "CannotTell" })
  ),
  declared("agent").annotate(ToolAnnotations.Recursive, true)
)

export const policy: Policy.Policy = { default: "allow", ask: ["asked"] }

export const rules: ReadonlyArray<ToolRule.ToolRule> = [
  { _tag: "MaxCalls", tool: "limited", max: 3 },
  { _tag: "ExclusiveGroup", tools: ["left", "right"] },
  { _tag: "Cooldown", tool: "rests", duration: "100 millis" },
  { _tag: "NeverDedupe", tool: "rests" }
]

export const pools = { read: 6, concurrent: 4, serial: 2 }

const classOf = (tool: string): keyof typeof pools =>
  tool === "read" ? "read" : tool === "note" ? "serial" : "concurrent"

type Limit = readonly [name: string, limit: number]

/** Counts what runs at once, of those that share pools. */
export class Running {
  readonly problems: Array<string>
  /** So many run now. */
  readonly counts = new Map<string, number>()
  /** So many ran at once at most. */
  readonly most = new Map<string, number>()

  constructor(problems: Array<string>) {
    this.problems = problems
  }

  /** Counts one more of something; gives what takes it back, once. */
  enter([name, limit]: Limit): () => void {
    const count = (this.counts.get(name) ?? 0) + 1
    this.counts.set(name, count)
    this.most.set(name, Math.max(count, this.most.get(name) ?? 0))
    if (count > limit) this.problems.push(`${count} of ${name} ran at once`)
    let isIn = true
    return () => {
      if (!isIn) return
      isIn = false
      const left = this.counts.get(name)! - 1
      if (left === 0) this.counts.delete(name)
      else this.counts.set(name, left)
    }
  }
}

/** The handlers of executors that share pools; those of sessions share all but the pools of the classes. */
export const handlers = (running: Running, areSessions: boolean) => {
  const handler = (tool: string) => (params: Params) =>
    Effect.flatMap(ToolContext.ToolContext, ({ agentPath, principal = "", signal }) => {
      const kind = classOf(tool)
      const pool = areSessions ? `${kind} of ${principal}` : kind
      // a sub-agent has concurrent writers and caps of its own
      const isShared = kind !== "concurrent" || agentPath.length === 0
      const permits: ReadonlyArray<Limit> = [
        ...isShared ? [[pool, pools[kind]] as const] : [],
        ...tool === "capped" && isShared ? [[tool, 2] as const] : []
      ]
      const keys: ReadonlyArray<Limit> = tool === "note" || tool === "write" ? [[params.key, 1]] : []
      return Effect.acquireUseRelease(
        Effect.sync(() => {
          const given = permits.map((it) => running.enter(it))
          // a call that is stopped gives its permits back at once, and its keys when its handler has ended
          for (const leave of given) signal.addEventListener("abort", leave, { once: true })
          return [...given, ...[...keys, ["handlers", Infinity] as const].map((it) => running.enter(it))]
        }),
        () => tool === "agent" ? agent(params) : act(params),
        (leave) => Effect.sync(() => leave.forEach((it) => it()))
      )
    })
  return kit.toLayer({
    read: handler("read"),
    note: handler("note"),
    write: handler("write"),
    capped: handler("capped"),
    limited: handler("limited"),
    left: handler("left"),
    right: handler("right"),
    rests: handler("rests"),
    asked: handler("asked"),
    shaky: handler("shaky"),
    rated: handler("rated"),
    told: handler("told"),
    agent: handler("agent")
  })
}

const act = ({ act, millis }: Params): Effect.Effect<string, string> => {
  switch (act) {
    case "fail":
      return Effect.delay(Effect.fail("no"), millis)
    case "die":
      return Effect.delay(Effect.die(new Error("broken")), millis)
    case "hang":
      return Effect.never
    case "deaf":
      return Effect.as(Effect.uninterruptible(Effect.sleep(millis * 20)), "late")
    case "commit":
      return Effect.flatMap(ToolContext.ToolContext, (it) => it.commit(Effect.as(Effect.sleep(millis), "written")))
    case "big":
      return Effect.delay(Effect.sync(() => "much ".repeat(4_000)), millis)
    default:
      return Effect.as(Effect.sleep(millis), "done")
  }
}

/** Has a sub-agent make calls. */
const agent = ({ inner = [], key, millis }: Params): Effect.Effect<string, string> =>
  Effect.gen(function*() {
    const { executor } = yield* ToolContext.ToolContext
    const fork = yield* executor!.fork({ name: "helper" })
    const process = yield* fork.process()
    const calls = inner.map(({ id, n, tool }) => ToolCall.make(id, tool, { act: "sleep", millis, key, n }))
    const { outcomes } = yield* process.executeWave(calls)
    return outcomes.map((it) => it._tag).join()
  }).pipe(Effect.scoped, Effect.mapError((error) => error.message))

const tools = Object.keys(kit.tools)

/** A random wave; `id` makes ids that no other call has. */
export const wave = (
  { chance, int, pick }: SeededRandom,
  id: (kind: "c" | "n") => string
): ReadonlyArray<ToolCall.ToolCall> =>
  Array.from({ length: 1 + int(9) }, () => {
    const tool = chance(0.02) ? "nope" : chance(0.3) ? "read" : pick(tools)
    return ToolCall.make(id("c"), tool, {
      act: tool === "shaky" && chance(0.6)
        ? pick(["fail", "die"])
        : chance(0.5)
        ? "sleep"
        : pick(["commit", "fail", "die", "hang", "deaf", "big"]),
      millis: pick([0, 0, 1, 5, 20, 60]),
      key: `key ${int(12)}`,
      // sometimes equal to another one
      n: chance(0.1) ? 0 : int(1_000_000),
      ...tool === "agent"
        ? { inner: Array.from({ length: 1 + int(3) }, () => ({ id: id("n"), tool: pick(tools), n: int(1_000_000) })) }
        : {}
    })
  })
