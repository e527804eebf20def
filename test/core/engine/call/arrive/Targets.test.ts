/**
 * What was judged is what may be touched: the targets of a call are found once
 * more when it starts, and what is something else by then is judged anew.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../../../../src/core/gates/Approvals.ts"
import { ToolAnnotations, type ToolOutcome, ToolRefusal } from "../../../../../src/index.ts"
import * as VirtualTime from "../../../../../src/testing/VirtualTime.ts"
import {
  call,
  calls,
  type Env,
  open,
  type Options,
  tag,
  tags,
  type ToolSpec,
  value
} from "../../../../support/Harness.ts"

type People = Approvals.Approvals["Service"]
type Targets = ToolAnnotations.TargetsOf | Effect.Effect<ToolAnnotations.TargetsOf>

/** A world in which a path may come to be a link to another one. */
class World {
  readonly links = new Map<string, string>()
  readonly touched: Array<string> = []
  looks = 0
  /** What the tool `agent` does. */
  whatever: Effect.Effect<void> = Effect.void
  real = (params: unknown): string => {
    const { path } = params as { readonly path: string }
    return this.links.get(path) ?? path
  }
  targets = (params: unknown): Targets => {
    this.looks++
    const text = this.real(params)
    return text.startsWith(".git/") ? [{ text, kind: "protected" }] : [{ text }]
  }
}

/** Tools over it: `read`, `write`, `link`, which makes a path a link to `.git/hooks`, and `hold`, which holds the permits of writers. */
const tools = (
  world: World,
  targets: (params: unknown) => Targets = world.targets
): Readonly<Record<string, ToolSpec>> => {
  const touch: ToolSpec["handler"] = (params) =>
    Effect.sync(() => {
      world.touched.push(world.real(params))
      return world.real(params)
    })
  const annotate = (tool: Tool.Any): Tool.Any => tool.annotate(ToolAnnotations.Targets, targets)
  return {
    read: { class: "ReadOnly", handler: touch, annotate },
    write: { class: "ConcurrentMut", handler: touch, annotate },
    link: {
      class: "SerialMut",
      handler: ({ from, to }) => Effect.sync(() => void world.links.set(String(from), String(to)))
    },
    keyed: {
      class: "ConcurrentMut",
      handler: touch,
      annotate: (tool) => annotate(tool).annotate(ToolAnnotations.Resources, (params) => [world.real(params)])
    },
    agent: {
      handler: () => world.whatever,
      annotate: (tool) => tool.annotate(Tool.Readonly, true).annotate(ToolAnnotations.Recursive, true)
    },
    rest: { class: "ReadOnly", handler: () => Effect.sleep("1 second") },
    hold: { class: "ConcurrentMut", handler: () => Effect.sleep("1 second") }
  }
}

const inWorld = <A, E>(
  options: Options,
  program: (env: Env & { readonly people: People; readonly world: World }) => Effect.Effect<A, E, Scope.Scope>,
  targets?: (world: World) => (params: unknown) => Targets
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const world = new World()
      const people = yield* Approvals.make()
      const env = yield* open(tools(world, targets?.(world)), {
        policy: { default: "allow" },
        ...options,
        approvals: people
      })
      return yield* program({ ...env, people, world })
    })),
    { limit: "1 day" }
  )

const later = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

const answer = (people: People, it: Approvals.Answer = { _tag: "ApproveOnce" }) =>
  Effect.flatMap(people.list, ([oldest]) => people.answer(oldest!.id, it))

const reason = (outcome: ToolOutcome.ToolOutcome | undefined) =>
  outcome?._tag === "Denied" ? outcome.reason : outcome?._tag

const toHooks = ["link", { from: "src/gen", to: ".git/hooks/x" }] as const
const toSecret = ["link", { from: "docs/x", to: "secret/x" }] as const

