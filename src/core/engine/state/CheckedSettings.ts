/** The checked settings of an executor: read once, validated together, converted to plain values. */
import * as Effect from "effect/Effect"
import type { Mode } from "../../contract/ToolProcess.ts"
import * as OutputPolicy from "../../output/OutputPolicy.ts"
import { type ConfigurationError, readOptions } from "../../vocabulary/ConfigurationError.ts"
import { Principal, RolesOf } from "../data/Principal.ts"
import * as ExecutorSettings from "./ExecutorSettings.ts"

/** The settings, with every default filled in. */
export interface CheckedSettings {
  readonly principal: string
  /** The roles of the principal, if they are known. */
  readonly roles: ReadonlyArray<string> | undefined
  readonly mode: Mode
  readonly onExecutionError: "continue" | "stop"
  readonly approval: "perCall" | "upfront"
  /** Agents continue only if the model requests it. */
  readonly heartbeats: boolean
  /** How many waves a missing required tool may delay the end of the loop. */
  readonly exitAttempts: number
  readonly executionMillis: number
  readonly commitMillis: number
  readonly graceMillis: number
  readonly guardMillis: number
  /** Of the state store, for an answer. */
  readonly patienceMillis: number
  readonly retryMillis: number
  readonly toolEvents: boolean
  /** How many events a reader may leave unread before it misses events of tools. */
  readonly eventBuffer: number
  /** When spans and metrics of calls are recorded. */
  readonly telemetry: "auto" | "on" | "off"
  /** Spans include arguments and results. */
  readonly telemetryContent: boolean
  /** What becomes of invisible text in results. */
  readonly invisible: "show" | "remove" | "refuse"
  readonly output: OutputPolicy.Bounds
}

/** Reads the settings of the context; fails with every problem. */
export const checked: Effect.Effect<CheckedSettings, ConfigurationError> = Effect.gen(function*() {
  const settings = ExecutorSettings.complete(yield* ExecutorSettings.ExecutorSettings, yield* Principal)
  const roles = settings.roles ?? (yield* (yield* RolesOf)?.(settings.principal) ?? Effect.undefined)
  return yield* readOptions("ExecutorSettings", (read): CheckedSettings => ({
    principal: read.text("principal", settings.principal),
    roles,
    mode: read.oneOf("mode", settings.mode, ["classes", "parallel", "sequential"]),
    onExecutionError: read.oneOf("onExecutionError", settings.onExecutionError, ["continue", "stop"]),
    approval: read.oneOf("approval", settings.approval, ["perCall", "upfront"]),
    heartbeats: read.flag("heartbeats", settings.heartbeats),
    exitAttempts: read.atLeast("exitAttempts", settings.exitAttempts, 0),
    executionMillis: read.millis("executionTimeout", settings.executionTimeout),
    commitMillis: read.millis("commitTimeout", settings.commitTimeout),
    graceMillis: read.millis("cleanupGrace", settings.cleanupGrace),
    guardMillis: read.millis("guardTimeout", settings.guardTimeout),
    patienceMillis: read.millis("storePatience", settings.storePatience),
    retryMillis: read.millis("storeRetry", settings.storeRetry),
    toolEvents: read.flag("toolEvents", settings.toolEvents),
    eventBuffer: read.atLeast("eventBuffer", settings.eventBuffer, 0),
    telemetry: read.oneOf("telemetry", settings.telemetry, ["auto", "on", "off"]),
    telemetryContent: read.flag("telemetryContent", settings.telemetryContent),
    invisible: read.oneOf("invisible", settings.invisible, ["show", "remove", "refuse"]),
    output: OutputPolicy.read(read, settings.output)
  }))
})
