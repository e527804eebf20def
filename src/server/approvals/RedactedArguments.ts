/**
 * Redacts the arguments of an approval request: fields that the tool declares secret show only that they exist. The
 * call keeps them.
 */
import { canonicalJson } from "../../internal/canonicalJson.ts"
import { mark, type Redactor } from "../../internal/secrets/index.ts"

export interface RedactedArguments {
  /** The arguments without secrets. */
  readonly args: unknown
  /** Removes the secrets from a text. */
  readonly text: (text: string) => string
  /**
   * Restores the secrets in edited arguments, wherever they were not edited; `undefined` if a placeholder was moved.
   */
  readonly meant: (params: unknown) => { readonly params: unknown } | undefined
}

/** Redacts arguments; `undefined` if they contain no secret. */
export const of = (args: unknown, declared: Redactor | undefined): RedactedArguments | undefined => {
  if (declared === undefined) return undefined
  const { secrets, value } = declared.arguments(args)
  if (secrets.length === 0) return undefined
  return {
    args: value,
    text: (text) => declared.scrub(text, secrets),
    meant: (params) => {
      const whole = putBack(params, value, args)
      return hasMark(whole) ? undefined : { params: whole }
    }
  }
}

/** Secrets within lists cannot be restored: an edited list does not say which item was which. */
const putBack = (edited: unknown, shown: unknown, whole: unknown): unknown => {
  if (canonicalJson(edited) === canonicalJson(shown)) return whole
  if (!isRecord(edited) || !isRecord(shown) || !isRecord(whole)) return edited
  return Object.fromEntries(
    Object.entries(edited).map(([key, it]) =>
      Object.hasOwn(shown, key) && Object.hasOwn(whole, key)
        ? [key, putBack(it, shown[key], whole[key])]
        : [key, it]
    )
  )
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Whether edited arguments leave the placeholders of the redacted arguments in place. */
export const isInPlace = (params: unknown, shown: unknown): boolean => {
  const plain: unknown = JSON.parse(JSON.stringify(shown).replaceAll(mark, ""))
  return !hasMark(putBack(params, shown, plain))
}

export const hasMark = (value: unknown): boolean => JSON.stringify(value).includes(mark)
