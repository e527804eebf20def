/**
 * Rules as sentences: what a set demands, for a prompt, and why a call was
 * refused. Pure.
 *
 * @since 0.1.0
 */
import type { RuleSet } from "./RuleIndex.ts"
import type { ToolRule } from "./ToolRule.ts"

/**
 * A rule that forbids a call now, and the tools that matter to it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Violation {
  readonly rule: ToolRule
  readonly tool: string
  /** What is missing, what has happened already, or what alone may come, as the rule has it. */
  readonly names: ReadonlyArray<string>
  /** Of a start constraint: the tools of which one is enough. */
  readonly alternatives?: ReadonlyArray<string>
  /** Of `ParentTools`: the call is a child that does not follow its parent. */
  readonly isChild?: boolean
  /** The last success. */
  readonly last?: string | undefined
}

/**
 * Gives what a rule set demands as sentences, for the prompt of a model. What only
 * the host does (`Periodic`) is left out.
 *
 * **Details**
 *
 * Rules that hold together are one sentence, and what a stricter rule overrides is
 * left out, so that no two sentences contradict each other.
 *
 * @category formatting
 * @since 0.1.0
 */
export const describe = (self: RuleSet): ReadonlyArray<string> =>
  Array.from(new Set(self.rules.flatMap((rule) => together(self, rule))))

/** The sentences of a rule, as it holds beside the other rules of its set. */
const together = (self: RuleSet, rule: ToolRule): ReadonlyArray<string> => {
  switch (rule._tag) {
    case "Periodic":
      return []
    case "StartConstraint": {
      const ofMode = self.starts.filter(({ mode }) => (mode === "any") === (rule.mode === "any"))
      return [startSentence(ofMode.map(({ tool }) => tool), rule.mode === "any")]
    }
    case "ChildTools": {
      const all = self.rules.filter((it) => it._tag === "ChildTools").filter(({ tool }) => tool === rule.tool)
      const [first, ...others] = rule.children.filter((child) => all.every((it) => it.children.includes(child)))
      return [sentence(first === undefined ? rule : { ...rule, children: [first, ...others] })]
    }
    case "ParentTools": {
      if (rule.children.every((child) => self.forTool(child).parents.length < 2)) return [sentence(rule)]
      const of = (child: string) => Array.from(new Set(self.forTool(child).parents.map(({ tool }) => object(tool))))
      const after = rule.children.map((child) =>
        `${quote(child)} may be called only right after ${list(of(child), "or")}.`
      )
      return [[...after, `Right after ${object(rule.tool)} only ${or(rule.children)} may be called.`].join(" ")]
    }
    case "MaxCalls": {
      const strictest = rule.tool === "*" ? undefined : self.forTool(rule.tool).maxCalls
      return strictest === undefined || strictest.max === rule.max && strictest.tool === rule.tool
        ? [sentence(rule)]
        : []
    }
    case "ExclusiveGroup": {
      const areOnce = rule.tools.every((tool) => self.forTool(tool).maxCalls?.max === 1)
      return areOnce ? [groupSentence(rule.tools)] : [sentence(rule)]
    }
    case "AlwaysDedupe": {
      const isNever = (tool: string) => self.forTool(tool).dedupe === "never"
      if (rule.tool !== "*") return isNever(rule.tool) ? [] : [sentence(rule)]
      const except = self.tools.filter(isNever)
      if (except.length === self.tools.length && except.length > 0) return []
      return except.length === 0
        ? [sentence(rule)]
        : [`No tool but ${and(except)} is run again with the same arguments.`]
    }
    default:
      return [sentence(rule)]
  }
}

const startSentence = (tools: ReadonlyArray<string>, isAny: boolean): string => {
  const who = isAny && new Set(tools).size > 1 ? `One of ${and(tools)} has` : `${and(tools)} ${have(each(tools))}`
  return `${who} to succeed before any other tool is called.`
}

const groupSentence = (tools: ReadonlyArray<string>): string =>
  `Only one of ${and(tools)} may be used for one request: the first that is called.`

