/**
 * An executor whose caps and resource keys hold for several processes, as a process of its own. Its handlers write into
 * a ledger that all of them append to: the order of its lines is the order in which things happened.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import { ToolAnnotations, ToolContext } from "effect-tool-executor"
import { SqlPermits } from "effect-tool-executor/sql"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { appendFileSync } from "node:fs"
import * as Pools from "../../src/core/gates/Pools.ts"
import { ToolCall } from "../../src/index.ts"
import { open, type ToolSpec } from "./Harness.ts"

export interface Options {
  readonly url: string
  readonly ledger: string
  readonly lease: string
  /** Calls that a process has at once. */
  readonly together: number
  /** `cap`: of a tool with a cap of 4. `keys`: with some of four keys. `writes`: of one key, writing all the time. */
  readonly work: "cap" | "keys" | "writes"
}

const { lease, ledger, together, url, work } = JSON.parse(process.argv[2]!) as Options

const note = (what: string, call: string, keys: ReadonlyArray<string> = []) =>
  appendFileSync(ledger, `${[what, process.pid, call, ...keys].join(" ")}\n`)

const keysOf = ({ keys }: { readonly keys?: unknown }): Array<string> => Array.isArray(keys) ? keys.map(String) : []

/** Is in a handler for some milliseconds. */
const stays: ToolSpec["handler"] = (params) =>
  Effect.gen(function*() {
    const { callId = "" } = yield* ToolContext.ToolContext
    note("in", callId, keysOf(params))
    yield* Effect.sleep(5 + Number(params["n"]) % 7)
    note("out", callId, keysOf(params))
  })

const tools: Record<string, ToolSpec> = {
  cap: { handler: stays },
  keys: {
    class: "ConcurrentMut",
    handler: stays,
    annotate: (tool) => tool.annotate(ToolAnnotations.Resources, (params) => keysOf(params as object))
  },
  writes: {
    class: "SerialMut",
    annotate: (tool) => tool.annotate(ToolAnnotations.Resources, () => ["one"]),
    handler: () =>
      Effect.gen(function*() {
        const { callId = "", commit } = yield* ToolContext.ToolContext
        for (let n = 0; n < 12; n++) {
          yield* commit(Effect.sync(() => note("wrote", callId)))
          yield* Effect.sleep(5)
        }
      })
  }
}

const names = ["a", "b", "c", "d"]

const program = Effect.gen(function*() {
  const context = yield* Effect.context<never>()
  const pools = Pools.layer({ read: 100 }).pipe(Layer.orDie, Layer.provide(Layer.succeedContext(context)))
  const { executor } = yield* open(tools, { dedupe: false, pools, tools: { cap: { maxConcurrent: 4 } } })
  process.stdout.write("{\"_tag\":\"Ready\"}\n")
  const one = Effect.fnUntraced(function*(loop: number) {
    const own = yield* executor.process()
    for (let n = loop; true; n += together) {
      const keys = names.filter((_, index) => (n * 7 >> index) % 2 === 1 || index === n % 4)
      const { outcomes } = yield* own.executeWave([ToolCall.make(`${n}`, work, work === "keys" ? { n, keys } : { n })])
      note("ended", `${n}`, [outcomes[0]!._tag])
      yield* Effect.sleep(1)
    }
  })
  yield* Effect.forEach(Array.from({ length: together }, (_, n) => n), one, { concurrency: "unbounded" })
}).pipe(
  Effect.scoped,
  Effect.provide(
    SqlPermits.layer({ lease: lease as "1 second" }).pipe(
      Layer.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 4 }))
    )
  )
)

await Effect.runPromise(program)
