/**
 * Artifacts in a folder, so that they outlast the process that made them.
 *
 * Only its owner can read the folder (mode 0700, files 0600). A payload is a file, there as a whole or not at all:
 * `HASH OF THE PRINCIPAL/ID.HASH OF THE BATCH`, so that who may read it is in its path, and no name that comes from
 * outside is. How large it is and when it was put is in its id: nothing is opened to keep the bounds.
 *
 * Several processes may share a folder. Each counts what the others have put; two that put at the same moment may pass
 * a bound by what they put, until the next one does.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import * as ArtifactStore from "../../core/output/ArtifactStore.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import * as ArtifactId from "../../internal/artifactId.ts"
import { bytesOf, keyOf, textOf, widthOf } from "../../internal/textBytes.ts"
import * as PrivateFolder from "../workspace/PrivateFolder.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"

/** Where artifacts are kept, and how many. */
export interface Options extends ArtifactStore.Options {
  /** Path of the folder, which nothing else is kept in; made when the first payload is put. */
  readonly directory: string
  /** The root that tools work in, if they do in one; the folder must not lie in it. */
  readonly root?: string | undefined
}

/**
 * Layer that keeps artifacts in a folder; fails with `ConfigurationError` where that lies in the root, or around it.
 */
export const layer = (options: Options): Layer.Layer<ArtifactStore.ArtifactStore, ConfigurationError> =>
  Layer.effect(ArtifactStore.ArtifactStore, make(options))

/** Creates the store; fails with `ConfigurationError` where the folder lies in the root, or around it. */
export const make = Effect.fnUntraced(function*(
  options: Options
): Effect.fn.Return<ArtifactStore.ArtifactStore["Service"], ConfigurationError> {
  const bounds = yield* ArtifactStore.boundsOf(options)
  const directory = yield* PrivateFolder.locate("ArtifactFolder", options)
  // one at a time: evictions depend on the existing payloads
  const turns = yield* Semaphore.make(1)
  const makeId = ArtifactId.maker()
  const at = (...names: ReadonlyArray<string>) => NodePath.join(directory, ...names)

  const remove = (gone: ReadonlyArray<Kept>) =>
    attempt("", async () => {
      for (const { share, name } of gone) await PrivateFolder.remove(at(share, name))
    })
  /** Removes what is past its time; gives the number of that, and the rest of each principal, oldest first. */
  const prune = Effect.fnUntraced(function*(now: number) {
    const { all, shares } = yield* attempt("", () => list(directory))
    const isOver = (it: Kept) => ArtifactStore.isOver(it.at, now, it.isWhole ? bounds : unfinishedBounds)
    const gone = all.filter(isOver)
    yield* remove(gone)
    const rest = all.filter((it) => it.isWhole && !isOver(it))
    const inUse = new Set(rest.map(({ share }) => share))
    yield* attempt("", async () => {
      for (const share of shares) if (!inUse.has(share)) await removeEmpty(at(share))
    })
    return { dropped: gone.filter((it) => it.isWhole).length, rest }
  })
  const put = Effect.fnUntraced(function*({ batch, principal }: ArtifactStore.Owner, payload: string) {
    const now = yield* Clock.currentTimeMillis
    const { rest } = yield* prune(now)
    const share = keyOf(principal)
    const own = rest.filter((it) => it.share === share)
    const sum = (all: ReadonlyArray<Kept>) => all.reduce((chars, it) => chars + it.chars, 0)
    const others = sum(rest) - sum(own)
    const chars = payload.length
    yield* ArtifactStore.fit(chars, others, bounds)
    const width = widthOf(payload)
    const id = makeId({ at: now, chars, width })
    const name = nameOf(id, batch)
    yield* attempt("", () => write(at(share), name, bytesOf(payload, width)))
    yield* remove(ArtifactStore.surplus([...own, { share, name, at: now, chars, isWhole: true }], others, bounds))
    return { id, chars }
  })
  const alone = <A, E>(effect: Effect.Effect<A, E>) => turns.withPermit(Effect.uninterruptible(effect))

  return ArtifactStore.ArtifactStore.of({
    put: (owner, payload) => alone(put(owner, payload)),
    read: Effect.fnUntraced(function*({ batch, principal }, id, range) {
      const said = ArtifactId.read(id)
      if (said === undefined) return yield* new ArtifactStore.ArtifactError({ reason: "NotFound", id })
      const { chars, width } = said
      const [start, end] = ArtifactStore.partOf(range, chars)
      const path = at(keyOf(principal), nameOf(id, batch))
      const bytes = yield* attempt(id, () => readPart(path, chars * width, start * width, end * width))
      if (bytes === undefined) return yield* new ArtifactStore.ArtifactError({ reason: "NotFound", id })
      if (ArtifactStore.isOver(said.at, yield* Clock.currentTimeMillis, bounds)) {
        return yield* new ArtifactStore.ArtifactError({ reason: "Expired", id })
      }
      return { text: textOf(bytes, width), chars }
    }),
    prune: Effect.map(alone(Effect.flatMap(Clock.currentTimeMillis, prune)), ({ dropped }) => dropped)
  })
})

