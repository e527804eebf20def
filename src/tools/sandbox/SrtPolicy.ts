/**
 * What the sandbox runtime is told. Pure.
 *
 * The runtime shows the whole machine unless it is told otherwise. So all of it is hidden, and what a command needs is
 * shown again.
 */
import type { FilesystemConfig, SandboxRuntimeConfig } from "@anthropic-ai/sandbox-runtime"
import * as Result from "effect/Result"
import { isWithin } from "../workspace/Workspace.ts"
import * as SandboxProxy from "./SandboxProxy.ts"

/**
 * What holds for the whole process: the runtime has one configuration. It allows nothing. What a command may do beyond
 * that is said with the command.
 */
export const ofProcess = (programs: {
  readonly bwrap: string | undefined
  readonly socat: string | undefined
}): SandboxRuntimeConfig => ({
  network: { allowedDomains: [], deniedDomains: [], deniedResolvedAddresses: [...privateRanges] },
  filesystem: { denyRead: ["/"], allowRead: [], allowWrite: [], denyWrite: [] },
  // what must not change is found by `GuardedFiles`
  mandatoryDenySearchDepth: 1,
  ...programs.bwrap === undefined ? {} : { bwrapPath: programs.bwrap },
  ...programs.socat === undefined ? {} : { socatPath: programs.socat }
})

/** The runtime refuses loopback and link-local addresses by itself. */
const privateRanges = ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"]

/** What one command sees and changes. All paths are real. */
export interface Confinement {
  readonly readable: ReadonlyArray<string>
  readonly writable: ReadonlyArray<string>
  /** What lies in `writable` and cannot be changed. */
  readonly guarded: ReadonlyArray<string>
  /** What lies in `writable` and cannot be seen. */
  readonly hidden: ReadonlyArray<string>
}

/** What holds for one command. */
export const ofCommand = ({ guarded, hidden, readable, writable }: Confinement): Partial<SandboxRuntimeConfig> => ({
  filesystem: {
    denyRead: ["/", ...hidden.map(literal)],
    allowRead: [
      ...readable.filter((path) => !writable.some((it) => isWithin(it, path))),
      ...writable
    ].map(literal),
    allowWrite: writable.map(literal),
    denyWrite: [...guarded, ...hidden].map(literal)
  }
})

/** A name may look like a pattern. */
const literal = (path: string): Exclude<FilesystemConfig["denyRead"][number], string> => ({ path, literal: true })

/**
 * Hosts in the words of the runtime, to which a host without a port is all its ports. The failure says what is wrong:
 * the runtime does not say which command wants to reach a host, so nobody can be asked.
 */
export const hosts = (
  { allow = [], allowPrivate = [], ask = false }: Network = {}
): Result.Result<ReadonlyArray<string>, string> => {
  if (ask) return Result.fail("network.ask is true, which the driver bwrap alone can do")
  if (allowPrivate.length > 0) return Result.fail("network.allowPrivate is given, which the driver bwrap alone can do")
  const all: Array<string> = []
  for (const [index, text] of allow.entries()) {
    const host = SandboxProxy.readHost(text)
    if (Result.isFailure(host) || !/^(?:\*\.)?[^*:]+\.[^*:]+(?::\d+)?$/.test(host.success)) {
      const problem = "is not a name such as api.example.com or *.example.com"
      return Result.fail(`network.allow[${index}] is ${JSON.stringify(text)}, which ${problem}`)
    }
    all.push(...hasPort.test(host.success) ? [host.success] : [`${host.success}:443`, `${host.success}:80`])
  }
  return Result.succeed(all)
}

/** Hosts as a config names them. */
interface Network {
  readonly allow?: ReadonlyArray<string> | undefined
  readonly ask?: boolean | undefined
  readonly allowPrivate?: ReadonlyArray<string> | undefined
}

const hasPort = /:\d+$/

/** A command for a shell. */
export const quoted = (argv: ReadonlyArray<string>): string =>
  argv.map((it) => `'${it.replaceAll("'", "'\\''")}'`).join(" ")
