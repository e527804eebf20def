/** Arrival: gates 1 to 5, which check every call of a wave before any of them runs. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Detached from "../../../internal/detached.ts"
import { exitOf, isDone } from "../../../internal/exitOf.ts"
import type { GateCall } from "../../gates/Gate.ts"
import * as Permissions from "../../gates/Permissions.ts"
import type * as RuleSet from "../../rules/RuleSet.ts"
import type * as ToolAnnotations from "../../vocabulary/ToolAnnotations.ts"
import { heartbeatArgument, type RegisteredTool, type Registry } from "../../vocabulary/ToolHandlers.ts"
import type { ParameterIssue } from "../../vocabulary/ToolRefusal.ts"
import { denied, type End, invalid, refused, unreadable } from "../data/CallEnd.ts"
import { hasTool, turnEnd } from "../state/State.ts"
import { maxDepth } from "./Agents.ts"
import * as CallGates from "./arrive/CallGates.ts"
import * as ShadowLook from "./arrive/ShadowLook.ts"
import * as Targets from "./arrive/Targets.ts"
import { lookUp, patience } from "./arrive/ToolAnswers.ts"
import * as UnseenText from "./arrive/UnseenText.ts"
import type { Call } from "./Call.ts"
import type { WaveHost } from "./WaveHost.ts"

/** Passes every call of a wave through arrival. Afterwards each is decided, or has its tool and its parameters. */
export const arrive = (wave: WaveHost): Effect.Effect<void> => {
  const registry = wave.engine.handlers.current()
  const now = wave.begunAt
  const slow: Array<readonly [Call, Effect.Effect<void>]> = []
  for (const call of wave.calls) {
    const arrived = arriveOne(wave, registry, call, now)
    if (!isDone(arrived)) slow.push([call, arrived])
  }
  return slow.length === 0 ? Effect.void : wave.waits.waitAll(slow)
}

/** Repeats gates 4 and 5 with arguments that an approver edited. */
export const arriveAgain = (wave: WaveHost, call: Call, params: unknown): Effect.Effect<void> => {
  const { gateCall: before, memory, tool } = call
  const admitted = admit(wave, call, takeHeartbeat(call, params))
  if (before === undefined || memory?._tag !== "Started") return admitted
  const canonical = ({ args, params }: GateCall) => tool!.canonical(params, args)
  return Effect.map(admitted, () => {
    // with the old idempotency key, services would take the edited call for the original one
    if (canonical(call.gateCall!) !== canonical(before)) memory.idempotencyKey = undefined
  })
}

const arriveOne = (wave: WaveHost, registry: Registry, call: Call, now: number): Effect.Effect<void> => {
  const { call: { malformed, name, problem } } = call
  const params = takeHeartbeat(call, call.call.params)
  // decoding an earlier call may have cancelled this one
  call.decided ??= turnEnd(wave.process, call.counted, now)
  if (call.decided !== undefined) return Effect.void
  if (problem !== undefined) return decide(call, invalid([problem]))
  const tool = hasTool(wave.process, name) ? registry.get(name) : undefined
  if (tool === undefined) {
    return decide(call, refused({ _tag: "ToolNotFound", available: seen(wave, registry, call.agent.permissions) }))
  }
  // empty text counts as `{}`: the schema decides
  if (malformed !== undefined && malformed.text.trim() !== "") {
    const { message, text } = malformed
    const shown = text.length > 200 ? `${text.slice(0, 200)}…` : text
    return decide(call, invalid([{ path: "", message: `They cannot be read as JSON (${message}): ${shown}` }]))
  }
  if (tool.recursive && wave.engine.agentPath.length >= maxDepth) {
    return decide(call, refused({ _tag: "DepthExceeded", max: maxDepth }))
  }
  call.tool = tool
  call.rules = wave.engine.rules.current().forTool(name)
  return admit(wave, call, malformed === undefined ? params : {})
}

const decide = (call: Call, end: End): Effect.Effect<void> => {
  call.decided = end
  return Effect.void
}

/** Returns the names of the tools that the agent sees. Cached: a wave may have thousands of calls of missing tools. */
const seen = (
  wave: WaveHost,
  registry: Registry,
  permissions: Permissions.Permissions["Service"]
): ReadonlyArray<string> =>
  wave.caches.toolNames ??= Array.from(registry.values())
    .filter((it) => hasTool(wave.process, it.name) && Permissions.sees(permissions, it))
    .map((it) => it.name)

/** Gates 4 and 5. */
const admit = (wave: WaveHost, call: Call, params: unknown): Effect.Effect<void> => {
  const tool = call.tool!
  const args = withPrefilled(call.rules!.prefilled, params)
  const decoding = decode(tool, args)
  // schemas without services or asynchronous steps are decoded already
  const done = exitOf(decoding)
  if (done !== undefined) return decoded(wave, call, args, done)
  return Effect.flatMap(
    Detached.within(decoding, patience(wave, tool)),
    (exit) => decoded(wave, call, args, exit ?? Exit.fail([undecoded]))
  )
}

