/**
 * Arrival: what is looked at for every call of a wave before anything runs.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Detached from "../internal/detached.ts"
import type { GateCall } from "../policy/Gate.ts"
import * as Permissions from "../policy/Permissions.ts"
import type * as RuleSet from "../policy/RuleSet.ts"
import { heartbeatArgument, type RegisteredTool, type Registry } from "../ToolHandlers.ts"
import type { ParameterIssue } from "../ToolRefusal.ts"
import type { End } from "./Attempt.ts"
import type { CallState } from "./CallState.ts"
import { denied, invalid, turn, unreadable } from "./Ends.ts"
import type { Engine, ProcessState } from "./Engine.ts"
import * as Forks from "./Forks.ts"
import { lookUp, patience } from "./LookUp.ts"
import * as Targets from "./Targets.ts"

/**
 * The names of the tools that an agent sees, found out once and only if asked for:
 * a wave may have thousands of calls of what is not there.
 *
 * @category getters
 * @since 0.1.0
 */
export const namesSeen = (registry: Registry, agent: CallState["agent"]): () => ReadonlyArray<string> => {
  let names: ReadonlyArray<string> | undefined
  return () =>
    names ??= Array.from(registry.values())
      .filter((it) => Permissions.sees(agent.permissions, it))
      .map((it) => it.name)
}

/**
 * Arrival: gates 1 to 5. Decides the call (`decided`) or fills in its tool and
 * parameters, at once or, where a schema waits for something, by the effect it gives.
 *
 * @category stages
 * @since 0.1.0
 */
export const arrive = (
  engine: Engine,
  process: ProcessState,
  registry: Registry,
  available: () => ReadonlyArray<string>,
  call: CallState,
  now: number
): Effect.Effect<void> | undefined => {
  const params = takeHeartbeat(call, call.call.params)
  // it may be cancelled already, while an earlier one was decoded
  call.decided ??= turn(process, call, now)
  if (call.decided !== undefined) return undefined
  if (call.call.problem !== undefined) {
    call.decided = invalid([call.call.problem])
    return undefined
  }
  const tool = registry.get(call.call.name)
  if (tool === undefined) {
    call.decided = denied({ _tag: "ToolNotFound", available: available() })
    return undefined
  }
  const { malformed } = call.call
  // of no text at all the schema decides: it is `{}`
  if (malformed !== undefined && malformed.text.trim() !== "") {
    const { message, text } = malformed
    const shown = text.length > 200 ? `${text.slice(0, 200)}…` : text
    call.decided = invalid([{ path: "", message: `They are not JSON (${message}): ${shown}` }])
    return undefined
  }
  if (tool.recursive && engine.agentPath.length >= Forks.maxDepth) {
    call.decided = denied({ _tag: "DepthExceeded", max: Forks.maxDepth })
    return undefined
  }
  call.tool = tool
  call.rules = engine.rules.current().forTool(tool.name)
  return admit(engine, process, call, malformed === undefined ? params : {}, now)
}

/**
 * Gates 4 and 5 with arguments that a person has edited: at once, or by an effect.
 *
 * @category stages
 * @since 0.1.0
 */
export const readmit = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  params: unknown,
  now: number
): Effect.Effect<void> | undefined => admit(engine, process, call, takeHeartbeat(call, params), now)

/** Gates 4 and 5. */
const admit = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  params: unknown,
  now: number
): Effect.Effect<void> | undefined => {
  const tool = call.tool!
  const args = withPrefilled(call.rules!.prefilled, params)
  const decoding = decode(tool, args)
  // schemas without services and asynchronous steps are done already
  if (Exit.isExit(decoding)) return arrived(engine, process, call, args, decoding, now)
  return Effect.flatMap(
    Detached.within(Effect.provideContext(decoding, tool.context), patience(process, call, now)),
    (exit) => arrived(engine, process, call, args, exit ?? Exit.fail([undecoded]), now) ?? Effect.void
  )
}

