/**
 * A scenario: scripted tools, waves of calls and what is expected of them, as plain data.
 *
 * This is the format of `tool-executor simulate FILE` and its reader; what runs it is `ScenarioRunner`. An unknown key
 * is an error that names it.
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import {
  AtLeastOne,
  dedupeFields,
  fields,
  loopFields,
  Span as SpanAboveNone,
  SpanOrNone as Span,
  Tool
} from "../core/gates/ConfigFields.ts"
import { Policy } from "../core/gates/Policy.ts"
import * as PolicyFile from "../core/gates/PolicyFile.ts"
import type * as RuleSet from "../core/rules/RuleSet.ts"
import { ToolRule } from "../core/rules/ToolRule.ts"
import { CallEntry } from "../core/store/JournalEntry.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { ScriptedAgent } from "./ScriptedAgent.ts"

const optional = Schema.optionalKey

const behaviour = {
  takes: optional(Span),
  returns: optional(Schema.Json),
  fails: optional(Schema.Json),
  retryable: optional(Schema.Boolean),
  dies: optional(Schema.String),
  never: optional(Schema.Boolean),
  deaf: optional(Schema.Boolean),
  progress: optional(Schema.Array(Schema.Struct({
    at: Span,
    progress: optional(Schema.Finite),
    total: optional(Schema.Finite),
    message: optional(Schema.String)
  }))),
  lateCommit: optional(Span)
}

/** What one execution of a scripted tool does. */
export const Behaviour = Schema.Struct(behaviour)

/** What one execution of a scripted tool does. */
export type Behaviour = typeof Behaviour.Type

/** A scripted tool: what it declares and what its executions do. */
export const ScriptedTool = Schema.Struct({
  ...behaviour,
  /** One behaviour per execution, the last repeated; the keys beside it are defaults. */
  calls: optional(Schema.NonEmptyArray(Behaviour)),
  class: optional(Schema.Literals(["ReadOnly", "ConcurrentMut", "SerialMut"])),
  promoted: optional(Schema.Boolean),
  recursive: optional(Schema.Boolean),
  maxConcurrent: optional(Schema.Finite),
  resources: optional(Schema.Array(Schema.String)),
  /** Names of parameters whose values are what a policy's patterns are about. */
  targets: optional(Schema.Array(Schema.String)),
  /**
   * What a call would write: `path` and `after` each name a parameter, or are the text itself. The files are the
   * scenario's own, empty at first; a call writes as it ends.
   */
  preview: optional(Schema.Struct({ path: Schema.String, after: Schema.String })),
  openWorld: optional(Schema.Boolean),
  needsApproval: optional(Schema.Boolean),
  timeout: optional(Span),
  idleTimeout: optional(Span),
  retryOnTimeout: optional(Schema.Boolean),
  idempotent: optional(Schema.Boolean),
  /** Automatic retries after a failure; of idempotent and ReadOnly tools only. */
  retry: optional(Schema.Union([
    AtLeastOne,
    Schema.Struct({ times: AtLeastOne, every: optional(Span) })
  ])),
  dedupe: optional(Schema.Union([Schema.Boolean, Schema.Literals(["never", "always"])])),
  /** Its service does nothing twice under one key: after a crash it is run again. */
  usesIdempotencyKey: optional(Schema.Boolean),
  /** What it finds out, after a crash, about a call of which nobody knows. */
  reconcile: optional(Schema.Union([
    Schema.Struct({ happened: Schema.Json }),
    Schema.Literals(["didNotHappen", "unknown"])
  ])),
  parameters: optional(Schema.Record(Schema.String, Schema.Json))
})

/** A scripted tool. */
export type ScriptedTool = typeof ScriptedTool.Type

const { rules: _, policy: __, ...limits } = fields

/** A check of the host: about a tool or, without one, about all. */
const Guard = Schema.Struct({
  tool: optional(Schema.String),
  /** `yes` lets the call pass, `dies` and `never` do so, and any other text is why it may not run. */
  says: Schema.String,
  after: optional(Span)
})

const { scope: reach, ...sameDedupe } = dedupeFields

const Config = Schema.Struct({
  ...limits,
  /** `reach` is what `Dedupe.Options` call `scope`. */
  dedupe: optional(Schema.Union([Schema.Literal(false), Schema.Struct({ reach, ...sameDedupe })])),
  ...loopFields,
  permissionTimeout: optional(Span),
  /** What the host says about tools, by name. */
  tools: optional(Schema.Record(Schema.String, Tool)),
  guards: optional(Schema.Array(Guard)),
  /** How long what a dead process had taken is held. Default: it is free at once. */
  lease: optional(SpanAboveNone),
  /** What becomes of calls that may have happened, once they are resumed. Default: they are `Unknown`. */
  onUnknown: optional(Schema.Literals(["tell", "ask"]))
})

/** What has the records of a scenario. */
const Store = Schema.Literals(["memory", "file", "sqlite", "postgres"])

/** What has the records of a scenario. */
export type Store = typeof Store.Type

