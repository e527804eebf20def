/**
 * What a policy says of a call: allow, ask or deny, over tools and what they are about. Pure; `Permissions` applies it.
 *
 * In this order: a `deny` pattern that touches the call, the mode, an `ask` pattern that touches it, the tool's own
 * `needsApproval` unless `skipApproval` names the tool, `allow` patterns that cover all of it, the default. A protected
 * target, or one that is not known and so may be protected, is asked about where it would otherwise be allowed.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Problem } from "../vocabulary/ConfigurationError.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import * as PermissionPattern from "./PermissionPattern.ts"

const optional = Schema.optionalKey

const Patterns = Schema.Array(Schema.NonEmptyString.annotate({
  description: "A tool, or tool(target); * is any run of characters, ? is one"
}))

/** Schema of a policy as data. */
export const Policy = Schema.Struct({
  default: optional(Schema.Literals(["allow", "ask", "deny", "cautious", "readOnly"])).annotate({
    description:
      "For calls that no list is about; cautious, the default, lets tools run that change nothing and stay inside and " +
      "asks about the others; readOnly denies the others"
  }),
  mode: optional(Schema.Literals(["ask", "acceptEdits", "readOnly", "offline", "plan", "denyAll"])).annotate({
    description:
      "What holds on top of the lists: acceptEdits asks for no edits; readOnly and plan deny what changes things; " +
      "offline denies what reaches outside; denyAll denies everything"
  }),
  allow: optional(Patterns).annotate({ description: "Calls that may run, if all they are about is covered" }),
  ask: optional(Patterns).annotate({
    description: "Calls that a person is asked about, if anything they are about fits"
  }),
  deny: optional(Patterns).annotate({ description: "Calls that may not run, if anything they are about fits" }),
  skipApproval: optional(Schema.Array(Schema.NonEmptyString)).annotate({
    description: "Names of tools whose own needsApproval does not count"
  })
})

/**
 * A policy as data.
 *
 * `default` decides about calls that match no list. `cautious`, the default, lets ReadOnly, closed-world tools run and
 * requires approval of the others; without an approver these are denied. `readOnly` denies the others.
 *
 * `mode`: `ask` (the default) adds nothing. `acceptEdits` requires no approval for tools that declare
 * `ToolAnnotations.Edits`. `readOnly` and `plan` deny what is not ReadOnly, `offline` what declares `Tool.OpenWorld`,
 * `denyAll` everything.
 *
 * `skipApproval`: exact names of tools whose own `needsApproval` does not count. Without it a call that its tool wants
 * approved is asked about even where `allow` covers it: the tool's author knows when a call is dangerous.
 */
export interface Policy {
  readonly default?: "allow" | "ask" | "deny" | "cautious" | "readOnly" | undefined
  readonly mode?: "ask" | "acceptEdits" | "readOnly" | "offline" | "plan" | "denyAll" | undefined
  readonly allow?: ReadonlyArray<string> | undefined
  readonly ask?: ReadonlyArray<string> | undefined
  readonly deny?: ReadonlyArray<string> | undefined
  readonly skipApproval?: ReadonlyArray<string> | undefined
}

/** What the policy says of a call. */
export type Decision =
  | { readonly _tag: "Allow" }
  /**
   * A person is to be asked; `why` gives the reason. `because` lists the reasons that lie in the targets themselves,
   * each as one text: empty where every call of the tool would ask. Default: `why` alone.
   */
  | { readonly _tag: "Ask"; readonly why: string; readonly because?: ReadonlyArray<string> | undefined }
  /** `rule` is the part of the policy that says no. */
  | { readonly _tag: "Deny"; readonly rule: string }

/** A policy whose patterns are parsed. */
export interface Parsed {
  readonly default: NonNullable<Policy["default"]>
  readonly mode: NonNullable<Policy["mode"]>
  readonly allow: ReadonlyArray<PermissionPattern.PermissionPattern>
  readonly ask: ReadonlyArray<PermissionPattern.PermissionPattern>
  readonly deny: ReadonlyArray<PermissionPattern.PermissionPattern>
  readonly skipApproval: ReadonlySet<string>
}

/**
 * Parses a policy; fails with every pattern that is not valid. Where the names of the tools are given, a pattern that
 * fits none of them is a problem as well, unless such a tool is expected to come.
 */
