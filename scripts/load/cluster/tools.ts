// The tools of a runner under load. Each leaves lines in a ledger, a file outside of the database: what was done can be
// counted there whatever the runners and their records say.
import { Effect, Schema } from "effect"
import { ToolAnnotations, ToolContext, type ToolRule } from "effect-tool-executor"
import { Tool, Toolkit } from "effect/ai"
import { appendFileSync } from "node:fs"
import { type Line, type Phase, write } from "./ledger.ts"

const Params = Schema.Struct({ key: Schema.String, millis: Schema.Finite })
const tool = <const Name extends string>(name: Name) => Tool.make(name, { parameters: Params, success: Schema.String })

/** Calls of `capped` at once, over all runners. */
export const cap = 4

/** Calls of `limited` in one session, ever. */
export const max = 3

export const toolkit = Toolkit.make(
  tool("look").annotate(Tool.Readonly, true),
  // must not happen twice
  tool("note"),
  // may run again with the same key
  tool("send").annotate(ToolAnnotations.UsesIdempotencyKey, true),
  // needs a person
  tool("ask"),
  // rules of the whole session
  tool("limited"),
  tool("left"),
  tool("right"),
  tool("verify"),
  tool("refund"),
  // permits of all runners together
  tool("capped").annotate(ToolAnnotations.Promoted, true).annotate(ToolAnnotations.MaxConcurrent, cap),
  tool("keyed").annotate(ToolAnnotations.Resources, (params) => [resourceOf((params as typeof Params.Type).key)])
)

/** Few keys for all sessions, so that runners meet. */
export const resourceOf = (key: string): string => `shelf-${key.charCodeAt(key.length - 1) % 8}`

const session = { scope: "session" } as const

export const rules: ReadonlyArray<ToolRule.ToolRule> = [
  { _tag: "MaxCalls", tool: "limited", max, ...session },
  { _tag: "ExclusiveGroup", tools: ["left", "right"], ...session },
  { _tag: "RequiresPrecedingTools", tool: "refund", tools: ["verify"], ...session }
]

/** Handlers that write to a ledger, if there is one. */
export const handlers = (file: string | undefined, runner: string) => {
  const line = (it: Pick<Line, "idempotencyKey" | "key" | "principal" | "tool"> & { readonly phase: Phase }) =>
    file === undefined
      ? Effect.void
      : Effect.sync(() => appendFileSync(file, write({ ...it, at: Date.now(), runner })))
  const work = ({ key, millis }: typeof Params.Type) =>
    Effect.gen(function*() {
      const { commit, idempotencyKey = "", principal = "", progress, tool = "" } = yield* ToolContext.ToolContext
      const about = { key, idempotencyKey, principal, tool }
      yield* line({ ...about, phase: "began" })
      yield* Effect.onExit(
        Effect.gen(function*() {
          yield* Effect.sleep(millis / 2)
          yield* progress({ progress: 1, total: 2 })
          yield* Effect.sleep(millis / 2)
          yield* commit(line({ ...about, phase: "done" }))
        }),
        () => line({ ...about, phase: "left" })
      )
      return key
    })
  const look = ({ key, millis }: typeof Params.Type) => Effect.as(Effect.sleep(millis), key)
  return toolkit.toLayer({
    look,
    note: work,
    send: work,
    ask: work,
    limited: work,
    left: work,
    right: work,
    verify: work,
    refund: work,
    capped: work,
    keyed: work
  })
}
