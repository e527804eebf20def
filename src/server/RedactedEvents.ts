/**
 * The events of a wave as they are shown on the page: without secrets, declared by
 * their tools or recognised by name or shape, as the journal has them. The wave's own
 * stream has what its caller needs for the model.
 */
import { Secrets } from "../core/engine/report/Secrets.ts"
import type * as ToolEvent from "../core/facts/ToolEvent.ts"
import * as Redact from "../internal/secrets/index.ts"

/**
 * Redacts the events of one wave. It has to see them in order: what was a secret in
 * the arguments of a call is redacted in everything that follows from it.
 */
export class RedactedEvents {
  private readonly calls = new Map<string, Secrets>()

  /** An event without secrets; itself where it has none. */
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
        return shownOf(event, this.secretsOf(event, event.index))
    }
  }

  private each<A>(event: ToolEvent.Wire, values: ReadonlyArray<A>): ReadonlyArray<A> {
    return unlessSame(values, values.map((it, index) => shownOf(it, this.secretsOf(event, index)))) as ReadonlyArray<A>
  }

  private secretsOf({ agentPath, process, wave }: ToolEvent.Wire, index: number): Secrets {
    const key = JSON.stringify([agentPath, process, wave, index])
    let secrets = this.calls.get(key)
    if (secrets === undefined) this.calls.set(key, secrets = new Secrets(Redact.usual))
    return secrets
  }
}

/** Gives a text without the secrets that it tells. */
export const text = (text: string): string => Redact.usual.scrub(text, [])

// Utilities

/** Fields that tell what an event or an outcome is, and not what was said. */
const identity: ReadonlySet<string> = new Set([
  "_tag",
  "agentPath",
  "batch",
  "by",
  "callId",
  "kind",
  "level",
  "origin",
  "process",
  "requestId",
  "tool",
  "type",
  "which"
])

/** Fields that a model or a tool made: their names tell what is secret in them. */
const made: ReadonlySet<string> = new Set(["data", "error", "options", "params", "value"])

/** A value of an event with its texts redacted; the value itself where nothing is. */
const shownOf = <A>(value: A, secrets: Secrets): A => {
  const visit = (it: unknown): unknown => {
    if (typeof it === "string") return secrets.text(it)
    if (Array.isArray(it)) return unlessSame(it, it.map(visit))
    if (typeof it !== "object" || it === null) return it
    const fields = it as { readonly [key: string]: unknown }
    const found = new Map<string, unknown>()
    // what was made is looked at first: other texts repeat it
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

/** The values after, or those before where they are the same. */
const unlessSame = (before: ReadonlyArray<unknown>, after: ReadonlyArray<unknown>): ReadonlyArray<unknown> =>
  before.every((it, index) => Object.is(it, after[index])) ? before : after