export const parse = (
  policy: Policy,
  tools?: ReadonlyArray<string>,
  expects: (tool: string) => boolean = () => false
): Result.Result<Parsed, ReadonlyArray<Problem>> => {
  const problems: Array<Problem> = []
  const list = (key: "allow" | "ask" | "deny") =>
    (policy[key] ?? []).flatMap((source, index): ReadonlyArray<PermissionPattern.PermissionPattern> => {
      const wrong = (problem: string, expected: string): ReadonlyArray<never> => {
        problems.push({ path: `${key}[${index}]`, problem, expected })
        return []
      }
      const parsed = PermissionPattern.parse(source)
      if (Result.isFailure(parsed)) return wrong(`${JSON.stringify(source)}: ${parsed.failure}`, "tool or tool(target)")
      return tools === undefined || expects(parsed.success.tool) ||
          tools.some((tool) => PermissionPattern.names(parsed.success, tool))
        ? [parsed.success]
        : wrong(`there is no tool ${JSON.stringify(parsed.success.tool)}`, `one of ${tools.join(", ")}`)
    })
  const exactNames = (policy.skipApproval ?? []).filter((name, index) => {
    const wrong = (problem: string, expected: string) => {
      problems.push({ path: `skipApproval[${index}]`, problem: `${JSON.stringify(name)}: ${problem}`, expected })
      return false
    }
    if (/[*?\s()]/.test(name)) {
      return wrong("a tool's own condition is skipped by its exact name", "the name of one tool")
    }
    return tools === undefined || tools.includes(name) || expects(name) ||
      wrong("there is no such tool", `one of ${tools.join(", ")}`)
  })
  const parsed: Parsed = {
    default: policy.default ?? "cautious",
    mode: policy.mode ?? "ask",
    allow: list("allow"),
    ask: list("ask"),
    deny: list("deny"),
    skipApproval: new Set(exactNames)
  }
  return problems.length > 0 ? Result.fail(problems) : Result.succeed(parsed)
}

/** Gives what a policy says of one tool's calls, so that each call asks only what matters to it. */
export const forTool = (self: Parsed, tool: RegisteredTool): ToolPolicy => {
  const naming = (patterns: ReadonlyArray<PermissionPattern.PermissionPattern>) =>
    patterns.filter((it) => PermissionPattern.names(it, tool.name))
  // who may not read a file may not search it
  const stricter = (patterns: ReadonlyArray<PermissionPattern.PermissionPattern>) =>
    patterns.filter((it) => namesOf(tool).some((name) => PermissionPattern.names(it, name)))
  const [deny, ask, allow] = [stricter(self.deny), stricter(self.ask), naming(self.allow)]
  const forbidden = forbiddenBy(self.mode, tool)
  const editsFreely = self.mode === "acceptEdits" && tool.edits && self.default !== "deny"
  const rest = editsFreely ? allowed : byDefault(self, tool)
  const skipsApproval = self.skipApproval.has(tool.name)
  const decide: ToolPolicy["decide"] = (given, needsApproval) => {
    const targets = given?.map((it) => isRun(self, it) ? { ...it, kind: "protected" as const } : it)
    const denied = deny.find((it) => PermissionPattern.fits(it, targets))
    if (denied !== undefined) return { _tag: "Deny", rule: `deny ${denied.source}` }
    if (forbidden !== undefined) return { _tag: "Deny", rule: `mode ${self.mode}: ${forbidden}` }
    const guarded = targets?.find(({ kind }) => kind === "protected")
    // what is not known may be protected
    const guards = guarded !== undefined
      ? ["it is protected"]
      : targets === undefined && tool.guardsTargets
      ? [unknown]
      : []
    const asked = ask.filter((it) => PermissionPattern.fits(it, targets))
    if (asked[0] !== undefined) {
      const because = asked.flatMap((it) => it.target === undefined ? [] : [`ask ${it.source}`])
      return { _tag: "Ask", why: `the policy asks about ${asked[0].source}`, because: [...because, ...guards] }
    }
    const isListed = PermissionPattern.covers(allow, tool.name, targets?.map(unguarded))
    if (guards.length > 0 && (isListed ? self.default !== "deny" : rest._tag !== "Deny")) {
      const why = guarded === undefined ? unknown : `${JSON.stringify(guarded.text)} is protected`
      return { _tag: "Ask", why, because: guards }
    }
    const isCovered = isListed && guards.length === 0
    return needsApproval && !skipsApproval && (isCovered || self.default !== "deny")
      ? { _tag: "Ask", why: "the tool needs approval", because: [] }
      : isCovered
      ? allowed
      : rest
  }
  const [always, approved] = [decide([], false), decide([], true)]
  const needsTargets = tool.guardsTargets || [...deny, ...ask, ...allow].some((it) => it.target !== undefined) ||
    // who is asked is asked about these, and what they say is remembered for them
    (tool.declaresTargets && (always._tag === "Ask" || (mayNeedApproval(tool) && approved._tag === "Ask")))
  if (needsTargets) return { decide, needsTargets }
  // without targets every call of the tool is the same to the policy
  return {
    decide: (targets, needsApproval) =>
      targets !== undefined && targets.length > 0
        ? decide(targets, needsApproval)
        : needsApproval
        ? approved
        : always,
    needsTargets
  }
}

