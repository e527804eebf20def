/** A shadow policy is looked at beside the first one: what it would decide is on record, and nothing else changes. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../../../src/core/gates/Approvals.ts"
import * as ShadowPolicy from "../../../../../src/core/gates/ShadowPolicy.ts"
import { Journal, Permissions, type Policy, ToolAnnotations, ToolContext, ToolEvent } from "../../../../../src/index.ts"
import { randomFrom, type SeededRandom } from "../../../../../src/testing/SeededRandom.ts"
import * as VirtualTime from "../../../../../src/testing/VirtualTime.ts"
import { call, open, type Options, tags, type ToolSpec } from "../../../../support/Harness.ts"
import { seeds, timeout } from "../../../../support/seeds.ts"

const shadow = (policy: Policy.Policy) => ShadowPolicy.layer({ name: "next", policy })

const throwing = Layer.succeed(ShadowPolicy.ShadowPolicy, {
  name: "broken",
  permissions: {
    decide: () => {
      throw new Error("broken")
    },
    sees: () => true
  }
})

interface World {
  readonly specs?: Record<string, ToolSpec>
  readonly options?: Options
  readonly people?: (request: Approvals.ApprovalRequest) => Effect.Effect<Approvals.Answer>
}

/** Everything that is seen of a program. */
const seen = (
  { options, people, specs }: World,
  wave: ReadonlyArray<ReturnType<typeof call>>,
  then: (millis: number) => Effect.Effect<void> = Effect.sleep
) =>
  Effect.gen(function*() {
    let requests = 0
    const journal = Context.get(yield* Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory()))), Journal.Journal)
    const approvals = people === undefined
      ? undefined
      : yield* Effect.orDie(
        Approvals.makeApprover(people, { timeout: "1 hour", makeId: Effect.sync(() => `request ${++requests}`) })
      )
    const handler = () => Effect.succeed("done")
    const { executor } = yield* open({ read: { handler }, write: { class: "SerialMut", handler }, ...specs }, {
      ...options,
      journal,
      ...(approvals === undefined ? {} : { approvals })
    })
    const process = yield* executor.process({ batch: "b", id: "p" })
    const events: Array<ToolEvent.ToolEvent> = []
    yield* Effect.forkScoped(Stream.runForEach(process.events, (it) => Effect.sync(() => void events.push(it))), {
      startImmediately: true
    })
    const { outcomes, ...rest } = yield* process.executeWave(wave)
    yield* then(60_000)
    const entries = (yield* Effect.orDie(Stream.runCollect(journal.read({})))).map(({ entry }) => entry)
    return { outcomes, tags: tags({ outcomes, ...rest }), events, entries }
  })

const test = <A, E>(name: string, program: () => Effect.Effect<A, E, Scope.Scope>, options?: { tags: Array<string> }) =>
  it.effect(name, () => VirtualTime.run(Effect.scoped(Effect.suspend(program)), { limit: "1 day" }), options)

const wave = [call("1", "read", {}), call("2", "write", {})]

