/**
 * What people are not shown of a request that they are asked about: what its tool declares to be
 * a secret. They see that something is there, and the call has it all the same.
 */
import { canonicalJson } from "../internal/canonicalJson.ts"
import { mark, type Redactor } from "../internal/secrets/index.ts"

/** What is hidden of a request. */
export interface RedactedArguments {
  /** The arguments without it. */
  readonly args: unknown
  /** A text without it. */
  readonly text: (text: string) => string
  /** Edited arguments with it, wherever it was not edited; `undefined`: it stands where nobody can tell what it was. */
  readonly meant: (params: unknown) => { readonly params: unknown } | undefined
}

/** Gives what is hidden of arguments; `undefined`: nothing is. */
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

// Utilities

/** Not within lists: one that was edited does not say which of its items was which. */
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

const hasMark = (value: unknown): boolean => JSON.stringify(value).includes(mark)
