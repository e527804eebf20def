/** Calls that a person writes down for `tool-executor policy`, and what the policy is asked about them. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as PermissionPattern from "../../core/gates/PermissionPattern.ts"
import { ConfigurationError, decodeStrict } from "../../core/vocabulary/ConfigurationError.ts"
import { TargetKind } from "../../core/vocabulary/TargetKind.ts"
import * as ToolHandlers from "../../core/vocabulary/ToolHandlers.ts"
import { escape } from "../../internal/escape.ts"
import * as PolicyQuestion from "../../policy/PolicyQuestion.ts"
import * as ArtifactTools from "../../tools/folders/ArtifactTools.ts"
import { describe, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as FolderTools from "../gateway/FolderTools.ts"

const optional = Schema.optionalKey
const Texts = Schema.Array(Schema.String)

const Target = Schema.Struct({
  text: Schema.String,
  kind: optional(TargetKind),
  spellings: optional(Texts),
  runBy: optional(Schema.String)
})

/** Schema of a call in full. */
const Whole = Schema.Struct({
  tool: Schema.NonEmptyString,
  args: optional(Schema.Unknown),
  /** Instead of those that the tool computes from its arguments. */
  targets: optional(Schema.Array(Schema.Union([Schema.String, Target]))),
  /** Absent: unknown. Clauses for roles then deny and ask, and do not allow. */
  roles: optional(Texts),
  /** The call runs in a sandbox that reaches these hosts. */
  sandbox: optional(Schema.Literals(["none", "listed", "open"])),
  /** What the tool itself says of the call. */
  needsApproval: optional(Schema.Boolean),
  /** What is known of a tool that the command does not have. */
  readOnly: optional(Schema.Boolean),
  openWorld: optional(Schema.Boolean),
  edits: optional(Schema.Boolean)
})

/** Schema of a call: in full, or as a pattern such as `run_command(npm test)`. */
export const Call = Schema.Union([Schema.NonEmptyString, Whole])

/** A call that a person wrote down. */
export type Call = typeof Call.Type

/** Reads a call from the command line: JSON, or a tool with a target. */
export const read = Effect.fnUntraced(function*(text: string) {
  if (!text.trimStart().startsWith("{")) return text
  const input = yield* Files.parseJson(text, "CALL")
  return yield* Effect.mapError(decodeStrict(Call, "CALL")(input), (error) => wrong(describe(error)))
})

/** The tools of the command line, as they are in a folder. `protect` are files that calls may not change unasked. */
export const registry = Effect.fnUntraced(function*(root: string, protect: ReadonlyArray<string>) {
  const tools = yield* FolderTools.make(root, {}, protect)
  const layer = ToolHandlers.layer([...tools.toolkits, ArtifactTools.toolkit]).pipe(
    Layer.provide(Layer.merge(tools.layer, ArtifactTools.layer))
  )
  return Context.get(yield* Layer.build(layer), ToolHandlers.ToolHandlers).current()
}, Effect.catchIf((it) => it instanceof ConfigurationError, (error) => Effect.fail(wrong(describe(error)))))

/** The parameter that names the target of a tool, where one does. */
const parameter: ReadonlyMap<string, string> = new Map([
  ["run_command", "command"],
  ["fetch_url", "url"],
  ...["read_file", "list_directory", "find_files", "search_text", "write_file", "edit_file"].map(
    (name) => [name, "path"] as const
  )
])

/** A sandbox that reaches these hosts. */
export const confined = (network: "none" | "listed" | "open") =>
  ({ _tag: "Confined", driver: "sandbox", network, holds: [], missing: [] }) as const

/**
 * Gives what a policy is asked about a call: one question if everything about it is known, or several, one for each
 * nature that an unknown tool may have.
 */
export const questions = Effect.fnUntraced(function*(call: Call, tools: ToolHandlers.Registry) {
  const { args, needsApproval, roles, sandbox, targets, tool: name, ...known } = typeof call === "string"
    ? yield* spelledOut(call, tools)
    : call
  const tool = tools.get(name)
  const given = targets?.map((it) => typeof it === "string" ? { text: it } : it)
  const found = given ?? (tool === undefined ? [] : yield* targetsOf(tool, args))
  const subjects = tool === undefined ? PolicyQuestion.natures(name, known) : [tool]
  return subjects.map((subject): PolicyQuestion.Question => ({
    tool: subject,
    args: args ?? {},
    targets: found,
    needsApproval: needsApproval ?? (subject.needsApproval !== undefined && subject.needsApproval !== false),
    ...roles === undefined ? {} : { roles },
    ...sandbox === undefined ? {} : { sandbox: confined(sandbox) }
  }))
})

/** A call that is written as a pattern. */
const spelledOut = Effect.fnUntraced(function*(text: string, tools: ToolHandlers.Registry) {
  const parsed = PermissionPattern.parse(text)
  if (Result.isFailure(parsed)) {
    return yield* wrong(
      `${
        escape(text)
      }: ${parsed.failure}. Write a call as JSON, such as {"tool":"read_file","args":{"path":"a.ts"}}, ` +
        "or as tool(target)."
    )
  }
  const { target, tool } = parsed.success
  const name = parameter.get(tool)
  const whole: typeof Whole.Type = target === undefined
    ? { tool }
    : name === undefined || !tools.has(tool)
    ? { tool, targets: [target] }
    : { tool, args: { [name]: name === "url" && !target.includes("://") ? `https://${target}/` : target } }
  return whole
})

/** Gives the targets that a tool computes from arguments, of which some may be missing; `undefined` if it cannot. */
export const targetsOf = (tool: ToolHandlers.RegisteredTool, args: unknown) =>
  Effect.gen(function*() {
    const params = yield* Effect.orElseSucceed(tool.decode(args ?? {}), () => args ?? {})
    const found = tool.targets(params)
    return Effect.isEffect(found) ? yield* found : found
  }).pipe(Effect.catchCause(() => Effect.undefined))
