/**
 * What one kind of rule consists of. Each kind is one file in `kinds/` with one value of this form, listed in
 * `RuleKinds`; everything else about rules is computed from that table. Pure.
 */
import type * as Tool from "effect/ai/Tool"
import type * as JsonSchema from "effect/JsonSchema"
import type * as Schema from "effect/Schema"
import type { Approvers } from "../vocabulary/Approvers.ts"
import type { Problem } from "../vocabulary/ConfigurationError.ts"

/** A rule of some kind. */
export interface AnyRule {
  readonly _tag: string
}

/**
 * Where a rule counts: in one process, one pass of an agent; in one batch, a user request with all its processes; or in
 * one session, a conversation with all its requests.
 */
export type Scope = "process" | "batch" | "session"

/** The scopes that several processes share. */
export type SharedScope = Exclude<Scope, "process">

export interface RuleKind<R extends AnyRule> {
  /** Its data, with a description that says where it counts. */
  readonly schema: Schema.Codec<R, unknown>
  /** Where a rule counts that names no `scope`, or why rules of this kind take no scope. */
  readonly scope: Scope | "principal" | { readonly none: string }
  /** Its constructor; `typed` gives the constructor its type for a toolkit. */
  readonly make: TypedConstructor
  /** The tools that a rule names, each with its place. A tool that is not registered is a problem. */
  readonly names: (rule: R) => ReadonlyArray<NamedTool>
  /** The tools that must be able to run for the rule to make sense. */
  readonly countsOn: (rule: R) => ReadonlyArray<NamedTool>
  /** What a rule says of one tool. This is all that is enforced. `*` asks about every tool. */
  readonly says: (rule: R, tool: string) => Says
  /** Problems of a rule whose form and names are valid, also together with the rules before it. */
  readonly problems: (rule: R, at: Placement) => ReadonlyArray<Problem>
  /** The rule as a sentence. */
  readonly sentence: (rule: R) => string
  /** The sentences for a model's prompt, where they depend on other rules of the set. Default: `sentence`. */
  readonly sentencesIn?: (rule: R, set: RuleSet) => ReadonlyArray<string>
  /** Explains a refusal to a model: what was wrong, what is allowed instead, whether to retry. */
  readonly explain: (violation: Violation<R>) => string
  readonly draw: (rule: R, drawing: Drawing) => void
}

/** What a rule says of one tool. Everything that is enforced on calls is one of these. */
export interface Says {
  /** The tool starts a process: all start tools, or one of those with `any`, succeed before any other tool. */
  readonly start?: "all" | "any" | undefined
  /** Tools that have to succeed before it. */
  readonly needs?: ReadonlyArray<string> | undefined
  /** Tools of which none may have succeeded. */
  readonly notAfter?: ReadonlyArray<string> | undefined
  /** Any other condition: the tools that stand in the way now. The static checks do not look at it. */
  readonly forbids?: ((history: History) => ReadonlyArray<string> | undefined) | undefined
  /** Tools of which one has to be the last success; `*` is any. Several rules add to each other. */
  readonly onlyAfter?: ReadonlyArray<string> | undefined
  /** The only tools that may come right after its success. */
  readonly onlyNext?: ReadonlyArray<string> | undefined
  /** Which tools may come right after its success depends on its output. */
  readonly routes?: Routes | undefined
  /** The values that one of its arguments may have. */
  readonly argument?: Argument | undefined
  /** How often it may start. */
  readonly maxCalls?: number | undefined
  /** Tools of which only one may be used. */
  readonly group?: ReadonlyArray<string> | undefined
  /** Milliseconds from the end of one call to the start of the next. */
  readonly cooldown?: number | undefined
  /** A person has to approve its calls. */
  readonly consent?: Consent | undefined
  /** Whether equal calls are duplicates, whatever the tool or the policy says. */
  readonly dedupe?: "never" | "always" | undefined
  /** Arguments that override the model's. */
  readonly prefilled?: Readonly<Record<string, Schema.Json>> | undefined
  /** It has to succeed before the work may end. */
  readonly required?: Requirement | undefined
  /** Its success ends the loop. */
  readonly exits?: boolean | undefined
  /** It needs no heartbeat. */
  readonly continues?: boolean | undefined
  /** The executor calls it periodically. */
  readonly fires?: Firing | undefined
}

