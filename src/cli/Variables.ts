/** Environment variables: those that commands read, and `${NAME}` in the texts of a config file. */
import * as EffectConfig from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Problem } from "../core/vocabulary/ConfigurationError.ts"

/** The value of a variable; `undefined` if it is not set, or empty. */
export const variable = (name: string): Effect.Effect<string | undefined> =>
  Effect.map(
    Effect.orElseSucceed(EffectConfig.option(EffectConfig.NonEmptyString(name)), Option.none<string>),
    Option.getOrUndefined
  )

/** A value with variables put in, and what was wrong. */
export interface Expanded {
  readonly value: unknown
  /** Every variable that is not set, each with the place it is used in. */
  readonly problems: ReadonlyArray<Problem>
  /** Texts as they were written, by their places: what was put in may be a secret. */
  readonly written: ReadonlyMap<string, string>
  /** What was put in. */
  readonly values: ReadonlyArray<string>
}

/**
 * Puts environment variables in place of `${NAME}`, wherever there is a text. The value may be any JSON; `path` is its
 * place in the file.
 */
export const expand = Effect.fnUntraced(function*(value: unknown, path: string) {
  const problems: Array<Problem> = []
  const written = new Map<string, string>()
  const putIn = new Set<string>()
  const expandText = Effect.fnUntraced(function*(text: string, at: string) {
    const values = new Map<string, string>()
    for (const name of new Set(Array.from(text.matchAll(placeholder), (it) => it[1]!))) {
      const found = yield* Effect.orElseSucceed(EffectConfig.option(EffectConfig.String(name)), Option.none<string>)
      if (Option.isSome(found)) {
        values.set(name, found.value)
        putIn.add(found.value)
        continue
      }
      problems.push({
        path: at,
        problem: `the environment has no ${name}, or it is empty`,
        expected: `${name} to be set`
      })
    }
    if (values.size > 0) written.set(at, text)
    return text.replaceAll(placeholder, (all, name: string) => values.get(name) ?? all)
  })
  const expandAny = (it: unknown, at: string): Effect.Effect<unknown> => {
    if (typeof it === "string") return expandText(it, at)
    if (Array.isArray(it)) return Effect.forEach(it, (each, index) => expandAny(each, `${at}[${index}]`))
    if (typeof it !== "object" || it === null) return Effect.succeed(it)
    return Effect.map(
      Effect.forEach(
        Object.entries(it),
        ([key, each]) => Effect.map(expandAny(each, `${at}.${key}`), (text) => [key, text] as const)
      ),
      Object.fromEntries
    )
  }
  const expanded = yield* expandAny(value, path)
  return { value: expanded, problems, written, values: Array.from(putIn) } satisfies Expanded
})

const placeholder = /\$\{([A-Za-z_]\w*)\}/g
