/** A sandbox as data: what config files say about it. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import NodeProcess from "node:process"
import * as PublicAddress from "../fetch/PublicAddress.ts"
import * as Sandbox from "./Sandbox.ts"
import * as SandboxBwrap from "./SandboxBwrap.ts"
import * as SandboxProxy from "./SandboxProxy.ts"
import * as SandboxSrt from "./SandboxSrt.ts"

const optional = Schema.optionalKey

const Paths = Schema.Array(Schema.NonEmptyString)

const Host = Schema.String.check(
  Schema.makeFilter((text) => Result.isSuccess(SandboxProxy.readHost(text)), {
    expected: "a host such as \"registry.npmjs.org\" or \"*.example.com\""
  })
)

const Private = Schema.String.check(
  Schema.makeFilter((text) => Result.isSuccess(PublicAddress.reach([text])), {
    expected: "a host such as \"localhost\", an address, or a range such as \"10.0.0.0/8\""
  })
)

const network = {
  allow: optional(Schema.Array(Host)).annotate({ description: "Hosts that need no approval; * is any text" }),
  allowPrivate: optional(Schema.Array(Private)).annotate({
    description: "Hosts, addresses and ranges that may be reached although they are private"
  })
}

const shared = {
  driver: optional(Schema.Literals(["bwrap", "srt"])).annotate({
    description:
      "bwrap, the default, is for Linux; srt, the default on macOS, needs the package @anthropic-ai/sandbox-runtime"
  }),
  mode: optional(Schema.Literals(["required", "auto", "off"])).annotate({
    description:
      "required, the default: what cannot be confined does not run; auto: it runs without a sandbox, and approval " +
      "requests say so; off: there is no sandbox"
  }),
  readable: optional(Paths).annotate({
    description: "Folders and files that can be read in addition to programs, the tools in PATH and the workspace"
  }),
  hidden: optional(Paths).annotate({
    description:
      "Names or paths of files in the workspace that cannot be read, with * for any text, in addition to what the " +
      "policy denies to every tool; default .env, .env.*, keys and credentials by their names"
  }),
  writable: optional(Paths).annotate({ description: "Folders that can be changed in addition to the workspace" })
}

/** Schema of the sandbox of `run_command`. */
export const SandboxOptions = Schema.Struct({
  ...shared,
  network: optional(Schema.Struct({
    ...network,
    ask: optional(Schema.Boolean).annotate({
      description: "Whether approval of other hosts is requested, one by one; default true"
    })
  })).annotate({ description: "Hosts that a command can reach if its call requests it; default: none" }),
  unconfined: optional(Schema.Boolean).annotate({
    description:
      "Whether a model may request to run a command without the sandbox, which needs an approval each time; default true"
  })
})

/** The sandbox of `run_command`. */
export type SandboxOptions = typeof SandboxOptions.Type

/** Schema of the sandbox of a program that is not a command of a model. */
export const OfProgram = Schema.Struct({
  ...shared,
  network: optional(Schema.Struct(network)).annotate({ description: "Hosts that it can reach; default: none" })
})

/** The sandbox of a program that is not a command of a model. */
export type OfProgram = typeof OfProgram.Type

/** Probes the sandbox; options that are absent mean that there is none. */
export const make = (options: SandboxOptions | undefined): Effect.Effect<Sandbox.Sandbox["Service"]> => {
  if (options === undefined || options.mode === "off") return Effect.succeed(Sandbox.off)
  const { driver = NodeProcess.platform === "darwin" ? "srt" : "bwrap", ...same } = options
  return Effect.flatMap(
    SandboxBwrap.user,
    (user) => driver === "srt" ? SandboxSrt.make(same, user) : SandboxBwrap.make(same, user)
  )
}