describe("a path that an earlier call of the wave makes a link", () => {
  it.effect(
    "is not written to where the policy asks about what it is now",
    () =>
      inWorld({}, ({ people, process, world }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls(toHooks, ["write", { path: "src/gen" }]))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "TargetsChanged"])
          assert.deepStrictEqual(world.touched, [])
          assert.deepStrictEqual(yield* people.list, [])
          assert.deepStrictEqual(reason(wave.outcomes[1]), {
            _tag: "TargetsChanged",
            from: ["src/gen"],
            to: [".git/hooks/x"]
          })
          assert.include(wave.toolMessages[1]!.text, "was \"src/gen\", now \".git/hooks/x\"")
        })),
    { tags: ["G10"] }
  )

  it.effect("is refused by the policy that denies what it is now, reads included", () =>
    inWorld({ policy: { default: "allow", deny: ["*(secret/*)"] } }, ({ process, world }) =>
      Effect.gen(function*() {
        for (const tool of ["read", "write"]) {
          world.links.clear()
          const wave = yield* process.executeWave(
            calls(["link", { ...toSecret[1], tool }], [tool, { path: "docs/x" }])
          )
          assert.deepStrictEqual(reason(wave.outcomes[1]), { _tag: "PolicyDenied", rule: "deny *(secret/*)" })
        }
        assert.deepStrictEqual(world.touched, [])
      })))

  it.effect("is touched where the policy allows that, too", () =>
    inWorld(
      { policy: { default: "ask", allow: ["link", "write(docs/*)", "write(src/*)"] } },
      ({ process, world }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(
            calls(["link", { from: "docs/x", to: "src/x" }], ["write", { path: "docs/x" }])
          )
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"])
          assert.deepStrictEqual(world.touched, ["src/x"])
        })
    ))

  it.effect("is refused where another policy is the intersection's stricter half", () =>
    inWorld({}, ({ executor, world }) =>
      Effect.scoped(Effect.gen(function*() {
        const fork = yield* executor.fork({ policy: { default: "allow", deny: ["write(secret/*)"] } })
        const process = yield* fork.process()
        const wave = yield* process.executeWave(calls(toSecret, ["write", { path: "docs/x" }]))
        assert.deepStrictEqual(tags(wave), ["Succeeded", "PolicyDenied"])
        assert.deepStrictEqual(world.touched, [])
      }))))

  it.effect("is judged by every spelling that it has then", () =>
    inWorld(
      { policy: { default: "allow", deny: ["*(secret/*)"] } },
      ({ process, world }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls(toSecret, ["write", { path: "docs/x" }]))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "PolicyDenied"])
          assert.deepStrictEqual(world.touched, [])
        }),
      (world) => (params) => [{ text: (params as { readonly path: string }).path, spellings: [world.real(params)] }]
    ))

  it.effect("is not touched under the key of another path", () =>
    inWorld({ pools: { concurrent: 1 } }, ({ batch, process, world }) =>
      Effect.gen(function*() {
        yield* later((yield* batch.process()).executeWave([call("h", "hold")]))
        const wave = yield* later(process.executeWave(calls(["keyed", { path: "a" }], ["write", { path: "b" }])))
        yield* Effect.sleep("10 millis")
        world.links.set("a", "c")
        assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["TargetsChanged", "Succeeded"])
        assert.deepStrictEqual(world.touched, ["b"])
      })))
})

