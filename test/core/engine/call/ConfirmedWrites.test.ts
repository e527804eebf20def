/**
 * Writes that people see before they happen: what they are shown, what a no
 * does, what becomes of a file that changes meanwhile, what is kept.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as Checkpoints from "../../../../src/core/output/Checkpoints.ts"
import * as Journal from "../../../../src/core/store/Journal.ts"
import { type FileChange, ToolAnnotations, ToolContext, type ToolOutcome } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import * as Harness from "../../../support/Harness.ts"

const edited = (text: string) => text.toUpperCase()

/** A world of one file, a tool that previews its write, and one that asks while it runs. */
const world = (more: Harness.Options = {}) =>
  Effect.gen(function*() {
    const approvals = yield* Approvals.make({ timeout: "300 seconds" })
    const checkpoints = Context.get(yield* Layer.build(Checkpoints.layerMemory()), Checkpoints.Checkpoints)
    const files = { a: "one" }
    const change = Effect.sync((): ReadonlyArray<FileChange.FileChange> => [
      { path: "a", before: files.a, after: edited(files.a) }
    ])
    const write = Effect.sync(() => {
      files.a = edited(files.a)
    })
    const commit = (effect: Effect.Effect<void>) => Effect.flatMap(ToolContext.ToolContext, (it) => it.commit(effect))
    const confirm = Effect.flatMap(ToolContext.ToolContext, (it) => it.confirmWrite(change))
    const env = yield* Harness.open({
      edit: {
        class: "ConcurrentMut",
        handler: () => commit(write),
        annotate: (tool) => tool.annotate(ToolAnnotations.Preview, () => change)
      },
      // it does nothing but edit the files that it names
      upper: {
        class: "ConcurrentMut",
        handler: () => commit(write),
        annotate: (tool) =>
          tool.annotate(ToolAnnotations.Targets, () => [{ text: "a" }])
            .annotate(ToolAnnotations.Edits, true)
            .annotate(ToolAnnotations.Preview, () => change)
      },
      append: {
        class: "ConcurrentMut",
        handler: ({ n }) =>
          commit(Effect.sync(() => {
            files.a += String(n)
          })),
        annotate: (tool) =>
          tool.annotate(ToolAnnotations.Targets, () => [{ text: "a" }]).annotate(ToolAnnotations.Preview, (params) =>
            Effect.sync(() => [
              { path: "a", before: files.a, after: `${files.a}${(params as { readonly n: number }).n}` }
            ]))
      },
      patch: {
        class: "SerialMut",
        handler: () =>
          Effect.andThen(confirm, commit(write))
      },
      manifest: {
        class: "SerialMut",
        handler: () =>
          Effect.flatMap(ToolContext.ToolContext, (it) =>
            it.confirmWrite(
              Effect.succeed([{ path: "package.json", runBy: "run_command", before: undefined, after: "{}" }])
            ))
      },
      other: {
        class: "SerialMut",
        handler: () =>
          Effect.sleep("1 second")
      },
      long: { class: "ConcurrentMut", handler: () => Effect.sleep("1 minute") },
      stubborn: {
        class: "SerialMut",
        handler: () =>
          Effect.uninterruptible(Effect.gen(function*() {
            const refused = yield* Effect.exit(confirm)
            if (Exit.isSuccess(refused)) return "confirmed"
            yield* Effect.exit(commit(write))
            return "wrote anyway"
          }))
      }
    }, { approvals, checkpoints, policy: { default: "ask", allow: ["other"] }, ...more })
    return { ...env, approvals, checkpoints, files, change, write }
  })

type World = Effect.Success<ReturnType<typeof world>>

const run = <A, E>(program: (it: World) => Effect.Effect<A, E, Scope.Scope>, more?: Harness.Options) =>
  VirtualTime.run(Effect.scoped(Effect.flatMap(world(more), program)), { limit: "1 day" })

/** Waits until something is asked, and gives it. */
const asked = (approvals: World["approvals"]): Effect.Effect<Approvals.ApprovalRequest> =>
  Effect.flatMap(
    approvals.list,
    ([request]) =>
      request === undefined ? Effect.andThen(Effect.sleep("10 millis"), asked(approvals)) : Effect.succeed(request)
  )

const yes = { _tag: "ApproveOnce" } as const
const no = { _tag: "Deny", reason: "not this way" } as const