/** What a policy says of one tool's calls. */
export interface ToolPolicy {
  /**
   * Says what holds of a call about these targets; `undefined` if they could not be found out: then patterns with a
   * target deny and ask, but do not allow. `needsApproval` is what the tool says of the call.
   */
  readonly decide: (targets: ReadonlyArray<PermissionPattern.Target> | undefined, needsApproval: boolean) => Decision
  /** Whether what a call is about matters. */
  readonly needsTargets: boolean
}

/** Tells whether an agent may know of a tool: some call of it is not denied. */
export const sees = (self: Parsed, tool: RegisteredTool): boolean => {
  const names = namesOf(tool)
  if (self.deny.some((it) => it.target === undefined && names.some((name) => PermissionPattern.names(it, name)))) {
    return false
  }
  if (forbiddenBy(self.mode, tool) !== undefined) return false
  if ([...self.allow, ...self.ask].some((it) => PermissionPattern.names(it, tool.name))) return true
  return forTool(self, tool).decide([], mayNeedApproval(tool))._tag !== "Deny"
}

/** Whether what is written there would be run without asking. */
const isRun = (self: Parsed, { runBy }: PermissionPattern.Target): boolean => {
  if (runBy === undefined) return false
  const naming = (it: PermissionPattern.PermissionPattern) => PermissionPattern.names(it, runBy)
  return (self.default === "allow" || self.allow.some(naming)) &&
    ![...self.deny, ...self.ask].some((it) => it.target === undefined && naming(it))
}

/** The names that patterns which deny or ask may know a tool by. */
const namesOf = ({ actsAs = [], name }: RegisteredTool): ReadonlyArray<string> => [name, ...actsAs]

const allowed: Decision = { _tag: "Allow" }

const unknown = "what it is about could not be found out"

/** A target as it would be if it guarded nothing. */
const unguarded = (it: PermissionPattern.Target): PermissionPattern.Target =>
  it.kind === "protected" ? { ...it, kind: undefined } : it

const forbiddenBy = (mode: Parsed["mode"], tool: RegisteredTool): string | undefined => {
  if (mode === "denyAll") return "every call is denied"
  if ((mode === "readOnly" || mode === "plan") && !tool.readOnly) return "nothing may be changed"
  return mode === "offline" && tool.openWorld ? "nothing may reach outside" : undefined
}

const mayNeedApproval = ({ needsApproval }: RegisteredTool): boolean =>
  needsApproval !== undefined && needsApproval !== false

const byDefault = (self: Parsed, tool: RegisteredTool): Decision => {
  switch (self.default) {
    case "allow":
      return allowed
    case "ask":
      return { _tag: "Ask", why: "the policy asks about whatever it does not allow", because: [] }
    case "deny":
      return { _tag: "Deny", rule: "default deny" }
    case "cautious":
      if (!tool.readOnly) return { _tag: "Ask", why: "the tool changes things", because: [] }
      return tool.openWorld ? { _tag: "Ask", why: "the tool reaches outside", because: [] } : allowed
    case "readOnly":
      if (!tool.readOnly) return { _tag: "Deny", rule: "mutating tools need to be allowed" }
      return tool.openWorld ? { _tag: "Deny", rule: "tools that reach outside need to be allowed" } : allowed
  }
}