describe("what a person allowed", () => {
  const asks: Options = { policy: { default: "allow", ask: ["write"] } }
  const asked = (
    options: Options,
    said: Approvals.Answer,
    path = "docs/x"
  ) =>
    inWorld(options, ({ people, process, world }) =>
      Effect.gen(function*() {
        const wave = yield* later(process.executeWave(calls(["write", { path }])))
        yield* Effect.sleep("10 millis")
        world.links.set("docs/x", "secret/x")
        world.links.set("edited", "secret/x")
        yield* answer(people, said)
        const { outcomes } = yield* Fiber.join(wave)
        return { tag: tag(outcomes[0]!), touched: world.touched }
      }))

  it.effect("while they thought does not count for what the path came to be", () =>
    Effect.gen(function*() {
      for (
        const said of [
          { _tag: "ApproveOnce" },
          { _tag: "ApproveForScope" },
          { _tag: "ApproveForDuration", duration: "1 hour" }
        ] as const
      ) {
        for (const approval of ["perCall", "upfront"] as const) {
          assert.deepStrictEqual(yield* asked({ ...asks, approval }, said), { tag: "TargetsChanged", touched: [] })
        }
      }
    }), { tags: ["G10"] })

  it.effect("counts for the whole tool, if they said so", () =>
    Effect.map(
      asked(asks, { _tag: "ApproveForScope", scope: "tool" }),
      (found) => assert.deepStrictEqual(found, { tag: "Succeeded", touched: ["secret/x"] })
    ))

  it.effect("counts with arguments that they edited, for what those were about then", () =>
    Effect.gen(function*() {
      const edited = { _tag: "ApproveOnce", params: { path: "edited" } } as const
      // the edited path was judged as what it was when they answered
      assert.deepStrictEqual(yield* asked(asks, edited), { tag: "Succeeded", touched: ["secret/x"] })
    }))

  it.effect("is for nothing that the call comes to be about while it waits for a permit", () =>
    inWorld(
      { ...asks, pools: { concurrent: 1 } },
      ({ batch, executor, people, process, world }) =>
        Effect.gen(function*() {
          const first = yield* later(process.executeWave(calls(["write", { path: "docs/x" }])))
          yield* answer(people, { _tag: "ApproveForScope" })
          assert.deepStrictEqual(tags(yield* Fiber.join(first)), ["Succeeded"])
          yield* later((yield* batch.process()).executeWave([call("h", "hold")]))
          const wave = yield* later(process.executeWave([call("2", "write", { path: "docs/x", n: 2 })]))
          yield* Effect.sleep("10 millis")
          world.links.set("docs/x", "secret/x")
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["TargetsChanged"])
          assert.deepStrictEqual((yield* executor.grants).map(({ targets }) => targets), [["docs/x"]])
          // the next call is asked about as what it is
          const next = yield* later(process.executeWave([call("3", "write", { path: "docs/x", n: 3 })]))
          assert.deepStrictEqual((yield* people.list).map(({ targets }) => targets), [[{ text: "secret/x" }]])
          yield* answer(people)
          assert.deepStrictEqual(tags(yield* Fiber.join(next)), ["Succeeded"])
        })
    ))
})

describe("a call that shares the outcome of an equal one", () => {
  it.effect("reads anew what the path was not when that was kept", () =>
    inWorld(
      { dedupe: { onDuplicate: "replay", readWindow: "5 minutes" }, policy: { default: "allow" } },
      ({ process, world }) =>
        Effect.gen(function*() {
          const read = Effect.map(process.execute(call("1", "read", { path: "docs/x" })), value)
          world.links.set("docs/x", "secret/x")
          assert.strictEqual(yield* read, "secret/x")
          assert.strictEqual(yield* read, "secret/x")
          assert.lengthOf(world.touched, 1)
          world.links.delete("docs/x")
          assert.strictEqual(yield* read, "docs/x")
        })
    ))

  it.effect("does not, where its agent may not touch what that came to be about", () =>
    inWorld(
      { dedupe: { inFlight: "join" }, pools: { read: 1 } },
      ({ batch, executor, process, world }) =>
        Effect.gen(function*() {
          yield* later((yield* batch.process()).executeWave([call("0", "rest")]))
          const leader = yield* later(process.executeWave([call("1", "read", { path: "docs/x" })]))
          const found: { tags?: ReadonlyArray<string> } = {}
          world.whatever = Effect.map(process.executeWave([call("2", "read", { path: "docs/x" })]), (wave) => {
            found.tags = tags(wave)
          })
          // a sub-agent that holds on to its caller's process gets no further by it
          const fork = yield* executor.fork({ policy: { default: "allow", deny: ["read(secret/*)"] } })
          const inner = yield* fork.process()
          const spying = yield* later(inner.executeWave([call("3", "agent")]))
          yield* Effect.sleep("10 millis")
          world.links.set("docs/x", "secret/x")
          assert.strictEqual(value((yield* Fiber.join(leader)).outcomes[0]), "secret/x")
          yield* Fiber.join(spying)
          assert.deepStrictEqual(found.tags, ["PolicyDenied"])
        })
    ))

  it.effect("does not, where that came to be about what this one may not touch", () =>
    inWorld(
      { policy: { default: "allow", deny: ["read(secret/*)"] }, dedupe: { inFlight: "join" }, pools: { read: 1 } },
      ({ batch, process, world }) =>
        Effect.gen(function*() {
          yield* later((yield* batch.process()).executeWave([call("0", "read", { path: "other" })]))
          const wave = yield* later(process.executeWave([
            call("1", "read", { path: "docs/x" }),
            call("2", "read", { path: "docs/x" })
          ]))
          world.links.set("docs/x", "secret/x")
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["PolicyDenied", "PolicyDenied"])
        }),
      (world) => (params) => Effect.delay(Effect.sync(() => world.targets(params) as ToolAnnotations.TargetsOf), 10)
    ))
})

