/**
 * The `SessionDirectory` of a cluster: what concerns one session goes to the runner that holds it, everything else is
 * read from the stores here.
 *
 * A message that its runner could not answer is sent again, to whoever holds the session then: names are given before,
 * so that it counts once.
 */
import * as Cause from "effect/Cause"
import type {
  AlreadyProcessingMessage,
  EntityNotAssignedToRunner,
  MailboxFull,
  PersistenceError
} from "effect/cluster/ClusterError"
import { Sharding } from "effect/cluster/Sharding"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { NotFound, Unavailable } from "../server/api/ApiProblems.ts"
import { named, SessionDirectory } from "../server/sessions/SessionDirectory.ts"
import * as Methods from "../server/sessions/SessionMethods.ts"
import { Moved } from "../server/sessions/SessionMethods.ts"
import { type Owner, toPrincipal } from "../server/users/Principals.ts"
import type { Hosted, Messages } from "./SessionHandlers.ts"
import { SessionEntity } from "./SessionMessages.ts"

/** Errors of the way to a session. */
type Lost = AlreadyProcessingMessage | EntityNotAssignedToRunner | MailboxFull | Moved | PersistenceError

/** Messages on their way. */
type Sent = {
  readonly [Name in keyof Messages]: (...payload: Parameters<Messages[Name]>) => OnItsWay<ReturnType<Messages[Name]>>
}

type OnItsWay<Answer> = Answer extends Effect.Effect<infer A, infer E> ? Effect.Effect<A, E | Lost>
  : Answer extends Stream.Stream<infer A, infer E> ? Stream.Stream<A, E | Lost>
  : never

/** Time in which a message has to be answered, moves of the session included. */
const patience = "30 seconds"

/** Between two attempts. */
const spacing = "100 millis"

const schedule = Schedule.spaced(spacing)

/** Connections of a stream that bring nothing, one after the other. */
const mostFailures = 300

/** What happens to runners. */
export interface Signals {
  /** Ends once this runner can answer nothing for a while. */
  readonly unready: Effect.Effect<void>
  /** Ends as soon as the lease of another runner has expired. */
  readonly departed: Effect.Effect<void>
}

/** The directory, and how to have the runner of a session look what has changed. */
export interface Routed {
  readonly directory: SessionDirectory["Service"]
  /** Returns once the session has looked, or nobody answers for it. */
  readonly poke: (owner: Owner) => Effect.Effect<void>
}

