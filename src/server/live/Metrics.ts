/**
 * Metrics of the executors and the server, as Prometheus text. They have no labels of users or sessions; requests are
 * counted by the routes of the API.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import * as Option from "effect/Option"
import type { Runner } from "../api/ApiRecords.ts"
import * as PendingApprovals from "../approvals/PendingApprovals.ts"
import * as Limits from "../guard/Limits.ts"
import { RequestCounts } from "../guard/RequestCounts.ts"
import * as Operations from "../operations/Operations.ts"
import * as Logins from "../users/Logins.ts"
import * as Waves from "../waves/Waves.ts"
import { RunnerStatus } from "./RunnerStatus.ts"

export class Metrics extends Context.Service<Metrics, {
  readonly text: Effect.Effect<string>
}>()("effect-tool-executor/server/Metrics") {}

export const layer: Layer.Layer<
  Metrics,
  never,
  | Limits.Limits
  | Logins.Logins
  | Operations.Operations
  | PendingApprovals.PendingApprovals
  | RequestCounts
  | Waves.Waves
> = Layer.effect(
  Metrics,
  Effect.gen(function*() {
    const limits = yield* Limits.Limits
    const logins = yield* Logins.Logins
    const approvals = yield* PendingApprovals.PendingApprovals
    const traffic = yield* RequestCounts
    const operations = yield* Operations.Operations
    const waves = yield* Waves.Waves
    const runner = Option.getOrUndefined(yield* Effect.serviceOption(RunnerStatus))
    return Metrics.of({
      text: Effect.gen(function*() {
        const open = yield* limits.counts
        const login = yield* logins.counts
        const work = yield* waves.counts
        const running = yield* operations.counts
        const waiting = yield* approvals.count
        const shared = runner === undefined ? [] : ofRunner(yield* runner.now)
        const requests = traffic.counts().map(({ method, requests, route, status }) =>
          `tool_executor_server_requests_total{method="${method}",route="${route}",status="${status}"} ${requests}`
        )
        return [
          (yield* PrometheusMetrics.format()).trimEnd(),
          ...gauge("sessions", "Sessions with an executor", work.sessions),
          ...gauge("waves", "Waves that are known", work.waves),
          ...counter("stuck_waves_total", "Waves that could not continue", yield* waves.stuck),
          ...gauge("operations", "Operations of agents that have not ended", running.operations),
          ...gauge("conversations", "Conversations that are listed", running.conversations),
          ...gauge("approvals", "Approval requests that are pending", waiting),
          ...gauge("open_requests", "Open requests, including streams", open.requests),
          ...gauge("streams", "Streams that are open", open.streams),
          ...gauge("logins", "Logins of the page", login.open),
          ...counter("refused_logins_total", "Logins that were refused", login.refused),
          ...counter("refused_requests_total", "Requests refused by a limit", open.refused),
          ...shared,
          "# HELP tool_executor_server_requests_total Requests by route and status",
          "# TYPE tool_executor_server_requests_total counter",
          ...requests,
          ""
        ].join("\n").trimStart()
      })
    })
  })
)

const ofRunner = ({ address = "", isHeld, lost, name, sessions, woken }: Runner): ReadonlyArray<string> => [
  "# HELP tool_executor_server_runner_info This process among the runners: its address stays, its name is of this life",
  "# TYPE tool_executor_server_runner_info gauge",
  `tool_executor_server_runner_info{address=${JSON.stringify(address)},name=${JSON.stringify(name)}} 1`,
  ...gauge("runner_held", "Whether this process may hold sessions", isHeld ? 1 : 0),
  ...gauge("runner_sessions", "Sessions that this process holds", sessions),
  ...counter("runner_lost_sessions_total", "Sessions that another process has taken", lost),
  ...counter("runner_woken_sessions_total", "Forgotten sessions that this process has woken", woken)
]

const lines = (type: "counter" | "gauge") => (name: string, help: string, value: number): ReadonlyArray<string> => [
  `# HELP tool_executor_server_${name} ${help}`,
  `# TYPE tool_executor_server_${name} ${type}`,
  `tool_executor_server_${name} ${value}`
]

const gauge = lines("gauge")

const counter = lines("counter")