/** For how much one approval counts, and who approves. */
export interface Consent {
  readonly remember: "call" | "resources" | "tool"
  readonly approvers?: ReadonlyArray<Approvers> | undefined
}

/** Which tools an output leads to. */
export interface Routes {
  /** Path of the value inside the encoded output. */
  readonly path: string
  /** The values that lead to different tools; all other values lead to the same tools. */
  readonly values: ReadonlyArray<unknown>
  /** The only tools that may come next; `undefined` allows any. */
  readonly to: (value: unknown) => ReadonlyArray<string> | undefined
}

/** The values that an argument may have. */
export interface Argument {
  readonly field: string
  readonly allowed: ReadonlyArray<Schema.Json>
  /** Only where the tool takes such an argument. */
  readonly ifTaken: boolean
}

/** When a tool has to succeed before the work may end. */
export interface Requirement {
  /** Only once all of these succeeded; `undefined` is always. */
  readonly when: ReadonlyArray<string> | undefined
}

/** When the executor calls a tool, and with which arguments. */
export interface Firing {
  /** A duration, or a cron expression in UTC. */
  readonly schedule: string
  readonly params?: Readonly<Record<string, Schema.Json>> | undefined
}

/** A tool that a rule names, and where. */
export interface NamedTool {
  /** Place in the rule, such as `tools[1]`. */
  readonly place: string
  readonly tool: string
  /** `*` may stand here. */
  readonly wildcard: boolean
}

/** A rule and where it stands, such as `rules[3]` or `tools.search.rules[0]`. */
export interface Placed<R = AnyRule> {
  readonly path: string
  readonly rule: R
}

/** Where a rule that is checked stands, and what is known there. */
export interface Placement {
  readonly path: string
  /** All rules whose form and names are right. */
  readonly all: ReadonlyArray<Placed>
  /** Those that stand before this one. */
  readonly before: ReadonlyArray<Placed>
  /** JSON Schema of the parameters of a tool, if it is known. */
  readonly schemaOf: (tool: string) => JsonSchema.JsonSchema | undefined
}

/** A rule that forbids a call now, and the tools that matter to it. */
export interface Violation<R = AnyRule> {
  readonly rule: R
  readonly tool: string
  /** What is missing, what has happened already, or what alone may come, as the rule has it. */
  readonly names: ReadonlyArray<string>
  /** Of a start constraint: the tools of which one is enough. */
  readonly alternatives?: ReadonlyArray<string>
  /** The call does not follow a tool that it has to follow (`onlyAfter`). */
  readonly isChild?: boolean
  /** The last success. */
  readonly last?: string | undefined
}

/** What has happened in a process, a batch or a session so far, as far as rules ask. */
export interface Past<R = AnyRule> {
  /** Tools that succeeded. */
  readonly succeeded: ReadonlySet<string>
  /** The last success in input order. */
  readonly last: Success<R> | undefined
}

/** What has happened in a process so far, and in all processes of its batch and its session, as far as rules ask. */
export interface History<R = AnyRule> extends Past<R> {
  readonly batch: Past<R>
  readonly session: Past<R>
  /** A tool that ends the loop succeeded in the process. */
  readonly exitWanted: boolean
}

/** A success as rules remember it. */
export interface Success<R = AnyRule> {
  readonly tool: string
  /** Where its output leads: the only tools that may be next, by each rule that says so. */
  readonly routes: ReadonlyArray<ListedTools<R>>
}

export interface ListedTools<R = AnyRule> {
  readonly rule: R
  readonly tools: ReadonlyArray<string>
}

/** A rule and where it counts. */
export interface Scoped<R = AnyRule, S = Scope> {
  readonly rule: R
  readonly scope: S
}

/** A rule, the tools that it lists and where it counts. */
export type ScopedTools<R = AnyRule> = ListedTools<R> & Scoped<R>

