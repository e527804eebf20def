/** The state of one operation, and how it is stopped and steered. */
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
import type { Caller, Common, EndReason, OwnEvent } from "./AgentEvent.ts"
import type { BackgroundCalls } from "./BackgroundCalls.ts"
import * as Conversation from "./Conversation.ts"
import type { OperationTree } from "./OperationTree.ts"
import type { Transcript, TranscriptError } from "./Transcripts.ts"
import * as UserMessages from "./UserMessages.ts"

/** The checked options of an operation. */
export interface Given {
  readonly id: string
  /** Prefix of the names of its processes: unique, also if an operation of the same name ran before. */
  readonly run: string
  readonly agentPath: ReadonlyArray<string>
  /** The call it works for; absent: it is the root. */
  readonly caller: Caller | undefined
  readonly executor: Executor
  readonly batch: string
  /** The tools it has; absent: all. */
  readonly tools: ReadonlyArray<string> | undefined
  /** Tools the model's provider executes. */
  readonly provided: ReadonlyArray<Tool.Any>
  readonly tree: OperationTree
  /** Answers its approval requests instead of the executor's approvers. */
  readonly approvals: Approvals["Service"] | "nobody" | undefined
  readonly system: string | undefined
  readonly meta: Readonly<Record<string, unknown>> | undefined
  readonly perHeartbeat: boolean
  readonly start: HostArguments
  readonly exit: HostArguments
  readonly toolChoice: "rules" | "auto"
  readonly retries: number
  readonly session: string | undefined
  /** What becomes of calls in the background when the agent is done. */
  readonly background: "wait" | "cancel"
  readonly transcript: Pick<Transcript, "append" | "messages"> | undefined
}

/** A message that arrived while the agent worked. */
export interface Said {
  readonly id: string
  readonly text: string
}

export class Operation {
  readonly given: Given
  private readonly context: Context.Context<never>
  private readonly clock: Clock.Clock
  /** The conversation; append-only. Others get copies. */
  readonly messages: Array<Prompt.Message>
  /** Ids of all calls of the conversation. */
  readonly callIds = new Set<string>()
  /** The model's last text. */
  text = ""
  /** The process that runs its calls. */
  private process: ToolProcess | undefined
  /** What it waits for, if it does nothing itself: a wave of its calls, or its calls in the background. */
  private waitsFor: "calls" | "background" | undefined
  /** The tools whose calls run in the background. */
  backgroundTools: ReadonlySet<string> = new Set()
  /** How many processes it has had. */
  processes = 0
  /** The batch of its calls: its own, or that of the operation it resumes. */
  batch: string
  /** Why it is stopping; set once. */
  stopped: EndReason | undefined
  /** It has ended and accepts no more messages. */
  isOver = false
  /** Messages the model has not read yet. */
  readonly queue: Array<Said> = []
  /** Ids of pending approval requests, including those of sub-agents. */
  private readonly questions = new Set<string>()
  private saidSoFar = 0
  private madeIds = 0
  /** The running effect, abandoned when the operation is stopped. */
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

  get background(): BackgroundCalls {
    return this.given.tree.background
  }

  /** Approval of a call is pending. */
  get isAsked(): boolean {
    return this.questions.size > 0
  }

  get turn(): number {
    return this.given.tree.spending.turn
  }

  now(): number {
    return this.clock.currentTimeMillisUnsafe()
  }

  /** Reports an event of the agent itself. */
  report<Event extends OwnEvent>(event: Omit<Event, keyof Common>): void {
    const { agentPath, id, tree } = this.given
    // TypeScript cannot rebuild the event type from its parts
    tree.report({ ...event, agentPath, operation: id, turn: this.turn, at: this.now() } as unknown as OwnEvent)
  }

  /** Nine letters and digits, as Mistral requires. */
  newCallId = (): string => {
    let id: string
    do id = `call${(++this.madeIds).toString(36).padStart(5, "0")}`
    while (this.callIds.has(id))
    return id
  }

