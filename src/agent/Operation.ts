/** The state of one operation, and how it is stopped and spoken to. */
import * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import type { Service as Executor } from "../core/contract/Executor.ts"
import type { HostArguments, ToolProcess } from "../core/contract/ToolProcess.ts"
import type { Approvals } from "../core/gates/Approvals.ts"
import * as Detached from "../internal/detached.ts"
import type { Common, EndReason, OwnEvent } from "./AgentEvent.ts"
import type { OperationTree } from "./OperationTree.ts"
import type { Transcript, TranscriptError } from "./Transcripts.ts"

/** What an operation is given, checked. */
export interface Given {
  readonly id: string
  readonly agentPath: ReadonlyArray<string>
  readonly executor: Executor
  readonly batch: string
  /** The tools that it has; absent: all. */
  readonly tools: ReadonlyArray<string> | undefined
  /** Tools that the provider of the model executes. */
  readonly provided: ReadonlyArray<Tool.Any>
  readonly tree: OperationTree
  /** Who is asked about its calls, in the place of those whom the executor has. */
  readonly approvals: Approvals["Service"] | "nobody" | undefined
  readonly system: string | undefined
  readonly meta: Readonly<Record<string, unknown>> | undefined
  readonly perHeartbeat: boolean
  readonly start: HostArguments
  readonly exit: HostArguments
  readonly toolChoice: "rules" | "auto"
  readonly retries: number
  /** The name of its session, if it has one. */
  readonly session: string | undefined
  readonly transcript: Transcript | undefined
}

/** Something that somebody said while the agent worked. */
export interface Said {
  readonly id: string
  readonly text: string
}

/** The state of one operation. */
export class Operation {
  readonly given: Given
  private readonly context: Context.Context<never>
  private readonly clock: Clock.Clock
  /** The conversation; it only grows, and what others get of it does not grow with it. */
  readonly messages: Array<Prompt.Message>
  /** Ids that calls of the conversation have. */
  readonly callIds = new Set<string>()
  /** What the model said last. */
  text = ""
  /** What its calls are run by now. */
  private process: ToolProcess | undefined
  /** How many there were. */
  processes = 0
  /** The batch of its calls: its own, or that of the one that it goes on with. */
  batch: string
  /** Why it is to end, once somebody or a limit has said so; it stays. */
  stopped: EndReason | undefined
  /** It is over: nothing is said to it any more. */
  isOver = false
  /** What was said and the model has yet to hear. */
  readonly queue: Array<Said> = []
  /** The requests that people are being asked about, its sub-agents' included. */
  private readonly questions = new Set<string>()
  private saidSoFar = 0
  private madeIds = 0
  /** What is under way and is left alone once the operation is stopped. */
  private under: { readonly leave: () => void } | undefined
  private readonly time: Time

  constructor(
    given: Given,
    history: ReadonlyArray<Prompt.Message>,
    context: Context.Context<never>,
    clock: Clock.Clock
  ) {
    this.given = given
    this.batch = given.batch
    this.messages = [...history]
    this.context = context
    this.clock = clock
    this.time = new Time(given.tree.spending.limits.timeMillis, clock, context, () => {
      const max = given.tree.spending.limits.timeMillis
      this.stop({ _tag: "LimitReached", limit: "time", max })
    })
    this.noteIds(history)
  }

  private noteIds(messages: ReadonlyArray<Prompt.Message>): void {
    for (const message of messages) {
      if (message.role !== "assistant") continue
      for (const part of message.content) if (part.type === "tool-call") this.callIds.add(part.id)
    }
  }

  /** Which turn of its model it is. */
  get turn(): number {
    return this.given.tree.spending.turns
  }

  now(): number {
    return this.clock.currentTimeMillisUnsafe()
  }

  /** Tells an event of the agent's own. */
  report<Event extends OwnEvent>(event: Omit<Event, keyof Common>): void {
    const { agentPath, id, tree } = this.given
    // the compiler does not put the fields of one event together again
    tree.report({ ...event, agentPath, operation: id, turn: this.turn, at: this.now() } as unknown as OwnEvent)
  }

  /** Of nine letters and digits: Mistral takes no others. */
  newCallId = (): string => {
    let id: string
    do id = `call${(++this.madeIds).toString(36).padStart(5, "0")}`
    while (this.callIds.has(id))
    return id
  }

