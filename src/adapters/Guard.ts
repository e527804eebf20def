/**
 * Shared by the adapters: an executor behind the tools of a loop that does not use Effect.
 *
 * `guard` of each adapter opens an executor over the loop's own tools and returns the same tools, whose calls now pass
 * every gate. Nothing here needs the package of a loop.
 */
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as LocalExecutor from "../assembly/LocalExecutor.ts"
import type { Answer, Step, ToolProcess } from "../core/contract/ToolProcess.ts"
import * as ToolExecutor from "../core/engine/ToolExecutor.ts"
import * as ToolEvent from "../core/facts/ToolEvent.ts"
import * as Approvals from "../core/gates/Approvals.ts"
import * as Permissions from "../core/gates/Permissions.ts"
import { textOf } from "../core/output/OutputPolicy.ts"
import { ConfigurationError, type Problem } from "../core/vocabulary/ConfigurationError.ts"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import type { HandlersOf, RegisteredTool } from "../core/vocabulary/ToolHandlers.ts"
import * as PlainJson from "../wire/PlainJson.ts"
import * as GuardOptions from "./GuardOptions.ts"
import type { Approval, Guarded, Options, Request } from "./GuardOptions.ts"
import * as PlainProblems from "./PlainProblems.ts"
import type * as PlainTool from "./PlainTool.ts"

export type { Approval, Guarded, Options, Request } from "./GuardOptions.ts"

/** A call of the loop, for the handler of its tool. */
export interface Live {
  /** What the loop passed besides the arguments. */
  readonly given: unknown
  /** What the tool returned, before it is encoded. */
  returned?: { readonly value: unknown }
  /** Shows a value that the tool yielded before its result. */
  readonly show?: ((value: unknown) => void) | undefined
}

/** The call of the loop that a handler works for. */
export const LoopCall = Context.Reference<Live | undefined>("effect-tool-executor/adapters/Guard/LoopCall", {
  defaultValue: () => undefined
})

/** Whether the model reads all of a value, so that a loop may get it as the tool returned it. */
export const fits = ({ outcome, text }: Answer, value: unknown): boolean =>
  outcome._tag === "Succeeded" && value !== undefined && text === textOf(PlainJson.from(value))

/** Tools of a loop as a toolkit with handlers. */
export interface Adapted {
  readonly toolkit: Toolkit.Any
  readonly layer: Layer.Layer<HandlersOf<Toolkit.Any>>
}

/** Makes a toolkit of a loop's tools, unless something is wrong with them, their names or their settings. */
export const adapt = <T extends { readonly name: string }>({ handlerOf, problems, settings, subject, toolOf, tools }: {
  /** Names the function in errors. */
  readonly subject: string
  readonly tools: ReadonlyArray<T>
  readonly settings: { readonly [name: string]: PlainTool.Declared | undefined }
  readonly problems: ReadonlyArray<Problem>
  readonly toolOf: (tool: T, declared: PlainTool.Declared) => PlainTool.PlainTool<string>
  readonly handlerOf: (tool: T) => (args: unknown) => Effect.Effect<unknown, string>
}): Effect.Effect<Adapted, ConfigurationError> => {
  const names = tools.map((it) => it.name)
  const all = [
    ...problems,
    ...names.flatMap(PlainProblems.ofName),
    ...PlainProblems.ofSame(names),
    ...PlainProblems.ofSettings(settings, new Set(names))
  ]
  if (all.length > 0) return new ConfigurationError({ subject, problems: all })
  const toolkit = Toolkit.make(...tools.map((it) => toolOf(it, settings[it.name] ?? {})))
  const handlers = Object.fromEntries(tools.map((it) => [it.name, handlerOf(it)]))
  return Effect.succeed({ toolkit, layer: toolkit.toLayer(handlers as never) } as never)
}

/** The tools and the process of one request, for an adapter. */
export class Calls {
  readonly process: ToolProcess
  /** The tools that the executor shows, by name. */
  readonly shown: ReadonlyMap<string, RegisteredTool>
  private readonly opened: Omit<Opened, "begin">
  private last = 0

  constructor(process: ToolProcess, shown: ReadonlyArray<RegisteredTool>, opened: Omit<Opened, "begin">) {
    this.process = process
    this.shown = new Map(shown.map((it) => [it.name, it]))
    this.opened = opened
  }

  /** The id of a call to which the loop gave none. */
  id(tool: string): string {
    return `${tool}-${++this.last}`
  }

