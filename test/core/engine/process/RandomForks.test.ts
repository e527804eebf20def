/**
 * Random trees of sub-agents at saturated pools, with people who take their
 * time: every wave ends, and what must not overlap does not.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import { ToolAnnotations, ToolContext, type ToolExecutor, type ToolProcess } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, open, tag, type ToolSpec } from "../../../support/Harness.ts"
import { randomFrom, type SeededRandom } from "../../../support/randomCase.ts"
import { seeds, timeout } from "../../../support/seeds.ts"

interface Node {
  readonly tool: "read" | "write" | "promoted" | "confirmed" | "agent" | "serialAgent"
  readonly millis: number
  readonly key: string
  readonly answer: "yes" | "no" | "silence" | "edit"
  readonly patience: number
  /** What a sub-agent does: waves in some processes at once. */
  readonly processes: ReadonlyArray<ReadonlyArray<ReadonlyArray<Node>>>
  readonly readOnly: boolean
}

const many = <A>(count: number, make: () => A): ReadonlyArray<A> => Array.from({ length: count }, make)

const nodeOf = (random: SeededRandom, depth: number): Node => {
  const { chance, int, pick } = random
  const isAgent = depth > 0 && chance(0.5)
  return {
    tool: isAgent
      ? (chance(0.8) ? "agent" : "serialAgent")
      : pick(["read", "write", "promoted", "confirmed"] as const),
    millis: pick([0, 1, 10, 100]),
    key: pick(["a", "b"]),
    answer: pick(["yes", "yes", "yes", "no", "silence", "edit"] as const),
    patience: pick([0, 5, 1_000]),
    processes: isAgent
      ? many(1 + int(2), () => many(1 + int(2), () => many(1 + int(4), () => nodeOf(random, depth - 1))))
      : [],
    readOnly: chance(0.1)
  }
}

