/**
 * Where commands run: in a sandbox of the operating system, or not.
 *
 * A driver is probed once, when its layer is built: it tries what must not work. What the probe found is `status`, and
 * it is what approvers, policies and the journal see. Nothing falls back silently: a command that requires a sandbox
 * does not run without one.
 *
 * It does not confine file tools, which cannot leave their root, and no code of this process.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Readable } from "node:stream"
import type { Sandboxing } from "../../core/vocabulary/ToolAnnotations.ts"
import * as ProcessGroup from "../command/ProcessGroup.ts"
import type * as Workspace from "../workspace/Workspace.ts"
import type * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"

/** Where commands run. */
export class Sandbox extends Context.Service<Sandbox, {
  /** What was found when the sandbox was probed. */
  readonly status: Status
  /** Whether a model may request to run a command without the sandbox. Each such call needs its own approval. */
  readonly allowsUnconfined: boolean
  /** Starts a command in the sandbox, or without one where `status` says so. */
  readonly start: (command: Command) => Effect.Effect<Running, WorkspaceFailure.WorkspaceFailure, Scope.Scope>
}>()("effect-tool-executor/tools/Sandbox") {}

/** What was found when a sandbox was probed. */
export type Status =
  /** Commands run without a sandbox, because the host wants it so. */
  | { readonly _tag: "Off" }
  /** Commands run in the sandbox. */
  | {
    readonly _tag: "Holds"
    readonly driver: string
    /** Hosts that commands can reach if they ask for network: none, or listed ones. */
    readonly network: "none" | "listed"
    /** What the probe has proved. */
    readonly holds: ReadonlyArray<Held>
    readonly missing: ReadonlyArray<Held>
  }
  /** It does not hold on this machine. `isRequired`: commands do not run; otherwise they run without it. */
  | {
    readonly _tag: "Unavailable"
    readonly driver: string
    readonly reason: string
    readonly isRequired: boolean
  }

/**
 * What a sandbox does. `files`: nothing can be changed outside of the writable folders. `home`: the home folder and its
 * credentials cannot be seen. `network`: no host can be reached. `processes`: other processes can be neither seen nor
 * signalled, and none outlives the command. `secrets`: files
 * that the policy denies to every tool, and those with secrets by their names, cannot be read. `mounts`: no further namespaces and mounts. `privileges`: programs gain
 * none. `syscalls`: a filter of system calls.
 */
export type Held = "files" | "home" | "secrets" | "network" | "processes" | "mounts" | "privileges" | "syscalls"

/** All that a sandbox can do. */
export const all: ReadonlyArray<Held> = [
  "files",
  "home",
  "secrets",
  "network",
  "processes",
  "mounts",
  "privileges",
  "syscalls"
]

/** How a host wants its commands to run, and what they see. */
export interface Mode {
  /**
   * `required`: a command that cannot be confined does not run. `auto`: it runs without a sandbox, and approvers see
   * that. `off`: there is no sandbox. Default `required`.
   */
  readonly mode?: "required" | "auto" | "off" | undefined
  /** Whether a model may request to run a command without the sandbox. Default true. */
  readonly unconfined?: boolean | undefined
  /** Folders and files that commands can read, besides programs and the workspace. Default: the tools in `PATH`. */
  readonly readable?: ReadonlyArray<string> | undefined
  /**
   * Names or paths of files in the workspace that commands cannot read, with `*` for any text, besides what the policy
   * denies to every tool. Default: `.env`, `.env.*` (but for examples), keys and credentials by their names.
   */
  readonly hidden?: ReadonlyArray<string> | undefined
  /** Folders that commands can change, besides the workspace, such as a cache. Default: none. */
  readonly writable?: ReadonlyArray<string> | undefined
}

