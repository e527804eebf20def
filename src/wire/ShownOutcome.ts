/**
 * What clients see of outcomes, wherever they see one: in an event, or in an entry
 * of a journal. Of what failed inside of a tool there is nothing but the failure that
 * it declares.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Grant } from "../core/vocabulary/Grant.ts"
import { Output, ToolOutcome } from "../core/vocabulary/ToolOutcome.ts"
import { ToolRefusal } from "../core/vocabulary/ToolRefusal.ts"
import * as PlainJson from "./PlainJson.ts"
import * as Shown from "./Shown.ts"

type Rule = { readonly _tag: string; readonly tool?: string }

/** The rule's other fields are the host's, such as arguments that it fills in. */
const rule: Shown.Shown = {
  schema: Schema.Struct({ _tag: Schema.String, tool: Schema.optionalKey(Schema.String) }),
  from: (value) => {
    const { _tag, tool } = value as Rule
    return tool === undefined ? { _tag } : { _tag, tool }
  }
}

/** The failure that a tool declares; what a defect or a wrong output says is for the host's log. */
const error: Shown.Shown = {
  schema: Schema.Json,
  from: (value, of) =>
    (of as { readonly origin?: string }).origin === "handler" ? PlainJson.withoutCauses(PlainJson.shown(value)) : null
}

const reason = Shown.union(ToolRefusal, { "RuleViolation.rule": rule })

/** The value stands for what a model is shown of it, too. */
const output = Shown.union(Output, { value: Shown.json, modelText: undefined, content: undefined })

/**
 * A standing permission.
 *
 * @category constants
 * @since 0.1.0
 */
export const grant: Shown.Shown = Shown.union({ members: [Grant] })

/**
 * An outcome with its output.
 *
 * @category constants
 * @since 0.1.0
 */
export const whole: Shown.Shown = Shown.union(ToolOutcome, { "Denied.reason": reason, error, grant, output })

/**
 * An outcome beside others, whose output stands elsewhere.
 *
 * @category constants
 * @since 0.1.0
 */
export const brief: Shown.Shown = Shown.union(ToolOutcome, {
  "Denied.reason": reason,
  error: undefined,
  grant,
  modelText: undefined,
  output: undefined
})

type Each<A, Otherwise> = A extends unknown ? Shown.Renamed<A, Otherwise> : never

type Refused = {
  readonly reason:
    | Each<Exclude<ToolRefusal, { readonly _tag: "RuleViolation" }>, unknown>
    | Each<Extract<ToolRefusal, { readonly _tag: "RuleViolation" }>, { readonly rule: Rule }>
}

type Granted = { readonly grant: Shown.Renamed<Grant> }

/**
 * An outcome beside others.
 *
 * @category models
 * @since 0.1.0
 */
export type Brief<O> = O extends { readonly _tag: "Denied" } ? Shown.Renamed<O, Refused>
  : Shown.Renamed<Omit<O, "error" | "modelText" | "output">, Granted>

/**
 * An outcome with its output.
 *
 * @category models
 * @since 0.1.0
 */
export type Whole<O> = O extends { readonly _tag: "Denied" } ? Shown.Renamed<O, Refused> : Shown.Renamed<
  O,
  Granted & {
    readonly error: Schema.Json
    readonly output: Without<Output>
  }
>

type Without<O> = O extends unknown ? Shown.Renamed<Omit<O, "modelText" | "content">, { readonly value: Schema.Json }>
  : never
