/** Where the command line keeps what belongs to a root: in the user's state folder. */
import * as Effect from "effect/Effect"
import * as Path from "effect/Path"
import * as FileChange from "../core/vocabulary/FileChange.ts"
import * as Workspace from "../tools/workspace/Workspace.ts"
import { variable } from "./Variables.ts"

/**
 * Gives the folder of a root for one kind of data. Its name does not reveal the path. `undefined` if there is no
 * home folder.
 */
export const folderOf = Effect.fnUntraced(function*(kind: string, root: string) {
  const path = yield* Path.Path
  const { root: real } = yield* Effect.orElseSucceed(Workspace.make(root), () => ({ root: path.resolve(root) }))
  const state = yield* variable("XDG_STATE_HOME")
  const home = yield* variable("HOME")
  // a relative one does not count, says the XDG Base Directory Specification
  const base = state !== undefined && path.isAbsolute(state) ? state : home && path.join(home, ".local", "state")
  return base && path.join(base, "tool-executor", kind, FileChange.hashOf(real).slice(0, 16))
})
