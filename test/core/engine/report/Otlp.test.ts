/** What a collector on the network gets of calls from Effect's own exporters: traces, metrics and logs that fit together. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Otlp from "effect/observability/Otlp"
import * as OtlpExporter from "effect/observability/OtlpExporter"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as ToolExecutor from "../../../../src/core/engine/ToolExecutor.ts"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as Harness from "../../../support/Harness.ts"

interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

interface OtlpSpan {
  readonly name: string
  readonly kind: number
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly attributes: ReadonlyArray<Attribute>
  readonly status: { readonly code: number; readonly message?: string }
}

interface OtlpLog {
  readonly traceId?: string
  readonly spanId?: string
  readonly severityText: string
  readonly attributes: ReadonlyArray<Attribute>
}

interface OtlpMetric {
  readonly name: string
  readonly unit: string
  readonly histogram?: { readonly dataPoints: ReadonlyArray<{ readonly count: number }> }
  readonly sum?: { readonly isMonotonic: boolean }
  readonly gauge?: object
}

/** What a collector gets, as far as this looks at it. */
interface Sent {
  readonly resourceSpans?: ReadonlyArray<
    { readonly scopeSpans: ReadonlyArray<{ readonly spans: ReadonlyArray<OtlpSpan> }> }
  >
  readonly resourceLogs?: ReadonlyArray<
    { readonly scopeLogs: ReadonlyArray<{ readonly logRecords: ReadonlyArray<OtlpLog> }> }
  >
  readonly resourceMetrics?: ReadonlyArray<
    { readonly scopeMetrics: ReadonlyArray<{ readonly metrics: ReadonlyArray<OtlpMetric> }> }
  >
}

/** A collector on loopback; gives its address and what it was sent. */
const collector = Effect.gen(function*() {
  const sent: Array<Sent> = []
  const server = createServer((request, response) => {
    let body = ""
    request.setEncoding("utf8")
    request.on("data", (chunk: string) => {
      body += chunk
    })
    request.on("end", () => {
      sent.push(JSON.parse(body) as Sent)
      response.writeHead(200, { "content-type": "application/json" }).end("{}")
    })
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.void))
    }),
    () =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sent }
})

const plain = (attributes: ReadonlyArray<Attribute>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

/** The table of metrics in the guide, without those of agents: name, type and unit. */
const documented = readFileSync(new URL("../../../../docs/telemetry.md", import.meta.url), "utf8")
  .split("\n")
  .map((line) => line.split("|").map((it) => it.trim().replaceAll("`", "")))
  .filter(([, , type]) => type === "histogram" || type === "counter" || type === "gauge")
  .map(([, ...row]) => row.slice(0, 3).join(" "))
  .filter((it) => !/^gen_ai\.(?:invoke_agent|client)\./.test(it))
  .sort()

describe("a collector", () => {
  it.live(
    "gets the spans, the metrics and the log of calls, and can tell what belongs together",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { sent, url } = yield* collector
        const context = yield* Layer.build(
          Otlp.layerJson({
            baseUrl: url,
            resource: { serviceName: "test" },
            tracerExportInterval: "1 hour",
            metricsExportInterval: "1 hour",
            loggerExportInterval: "1 hour",
            loggerMergeWithExisting: false
          }).pipe(
            Layer.provide(FetchHttpClient.layer),
            Layer.provideMerge(Layer.succeed(Metric.MetricRegistry, new Map()))
          )
        )
        const program = Effect.gen(function*() {
          const approvals = yield* Approvals.make()
          const { process } = yield* Harness.open({
            read: () => Effect.withSpan(Effect.succeed("fine"), "own"),
            ask: () => Effect.void,
            dies: () => Effect.die(new Error("broken pipe"))
          }, { approvals, policy: { default: "allow", ask: ["ask"] } })
          const wave = yield* Effect.forkChild(
            Effect.withSpan(process.executeWave(Harness.calls("read", "ask", "dies")), "agent")
          )
          while ((yield* approvals.list).length === 0) yield* Effect.yieldNow
          for (const { id } of yield* approvals.list) yield* approvals.answer(id, { _tag: "ApproveOnce" })
          yield* Fiber.join(wave)
        })
        yield* Effect.scoped(program).pipe(
          Effect.provideService(ToolExecutor.Principal, "ada"),
          Effect.provideContext(context)
        )
        yield* Context.get(context, OtlpExporter.Flusher).flush

        const spans = sent.flatMap(({ resourceSpans = [] }) =>
          resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((it) => it.spans))
        )
        const named = (name: string) => spans.find((it) => it.name === name) ?? assert.fail(`no span ${name}`)
        const parent = (name: string) => spans.find((it) => it.spanId === named(name).parentSpanId)?.name
        assert.strictEqual(new Set(spans.map((it) => it.traceId)).size, 1)
        assert.strictEqual(parent("own"), "execute_tool read")
        assert.strictEqual(parent("execute_tool read"), "tool_call read")
        assert.strictEqual(parent("tool_call read"), "tool_executor.wave")
        assert.strictEqual(parent("tool_executor.wave"), "agent")

        const attempt = named("execute_tool dies")
        const [internal, error] = [1, 2]
        assert.deepStrictEqual([attempt.kind, attempt.status.code], [internal, error])
        assert.strictEqual(plain(attempt.attributes)["error.type"], "Failed")

        const logs = sent.flatMap(({ resourceLogs = [] }) =>
          resourceLogs.flatMap(({ scopeLogs }) => scopeLogs.flatMap((it) => it.logRecords))
        )
        const [died] = logs.filter((it) => JSON.stringify(it).includes("broken pipe"))
        assert.strictEqual(died?.spanId, attempt.spanId)
        assert.include(plain(died!.attributes), {
          "gen_ai.tool.name": "dies",
          "gen_ai.tool.call.id": "3",
          "tool_executor.principal": "ada"
        })
        const events = logs.filter((it) => "event.name" in plain(it.attributes))
        assert.deepStrictEqual(
          events.map((it) => [plain(it.attributes)["event.name"], it.spanId]),
          ["asked", "answered"].map((event) => [`tool_executor.${event}`, named("tool_call ask").spanId])
        )

        const metrics = sent.flatMap(({ resourceMetrics = [] }) =>
          resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((it) => it.metrics))
        )
        const told = metrics.map(({ gauge, histogram, name, sum, unit }) =>
          [name, gauge ? "gauge" : histogram ? "histogram" : sum?.isMonotonic === true ? "counter" : "", unit].join(" ")
        )
        const others = [
          // a handler that outlives its call takes longer than a test may
          "tool_executor.orphans gauge 1",
          // there is no reviewer, and no shadow policy
          "tool_executor.review.duration histogram s",
          "tool_executor.shadow.decision counter 1"
        ]
        assert.deepStrictEqual([...told, ...others].sort(), documented)
        assert.notInclude(JSON.stringify(metrics), "ada", "no principal is a label")
      })),
    { tags: ["TE2"] }
  )
})
