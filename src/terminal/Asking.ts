/** Answers approval requests: a person at the terminal, one request after the other. */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { userInfo } from "node:os"
import * as Approvals from "../core/gates/Approvals.ts"
import * as Approving from "../core/gates/Approving.ts"
import { escape } from "../internal/escape.ts"
import * as ApprovalPrompt from "./ApprovalPrompt.ts"
import { type Keyboard, type Take, Terminal } from "./Keyboard.ts"

/** Approves whatever is asked, each call once; does not end. */
export const approveAll: Effect.Effect<never, never, Approvals.Approvals> = Effect.gen(function*() {
  const approvals = yield* Approvals.Approvals
  // nobody here is one of several people, or fills in a form
  return yield* whenever(
    approvals,
    ({ id }) => Effect.catch(approvals.answer(id, { _tag: "ApproveOnce" }), () => approvals.giveUp(id))
  )
})

/** Asks the person at the terminal; does not end. Nobody else writes to the screen meanwhile. */
export const askPerson = (screen: Semaphore.Semaphore): Effect.Effect<never, never, Approvals.Approvals> =>
  Effect.gen(function*() {
    const approvals = yield* Approvals.Approvals
    const terminal = yield* Terminal
    return yield* whenever(approvals, (request) =>
      screen.withPermits(1)(Effect.gen(function*() {
        const waiting = Effect.map(approvals.list, (it) => it.length - 1)
        const give = (answer: Approvals.Answer) => approvals.answer(request.id, answer, request, person())
        const answered = ask(terminal, request, { give, waiting })
        const isAnswered = yield* Effect.raceFirst(answered, Effect.as(gone(approvals, request), true))
        if (!isAnswered) yield* approvals.giveUp(request.id)
      })))
  })

/** Who answers here: the user of the operating system. */
export const person = () => ({ name: userInfo().username })

/** Does something about the oldest request that is pending, again and again. */
const whenever = (
  approvals: Approvals.Approvals["Service"],
  act: (request: Approvals.ApprovalRequest) => Effect.Effect<void>
): Effect.Effect<never> =>
  Effect.forever(Effect.gen(function*() {
    yield* until(approvals, (pending) => pending.length > 0)
    const [oldest] = yield* approvals.list
    if (oldest !== undefined) yield* act(oldest)
  }))

/** Waits until a request is no longer pending. */
const gone = (approvals: Approvals.Approvals["Service"], { id }: Approvals.ApprovalRequest): Effect.Effect<void> =>
  until(approvals, (pending) => !pending.some((it) => it.id === id))

/** Waits until something holds of the pending requests: looks now, after each change, and now and then. */
const until = (
  { changes, list }: Approvals.Approvals["Service"],
  holds: (pending: ReadonlyArray<Approvals.ApprovalRequest>) => boolean
): Effect.Effect<void> =>
  Stream.merge(changes, Stream.tick("200 millis")).pipe(
    Stream.mapEffect(() => list),
    Stream.takeUntil(holds),
    Stream.runDrain
  )

/** What happens with an answer. */
interface Asked {
  /** Gives the answer to whoever waits for it. */
  readonly give: (answer: Approvals.Answer) => Effect.Effect<void, Approvals.ApprovalError>
  /** Number of other pending requests. */
  readonly waiting: Effect.Effect<number>
}

/**
 * Shows one request and gives the person's answer to it. False if nobody is there, or the person alone cannot approve
 * it. Interruption says that the request was resolved elsewhere.
 */
export const ask = (take: Take, request: Approvals.ApprovalRequest, asked: Asked): Effect.Effect<boolean> =>
  Effect.scoped(Effect.flatMap(take, (keyboard) => {
    if (Option.isNone(keyboard)) return Effect.succeed(false)
    const { write } = keyboard.value
    return decide(keyboard.value, request, asked).pipe(
      Effect.onInterrupt(() => write(`\n${ApprovalPrompt.over}\n`)),
      Effect.catchCauseIf(
        (cause) => !Cause.hasInterruptsOnly(cause),
        // a person who cannot be shown a request cannot approve it
        () => Effect.as(Effect.ignore(asked.give({ _tag: "Deny", reason: "the request could not be shown" })), true)
      )
    )
  }))