/**
 * Gives the sentence of one rule by itself.
 *
 * @category formatting
 * @since 0.1.0
 */
export const sentence = (rule: ToolRule): string => {
  switch (rule._tag) {
    case "StartConstraint":
      return startSentence([rule.tool], false)
    case "RequiresPrecedingTools":
      return `${subject(rule.tool, rule.tools)} may be called only after ${and(rule.tools)} ${
        have(rule.tools)
      } succeeded.`
    case "RequiresFollowingTools":
      return `${none(rule.tool, "may no longer be", "may be")} called once ${or(rule.tools)} has succeeded.`
    case "ChildTools": {
      const prefilled = Object.entries(rule.prefilled ?? {}).map(([child, values]) =>
        Object.keys(values).length === 0 ? "" : ` The host sets ${and(Object.keys(values))} of ${quote(child)}.`
      )
      return `Right after ${object(rule.tool)} only ${or(rule.children)} may be called.${prefilled.join("")}`
    }
    case "ParentTools":
      return `${capital(and(rule.children))} may be called only right after ${
        object(rule.tool)
      }, and right after it nothing else may.`
    case "Conditional": {
      const cases = rule.cases.map((it) => `${quote(it.tool)} if it is ${JSON.stringify(it.equals)}`)
      const otherwise = rule.default !== undefined
        ? quote(rule.default)
        : rule.strict === true
        ? "nothing"
        : "anything"
      if (rule.cases.length === 0) {
        return `Right after ${object(rule.tool)} ${
          rule.default === undefined ? otherwise : `only ${otherwise}`
        } may be called.`
      }
      const where = rule.path === "" ? "its output" : `${quote(rule.path)} in its output`
      return `Right after ${object(rule.tool)}, ${where} decides what may be called next: ${
        [...cases, `otherwise ${otherwise}`].join(", ")
      }.`
    }
    case "AllowedOperations":
      return `${
        rule.tool === "*" ? `Every tool that takes ${quote(rule.field)}` : quote(rule.tool)
      } may be called only with ${quote(rule.field)} set to ${
        list(rule.allowed.map((it) => JSON.stringify(it)), "or")
      }.`
    case "MaxCalls":
      return rule.max === 0
        ? `${none(rule.tool, "may not be", "may be")} called.`
        : `${subject(rule.tool)} may be called at most ${times(rule.max)} for one request.`
    case "ExclusiveGroup":
      return `${groupSentence(rule.tools)} It may be repeated.`
    case "RequiredBeforeExit": {
      const must = `has to succeed before ${rule.scope === "batch" ? "this request" : "the work"} may end.`
      return rule.when === undefined
        ? `${subject(rule.tool)} ${must}`
        : `Once ${and(rule.when)} ${have(rule.when)} succeeded, ${
          rule.tool === "*" ? "every tool" : quote(rule.tool)
        } ${must}`
    }
    case "ExitLoop":
      return `The work ends once ${object(rule.tool)} has succeeded.`
    case "ContinueLoop":
      return `After ${object(rule.tool)} you get another turn without asking for one.`
    case "Cooldown":
      return `${subject(rule.tool)} may be called again no sooner than ${rule.duration} after its previous call.`
    case "RequiresConsent":
      return `${subject(rule.tool)} runs only if a person allows it.`
    case "NeverDedupe":
      return `${subject(rule.tool)} may be repeated with the same arguments.`
    case "AlwaysDedupe":
      return `${none(rule.tool, "is not", "is")} run again with the same arguments.`
    case "Periodic":
      return `${quote(rule.tool)} is run by the host, ${
        /\s\S+\s\S+\s/.test(rule.schedule) ? `at "${rule.schedule}" (UTC)` : `every ${rule.schedule}`
      }.`
  }
}

/**
 * Explains a violation to the model: what was wrong, what is allowed instead,
 * and whether a retry makes sense.
 *
 * @category formatting
 * @since 0.1.0
 */
