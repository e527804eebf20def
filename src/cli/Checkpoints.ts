/**
 * Where the command line keeps what files were before a write.
 *
 * @since 0.1.0
 */
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as FileChange from "../FileChange.ts"
import * as CheckpointFolder from "../tools/CheckpointFolder.ts"
import * as Workspace from "../tools/Workspace.ts"
import { wrong } from "./CliFailure.ts"

/**
 * The flag that says where.
 *
 * @category flags
 * @since 0.1.0
 */
export const flag = Flag.String("checkpoints").pipe(
  Flag.withMetavar("DIR"),
  Flag.withDescription(
    "Folder for what files were before a write, outside the root; none keeps nothing. Default: a folder per root in " +
      "$XDG_STATE_HOME/tool-executor, or ~/.local/state/tool-executor"
  ),
  Flag.optional
)

/**
 * Gives the layer that keeps checkpoints for a root; `undefined` where none are kept.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerOf = Effect.fnUntraced(function*(given: Option.Option<string>, root: string) {
  if (Option.getOrUndefined(given) === "none") return undefined
  const directory = Option.isSome(given) ? given.value : yield* defaultFolder(root)
  return CheckpointFolder.layer({ directory, root })
})

/**
 * Whose checkpoints they are.
 *
 * @category constants
 * @since 0.1.0
 */
export const principal = "default"

// Utilities

/** One folder per root, whose name tells no path. */
const defaultFolder = Effect.fnUntraced(function*(root: string) {
  const path = yield* Path.Path
  const { root: real } = yield* Effect.orElseSucceed(Workspace.make(root), () => ({ root: path.resolve(root) }))
  const variable = (name: string) =>
    Effect.orElseSucceed(Config.option(Config.NonEmptyString(name)), Option.none<string>)
  // a relative one does not count, says the XDG Base Directory Specification
  const state = Option.filter(yield* variable("XDG_STATE_HOME"), (it) => path.isAbsolute(it))
  const home = yield* variable("HOME")
  const base = Option.orElse(state, () => Option.map(home, (it) => path.join(it, ".local", "state")))
  if (Option.isNone(base)) {
    return yield* wrong(
      "There is no home folder to keep checkpoints in. Give --checkpoints DIR, or --checkpoints none."
    )
  }
  return path.join(base.value, "tool-executor", "checkpoints", FileChange.hashOf(real).slice(0, 16))
})
