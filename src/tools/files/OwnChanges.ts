/**
 * What this process itself changes in a workspace while confined commands run: files that its tools write, and commands
 * without a sandbox, which may make anything. None of that is a confined command's doing.
 */
import * as Effect from "effect/Effect"
import { isWithin } from "../workspace/Workspace.ts"

/** Changes of one workspace. */
export class OwnChanges {
  private readonly watching = new Set<{ readonly files: Array<string>; isOpen: boolean }>()
  private open = 0

  /** Notes that a tool has written a file. */
  wrote(real: string): void {
    for (const it of this.watching) it.files.push(real)
  }

  /** Runs a command without a sandbox. */
  unconfined<A, E, R>(command: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        this.open++
        for (const it of this.watching) it.isOpen = true
      }),
      () => command,
      () => Effect.sync(() => void this.open--)
    )
  }

  /** Runs a confined command; `isExpected` tells whether something was, or may have been, changed by others of ours. */
  confined<A, E, R>(
    command: (isExpected: (path: string) => boolean) => Effect.Effect<A, E, R>
  ): Effect.Effect<A, E, R> {
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        const seen = { files: new Array<string>(), isOpen: this.open > 0 }
        this.watching.add(seen)
        return seen
      }),
      (seen) => command((path) => seen.isOpen || seen.files.some((file) => isWithin(path, file))),
      (seen) => Effect.sync(() => void this.watching.delete(seen))
    )
  }
}
