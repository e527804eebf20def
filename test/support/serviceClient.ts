/** A client of the service: runs a program at whatever runners there are, and keeps what it was told. */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { User } from "../../src/server/api/ApiAccess.ts"
import type { ApprovalSummary } from "../../src/server/api/ApiApprovals.ts"
import type { Wave, WaveSse } from "../../src/server/api/ApiModels.ts"
import type { SessionDirectory } from "../../src/server/sessions/SessionDirectory.ts"
import type { Owner } from "../../src/server/users/Principals.ts"
import type { SeededRandom } from "../../src/testing/SeededRandom.ts"
import { message } from "./directoryWorld.ts"
import type { Call, Program, Said, Step } from "./servicePrograms.ts"
import type { Runner } from "./serviceRunners.ts"
import type * as World from "./serviceWorld.ts"

type Directory = SessionDirectory["Service"]

/** An answer that counted. */
export interface Given {
  readonly request: string
  readonly call: string
  readonly person: string
  readonly says: Said
  readonly how: string
}

/** Whoever answered too late, and what they were told. */
export interface Told {
  readonly request: string
  readonly person: string
  readonly by: string | undefined
  readonly how: string | undefined
}

/** A wave that was submitted. */
export interface Submitted {
  readonly calls: ReadonlyArray<Call>
  /** Calls that were cancelled, and when that was confirmed. */
  readonly cancelled: Map<string, number>
  /** What each reader has seen. */
  readonly readers: Array<ReadonlyArray<WaveSse>>
  result: Wave | undefined
}

/** No runner has answered for so long: the promise is broken. */
const patience = 120_000

/** The answer was lost: ask again. */
class Lost extends Schema.TaggedError<Lost>()("Lost", {}) {}

/** Something that a runner says when it cannot answer now. */
const isForNow = (error: { readonly _tag: string }) => ["Lost", "Unavailable", "TooMany"].includes(error._tag)

/** One session of a user, with its client. */
export class Client {
  readonly owner: Owner
  readonly waves = new Map<string, Submitted>()
  readonly given: Array<Given> = []
  readonly told: Array<Told> = []
  readonly problems: Array<string> = []
  readonly log: Array<string> = []
  isEnded = false
  private readonly random: SeededRandom
  private readonly runners: () => ReadonlyArray<Runner>
  private readonly ledger: World.Ledger
  private readonly since = Date.now()

  constructor(owner: Owner, runners: () => ReadonlyArray<Runner>, random: SeededRandom, ledger: World.Ledger) {
    this.owner = owner
    this.runners = runners
    this.random = random
    this.ledger = ledger
  }

  /** Notes what happens, for whoever looks at a program that failed. */
  note(text: string): void {
    this.log.push(`${String(Date.now() - this.since).padStart(6)} ${text}`)
  }

  problem(text: string): void {
    this.note(`PROBLEM ${text}`)
    this.problems.push(text)
  }

  /** A person, who approves for the user and reads what they do. */
  person(name: string): User {
    const { user } = this.owner
    return { name, run: false, approve: [user], records: [user], operate: false }
  }

  /** Asks one runner after another until one of them answers. */
  ask<A, E extends { readonly _tag: string }>(
    what: string,
    request: (at: Directory) => Effect.Effect<A, E>
  ): Effect.Effect<Result.Result<A, E>> {
    const until = Date.now() + patience
    const once = Effect.suspend(() => {
      const open = this.runners().filter(({ isIn }) => isIn)
      if (open.length === 0) return Effect.fail(new Lost())
      const { directory, gone } = this.random.pick(open)
      return Effect.raceFirst(request(directory), Effect.andThen(Deferred.await(gone), Effect.fail(new Lost())))
    })
    const attempt = Effect.flatMap(Effect.exit(once), (exit): Effect.Effect<Result.Result<A, E> | undefined> => {
      if (Exit.isSuccess(exit)) return Effect.succeed(Result.succeed(exit.value))
      const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
      if (error === undefined && !Cause.hasInterruptsOnly(exit.cause)) {
        this.problem(`${what}: ${Cause.pretty(exit.cause)}`)
      }
      if (error !== undefined && !isForNow(error)) return Effect.succeed(Result.fail(error as E))
      if (Date.now() > until) {
        this.problem(`${what}: nobody answers: ${Cause.pretty(exit.cause).slice(0, 300)}`)
        return Effect.die(new Error("nobody answers"))
      }
      return Effect.as(Effect.sleep("50 millis"), undefined)
    })
    return Effect.flatMap(
      Effect.timeoutOption(Effect.repeat(attempt, { until: (it) => it !== undefined }), patience + 40_000),
      (answer) => {
        if (Option.isSome(answer) && answer.value !== undefined) return Effect.succeed(answer.value)
        this.problem(`${what}: hangs`)
        return Effect.die(new Error(`${what} hangs`))
      }
    )
  }

