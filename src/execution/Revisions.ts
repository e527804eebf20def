/**
 * Takes permissions back when the tool they are for becomes another one: people
 * allowed what was described to them then.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { canonicalJson } from "../internal/canonicalJson.ts"
import type { RegisteredTool, Registry, ToolHandlers } from "../ToolHandlers.ts"

/**
 * Watches the tools, and revokes the standing permissions of those that have come
 * to describe themselves in other words or to take other arguments.
 *
 * @category watching
 * @since 0.1.0
 */
export const watch = (
  handlers: ToolHandlers["Service"],
  revoke: (which: { readonly tool: string }) => Effect.Effect<unknown, unknown>
): Effect.Effect<void> =>
  Effect.suspend(() => {
    // what a tool was when it was there last: one that went and came back is to be the same
    const known = new Map(handlers.current())
    return Stream.runForEach(handlers.changes, (registry) =>
      Effect.forEach(changed(known, registry), (tool) => Effect.ignore(revoke({ tool })), { discard: true }))
  })

// Utilities

/** Gives the tools that are others than they were, and notes what they are now. */
const changed = (known: Map<string, RegisteredTool>, registry: Registry): ReadonlyArray<string> => {
  const names: Array<string> = []
  for (const [name, tool] of registry) {
    const before = known.get(name)
    known.set(name, tool)
    if (before !== undefined && before !== tool && described(before) !== described(tool)) names.push(name)
  }
  return names
}

const described = ({ description, jsonSchema }: RegisteredTool): string => canonicalJson([description, jsonSchema])
