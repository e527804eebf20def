/**
 * An operation of `tool-executor agent`, from its flags to its exit code: loaded only when it is used, since other
 * commands do without models.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Semaphore from "effect/Semaphore"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import type { EndReason } from "../../agent/AgentEvent.ts"
import * as AgentEvent from "../../agent/AgentEvent.ts"
import * as AgentExecutor from "../../agent/AgentExecutor.ts"
import type { AgentLimits } from "../../agent/AgentLimits.ts"
import * as DispatchAgent from "../../agent/DispatchAgent.ts"
import { Transcripts } from "../../agent/Transcripts.ts"
import * as LocalExecutor from "../../assembly/LocalExecutor.ts"
import * as ToolExecutor from "../../core/engine/ToolExecutor.ts"
import * as ArtifactTools from "../../tools/folders/ArtifactTools.ts"
import { CliFailure, describe, inLines, wrong } from "../CliFailure.ts"
import * as Config from "../Config.ts"
import * as Files from "../Files.ts"
import * as BesidePolicy from "../gateway/BesidePolicy.ts"
import * as FolderTools from "../gateway/FolderTools.ts"
import * as JoinedTools from "../gateway/JoinedTools.ts"
import { Interruption } from "../Interruption.ts"
import * as JournalAt from "../journal/JournalAt.ts"
import * as PolicyTiers from "../policy/PolicyTiers.ts"
import * as AgentConfig from "./AgentConfig.ts"
import * as AgentLines from "./AgentLines.ts"
import * as AgentModel from "./AgentModel.ts"
import * as Approve from "./Approve.ts"
import * as Checkpoints from "./Checkpoints.ts"
import * as EventLines from "./EventLines.ts"
import * as Sessions from "./Sessions.ts"

/** What the command line says. */
export interface Input extends AgentConfig.Given {
  /** The task; `-`: it is on standard input. */
  readonly task: string
  readonly json: boolean
  readonly model: AgentModel.Options
  /** File with the system prompt. */
  readonly system: Option.Option<string>
  readonly root: string
  readonly checkpoints: Option.Option<string>
  readonly journal: Option.Option<string>
  readonly session: Sessions.Wanted
  readonly compaction: AgentExecutor.Compaction | undefined
  readonly limits: AgentLimits
  readonly approve: Approve.Approve
  /** Whether it may send other agents to look around. */
  readonly subAgents: boolean
}

/** Runs the operation; fails with the exit code that it has unless it finished. */
export const run = Effect.fnUntraced(function*(input: Input) {
  const { root } = input
  const { resolve } = yield* Path.Path
  const told = yield* AgentConfig.read(input, toolNames)
  yield* PolicyTiers.warnLocked(told.options.policy)
  const model = yield* AgentModel.make(input.model)
  const approve = yield* Approve.answeredBy(input.approve)
  const system = Option.isSome(input.system) ? yield* Files.read(input.system.value) : part(resolve(root), approve)
  const prompt = input.task === "-" ? yield* Files.readStdin(noTask) : input.task
  if (prompt.trim() === "") return yield* wrong("The task is empty.")
  const session = yield* Sessions.find(input.session, root)
  const protect = [
    ...[...Option.toArray(input.config), ...Option.toArray(input.mcp)].map((it) => resolve(it)),
    ...told.protect
  ]
  const checkpoints = yield* Checkpoints.layerOf(input.checkpoints, root)
  const record = Option.isSome(input.journal) ? yield* JournalAt.layerOutside(input.journal.value, root) : Layer.empty
  const beside = yield* BesidePolicy.layerOf(told.folder)
  const tools = executorLayer(input, told, protect).pipe(Layer.provide(beside))
  const agents = AgentExecutor.layer.pipe(
    Layer.provideMerge(tools),
    Layer.provide(model.layer),
    Layer.provide(session === undefined ? Layer.empty : Layer.succeed(Transcripts, session.transcripts)),
    Layer.provide(checkpoints ?? Layer.empty),
    Layer.provide(record),
    Layer.provideMerge(Approve.layerOf(approve))
  )
  const { compaction, limits } = input
  const mode = approve === "deny" ? "Automatic" : "Interactive"
  const options: AgentExecutor.Options = { prompt, system, mode, limits, compaction, session: session?.name }
  yield* operate(options, yield* writerOf(input.json), model.withoutKey, approve).pipe(Effect.provide(agents))
}, (effect) =>
  Effect.catchTags(effect, {
    ConfigurationError: (error) => Effect.fail(wrong(describe(error))),
    McpServerError: (error) => Effect.fail(wrong(inLines(error.message)))
  }))