/** Creates the directory over the local one. Its fibers end with the scope. */
export const make = Effect.fnUntraced(function*(
  local: SessionDirectory["Service"],
  hosted: Hosted,
  { departed, unready }: Signals
): Effect.fn.Return<Routed, never, Scope.Scope | Sharding> {
  const { isShutdown } = yield* Sharding
  const client = yield* SessionEntity.client
  const scope = yield* Effect.scope
  /** The way to a session: none, if it is open in this process. */
  const at = (owner: Owner): Sent => {
    const principal = toPrincipal(owner)
    return hosted.open(principal) ?? client(principal)
  }

  /** A runner that is frozen keeps what it was sent. Whoever waits for an answer asks the next one. */
  const left = Effect.andThen(departed, Effect.suspend(() => Effect.fail(new Moved())))

  const outOfPatience = Effect.andThen(
    Effect.raceFirst(Effect.sleep(patience), unready),
    Effect.suspend(() => Effect.fail(unreachable()))
  )

  /** Sends a message until a runner has answered it. */
  const answered = <A, E extends Tagged>(
    message: Effect.Effect<A, E>
  ): Effect.Effect<A, Exclude<E, Lost> | Unavailable> =>
    message.pipe(
      Effect.catchCause(orMoved),
      Effect.retry({ while: (error) => isLost(error) ? Effect.map(isShutdown, (it) => !it) : false, schedule }),
      Effect.raceFirst(outOfPatience),
      Effect.mapError((error) => isLost(error) ? unreachable() : error as Exclude<E, Lost> | Unavailable)
    )

  const ask = <A, E extends Tagged>(owner: Owner, message: (to: Sent) => Effect.Effect<A, E>) =>
    answered(Effect.suspend(() => {
      const to = at(owner)
      return to === hosted.open(toPrincipal(owner)) ? message(to) : Effect.raceFirst(message(to), left)
    }))

  /**
   * Sends what finds nothing when it is sent again, and answers with `done` then: an earlier attempt, whose answer was
   * lost, may have done it.
   */
  const askOnce = <A, E extends Tagged>(owner: Owner, done: A, message: (to: Sent) => Effect.Effect<A, E>) =>
    Effect.suspend(() => {
      let attempts = 0
      return ask(owner, (to) => {
        attempts++
        return Effect.catch(
          message(to),
          (error) => error._tag === "NotFound" && attempts > 1 ? Effect.succeed(done) : Effect.fail(error)
        )
      })
    })

  /** Streams on from where the last connection ended, until the end or until no runner answers. */
  const reconnecting = <A extends Sse, E extends Tagged>(
    after: string | undefined,
    connect: (after: string | undefined) => Stream.Stream<A | null, E>,
    isEnd: (item: A) => boolean
  ): Stream.Stream<A> =>
    Stream.suspend(() => {
      let last = after
      let isEnded = false
      let failures = 0
      const connection = Stream.suspend(() => begunOnce(connect(last))).pipe(
        Stream.interruptWhen(departed),
        Stream.map((item) => {
          failures = 0
          if (item.id !== undefined) last = item.id
          isEnded ||= isEnd(item)
          return item
        }),
        Stream.catchCause((cause) => Stream.fromEffectDrain(orMoved(cause))),
        Stream.catch((error) => {
          isEnded ||= !isLost(error) && error._tag !== "Unavailable"
          return Stream.empty
        })
      )
      const next: Stream.Stream<A> = Stream.concat(
        connection,
        Stream.unwrap(Effect.map(isShutdown, (isShutdown) => {
          isEnded ||= isShutdown || ++failures > mostFailures
          return isEnded ? Stream.empty : Stream.concat(Stream.fromEffectDrain(Effect.sleep(spacing)), next)
        }))
      )
      return next
    })

  const poke = (owner: Owner) => Effect.ignore(ask(owner, (it) => it.poke()))
  const pokeSoon = (owner: Owner) => Effect.forkIn(poke(owner), scope)
  const pokeAll = (owners: ReadonlyArray<Owner>) => {
    const unique = new Map(owners.map(({ session, user }) => [toPrincipal({ session, user }), { session, user }]))
    return Effect.forEach(unique.values(), pokeSoon, { discard: true })
  }

  /** Every method of a session, wherever it is. */
  const routed = Methods.each<Methods.Methods>((name) => {
    const send = (to: Sent, args: ReadonlyArray<unknown>) => (to[name] as (args: ReadonlyArray<unknown>) => never)(args)
    const isEnd = Methods.endOf(name)
    if (isEnd === undefined) {
      const once = gone.has(name)
        ? askOnce
        : <A, E extends Tagged>(...[owner, , to]: Parameters<typeof askOnce<A, E>>) => ask(owner, to)
      return (owner: Owner, ...args: ReadonlyArray<unknown>) => once(owner, undefined, (to) => send(to, args))
    }
    return (owner: Owner, of: unknown, after?: string) => {
      const connect = (after?: string): Stream.Stream<Sse | null, Tagged> => send(at(owner), [of, after])
      return Effect.as(
        ask(owner, (to) => Stream.runHead(send(to, [of, after]) as Stream.Stream<Sse | null, Tagged>)),
        reconnecting(after, connect, isEnd as (item: Sse) => boolean)
      )
    }
  })
  const directory = SessionDirectory.of({
    ...local,
    ...routed,
    submit: (owner, message) => Effect.flatMap(named("wave", "wave")(message), (it) => routed.submit(owner, it)),
    start: (owner, message) => Effect.flatMap(named("id", "operation")(message), (it) => routed.start(owner, it)),
    say: (owner, name, message) => Effect.flatMap(named("id", "said")(message), (it) => routed.say(owner, name, it)),
    result: (owner, name) =>
      Effect.repeat(ask(owner, (it) => it.result([name])), { until: (it) => it !== null }).pipe(
        Effect.flatMap((it) => it === null ? Effect.fail(new NotFound({})) : Effect.succeed(it))
      ),
    undo: (owner, name, force) =>
      Effect.flatMap(
        routed.undoPlan(owner, name),
        (plan) => askOnce(owner, plan, (it) => it.undo([name, force]))
      ),
    // files of a request are where its call waits
    approvalPart: (user, of) =>
      Effect.catchTag(
        local.approvalPart(user, of),
        "NotFound",
        () => Effect.flatMap(local.approval(user, of.id), (owner) => ask(owner, (it) => it.part([of])))
      ),
    answer: (user, given) => Effect.tap(local.answer(user, given), pokeSoon),
    answerAll: (user, given) => Effect.tap(local.answerAll(user, given), pokeAll)
  })
  return { directory, poke }
})

/** Methods that find nothing when they are sent again. */
const gone: ReadonlySet<Methods.Name> = new Set(["endSession", "endTurn", "revoke"])

/** Ends a stream where it begins anew: its message was sent again, from the position of the first time. */
const begunOnce = <A, E>(stream: Stream.Stream<A | null, E>): Stream.Stream<A, E> => {
  let begins = 0
  return stream.pipe(
    Stream.takeWhile((item) => item !== null || ++begins === 1),
    Stream.filter((item) => item !== null)
  )
}

const lost: ReadonlySet<string> = new Set([
  "AlreadyProcessingMessage",
  "EntityNotAssignedToRunner",
  "MailboxFull",
  "Moved",
  "PersistenceError"
])

const isLost = (error: { readonly _tag: string }): error is Lost => lost.has(error._tag)

interface Tagged {
  readonly _tag: string
}

interface Sse {
  readonly id?: string | undefined
}

const unreachable = () => new Unavailable({ detail: "No runner answers for the session now." })

/** A runner that gives up the session interrupts what it could not end. */
const orMoved = <E>(cause: Cause.Cause<E>): Effect.Effect<never, E | Moved> =>
  Cause.hasInterruptsOnly(cause) ? Effect.fail(new Moved()) : Effect.failCause(cause)