/** Completes arrival after decoding: targets, the tool's own `needsApproval`, then the policy. */
const decoded = (
  wave: WaveHost,
  call: Call,
  args: unknown,
  exit: Exit.Exit<unknown, unknown>
): Effect.Effect<void> => {
  if (call.decided !== undefined) return Effect.void
  if (Exit.isFailure(exit)) {
    // excessive nesting surfaces as a defect, like a broken decoder
    const issues = Option.getOrElse(
      Cause.findErrorOption(exit.cause),
      () => [Cause.squash(exit.cause) instanceof RangeError ? unreadable : undecodable]
    )
    return decide(call, invalid(issues as ReadonlyArray<ParameterIssue>))
  }
  const unseen = UnseenText.inArguments(args, call.tool!.invisible ?? wave.engine.invisible)
  if (unseen !== undefined) return decide(call, invalid([unseen]))
  const params = exit.value
  const targets = Targets.find(wave, call, params)
  const approval = wantsApproval(wave, call, params)
  const found = exitOf(targets)
  const asked = exitOf(approval)
  if (found?._tag === "Success" && asked?._tag === "Success") {
    return judge(wave, call, args, params, found.value, asked.value)
  }
  return Effect.flatMap(
    Effect.all([targets, approval], { concurrency: 2 }),
    ([targets, needsApproval]) => judge(wave, call, args, params, targets, needsApproval)
  )
}

const noApproval: Effect.Effect<unknown> = Effect.succeed(false)

/** Returns the tool's own `needsApproval`. Anything but false requests approval. */
const wantsApproval = (wave: WaveHost, call: Call, params: unknown): Effect.Effect<unknown> => {
  const tool = call.tool!
  const { context, needsApproval = false } = tool
  if (needsApproval === false) return noApproval
  if (typeof needsApproval !== "function") return Effect.succeed(needsApproval)
  return lookUp(wave, tool, () => {
    const answer = needsApproval(params as never, { toolCallId: call.call.id, messages: [] })
    return Effect.isEffect(answer) ? Effect.provideContext(answer, context) : answer
  }, (answer) => answer)
}

/** Runs gate 5, then the host's own gates. */
const judge = (
  wave: WaveHost,
  call: Call,
  args: unknown,
  params: unknown,
  targets: GateCall["targets"],
  needsApproval: unknown
): Effect.Effect<void> => {
  const sandboxing = call.tool!.sandboxed === undefined ? undefined : sandboxingOf(call.tool!.sandboxed, params)
  const gateCall = call.gateCall = {
    args,
    params,
    targets,
    // without a clear answer from the tool, approval is required
    needsApproval: needsApproval !== false,
    sandbox: sandboxing?._tag === "Unavailable" ? undefined : sandboxing,
    call: call.call,
    tool: call.tool!,
    principal: wave.engine.principal,
    roles: wave.engine.roles,
    agentPath: call.agent.agentPath,
    batch: wave.process.batch.id,
    process: wave.process.id
  }
  const isTooLong = tooLong(targets)
  if (isTooLong === undefined) ShadowLook.look(wave, call, gateCall)
  call.decided ??= isTooLong ?? denied(Permissions.check(call.agent.permissions, gateCall, wave)) ??
    (sandboxing?._tag === "Unavailable"
      ? refused({ _tag: "SandboxUnavailable", reason: sandboxing.reason })
      : undefined)
  return call.decided === undefined ? CallGates.pass(wave, call, "arrive") : Effect.void
}

/** How a call runs; a tool that cannot say so has no sandbox. */
const sandboxingOf = (
  sandboxed: NonNullable<RegisteredTool["sandboxed"]>,
  params: unknown
): ToolAnnotations.Sandboxing => {
  try {
    return sandboxed(params)
  } catch {
    return { _tag: "Unavailable", reason: "the tool could not say how the call would run" }
  }
}

/** Refuses targets that are too long to compare. */
const tooLong = (targets: Targets.Targets): End | undefined => {
  const chars = Targets.chars(targets)
  if (chars <= Targets.maxChars) return undefined
  const message = `Their targets have ${chars} characters; at most ${Targets.maxChars} are allowed`
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

/** Removes the heartbeat argument, whatever its value, and notes whether it was `true`. */
const takeHeartbeat = (call: Call, params: unknown): unknown => {
  if (!isObject(params) || !Object.hasOwn(params, heartbeatArgument)) return params
  const { [heartbeatArgument]: flag, ...rest } = params as Record<string, unknown>
  call.heartbeat = flag === true
  return rest
}
