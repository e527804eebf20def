/**
 * Redacts the events of a wave for the page: secrets that tools declare, or that are recognised by name or shape. The
 * stream of the wave itself is not redacted, since its caller needs the results for the model.
 */
import type * as AgentEvent from "../../agent/AgentEvent.ts"
import { Secrets } from "../../core/engine/report/Secrets.ts"
import type * as ToolEvent from "../../core/facts/ToolEvent.ts"
import * as Redact from "../../internal/secrets/index.ts"

/**
 * Redacts the events of one wave, in order: a secret in the arguments of a call is redacted in everything that follows.
 */
export class RedactedEvents {
  private readonly calls = new Map<string, Secrets>()
  /** The same, by agent and id of the call. */
  private readonly byId = new Map<string, Secrets>()

  /** Those of all calls, and what tools declare in arguments which events do not have. */
  private readonly every = new Secrets(Redact.usual)

  /** Redacts these, too. */
  learn(secrets: ReadonlyArray<string>): void {
    this.every.learn(secrets)
  }

  /** The event without secrets; the same object if nothing was redacted. */
  of(event: ToolEvent.Wire): ToolEvent.Wire {
    switch (event._tag) {
      case "ToolsEnd": {
        const { executionResults, toolMessages } = event
        const results = this.each(event, executionResults)
        const messages = this.each(event, toolMessages)
        return results === executionResults && messages === toolMessages
          ? event
          : { ...event, executionResults: results, toolMessages: messages }
      }
      case "WaveSuspended": {
        const results = this.each(event, event.executionResults)
        return results === event.executionResults ? event : { ...event, executionResults: results }
      }
      default:
        return shownOf(event, this.secretsOf(event, event.index, event.callId))
    }
  }

  /** An event of an operation; `undefined` for a fragment, which could hold a part of a secret. */
  ofAgent(event: AgentEvent.Wire): AgentEvent.Wire | undefined {
    if (!("operation" in event)) return this.of(event)
    if (event._tag === "AssistantMessagePart" && "delta" in event.part) return undefined
    if ("callId" in event) {
      const secrets = this.byId.get(JSON.stringify([event.agentPath, event.callId]))
      return shownOf(event, secrets ?? new Secrets(Redact.usual))
    }
    // a model may repeat what any call had
    return shownOf(event, this.every)
  }

  private each<A>(event: ToolEvent.Wire, values: ReadonlyArray<A>): ReadonlyArray<A> {
    return unlessSame(values, values.map((it, index) => shownOf(it, this.secretsOf(event, index)))) as ReadonlyArray<A>
  }

  private secretsOf({ agentPath, process, wave }: ToolEvent.Wire, index: number, callId?: string): Secrets {
    const key = JSON.stringify([agentPath, process, wave, index])
    let secrets = this.calls.get(key)
    if (secrets === undefined) this.calls.set(key, secrets = new Secrets(Redact.usual, this.every))
    if (callId !== undefined) this.byId.set(JSON.stringify([agentPath, callId]), secrets)
    return secrets
  }
}

/** Redacts recognised secrets in a text, and known ones. */
export const text = (text: string, known: ReadonlyArray<string> = []): string => Redact.usual.scrub(text, known)

/** Fields that identify events and outcomes. */
const identity: ReadonlySet<string> = new Set([
  "_tag",
  "agentPath",
  "batch",
  "by",
  "callId",
  "kind",
  "level",
  "model",
  "operation",
  "origin",
  "process",
  "provider",
  "requestId",
  "tool",
  "type",
  "which"
])

/** Fields made by models and tools: their keys can mark secrets. */
const made: ReadonlySet<string> = new Set(["data", "error", "options", "params", "value"])

/** Redacts the texts of a value; the same object if nothing was redacted. */
const shownOf = <A>(value: A, secrets: Secrets): A => {
  const visit = (it: unknown): unknown => {
    if (typeof it === "string") return secrets.text(it)
    if (Array.isArray(it)) return unlessSame(it, it.map(visit))
    if (typeof it !== "object" || it === null) return it
    const fields = it as { readonly [key: string]: unknown }
    const found = new Map<string, unknown>()
    // these come first: other texts repeat their secrets
    for (const key of made) {
      if (!Object.hasOwn(fields, key)) continue
      found.set(key, key === "params" ? secrets.arguments(fields[key]) : secrets.output(fields[key]))
    }
    const keys = Object.keys(fields)
    const before = keys.map((key) => fields[key])
    const after = keys.map((key) =>
      found.has(key) ? found.get(key) : identity.has(key) ? fields[key] : visit(fields[key])
    )
    return unlessSame(before, after) === before ? it : Object.fromEntries(keys.map((key, index) => [key, after[index]]))
  }
  return visit(value) as A
}

/** The values before, if all are the same. */
const unlessSame = (before: ReadonlyArray<unknown>, after: ReadonlyArray<unknown>): ReadonlyArray<unknown> =>
  before.every((it, index) => Object.is(it, after[index])) ? before : after
