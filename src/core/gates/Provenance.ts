/**
 * Whether the values of a call come from somebody who may name them.
 *
 * With this layer, a call that changes something or sends data out runs unasked only if its targets are proved: by the
 * user's words, or by what trusted outputs list. Where they are not, the call needs approval, even if the policy allows
 * it. Nothing is refused by it.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Declared from "../provenance/Declared.ts"
import type * as Ledger from "../provenance/Ledger.ts"
import { ConfigurationError, type Problem } from "../vocabulary/ConfigurationError.ts"
import * as ToolAnnotations from "../vocabulary/ToolAnnotations.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"

export type { Declared, Role, RoleWith, Trust } from "../provenance/Declared.ts"
export type { Limits } from "../provenance/Ledger.ts"
export type { Origin } from "../provenance/Origin.ts"

/** What is declared about the tools of an executor. */
export class Provenance extends Context.Service<Provenance, {
  /** What is declared about a tool. */
  readonly tool: (tool: RegisteredTool) => Declared.Tool
  /** What is declared about a tool that the executor does not have (any more). */
  readonly named: (name: string) => Declared.Tool
  readonly limits: Ledger.Limits
  /** What is wrong with it for these tools and those that may come. */
  readonly problems: (tools: ReadonlyArray<string>, expects: (tool: string) => boolean) => ReadonlyArray<Problem>
}>()("effect-tool-executor/policy/Provenance") {}

export interface Options {
  /**
   * What is declared about tools, by name. A declaration here replaces the tool's own (`ToolAnnotations.Provenance`). A
   * tool without any is a write that needs approval, or a read with a foreign output if it is ReadOnly and closed-world.
   */
  readonly tools?: { readonly [tool: string]: Declared.Declared } | undefined
  /** How much is kept of a conversation. What is evicted is no longer proved. */
  readonly limits?: Ledger.Limits | undefined
}

const paths = <A extends Schema.Top>(value: A, description: string) =>
  Schema.optionalKey(Schema.Record(Schema.String, value)).annotate({ description })

const words = (pattern: RegExp, expected: string) =>
  Schema.String.check(Schema.isPattern(pattern, { expected })).annotate({ description: expected })

const Role = words(
  /^(?:(?:target|object)(?::.+)?|content|detail)$/,
  "target, target:kind, object, object:kind, content or detail"
)

const Trust = words(/^(?:own(?::.+)?|label|peer|foreign)$/, "own, own:kind, label, peer or foreign")

/** Schema of what a config file declares about tools. */
export const ToolFields = Schema.Struct({
  effect: Schema.Literals(["read", "write", "egress"]),
  parameters: paths(
    Schema.Union([
      Role,
      Schema.Struct({ role: Role, least: Schema.optionalKey(Schema.Literals(["model", "listed", "named", "user"])) })
    ]),
    "The role of parameters, by path"
  ),
  output: Schema.optionalKey(Schema.Union([Trust, Schema.Record(Schema.String, Trust)])).annotate({
    description: "How far the output can be trusted, as a whole or by path"
  })
})

/** Schema of the section `provenance` of a config file. */
export const Fields = Schema.Struct({
  tools: Schema.optionalKey(Schema.Record(Schema.String, ToolFields)).annotate({
    description: "What is declared about tools, by name"
  })
}).annotate({ description: "Calls whose targets neither the user nor a trusted output named need approval" })

/** Creates the service; fails with everything that is wrong in a declaration. */
export const make = (options: Options = {}): Effect.Effect<Provenance["Service"], ConfigurationError> => {
  const declared = new Map(Object.entries(options.tools ?? {}))
  const problems = Array.from(declared).flatMap(([name, it]) => problemsOf(`tools.${name}`, it))
  if (problems.length > 0) return new ConfigurationError({ subject: "Provenance", problems })
  const byName = new Map(Array.from(declared, ([name, it]) => [name, Declared.make(name, it)]))
  const known = new WeakMap<RegisteredTool, Declared.Tool>()
  const limits = options.limits ?? {}
  return Effect.succeed({
    tool: (tool) => {
      let found = known.get(tool)
      if (found === undefined) known.set(tool, found = byName.get(tool.name) ?? ownOf(tool))
      return found
    },
    named: (name) => byName.get(name) ?? Declared.undeclared(name),
    limits,
    problems: (tools, expects) =>
      Array.from(byName.keys()).filter((name) => !tools.includes(name) && !expects(name)).map((name) => ({
        path: `tools.${name}`,
        problem: "there is no such tool",
        expected: `one of ${tools.join(", ")}`
      }))
  })
}

/**
 * Layer that requests approval where the values of a call are not proved.
 *
 * **Example** (A mailbox)
 *
 * ```ts
 * import { Provenance } from "effect-tool-executor"
 *
 * export const Traced = Provenance.layer({
 *   tools: {
 *     search_mail: { effect: "read", output: { id: "own:mail", subject: "label", body: "foreign" } },
 *     search_contacts: { effect: "read", output: { name: "label", address: "own" } },
 *     send_mail: { effect: "write", parameters: { recipients: "target", body: "content" }, output: { id: "own:mail" } },
 *     fetch: { effect: "egress", parameters: { url: "target" } }
 *   }
 * })
 * ```
 */
export const layer = (options?: Options): Layer.Layer<Provenance, ConfigurationError> =>
  Layer.effect(Provenance, make(options))

/** What is wrong with a declaration. */
export const problemsOf = (path: string, declared: Declared.Declared): ReadonlyArray<Problem> =>
  Declared.problemsOf(declared).map((it) => ({
    path: `${path}.${it.path}`,
    problem: it.problem,
    expected: "see docs/provenance.md"
  }))

/** The tool's own declaration. What the author of a tool declares wrongly counts as no declaration. */
const ownOf = (tool: RegisteredTool): Declared.Tool => {
  const own = Context.get(tool.annotations, ToolAnnotations.Provenance)
  return own !== undefined && Declared.problemsOf(own).length === 0
    ? Declared.make(tool.name, own)
    : Declared.undeclared(tool.name, tool.readOnly && !tool.openWorld ? "read" : "write")
}
