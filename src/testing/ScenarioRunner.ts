/**
 * Runs a scenario in virtual time against the real executor and compares what
 * happened with what it expects.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { ConfigurationError } from "../ConfigurationError.ts"
import * as ExecutorSettings from "../ExecutorSettings.ts"
import * as LocalExecutor from "../LocalExecutor.ts"
import * as Approvals from "../policy/Approvals.ts"
import type { Guard } from "../policy/Guards.ts"
import { Pools } from "../policy/Pools.ts"
import * as ToolExecutor from "../ToolExecutor.ts"
import * as ToolHandlers from "../ToolHandlers.ts"
import type { Report } from "./Report.ts"
import type { Scenario } from "./Scenario.ts"
import * as Script from "./Script.ts"
import * as ScriptedTools from "./ScriptedTools.ts"
import * as VirtualTime from "./VirtualTime.ts"
import * as Way from "./Way.ts"

export type { Report, TimedOutcome, WaveReport } from "./Report.ts"

/**
 * How a scenario is run.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How it gets at the executor. Default: by its own methods. */
  readonly way?: Way.Way | undefined
  /**
   * The executor under test, built anew for each principal. What it requires of
   * gates and tools is the scenario's; what it brings itself holds instead.
   * Default: `ToolExecutor.layer`.
   */
  readonly executor?:
    | Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError, LocalExecutor.Gates | ToolHandlers.ToolHandlers>
    | undefined
}

/**
 * Runs a scenario.
 *
 * **Details**
 *
 * Fails with `ConfigurationError` if its tools or rules cannot be built, and
 * with `VirtualTime.Stuck` if a wave waits for something that never comes.
 *
 * **Example** (An executor with one gate of another kind)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Permissions, ToolExecutor } from "effect-tool-executor"
 * import { Scenario, ScenarioRunner } from "effect-tool-executor/testing"
 *
 * const program = Effect.gen(function*() {
 *   const scenario = yield* Scenario.decode({
 *     name: "nothing runs",
 *     tools: { write: {} },
 *     script: [{ wave: [{ id: "1", name: "write" }], expect: { outcomes: [{ tag: "Denied", reason: "PolicyDenied" }] } }]
 *   })
 *   const executor = ToolExecutor.layer.pipe(Layer.provide(Permissions.layerDenyAll))
 *   return (yield* ScenarioRunner.run(scenario, { executor })).differences
 * })
 *
 * await Effect.runPromise(program) // => []
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const run = (
  scenario: Scenario,
  options: Options = {}
): Effect.Effect<Report, ConfigurationError | VirtualTime.Stuck> => VirtualTime.run(playAll(scenario, options))

// Utilities

const playAll = Effect.fnUntraced(function*(
  scenario: Scenario,
  { executor = ToolExecutor.layer, way = Way.directly }: Options
) {
  const tools = ScriptedTools.make(scenario.tools)
  const options = optionsOf(scenario)
  const scope = yield* Scope.make()
  const people = yield* peopleOf(scenario, scope)
  if (people !== undefined) yield* Scope.provide(way.answer(people), scope)
  const shared = LocalExecutor.layerGates(options).pipe(
    Layer.provideMerge(ToolHandlers.layer(tools.toolkit, { tools: options.tools })),
    Layer.provide(tools.handlers),
    Layer.merge(people === undefined ? Layer.empty : Layer.succeed(Approvals.Approvals, people.approvals))
  )
  const context = yield* Layer.buildWithScope(shared, scope)
  const stage = new Script.Stage(
    (principal) =>
      Layer.fresh(executor).pipe(
        Layer.provide(Layer.succeedContext(ofPrincipal(context, principal))),
        Layer.buildWithScope(scope),
        Effect.map((it) => Context.get(it, ToolExecutor.ToolExecutor))
      ),
    scope,
    classesOf(scenario),
    (executor, process) => Scope.provide(way.enter({ executor, process, people }), scope)
  )
  for (const [index, step] of scenario.script.entries()) yield* Script.perform(stage, step, index)
  yield* Scope.close(scope, Exit.void)
  const { differences, waves } = stage
  return { name: scenario.name, rules: options.rules ?? [], waves, differences }
})

/** Caps and keys are of all; the pools of the classes, like everything with a name on it, are each principal's. */
const ofPrincipal = (context: Context.Context<LocalExecutor.Gates | ToolHandlers.ToolHandlers>, principal: string) =>
  context.pipe(
    Context.add(ExecutorSettings.ExecutorSettings, {
      ...Context.get(context, ExecutorSettings.ExecutorSettings),
      principal
    }),
    Context.add(Pools, Context.get(context, Pools).session())
  )

/** Who answers; nobody if there are no answers to give. */
const peopleOf = Effect.fnUntraced(function*({ answers = [], config }: Scenario, scope: Scope.Scope) {
  if (answers === null) return undefined
  const timeout = config?.permissionTimeout as Duration.Input | undefined
  const approvals = yield* Scope.provide(Approvals.make({ timeout }), scope)
  const left = [...answers]
  const people: Way.People = {
    approvals,
    next: (tool) =>
      Effect.suspend(() => {
        const index = left.findIndex((it) => it.tool === tool)
        if (index === -1) return Effect.never
        const [next] = left.splice(index, 1)
        return Effect.as(Effect.sleep((next!.after ?? 0) as Duration.Input), next!.answer as Approvals.Answer)
      })
  }
  return people
})

const classesOf = (scenario: Scenario): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(scenario.tools).map(([name, tool]) => [
      name,
      tool.recursive === true
        ? "ConcurrentMut"
        : tool.class === "ReadOnly"
        ? "ReadOnly"
        : tool.promoted ?? tool.class === "ConcurrentMut"
        ? "ConcurrentMut"
        : "SerialMut"
    ])
  )

const optionsOf = ({ config = {}, policy, rules }: Scenario): LocalExecutor.Options => {
  const { guards = [], permissionTimeout: _, ...same } = config
  return {
    // durations were checked when the scenario was decoded
    ...same as LocalExecutor.Options,
    rules,
    policy: { default: "allow", ...policy },
    guards: guards.map(guardOf)
  }
}

const guardOf = (
  { after = "0 millis", says, tool }: NonNullable<NonNullable<Scenario["config"]>["guards"]>[number]
): Guard => ({
  name: "a guard of the scenario",
  check: ({ call }) =>
    tool !== undefined && tool !== call.name
      ? Effect.void
      : Effect.andThen(Effect.sleep(after as Duration.Input), verdicts.get(says) ?? Effect.fail(says))
})

const verdicts = new Map<string, Effect.Effect<void>>([
  ["yes", Effect.void],
  ["dies", Effect.die(new Error("the guard died"))],
  ["never", Effect.never]
])
