/** The data of the bench: suites in the reduced format of AgentDojo, and recorded runs in the format of τ-bench. */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { ToolShape } from "./Derived.ts"

const Args = Schema.Record(Schema.String, Schema.Unknown)

const Task = Schema.Struct({
  goal: Schema.String,
  calls: Schema.Array(Schema.Struct({
    tool: Schema.String,
    args: Args,
    /** What the call gave, if it was recorded. Otherwise an output is made up. */
    output: Schema.optional(Schema.Unknown)
  }))
})

/** A task: what is wanted, and the calls that do it. */
export type Task = typeof Task.Type

const Suite = Schema.Struct({
  tools: Schema.Array(Schema.String),
  user: Schema.Record(Schema.String, Task),
  injection: Schema.Record(Schema.String, Task)
})

/** Honest tasks and injections over the same tools. */
export type Suite = typeof Suite.Type

const Suites = Schema.Record(Schema.String, Suite)

/** Suites by name. */
export type Suites = typeof Suites.Type

const Message = Schema.Struct({
  role: Schema.String,
  content: Schema.optional(Schema.NullOr(Schema.String)),
  tool_call_id: Schema.optional(Schema.NullOr(Schema.String)),
  tool_calls: Schema.optional(Schema.NullOr(Schema.Array(Schema.Struct({
    id: Schema.String,
    function: Schema.Struct({ name: Schema.String, arguments: Schema.String })
  }))))
})

const Runs = Schema.Array(Schema.Struct({
  task_id: Schema.optional(Schema.Unknown),
  traj: Schema.Array(Message)
}))

/** A recorded run: what the user said, and the calls with their outputs. */
export type Step =
  | { readonly _tag: "Heard"; readonly text: string }
  | { readonly _tag: "Call"; readonly tool: string; readonly args: Arguments; readonly output: unknown }

/** Arguments by parameter. */
export type Arguments = { readonly [name: string]: unknown }

/** Recorded runs, with the tools that they call. */
export interface Recorded {
  readonly runs: ReadonlyArray<ReadonlyArray<Step>>
  readonly tools: ReadonlyArray<ToolShape>
}

/** What a file has. */
export type Data =
  | { readonly _tag: "Suites"; readonly suites: Suites }
  | { readonly _tag: "Recorded"; readonly recorded: Recorded }

/** Reads a file of the bench. */
export const read = (json: unknown): Data => {
  const runs = Schema.decodeUnknownOption(Runs)(json)
  return Option.isSome(runs)
    ? { _tag: "Recorded", recorded: recordedOf(runs.value) }
    : { _tag: "Suites", suites: Schema.decodeUnknownSync(Suites)(json) }
}

/** The tools of a suite, with every parameter that one of its calls has. */
export const toolsOf = (suite: Suite): ReadonlyArray<ToolShape> => {
  const calls = tasksOf(suite).flatMap((it) => it.calls)
  const names = new Set([...suite.tools, ...calls.map((it) => it.tool)])
  return Array.from(names, (name) => {
    const own = calls.filter((it) => it.tool === name)
    const fields = pathsOf(own.map((it) => it.output))
    return {
      name,
      parameters: pathsOf(own.map((it) => it.args)),
      numbers: numbersOf(own.map((it) => it.args)),
      fields: fields.length === 0 ? undefined : fields
    }
  })
}

/** All tasks and injections of a suite. */
export const tasksOf = (suite: Suite): ReadonlyArray<Task> => [
  ...Object.values(suite.user),
  ...Object.values(suite.injection)
]

/** The scalars of a value with their dotted paths; lists have no part in a path. */
export const scalarsOf = (value: unknown, path = ""): ReadonlyArray<readonly [path: string, value: Scalar]> => {
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return [[path, value]]
  if (Array.isArray(value)) return value.flatMap((it) => scalarsOf(it, path))
  if (!Predicate.isObject(value)) return []
  return Object.entries(value).flatMap(([key, it]) => scalarsOf(it, path === "" ? key : `${path}.${key}`))
}

/** A value that has no parts. */
export type Scalar = string | number | boolean

/** A key with several digits is data: any key may stand there. */
const pathsOf = (values: ReadonlyArray<unknown>): ReadonlyArray<string> =>
  Array.from(new Set(values.flatMap((it) => scalarsOf(it).map(([path]) => path.replace(/[^.]*\d[^.]*\d[^.]*/g, "*")))))

const numbersOf = (values: ReadonlyArray<unknown>): ReadonlySet<string> =>
  new Set(values.flatMap((it) => scalarsOf(it).flatMap(([path, value]) => typeof value === "number" ? [path] : [])))

const parse = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Unknown))

const parsed = (text: string): unknown => Option.getOrElse(parse(text), () => text)

const recordedOf = (runs: typeof Runs.Type): Recorded => {
  const all = runs.map(({ traj }) => stepsOf(traj))
  const calls = all.flat().flatMap((it) => it._tag === "Call" ? [it] : [])
  const tools = Array.from(new Set(calls.map((it) => it.tool)), (name) => {
    const own = calls.filter((it) => it.tool === name)
    return {
      name,
      parameters: pathsOf(own.map((it) => it.args)),
      numbers: numbersOf(own.map((it) => it.args)),
      fields: pathsOf(own.map((it) => it.output))
    }
  })
  return { runs: all, tools }
}

const stepsOf = (messages: ReadonlyArray<typeof Message.Type>): ReadonlyArray<Step> =>
  messages.flatMap((message, index): ReadonlyArray<Step> => {
    if (message.role === "user" && typeof message.content === "string") {
      return [{ _tag: "Heard", text: message.content }]
    }
    return (message.tool_calls ?? []).map((call): Step => {
      // ids are not unique in recorded runs: the first answer behind the call is its own
      const answer = messages.slice(index + 1).find((it) => it.role === "tool" && it.tool_call_id === call.id)
      const args = parsed(call.function.arguments)
      return {
        _tag: "Call",
        tool: call.function.name,
        args: Predicate.isObject(args) ? { ...args } : {},
        output: parsed(answer?.content ?? "")
      }
    })
  })