/** The rest of Arrival, once the parameters are decoded: what the call is about, where the policy asks, and gate 5. */
const arrived = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  args: unknown,
  exit: Exit.Exit<unknown, unknown>,
  now: number
): Effect.Effect<void> | undefined => {
  if (call.decided !== undefined) return undefined
  if (Exit.isFailure(exit)) {
    // a value too deeply nested for the decoder ends in a defect, like a decoder that is broken
    const issues = Option.getOrElse(
      Cause.findErrorOption(exit.cause),
      () => [Cause.squash(exit.cause) instanceof RangeError ? unreadable : undecodable]
    )
    call.decided = invalid(issues as ReadonlyArray<ParameterIssue>)
    return undefined
  }
  const params = exit.value
  const targets = Targets.find(engine, process, call, params, now)
  const needsApproval = wantsApproval(process, call, params, now)
  return Effect.isEffect(targets) || Effect.isEffect(needsApproval)
    ? Effect.map(
      Effect.all([found(targets), found(needsApproval)], { concurrency: 2 }),
      ([targets, needsApproval]) => judge(engine, process, call, args, params, targets, needsApproval)
    )
    : judge(engine, process, call, args, params, targets, needsApproval)
}

const found = <A>(answer: A | Effect.Effect<A>): Effect.Effect<A> =>
  Effect.isEffect(answer) ? answer : Effect.succeed(answer)

/** What the tool itself says of the call; anything but false is a yes. */
const wantsApproval = (
  process: ProcessState,
  call: CallState,
  params: unknown,
  now: number
): unknown | Effect.Effect<unknown> => {
  const { context, needsApproval = false } = call.tool!
  if (typeof needsApproval !== "function") return needsApproval
  return lookUp(
    process,
    call,
    () => {
      const answer = needsApproval(params as never, { toolCallId: call.call.id, messages: [] })
      return Effect.isEffect(answer) ? Effect.provideContext(answer, context) : answer
    },
    now,
    (answer) => answer
  )
}

/** Gate 5, now that everything is known of the call. */
const judge = (
  engine: Engine,
  process: ProcessState,
  call: CallState,
  args: unknown,
  params: unknown,
  targets: GateCall["targets"],
  needsApproval: unknown
): undefined => {
  call.gateCall = {
    args,
    params,
    targets,
    // a question without an answer is one for people
    needsApproval: needsApproval !== false,
    call: call.call,
    tool: call.tool!,
    principal: engine.principal,
    agentPath: call.agent.agentPath,
    batch: process.batch.id,
    process: process.id
  }
  call.decided ??= tooLong(targets) ?? denied(Permissions.check(call.agent.permissions, call.gateCall))
}

/** What is about so much is not compared with anything. */
const tooLong = (targets: Targets.Targets): End | undefined => {
  const chars = Targets.chars(targets)
  if (chars <= Targets.maxChars) return undefined
  const message = `What they are about has ${chars} characters, and may have ${Targets.maxChars}`
  return invalid([{ path: "", message }])
}

const undecodable: ParameterIssue = { path: "", message: "They could not be decoded" }

const undecoded: ParameterIssue = { path: "", message: "They could not be decoded in time" }

const decode = (tool: RegisteredTool, args: unknown): Effect.Effect<unknown, ReadonlyArray<ParameterIssue>> => {
  try {
    return tool.decode(args)
  } catch {
    return Effect.fail([unreadable])
  }
}

const isObject = (params: unknown): params is object =>
  typeof params === "object" && params !== null && !Array.isArray(params)

/** Adds the host's own arguments, which override the model's. */
const withPrefilled = (prefilled: RuleSet.ToolRules["prefilled"], params: unknown): unknown =>
  prefilled === undefined || !(isObject(params) || params === undefined || params === null)
    ? params
    : { ...params, ...prefilled }

/** Takes the control argument out, whatever its value is. */
const takeHeartbeat = (call: CallState, params: unknown): unknown => {
  if (!isObject(params) || !Object.hasOwn(params, heartbeatArgument)) return params
  const { [heartbeatArgument]: flag, ...rest } = params as Record<string, unknown>
  call.heartbeat = flag === true
  return rest
}
