/**
 * The known secrets of one call. A value that was redacted in its arguments or outputs is redacted in all later texts.
 */
import { mapTexts, type Redactor } from "../../../internal/secrets/index.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"

/** The secrets of one call, or of all calls together. */
export class Secrets {
  private readonly redactor: Redactor
  private readonly together: Secrets | undefined
  private readonly found = new Set<string>()
  /** The same as a list, which stays the same as long as nothing is learnt. */
  private known: ReadonlyArray<string> = []

  /** `together` learns what this learns. */
  constructor(redactor: Redactor, together?: Secrets) {
    this.redactor = redactor
    this.together = together
  }

  /** Redacts arguments, and remembers their secrets. */
  arguments(value: unknown): unknown {
    return this.learnt(this.redactor.arguments(value))
  }

  /** Redacts an output or a failure, and remembers its secrets. */
  output(value: unknown): unknown {
    return this.learnt(this.redactor.output(value))
  }

  /** Remembers secrets that were found elsewhere. */
  learn(secrets: ReadonlyArray<string>): void {
    for (const it of secrets) this.found.add(it)
    this.together?.learn(secrets)
  }

  readonly text = (text: string): string => {
    if (this.known.length < this.found.size) this.known = Array.from(this.found)
    return this.redactor.scrub(text, this.known)
  }

  /** Redacts the known secrets in all texts of a value. */
  all<A>(value: A): A {
    return mapTexts(value, this.text) as A
  }

  /** Redacts an outcome. `value` is the whole output, if it is known and the outcome has only a part of it. */
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
    this.learn(secrets)
    // an output may repeat an argument
    return this.found.size === 0 ? value : this.all(value)
  }
}
