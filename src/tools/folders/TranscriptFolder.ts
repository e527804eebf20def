/**
 * Sessions in a folder, for processes one after the other: one that is killed leaves a session that opens.
 *
 * The folder lies apart from the root that tools work in, and only its owner can read it (mode 0700, files 0600). An
 * entry is a file, there as a whole or not at all. Who has a session open holds a lock that the system gives back when
 * the process ends, however that happens.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import type * as Scope from "effect/Scope"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import * as NodeProcess from "node:process"
import { Transcripts } from "../../agent/Transcripts.ts"
import * as TranscriptStore from "../../agent/TranscriptStore.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import * as FileLock from "../workspace/FileLock.ts"
import * as PrivateFolder from "../workspace/PrivateFolder.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"

/** Where sessions are kept. */
export interface Options {
  /** Path of the folder; made when the first session is opened. */
  readonly directory: string
  /** The root that tools work in, if they do; the folder must not lie in it. */
  readonly root?: string | undefined
}

/** Layer of sessions in a folder; fails with `ConfigurationError` where that lies in the root, or around it. */
export const layer = (options: Options): Layer.Layer<Transcripts, ConfigurationError> =>
  Layer.effect(Transcripts, make(options))

/** Creates the service; fails with `ConfigurationError` where the folder lies in the root, or around it. */
export const make = (options: Options): Effect.Effect<Transcripts["Service"], ConfigurationError> =>
  Effect.map(
    PrivateFolder.locate("TranscriptFolder", options),
    (folder) => TranscriptStore.makeKeyed(storeOf(folder), { claim: (id) => claim(folder, id) })
  )

const suffixes = { unfinished: ".new", lock: ".lock", owner: ".pid" }

const storeOf = (folder: string): KeyValueStore.KeyValueStore => {
  const at = (key: string) => NodePath.join(folder, key)
  const keys = attempt("keys", undefined, () => PrivateFolder.namesIn(folder))
  return KeyValueStore.makeStringOnly({
    get: (key) =>
      attempt("get", key, async () => {
        try {
          return await NodeFsPromises.readFile(at(key), "utf8")
        } catch (cause) {
          if (WorkspaceFailure.codeOf(cause) === "ENOENT") return undefined
          throw cause
        }
      }),
    set: (key, value) =>
      attempt("set", key, async () => {
        // of the process before, which did not get to its end
        const unfinished = at(key + suffixes.unfinished)
        await PrivateFolder.remove(unfinished)
        await PrivateFolder.write(unfinished, value)
        await PrivateFolder.publish(unfinished, at(key))
      }),
    remove: (key) => attempt("remove", key, () => PrivateFolder.remove(at(key))),
    clear: attempt("clear", undefined, () => PrivateFolder.remove(folder)),
    keys,
    size: Effect.map(keys, (all) => all.length)
  })
}

const attempt = <A>(method: string, key: string | undefined, run: () => Promise<A>) =>
  Effect.uninterruptible(Effect.tryPromise({ try: run, catch: (cause) => failed(method, key, cause) }))

const failed = (method: string, key: string | undefined, cause: unknown) =>
  new KeyValueStore.KeyValueStoreError({
    method,
    ...key === undefined ? {} : { key },
    message: cause instanceof Error ? cause.message : String(cause),
    cause
  })

/** Takes a session, and says who has it where that is somebody else. */
const claim = (
  folder: string,
  id: string
): Effect.Effect<void, KeyValueStore.KeyValueStoreError, Scope.Scope> => {
  const at = (suffix: string) => NodePath.join(folder, id + suffix)
  const take = async () => {
    await PrivateFolder.makeOwn(folder)
    const lock = FileLock.take(at(suffixes.lock))
    if (lock === undefined) {
      const owner = await NodeFsPromises.readFile(at(suffixes.owner), "utf8").catch(() => "")
      throw new Error(`${owner === "" ? "another process" : `process ${owner}`} has it open`)
    }
    // it says who has the lock, as long as somebody has it
    await NodeFsPromises.writeFile(at(suffixes.owner), String(NodeProcess.pid), { mode: 0o600 })
    return lock
  }
  return Effect.asVoid(Effect.acquireRelease(
    attempt("claim", id, take),
    (lock) => Effect.sync(() => lock.release())
  ))
}
