/** The policies that `tool-executor policy` looks at: files with a policy, a config of another command, or tiers. */
import * as Effect from "effect/Effect"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Policy from "../core/gates/Policy.ts"
import { validateStrict } from "../core/vocabulary/ConfigurationError.ts"
import { escape } from "../internal/escape.ts"
import { type CliFailure, describe, wrong } from "./CliFailure.ts"
import * as Files from "./Files.ts"

/** What such a file holds. */
export const description =
  "JSON: a policy, a config of another command with a policy in it, or { tiers: [{ name, policy }] }"

/** Reads the tiers of a file; fails with exit code 2 and every mistake. */
export const read = Effect.fnUntraced(function*(path: string) {
  const input = yield* Effect.flatMap(Files.read(path), (text) => Files.parseJson(text, path))
  const { basename } = yield* Path.Path
  const given = Predicate.isObject(input) && !Array.isArray(input) ? input as Readonly<Record<string, unknown>> : {}
  const tiers = Array.isArray(given["tiers"])
    ? given["tiers"].map((it: unknown, index) => ({ at: `tiers[${index}]`, it }))
    : [{ at: "", it: { name: basename(path).replace(/\.json$/, ""), policy: given["policy"] ?? input } }]
  return yield* Effect.forEach(tiers, ({ at, it }) => tierOf(path, at, it))
})

const tierOf = Effect.fnUntraced(function*(path: string, at: string, it: unknown) {
  if (!Predicate.hasProperty(it, "name") || typeof it.name !== "string" || !Predicate.hasProperty(it, "policy")) {
    return yield* wrong(`${escape(path)}: ${at} has to have a name and a policy`)
  }
  const problems = validateStrict(Policy.Policy, it.policy, at === "" ? "" : `${at}.policy`)
  if (problems.length > 0) return yield* wrong(describe({ subject: path, problems }))
  return { name: it.name, policy: it.policy as Policy.Policy } satisfies Policy.Tier
})

/** Merges tiers that were read; fails with exit code 2 and every mistake. One alone needs no name. */
export const parse = (tiers: ReadonlyArray<Policy.Tier>): Effect.Effect<Policy.Parsed, CliFailure> =>
  Result.match(Policy.parseTiers(tiers.length === 1 ? [{ ...tiers[0]!, name: "" }] : tiers), {
    onFailure: (problems) => Effect.fail(wrong(describe({ subject: "policy", problems }))),
    onSuccess: Effect.succeed
  })
