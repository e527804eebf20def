/** A world of scripted tools, rules, people and waves: for the model of the contract, and as a scenario for the executor. */
import type { ToolOutcome } from "effect-tool-executor"

interface Run {
  readonly takes: number
  readonly fails?: boolean
  /** It goes on when it is told to stop. */
  readonly deaf?: boolean
}

/** A tool: how its executions go, the last for ever, and what it declares. */
export interface Tool {
  readonly class: "ReadOnly" | "ConcurrentMut" | "SerialMut"
  readonly volatile?: boolean
  readonly idempotent?: boolean
  readonly targets?: boolean
  readonly timeout: number
  readonly runs: ReadonlyArray<Run>
  readonly retryable?: boolean
}

export interface Rules {
  readonly start?: string
  readonly preceding?: { readonly tool: string; readonly needs: string }
  readonly following?: { readonly tool: string; readonly until: string }
  readonly max?: { readonly tool: string; readonly max: number }
  readonly exclusive?: ReadonlyArray<string> | undefined
  readonly cooldown?: { readonly tool: string; readonly duration: number }
  /** Tools that begin side by side waves at different times; they close their runs. */
  readonly closing: ReadonlyArray<string>
}

export interface Settings {
  readonly reach: "wave" | "process" | "batch" | "principal"
  readonly window: number
  readonly readWindow?: number | undefined
  readonly keepFailed: boolean
  readonly onDuplicate: "reject" | "replay"
  readonly inFlight: "reject" | "join"
  readonly stop: boolean
  readonly ask: ReadonlyArray<string>
  readonly deny: ReadonlyArray<string>
}

export interface Answer {
  readonly tool: string
  readonly after: number
  readonly says: "once" | "scope" | "no" | number
}

export interface Asked {
  readonly id: string
  readonly name: string
  readonly n: number
  readonly to?: ReadonlyArray<string>
}

export interface Part {
  readonly principal: string
  readonly batch: string
  readonly fresh: boolean
  readonly calls: ReadonlyArray<Asked>
}

export type Move =
  | {
    readonly waves: ReadonlyArray<Part>
    readonly cancel?: { readonly id: string; readonly at: number }
    readonly interrupt?: number
  }
  | { readonly advance: number }
  | { readonly close: { readonly principal: string; readonly batch: string } }
  | { readonly revoke: { readonly principal: string; readonly tool: string } }

export interface World {
  readonly tools: { readonly [name: string]: Tool }
  readonly rules: Rules
  readonly settings: Settings
  /** What people say; `null`: nobody is there. */
  readonly answers: ReadonlyArray<Answer> | null
  readonly moves: ReadonlyArray<Move>
}

const millis = (n: number) => `${n} millis`

/** The same world as the executor is told of it. */
export const toScenario = ({ answers, moves, rules, settings, tools }: World): unknown => {
  const { cooldown, exclusive, following, max, preceding, start } = rules
  return {
    name: "a random world",
    tools: Object.fromEntries(
      Object.entries({ ...tools, unused: { ...tools.wait0!, runs: [{ takes: 1 }] } }).map(([name, it]) => [name, {
        class: it.class,
        timeout: millis(it.timeout),
        ...(it.volatile === true ? { openWorld: true } : {}),
        ...(it.idempotent === true ? { idempotent: true } : {}),
        ...(it.targets === true ? { targets: ["to"] } : {}),
        ...(it.retryable === false ? { retryOnTimeout: false } : {}),
        ...(rules.closing.includes(name) ? { dedupe: "never" } : {}),
        calls: it.runs.map(({ deaf, fails, takes }: Run) => ({
          takes: millis(takes),
          ...(fails === true ? { fails: "no", retryable: it.retryable ?? true } : {}),
          ...(deaf === true ? { deaf: true } : {})
        }))
      }])
    ),
    rules: [
      { _tag: "RequiresPrecedingTools", tool: "unused", tools: rules.closing },
      ...(start === undefined ? [] : [{ _tag: "StartConstraint", tool: start }]),
      ...(preceding === undefined
        ? []
        : [{ _tag: "RequiresPrecedingTools", tool: preceding.tool, tools: [preceding.needs] }]),
      ...(following === undefined
        ? []
        : [{ _tag: "RequiresFollowingTools", tool: following.tool, tools: [following.until] }]),
      ...(max === undefined ? [] : [{ _tag: "MaxCalls", ...max }]),
      ...(exclusive === undefined ? [] : [{ _tag: "ExclusiveGroup", tools: exclusive }]),
      ...(cooldown === undefined
        ? []
        : [{ _tag: "Cooldown", tool: cooldown.tool, duration: millis(cooldown.duration) }])
    ],
    policy: { default: "allow", ask: settings.ask, deny: settings.deny, allow: ["look"] },
    config: {
      dedupe: {
        reach: settings.reach,
        window: millis(settings.window),
        ...(settings.readWindow === undefined ? {} : { readWindow: millis(settings.readWindow) }),
        outcomes: settings.keepFailed ? ["Succeeded", "Failed"] : ["Succeeded"],
        onDuplicate: settings.onDuplicate,
        inFlight: settings.inFlight
      },
      onExecutionError: settings.stop ? "stop" : "continue",
      pools: { read: 1000, concurrent: 1000, serial: 1000 }
    },
    answers: answers && answers.map(({ after, says, tool }) => ({
      tool,
      after: millis(after),
      answer: says === "once"
        ? { _tag: "ApproveOnce" }
        : says === "scope"
        ? { _tag: "ApproveForScope" }
        : says === "no"
        ? { _tag: "Deny" }
        : { _tag: "ApproveForDuration", duration: millis(says) }
    })),
    script: moves.flatMap((move): ReadonlyArray<unknown> => {
      if ("advance" in move) return [{ advance: millis(move.advance) }]
      if ("close" in move) return [{ completeBatch: move.close.batch, principal: move.close.principal }]
      if ("revoke" in move) return [{ revoke: move.revoke.tool, principal: move.revoke.principal }]
      const { cancel, interrupt, waves } = move
      return [
        ...waves.flatMap(({ batch, fresh, principal }) => fresh ? [{ process: batch, principal }] : []),
        ...(interrupt === undefined ? [] : [{ interrupt: true, at: millis(interrupt) }]),
        ...(cancel === undefined ? [] : [{ cancelCall: cancel.id, at: millis(cancel.at) }]),
        {
          waves: waves.map(({ batch, calls, principal }) => ({
            process: batch,
            principal,
            wave: calls.map(({ id, n, name, to }) => ({ id, name, params: { n, ...(to === undefined ? {} : { to }) } }))
          }))
        }
      ]
    })
  }
}

/** An outcome in the words of the model. */
export const said = (outcome: ToolOutcome.ToolOutcome): string => {
  if (outcome._tag !== "Denied") return outcome._tag
  const { reason } = outcome
  switch (reason._tag) {
    case "RuleViolation":
      return `Denied ${reason.rule._tag}`
    case "PermissionDenied":
      return `Denied PermissionDenied ${reason.by}`
    default:
      return `Denied ${reason._tag}`
  }
}