  /** Asks what must be answered with success. */
  sure<A, E extends { readonly _tag: string }>(
    what: string,
    request: (at: Directory) => Effect.Effect<A, E>
  ): Effect.Effect<A | undefined> {
    return Effect.map(this.ask(what, request), (result) => {
      if (Result.isSuccess(result)) return result.success
      this.problem(`${what}: ${JSON.stringify(result.failure)}`)
      return undefined
    })
  }

  /** Runs a program, with readers beside it. */
  readonly run = (program: Program): Effect.Effect<void> =>
    Effect.gen({ self: this }, function*() {
      for (const step of program) {
        this.note(JSON.stringify(step).slice(0, 300))
        yield* this.step(step)
      }
    })

  private readonly step = (step: Step): Effect.Effect<unknown> => {
    const { owner } = this
    switch (step._tag) {
      case "Submit": {
        this.waves.set(step.wave, {
          calls: step.calls,
          cancelled: new Map(),
          readers: [],
          result: undefined
        })
        const once = this.submit(step.wave, step.calls)
        return step.twice ? Effect.all([once, once], { concurrency: "unbounded" }) : once
      }
      case "Again":
        return this.submit(step.wave, this.waves.get(step.wave)!.calls)
      case "Conflict":
        return Effect.map(
          this.ask(
            "conflict",
            (at) =>
              at.submit(owner, { wave: step.wave, message: messageOf([{ key: "other", tool: "look", does: "work" }]) })
          ),
          (result) => {
            if (Result.isSuccess(result) || result.failure._tag !== "WaveConflict") {
              this.problem(`another message under ${step.wave} was not refused: ${JSON.stringify(result)}`)
            }
          }
        )
      case "Answer":
        return Effect.flatMap(this.pending(step.person), (open) => {
          const request = open[step.nth % Math.max(1, open.length)]
          if (request === undefined) return Effect.void
          const first = this.answer(request, step.person, step.says)
          const { second } = step
          return second === undefined ? first : Effect.all([first, this.answer(request, second.person, second.says)], {
            concurrency: "unbounded"
          })
        })
      case "Cancel": {
        const wave = this.waves.get(step.wave)!
        const call = wave.calls.find(({ key }) => key === step.call)
        const calls = call === undefined ? wave.calls : [call]
        for (const { key } of calls) wave.cancelled.set(key, Infinity)
        const of = { reason: "changed their mind", ...call === undefined ? {} : { callId: call.key } }
        return Effect.map(this.sure(`cancel ${step.wave}`, (at) => at.cancel(owner, step.wave, of)), () => {
          this.note("cancelled")
          for (const { key } of calls) wave.cancelled.set(key, Date.now())
        })
      }
      case "Free":
        return Effect.sync(() => this.ledger.free(step.key))
      case "Revoke":
        return Effect.flatMap(
          this.sure("grants", (at) => at.grants(this.person("bob"))),
          (grants = []) =>
            Effect.forEach(
              grants,
              ({ id }) =>
                Effect.map(this.ask("revoke", (at) => at.revoke(owner, id)), (result) => {
                  if (Result.isFailure(result) && result.failure._tag !== "NotFound") {
                    this.problem(`revoke: ${JSON.stringify(result.failure)}`)
                  }
                })
            )
        )
      case "Read":
        return Effect.all([
          this.sure("wave", (at) => at.wave(owner, step.wave)),
          this.sure("waves", (at) => at.waves(this.person("bob"))),
          this.sure("happened", (at) => at.happened(owner, step.wave, 0)),
          this.sure("journal", (at) => at.journal(this.person("bob"), { limit: 20 })),
          this.sure("calls", (at) => at.journalCalls(this.person("bob"), {}))
        ])
      case "Pause":
        return Effect.sleep(step.millis)
      case "EndSession":
        this.isEnded = true
        // the answer to an earlier attempt may have been lost
        return Effect.map(this.ask("end", (at) => at.endSession(owner)), (result) => {
          if (Result.isFailure(result) && result.failure._tag !== "NotFound") {
            this.problem(`end: ${JSON.stringify(result.failure)}`)
          }
        })
    }
  }

