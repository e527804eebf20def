/**
 * Fires the tools of `Periodic` rules while the executor's scope is open.
 *
 * Each firing is an ordinary call, alone in its own batch and process. A tool never overlaps itself: times that pass
 * while it runs are skipped.
 */
import * as Cron from "effect/Cron"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type { RuleSet } from "../../rules/RuleIndex.ts"
import * as ToolOutcome from "../../vocabulary/ToolOutcome.ts"
import type { Orphans } from "../state/Orphans.ts"

/** Starts one runner per rule. Calls that do not succeed are logged as warnings, and so are skipped times. */
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

const firing = (
  rule: RuleSet["periodic"][number],
  fire: (rule: RuleSet["periodic"][number]) => Effect.Effect<ToolOutcome.ToolOutcome>,
  orphans: Orphans
): Effect.Effect<void> => {
  const what = `the periodic call of "${rule.tool}"`
  let last: ToolOutcome.ToolOutcome | undefined
  return Effect.suspend(() => {
    if (last !== undefined && orphans.has(last)) {
      return Effect.logWarning(`${what} was skipped: the previous one still runs`)
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
    // the rule was checked: a schedule that is not a cron expression is a duration
    onFailure: () => Schedule.fixed(schedule as Duration.Input),
    onSuccess: (cron) => Schedule.cron(cron)
  })