const tell = ({ tag, outcome }: { readonly tag: "reason" | "error"; readonly outcome: ToolOutcome.ToolOutcome }) =>
  tag === "reason" && outcome._tag === "Denied" ? outcome.reason : outcome._tag === "Failed" ? outcome.error : outcome

describe("a write that changes nothing", () => {
  for (const approval of ["perCall", "upfront"] as const) {
    it.effect(`asks nobody and keeps nothing (${approval})`, () =>
      run(({ checkpoints, files, process }) =>
        Effect.gen(function*() {
          files.a = "ONE"
          const { outcomes } = yield* process.executeWave(Harness.calls("upper"))
          assert.strictEqual(outcomes[0]!._tag, "Succeeded")
          assert.deepStrictEqual(yield* checkpoints.list("default"), [])
        }), { approval }))

    it.effect(`is not on record as approved by a person (${approval})`, () => {
      const allowed: Array<string> = []
      const append: Journal.Journal["Service"]["append"] = (lines) =>
        Effect.sync(() => {
          for (const { entry } of lines) if (entry._tag === "Started") allowed.push(entry.allowedBy)
        })
      return run(({ approvals, files, process }) =>
        Effect.gen(function*() {
          files.a = "ONE"
          yield* process.executeWave(Harness.calls("upper"))
          files.a = "two"
          const fiber = yield* Effect.forkScoped(process.executeWave(Harness.calls("upper")))
          yield* approvals.answer((yield* asked(approvals)).id, yes)
          yield* Fiber.join(fiber)
          assert.deepStrictEqual(allowed, ["policy", "answer"])
        }), { approval, dedupe: false, journal: { ...Journal.noop, append } })
    })
  }

  it.effect("asks nobody from inside a handler either, and keeps nothing", () =>
    run(({ approvals, checkpoints, files, process }) =>
      Effect.gen(function*() {
        files.a = "ONE"
        const fiber = yield* Effect.forkScoped(process.executeWave(Harness.calls("patch")))
        // about the call itself; not about its write
        yield* approvals.answer((yield* asked(approvals)).id, yes)
        assert.strictEqual((yield* Fiber.join(fiber)).outcomes[0]!._tag, "Succeeded")
        assert.deepStrictEqual(yield* checkpoints.list("default"), [])
      })
    ))

  it.effect("is refused where the file came to be another, for nobody was asked about that", () =>
    run(({ files, process }) =>
      Effect.gen(function*() {
        files.a = "ONE"
        const fiber = yield* Effect.forkScoped(process.executeWave(Harness.calls("other", "upper")))
        yield* Effect.sleep("1 second")
        files.a = "two"
        const [, upper] = (yield* Fiber.join(fiber)).outcomes
        assert.strictEqual(upper!._tag, "Failed")
        assert.strictEqual(files.a, "two")
      }), { mode: "parallel", pools: { serial: 1, concurrent: 1 }, tools: { upper: { promoted: false } } }))

  it.effect("is asked about where a rule or a pattern about the file says so, or where the tool may do more than edit", () =>
    Effect.gen(function*() {
      const asks = (tool: string, more: Harness.Options) =>
        run(({ approvals, files, process }) =>
          Effect.gen(function*() {
            files.a = "ONE"
            yield* Effect.forkScoped(process.executeWave(Harness.calls(tool)))
            return (yield* asked(approvals)).why
          }), more)
      assert.include(yield* asks("upper", { policy: { ask: ["upper(a)"] } }), "the policy asks about upper(a)")
      assert.include(
        yield* asks("upper", { rules: [{ _tag: "RequiresConsent", tool: "upper" }] }),
        "a rule requires consent"
      )
      assert.include(yield* asks("edit", {}), "the policy asks about whatever it does not allow")
    }))
})

describe("a write from inside a handler", () => {
  it.effect("to what a command runs is asked about while a command may run without asking", () =>
    run(({ approvals, process }) =>
      Effect.gen(function*() {
        yield* Effect.forkScoped(process.executeWave(Harness.calls("manifest")))
        assert.include((yield* asked(approvals)).why, "is protected")
      }), { policy: { default: "allow" } }))
})

