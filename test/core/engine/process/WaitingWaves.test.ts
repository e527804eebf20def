/** When a process says that its waves wait for nothing but approvals. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import {
  Gate,
  ToolAnnotations,
  ToolCall,
  ToolContext,
  type ToolExecutor,
  type ToolProcess
} from "../../../../src/index.ts"
import { randomFrom } from "../../../../src/testing/SeededRandom.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { calls, open, type Options, tags, type ToolSpec } from "../../../support/Harness.ts"
import { seeds, timeout } from "../../../support/seeds.ts"

const policy = { default: "allow", ask: ["save", "put", "saveRead"] } as const

const taking = (params: { readonly [key: string]: unknown }) => Effect.sleep(Number(params["millis"] ?? 0))

/** A write with a preview of what it changes. */
const previewed = (tool: Parameters<NonNullable<ToolSpec["annotate"]>>[0]) =>
  tool.annotate(ToolAnnotations.Targets, (params) => [{ text: String((params as { key?: unknown }).key) }])
    .annotate(
      ToolAnnotations.Preview,
      (params) => Effect.succeed([{ path: String((params as { key?: unknown }).key), before: "", after: "x" }])
    )

const tools: Record<string, ToolSpec> = {
  look: { class: "ReadOnly", handler: taking },
  saveRead: { class: "ReadOnly", handler: taking },
  save: { class: "SerialMut", handler: taking },
  write: { class: "ConcurrentMut", handler: taking },
  put: { class: "ConcurrentMut", handler: taking, annotate: previewed }
}

const asking = (
  more: Partial<Options>,
  program: (env: {
    readonly process: ToolProcess.ToolProcess
    readonly executor: ToolExecutor.Service
    readonly approvals: Approvals.Approvals["Service"]
    /** Approves the oldest request. */
    readonly approve: Effect.Effect<void>
  }) => Effect.Effect<void, never, Scope.Scope>,
  given: Record<string, ToolSpec> = tools
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const approvals = yield* Effect.orDie(Approvals.make({ timeout: "unlimited" }))
      const approve = Effect.flatMap(approvals.list, ([oldest]) =>
        oldest === undefined ? Effect.void : Effect.ignore(approvals.answer(oldest.id, { _tag: "ApproveOnce" })))
      const { executor, process } = yield* open(given, { policy, approvals, ...more })
      yield* program({ executor, process, approvals, approve })
    })),
    { limit: "30 days" }
  )

const sentence = (name: string, ...given: Parameters<typeof asking>) => it.effect(name, () => asking(...given))

const begin = (
  process: ToolProcess.ToolProcess,
  ...names: ReadonlyArray<string | readonly [name: string, params: unknown]>
) => Effect.forkChild(process.executeWave(calls(...names)), { startImmediately: true })

const join = { inFlight: "join", scope: "principal" } as const

const hour = 3_600_000

describe("the waves of a process", { tags: ["SV29"] }, () => {
  sentence(
    "wait for nothing but approvals once only requests are left",
    {},
    ({ approve, process }) =>
      Effect.gen(function*() {
        assert.strictEqual(process.waiting(), 0)
        const wave = yield* begin(process, ["look", { millis: 60_000 }], ["saveRead", { n: 1 }])
        yield* Effect.sleep(1_000)
        assert.strictEqual(process.waiting(), 0)
        yield* Effect.sleep(60_000)
        assert.strictEqual(process.waiting(), 1)
        yield* approve
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded"])
        assert.strictEqual(process.waiting(), 0)
      })
  )

  sentence("wait with calls of a later run", {}, ({ approve, process }) =>
    Effect.gen(function*() {
      const wave = yield* begin(process, "saveRead", "write")
      yield* Effect.sleep(1_000)
      assert.strictEqual(process.waiting(), 1)
      yield* approve
      assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded"])
    }))

  sentence(
    "wait with a call that joined one that waits",
    { dedupe: join },
    ({ approvals, approve, executor, process }) =>
      Effect.gen(function*() {
        const other = yield* Effect.orDie(executor.process())
        const waves = [yield* begin(process, ["saveRead", { n: 1 }]), yield* begin(other, ["saveRead", { n: 1 }])]
        yield* Effect.sleep(1_000)
        const second = (yield* approvals.list).find((it) => it.process === other.id)
        yield* Effect.orDie(approvals.answer(second!.id, { _tag: "ApproveOnce" }))
        yield* Effect.sleep(1_000)
        assert.deepStrictEqual([process.waiting(), other.waiting()], [1, 1])
        yield* approve
        for (const it of waves) assert.deepStrictEqual(tags(yield* Fiber.join(it)), ["Succeeded"])
      })
  )

  sentence(
    "wait with a call whose request comes after an earlier write to its target",
    {},
    ({ approve, process }) =>
      Effect.gen(function*() {
        const wave = yield* begin(process, ["put", { key: "a", n: 1 }], ["put", { key: "a", n: 2 }])
        for (const _ of [1, 2]) {
          yield* Effect.sleep(1_000)
          assert.strictEqual(process.waiting(), 1)
          yield* approve
        }
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded"])
      })
  )

  sentence("are all counted, and none while one of them works", {}, ({ approve, process }) =>
    Effect.gen(function*() {
      yield* begin(process, ["saveRead", { n: 1 }])
      yield* begin(process, ["saveRead", { n: 2, millis: 60_000 }])
      yield* Effect.sleep(1_000)
      assert.strictEqual(process.waiting(), 2)
      yield* approve
      yield* approve
      yield* Effect.sleep(1_000)
      assert.strictEqual(process.waiting(), 0)
    }))

  const slow = Gate.layer({
    name: "slow",
    admit: ({ args }) => Effect.sleep(Number((args as { readonly gate?: number }).gate ?? 0))
  })

  sentence("do not wait while a gate of the host decides", { swap: slow }, ({ process }) =>
    Effect.gen(function*() {
      yield* begin(process, ["saveRead", { n: 1 }], ["look", { n: 2, gate: 5_000 }])
      yield* Effect.sleep(4_000)
      assert.strictEqual(process.waiting(), 0)
      yield* Effect.sleep(2_000)
      assert.strictEqual(process.waiting(), 1)
    }))

  sentence(
    "do not wait while a call waits for a permit",
    { pools: { read: 1 } },
    ({ process }) =>
      Effect.gen(function*() {
        yield* begin(process, ["saveRead", { n: 1 }], ["look", { n: 2, millis: 5_000 }], ["look", { millis: 5_000 }])
        yield* Effect.sleep(6_000)
        assert.strictEqual(process.waiting(), 0)
        yield* Effect.sleep(5_000)
        assert.strictEqual(process.waiting(), 1)
      })
  )

  const confirms: ToolSpec = {
    class: "SerialMut",
    handler: () =>
      Effect.flatMap(
        ToolContext.ToolContext,
        (it) => it.confirmWrite(Effect.succeed([{ path: "a", before: "", after: "x" }]))
      )
  }

  sentence("do not wait while a running handler requests approval: stopping it would end its call", {
    policy: { default: "ask" }
  }, ({ approvals, approve, process }) =>
    Effect.gen(function*() {
      yield* begin(process, "confirms")
      yield* Effect.sleep(1_000)
      yield* approve
      yield* Effect.sleep(1_000)
      assert.isTrue((yield* approvals.list)[0]?.isRunning)
      assert.strictEqual(process.waiting(), 0)
    }), { confirms })
})