  /** Appends to the conversation and stores it before anything depends on it. */
  append(...messages: ReadonlyArray<Prompt.Message>): Effect.Effect<void, TranscriptError> {
    if (messages.length === 0) return Effect.void
    this.messages.push(...messages)
    this.noteIds(messages)
    return this.given.transcript?.append(messages) ?? Effect.void
  }

  get history(): Prompt.Prompt {
    return Prompt.fromMessages([...this.given.tree.branch.carriedIn(this.messages)])
  }

  /** Queues a message for the next turn; `settles`: approval requests are denied until it is taken. */
  say(text: string, name?: string, settles = false): boolean {
    if (this.isOver) return false
    const said = { id: name ?? `${this.given.id}-said-${++this.saidSoFar}`, text }
    this.queue.push(said)
    if (settles) this.given.tree.settling.add(said.id)
    this.report({ _tag: "MessageQueued", ...said })
    this.background.changed()
    return true
  }

  /** Takes messages back that the model has not read. */
  unsay(ids: ReadonlySet<string>): void {
    const kept = this.queue.filter(({ id }) => !ids.has(id))
    this.queue.splice(0, this.queue.length, ...kept)
  }

  /** Receives a message of its caller, which is stored until it is read. One of the same id is received once. */
  receives(text: string, id: string): Effect.Effect<boolean, TranscriptError> {
    const { branch } = this.given.tree
    return Effect.suspend(() =>
      this.isOver ? Effect.succeed(false) : branch.hasReceived(id) ? Effect.succeed(true) : Effect.map(
        branch.receives({ id, text }),
        () => this.say(text, id)
      )
    )
  }

  /** Moves queued messages into the conversation. */
  hear(): Effect.Effect<void, TranscriptError> {
    const heard = this.queue.splice(0)
    if (heard.length === 0) return Effect.void
    for (const said of heard) {
      this.given.tree.settling.delete(said.id)
      this.report({ _tag: "MessageTaken", ...said })
    }
    const messages = heard.map(({ id, text }) => Conversation.input(text, id))
    const told = this.process === undefined
      ? Effect.void
      : UserMessages.hear(messages, this.process)
    return Effect.andThen(told, this.append(...messages))
  }

  /** Stops it: no call starts, and running calls are cancelled. The first reason counts. */
  stop(reason: EndReason): void {
    if (this.stopped !== undefined || this.isOver) return
    this.stopped = reason
    this.under?.leave()
    this.cancelCalls()
  }

  /** What its calls read if it is stopping. */
  get stopText(): string | undefined {
    const { stopped } = this
    return stopped?._tag === "Cancelled" ? stopped.reason : stopped && "a limit of the operation was reached"
  }

  /** Runs its calls in this process from now on. */
  runs(process: ToolProcess): void {
    this.process = process
    this.cancelCalls()
  }

  private cancelCalls(): void {
    const { process, stopText: text } = this
    if (process === undefined || text === undefined) return
    Effect.runForkWith(this.context)(Effect.andThen(process.cancel(text), this.background.cancel(text)))
  }

  /** Waits for its calls: a wave, or those in the background. */
  waiting<A, E, R>(waitsFor: "calls" | "background", effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      this.waitsFor = waitsFor
      return effect
    }).pipe(Effect.ensuring(Effect.sync(() => {
      this.waitsFor = undefined
    })))
  }

  /** Whether nothing runs but calls that wait for approval, also of sub-agents and in the background. */
  get isWaiting(): boolean {
    const { process, waitsFor } = this
    if (process === undefined || waitsFor === undefined || this.stopped !== undefined) return false
    // every wave that should be under way must be there, and wait
    const waves = new Map(waitsFor === "calls" ? [[process, 1]] : [])
    for (const it of this.background.running) waves.set(it.process, (waves.get(it.process) ?? 0) + 1)
    return waves.size > 0 && Array.from(waves).every(([it, count]) => it.waiting() === count)
  }

  /** Waits for an effect until the operation is stopped; then interrupts it without waiting. */
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

  /** The time limit is paused while approval is pending. */
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

/** The time limit; paused while approval is pending. */
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