/** What is expected of one outcome; fields left out are not checked. */
export const ExpectedOutcome = Schema.Struct({
  id: optional(Schema.String),
  tag: optional(Schema.Literals(["Succeeded", "Failed", "TimedOut", "Denied", "Cancelled", "Skipped", "Unknown"])),
  /** The tag inside `Denied`. */
  reason: optional(Schema.String),
  /** The rule's tag inside a `RuleViolation`. */
  violation: optional(Schema.String),
  by: optional(Schema.String),
  which: optional(Schema.Literals(["tool", "turn", "idle"])),
  origin: optional(Schema.Literals(["handler", "result", "defect"])),
  retryable: optional(Schema.Boolean),
  output: optional(Schema.Json),
  kind: optional(Schema.Literals(["Inline", "Truncated", "Artifact"])),
  continuation: optional(Schema.Boolean),
  /** Virtual milliseconds since the wave began. */
  start: optional(Schema.Finite),
  end: optional(Schema.Finite),
  textIncludes: optional(Schema.String),
  commits: optional(Schema.Finite)
})

/** What is expected of one outcome. */
export type ExpectedOutcome = typeof ExpectedOutcome.Type

/** What is expected of a wave. */
export const Expected = Schema.Struct({
  outcomes: optional(Schema.Array(ExpectedOutcome)),
  elapsed: optional(Schema.Finite),
  needsContinuation: optional(Schema.Boolean),
  shouldExit: optional(Schema.Boolean),
  peak: optional(Schema.Record(Schema.String, Schema.Finite)),
  prompts: optional(Schema.Array(Schema.String)),
  events: optional(Schema.Union([
    Schema.Struct({ id: Schema.String, tags: Schema.Array(Schema.String) }),
    Schema.Array(Schema.Struct({ id: Schema.String, tags: Schema.Array(Schema.String) }))
  ])),
  /** Of an agent: why its operation ended, after how many turns, and what its model said last. */
  reason: optional(Schema.String),
  turns: optional(Schema.Finite),
  text: optional(Schema.String)
})

/** What is expected of a wave. */
export type Expected = typeof Expected.Type

const Call = Schema.Struct({ id: Schema.String, name: Schema.String, params: optional(Schema.Json) })

/** A wave that runs beside others. */
const Beside = Schema.Struct({
  /** The batch of its process: the last one that was begun there, or a new one. */
  process: Schema.String,
  principal: optional(Schema.String),
  wave: Schema.Array(Call),
  expect: optional(Expected)
})

/** The keys that say what a step does; each step has exactly one of them. */
const stepKinds = [
  "process",
  "wave",
  "waves",
  "advance",
  "interrupt",
  "completeBatch",
  "cancel",
  "cancelCall",
  "startConstraints",
  "exitRequirements",
  "revoke",
  "expectProcess",
  "crash",
  "resume",
  "agent",
  "expectRuns"
] as const

/** The steps that may name whose executor they are about. */
const ofPrincipal = ["process", "completeBatch", "revoke"] as const

/** The steps that may be said to take place some time after the start of what follows. */
const withTime = ["interrupt", "cancel", "cancelCall", "revoke"] as const

/** The steps that may say what is expected of them. */
const withExpect = ["wave", "startConstraints", "exitRequirements", "resume", "agent"] as const

/** What is only expected of an agent. */
const ofAgents = ["reason", "turns", "text"] as const

const entryNames = CallEntry.members.map((it) => it.fields._tag.schema.literal as string)

const CrashPoint = Schema.Union([
  Schema.Literal(true),
  AtLeastOne,
  Schema.String.check(
    Schema.makeFilter(
      (text) => {
        const end = text.lastIndexOf(":")
        return end > 0 && entryNames.includes(text.slice(end + 1))
      },
      { expected: `"ID:ENTRY" with the id of a call and one of ${entryNames.join(", ")}` }
    )
  )
])

