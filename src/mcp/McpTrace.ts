/**
 * Spans of calls that cross MCP, and the trace that they belong to: it travels as `traceparent` in the `_meta` of a
 * call, in both directions.
 *
 * Names follow OpenTelemetry's conventions for MCP, v0.1.0.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Headers from "effect/http/Headers"
import * as HttpTraceContext from "effect/http/HttpTraceContext"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { Spans } from "../core/engine/report/Spans.ts"
import { spanExit } from "../internal/spanError.ts"

/** What goes into the `_meta` of a call. */
export type Meta = { readonly traceparent: string }

/** Traces a call to a server; `call` gets what the server is to know of the trace. */
export const client = <A extends object, E>(
  tool: string,
  call: (meta: Meta | undefined) => Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  traced(
    { tool, kind: "client", parent: undefined },
    (span) => call(span === undefined ? undefined : { traceparent: HttpTraceContext.toHeaders(span).traceparent! })
  )

/** Traces a call of a client, within its trace where `_meta` names one. */
export const server = (tool: string, meta: Readonly<Record<string, unknown>> = {}) =>
<A extends object, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => traced({ tool, kind: "server", parent: parentIn(meta) }, () => effect)

const parentIn = ({ traceparent }: Readonly<Record<string, unknown>>): Tracer.ExternalSpan | undefined =>
  typeof traceparent === "string"
    ? Option.getOrUndefined(HttpTraceContext.w3c(Headers.fromInput({ traceparent })))
    : undefined

interface About {
  readonly tool: string
  readonly kind: "client" | "server"
  readonly parent: Tracer.AnySpan | undefined
}

/** Without a tracer or an outer span there is nothing to trace. */
const traced = <A extends object, E, R>(
  { kind, parent, tool }: About,
  run: (span: Tracer.Span | undefined) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.contextWith((context: Context.Context<never>) => {
    if (!Spans.isWanted(context) || Spans.isRefused(context)) return run(undefined)
    const clock = Context.get(context, Clock.Clock)
    const spans = new Spans(context)
    const span = spans.begin(`tools/call ${tool}`, parent ?? spans.outer, clock.currentTimeNanosUnsafe(), kind)
    span.attribute("mcp.method.name", "tools/call")
    span.attribute("gen_ai.operation.name", "execute_tool")
    span.attribute("gen_ai.tool.name", tool)
    return Effect.onExit(Effect.provideService(run(span), Tracer.ParentSpan, span), (exit) =>
      Effect.sync(() => {
        const error = errorOf(exit)
        if (error !== undefined) span.attribute("error.type", error)
        spans.end(span, spanExit(error), clock.currentTimeNanosUnsafe())
      }))
  })

/** What a tool itself reports is an error of the call, too. */
const errorOf = (exit: Exit.Exit<object, unknown>): string | undefined => {
  if (Exit.isSuccess(exit)) return "isError" in exit.value && exit.value.isError === true ? "tool_error" : undefined
  return Exit.hasInterrupts(exit) ? "Cancelled" : "_OTHER"
}