describe("a call that previews its write", () => {
  it.effect(
    "is asked about once, with the diff, and writes after a yes",
    () =>
      run(({ approvals, files, process }) =>
        Effect.gen(function*() {
          const fiber = yield* Effect.forkScoped(process.executeWave(Harness.calls("edit")))
          const request = yield* asked(approvals)
          assert.deepStrictEqual(request.preview, {
            _tag: "Diff",
            diff: "--- a\n+++ a\n@@ -1 +1 @@\n-one\n\\ No newline at end of file\n+ONE\n\\ No newline at end of file\n"
          })
          assert.isFalse(request.isRunning)
          assert.strictEqual(files.a, "one")
          yield* approvals.answer(request.id, yes)
          const { outcomes } = yield* Fiber.join(fiber)
          assert.strictEqual(outcomes[0]!._tag, "Succeeded")
          assert.strictEqual(outcomes[0]!.commits, 1)
          assert.strictEqual(files.a, "ONE")
          assert.lengthOf(yield* approvals.list, 0)
        })
      ),
    { tags: ["W1"] }
  )

  it.effect(
    "writes nothing if the file changed between the diff and the write",
    () =>
      run(({ approvals, checkpoints, files, process }) =>
        Effect.gen(function*() {
          const fiber = yield* Effect.forkScoped(process.executeWave(Harness.calls("edit")))
          const { id } = yield* asked(approvals)
          files.a = "two"
          yield* approvals.answer(id, yes)
          const outcome = (yield* Fiber.join(fiber)).outcomes[0]!
          assert.deepStrictEqual(tell({ tag: "error", outcome }), { error: "ChangedMeanwhile", paths: ["a"] })
          assert.strictEqual(outcome.commits, 0)
          assert.strictEqual(files.a, "two")
          assert.lengthOf(yield* checkpoints.list("default"), 0)
        })
      ),
    { tags: ["W2"] }
  )

  it.effect("with edited arguments is not held to what was shown before", () =>
    run(({ approvals, files, process }) =>
      Effect.gen(function*() {
        const fiber = yield* Effect.forkScoped(process.executeWave(Harness.calls("edit")))
        const { id } = yield* asked(approvals)
        files.a = "two"
        yield* approvals.answer(id, { _tag: "ApproveOnce", params: { n: 7 } })
        assert.strictEqual((yield* Fiber.join(fiber)).outcomes[0]!._tag, "Succeeded")
        assert.strictEqual(files.a, "TWO")
      })
    ))

  it.effect("that another answer covers is not held to a diff that nobody looked at", () =>
    run(({ approvals, files, process }) =>
      Effect.gen(function*() {
        const fiber = yield* Effect.forkScoped(process.executeWave(Harness.calls("edit", "edit")))
        yield* Effect.sleep("1 second")
        const [first] = yield* approvals.list
        assert.lengthOf(yield* approvals.list, 2)
        files.a = "two"
        yield* approvals.answer(first!.id, { _tag: "ApproveForScope" })
        const { outcomes } = yield* Fiber.join(fiber)
        assert.deepStrictEqual(outcomes.map((it) => it._tag), ["Failed", "Succeeded"])
        assert.strictEqual(files.a, "TWO")
      })
    ))

  it.effect("shows why there is no diff where there is none, and asks all the same", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        const broken = (preview: Effect.Effect<never, unknown>) => ({
          class: "ConcurrentMut" as const,
          handler: () => Effect.void,
          annotate: (tool: Parameters<NonNullable<Harness.ToolSpec["annotate"]>>[0]) =>
            tool.annotate(ToolAnnotations.Preview, () => preview)
        })
        const { process } = yield* Harness.open({
          fails: broken(Effect.fail({ message: "the text is not in the file" })),
          dies: broken(Effect.die("secret")),
          hangs: broken(Effect.never)
        }, { approvals, policy: { default: "ask" } })
        yield* Effect.forkScoped(process.executeWave(Harness.calls("fails", "dies", "hangs")))
        yield* Effect.sleep("6 seconds")
        assert.deepStrictEqual((yield* approvals.list).map((it) => [it.tool, it.preview]), [
          ["fails", { _tag: "None", because: "the text is not in the file" }],
          ["dies", { _tag: "None", because: "the tool could not preview it" }],
          ["hangs", { _tag: "None", because: "the preview timed out" }]
        ])
      })),
      { limit: "1 hour" }
    ))

  it.effect("is cancelled while its preview is made", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        const { process } = yield* Harness.open({
          slow: {
            handler: () => Effect.void,
            annotate: (tool) => tool.annotate(ToolAnnotations.Preview, () => Effect.never)
          }
        }, { approvals, policy: { default: "ask" } })
        const fiber = yield* Effect.forkScoped(process.executeWave(Harness.calls("slow")))
        yield* Effect.sleep("1 second")
        yield* process.cancel("enough")
        assert.strictEqual((yield* Fiber.join(fiber)).outcomes[0]!._tag, "Cancelled")
        assert.lengthOf(yield* approvals.list, 0)
      })),
      { limit: "1 hour" }
    ))

  it.effect("is shown with its diff up front, too", () =>
    run(({ approvals, files, process }) =>
      Effect.gen(function*() {
        const fiber = yield* Effect.forkScoped(process.executeWave(Harness.calls("edit")))
        const request = yield* asked(approvals)
        assert.strictEqual(request.preview?._tag, "Diff")
        files.a = "two"
        yield* approvals.answer(request.id, yes)
        const outcome = (yield* Fiber.join(fiber)).outcomes[0]!
        assert.deepStrictEqual(tell({ tag: "error", outcome }), { error: "ChangedMeanwhile", paths: ["a"] })
      }), { approval: "upfront" }))
})

