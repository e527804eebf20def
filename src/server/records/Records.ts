/** Records of all sessions: the journal, grants and rules. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { ToolExecutors } from "../../core/engine/ToolExecutors.ts"
import { Rules } from "../../core/gates/Rules.ts"
import * as RuleGraph from "../../core/rules/RuleGraph.ts"
import * as RuleText from "../../core/rules/RuleText.ts"
import { Journal, JournalError } from "../../core/store/Journal.ts"
import { StateStore, StateStoreError } from "../../core/store/StateStore.ts"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import type { Grant } from "../../core/vocabulary/Grant.ts"
import { Outages } from "../../internal/outages.ts"
import { covers, type User } from "../api/ApiAccess.ts"
import { type Invalid, NotFound, Unavailable } from "../api/ApiProblems.ts"
import type * as Api from "../api/ApiRecords.ts"
import * as Principals from "../users/Principals.ts"
import * as RedactedEvents from "../work/RedactedEvents.ts"
import * as CallPages from "./CallPages.ts"
import * as JournalPages from "./JournalPages.ts"
import * as SuggestedRules from "./SuggestedRules.ts"
import * as Undoing from "./Undoing.ts"

/** The records. Those that `user` may not see do not exist for them. */
export class Records extends Context.Service<Records, {
  /** A page of the journal; empty without a journal. */
  readonly entries: (
    user: User,
    wanted: JournalPages.Wanted
  ) => Effect.Effect<typeof Api.Entries.Type, Invalid | Unavailable>
  /** A page of the calls in the journal. */
  readonly calls: (
    user: User,
    wanted: CallPages.Wanted
  ) => Effect.Effect<typeof Api.RecordedCalls.Type, Invalid | Unavailable>
  /** A call by the position of its first entry. */
  readonly call: (user: User, place: number) => Effect.Effect<Api.RecordedCallDetail, NotFound | Unavailable>
  /** Grants of the user and of the users they approve for, oldest first. */
  readonly grants: (user: User) => Effect.Effect<ReadonlyArray<typeof Api.Grant.Type>, Unavailable>
  /** Revokes a grant of a session; calls that it admitted and that have not started are refused. */
  readonly revoke: (owner: Principals.Owner, id: string) => Effect.Effect<void, NotFound | Unavailable>
  /** Rules that approvals speak for, from records that the user may read. */
  readonly suggestions: (user: User) => Effect.Effect<typeof Api.Suggestions.Type, Unavailable>
  /** Puts on record that the user accepts a suggested rule. It changes no policy. */
  readonly acceptRule: (user: User, rule: string) => Effect.Effect<typeof Api.AcceptedRule.Type, NotFound | Unavailable>
  /** The current rules. */
  readonly rules: Effect.Effect<typeof Api.Rules.Type>
}>()("effect-tool-executor/server/Records") {}

export const layer: Layer.Layer<Records, never, ToolExecutors | StateStore | Rules> = Layer.effect(
  Records,
  Effect.gen(function*() {
    const executors = yield* ToolExecutors
    const store = yield* StateStore
    const rules = yield* Rules
    const journal = Option.getOrUndefined(yield* Effect.serviceOption(Journal))
    const undoing = Option.getOrElse(yield* Effect.serviceOption(Undoing.Undoing), () => Undoing.none)
    const orUnavailable = orUnavailableWith(new Outages())
    const suggested = yield* SuggestedRules.make
    const grants = orUnavailable(Effect.flatMap(Clock.currentTimeMillis, (now) => store.allGrants(now)))
    return Records.of({
      entries: (user, wanted) =>
        journal === undefined
          ? Effect.succeed({ entries: [] })
          : orUnavailable(JournalPages.read(journal, user, wanted)),
      calls: (user, wanted) =>
        journal === undefined ? Effect.succeed({ calls: [] }) : orUnavailable(CallPages.read(journal, user, wanted)),
      call: Effect.fnUntraced(function*(user, place) {
        if (journal === undefined) return yield* new NotFound({})
        const call = yield* orUnavailable(CallPages.one(journal, user, place))
        const checkpoint = (yield* undoing.list(call)).find((it) =>
          it.batch === call.batch && it.callId === call.callId && it.tool === call.tool && it.paths.length > 0
        )
        return checkpoint === undefined ? call : { ...call, checkpoint: checkpoint.id }
      }),
      suggestions: (user) => orUnavailable(suggested(user)),
      acceptRule: Effect.fnUntraced(function*(user, rule) {
        const { suggestions } = yield* orUnavailable(suggested(user))
        const found = suggestions.find((it) => it.rule === rule)
        if (journal === undefined || found === undefined) return yield* new NotFound({})
        const entry = {
          _tag: "RuleAccepted",
          at: yield* Clock.currentTimeMillis,
          principal: user.name,
          session: "suggestions",
          person: user.name,
          rule,
          approvals: found.approvals
        } as const
        yield* orUnavailable(journal.append([{ entry }], { durable: true }))
        return { policy: { allow: [rule] } }
      }),
      grants: (user) => Effect.map(grants, (all) => all.map(shown).filter((it) => looksAfter(user, it.user))),
      revoke: Effect.fnUntraced(function*({ session, user }, id) {
        const grant = (yield* grants).find((it) => it.id === id)
        const owner = grant === undefined ? undefined : Principals.fromPrincipal(grant.principal)
        if (grant === undefined || owner?.user !== user || owner.session !== session) return yield* new NotFound({})
        // by the session's executor, which knows the calls that wait behind the permission
        const revoke = Effect.scoped(
          Effect.flatMap(executors.get(grant.principal), (executor) => executor.revoke({ id }))
        )
        const revoked = yield* orUnavailable(revoke)
        if (revoked === 0) return yield* new NotFound({})
      }),
      rules: Effect.sync(() => {
        const now = rules.current()
        const { edges, nodes } = RuleGraph.picture(now)
        return {
          sentences: RuleText.describe(now),
          nodes,
          edges: edges.map(({ isMutual, ...edge }) => ({ ...edge, isMutual }))
        }
      })
    })
  })
)

/** Owners whose permissions a user may see and revoke. */
const looksAfter = (user: User, owner: string): boolean =>
  (user.run && owner === user.name) || covers(user.approve, owner)

const shown = (grant: Grant): typeof Api.Grant.Type => ({
  id: grant.id,
  ...Principals.fromPrincipal(grant.principal),
  tool: grant.tool,
  agentPath: grant.agentPath,
  ...grant.targets === undefined ? {} : { targets: grant.targets.map((it) => RedactedEvents.text(it)) },
  ...grant.patterns === undefined ? {} : { patterns: grant.patterns.map((it) => RedactedEvents.text(it)) },
  answer: grant.answer,
  grantedAt: grant.grantedAt,
  ...grant.expiresAt === undefined ? {} : { expiresAt: grant.expiresAt }
})

type Internal = ConfigurationError | JournalError | StateStoreError

const isInternal = (error: unknown): error is Internal =>
  error instanceof ConfigurationError || error instanceof JournalError || error instanceof StateStoreError

/** Details of a store's problem go to the log. */
const orUnavailableWith =
  (outages: Outages) => <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, Exclude<E, Internal> | Unavailable> =>
    Effect.catch(effect, (error): Effect.Effect<never, Exclude<E, Internal> | Unavailable> =>
      isInternal(error)
        ? Effect.andThen(outages.warn("The records could not be read", error), new Unavailable({}))
        : Effect.fail(error as Exclude<E, Internal>))