describe("finding the targets once more", () => {
  it.effect("takes no tool's word for more than its time, and takes nothing unknown for allowed", () =>
    inWorld(
      { policy: { default: "deny", allow: ["write(docs/*)", "link"] }, tools: { write: { timeout: "3 seconds" } } },
      ({ process, world }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls(["write", { path: "docs/x" }]))
          assert.deepStrictEqual(tags(wave), ["PolicyDenied"])
          assert.deepStrictEqual(world.touched, [])
          assert.strictEqual(yield* VirtualTime.now, 3_000)
        }),
      (world) => (params) => world.looks === 0 ? world.targets(params) : Effect.uninterruptible(Effect.never)
    ))

  it.effect("that cannot be found takes nothing for allowed that may be protected, nor bears what is too much", () =>
    Effect.gen(function*() {
      const failing: ReadonlyArray<(world: World) => (params: unknown) => Targets> = [
        (world) => (params) => world.looks === 0 ? world.targets(params) : Effect.die("gone"),
        () => () => Effect.die("never there"),
        () => () => [{ text: "a", spellings: Array.from({ length: 100 }, () => "x".repeat(10_000)) }]
      ]
      for (const targets of failing) {
        for (
          const policy of [{ default: "allow" }, { allow: ["write"] }, {
            default: "allow",
            mode: "acceptEdits"
          }] as const
        ) {
          yield* inWorld({ policy }, ({ process, world }) =>
            Effect.gen(function*() {
              const wave = yield* process.executeWave(
                calls(["write", { path: ".git/hooks/x" }], ["read", { path: "a" }])
              )
              assert.notInclude(tags(wave), "Succeeded")
              assert.deepStrictEqual(world.touched, [])
            }), targets)
        }
      }
    }))

  it.effect("is one look more for a tool that says what its calls are about, and none for others", () =>
    inWorld({ policy: { default: "allow", deny: ["*(secret/*)"] } }, ({ process, world }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("hold"))), ["Succeeded"])
        assert.strictEqual(world.looks, 0)
        assert.deepStrictEqual(tags(yield* process.executeWave(calls(["read", { path: "a" }]))), ["Succeeded"])
        assert.strictEqual(world.looks, 2)
      })))

  it.effect("ends with the call that is cancelled meanwhile, and gives its permits back", () =>
    inWorld(
      { pools: { concurrent: 1 } },
      ({ process, world }) =>
        Effect.gen(function*() {
          const wave = yield* later(process.executeWave(calls(["write", { path: "a" }], ["write", { path: "b" }])))
          yield* Effect.sleep("10 millis")
          yield* process.cancelCall("1")
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["Cancelled", "Succeeded"])
          assert.strictEqual(yield* VirtualTime.now, 10)
          assert.deepStrictEqual(world.touched, ["b"])
        }),
      (world) => (params) =>
        world.real(params) === "a" && world.looks > 1
          ? Effect.never
          : world.targets(params)
    ))

  it.effect("is seen by nobody else: what a tool changes in its own list is no other list", () => {
    const own = [{ text: "docs/x" }]
    return inWorld(
      { policy: { default: "allow", ask: ["write(secret/*)"] }, pools: { concurrent: 1 } },
      ({ batch, process, world }) =>
        Effect.gen(function*() {
          yield* later((yield* batch.process()).executeWave([call("h", "hold")]))
          const wave = yield* later(process.executeWave(calls(["write", { path: "docs/x" }])))
          own[0]!.text = "secret/x"
          assert.deepStrictEqual(tags(yield* Fiber.join(wave)), ["TargetsChanged"])
          assert.deepStrictEqual(world.touched, [])
        }),
      () => () => own
    )
  })
})

describe("the sentence about changed targets", () => {
  it("is bounded, whatever they are", () => {
    const many = Array.from({ length: 1_000 }, (_, n) => `${n}${"x".repeat(100_000)}`)
    assert.isBelow(ToolRefusal.describe({ _tag: "TargetsChanged", from: many, to: [] }, "write").length, 2_000)
    assert.include(ToolRefusal.describe({ _tag: "TargetsChanged", to: [] }, "write"), "could not be determined")
  })
})
