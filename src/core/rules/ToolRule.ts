/**
 * The rules as data.
 *
 * A rule set is an array of `ToolRule`: plain objects that load from JSON. `for` makes them with tool names that the
 * compiler checks; a tool may bring its own (`ToolAnnotations.Rules`). `Rules` enforces them; `RuleSet` reads them
 * without enforcing anything.
 *
 * **Example** (Writing rules for a toolkit)
 *
 * ```ts
 * import { Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { ToolRule } from "effect-tool-executor"
 *
 * const kit = Toolkit.make(
 *   Tool.make("login"),
 *   Tool.make("request", { parameters: Schema.Struct({ url: Schema.String }) })
 * )
 *
 * const rule = ToolRule.for(kit)
 *
 * const rules = [
 *   rule.startConstraint("login"),
 *   rule.maxCalls("request", 5), // rule.maxCalls("requset", 5) does not compile
 *   rule.cooldown("request", "2 seconds")
 * ]
 *
 * rules[1] // => { _tag: "MaxCalls", tool: "request", max: 5 }
 * ```
 */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Schema from "effect/Schema"
import type { ToolsOf } from "../../internal/toolkitTypes.ts"
import type { ConstructorFor, TypedConstructor } from "./RuleKind.ts"
import { kinds, type Of, type Tag, type ToolRule as AnyRule } from "./RuleKinds.ts"

/**
 * Schema of every rule.
 *
 * The scope of each rule (process, batch, principal, static, executor) is in its description and thus in the published
 * JSON Schema.
 */
export const ToolRule = Schema.Union(Object.values(kinds).map(({ schema }) => schema))

/** One rule, as data. */
export type ToolRule = AnyRule

export type { Of, Tag }

/** A rule that a tool brings itself: its `tool` is the tool. */
export type Own = OwnOf<ToolRule>

type OwnOf<R> = R extends { readonly tool: string } ? Omit<R, "tool"> : never

/** Constructors of rules for tools by name; see `ToolRule.for`. */
export type Constructors<Tools extends Record<string, Tool.Any>> = {
  readonly [T in Tag as Uncapitalize<T>]: (typeof kinds)[T]["make"] extends TypedConstructor<infer F>
    ? ConstructorFor<F, Tools>
    : never
}

const make = <T extends Toolkit.Any>(_toolkits: T | ReadonlyArray<T>): Constructors<ToolsOf<T>> =>
  // of any tools: the names were checked by the compiler
  constructors as Constructors<ToolsOf<T>>

export {
  /**
   * Gives the constructors of rules for the tools of one or more toolkits. An unknown tool or argument does not
   * compile.
   *
   * **Gotchas**
   *
   * A duration is kept as text. One that is not above zero is a problem of the set, which is found when the layer is
   * built.
   */
  make as for
}

const constructors: unknown = Object.fromEntries(
  Object.entries(kinds).map(([tag, { make }]) => [tag.charAt(0).toLowerCase() + tag.slice(1), make.any])
)
