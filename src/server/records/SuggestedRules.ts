/**
 * Rules that the approvals on record speak for, for operators. Nothing applies them: a policy lives in the config, where
 * it outlasts a restart and is the same for all runners.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Target } from "../../core/gates/PermissionPattern.ts"
import { Permissions } from "../../core/gates/Permissions.ts"
import * as Journal from "../../core/store/Journal.ts"
import { callsOf } from "../../core/store/JournalCalls.ts"
import { ToolHandlers } from "../../core/vocabulary/ToolHandlers.ts"
import type { Difference } from "../../policy/PolicyDiff.ts"
import * as RecordedCalls from "../../policy/RecordedCalls.ts"
import * as Suggestions from "../../policy/Suggestions.ts"
import type { User } from "../api/ApiAccess.ts"
import type * as Api from "../api/ApiRecords.ts"
import * as RedactedEvents from "../work/RedactedEvents.ts"
import * as JournalPages from "./JournalPages.ts"

const days = 14

/** Entries that are looked at, in parts, so that other requests get a turn. */
const most = { parts: 20, entries: 500, chars: 1_000_000 }

/** Gives how to find the rules. Without a journal, or with permissions that are not a policy, there are none. */
export const make = Effect.gen(function*() {
  const journal = Option.getOrUndefined(yield* Effect.serviceOption(Journal.Journal))
  const permissions = Option.getOrUndefined(yield* Effect.serviceOption(Permissions))
  const tools = Option.getOrUndefined(yield* Effect.serviceOption(ToolHandlers))
  return Effect.fnUntraced(function*(user: User) {
    const tiers = permissions?.tiers?.()
    const none: typeof Api.Suggestions.Type = { suggestions: [], days, isPartial: false }
    if (journal === undefined || tiers === undefined) return none
    const { calls, isPartial } = yield* read(journal, user)
    const computed = yield* targetsOf(calls, tools)
    const found = Suggestions.suggest(tiers, calls, {
      tool: (name) => {
        const subject = tools?.current().get(name)
        return subject === undefined ? undefined : { subject }
      },
      targets: (call) => computed.get(call)
    })
    return { suggestions: found.map(shown).filter(isClear), days, isPartial }
  })
})

/** The latest calls that approval was requested for. */
const read = Effect.fnUntraced(function*(journal: Journal.Journal["Service"], user: User) {
  const since = (yield* Clock.currentTimeMillis) - Duration.toMillis(Duration.days(days))
  const query = { ...JournalPages.queryOf(user, { since, order: "newest" }) }
  const entries: Array<Journal.JournalEntry> = []
  let before: number | undefined
  for (let part = 0; part < most.parts; part++) {
    const page = yield* journal.page({ ...query, before }, most)
    entries.push(...page.entries.map(({ entry }) => entry))
    before = page.next
    if (before === undefined) break
    yield* Effect.yieldNow
  }
  const calls = callsOf(entries.reverse()).flatMap((it) => RecordedCalls.of(it) ?? [])
  return { calls: calls.filter(({ answer }) => answer !== undefined), isPartial: before !== undefined }
})

/** The targets that tools compute from recorded arguments now. */
const targetsOf = Effect.fnUntraced(function*(
  calls: ReadonlyArray<RecordedCalls.Recorded>,
  tools: ToolHandlers["Service"] | undefined
) {
  const computed = new Map<RecordedCalls.Recorded, ReadonlyArray<Target> | undefined>()
  for (const call of calls) {
    const tool = tools?.current().get(call.tool)
    if (tool === undefined || call.args._tag !== "Full") continue
    const { value } = call.args
    const found = yield* Effect.gen(function*() {
      const targets = tool.targets(yield* tool.decode(value))
      return Effect.isEffect(targets) ? yield* targets : targets
    }).pipe(Effect.catchCause(() => Effect.undefined))
    computed.set(call, found)
  }
  return computed
})

/** So many calls of each kind are shown. */
const mostShown = 5

const shown = (it: Suggestions.Suggestion): typeof Api.Suggestion.Type => ({
  ...it,
  approved: it.approved.slice(0, mostShown),
  others: it.others.slice(0, mostShown),
  beyond: it.beyond.slice(0, mostShown).map(({ example, tool }: Difference) => ({
    tool,
    targets: example.targets?.map(({ text }) => text) ?? []
  }))
})

/** A rule in which a secret had to be hidden is another rule. */
const isClear = (it: typeof Api.Suggestion.Type): boolean => {
  const text = JSON.stringify(it)
  return RedactedEvents.text(text) === text
}
