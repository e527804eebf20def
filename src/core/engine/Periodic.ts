/**
 * Fires the tools of `Periodic` rules, as long as the executor's scope is open.
 *
 * Each firing is a call like any other, alone in a batch and a process of its
 * own. A tool never overlaps itself: times that pass while it runs are left out.
 */
import * as Cron from "effect/Cron"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type { RuleSet } from "../rules/RuleIndex.ts"
import * as ToolOutcome from "../vocabulary/ToolOutcome.ts"
import type { Orphans } from "./Orphans.ts"

/**
 * Starts one runner per rule. What does not succeed is logged as a warning, and
 * so is a time that is left out because the call before it still runs.
 */
export const start = (
  rules: ReadonlyArray<RuleSet["periodic"][number]>,
  fire: (rule: RuleSet["periodic"][number]) => Effect.Effect<ToolOutcome.ToolOutcome>,
  orphans: Orphans
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.forEach(
    rules,
    (rule) => Effect.forkScoped(Effect.orDie(Effect.schedule(firing(rule, fire, orphans), scheduleOf(rule)))),
    { discard: true }
  )

// Utilities

const firing = (
  rule: RuleSet["periodic"][number],
  fire: (rule: RuleSet["periodic"][number]) => Effect.Effect<ToolOutcome.ToolOutcome>,
  orphans: Orphans
): Effect.Effect<void> => {
  const what = `the periodic call of "${rule.tool}"`
  let last: ToolOutcome.ToolOutcome | undefined
  return Effect.suspend(() => {
    if (last !== undefined && orphans.has(last)) {
      return Effect.logWarning(`${what} was left out: the one before it still runs`)
    }
    return Effect.flatMap(fire(rule), (outcome) => {
      last = outcome
      return outcome._tag === "Succeeded"
        ? Effect.logDebug(`${what} succeeded`)
        : Effect.logWarning(`${what} did not succeed: ${ToolOutcome.text(outcome)}`)
    })
  })
}

const scheduleOf = (
  { schedule }: RuleSet["periodic"][number]
): Schedule.Schedule<unknown, unknown, Cron.CronParseError> =>
  Result.match(Cron.parse(schedule, "UTC"), {
    // what is not a cron expression is a duration: the rule was checked
    onFailure: () => Schedule.fixed(schedule as Duration.Input),
    onSuccess: (cron) => Schedule.cron(cron)
  })
