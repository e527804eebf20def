/**
 * Files of a project on disk: templates, versions, and changes that are written together or not at all.
 *
 * Uses Node directly: `npm exec` installs no platform package of Effect.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import {
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  rmdir,
  writeFile
} from "node:fs/promises"
import { dirname, join, relative, resolve, sep } from "node:path"
import { fileURLToPath } from "node:url"
import { escape } from "../../internal/escape.ts"
import { version } from "../../internal/version.ts"
import { CliFailure, wrong } from "../CliFailure.ts"
import type { Change, Texts, Versions } from "./InitProject.ts"

const own = fileURLToPath(new URL("../../../", import.meta.url))
const name = "effect-tool-executor"

/** The paths of all templates. */
export const templates: Effect.Effect<ReadonlyArray<string>, CliFailure> = Effect.suspend(() =>
  disk("templates", () => readdir(join(own, "templates"), { recursive: true, withFileTypes: true }))
).pipe(
  Effect.map((found) =>
    found.filter((it) => it.isFile()).map((it) => posix(relative(join(own, "templates"), join(it.parentPath, it.name))))
  )
)

/** The texts of some templates, by the paths that they get. */
export const templateTexts = (paths: ReadonlyMap<string, string>): Effect.Effect<Texts, CliFailure> =>
  Effect.map(
    Effect.forEach(paths, ([target, path]) =>
      Effect.map(
        disk(path, () => readFile(join(own, "templates", path), "utf8")),
        (text) => [target, text] as const
      )),
    (entries) => new Map(entries)
  )

/** The versions that this package is tested with. A project below `root` gets the archive that this command is from. */
export const versions = Effect.fnUntraced(function*(root: string): Effect.fn.Return<Versions, CliFailure> {
  const manifest = yield* readJson(join(own, "package.json"))
  const ranges = [manifest["peerDependencies"], manifest["devDependencies"]].filter(Predicate.isObject)
  const host = dirname(dirname(own))
  const installed = own.endsWith(join("node_modules", name) + sep)
    ? yield* Effect.orElseSucceed(readJson(join(host, "package.json")), () => ({}))
    : {}
  const listed = "dependencies" in installed && Predicate.isObject(installed.dependencies)
    ? installed.dependencies[name]
    : undefined
  const archive = typeof listed === "string" ? /^file:(.+)$/.exec(listed)?.[1] : undefined
  return {
    own: archive === undefined ? `^${version}` : `file:${posix(relative(root, resolve(host, archive)))}`,
    range: (dependency) => {
      const found = ranges.map((it) => it[dependency]).find(Predicate.isString)
      return found ?? "*"
    }
  }
})

/** The texts of files that exist. Fails if a folder or a link is in the place of one. */
export const found = (root: string, paths: Iterable<string>): Effect.Effect<Texts, CliFailure> =>
  Effect.map(
    Effect.forEach(Array.from(paths), (path) =>
      Effect.gen(function*() {
        const kind = yield* disk(path, () => lstat(join(root, path)).catch(missing))
        if (kind === undefined) return []
        if (!kind.isFile()) {
          return yield* wrong(`${escape(path)} exists and is not a plain file. Choose another folder.`)
        }
        return [[path, yield* disk(path, () => readFile(join(root, path), "utf8"))] as const]
      })),
    (entries) => new Map(entries.flat())
  )

/**
 * Writes all changes, or none: on an error or an interruption everything is as it was.
 *
 * Texts are written to a temporary folder first; moving them cannot be interrupted.
 */
export const write = (root: string, changes: ReadonlyArray<Change>): Effect.Effect<void, CliFailure> =>
  Effect.gen(function*() {
    const undo: Array<() => Promise<unknown>> = []
    const folder = (path: string) =>
      disk(path, async () => {
        const first = await mkdir(path, { recursive: true })
        if (first === undefined) return
        const made: Array<string> = []
        for (let it = path; it.length >= first.length; it = dirname(it)) made.unshift(it)
        // a folder that somebody else put something into stays
        undo.push(...made.map((it) => () => rmdir(it)))
      })
    const written = Effect.gen(function*() {
      yield* folder(root)
      const stage = yield* disk(root, () => mkdtemp(join(root, ".tool-executor-init-")))
      undo.push(() => rm(stage, { recursive: true, force: true }))
      yield* Effect.forEach(changes, ({ after }, index) => disk(stage, () => writeFile(join(stage, `${index}`), after)))
      yield* Effect.uninterruptible(Effect.gen(function*() {
        for (const [index, { before, path }] of changes.entries()) {
          const target = join(root, path)
          yield* folder(dirname(target))
          yield* below(root, dirname(target))
          if (before !== undefined) {
            yield* unchanged(root, path, before)
            yield* disk(path, () => rename(target, join(stage, `${index}.before`)))
            undo.push(() => rename(join(stage, `${index}.before`), target))
          }
          // a link does not replace a file that appeared meanwhile
          yield* disk(path, () => link(join(stage, `${index}`), target))
          undo.push(() => rm(target))
        }
      }))
      yield* disk(stage, () => rm(stage, { recursive: true, force: true }))
    })
    yield* Effect.onError(written, () =>
      Effect.promise(async () => {
        for (const step of undo.toReversed()) await step().catch(() => undefined)
      }))
  })

/** Fails if a link leads out of the folder. */
const below = (root: string, path: string): Effect.Effect<void, CliFailure> =>
  Effect.flatMap(
    disk(path, () => Promise.all([realpath(root), realpath(path)])),
    ([outer, inner]) =>
      inner === outer || inner.startsWith(`${outer}${sep}`)
        ? Effect.void
        : wrong(`${escape(path)} is a link to another folder. Choose another folder.`)
  )

/** Fails if a file changed since it was shown. */
const unchanged = (root: string, path: string, before: string): Effect.Effect<void, CliFailure> =>
  Effect.flatMap(
    found(root, [path]),
    (texts) =>
      texts.get(path) === before ? Effect.void : wrong(`${escape(path)} changed meanwhile. Run this command again.`)
  )

const readJson = (path: string): Effect.Effect<Readonly<Record<string, unknown>>, CliFailure> =>
  disk(path, async () => JSON.parse(await readFile(path, "utf8")) as Record<string, unknown>)

const missing = (error: unknown): undefined => {
  if (Predicate.hasProperty(error, "code") && (error.code === "ENOENT" || error.code === "ENOTDIR")) return undefined
  throw error
}

const disk = <A>(path: string, run: () => Promise<A>): Effect.Effect<A, CliFailure> =>
  Effect.tryPromise({
    try: run,
    catch: (error) => new CliFailure({ code: 1, explanation: `${escape(path)}: ${escape(messageOf(error))}` })
  })

const messageOf = (error: unknown): string => error instanceof Error ? error.message : String(error)

const posix = (path: string): string => path.split(sep).join("/")