describe("a shadow policy", () => {
  test("says what it would have decided where that differs, in events and journal", () =>
    Effect.gen(function*() {
      const { entries, events, tags } = yield* seen({
        options: { policy: { default: "allow" }, shadow: shadow({ deny: ["write"], default: "allow" }) }
      }, wave)
      assert.deepStrictEqual(tags, ["Succeeded", "Succeeded"])
      const said = { policy: "next", would: "deny", decided: "allow", because: "deny write" } as const
      const shadowed = entries.filter((it) => it._tag === "Shadowed")
      assert.deepStrictEqual(
        shadowed.map(({ because, callId, decided, policy, would }) => [
          callId,
          { policy, would, decided, because }
        ]),
        [["2", said]]
      )
      const told = events.filter((it) => it._tag === "ToolShadowed")
      assert.strictEqual(told.length, 1)
      assert.deepInclude(ToolEvent.toWire(told[0]!), { callId: "2", ...said })
    }), { tags: ["RV8"] })

  test("counts every decision in a metric", () =>
    Effect.gen(function*() {
      yield* seen({
        options: { telemetry: "on", policy: { default: "allow" }, shadow: shadow({ ask: ["write"], default: "allow" }) }
      }, wave)
      const counted = (yield* Metric.snapshot).flatMap((it) =>
        it.id === "tool_executor.shadow.decision" && it.type === "Counter"
          ? [[it.attributes?.["tool_executor.shadow.would"], it.state.count]]
          : []
      )
      assert.deepStrictEqual(counted.sort(), [["allow", 1], ["ask", 1]])
    }))

  test("is told from the first one where a rule requires consent, too: both ask then", () =>
    Effect.gen(function*() {
      const { entries } = yield* seen({
        people: () => Effect.succeed({ _tag: "ApproveOnce" }),
        options: {
          policy: { ask: ["write"], default: "allow" },
          rules: [{ _tag: "RequiresConsent", tool: "write" }],
          shadow: shadow({ default: "allow" })
        }
      }, wave)
      assert.isFalse(entries.some((it) => it._tag === "Shadowed"))
    }))

  test("that throws is on record, and nothing is felt of it", () =>
    Effect.gen(function*() {
      const { entries, tags } = yield* seen({ options: { policy: { default: "allow" }, shadow: throwing } }, wave)
      assert.deepStrictEqual(tags, ["Succeeded", "Succeeded"])
      assert.deepStrictEqual(entries.flatMap((it) => it._tag === "Shadowed" ? [it.would] : []), ["failed", "failed"])
    }))

  test("finds targets that the first policy does not need, without waiting for them", () =>
    Effect.gen(function*() {
      const slow: ToolSpec = {
        class: "SerialMut",
        handler: () => Effect.succeed("done"),
        annotate: (tool) =>
          tool.annotate(
            ToolAnnotations.Targets,
            () => Effect.delay(Effect.succeed([{ text: "secret" }]), "5 seconds")
          )
      }
      const { entries, events, outcomes } = yield* seen({
        specs: { slow },
        options: {
          permissions: Permissions.layerAllowAll,
          shadow: shadow({ deny: ["slow(secret)"], default: "allow" })
        }
      }, [call("1", "slow", {})])
      assert.deepInclude(outcomes[0], { _tag: "Succeeded", queuedAt: 0, startedAt: 0, duration: 0 })
      assert.deepStrictEqual(entries.flatMap((it) => it._tag === "Shadowed" ? [it.because] : []), [
        "deny slow(secret)"
      ])
      // the events of a call end with its outcome
      assert.deepStrictEqual(events.map((it) => it._tag).slice(-2), ["ToolCallComplete", "ToolsEnd"])
    }))

  test("is narrowed for a sub-agent like the first policy", () =>
    Effect.gen(function*() {
      const handler = Effect.fnUntraced(function*() {
        const { executor } = yield* ToolContext.ToolContext
        const sub = yield* Effect.orDie(executor!.fork({ name: "sub", policy: { deny: ["write"], default: "allow" } }))
        const process = yield* sub.process()
        yield* process.executeWave([call("below", "write", {})])
        return "done"
      }, Effect.scoped)
      const { entries } = yield* seen({
        specs: { agent: { class: "SerialMut", handler } },
        options: { policy: { default: "allow" }, shadow: shadow({ default: "allow" }) }
      }, [call("1", "agent", {})])
      assert.isFalse(entries.some((it) => it._tag === "Shadowed"))
    }))

  it.effect("with a tool that does not exist is refused when the executor is built", () =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(Effect.scoped(open({ read: { handler: () => Effect.void } }, {
        shadow: shadow({ deny: ["wirte"] })
      })))
      assert.include(String(exit), "there is no tool")
    }))
})

