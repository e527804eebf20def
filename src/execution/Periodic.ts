/**
 * Fires the tools of `Periodic` rules, as long as the executor's scope is open.
 *
 * Each firing is a call like any other, alone in a batch and a process of its
 * own. A tool never overlaps itself: times that pass while it runs are left out.
 *
 * @since 0.1.0
 */
import * as Cron from "effect/Cron"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as ToolOutcome from "../ToolOutcome.ts"
import type { Of } from "../ToolRule.ts"

/**
 * Starts one runner per rule. What does not succeed is logged as a warning.
 *
 * @category running
 * @since 0.1.0
 */
export const start = (
  rules: ReadonlyArray<Of<"Periodic">>,
  fire: (rule: Of<"Periodic">) => Effect.Effect<ToolOutcome.ToolOutcome>
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.forEach(rules, (rule) =>
    Effect.forkScoped(Effect.orDie(Effect.schedule(
      Effect.flatMap(fire(rule), (outcome) =>
        outcome._tag === "Succeeded"
          ? Effect.logDebug(`the periodic call of "${rule.tool}" succeeded`)
          : Effect.logWarning(`the periodic call of "${rule.tool}" did not succeed: ${ToolOutcome.text(outcome)}`)),
      scheduleOf(rule)
    ))), { discard: true })

// Utilities

const scheduleOf = ({ schedule }: Of<"Periodic">): Schedule.Schedule<unknown, unknown, Cron.CronParseError> =>
  Result.match(Cron.parse(schedule, "UTC"), {
    // what is no cron expression is a duration: the rule was checked
    onFailure: () => Schedule.fixed(schedule as Duration.Input),
    onSuccess: (cron) => Schedule.cron(cron)
  })