describe("a running call that has its write confirmed", () => {
  it.effect(
    "gives its permits up while a person thinks, and its time stands still",
    () =>
      run(({ approvals, files, process }) =>
        Effect.gen(function*() {
          const patch = yield* Effect.forkScoped(process.execute(Harness.call("1", "patch", {})))
          yield* approvals.answer((yield* asked(approvals)).id, yes)
          yield* Effect.sleep("10 millis")
          const request = yield* asked(approvals)
          assert.isTrue(request.isRunning)
          assert.deepStrictEqual(request.targets, [{ text: "a", kind: undefined }])
          // the one serial permit is free meanwhile
          const other = yield* process.execute(Harness.call("2", "other", {}))
          assert.strictEqual(other._tag, "Succeeded")
          // longer than the call may run
          yield* Effect.sleep("200 seconds")
          yield* approvals.answer(request.id, yes)
          const outcome = yield* Fiber.join(patch)
          assert.strictEqual(outcome._tag, "Succeeded")
          assert.strictEqual(files.a, "ONE")
        })
      ),
    { tags: ["W3"] }
  )

  it.effect("still ends at its limit, which goes on after the answer", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        const { process } = yield* Harness.open({
          patch: {
            class: "SerialMut",
            handler: () =>
              Effect.gen(function*() {
                const context = yield* ToolContext.ToolContext
                yield* Effect.sleep("1 second")
                yield* context.confirmWrite(Effect.succeed([{ path: "a", before: "1", after: "2" }]))
                return yield* Effect.never
              })
          }
        }, { approvals, policy: { default: "allow", ask: ["patch(*)"] }, executionTimeout: "3 seconds" })
        const fiber = yield* Effect.forkScoped(process.execute(Harness.call("1", "patch", {})))
        yield* Effect.sleep("100 seconds")
        yield* approvals.answer((yield* approvals.list)[0]!.id, yes)
        const outcome = yield* Fiber.join(fiber)
        assert.strictEqual(outcome._tag, "TimedOut")
        assert.strictEqual(outcome.duration, 102_000)
      })),
      { limit: "1 hour" }
    ))

  it.effect(
    "ends with a no that cannot be caught, and writes nothing afterwards",
    () =>
      run(({ approvals, executor, files, process }) =>
        Effect.gen(function*() {
          for (const tool of ["patch", "stubborn"]) {
            const fiber = yield* Effect.forkScoped(process.execute(Harness.call(tool, tool, {})))
            yield* approvals.answer((yield* asked(approvals)).id, yes)
            yield* Effect.sleep("10 millis")
            yield* approvals.answer((yield* asked(approvals)).id, no)
            const outcome = yield* Fiber.join(fiber)
            assert.deepStrictEqual(tell({ tag: "reason", outcome }), {
              _tag: "WriteDenied",
              by: "user",
              reason: "not this way"
            })
            assert.isDefined(outcome.startedAt)
            assert.strictEqual(files.a, "one")
          }
          yield* Effect.sleep("1 second")
          const { lateWritesBlocked, running } = yield* executor.orphans
          assert.strictEqual(lateWritesBlocked, 1)
          assert.lengthOf(running, 0)
        })
      ),
    { tags: ["W4"] }
  )

  it.effect("is refused by silence, by nobody being there, and by the policy", () =>
    Effect.gen(function*() {
      const end = (more: Harness.Options) => run(({ process }) => process.execute(Harness.call("1", "patch", {})), more)
      const by = (outcome: ToolOutcome.ToolOutcome) =>
        outcome._tag === "Denied" && outcome.reason._tag === "WriteDenied" ? outcome.reason.by : outcome
      const asks = { default: "allow", ask: ["patch(*)"] } as const
      assert.strictEqual(by(yield* end({ policy: asks })), "timeout")
      assert.strictEqual(by(yield* end({ policy: { default: "allow", deny: ["patch(a)"] } })), "policy")
      const alone = yield* VirtualTime.run(
        Effect.scoped(Effect.gen(function*() {
          const { process } = yield* Harness.open({
            patch: {
              class: "SerialMut",
              handler: () =>
                Effect.flatMap(
                  ToolContext.ToolContext,
                  (it) => it.confirmWrite(Effect.succeed([{ path: "a", before: "1", after: "2" }]))
                )
            }
          }, { policy: asks })
          return yield* process.execute(Harness.call("1", "patch", {}))
        })),
        { limit: "1 hour" }
      )
      assert.strictEqual(by(alone), "noApprover")
    }))

  it.effect("is not asked about what a person allowed before", () =>
    run(({ approvals, files, process }) =>
      Effect.gen(function*() {
        const first = yield* Effect.forkScoped(process.execute(Harness.call("1", "patch", {})))
        yield* approvals.answer((yield* asked(approvals)).id, { _tag: "ApproveForScope" })
        assert.strictEqual((yield* Fiber.join(first))._tag, "Succeeded")
        files.a = "two"
        assert.strictEqual((yield* process.execute(Harness.call("2", "patch", { n: 2 })))._tag, "Succeeded")
        assert.strictEqual(files.a, "TWO")
      })
    ))

  it.effect("is not to be edited: it runs already", () =>
    run(({ approvals, process }) =>
      Effect.gen(function*() {
        yield* Effect.forkScoped(process.execute(Harness.call("1", "patch", {})))
        yield* approvals.answer((yield* asked(approvals)).id, yes)
        yield* Effect.sleep("10 millis")
        const { id } = yield* asked(approvals)
        const error = yield* Effect.flip(approvals.answer(id, { _tag: "ApproveOnce", params: {} }))
        assert.strictEqual(error.reason, "NotEditable")
        assert.lengthOf(yield* approvals.list, 1)
      })
    ))

  it.effect("fails, and writes nothing, if the file changed after the diff", () =>
    run(({ approvals, files, process }) =>
      Effect.gen(function*() {
        const fiber = yield* Effect.forkScoped(process.execute(Harness.call("1", "patch", {})))
        yield* approvals.answer((yield* asked(approvals)).id, yes)
        yield* Effect.sleep("10 millis")
        const { id } = yield* asked(approvals)
        files.a = "two"
        yield* approvals.answer(id, yes)
        const outcome = yield* Fiber.join(fiber)
        assert.deepStrictEqual(tell({ tag: "error", outcome }), { error: "ChangedMeanwhile", paths: ["a"] })
        assert.strictEqual(files.a, "two")
      })
    ))

  it.effect("is cancelled while a person thinks; the question is withdrawn", () =>
    run(({ approvals, files, process }) =>
      Effect.gen(function*() {
        const fiber = yield* Effect.forkScoped(process.execute(Harness.call("1", "patch", {})))
        yield* approvals.answer((yield* asked(approvals)).id, yes)
        yield* Effect.sleep("10 millis")
        yield* asked(approvals)
        yield* process.cancelCall("1")
        assert.strictEqual((yield* Fiber.join(fiber))._tag, "Cancelled")
        assert.lengthOf(yield* approvals.list, 0)
        assert.strictEqual(files.a, "one")
        // and its permit is nobody's
        assert.strictEqual((yield* process.execute(Harness.call("2", "other", {})))._tag, "Succeeded")
      })
    ))

  it.effect("takes no permit any more once it was stopped, though its handler is deaf", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const approvals = yield* Approvals.make()
        const { process } = yield* Harness.open({
          deaf: {
            class: "SerialMut",
            handler: () =>
              Effect.uninterruptible(Effect.gen(function*() {
                const { confirmWrite } = yield* ToolContext.ToolContext
                yield* Effect.exit(confirmWrite(Effect.succeed([{ path: "a", before: "1", after: "2" }])))
                return yield* Effect.never
              }))
          },
          other: { class: "SerialMut", handler: () => Effect.sleep("1 minute") }
        }, { approvals, policy: { default: "allow", ask: ["deaf(*)"] } })
        const deaf = yield* Effect.forkScoped(process.execute(Harness.call("1", "deaf", {})))
        const { id } = yield* asked(approvals)
        const holder = yield* Effect.forkScoped(process.execute(Harness.call("2", "other", { n: 2 })))
        yield* Effect.sleep("1 second")
        yield* approvals.answer(id, yes)
        yield* Effect.sleep("1 second")
        yield* process.cancelCall("1")
        assert.strictEqual((yield* Fiber.join(deaf))._tag, "Cancelled")
        assert.strictEqual((yield* Fiber.join(holder))._tag, "Succeeded")
        const next = yield* process.execute(Harness.call("3", "other", { n: 3 }))
        assert.strictEqual(next._tag, "Succeeded")
      })),
      { limit: "1 hour" }
    ))

  it.effect("ends with the turn while others run and a person still thinks", () =>
    run(({ approvals, process }) =>
      Effect.gen(function*() {
        const fiber = yield* Effect.forkScoped(process.executeWave(Harness.calls("patch", "long")))
        const outcomes = (yield* Fiber.join(fiber)).outcomes
        assert.strictEqual(outcomes[0]!._tag, "TimedOut")
        assert.lengthOf(yield* approvals.list, 0)
      }), { turn: { timeout: "2 seconds" }, policy: { default: "allow", ask: ["patch(*)"] }, mode: "parallel" }))
})