/** One step of a script. */
export const Step = Schema.Struct({
  /** Begins a new process in that batch. */
  process: optional(Schema.String),
  /** Whose it is: without one, the same principal throughout. */
  principal: optional(Schema.String),
  /** Runs the calls of one model turn. */
  wave: optional(Schema.Array(Call)),
  expect: optional(Expected),
  /** Runs waves side by side, from the same moment. */
  waves: optional(Schema.NonEmptyArray(Beside)),
  /** Lets virtual time pass. */
  advance: optional(Span),
  completeBatch: optional(Schema.String),
  /** Cancels the process `at` this long after the start of the wave that follows. */
  cancel: optional(Schema.Literal(true)),
  /** Interrupts the caller of the wave that follows, `at` this long after its start. */
  interrupt: optional(Schema.Literal(true)),
  /** Cancels a call of the wave that follows. */
  cancelCall: optional(Schema.String),
  at: optional(Span),
  /** Calls the start tools that are missing; may hold their arguments by tool. */
  startConstraints: optional(Schema.Json),
  /** Calls the tools that are required before exit; may hold their arguments by tool. */
  exitRequirements: optional(Schema.Json),
  revoke: optional(Schema.String),
  expectProcess: optional(Schema.Struct({
    shouldExit: optional(Schema.Boolean),
    exitPending: optional(Schema.Array(Schema.String)),
    startPending: optional(Schema.Array(Schema.String)),
    allowedNext: optional(Schema.Array(Schema.String)),
    lateWritesBlocked: optional(Schema.Finite),
    orphans: optional(Schema.Finite)
  })),
  /**
   * The process dies during the wave that follows: once that entry of that call is on record (`"ID:ENTRY"`), once so
   * many entries are, or `at` this long after its start.
   */
  crash: optional(CrashPoint),
  /** Hands what was under way to a new process over the same records. */
  resume: optional(Schema.Literal(true)),
  /** One operation of an agent with a scripted model. */
  agent: optional(ScriptedAgent),
  /** How often the handlers of tools have begun since the scenario began. */
  expectRuns: optional(Schema.Record(Schema.String, Schema.Finite))
}).check(
  Schema.makeFilter(
    (step) => stepKinds.filter((kind) => Object.hasOwn(step, kind)).length === 1,
    { expected: `a step with exactly one of ${stepKinds.join(", ")}` }
  ),
  Schema.makeFilter(
    (step) => !Object.hasOwn(step, "principal") || ofPrincipal.some((kind) => Object.hasOwn(step, kind)),
    { expected: `a principal only with ${ofPrincipal.join(", ")}` }
  ),
  Schema.makeFilter(
    (step) => step.at === undefined || step.crash === true || withTime.some((kind) => Object.hasOwn(step, kind)),
    { expected: `a time only with ${withTime.join(", ")} and { "crash": true }` }
  ),
  Schema.makeFilter(
    (step) => step.expect === undefined || withExpect.some((kind) => Object.hasOwn(step, kind)),
    { expected: `something to expect only with ${withExpect.join(", ")}` }
  ),
  Schema.makeFilter(
    ({ agent, expect, resume }) =>
      agent !== undefined || resume !== undefined || !ofAgents.some((it) => Object.hasOwn(expect ?? {}, it)),
    { expected: `${ofAgents.join(", ")} expected of an agent only` }
  )
)

/** One step of a script. */
export type Step = typeof Step.Type

/** A crash is of what runs next, and what is resumed was handed over before. */
const Script = Schema.Array(Step).check(
  Schema.makeFilter(
    (steps) => steps.every((step, index) => step.crash === undefined || dying(steps, index) !== undefined),
    { expected: "a wave, an agent or a resume after each crash, with nothing expected of it" }
  ),
  Schema.makeFilter(
    (steps) => steps.every((step, index) => step.resume === undefined || steps.slice(0, index).some(isHandedOver)),
    { expected: "a wave or an agent before each resume" }
  )
)

const Answer = Schema.Struct({
  tool: Schema.String,
  after: optional(Span),
  answer: Schema.Struct({
    _tag: Schema.Literals(["ApproveOnce", "ApproveForDuration", "ApproveForScope", "Deny"]),
    duration: optional(Span),
    scope: optional(Schema.String),
    reason: optional(Schema.String),
    params: optional(Schema.Json)
  })
})

/** Schema of a scenario file. */
export const Scenario = Schema.Struct({
  name: Schema.String,
  tools: Schema.Record(Schema.String, ScriptedTool),
  rules: optional(Schema.Array(ToolRule)),
  /** Without one every call is allowed; without a default, what no list is about. */
  policy: optional(Policy),
  config: optional(Config),
  answers: optional(Schema.NullOr(Schema.Array(Answer))),
  /** Where journal and state live. Default: in memory, with a journal only if something crashes or is an agent's. */
  store: optional(Store),
  script: Script
})

/** A scenario. */
export type Scenario = typeof Scenario.Type

/** Reads a scenario from JSON that was parsed already; fails with every mistake and its path. */
export const decode = (input: unknown): Effect.Effect<Scenario, ConfigurationError> =>
  PolicyFile.decode(Scenario, "scenario", toolsOf)(input)

/**
 * Gives the tools that a scenario seems to have, whatever else is wrong with it; undefined where that cannot be told.
 */
export const toolsOf = (input: unknown): ReadonlyMap<string, RuleSet.RuleTool> | undefined =>
  isObject(input) && isObject(input.tools)
    ? new Map(
      Object.entries(input.tools).map(([name, tool]) => [
        name,
        { jsonSchema: isObject(tool) && isObject(tool.parameters) ? tool.parameters : undefined }
      ])
    )
    : undefined

// Utilities

const isHandedOver = (step: Step): boolean => step.wave !== undefined || step.agent !== undefined

/** What dies of a crash, if it may. */
const dying = (steps: ReadonlyArray<Step>, crash: number): Step | undefined => {
  const next = steps.slice(crash + 1).find((it) => !withTime.some((kind) => Object.hasOwn(it, kind)))
  return next !== undefined && (isHandedOver(next) || next.resume === true) && next.expect === undefined
    ? next
    : undefined
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
