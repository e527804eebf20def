/** Where the command line keeps what belongs to a root: in the user's state folder. */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as FileChange from "../core/vocabulary/FileChange.ts"
import * as Workspace from "../tools/Workspace.ts"

/**
 * Gives the folder of a root for one kind of data. Its name does not reveal the path. `None` if there is no home
 * folder.
 */
export const folderOf = Effect.fnUntraced(function*(kind: string, root: string) {
  const path = yield* Path.Path
  const { root: real } = yield* Effect.orElseSucceed(Workspace.make(root), () => ({ root: path.resolve(root) }))
  const variable = (name: string) =>
    Effect.orElseSucceed(Config.option(Config.NonEmptyString(name)), Option.none<string>)
  // a relative one does not count, says the XDG Base Directory Specification
  const state = Option.filter(yield* variable("XDG_STATE_HOME"), (it) => path.isAbsolute(it))
  const home = yield* variable("HOME")
  const base = Option.orElse(state, () => Option.map(home, (it) => path.join(it, ".local", "state")))
  return Option.map(
    base,
    (it) => path.join(it, "tool-executor", kind, FileChange.hashOf(real).slice(0, 16))
  )
})