  /** Begins a model step; calls of one step run in order, reads in parallel. */
  step(): Step {
    return Effect.runSyncWith(this.opened.services)(Effect.orDie(this.process.step))
  }

  /** Runs a call. Rejects with an `AbortError` if the signal aborts. */
  run(
    step: Step,
    call: ToolCall.ToolCall,
    live: Live,
    { isApproved, signal }: { readonly signal: AbortSignal | undefined; readonly isApproved: boolean }
  ): Promise<Answer> {
    const key = keyOf(this.process.id, call.id)
    if (isApproved) this.opened.approved.add(key)
    const running = step.execute(call).pipe(
      Effect.provideService(LoopCall, live),
      Effect.ensuring(Effect.sync(() => this.opened.approved.delete(key)))
    )
    return runCall(this.opened.services, running, call.name, signal)
  }

  /**
   * Whether a call would need approval, for loops that request approval before they run a call. Arguments that do not
   * fit need none: the call is refused. The executor checks again when the call runs.
   */
  needsApproval(call: ToolCall.ToolCall, live: Live): Promise<boolean> {
    const tool = this.shown.get(call.name)
    return tool === undefined
      ? Promise.resolve(false)
      : Effect.runPromiseWith(this.opened.services)(
        Effect.provideService(asks(this.opened, this.process, tool, call), LoopCall, live)
      )
  }
}

/** One step for the calls that arrive together, for loops that do not say which calls belong to one message. */
export const steps = (calls: Calls) => {
  let step: Step | undefined
  return (): Step => {
    if (step !== undefined) return step
    queueMicrotask(() => step = undefined)
    return step = calls.step()
  }
}

/** Opens an executor over the tools of a loop; `toolsOf` makes the guarded tools of a request. */
export const guard = <Tools>(options: {
  /** Names the function in errors. */
  readonly subject: string
  /** The tools as a toolkit; fails with what is wrong with them. */
  readonly adapted: Effect.Effect<Adapted, ConfigurationError>
  readonly given: Options
  readonly hasApprovals: boolean
  readonly toolsOf: (calls: Calls) => Tools | PromiseLike<Tools>
}): Promise<Guarded<Tools>> =>
  Effect.runPromise(Effect.gen(function*() {
    const scope = yield* Scope.make()
    return yield* Effect.gen(function*() {
      const opened = yield* open(options, scope)
      const begin = async (): Promise<Request<Tools>> => {
        const { calls, close } = await Effect.runPromiseWith(opened.services)(opened.begin)
        return {
          tools: await options.toolsOf(calls),
          isOver: () => Effect.runPromiseWith(opened.services)(calls.process.shouldExit),
          close: () => Effect.runPromise(close)
        }
      }
      const first = yield* Effect.promise(begin)
      return { ...first, request: begin, close: () => Effect.runPromise(Scope.close(scope, Exit.void)) }
    }).pipe(Effect.onError(() => Scope.close(scope, Exit.void)))
  }))

/** What the executor's policy says of a call before it is submitted. */
const asks = Effect.fnUntraced(function*(
  { consents, permissions }: Omit<Opened, "begin">,
  { batch, id }: ToolProcess,
  tool: RegisteredTool,
  call: ToolCall.ToolCall
) {
  const decoded = yield* Effect.result(tool.decode(call.params))
  if (Result.isFailure(decoded)) return false
  const params = decoded.success
  const own = typeof tool.needsApproval === "function"
    ? yield* effectOf(() => (tool.needsApproval as Ask)(params, { toolCallId: call.id, messages: [] }), true)
    : tool.needsApproval ?? false
  const targets = Permissions.needsTargets(permissions, tool)
    ? yield* effectOf(() => tool.targets(params), undefined)
    : []
  const { _tag } = permissions.decide({
    call,
    tool,
    args: call.params,
    params,
    targets,
    needsApproval: own !== false,
    principal: "",
    agentPath: [],
    batch,
    process: id
  })
  return _tag === "Ask" || (_tag === "Allow" && consents(tool.name))
})

type Ask = (params: unknown, context: { readonly toolCallId: string; readonly messages: [] }) => unknown

interface Opened {
  readonly services: Context.Context<never>
  readonly permissions: Permissions.Permissions["Service"]
  /** Calls that the loop's own approval flow has approved, by process and id. */
  readonly approved: Set<string>
  /** Tools that rules want approved, whatever the policy says. */
  readonly consents: (tool: string) => boolean
  readonly begin: Effect.Effect<
    { readonly calls: Calls; readonly close: Effect.Effect<void> },
    ConfigurationError
  >
}

