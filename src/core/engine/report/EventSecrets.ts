/**
 * Keeps values that tools declare secret out of the events of a wave.
 *
 * Tools without such declarations cost nothing here. Values that merely look secret by name are redacted where events
 * are shown.
 */
import type { End } from "../../facts/ToolEvent.ts"
import type { GateCall } from "../../gates/Gate.ts"
import type { RegisteredTool, Registry } from "../../vocabulary/ToolHandlers.ts"
import type { Received } from "../data/Received.ts"
import type { Body } from "./EventFold.ts"
import { Secrets } from "./Secrets.ts"

/** A call that may have secrets. */
export interface Secretive {
  readonly call: Received
  readonly tool: RegisteredTool | undefined
  readonly gateCall: GateCall | undefined
  /** Its execution, with the whole output. */
  readonly attempt: { readonly value: unknown } | undefined
}

/** The declared secrets of the calls of one wave. */
export class EventSecrets {
  private readonly registry: () => Registry
  private readonly known = new Map<Secretive, Secrets>()

  constructor(registry: () => Registry) {
    this.registry = registry
  }

  /** The event of a call, redacted. Unchanged if its tool declares no secrets. */
  ofCall(body: Body, call: Secretive): Body {
    const secrets = this.of(call)
    if (secrets === undefined) return body
    switch (body._tag) {
      case "ToolCallQueued": {
        const { params, ...rest } = body
        const left = secrets.arguments(params)
        return { ...secrets.all(rest), params: left }
      }
      case "ToolPartialResult": {
        const { value, ...rest } = body
        const left = secrets.output(value)
        return { ...secrets.all(rest), value: left }
      }
      case "ToolCallComplete":
        return { ...body, outcome: secrets.outcome(body.outcome, call.attempt?.value) }
      default:
        return secrets.all(body)
    }
  }

  /** The last event of the wave, redacted. */
  ofEnd(body: Extract<Body, { readonly _tag: End["_tag"] }>, calls: ReadonlyArray<Secretive>): Body {
    const all = calls.map((call) => this.of(call))
    if (all.every((it) => it === undefined)) return body
    const executionResults = body.executionResults.map((it, index) => all[index]?.outcome(it) ?? it)
    return body._tag === "WaveSuspended" ? { ...body, executionResults } : {
      ...body,
      executionResults,
      toolMessages: body.toolMessages.map((it, index) => all[index]?.all(it) ?? it)
    }
  }

  private of(call: Secretive): Secrets | undefined {
    const tool = call.tool ?? this.registry().get(call.call.name)
    const declared = tool?.redactor.declared
    if (declared === undefined) return undefined
    let secrets = this.known.get(call)
    if (secrets === undefined) {
      this.known.set(call, secrets = new Secrets(declared))
      secrets.arguments(call.call.malformed?.text ?? call.call.params)
    }
    // the host may have added to the arguments, and an approver may have edited them
    if (call.gateCall !== undefined) secrets.arguments(call.gateCall.args)
    return secrets
  }
}
