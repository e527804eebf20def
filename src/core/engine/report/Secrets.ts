/**
 * What is secret about one call, as far as it is known: what was taken out of its arguments and outputs stays out of
 * every text that comes later.
 */
import { mapTexts, type Redactor } from "../../../internal/secrets/index.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"

/** The secrets of one call. */
export class Secrets {
  private readonly redactor: Redactor
  private known: ReadonlyArray<string> = []

  constructor(redactor: Redactor) {
    this.redactor = redactor
  }

  /** Arguments without secrets, which are known from then on. */
  arguments(value: unknown): unknown {
    return this.learnt(this.redactor.arguments(value))
  }

  /** The same of an output, or of a failure. */
  output(value: unknown): unknown {
    return this.learnt(this.redactor.output(value))
  }

  readonly text = (text: string): string => this.redactor.scrub(text, this.known)

  /** Anything else: no text in it has a secret. */
  all<A>(value: A): A {
    return mapTexts(value, this.text) as A
  }

  /** The outcome without secrets; `value` is the whole output, where that is known and the outcome has only a part. */
  outcome(outcome: ToolOutcome, value?: unknown): ToolOutcome {
    if (value !== undefined) this.output(value)
    switch (outcome._tag) {
      case "Succeeded": {
        const { output, ...rest } = outcome
        if (!("value" in output)) return this.all(outcome)
        const left = this.output(output.value)
        const { value: _, ...texts } = output
        return { ...this.all(rest), output: { ...this.all(texts), value: left } as typeof output }
      }
      case "Failed": {
        const { error, ...rest } = outcome
        const left = this.output(error)
        return { ...this.all(rest), error: left }
      }
      default:
        return this.all(outcome)
    }
  }

  private learnt({ secrets, value }: ReturnType<Redactor["arguments"]>): unknown {
    if (secrets.length > 0) this.known = Array.from(new Set([...this.known, ...secrets]))
    // an output may repeat an argument
    return this.known.length === 0 ? value : this.all(value)
  }
}
