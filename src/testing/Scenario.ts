/**
 * The format of a scenario: scripted tools, waves of calls and expectations, as plain data.
 *
 * `tool-executor simulate FILE` reads it and `ScenarioRunner` runs it. Unknown keys are errors.
 */
import type * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import {
  AtLeastOne,
  dedupeFields,
  fields,
  loopFields,
  Span as SpanAboveNone,
  SpanOrNone as Span,
  Tool
} from "../assembly/ConfigFields.ts"
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

export type Behaviour = typeof Behaviour.Type

/** A scripted tool: its declarations and the behaviour of its executions. */
export const ScriptedTool = Schema.Struct({
  ...behaviour,
  /** One behaviour per execution, the last repeated; other keys of the tool are defaults. */
  calls: optional(Schema.NonEmptyArray(Behaviour)),
  class: optional(Schema.Literals(["ReadOnly", "ConcurrentMut", "SerialMut"])),
  promoted: optional(Schema.Boolean),
  recursive: optional(Schema.Boolean),
  maxConcurrent: optional(Schema.Finite),
  resources: optional(Schema.Array(Schema.String)),
  /** Parameters whose values are the targets for policies. */
  targets: optional(Schema.Array(Schema.String)),
  /**
   * What a call would write: `path` and `after` each name a parameter or are literal text. The files belong to the
   * scenario and start empty; a call writes as it ends.
   */
  preview: optional(Schema.Struct({ path: Schema.String, after: Schema.String })),
  openWorld: optional(Schema.Boolean),
  needsApproval: optional(Schema.Boolean),
  timeout: optional(Span),
  idleTimeout: optional(Span),
  retryOnTimeout: optional(Schema.Boolean),
  idempotent: optional(Schema.Boolean),
  /** Automatic retries after a failure; only for idempotent and ReadOnly tools. */
  retry: optional(Schema.Union([
    AtLeastOne,
    Schema.Struct({ times: AtLeastOne, every: optional(Span) })
  ])),
  dedupe: optional(Schema.Union([Schema.Boolean, Schema.Literals(["never", "always"])])),
  /** Its service ignores repeated keys, so it runs again after a crash. */
  usesIdempotencyKey: optional(Schema.Boolean),
  /** What it finds out after a crash about a call without a recorded end. */
  reconcile: optional(Schema.Union([
    Schema.Struct({ happened: Schema.Json }),
    Schema.Literals(["didNotHappen", "unknown"])
  ])),
  parameters: optional(Schema.Record(Schema.String, Schema.Json))
})

export type ScriptedTool = typeof ScriptedTool.Type

const { rules: _, policy: __, ...limits } = fields

/** A host check of one tool or, without a name, of all. */
const Guard = Schema.Struct({
  tool: optional(Schema.String),
  /** `yes` allows the call, `dies` and `never` do so, and any other text is the reason it is refused. */
  says: Schema.String,
  after: optional(Span)
})

const { scope: reach, ...sameDedupe } = dedupeFields

const Config = Schema.Struct({
  ...limits,
  /** `reach` is `scope` of `Dedupe.Options`. */
  dedupe: optional(Schema.Union([Schema.Literal(false), Schema.Struct({ reach, ...sameDedupe })])),
  ...loopFields,
  permissionTimeout: optional(Span),
  /** Host settings by tool name. */
  tools: optional(Schema.Record(Schema.String, Tool)),
  guards: optional(Schema.Array(Guard)),
  /** How long a dead process keeps what it held. Default: released immediately. */
  lease: optional(SpanAboveNone),
  /** How resumed calls that may have happened are treated. Default: `Unknown`. */
  onUnknown: optional(Schema.Literals(["tell", "ask"]))
})

/** Where the records of a scenario are stored. */
const Store = Schema.Literals(["memory", "file", "sqlite", "postgres"])

export type Store = typeof Store.Type

/** What one outcome should be; omitted fields are not checked. */
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
  /** Virtual milliseconds since the start of the wave. */
  start: optional(Schema.Finite),
  end: optional(Schema.Finite),
  textIncludes: optional(Schema.String),
  commits: optional(Schema.Finite)
})

export type ExpectedOutcome = typeof ExpectedOutcome.Type

/** What a wave should result in. */
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
  /** For an agent: why its operation ended, after how many turns, and the model's last text. */
  reason: optional(Schema.String),
  turns: optional(Schema.Finite),
  text: optional(Schema.String)
})

