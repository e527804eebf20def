/**
 * Patterns of a policy: `tool`, or `tool(target)` over what a call is about.
 *
 * In both parts `*` is any run of characters and `?` is one. A pattern without a target is about every call of the
 * tool. Pure.
 *
 * `write_file(src/*)` covers a call of `write_file` about `src/deep/a.ts`, and none about `src/a.ts` and `package.json`
 * together.
 */
import * as Result from "effect/Result"
import { matches } from "../../internal/wildcard.ts"
import type { TargetKind } from "../vocabulary/TargetKind.ts"

/** One thing that a call is about: a path relative to the root, a host, a command line, in its one canonical text. */
export interface Target {
  readonly text: string
  /** What it is besides its text; absent: nothing special. */
  readonly kind?: TargetKind | undefined
  /** Other ways to write the same, such as a program by its path: patterns that deny or ask are matched against these as well. */
  readonly spellings?: ReadonlyArray<string> | undefined
  /** A tool that runs what is there: `protected` while the policy lets a call of that tool run without asking. */
  readonly runBy?: string | undefined
  /**
   * Patterns between this target and everything, the narrowest first, such as its folder (`src/*`), for lasting
   * approvals. Only for a target without a `kind`.
   */
  readonly wider?: ReadonlyArray<string> | undefined
}

/** A pattern, parsed. */
export interface PermissionPattern {
  /** As it was written. */
  readonly source: string
  readonly tool: string
  /** Absent: every call of the tool. */
  readonly target: string | undefined
}

/** Parses a pattern; the failure says what is wrong with it. */
export const parse = (source: string): Result.Result<PermissionPattern, string> => {
  const open = source.indexOf("(")
  const tool = open === -1 ? source : source.slice(0, open)
  if (tool === "" || /[\s()]/.test(tool)) return Result.fail("it does not begin with the name of a tool")
  if (open === -1) return Result.succeed({ source, tool, target: undefined })
  if (!source.endsWith(")")) return Result.fail("its ( has no ) at the end")
  const target = source.slice(open + 1, -1)
  return target === ""
    ? Result.fail("there is nothing between ( and )")
    : Result.succeed({ source, tool, target })
}

/** Parses a pattern; throws a `RangeError` if it is not valid. */
export const parseUnsafe = (source: string): PermissionPattern =>
  Result.getOrThrowWith(
    parse(source),
    (problem) => new RangeError(`PermissionPattern.parse: ${problem}, got ${JSON.stringify(source)}`)
  )

/** Tells whether a pattern is about a tool. */
export const names = (self: PermissionPattern, tool: string): boolean => matches(self.tool, tool)

/**
 * Tells whether a pattern touches a call: a pattern with a target has to fit at least one of the call's targets.
 * Unknown targets may be anything.
 */
export const touches = (
  self: PermissionPattern,
  tool: string,
  targets: ReadonlyArray<Target> | undefined
): boolean => names(self, tool) && fits(self, targets)

/**
 * Tells whether a pattern fits what a call is about, whatever its tool: any of the targets is enough, and unknown ones
 * may be anything.
 */
export const fits = ({ target }: PermissionPattern, targets: ReadonlyArray<Target> | undefined): boolean =>
  target === undefined || targets === undefined ||
  targets.some(({ spellings = [], text }) => [text, ...spellings].some((it) => matches(target, it)))

/**
 * Tells whether patterns cover a call: one is about the tool as a whole, or every target is covered and none is
 * `exact`. A `protected` target and one that is asked about `always` are never covered, a `host` only by a pattern
 * about hosts.
 */
export const covers = (
  patterns: ReadonlyArray<PermissionPattern>,
  tool: string,
  targets: ReadonlyArray<Target> | undefined
): boolean => {
  if (targets?.some(({ kind }) => kind === "protected" || kind === "always") === true) return false
  const own = patterns.filter((it) => names(it, tool))
  const isHost = targets?.some(({ kind }) => kind === "host") === true
  if (!isHost && own.some((it) => it.target === undefined)) return true
  return targets !== undefined && targets.length > 0 &&
    targets.every(({ kind, text }) =>
      kind !== "exact" &&
      own.some(({ target }) =>
        target !== undefined && (kind !== "host" || target.startsWith(hostPrefix)) && matches(target, text)
      )
    )
}

/** Gives the patterns that an answer to a call about these targets may be remembered for, the narrowest first. */
export const widerThan = (targets: ReadonlyArray<Target>): ReadonlyArray<string> => {
  const all = targets.flatMap(({ kind, runBy, wider = [] }) => kind === undefined && runBy === undefined ? wider : [])
  return Array.from(new Set(all)).slice(0, maxWider)
}

/** More choices than that are none for a person. */
const maxWider = 4
/** What a target that is a host begins with. */
export const hostPrefix = "host:"
