/**
 * The tool `run_command`: a command line or a program with arguments.
 *
 * It starts in a folder of the workspace. Without a sandbox it is **not confined to it**: what it runs may read, write
 * and send whatever the user of this process may. In a `Sandbox` it changes the workspace alone.
 */
import * as Tool from "effect/ai/Tool"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Schema from "effect/Schema"
import * as NodePath from "node:path"
import * as ToolContext from "../../core/contract/ToolContext.ts"
import { hostPrefix } from "../../core/gates/PermissionPattern.ts"
import * as ToolAnnotations from "../../core/vocabulary/ToolAnnotations.ts"
import { plainWords } from "../../internal/plainWords.ts"
import * as Descriptor from "../files/Descriptor.ts"
import { OwnChanges } from "../files/OwnChanges.ts"
import * as Sandbox from "../sandbox/Sandbox.ts"
import * as SandboxNote from "../sandbox/SandboxNote.ts"
import * as WiderTargets from "../workspace/WiderTargets.ts"
import type * as Workspace from "../workspace/Workspace.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as CommandSpellings from "./CommandSpellings.ts"
import * as OutputCapture from "./OutputCapture.ts"

/** Bytes kept of each of the two outputs, half from its start and half from its end. */
export const maxOutputBytes = 200_000

export const tool = Tool.make("run_command", {
  description:
    "Runs a command and returns its exit code and output. Set either command, a line for sh -c, or argv, a " +
    "program with its arguments and no shell. The command is not confined to the workspace: it can read and change " +
    "everything that the user can. A non-zero exit code is a normal result: check exitCode. The first and last 100,000 " +
    "bytes of each output are kept. Standard input is empty and only some environment variables are passed on. " +
    "Background processes are killed when the command ends; only daemons that detach completely keep running.",
  parameters: Schema.Struct({
    command: Schema.optionalKey(
      Schema.String.annotate({ description: "A line for sh -c. Do not set it together with argv" })
    ),
    argv: Schema.optionalKey(
      Schema.Array(Schema.String).annotate({
        description: "The program and its arguments, passed without a shell. Do not set it together with command"
      })
    ),
    cwd: Schema.optionalKey(
      Schema.String.annotate({
        description: "Folder to start in, relative to the workspace root and inside it; default the root"
      })
    )
  }),
  success: Schema.Struct({
    /** Null if a signal ended the command. */
    exitCode: Schema.NullOr(Schema.Int),
    /** Name of the signal that ended it, such as SIGSEGV; null if it exited. */
    signal: Schema.NullOr(Schema.String),
    stdout: Schema.String,
    stderr: Schema.String,
    /** Bytes of both outputs that are not shown. */
    droppedBytes: Schema.optionalKey(Schema.Int),
    /** What the sandbox kept the command from, and what can be done about it. */
    sandbox: Schema.optionalKey(Schema.String)
  }),
  failure: WorkspaceFailure.WorkspaceFailure
})
  .annotate(Tool.Title, "Run command")
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, true)
  .annotate(Tool.Idempotent, false)
  .annotate(Tool.OpenWorld, true)
  .annotate(ToolAnnotations.Closed, true)
  .annotate(ToolAnnotations.ChangesFiles, true)
  .annotate(ToolAnnotations.Volatile, true)

/** What a call may request in addition where there is a sandbox. */
interface Requested {
  readonly unconfined?: boolean | undefined
  readonly network?: boolean | undefined
}

/**
 * Gives the tool for a sandbox: its description says what holds, and its arguments are those that the host permits.
 * `unconfined` requests to run without the sandbox, `network` to reach listed hosts.
 */
export const toolFor = (sandbox: Sandbox.Sandbox["Service"]): typeof tool => {
  const { status } = sandbox
  if (status._tag === "Off") return tool
  const { parametersSchema: { fields } } = tool
  const confined = tool.annotate(
    ToolAnnotations.Sandboxed,
    (params) => Sandbox.sandboxing(sandbox, requested(params))!
  )
  const described = Tool.make("run_command", {
    description: descriptionFor(sandbox),
    parameters: status._tag === "Holds"
      ? Schema.Struct({
        ...fields,
        ...sandbox.allowsUnconfined ? { unconfined } : {},
        ...status.network === "listed" ? { network } : {}
      })
      : tool.parametersSchema,
    success: tool.successSchema,
    failure: tool.failureSchema
  }).annotateMerge(confined.annotations)
  // the further arguments are optional
  return described as unknown as typeof tool
}

const unconfined = Schema.optionalKey(
  Schema.Boolean.annotate({
    description:
      "true to run the command without the sandbox, only if it failed because of it: a person is asked each time"
  })
)

const network = Schema.optionalKey(
  Schema.Boolean.annotate({
    description: "true if the command needs to reach hosts; those not listed need an approval"
  })
)

const requested = (params: unknown) => {
  const { network, unconfined } = params as Requested
  return { network: network === true, unconfined: unconfined === true }
}

