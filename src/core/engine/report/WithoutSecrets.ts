/** Redacts outcomes for the record: the secrets of the arguments and of the output are removed. Pure. */
import { mapTexts, type Redactor } from "../../../internal/secrets/index.ts"
import type * as ToolContent from "../../vocabulary/ToolContent.ts"
import type { Failed, Output, Succeeded, ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import type { ToolRefusal } from "../../vocabulary/ToolRefusal.ts"

/** Redacts an outcome; gives the same object if nothing changes. `secrets` are those of the arguments. */
export const outcome = <O extends ToolOutcome>(it: O, redactor: Redactor, secrets: ReadonlyArray<string>): O => {
  const some: ToolOutcome = it
  const scrub = (text: string) => redactor.scrub(text, secrets)
  switch (some._tag) {
    case "Succeeded":
      return succeeded(some, redactor, secrets) as ToolOutcome as O
    case "Failed":
      return failed(some, redactor, secrets) as ToolOutcome as O
    case "Denied":
      return { ...it, reason: refusal(some.reason, scrub) }
    case "Cancelled":
      return { ...it, reason: scrub(some.reason) }
    case "Skipped":
      return { ...it, because: scrub(some.because) }
    case "TimedOut":
    case "Unknown":
      return it
  }
}

/** Redacts a refusal. */
export const refusal = (it: ToolRefusal, scrub: (text: string) => string): ToolRefusal => {
  // other fields, such as a rule, come from the host
  const told = Object.entries(it).filter(([key]) => texts.has(key))
  return { ...it, ...Object.fromEntries(told.map(([key, value]) => [key, mapTexts(value, scrub)])) }
}

/** Fields of refusals that may repeat text of the model, a handler or an approver. */
const texts: ReadonlySet<string> = new Set(["issues", "because", "reason", "sentence", "from", "to", "permission"])

const succeeded = (it: Succeeded, redactor: Redactor, secrets: ReadonlyArray<string>): Succeeded => {
  const { output } = it
  const found = output._tag === "Artifact" ? undefined : redactor.output(output.value)
  const all = found === undefined ? secrets : [...secrets, ...found.secrets]
  const scrub = (text: string) => redactor.scrub(text, all)
  const modelText = scrub(output.modelText)
  const value = found === undefined ? undefined : mapTexts(found.value, scrub)
  const isSame = modelText === output.modelText && output.content === undefined &&
    (output._tag === "Artifact" ? scrub(output.preview) === output.preview : Object.is(value, output.value))
  if (isSame) return it
  const content = output.content?.map((part) => withoutIn(part, scrub))
  const told = { modelText, ...(content === undefined ? {} : { content }) }
  const left: Output = output._tag === "Artifact"
    ? { ...output, ...told, preview: scrub(output.preview) }
    : { ...output, ...told, ...("value" in output ? { value } : {}) }
  return { ...it, output: left }
}

/** Redacts texts; files are unchanged. */
const withoutIn = (part: ToolContent.Part, scrub: (text: string) => string): ToolContent.Part =>
  part.type === "text" ? { ...part, text: scrub(part.text) } : part

const failed = (it: Failed, redactor: Redactor, secrets: ReadonlyArray<string>): Failed => {
  // details of a defect are for the log only
  const found = it.origin === "defect" ? { value: "", secrets: [] } : redactor.output(it.error)
  const all = [...secrets, ...found.secrets]
  const scrub = (text: string) => redactor.scrub(text, all)
  return { ...it, error: mapTexts(found.value, scrub), modelText: scrub(it.modelText) }
}
