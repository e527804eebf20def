/**
 * The tiers of the command line's policy: the organisation's file and the user's, the config (project), the flags
 * (session).
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Policy from "../../core/gates/Policy.ts"
import * as PolicyFile from "../../core/gates/PolicyFile.ts"
import { escape } from "../../internal/escape.ts"
import { describe, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import { variable } from "../Variables.ts"

/** Schema of the file of a tier: a policy. */
export const File = Schema.Struct({ $schema: Schema.optionalKey(Schema.String), ...Policy.Policy.fields })

/** The tiers above a project. */
export interface Above {
  readonly tiers: ReadonlyArray<Policy.Tier>
  /** The files that they are from, absolute: no call may write to them. */
  readonly files: ReadonlyArray<string>
}

/**
 * Reads the tiers above a project: the organisation's from the file that `TOOL_EXECUTOR_POLICY` names, or from
 * `/etc/tool-executor/policy.json`, and the user's from `tool-executor/policy.json` in `$XDG_CONFIG_HOME` or `~/.config`.
 * Fails with exit code 2 and every mistake; also where a file is there and cannot be read.
 */
export const above: Effect.Effect<
  Above,
  Effect.Error<ReturnType<typeof Files.read>>,
  FileSystem.FileSystem | Path.Path
> = Effect.gen(function*() {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const named = yield* variable("TOOL_EXECUTOR_POLICY")
  const given = yield* variable("XDG_CONFIG_HOME")
  const home = yield* variable("HOME")
  // a relative one does not count, says the XDG Base Directory Specification
  const config = given !== undefined && path.isAbsolute(given) ? given : home && path.join(home, ".config")
  const places = [
    { name: "organisation", file: named ?? "/etc/tool-executor/policy.json" },
    ...config === undefined ? [] : [{ name: "user", file: path.join(config, "tool-executor", "policy.json") }]
  ].map((it) => ({ ...it, file: path.resolve(it.file) }))
  const there = yield* Effect.filter(places, ({ file, name }) =>
    name === "organisation" && named !== undefined
      ? Effect.succeed(true)
      // what cannot be looked at may be there: reading it fails
      : Effect.orElseSucceed(files.exists(file), () => true))
  return {
    tiers: yield* Effect.forEach(there, ({ file, name }) => tierOf(name, file)),
    files: there.map((it) => it.file)
  }
})

/** Gives the policy of an executor. A project alone needs no tiers. */
export const under = (
  { tiers }: Pick<Above, "tiers">,
  project: Policy.Policy | undefined,
  session: Policy.Policy = {}
): Policy.Policy | ReadonlyArray<Policy.Tier> => {
  const all = [
    ...tiers,
    ...project === undefined ? [] : [{ name: "project", policy: project }],
    ...isSaid(session) ? [{ name: "session", policy: session }] : []
  ]
  const [first, ...others] = all
  return first === undefined ? {} : others.length === 0 && first.isShared !== true ? first.policy : all
}

/** Warns of what a project and flags allow in vain, because a tier above locks. */
export const warnLocked = (policy: Policy.Policy | ReadonlyArray<Policy.Tier> | undefined): Effect.Effect<void> => {
  if (!Array.isArray(policy)) return Effect.void
  const parsed = Policy.parseTiers(policy as ReadonlyArray<Policy.Tier>)
  if (Result.isFailure(parsed)) return Effect.void
  const { locked, locks: [lock] } = parsed.success
  return Effect.forEach(
    locked,
    ({ list, source, tier }) =>
      Effect.logWarning(
        `${escape(tier)}: ${list} ${escape(source)} has no effect, because the policy of the ${
          escape(lock!.tier)
        } is locked`
      ),
    { discard: true }
  )
}

const isSaid = ({ mode, ...lists }: Policy.Policy): boolean =>
  mode !== undefined || Object.values(lists).some((it) => Array.isArray(it) && it.length > 0)

const tierOf = Effect.fnUntraced(function*(name: string, file: string) {
  const input = yield* Files.readJson(file)
  const { $schema: _, ...policy } = yield* Effect.mapError(decode(file)(input), (error) => wrong(describe(error)))
  return { name, policy, isShared: true } satisfies Policy.Tier
})

const decode = (file: string) => PolicyFile.decodePolicy(File, file)