describe("with and without a shadow policy", () => {
  const patterns = ["read", "write", "edit", "slow", "*", "edit(a)", "edit(b*)", "slow(a)", "*(b)"]
  const policyOf = ({ chance, int, pick }: SeededRandom): Policy.Policy => {
    const some = () => Array.from({ length: int(3) }, () => pick(patterns))
    return {
      default: pick(["allow", "ask", "deny", "cautious", "readOnly"] as const),
      mode: chance(0.8) ? "ask" : pick(["acceptEdits", "readOnly", "offline", "denyAll"] as const),
      allow: some(),
      ask: some(),
      deny: chance(0.5) ? [] : some(),
      askAlways: chance(0.8) ? [] : some()
    }
  }
  /** What is seen in one run. All random choices depend on the seed, or on the call. */
  const run = (seed: number, layer: Options["shadow"]) =>
    VirtualTime.run(
      Effect.scoped(Effect.suspend(() => {
        const random = randomFrom(seed)
        const { chance, int, pick } = random
        const policy = policyOf(random)
        const targets = (n: unknown) => [{ text: Number(n) % 2 === 0 ? "a" : "b" }]
        const specs: Record<string, ToolSpec> = {
          edit: {
            class: "ConcurrentMut",
            handler: ({ n }) => Effect.delay(Effect.succeed(n), Number(n) * 10),
            annotate: (tool) =>
              tool.annotate(ToolAnnotations.Targets, (params: unknown) => {
                const { n } = params as { readonly n: number }
                if (n === 5) throw new Error("no targets")
                return targets(n)
              })
          },
          slow: {
            class: "SerialMut",
            handler: ({ n }) => Number(n) % 3 === 0 ? Effect.fail("no") : Effect.delay(Effect.succeed(n), 5),
            annotate: (tool) =>
              tool.annotate(
                ToolAnnotations.Targets,
                (params: unknown) => {
                  const { n } = params as { readonly n: number }
                  return Effect.delay(Effect.succeed(targets(n)), n * 7)
                }
              )
          }
        }
        const calls = Array.from({ length: 1 + int(6) }, (_, index) =>
          call(String(index), pick(["read", "write", "edit", "slow", "unknown"]), { n: int(8) }))
        const says = Array.from({ length: 10 }, () => ({ wait: int(50), yes: chance(0.6) }))
        const people = ({ index }: Approvals.ApprovalRequest): Effect.Effect<Approvals.Answer> => {
          const { wait, yes } = says[index]!
          return Effect.delay(
            Effect.succeed<Approvals.Answer>(yes ? { _tag: "ApproveForScope" } : { _tag: "Deny" }),
            wait
          )
        }
        const world: World = {
          specs,
          options: {
            // which needs no targets
            ...(chance(0.2) ? { permissions: Permissions.layerAllowAll } : { policy }),
            approval: chance(0.5) ? "upfront" : "perCall",
            mode: pick(["classes", "parallel", "sequential"] as const),
            ...(layer === undefined ? {} : { shadow: layer })
          },
          ...(chance(0.8) ? { people } : {})
        }
        return seen(world, calls)
      })).pipe(Effect.provide(Logger.layer([]))),
      { limit: "1 day" }
    )
  /** Without what differs between any two runs. */
  const plain = ({ entries, events, outcomes }: Effect.Success<ReturnType<typeof run>>) => ({
    outcomes,
    events: events.filter((it) => it._tag !== "ToolShadowed").map(({ sequence: _, ...it }) => it),
    entries: entries.filter((it) => it._tag !== "Shadowed").map(({ session: _, ...it }) => ({
      ...it,
      key: "",
      grant: "",
      shown: "",
      idempotencyKey: ""
    }))
  })

  it("outcomes, events and records are the same, and come at the same times", { tags: ["RV8"], timeout }, async () => {
    let differing = 0
    for (const seed of seeds(600)) {
      const random = randomFrom(seed + 1_000_000)
      const other = random.chance(0.1) ? throwing : shadow(policyOf(random))
      const [without, beside] = [
        await Effect.runPromise(run(seed, undefined)),
        await Effect.runPromise(run(seed, other))
      ]
      const ids = (value: unknown) => JSON.parse(JSON.stringify(value).replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "id"))
      assert.deepStrictEqual(ids(plain(beside)), ids(plain(without)), `seed ${seed}`)
      differing += beside.entries.filter((it) => it._tag === "Shadowed").length
    }
    assert.isAbove(differing, 50)
  })
})