const descriptionFor = ({ allowsUnconfined, status }: Sandbox.Sandbox["Service"]): string => {
  const [start, notConfined, rest] = tool.description!.split(/(The command is not confined.*?the user can\. )/)
  const how = status._tag === "Holds"
    ? `The command runs in a sandbox (${status.driver}): it can change files of the workspace, but neither .git nor ` +
      "files that other programs execute by themselves, such as .npmrc and editor settings. It sees no home folder, no " +
      `credentials and no other processes. ${
        status.network === "none" ? "It has no network. " : "It reaches listed hosts only, if network is true. "
      }${allowsUnconfined ? "What needs more can request unconfined. " : ""}`
    : status._tag === "Unavailable" && status.isRequired
    ? "Commands need a sandbox, and none is available now: every call is refused. "
    : notConfined
  return `${start}${how}${rest}`
}

/**
 * Gives what a call is about, for policies: its words, if they mean the same to everybody and start in the root; else a
 * line that only a pattern for the whole tool allows.
 *
 * Patterns that deny and ask are matched against every spelling of the command: with and without its folder; each
 * command of a line separately, without quotes, redirections and line continuations; the command after assignments,
 * keywords (`if`, `!`) and programs that run another one (`env`, `exec`, `sh -c`); the program by path and by name.
 * Throws a `RangeError` for a line longer than a system accepts, or with more than 500,000 characters of spellings.
 *
 * **Gotchas**
 *
 * A command can be written in more ways than anybody can list. Denying some prevents mistakes, not attacks.
 */
export const targets = (params: unknown): ToolAnnotations.TargetsOf => {
  const found = targetOf(params)
  const { kind, spellings = [], text } = found
  const { network, unconfined } = requested(params)
  // what allows the command in the sandbox covers it neither outside nor with network
  return unconfined
    ? [{ text: `${withoutSandbox}${text}`, kind: "always", spellings: [text, ...spellings] }]
    : network
    ? [{ text: `${withNetwork}${text}`, ...kind === undefined ? {} : { kind }, spellings: [text, ...spellings] }]
    : [found]
}

/** What the target of a command without its sandbox begins with. */
export const withoutSandbox = "without sandbox: "

/** What the target of a command that may reach hosts begins with. */
const withNetwork = "with network: "

const targetOf = (params: unknown): ToolAnnotations.TargetsOf[number] => {
  const { argv, command, cwd } = params as Tool.Parameters<typeof tool>
  const line = command ?? (argv ?? []).join(" ")
  const words = plainWords(line)
  const isPlain = words !== undefined && (argv === undefined || words.length === argv.length)
  // a relative path in it would mean another file
  const isInRoot = cwd === undefined || cwd === "."
  const exact = isPlain || argv === undefined ? unmarked(line) : `argv: ${JSON.stringify(argv)}`
  const text = isInRoot ? exact : `in ${JSON.stringify(cwd)}: ${exact}`
  const others = new Set(spellings(line, argv, isInRoot ? undefined : cwd))
  others.delete(text)
  const known = others.size === 0 ? { text } : { text, spellings: Array.from(others) }
  if (!isPlain || !isInRoot) return { ...known, kind: "exact" }
  const wider = WiderTargets.commands(words)
  return wider.length === 0 ? known : { ...known, wider }
}

/** Every command of a line by its words, the program by its path and by its name, with the folder and without. */
const spellings = (
  line: string,
  argv: ReadonlyArray<string> | undefined,
  cwd: string | undefined
): ReadonlyArray<string> => {
  const all = CommandSpellings.spellings(line, argv)
  if (cwd === undefined) return Array.from(all)
  const given = [...all, line]
  const marks = Array.from(
    new Set([cwd, NodePath.posix.join(cwd, ".").replace(/(?<=.)\/$/, "")]),
    (folder) => `in ${JSON.stringify(folder)}: `
  )
  const size = (texts: ReadonlyArray<string>) => texts.reduce((sum, it) => sum + it.length, 0)
  CommandSpellings.checkSize(size(given) * (1 + marks.length) + size(marks) * given.length)
  return [...given, ...marks.flatMap((mark) => given.map((it) => mark + it))]
}

