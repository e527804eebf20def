/** The policies that `tool-executor policy` looks at: files with a policy, a config of another command, or tiers. */
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Policy from "../../core/gates/Policy.ts"
import { validateStrict } from "../../core/vocabulary/ConfigurationError.ts"
import { escape } from "../../internal/escape.ts"
import { type CliFailure, describe, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"
import * as PolicyTiers from "./PolicyTiers.ts"

/** What such a file holds. */
export const description =
  "JSON: a policy, a config of another command with a policy in it, or { tiers: [{ name, policy }] }"

/** Reads the tiers of a file; fails with exit code 2 and every mistake. */
const read = Effect.fnUntraced(function*(path: string, isConfig: boolean) {
  const input = yield* Files.readJson(path)
  const { basename } = yield* Path.Path
  const { $schema: _, ...given } = Predicate.isObject(input) && !Array.isArray(input)
    ? input as Readonly<Record<string, unknown>>
    : {}
  const tiers = Array.isArray(given["tiers"])
    ? given["tiers"].map((it: unknown, index) => ({ at: `tiers[${index}].policy`, it }))
    : [{
      at: given["policy"] === undefined ? "" : "policy",
      it: { name: basename(path).replace(/\.json$/, ""), policy: given["policy"] ?? (isConfig ? {} : given) }
    }]
  return yield* Effect.forEach(tiers, ({ at, it }) => tierOf(path, at, it))
})

const tierOf = Effect.fnUntraced(function*(path: string, at: string, it: unknown) {
  if (!Predicate.hasProperty(it, "name") || typeof it.name !== "string" || !Predicate.hasProperty(it, "policy")) {
    return yield* wrong(`${escape(path)}: ${at.replace(/\.policy$/, "")} has to have a name and a policy`)
  }
  const problems = validateStrict(Policy.Policy, it.policy, at)
  if (problems.length > 0) return yield* wrong(describe({ subject: path, problems }))
  return { name: it.name, policy: it.policy as Policy.Policy } satisfies Policy.Tier
})

const parse = (tiers: ReadonlyArray<Policy.Tier>): Effect.Effect<Policy.Parsed, CliFailure> =>
  Result.match(Policy.parseTiers(tiers), {
    onFailure: (problems) => Effect.fail(wrong(describe({ subject: "policy", problems }))),
    onSuccess: Effect.succeed
  })

/** The flags that name a policy and the folder that it is for. */
export const flags = {
  policy: Flag.String("policy").pipe(
    Flag.withMetavar("FILE"),
    Flag.withDescription(
      `The policy: ${description}; may be repeated, the uppermost tier first. Default: what the command line would use, ` +
        "the files of the organisation and of the user above --config"
    ),
    Flag.atLeast(0)
  ),
  config: Flags.text("config", "FILE", "A config of another command: the project's tier"),
  root: Flag.String("root").pipe(
    Flag.withMetavar("DIR"),
    Flag.withDescription("Folder that paths are relative to; default the current one"),
    Flag.withDefault(".")
  )
}

/** A policy, and the files that it is from. */
export interface Loaded {
  readonly tiers: ReadonlyArray<Policy.Tier>
  readonly policy: Policy.Parsed
  readonly files: ReadonlyArray<string>
}

/** Reads and merges what the flags name; fails with exit code 2 and every mistake. */
export const load = Effect.fnUntraced(function*({ config, policy }: {
  readonly policy: ReadonlyArray<string>
  readonly config: Option.Option<string>
}) {
  const { resolve } = yield* Path.Path
  const given = [...policy, ...Option.toArray(config)]
  if (policy.length > 0 && Option.isSome(config)) {
    return yield* wrong("--policy and --config exclude one another. Use only one of them.")
  }
  const above = policy.length > 0 ? { tiers: [], files: [] } : yield* PolicyTiers.above
  const own = (yield* Effect.forEach(given, (it) => read(it, Option.isSome(config)))).flat()
  const all = [...above.tiers, ...Option.isSome(config) ? own.map((it) => ({ ...it, name: "project" })) : own]
  // one alone needs no name
  const tiers = all.length > 1 ? all : [{ name: "", policy: all[0]?.policy ?? {} }]
  const loaded: Loaded = {
    tiers,
    policy: yield* parse(tiers),
    files: [...above.files, ...given.map((it) => resolve(it))]
  }
  return loaded
})

/** Reads a policy from one file; fails with exit code 2 and every mistake. */
export const loadFile = (file: string) =>
  Effect.map(load({ policy: [file], config: Option.none() }), ({ policy }) => policy)