export type Expected = typeof Expected.Type

const Call = Schema.Struct({ id: Schema.String, name: Schema.String, params: optional(Schema.Json) })

/** A wave that runs concurrently with others. */
const Beside = Schema.Struct({
  /** The batch of its process: the last one started there, or a new one. */
  process: Schema.String,
  principal: optional(Schema.String),
  wave: Schema.Array(Call),
  expect: optional(Expected)
})

/** The keys that define a step's kind; each step has exactly one. */
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

/** Steps that may name a principal. */
const ofPrincipal = ["process", "completeBatch", "revoke"] as const

/** Steps that may take place some time after the start of the next one. */
const withTime = ["interrupt", "cancel", "cancelCall", "revoke"] as const

/** Steps that may have an expectation. */
const withExpect = ["wave", "startConstraints", "exitRequirements", "resume", "agent"] as const

/** Expectations of agents only. */
const ofAgents = ["reason", "turns", "text"] as const

const entryNames = CallEntry.members.map((it) => it.fields._tag.schema.literal as string)

const CrashPoint = Schema.Union([
  Schema.Literal(true),
  Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
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
  /** Starts a new process in that batch. */
  process: optional(Schema.String),
  /** Default: the same principal throughout. */
  principal: optional(Schema.String),
  /** Runs the calls of one model turn. */
  wave: optional(Schema.Array(Call)),
  expect: optional(Expected),
  /** Runs waves concurrently. */
  waves: optional(Schema.NonEmptyArray(Beside)),
  /** Lets virtual time pass. */
  advance: optional(Span),
  completeBatch: optional(Schema.String),
  /** Cancels the process, `at` this long after the start of the next wave. */
  cancel: optional(Schema.Literal(true)),
  /** Interrupts the caller of the next wave, `at` this long after its start. */
  interrupt: optional(Schema.Literal(true)),
  /** Cancels a call of the next wave. */
  cancelCall: optional(Schema.String),
  at: optional(Span),
  /** Calls the missing start tools; may hold their arguments by tool. */
  startConstraints: optional(Schema.Json),
  /** Calls the tools required before exit; may hold their arguments by tool. */
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
   * Crashes the process during the next wave: after that entry of that call (`"ID:ENTRY"`), after a number of entries
   * (0: before the first is recorded), or `at` this long after its start.
   */
  crash: optional(CrashPoint),
  /** Resumes in a new process over the same records. */
  resume: optional(Schema.Literal(true)),
  /** One operation of an agent with a scripted model. */
  agent: optional(ScriptedAgent),
  /** Handler starts by tool since the scenario began. */
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

export type Step = typeof Step.Type

/** A crash needs a following step to happen in, and a resume something submitted before. */
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
  /** Default: every call is allowed. A policy without a default allows what no list matches. */
  policy: optional(Policy),
  config: optional(Config),
  answers: optional(Schema.NullOr(Schema.Array(Answer))),
  /** Where journal and state are stored. Default: in memory, with a journal only for crashes and agents. */
  store: optional(Store),
  script: Script
})

export type Scenario = typeof Scenario.Type

/** Reads a scenario from parsed JSON; fails with every mistake and its path. */
export const decode = (input: unknown): Effect.Effect<Scenario, ConfigurationError> =>
  PolicyFile.decode(Scenario, "scenario", toolsOf)(input)

/** Returns the tools of a scenario that may be invalid elsewhere; `undefined` if they cannot be determined. */
export const toolsOf = (input: unknown): ReadonlyMap<string, RuleSet.RuleTool> | undefined =>
  Predicate.isObject(input) && Predicate.isObject(input.tools)
    ? new Map(
      Object.entries(input.tools).map(([name, tool]) => [
        name,
        { jsonSchema: Predicate.isObject(tool) && Predicate.isObject(tool.parameters) ? tool.parameters : undefined }
      ])
    )
    : undefined

const isHandedOver = (step: Step): boolean => step.wave !== undefined || step.agent !== undefined

/** The step a crash interrupts, if it may. */
const dying = (steps: ReadonlyArray<Step>, crash: number): Step | undefined => {
  const next = steps.slice(crash + 1).find((it) => !withTime.some((kind) => Object.hasOwn(it, kind)))
  return next !== undefined && (isHandedOver(next) || next.resume === true) && next.expect === undefined
    ? next
    : undefined
}