/** A command to start. */
export interface Command {
  readonly argv: readonly [string, ...Array<string>]
  /** Real path of the folder to start in. */
  readonly cwd: string
  readonly environment: Readonly<Record<string, string>>
  readonly killGrace: Duration.Duration
  readonly onOutput: (stream: "stdout" | "stderr", chunk: Buffer, of: Readable) => void
  /** Whether something will be written to it. Default: it reads nothing. */
  readonly input?: boolean | undefined
  /** The folder that it may change, but for what is guarded in it. */
  readonly workspace?: Workspace.Workspace | undefined
  /** Tells whether a file of the workspace cannot be read, by its path relative to the root. Default: all can. */
  readonly isHidden?: ((path: string) => boolean) | undefined
  /** Whether it may reach listed hosts. Default: no host. */
  readonly network?: boolean | undefined
  /** Tells whether a host that is not listed may be reached. Default: it may not. */
  readonly mayReach?: ((host: string) => Effect.Effect<boolean>) | undefined
  /** Files that others have written meanwhile: they are not the command's. */
  readonly isExpected?: ((path: string) => boolean) | undefined
}

/** A running command. */
export interface Running extends ProcessGroup.ProcessGroup {
  /** What is done once the command has ended, and what there is to say about it. */
  readonly finish: Effect.Effect<Finished>
}

/** What there is to say about a command that has ended. */
export interface Finished {
  /** What it made and may not make, relative to the workspace, and the folder that it was moved to. */
  readonly setAside?: {
    readonly paths: ReadonlyArray<string>
    /** Those that could not be moved. */
    readonly left?: ReadonlyArray<string> | undefined
    readonly folder: string
  } | undefined
  /** Files of the workspace that it could not read, relative to the root. */
  readonly hidden?: ReadonlyArray<string> | undefined
  /** Protected and hidden files that another program replaced while it ran: it could change and read the new ones. */
  readonly replaced?: ReadonlyArray<string> | undefined
  /** Hosts that it tried to reach in vain. */
  readonly refusedHosts?: ReadonlyArray<string> | undefined
}

/** How a command runs: `unconfined` and `network` are what the call requests. */
export const sandboxing = (
  { status }: Sandbox["Service"],
  { network, unconfined }: { readonly network: boolean; readonly unconfined: boolean }
): Sandboxing | undefined => {
  switch (status._tag) {
    case "Off":
      return undefined
    case "Unavailable":
      return status.isRequired ? { _tag: "Unavailable", reason: status.reason } : open
    case "Holds": {
      const { driver, holds, missing } = status
      return unconfined
        ? open
        : { _tag: "Confined", driver, network: network ? status.network : "none", holds, missing }
    }
  }
}

const open: Sandboxing = { _tag: "Open", driver: "none", network: "open", holds: [], missing: all }

/** Starts a command without a sandbox. */
export const startOpen = (
  command: Command
): Effect.Effect<Running, WorkspaceFailure.WorkspaceFailure, Scope.Scope> =>
  Effect.map(ProcessGroup.make(command), (group) => ({ ...group, finish: nothing }))

const nothing: Effect.Effect<Finished> = Effect.succeed({})

/** Runs commands without a sandbox. */
export const off: Sandbox["Service"] = { status: { _tag: "Off" }, allowsUnconfined: false, start: startOpen }

/** A sandbox that does not hold: commands do not run, or run without it. */
export const unavailable = (driver: string, reason: string, { mode = "required" }: Mode): Sandbox["Service"] => ({
  status: { _tag: "Unavailable", driver, reason, isRequired: mode === "required" },
  allowsUnconfined: false,
  start: startOpen
})

/** Says in one line what holds. */
export const describe = (status: Status): string => {
  switch (status._tag) {
    case "Off":
      return "no sandbox: commands can read and change everything that the user can"
    case "Holds": {
      const missing = status.missing.length === 0 ? "" : `; not available here: ${status.missing.join(", ")}`
      const network = status.network === "none" ? "no network" : "network: listed hosts, on request"
      return `sandbox ${status.driver}: ${network}; holds: ${status.holds.join(", ")}${missing}`
    }
    case "Unavailable":
      return `sandbox ${status.driver} is not available: ${status.reason}. ` +
        (status.isRequired ? "Commands do not run." : "Commands run WITHOUT a sandbox.")
  }
}