/** What all rules of a set say of one tool. */
export interface ToolRules<R = AnyRule> {
  readonly start: "all" | "any" | undefined
  readonly needs: ReadonlyArray<ScopedTools<R>>
  readonly notAfter: ReadonlyArray<ScopedTools<R>>
  readonly forbids: ReadonlyArray<
    { readonly rule: R; readonly now: (history: History) => ReadonlyArray<string> | undefined }
  >
  /** It may come right after a tool of any of these. */
  readonly onlyAfter: ReadonlyArray<ScopedTools<R>>
  /** Right after a success of it, only tools that all of these list. */
  readonly onlyNext: ReadonlyArray<ScopedTools<R>>
  readonly routes: ReadonlyArray<Scoped<R> & Routes>
  readonly arguments: ReadonlyArray<{ readonly rule: R } & Argument>
  /** The strictest limit of each scope. */
  readonly maxCalls: ReadonlyArray<Scoped<R> & { readonly max: number }>
  readonly groups: ReadonlyArray<ScopedTools<R> & { readonly id: string }>
  /** The longest cooldown of each scope. */
  readonly cooldowns: ReadonlyArray<Scoped<R, Scope | "principal"> & { readonly millis: number }>
  readonly consent: Consent | undefined
  readonly dedupe: "never" | "always" | undefined
  /** Where equal calls are looked for, if a rule says so. */
  readonly dedupeScope: Scope | undefined
  readonly prefilled: Readonly<Record<string, Schema.Json>> | undefined
  readonly continues: boolean
  readonly exits: boolean
  /** Another tool has to wait for its success in these scopes. */
  readonly isPrerequisite: ReadonlyArray<Scope>
  /** A process may wait for its success: it starts, is a prerequisite, is required before exit, or exits. */
  readonly mayBeAwaited: boolean
  /** Nothing about the moment or the arguments can forbid it: gate 9 has nothing to ask. */
  readonly isFree: boolean
  /** A rule of order names it: a call of the tool is the last of its run. */
  readonly closesRun: boolean
  /** The shared scopes in which a rule of order asks for its successes. */
  readonly notedIn: ReadonlyArray<SharedScope>
  /** The shared scopes whose past may forbid it, or tells whether a process still waits for its success. */
  readonly asks: ReadonlyArray<SharedScope>
}

/** A tool that has to succeed before the work may end. */
export interface Required<R = AnyRule> extends Requirement, Scoped<R> {
  readonly tool: string
  /** The rule is about every tool. */
  readonly isEach: boolean
}

/** A rule set, indexed by tool. Made by `RuleSet.make`. */
export interface RuleSet<R = AnyRule> {
  readonly rules: ReadonlyArray<R>
  /** Names of the tools it is for. */
  readonly tools: ReadonlyArray<string>
  readonly forTool: (tool: string) => ToolRules<R>
  readonly starts: ReadonlyArray<Scoped<R> & { readonly tool: string; readonly mode: "all" | "any" }>
  readonly required: ReadonlyArray<Required<R>>
  readonly periodic: ReadonlyArray<{ readonly rule: R; readonly tool: string } & Firing>
  /** Whether some rule asks what came right before. */
  readonly looksBack: boolean
  /** Whether some limit counts in processes. */
  readonly countsInProcesses: boolean
  /** Whether some rule counts in batches. */
  readonly countsInBatches: boolean
  /** The shared scopes whose successes some rule of order asks for. */
  readonly remembers: ReadonlyArray<SharedScope>
}

/** What a rule draws on. */
export interface Drawing {
  /** Where a turn starts. */
  readonly start: string
  /** Where it ends. */
  readonly exit: string
  /** The node of a tool; `*` is one node for any tool. */
  readonly tool: (name: string) => string
  /** Writes a limit into the node of a tool. */
  readonly note: (name: string, note: string) => void
  /** Draws an edge between nodes: `excludes` has no direction. */
  readonly edge: (from: string, kind: "needs" | "next" | "forbids" | "excludes", label: string, to: string) => void
}

/** A constructor whose types depend on the tools of a toolkit: `type` is the constructor for `this["Tools"]`. */
export interface Constructor {
  readonly Tools: unknown
  readonly type: unknown
}

/** The constructor for some tools. */
export type ConstructorFor<F extends Constructor, Tools extends Record<string, Tool.Any>> =
  (F & { readonly Tools: Tools })["type"]

/** A constructor for any tools that knows its type for each toolkit. */
export interface TypedConstructor<F extends Constructor = Constructor> {
  readonly any: ConstructorFor<F, Record<string, Tool.Any>>
  /** Exists for the compiler only. */
  readonly typed?: F
}

/** Gives a constructor its type for each toolkit. */
export const typed = <F extends Constructor>(
  any: ConstructorFor<F, Record<string, Tool.Any>>
): TypedConstructor<F> => ({ any })
