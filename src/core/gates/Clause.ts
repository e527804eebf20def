/**
 * Clauses: the entries of a policy's lists. A clause is a pattern, or data that says more: `{ tool, target?, when?,
 * roles?, approvers? }`. Pure.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Approvers } from "../vocabulary/Approvers.ts"
import type { Problem } from "../vocabulary/ConfigurationError.ts"
import * as Condition from "./Condition.ts"
import * as PermissionPattern from "./PermissionPattern.ts"

const optional = Schema.optionalKey

/** Schema of a clause that is data. */
export const Clause = Schema.Struct({
  tool: Schema.NonEmptyString.annotate({ description: "The name of a tool; * is any run of characters, ? is one" }),
  target: optional(Schema.NonEmptyString).annotate({
    description: "What the call is about; * is any run of characters, ? is one"
  }),
  when: optional(Condition.When).annotate({
    description: "Conditions on arguments by their dotted paths, such as { \"amount\": { \"gt\": 100 } }"
  }),
  roles: optional(Schema.Array(Schema.NonEmptyString).check(Schema.isMinLength(1))).annotate({
    description: "The clause holds for principals with one of these roles"
  }),
  approvers: optional(Approvers).annotate({ description: "Who approves the call; in ask and askAlways" })
})

/** A clause that is data. */
export type Clause = typeof Clause.Type

/** Schema of an entry of a list. */
export const Entry = Schema.Union([
  Schema.NonEmptyString.annotate({ description: "A tool, or tool(target); * is any run of characters, ? is one" }),
  Clause
])

/** An entry of a list: a pattern or a clause. */
export type Entry = typeof Entry.Type

/** The lists of a policy. */
export type List = "allow" | "ask" | "askAlways" | "deny" | "review.allow" | "review.deny"

/** A clause whose parts are parsed; itself a pattern. */
export interface Parsed extends PermissionPattern.PermissionPattern {
  /** The name of its tier; empty: the policy has no tiers. */
  readonly tier: string
  /** The place of its tier, 0 is the uppermost. */
  readonly level: number
  readonly list: List
  /** Its place in the list of its tier. */
  readonly index: number
  /** Comparisons with arguments; empty: the clause holds whatever they are. */
  readonly tests: ReadonlyArray<Condition.Test>
  /** Absent: the clause holds for everybody. */
  readonly roles: ReadonlyArray<string> | undefined
  readonly approvers: Approvers | undefined
  /** It has neither conditions nor roles. */
  readonly isPlain: boolean
  /**
   * The same for tools that act as its tool, if it has conditions: their arguments are not those of its tool, so the
   * conditions cannot be decided.
   */
  readonly whenActing?: Parsed | undefined
}

/** What a clause looks at besides the tool and the targets of a call. */
export interface Given extends Condition.Given {
  /** The roles of the principal; absent: unknown. */
  readonly roles?: ReadonlyArray<string> | undefined
}

/** Where a clause stands. */
export type Place = Pick<Parsed, "tier" | "level" | "list" | "index">

/** Parses an entry; the failure has everything that is wrong with it, by the path within the entry. */
export const parse = (entry: Entry, place: Place): Result.Result<Parsed, ReadonlyArray<Problem>> => {
  const { approvers, roles, target, tool, when } = typeof entry === "string" ? ofPattern(entry) : entry
  const isNamed = target !== undefined && /[\s()]/.test(tool)
  const pattern = PermissionPattern.parse(isNamed || target === undefined ? tool : `${tool}(${target})`)
  const tests = when === undefined ? undefined : Condition.testsOf(when)
  const problems: Array<Problem> = (tests?.problems ?? []).map((it) => ({
    ...it,
    path: it.path === "" ? ".when" : `.when.${it.path}`
  }))
  if (Result.isFailure(pattern) || isNamed) {
    const problem = Result.isFailure(pattern) ? pattern.failure : "its target is given twice"
    problems.push({ path: "", problem: `${JSON.stringify(tool)}: ${problem}`, expected: "tool or tool(target)" })
  }
  const mayName = place.list === "ask" || place.list === "askAlways"
  if (approvers !== undefined && !mayName) {
    problems.push({
      path: ".approvers",
      problem: "nobody is asked here",
      expected: "approvers in ask or askAlways only"
    })
  }
  for (const [path, text] of [["escalate.after", approvers?.escalate?.after], ["remind", approvers?.remind]] as const) {
    if (text !== undefined && !isSpan(text)) {
      const expected = "a duration above zero, such as \"15 minutes\""
      problems.push({ path: `.approvers.${path}`, problem: `it is ${JSON.stringify(text)}`, expected })
    }
  }
  if (Result.isFailure(pattern) || problems.length > 0) return Result.fail(problems)
  const conditions = tests?.tests ?? []
  const source = [
    pattern.success.source,
    ...conditions.length === 0 ? [] : [`when ${conditions.map((it) => it.text).join(" and ")}`],
    ...roles === undefined ? [] : [`for ${roles.join(" or ")}`]
  ].join(" ")
  const clause: Parsed = {
    ...pattern.success,
    ...place,
    source,
    tests: conditions,
    roles,
    approvers,
    isPlain: conditions.length === 0 && roles === undefined
  }
  return Result.succeed(
    conditions.length === 0
      ? clause
      : { ...clause, whenActing: { ...clause, tests: conditions.map((it) => ({ ...it, holds: () => undefined })) } }
  )
}

/**
 * Gives the clauses that deny or ask about a tool: those that name it, and those that name a tool that it acts as. Who
 * may not read a file may not search it.
 */
export const strictFor = (
  clauses: ReadonlyArray<Parsed>,
  { actsAs = [], name }: { readonly name: string; readonly actsAs?: ReadonlyArray<string> | undefined }
): ReadonlyArray<Parsed> =>
  clauses.flatMap((it) =>
    PermissionPattern.names(it, name)
      ? [it]
      : actsAs.some((other) => PermissionPattern.names(it, other))
      ? [it.whenActing ?? it]
      : []
  )

/**
 * Tells whether the conditions and roles of a clause hold for a call; `undefined` if that cannot be decided. `schema`
 * is the JSON Schema of the tool's parameters.
 */
export const holds = (self: Parsed, given: Given, schema?: unknown): boolean | undefined => {
  if (self.isPlain) return true
  const has = self.roles === undefined
    ? true
    : given.roles === undefined
    ? undefined
    : self.roles.some((it) => given.roles!.includes(it))
  if (has === false) return false
  const meets = Condition.hold(self.tests, given, schema)
  return meets === false ? false : has === undefined ? undefined : meets
}

/** As a person reads where a clause is from: its tier, if the policy has tiers. */
export const from = (tier: string): string => tier === "" ? "" : ` (${tier})`

const isSpan = (text: string): boolean =>
  Option.exists(Duration.fromInput(text as Duration.Input), (it) => Duration.toMillis(it) > 0)

const ofPattern = (tool: string): Clause => ({ tool })