  /** Adds to the conversation, and keeps it before anything follows from it. */
  append(...messages: ReadonlyArray<Prompt.Message>): Effect.Effect<void, TranscriptError> {
    if (messages.length === 0) return Effect.void
    this.messages.push(...messages)
    this.noteIds(messages)
    return this.given.transcript?.append(messages) ?? Effect.void
  }

  /** The conversation so far. */
  get history(): Prompt.Prompt {
    return Prompt.fromMessages([...this.messages])
  }

  user(text: string): Prompt.Message {
    return Prompt.userMessage({ content: [Prompt.textPart({ text })] })
  }

  /** Says something; it is heard before the next turn. */
  say(text: string): boolean {
    if (this.isOver) return false
    const said = { id: `${this.given.id}-said-${++this.saidSoFar}`, text }
    this.queue.push(said)
    this.report({ _tag: "MessageQueued", ...said })
    return true
  }

  /** Puts what was said into the conversation. */
  hear(): Effect.Effect<void, TranscriptError> {
    const heard = this.queue.splice(0)
    if (heard.length === 0) return Effect.void
    for (const said of heard) this.report({ _tag: "MessageTaken", ...said })
    return this.append(...heard.map(({ text }) => this.user(text)))
  }

  /** Ends it: no call starts from now on, and what is under way is cancelled. The first reason counts. */
  stop(reason: EndReason): void {
    if (this.stopped !== undefined || this.isOver) return
    this.stopped = reason
    this.under?.leave()
    this.cancelCalls()
  }

  /** From now on its calls are run by this process. */
  runs(process: ToolProcess): void {
    this.process = process
    this.cancelCalls()
  }

  private cancelCalls(): void {
    const { process, stopped } = this
    if (process === undefined || stopped === undefined) return
    const text = stopped._tag === "Cancelled" ? stopped.reason : "a limit of the operation was reached"
    Effect.runForkWith(this.context)(process.cancel(text))
  }

  /** Waits for an effect, or until the operation is stopped: then it is interrupted and not waited for. */
  unlessStopped<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<Exit.Exit<A, E> | undefined> {
    return Effect.contextWith((context: Context.Context<never>) =>
      Effect.callback<Exit.Exit<A, E> | undefined>((resume) => {
        if (this.stopped !== undefined) return resume(Effect.undefined)
        const wait = Detached.start(effect, context, Infinity, (exit) => {
          this.under = undefined
          resume(Effect.succeed(exit))
        })
        this.under = {
          leave: () => {
            this.under = undefined
            wait.stop()
            resume(Effect.undefined)
          }
        }
        return Effect.sync(() => {
          this.under = undefined
          wait.stop()
        })
      })
    )
  }

  /** People are being asked, or have answered: meanwhile the time stands still. */
  asked(id: string): void {
    this.questions.add(id)
    this.time.pause(this.questions.size > 0)
  }

  answered(id: string): void {
    if (this.questions.delete(id)) this.time.pause(this.questions.size > 0)
  }

  begins(): void {
    this.time.pause(false)
  }

  ends(): void {
    this.isOver = true
    this.time.end()
  }
}

// Utilities

/** The time that an operation has; it stands still while people are asked. */
class Time {
  private left: number
  private readonly clock: Clock.Clock
  private readonly context: Context.Context<never>
  private readonly up: () => void
  private since: number | undefined
  private timer: Fiber.Fiber<void> | undefined

  constructor(millis: number, clock: Clock.Clock, context: Context.Context<never>, up: () => void) {
    this.left = millis
    this.clock = clock
    this.context = context
    this.up = up
  }

  pause(isPaused: boolean): void {
    if (this.left === Infinity) return
    const now = this.clock.currentTimeMillisUnsafe()
    if (isPaused) {
      if (this.since === undefined) return
      this.left -= now - this.since
      this.end()
    } else if (this.since === undefined) {
      this.since = now
      this.timer = Effect.runForkWith(this.context)(
        Effect.andThen(Effect.sleep(Math.max(0, this.left)), Effect.sync(this.up))
      )
    }
  }

  end(): void {
    this.since = undefined
    this.timer?.interruptUnsafe()
    this.timer = undefined
  }
}