const play = (seed: number) => {
  const random = randomFrom(seed)
  const { chance, int } = random
  const problems: Array<string> = []
  const running = new Map<string, number>()
  const caps: { readonly [name: string]: number } = { read: 1 + int(2), serial: 1 }
  const enter = (name: string, limit: number) =>
    Effect.sync(() => {
      const count = (running.get(name) ?? 0) + 1
      running.set(name, count)
      if (count > limit) problems.push(`${count} of ${name} at once`)
    })
  const leave = (name: string) => Effect.sync(() => void running.set(name, running.get(name)! - 1))
  const inside = (name: string, limit: number, millis: number) =>
    Effect.acquireUseRelease(enter(name, limit), () => Effect.sleep(millis), () => leave(name))

  let lastId = 0
  let waves = 0
  const runWave = (process: ToolProcess.ToolProcess, nodes: ReadonlyArray<Node>) =>
    Effect.map(
      process.executeWave(nodes.map((node) => call(String(++lastId), node.tool, { node, id: lastId }))),
      (wave) => {
        waves++
        if (wave.outcomes.length !== nodes.length) problems.push("a call without an outcome")
        for (const outcome of wave.outcomes) {
          if (tag(outcome) === "Failed") problems.push(`Failed: ${JSON.stringify(outcome)}`)
        }
      }
    )
  const work = ({ processes, readOnly }: Node) =>
    Effect.gen(function*() {
      const { executor } = yield* ToolContext.ToolContext
      const child: ToolExecutor.Service = yield* readOnly ? executor!.readOnly() : executor!.fork({ name: "sub" })
      const batch = yield* child.batch()
      yield* Effect.forEach(processes, (waves) =>
        Effect.flatMap(batch.process(), (process) =>
          Effect.forEach(waves, (nodes) => runWave(process, nodes))), {
        concurrency: "unbounded",
        discard: true
      })
    }).pipe(Effect.scoped)
  const on = (handler: (node: Node) => Effect.Effect<unknown, unknown>): ToolSpec["handler"] => ({ node }) =>
    handler(node as Node)
  const keyed = (tool: Tool.Any) =>
    tool.annotate(ToolAnnotations.Resources, (params) => [(params as { readonly node: Node }).node.key])
  const tools: { readonly [name: string]: ToolSpec } = {
    read: { handler: on(({ millis }) => inside("read", caps.read!, millis)) },
    write: { class: "SerialMut", handler: on(({ millis }) => inside("serial", 1, millis)) },
    promoted: {
      class: "ConcurrentMut",
      annotate: keyed,
      handler: on(({ key, millis }) => inside(`key ${key}`, 1, millis))
    },
    confirmed: {
      class: "SerialMut",
      handler: on(({ key, millis }) =>
        Effect.gen(function*() {
          const { commit, confirmWrite } = yield* ToolContext.ToolContext
          yield* inside("serial", 1, millis)
          yield* confirmWrite(Effect.succeed([{ path: key, before: "1", after: "2" }]))
          yield* commit(inside("serial", 1, millis))
        })
      )
    },
    agent: {
      annotate: (tool) => tool.annotate(Tool.Readonly, chance(0.5)).annotate(ToolAnnotations.Recursive, true),
      handler: on(work)
    },
    serialAgent: { class: "SerialMut", handler: on(work) }
  }
  const roots = many(1 + int(2), () => many(1 + int(3), () => many(1 + int(4), () => nodeOf(random, 3))))
  const asks = chance(0.5) ? ["write", "confirmed(*)"] : ["confirmed(a)", "promoted", "agent"]

  return VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const approvals = yield* Approvals.make({ timeout: "30 seconds" })
      yield* Effect.forkScoped(
        Stream.runForEach(approvals.changes, (change) => {
          if (change._tag !== "Requested") return Effect.void
          const { args, id, isRunning } = change.request
          const { node } = args as { readonly node: Node }
          if (node.answer === "silence") return Effect.void
          const answer = node.answer === "no"
            ? { _tag: "Deny" } as const
            : node.answer === "edit" && !isRunning
            ? { _tag: "ApproveOnce", params: { ...args as object, edited: true } as never } as const
            : chance(0.3)
            ? { _tag: "ApproveForDuration", duration: "1 second" } as const
            : { _tag: "ApproveOnce" } as const
          return Effect.asVoid(
            Effect.forkScoped(Effect.delay(Effect.ignore(approvals.answer(id, answer)), node.patience))
          )
        }),
        { startImmediately: true }
      )
      const { batch, executor } = yield* open(tools, {
        approvals,
        policy: { default: "allow", ask: asks },
        pools: { read: caps.read, concurrent: 1 + int(2), serial: 1 },
        tools: chance(0.5) ? { promoted: { maxConcurrent: 1 }, agent: { maxConcurrent: 1 } } : {},
        executionTimeout: "10 minutes",
        approval: chance(0.3) ? "upfront" : "perCall",
        dedupe: false
      })
      yield* Effect.forEach(
        roots,
        (waves) =>
          Effect.flatMap(batch.process(), (process) => Effect.forEach(waves, (nodes) => runWave(process, nodes))),
        {
          concurrency: "unbounded",
          discard: true
        }
      )
      if ((yield* approvals.list).length > 0) problems.push("a question is left open")
      if ((yield* executor.orphans).running.length > 0) problems.push("a handler is left running")
      for (const [name, count] of running) if (count !== 0) problems.push(`${count} of ${name} are left`)
      return { problems, waves }
    })),
    { limit: "1 day" }
  )
}

describe("trees of sub-agents", () => {
  it.effect(
    "always finish, with an outcome for every call, and what must not overlap does not",
    () =>
      Effect.gen(function*() {
        let waves = 0
        const tried = seeds(400)
        for (const seed of tried) {
          const played = yield* play(seed)
          waves += played.waves
          assert.deepStrictEqual(played.problems, [], `seed ${seed}`)
        }
        assert.isAbove(waves, tried.length * 4)
      }),
    timeout
  )
})