/** A line that cannot be taken for one of the other forms of a target. */
const unmarked = (line: string): string =>
  /^(?:line: |argv: |in "|without sandbox: |with network: |host:)/.test(line) ? `line: ${line}` : line

export interface Options {
  /** Every environment variable that the command gets. */
  readonly environment: Readonly<Record<string, string>>
  /** How long its process group has between TERM and KILL. */
  readonly killGrace: Duration.Duration
  /** How long its output is awaited after it exited, if something it started holds on to it. */
  readonly drain: Duration.Duration
  /** Where it runs. Default: without a sandbox. */
  readonly sandbox?: Sandbox.Sandbox["Service"] | undefined
  /** What else changes the workspace while it runs. Default: nothing. */
  readonly changes?: OwnChanges | undefined
}

/**
 * Makes the handler of `run_command` for a workspace.
 *
 * Output is reported as progress at most every 50 ms, of a flood its last 4,096 characters. Fails with `InvalidCommand`
 * where there is not exactly one of `command` and `argv` or the program cannot be started, and as `Descriptor.open` for
 * `cwd`.
 */
export const make = (
  workspace: Workspace.Workspace,
  options: Options
): (params: Tool.Parameters<typeof tool>) => Effect.Effect<
  Tool.Success<typeof tool>,
  WorkspaceFailure.WorkspaceFailure
> => {
  const { changes = new OwnChanges(), sandbox = Sandbox.off } = options
  const { allowsUnconfined, status } = sandbox
  const run = Effect.fnUntraced(function*(
    params: Tool.Parameters<typeof tool>,
    isExpected: (() => boolean) | undefined
  ) {
    const isConfined = isExpected !== undefined
    const argv = yield* argvOf(params)
    // held open until the command has ended: the folder itself is where it starts, whatever its name leads to by then
    const { pinned, real } = yield* Descriptor.open(workspace, params.cwd ?? ".", "folder")
    const { network } = requested(params)
    // who runs it without an executor gets no weaker sandbox
    if (status._tag === "Unavailable" && status.isRequired) {
      return yield* Effect.fail(WorkspaceFailure.make("SandboxFailed", argv[0], Sandbox.describe(status)))
    }
    const captures = { stdout: OutputCapture.make(maxOutputBytes), stderr: OutputCapture.make(maxOutputBytes) }
    const reporter = yield* makeReporter
    const context = yield* ToolContext.ToolContext
    const start = isConfined ? sandbox.start : Sandbox.startOpen
    const running = yield* start({
      argv,
      cwd: isConfined ? real : pinned,
      workspace,
      network,
      isExpected,
      isHidden: context.hides,
      mayReach: (host) => context.confirmTarget({ text: `${hostPrefix}${host}`, kind: "host" }),
      environment: options.environment,
      killGrace: options.killGrace,
      onOutput: (stream, chunk) => {
        captures[stream].push(chunk)
        reporter.push(stream, chunk)
      }
    })
    yield* Effect.forkScoped(reporter.run)
    const ended = yield* running.exited
    yield* Effect.timeoutOption(running.closed, options.drain)
    yield* reporter.flush
    const finished = yield* running.finish
    const stdout = captures.stdout.text()
    const stderr = captures.stderr.text()
    const droppedBytes = stdout.droppedBytes + stderr.droppedBytes
    const note = isConfined
      ? SandboxNote.of({ ...ended, ...finished, errors: stderr.text, output: stdout.text, sandbox, network })
      : undefined
    return {
      ...ended,
      stdout: stdout.text,
      stderr: stderr.text,
      ...droppedBytes === 0 ? {} : { droppedBytes },
      ...note === undefined ? {} : { sandbox: note }
    }
  }, Effect.scoped)
  return (params) => {
    if (status._tag !== "Holds") return run(params, undefined)
    return requested(params).unconfined && allowsUnconfined
      ? changes.unconfined(run(params, undefined))
      : changes.confined((isExpected) => run(params, isExpected))
  }
}

const reportEvery = Duration.millis(50)
const reportedCharacters = 4_096

const argvOf = (
  params: Tool.Parameters<typeof tool>
): Effect.Effect<readonly [string, ...Array<string>], WorkspaceFailure.WorkspaceFailure> => {
  const { argv, command } = params
  const invalid = (path: string, message: string) => Effect.fail(WorkspaceFailure.make("InvalidCommand", path, message))
  if ((command === undefined) === (argv === undefined)) {
    const problem = command === undefined ? "Neither command nor argv is given" : "Both command and argv are given"
    return invalid(command ?? "", `${problem}. Set one of them: command for a shell line, argv for a program.`)
  }
  const [program, ...args] = argv ?? ["/bin/sh", "-c", command ?? ""]
  if (program === undefined || program === "" || command?.trim() === "") {
    return invalid("", "The command is empty. Set a shell line in command, or a program and arguments in argv.")
  }
  return [program, ...args].some((word) => word.includes("\0"))
    ? invalid(command ?? program, "The command contains a NUL character. Use a command without it.")
    : Effect.succeed([program, ...args])
}

/** Gathers output and reports it, without ever making the command wait. */
const makeReporter = Effect.gen(function*() {
  const context = yield* ToolContext.ToolContext
  const latch = yield* Latch.make()
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }
  let pending = ""
  const report = Effect.suspend(() => {
    const message = pending
    pending = ""
    latch.closeUnsafe()
    return message === "" ? Effect.void : context.progress({ message })
  })
  return {
    push: (stream: "stdout" | "stderr", chunk: Buffer) => {
      pending = (pending + decoders[stream].decode(chunk, { stream: true })).slice(-reportedCharacters)
      if (pending !== "") latch.openUnsafe()
    },
    run: Effect.forever(latch.await.pipe(Effect.andThen(report), Effect.andThen(Effect.sleep(reportEvery)))),
    flush: report
  }
})
