/** Where the command line keeps what files were before a write. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as CheckpointFolder from "../../tools/folders/CheckpointFolder.ts"
import { wrong } from "../CliFailure.ts"
import * as Flags from "../Flags.ts"
import * as StateFolder from "../StateFolder.ts"

/** The flag that says where. */
export const flag = Flags.text(
  "checkpoints",
  "DIR",
  "Folder for what files were before a write, outside the root; none keeps nothing. Default: a folder per root in " +
    "$XDG_STATE_HOME/tool-executor, or ~/.local/state/tool-executor"
)

/** Gives the layer that keeps checkpoints for a root; `undefined` where none are kept. */
export const layerOf = Effect.fnUntraced(function*(given: Option.Option<string>, root: string) {
  if (Option.getOrUndefined(given) === "none") return undefined
  const directory = Option.isSome(given) ? given.value : yield* defaultFolder(root)
  return CheckpointFolder.layer({ directory, root })
})

/** Whose checkpoints they are. */
export const principal = "default"

const defaultFolder = Effect.fnUntraced(function*(root: string) {
  const folder = yield* StateFolder.folderOf("checkpoints", root)
  return folder ??
    (yield* wrong("There is no home folder for checkpoints. Use --checkpoints DIR, or --checkpoints none."))
})