const noTask =
  "Standard input is a terminal. Pipe the task in, or pass it as an argument: tool-executor agent \"What is in here?\"."

/** The default system prompt. */
const part = (root: string, approve: Approve.Approve): string =>
  `You are an agent started from a command line. Your tools work in the folder ${root}. Nobody can answer questions ` +
  `${
    approve === "ask" ? "while you work, but a person may approve or deny calls" : "or approve calls while you work"
  }. ` +
  "Do as much of the task as you can, then report what you did and what is left. " +
  "Do not repeat a denied call; find another way, or report which call needs permission."

const writerOf = Effect.fnUntraced(function*(json: boolean) {
  if (json) return AgentLines.json
  const stdio = yield* Stdio.Stdio
  return AgentLines.text({ color: yield* EventLines.wantsColor, isShown: yield* stdio.stdoutIsTerminal })
})

const operate = Effect.fnUntraced(
  function*(
    options: AgentExecutor.Options,
    write: AgentLines.Writer,
    withoutKey: (text: string) => string,
    approve: Approve.Approve
  ) {
    const screen = yield* Semaphore.make(1)
    yield* Approve.answering(approve, screen)
    const agents = yield* AgentExecutor.AgentExecutor
    const agent = yield* agents.start(options)
    const interruption = yield* Interruption
    let wasTold = false
    const stopping = Effect.flatMap(interruption, (reason) => {
      wasTold = true
      return agent.cancel(reason)
    })
    yield* Effect.forkScoped(stopping, { startImmediately: true })
    let failure: CliFailure | undefined
    let hadNoApprover = false
    // nothing is written into a question
    yield* Stream.runForEach(agent.events, (event) =>
      screen.withPermits(1)(Effect.suspend(() => {
        if (event._tag === "ToolCallComplete") hadNoApprover ||= FolderTools.hadNoApprover(event.outcome)
        const { stderr = "", stdout = "" } = write(event)
        const saying = Files.printError(withoutKey(stderr))
        if (stdout === "" || failure !== undefined) return saying
        return Effect.andThen(
          saying,
          Effect.catch(Files.write(withoutKey(stdout)), (error) => {
            failure = error
            return agent.cancel("the output is closed")
          })
        )
      })))
    const { reason } = yield* agent.result
    if (hadNoApprover) yield* Files.printError(Approve.whyDenied(approve))
    yield* FolderTools.cleanUp(yield* ToolExecutor.ToolExecutor)
    if (failure !== undefined) return yield* failure
    if (isDone(reason)) return
    // a provider may have a part in it
    const explanation = inLines(withoutKey(AgentEvent.describe(reason)))
    if (!wasTold) return yield* new CliFailure({ code: 1, explanation })
    yield* Files.printError(`${explanation}\n`)
    return yield* Effect.interrupt
  },
  Effect.scoped
)

const isDone = ({ _tag }: EndReason): boolean => _tag === "Finished" || _tag === "Exited"

const dispatch = DispatchAgent.make()

/** Names of the tools that are there without servers. */
const toolNames: ReadonlyArray<string> = [
  ...Config.toolNames,
  ...Object.keys(ArtifactTools.toolkit.tools),
  dispatch.tool.name
]

/** Layer of the executor. Servers are connected to before it is there. */
const executorLayer = (
  { root, subAgents }: Input,
  { folder, options, servers, unverified }: AgentConfig.AgentConfig,
  protect: ReadonlyArray<string>
) => {
  const layerWith = (tools: FolderTools.FolderTools) => {
    const toolkits = [...tools.toolkits, ArtifactTools.toolkit]
    const about = { servers, tools: options.tools, unverified }
    const handlers = subAgents
      ? JoinedTools.layer([...toolkits, dispatch.toolkit], about).pipe(Layer.provide(dispatch.layer))
      : JoinedTools.layer(toolkits, about)
    return ToolExecutor.layer.pipe(
      Layer.provide(LocalExecutor.layerGates(options)),
      Layer.provide(handlers),
      Layer.provide(Layer.merge(tools.layer, ArtifactTools.layer))
    )
  }
  return Layer.unwrap(Effect.map(FolderTools.make(root, folder, protect), layerWith))
}