  private submit(name: string, calls: ReadonlyArray<Call>) {
    return Effect.map(
      this.sure(`submit ${name}`, (at) => at.submit(this.owner, { wave: name, turn: "t", message: messageOf(calls) })),
      (info) => {
        if (info !== undefined && info.calls !== calls.length) this.problem(`${name} has ${info.calls} calls`)
      }
    )
  }

  /** The requests of this session that somebody may answer. */
  pending(person: string): Effect.Effect<ReadonlyArray<ApprovalSummary>> {
    return Effect.map(
      this.sure("approvals", (at) => at.approvals(this.person(person))),
      (it) => it?.open.filter(({ session }) => session === this.owner.session) ?? []
    )
  }

  /** Says something to a request, and keeps what came of it. */
  answer({ callId, hash, id }: ApprovalSummary, person: string, says: Said): Effect.Effect<void> {
    const answer = says === "ApproveForScope" ? { _tag: says, scope: "tool" as const } : { _tag: says }
    return Effect.map(
      this.ask(`answer ${callId}`, (at) => at.answer(this.person(person), { id, hash, answer })),
      (result) => {
        const base = { request: id, call: callId, person, says }
        if (Result.isSuccess(result)) {
          this.note(`${person} said ${says} to ${callId}: ${result.success.how}`)
          return void this.given.push({ ...base, how: result.success.how })
        }
        const error = result.failure
        this.note(`${person} said ${says} to ${callId}: ${JSON.stringify(error)}`)
        if (error._tag === "AlreadyEnded") {
          // the answer to an earlier attempt of their own was lost
          if (error.by === person) this.given.push({ ...base, how: error.how ?? "?" })
          else this.told.push({ request: id, person, by: error.by, how: error.how })
        } else if (error._tag === "NotAnswered") {
          const [first] = error.errors
          if (first?.reason !== "AlreadyApproved") this.problem(`answer to ${callId}: ${JSON.stringify(error)}`)
        } else this.problem(`answer to ${callId}: ${JSON.stringify(error)}`)
      }
    )
  }

  /** Reads the events of a wave to their end, over connections that break. */
  readonly read = (name: string): Effect.Effect<void> =>
    Effect.gen({ self: this }, function*() {
      const seen: Array<WaveSse> = []
      const isOver = () => seen.some(({ data }) => data._tag === "ToolsEnd" && data.agentPath.length === 0)
      let after: string | undefined
      while (!isOver()) {
        const most = this.random.chance(0.5) ? 1 + this.random.int(4) : 1_000
        const connection = this.ask(`watch ${name}`, (at) =>
          Effect.flatMap(at.watch(this.owner, name, after), (events) =>
            events.pipe(
              Stream.filter(({ data }) =>
                data._tag !== "Heartbeat"
              ),
              Stream.take(most),
              Stream.runForEach((item) =>
                Effect.sync(() => {
                  after = item.id ?? after
                  if (item.data._tag === "Reset") seen.length = 0
                  else if (item.data._tag !== "Stopping") seen.push(item)
                })
              )
            )))
        yield* connection
        if (!isOver()) yield* Effect.sleep("20 millis")
      }
      this.waves.get(name)!.readers.push(seen)
    })

  /** Answers everything until all waves have ended. */
  readonly settle = (): Effect.Effect<void> =>
    Effect.gen({ self: this }, function*() {
      const until = Date.now() + patience
      while (true) {
        for (const request of yield* this.pending("bob")) {
          yield* this.answer(request, "bob", this.random.chance(0.2) ? "Deny" : "ApproveOnce")
          if (request.tool === "wire") yield* this.answer(request, "cleo", "ApproveOnce")
        }
        let open: string | undefined
        for (const [name, wave] of this.waves) {
          if (wave.result !== undefined) continue
          const now = yield* this.sure(`wave ${name}`, (at) => at.wave(this.owner, name))
          if (now?.status === "ended") wave.result = now
          else open = `${name} is ${now?.status}`
        }
        if (open === undefined) return
        if (Date.now() > until) return this.problem(`does not end: ${open}`)
        yield* Effect.sleep("50 millis")
      }
    })
}

/** The message of a wave. */
const messageOf = (calls: ReadonlyArray<Call>) =>
  message(...calls.map(({ does, key, tool }) => [key, tool, { key, does }] as const))
