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
import type { Evidence } from "../core/facts/Evidence.ts"
import { type From, Provenance, type Witness } from "../core/gates/Provenance.ts"
import { ConfigurationError, type Problem } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolAnnotations from "../core/vocabulary/ToolAnnotations.ts"
import type { RegisteredTool } from "../core/vocabulary/ToolHandlers.ts"
import { IsForeign } from "../internal/toolSchemas.ts"
import * as Declared from "./Declared.ts"
import * as Ledger from "./Ledger.ts"

export type { Declared, Role, RoleWith, Trust } from "./Declared.ts"
export type { Limits } from "./Ledger.ts"
export type { Origin } from "./Origin.ts"

export { Provenance } from "../core/gates/Provenance.ts"

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
  const declaredOf = (tool: RegisteredTool): Declared.Tool => {
    let found = known.get(tool)
    if (found === undefined) known.set(tool, found = byName.get(tool.name) ?? ownOf(tool))
    return found
  }
  return Effect.succeed({
    begin: () =>
      witness(
        Ledger.make(limits),
        ({ name, tool }) => tool === undefined ? byName.get(name) ?? Declared.undeclared(name) : declaredOf(tool)
      ),
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

/** Listens to one conversation with a ledger. */
export const witness = (
  ledger: Ledger.Ledger,
  declaredOf: (of: Pick<From, "name" | "tool">) => Declared.Tool
): Witness => ({
  heard: ledger.heard,
  forgot: ledger.forgot,
  foreign: ({ callId, name }, output) => ledger.received({ tool: Declared.undeclared(name), callId, args: {}, output }),
  received: ({ callId, name, tool }, args, value) => {
    const declared = declaredOf({ name, tool })
    const outputs = outputsOf(tool, value)
    for (const output of outputs.declared) ledger.received({ tool: declared, callId, args, output })
    const foreign = Declared.undeclared(name)
    for (const output of outputs.foreign) ledger.received({ tool: foreign, callId, args: {}, output })
  },
  objects: ({ args, tool }) => {
    const declared = declaredOf({ name: tool.name, tool })
    if (declared.effect === "read") return undefined
    const verdict = ledger.decide(declared, args)
    switch (verdict._tag) {
      case "Proved":
        return undefined
      case "Undeclared":
        return { why: "nobody declared where the arguments of the tool may come from" }
      case "Unproved": {
        const evidence = verdict.values.map((value) => evidenceOf(value, ledger.explain(value)))
        const [first, ...rest] = evidence
        const more = rest.length === 0 ? "" : ` (and ${rest.length} more)`
        return { why: `neither the user nor a trusted output named the value of ${first!.path}${more}`, evidence }
      }
    }
  }
})

/** The outputs of one result. */
interface Outputs {
  /** Those that the declaration of the tool is about. */
  readonly declared: ReadonlyArray<unknown>
  readonly foreign: ReadonlyArray<unknown>
}

/**
 * The outputs of a result, as declarations mean them. Of an MCP server's tool that is the value of the result; the texts
 * that come with it are foreign. Without a value, each text is an output.
 */
const outputsOf = (tool: RegisteredTool | undefined, value: unknown): Outputs => {
  const isResult = tool !== undefined && Context.get(tool.annotations, IsForeign) && typeof value === "object" &&
    value !== null && "content" in value && Array.isArray(value.content)
  if (!isResult) return { declared: [value], foreign: [] }
  const { content, structuredContent } = value as McpShape
  const texts = content.flatMap(({ text }) => typeof text === "string" ? [text] : [])
  return structuredContent === undefined
    ? { declared: texts, foreign: [] }
    : { declared: [structuredContent], foreign: texts }
}

/** The result of an MCP server's tool. */
interface McpShape {
  readonly content: ReadonlyArray<{ readonly text?: unknown }>
  readonly structuredContent?: unknown
}

const evidenceOf = (
  { origin: proved, path, value }: Ledger.Unproved,
  { from, origin }: Ledger.Explained
): Extract<Evidence, { readonly _tag: "Origin" }> => ({
  _tag: "Origin",
  path,
  value: value.length > 500 ? `${value.slice(0, 500)}…` : value,
  origin: origin === "untrusted" ? origin : proved,
  ...(from.length === 0 ? {} : { from: from.map(wordsOf).join(", ") })
})

const wordsOf = ({ callId, tool }: { readonly callId: string; readonly tool: string }): string =>
  tool === "" ? "text that the user pasted" : `the output of call ${callId} (${tool})`