const decide = Effect.fnUntraced(function*(
  keyboard: Keyboard,
  request: Approvals.ApprovalRequest,
  { give, waiting }: Asked
) {
  const shown = ApprovalPrompt.show(request, { waiting: yield* waiting, ...keyboard })
  const { _tag } = Approving.turnOf(request, { _tag: "ApproveOnce" }, person(), yield* Clock.currentTimeMillis)
  if (_tag !== "Ends") {
    yield* keyboard.write(shown + ApprovalPrompt.notAlone(request, person().name))
    return false
  }
  let before = shown
  while (true) {
    const key = yield* keyboard.key(before + ApprovalPrompt.choices(request, keyboard.columns))
    before = ""
    if (Option.isNone(key)) return false
    const given = yield* answerOf(keyboard, request, key.value)
    const answer = given === undefined ? undefined : yield* filled(keyboard, request, given)
    if (answer === undefined) continue
    const failure = yield* Effect.match(give(answer), { onSuccess: () => undefined, onFailure: (error) => error })
    yield* keyboard.write(`${failure === undefined ? ApprovalPrompt.said(answer) : escape(failure.message)}\n`)
    if (failure?.reason !== "WrongData") return true
  }
})

/** The answer with the data of the form, if the request has one. */
const filled = Effect.fnUntraced(function*(
  keyboard: Keyboard,
  { form }: Approvals.ApprovalRequest,
  answer: Approvals.Answer
): Effect.fn.Return<Approvals.Answer | undefined> {
  if (form === undefined || answer._tag === "Deny") return answer
  const data = yield* jsonLine(keyboard, "data", "")
  return data === undefined ? undefined : { ...answer, data }
})

/** What a key means; `undefined` if it is not an answer yet. */
const answerOf = Effect.fnUntraced(function*(
  keyboard: Keyboard,
  request: Approvals.ApprovalRequest,
  key: string
): Effect.fn.Return<Approvals.Answer | undefined> {
  const isRemembered = request.remember !== "call"
  switch (key) {
    case "y":
      return { _tag: "ApproveOnce" }
    case "h":
      return isRemembered ? { _tag: "ApproveForDuration", duration: "1 hour" } : undefined
    case "s":
      return isRemembered ? { _tag: "ApproveForScope" } : undefined
    case "n":
    case "return":
    case "enter":
      return { _tag: "Deny" }
    case "d": {
      const reason = yield* keyboard.line("\nreason: ", "")
      return Option.match(reason, {
        onNone: () => undefined,
        onSome: (text) => text.trim() === "" ? { _tag: "Deny" } : { _tag: "Deny", reason: text.trim() }
      })
    }
    case "e":
      return request.isRunning ? undefined : yield* edited(keyboard, request)
    case "v":
      yield* keyboard.write(ApprovalPrompt.show(request, { waiting: 0, ...keyboard, whole: true }))
      return undefined
    default: {
      const pattern = request.wider?.[/^[1-9]$/.test(key) ? Number(key) - 1 : -1]
      return pattern === undefined ? undefined : { _tag: "ApproveForScope", scope: { pattern } }
    }
  }
})

/** The arguments as the person changes them. */
const edited = (
  keyboard: Keyboard,
  { args }: Approvals.ApprovalRequest
): Effect.Effect<Approvals.Answer | undefined> =>
  Effect.map(
    jsonLine(keyboard, "arguments", ApprovalPrompt.json(args)),
    (params) => params === undefined ? undefined : { _tag: "ApproveOnce", params }
  )

/** A line that the person types, until it is JSON. */
const jsonLine = Effect.fnUntraced(function*(
  keyboard: Keyboard,
  name: string,
  given: string
): Effect.fn.Return<Schema.Json | undefined> {
  let text = given
  while (true) {
    const line = yield* keyboard.line(`\n${name}: `, text)
    if (Option.isNone(line) || line.value.trim() === "") return undefined
    const value = decode(line.value)
    if (Option.isSome(value)) return value.value
    text = line.value
    yield* keyboard.write("This is not valid JSON. Correct it, or clear the line to go back.\n")
  }
})

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Json))