describe("the contents from before a write", () => {
  it.effect("is kept, whether a person confirmed the write or the policy allows it", () =>
    run(({ checkpoints, files, process }) =>
      Effect.gen(function*() {
        for (const tool of ["edit", "patch"]) {
          files.a = `before ${tool}`
          assert.strictEqual((yield* process.execute(Harness.call(tool, tool, {})))._tag, "Succeeded")
          const [checkpoint] = yield* checkpoints.list("default")
          assert.strictEqual(checkpoint!.callId, tool)
          const content = yield* checkpoints.content(checkpoint!, "a")
          assert.strictEqual(new TextDecoder().decode(content), `before ${tool}`)
        }
      }), { policy: { default: "allow" } }))

  it.effect("is forgotten if the write failed, and kept by the next try", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const checkpoints = Context.get(yield* Layer.build(Checkpoints.layerMemory()), Checkpoints.Checkpoints)
        let tries = 0
        const { process } = yield* Harness.open({
          edit: {
            class: "SerialMut",
            handler: () =>
              Effect.gen(function*() {
                const { commit } = yield* ToolContext.ToolContext
                const write = Effect.suspend(() => ++tries === 1 ? Effect.fail("disk full") : Effect.void)
                yield* Effect.exit(commit(write))
                assert.lengthOf(yield* Effect.orDie(checkpoints.list("default")), 0)
                yield* commit(write)
              }),
            annotate: (tool) =>
              tool.annotate(ToolAnnotations.Preview, () => Effect.succeed([{ path: "a", before: "1", after: "2" }]))
          }
        }, { checkpoints })
        assert.strictEqual((yield* process.execute(Harness.call("1", "edit", {})))._tag, "Succeeded")
        assert.lengthOf(yield* checkpoints.list("default"), 1)
      })),
      { limit: "1 hour" }
    ))

  it.effect("must be kept, or nothing is written", () =>
    run(({ files, process }) =>
      Effect.gen(function*() {
        const outcome = yield* process.execute(Harness.call("1", "edit", {}))
        assert.deepStrictEqual(tell({ tag: "error", outcome }), {
          error: "NotKept",
          message: "the current content could not be saved, so the change could not be undone"
        })
        assert.strictEqual(files.a, "one")
      }), {
      policy: { default: "allow" },
      checkpoints: {
        save: () => Effect.fail(new Checkpoints.CheckpointError({ reason: "Store", id: "" })),
        list: () => Effect.succeed([]),
        content: () => Effect.undefined,
        forget: () => Effect.void
      }
    }), { tags: ["W6"] })

  it.effect("is noted as unknown before a tool starts that does not tell, and not where nothing was written", () =>
    run(({ approvals, checkpoints, process }) =>
      Effect.gen(function*() {
        const other = yield* Effect.forkScoped(process.execute(Harness.call("1", "other", {})))
        yield* Effect.sleep("10 millis")
        assert.lengthOf(yield* checkpoints.list("default"), 1)
        yield* Fiber.join(other)
        const patch = yield* Effect.forkScoped(process.execute(Harness.call("2", "patch", {})))
        yield* approvals.answer((yield* asked(approvals)).id, no)
        yield* Fiber.join(patch)
        yield* Effect.sleep("10 millis")
        assert.deepStrictEqual((yield* checkpoints.list("default")).map((it) => it.tool), ["other"])
      }), { policy: { default: "allow", ask: ["patch(*)"] } }))

  it.effect("that an earlier call of the wave writes to is looked at when that has written", () =>
    run(({ approvals, files, process }) =>
      Effect.gen(function*() {
        const wave = yield* Effect.forkScoped(process.executeWave(Harness.calls("append", "append")))
        yield* Effect.sleep("1 second")
        assert.lengthOf(yield* approvals.list, 1)
        yield* approvals.answer((yield* asked(approvals)).id, yes)
        yield* Effect.sleep("1 second")
        const [second] = yield* approvals.list
        assert.include(second?.preview?._tag === "Diff" ? second.preview.diff : "", "-one1")
        yield* approvals.answer(second!.id, yes)
        assert.deepStrictEqual((yield* Fiber.join(wave)).outcomes.map((it) => it._tag), ["Succeeded", "Succeeded"])
        assert.strictEqual(files.a, "one12")
      })
    ))

  it.effect("of a call that waits for an earlier one is not asked about once it is cancelled", () =>
    run(({ approvals, process }) =>
      Effect.gen(function*() {
        const wave = yield* Effect.forkScoped(process.executeWave(Harness.calls("append", "append")))
        yield* Effect.sleep("1 second")
        yield* process.cancelCall("2")
        yield* Effect.sleep("1 second")
        yield* approvals.answer((yield* asked(approvals)).id, yes)
        assert.deepStrictEqual((yield* Fiber.join(wave)).outcomes.map((it) => it._tag), ["Succeeded", "Cancelled"])
      })
    ))

  it.effect("is not known of a tool that does not tell: that is noted", () =>
    run(({ checkpoints, process }) =>
      Effect.gen(function*() {
        yield* process.execute(Harness.call("1", "other", {}))
        assert.deepStrictEqual(
          (yield* checkpoints.list("default")).map(({ callId, files, tool }) => ({ callId, files, tool })),
          [{ callId: "1", files: [], tool: "other" }]
        )
      }), { policy: { default: "allow" } }))

  it.effect("is nothing to note of tools that touch no files", () =>
    Effect.gen(function*() {
      const context = yield* Layer.build(Checkpoints.layerMemory())
      const checkpoints = yield* Effect.provideContext(Checkpoints.Checkpoints, context)
      const mutates: Harness.ToolSpec = { class: "SerialMut", handler: () => Effect.void }
      const marked = (changes: boolean): Harness.ToolSpec => ({
        ...mutates,
        annotate: (tool) => tool.annotate(ToolAnnotations.ChangesFiles, changes)
      })
      const previewing: Harness.ToolSpec = {
        ...mutates,
        annotate: (tool) => tool.annotate(ToolAnnotations.Preview, () => Effect.succeed([]))
      }
      const notedOf = Effect.fnUntraced(function*(specs: Record<string, Harness.ToolSpec>) {
        for (const it of yield* checkpoints.list("default")) yield* checkpoints.forget(it)
        yield* Harness.run(specs, { checkpoints, policy: { default: "allow" } }, ({ process }) =>
          process.executeWave(Harness.calls(...Object.keys(specs))))
        return (yield* checkpoints.list("default")).map(({ tool }) =>
          tool
        ).toSorted()
      })
      // nothing that could be undone
      assert.deepStrictEqual(yield* notedOf({ mail: mutates, refund: mutates }), [])
      assert.deepStrictEqual(yield* notedOf({ mail: mutates, shell: marked(true) }), ["shell"])
      // what is written can be undone: nobody knows what others do, unless they say so
      assert.deepStrictEqual(yield* notedOf({ edit: previewing, mail: mutates }), ["mail"])
      assert.deepStrictEqual(yield* notedOf({ edit: previewing, mail: marked(false), other: mutates }), ["other"])
    }), { tags: ["W5"] })
})