interface Kept {
  /** Name of its principal's folder. */
  readonly share: string
  readonly name: string
  readonly at: number
  readonly chars: number
  /** Not one that is being written, or that a process which ended left behind. */
  readonly isWhole: boolean
}

const nameOf = (id: string, batch: string): string => `${id}.${keyOf(batch).slice(0, 32)}`

/** What was not finished in this time never will be. */
const unfinishedBounds = { timeToLiveMillis: 3_600_000 } as const

/** What lies in the folder, oldest first; nothing that was not put here. */
const list = async (
  directory: string
): Promise<{ readonly shares: ReadonlyArray<string>; readonly all: ReadonlyArray<Kept> }> => {
  const shares = (await PrivateFolder.namesIn(directory)).filter((name) => /^[0-9a-f]{64}$/.test(name))
  const found: Array<Kept> = []
  for (const share of shares) {
    for (const name of await PrivateFolder.namesIn(NodePath.join(directory, share))) {
      const isWhole = !name.startsWith(".")
      const said = /^\.?(.+)\.[0-9a-f]{32}$/.exec(name)?.[1]
      const { at, chars } = ArtifactId.read(said ?? "") ?? {}
      if (at !== undefined && chars !== undefined) found.push({ share, name, at, chars, isWhole })
    }
  }
  return { shares, all: found.sort((a, b) => a.name < b.name ? -1 : 1) }
}

const write = async (folder: string, name: string, bytes: Uint8Array): Promise<void> => {
  const unfinished = NodePath.join(folder, `.${name}`)
  try {
    await inFolder(folder, () => PrivateFolder.write(unfinished, bytes))
    await PrivateFolder.publish(unfinished, NodePath.join(folder, name))
  } catch (cause) {
    await PrivateFolder.remove(unfinished).catch(() => undefined)
    throw cause
  }
}

/** Another process may remove a folder that was empty until now. */
const inFolder = async (folder: string, work: () => Promise<void>, tries = 5): Promise<void> => {
  await PrivateFolder.makeOwn(folder)
  try {
    await work()
  } catch (cause) {
    if (tries === 0 || WorkspaceFailure.codeOf(cause) !== "ENOENT") throw cause
    await inFolder(folder, work, tries - 1)
  }
}

const removeEmpty = async (folder: string): Promise<void> => {
  try {
    await NodeFsPromises.rmdir(folder)
  } catch (cause) {
    // somebody has put something there, or removed it already
    if (!["ENOTEMPTY", "EEXIST", "ENOENT"].includes(WorkspaceFailure.codeOf(cause))) throw cause
  }
}

/** Nothing if it is not there, or not whole. */
const readPart = async (
  path: string,
  size: number,
  start: number,
  end: number
): Promise<Uint8Array | undefined> => {
  let handle: NodeFsPromises.FileHandle
  try {
    handle = await NodeFsPromises.open(path)
  } catch (cause) {
    if (WorkspaceFailure.codeOf(cause) === "ENOENT") return undefined
    throw cause
  }
  try {
    if ((await handle.stat()).size !== size) return undefined
    const bytes = new Uint8Array(end - start)
    let read = 0
    while (read < bytes.length) {
      const { bytesRead } = await handle.read(bytes, read, bytes.length - read, start + read)
      if (bytesRead === 0) return undefined
      read += bytesRead
    }
    return bytes
  } finally {
    await handle.close()
  }
}

const attempt = <A>(id: string, run: () => Promise<A>): Effect.Effect<A, ArtifactStore.ArtifactError> =>
  Effect.tryPromise({
    try: run,
    catch: (cause) => new ArtifactStore.ArtifactError({ reason: "StoreFailed", id, cause })
  })
