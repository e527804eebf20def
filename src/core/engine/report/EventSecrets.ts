/**
 * Keeps what tools declare to be secret out of the events of a wave. Other tools cost
 * nothing here: what merely has the name of a secret is for whoever shows events.
 *
 * @since 0.1.0
 */
import { type End, isEnd } from "../../facts/ToolEvent.ts"
import type { ToolHandlers } from "../../vocabulary/ToolHandlers.ts"
import type { Call } from "../Call.ts"
import type { Body } from "./Reporter.ts"
import { Secrets } from "./Secrets.ts"

/** The wave whose events they are. */
interface Wave {
  readonly calls: ReadonlyArray<Call>
  readonly engine: { readonly handlers: ToolHandlers["Service"] }
}

/**
 * The declared secrets of the calls of one wave.
 *
 * @category models
 * @since 0.1.0
 */
export class EventSecrets {
  private readonly wave: Wave
  private readonly known = new Map<Call, Secrets>()

  constructor(wave: Wave) {
    this.wave = wave
  }

  /** An event without them; itself where there are none. */
  without(body: Body): Body {
    if (isEnd(body)) return this.end(body)
    const secrets = this.of(this.wave.calls[body.index])
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
        return { ...body, outcome: secrets.outcome(body.outcome, this.wave.calls[body.index]!.attempt?.value) }
      default:
        return secrets.all(body)
    }
  }

  private end(body: Extract<Body, { readonly _tag: End["_tag"] }>): Body {
    const { calls } = this.wave
    if (calls.every((it) => this.of(it) === undefined)) return body
    const executionResults = body.executionResults.map((it, index) => this.of(calls[index])?.outcome(it) ?? it)
    const told: Body = body._tag === "WaveSuspended" ? { ...body, executionResults } : {
      ...body,
      executionResults,
      toolMessages: body.toolMessages.map((it, index) => this.of(calls[index])?.all(it) ?? it)
    }
    this.known.clear()
    return told
  }

  private of(call: Call | undefined): Secrets | undefined {
    if (call === undefined) return undefined
    const tool = call.tool ?? this.wave.engine.handlers.current().get(call.call.name)
    const declared = tool?.redactor.declared
    if (declared === undefined) return undefined
    let secrets = this.known.get(call)
    if (secrets === undefined) {
      this.known.set(call, secrets = new Secrets(declared))
      secrets.arguments(call.call.malformed?.text ?? call.call.params)
    }
    // the host may have added to the arguments, and a person may have edited them
    if (call.gateCall !== undefined) secrets.arguments(call.gateCall.args)
    return secrets
  }
}