/** The kinds of calls of random waves. */
const kinds = ["look", "saveRead", "save", "write", "put"] as const

const play = (seed: number) => {
  const { chance, int, pick } = randomFrom(seed)
  const options: Partial<Options> = {
    mode: pick(["classes", "parallel", "sequential"]),
    ...chance(0.5) ? { dedupe: join } : {},
    pools: pick([{}, { read: 1, concurrent: 1, serial: 1 }]),
    ...chance(0.3)
      ? { swap: Gate.layer({ name: "slow", admit: () => chance(0.3) ? Effect.sleep(1 + int(50)) : Effect.void }) }
      : {}
  }
  const approval = pick(["perCall", "upfront"] as const)
  const problems: Array<string> = []
  const program: Parameters<typeof asking>[1] = ({ approvals, executor }) =>
    Effect.scoped(Effect.gen(function*() {
      const process = yield* Effect.orDie(executor.process({ approval }))
      let events = 0
      yield* process.listen(() => (events++, true))
      const waves = Array.from({ length: 1 + int(2) }, (_, wave) =>
        Array.from({ length: 1 + int(6) }, (_, index) =>
          ToolCall.make(`${wave}-${index}`, pick(kinds), {
            n: chance(0.3) ? 1 : `${wave}-${index}`,
            key: pick(["a", "b"]),
            millis: pick([0, 0, 5, 40])
          })))
      const running = yield* Effect.forEach(waves, (it) =>
        Effect.forkChild(process.executeWave(it), { startImmediately: true }))
      const isOver = () =>
        running.every((it) =>
          it.pollUnsafe() !== undefined
        )
      for (let step = 0; step < 60 && !isOver(); step++) {
        yield* Effect.sleep(int(30))
        const [before, isWaiting] = [events, process.waiting() > 0]
        // nobody answers: whatever can end without an answer ends
        if (isWaiting || chance(0.5)) {
          yield* Effect.sleep(isWaiting ? hour : 10_000)
        }
        if (isWaiting && events > before) {
          problems.push(`${events - before} events came while it waited`)
        }
        if (isWaiting || !chance(0.5)) {
          yield* Effect.sleep(10_000)
          if (!isOver() && process.waiting() === 0) {
            problems.push("it stands still and does not say that it waits")
          }
        }
        const all = yield* approvals.list
        if (all.length === 0) {
          continue
        }
        const answer = pick(["ApproveOnce", "ApproveOnce", "Deny"] as const)
        yield* Effect.ignore(approvals.answer(pick(all).id, { _tag: answer }))
      }
      for (const it of running) {
        yield* Fiber.interrupt(it)
      }
    }))
  return Effect.map(asking(options, program), () => problems)
}

describe("random waves", () => {
  it.effect(
    "say that they wait for nothing but approvals exactly when nothing happens without an answer",
    () =>
      Effect.forEach(
        seeds(150),
        (seed) => Effect.map(play(seed), (problems) => assert.deepStrictEqual(problems, [], `seed ${seed}`)),
        { discard: true }
      ),
    { tags: ["SV29"], timeout }
  )
})
