/** A guarded toolkit for `McpServer.toolkit`, which knows no `modelOutput`. */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Shortened } from "../internal/shortened.ts"

/** Puts the preview of what is large in its place, and makes no promise of another form. */
export const previewed = <Tools extends Record<string, Tool.Any>>({ handle, tools }: Toolkit.WithHandler<Tools>) => ({
  tools: Object.fromEntries(
    Object.entries(tools).map(([name, tool]) => [name, (tool as Tool.Any & Untyped).setSuccess(Schema.Unknown)])
  ),
  handle: (...call: Parameters<typeof handle>) =>
    Effect.map(
      handle(...call),
      Stream.map((result) => Shortened in result ? { ...result, encodedResult: result[Shortened] } : result)
    )
})

interface Untyped {
  readonly setSuccess: (schema: typeof Schema.Unknown) => Tool.Any
}