const open = Effect.fnUntraced(function*(
  { adapted, given, hasApprovals, subject }: {
    readonly subject: string
    readonly adapted: Effect.Effect<Adapted, ConfigurationError>
    readonly given: Options
    readonly hasApprovals: boolean
  },
  scope: Scope.Scope
): Effect.fn.Return<Opened, ConfigurationError> {
  const { layer, toolkit } = yield* adapted
  const problems = GuardOptions.problemsOf(given, toolkit, hasApprovals)
  if (problems.length > 0) return yield* new ConfigurationError({ subject, problems })
  const approved = new Set<string>()
  const { approvals, policy = {}, rules = [] } = given
  const permissions = yield* Permissions.make(policy)
  const answers = approvals === undefined ? Layer.empty : Approvals.layerApprover(
    approvals === "loop"
      ? ({ callId, process }) =>
        Effect.succeed(
          approved.has(keyOf(process, callId)) ? { _tag: "ApproveOnce" } : { _tag: "Deny", reason: notApproved }
        )
      : (request) => Effect.map(Effect.promise(async (signal) => approvals(request, signal)), answerOf),
    { timeout: given.approvalTimeout }
  )
  const services = yield* Layer.buildWithScope(
    LocalExecutor.layer(toolkit, {
      policy,
      rules,
      dedupe: given.dedupe === false ? false : { ...given.dedupe, scope: given.dedupe?.scope ?? "wave" },
      pools: given.concurrency,
      executionTimeout: given.timeout,
      turn: { maxCalls: given.limits?.calls, timeout: given.limits?.time },
      output: { maxChars: given.maxOutput }
    }).pipe(Layer.provide(layer), Layer.provide(answers)),
    scope
  )
  const executor = Context.get(services, ToolExecutor.ToolExecutor)
  const opened = {
    services: services as Context.Context<never>,
    permissions,
    approved,
    consents: (tool: string) =>
      rules.some((it) => it._tag === "RequiresConsent" && (it.tool === tool || it.tool === "*"))
  }
  return {
    ...opened,
    begin: Effect.gen(function*() {
      const own = yield* Scope.fork(scope)
      const process = yield* Scope.provide(executor.process(), own)
      if (given.onEvent !== undefined) yield* Scope.provide(process.listen(listener(given.onEvent)), own)
      const calls = new Calls(process, yield* process.tools, opened)
      return { calls, close: Scope.close(own, Exit.void) }
    })
  }
})

const answerOf = (answer: Approval): Approvals.Answer =>
  answer === true ? { _tag: "ApproveOnce" } : answer === false ? { _tag: "Deny" } : answer

const notApproved = "The loop did not request approval for this call."

const listener = (onEvent: (event: ToolEvent.Wire) => void) => (event: ToolEvent.ToolEvent): boolean => {
  const wire = ToolEvent.toWire(event)
  if (wire !== undefined) onEvent(wire)
  return true
}

const keyOf = (process: string, call: string): string => `${process}\0${call}`

/** What a function gives, or what the effect gives that it returns; the fallback if it fails. */
const effectOf = <A>(run: () => A | Effect.Effect<A>, fallback: A): Effect.Effect<A> =>
  Effect.suspend(() => {
    const given = run()
    return Effect.isEffect(given) ? given as Effect.Effect<A> : Effect.succeed(given)
  }).pipe(Effect.catchCause(() => Effect.succeed(fallback)))

/** Runs a call for a loop. Rejects with an `AbortError` if the signal aborts. */
export const runCall = (
  services: Context.Context<never>,
  call: Effect.Effect<Answer>,
  tool: string,
  signal: AbortSignal | undefined
): Promise<Answer> => {
  if (signal?.aborted === true) return Promise.reject(aborted(tool, signal))
  return Effect.runPromiseExitWith(services)(call, signal === undefined ? {} : { signal }).then((exit) => {
    if (Exit.isSuccess(exit)) return exit.value
    throw signal?.aborted === true ? aborted(tool, signal) : Cause.squash(exit.cause)
  })
}

/** The error of a call whose request was aborted. */
const aborted = (tool: string, { reason }: AbortSignal): Error =>
  Object.assign(
    new Error(`"${tool}" was cancelled, because the request was aborted. What it had already done is not undone.`, {
      cause: reason
    }),
    { name: "AbortError" }
  )