export const explain = ({ alternatives = [], isChild, last, names, rule, tool }: Violation): string => {
  const it = quote(tool)
  const after = last === undefined ? "nothing has succeeded yet" : `the last success is ${quote(last)}`
  switch (rule._tag) {
    case "StartConstraint": {
      const needed = names.filter((name) => !alternatives.includes(name))
      const open = names.filter((name) => alternatives.includes(name))
      const first = [
        ...needed.map(quote),
        ...open.length > 0 ? [open.length > 1 ? `one of ${and(open)}` : or(open)] : []
      ]
      return `${it} may not be called yet: ${list(first, "and")} ${
        needed.length > 1 || first.length > 1 ? "have" : "has"
      } to succeed first. Call ${list(first, "and")}, then call ${it} again.`
    }
    case "RequiresPrecedingTools":
      return `${it} may be called only after ${and(rule.tools)} ${have(rule.tools)} succeeded; ${and(names)} ${
        names.length > 1 ? "have" : "has"
      } not. Call ${and(names)}, then call ${it} again.`
    case "RequiresFollowingTools":
      return `${it} may no longer be called once ${or(rule.tools)} has succeeded, and ${and(names)} ${
        have(names)
      }. Go on without it.`
    case "ChildTools":
      return `Right after ${quote(last!)} only ${or(names)} may be called, so ${it} was not run. Call ${or(names)}.`
    case "ParentTools":
      return isChild === true
        ? `${it} may be called only right after ${
          names.includes("*") ? "another tool has succeeded" : or(names)
        }; ${after}. Call ${names.includes("*") ? "another tool" : or(names)}, then call ${it} again.`
        : `Right after ${quote(last!)} only ${or(names)} may be called, so ${it} was not run. Call ${or(names)}.`
    case "Conditional":
      return names.length === 0
        ? `The output of ${quote(last!)} leads to no tool, so ${it} was not run. Answer without tools.`
        : `The output of ${quote(last!)} leads to ${or(names)}, so ${it} was not run. Call ${or(names)}.`
    case "AllowedOperations":
      return `${sentence({ ...rule, tool })} Correct ${quote(rule.field)} and call it again.`
    case "MaxCalls":
      return rule.max === 0
        ? `${it} may not be called here. Go on without it.`
        : `${it} may run at most ${times(rule.max)} for this request, and that is used up. ` +
          "Do not call it again; go on with what you have."
    case "ExclusiveGroup":
      return `Only one of ${and(rule.tools)} may be used for this request, and ${and(names)} was first. ` +
        `Use ${and(names)} instead of ${it}.`
    case "Cooldown":
      return names.length > 0
        ? `${it} is still running, and may be called again no sooner than ${rule.duration} after that. Wait for its result first.`
        : `${it} may be called again no sooner than ${rule.duration} after its previous call.`
    default:
      return sentence(rule)
  }
}

// Utilities

const quote = (name: string): string => `"${name}"`

const list = (items: ReadonlyArray<string>, word: "and" | "or"): string =>
  items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} ${word} ${items.at(-1)}`

const each = (names: ReadonlyArray<string>): ReadonlyArray<string> => Array.from(new Set(names), quote)

const and = (names: ReadonlyArray<string>): string => list(each(names), "and")

const or = (names: ReadonlyArray<string>): string => list(each(names), "or")

const have = (names: ReadonlyArray<string>): string => names.length > 1 ? "have" : "has"

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

const subject = (tool: string, except: ReadonlyArray<string> = []): string =>
  tool !== "*" ? quote(tool) : except.length === 0 ? "Every tool" : `Every tool but ${and(except)}`

/** A tool that does not, or no tool that does. */
const none = (tool: string, not: string, does: string): string =>
  tool === "*" ? `No tool ${does}` : `${quote(tool)} ${not}`

const object = (tool: string): string => tool === "*" ? "any tool" : quote(tool)

const times = (max: number): string => max === 1 ? "once" : `${max} times`
