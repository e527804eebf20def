/** What an answer means for a request that says who approves it: four eyes, named people, forms. Pure. */
import * as Function from "effect/Function"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { canonicalJson } from "../../internal/canonicalJson.ts"
import { compile } from "../../internal/json-schema/index.ts"
import type { Approvers, GivenApproval } from "../vocabulary/Approvers.ts"
import * as WhoApproves from "../vocabulary/WhoApproves.ts"

/** A request as far as this is about it. */
interface Request {
  readonly principal: string
  readonly requestedAt: number
  readonly approvers?: ReadonlyArray<Approvers> | undefined
  readonly approvals?: ReadonlyArray<GivenApproval> | undefined
  readonly form?: Schema.Json | undefined
}

/** An approval, as an answer says it. */
interface Approve extends Omit<GivenApproval, "answer" | "at" | "person" | "roles"> {
  readonly _tag: GivenApproval["answer"]
  readonly params?: Schema.Json
}

type Answer = Approve | { readonly _tag: "Deny" }

/** How long and for what an approval is remembered. */
export type Lasting =
  | { readonly _tag: "ApproveOnce" }
  | { readonly _tag: "ApproveForDuration"; readonly duration: string } & Reach
  | { readonly _tag: "ApproveForScope" } & Reach

interface Reach {
  readonly scope?: GivenApproval["scope"]
  readonly agents?: GivenApproval["agents"]
}

/** What follows from an answer of a person: an end, with who approved, or that others are needed. */
type Turn =
  | { readonly _tag: "Ends"; readonly approvals: ReadonlyArray<GivenApproval> | undefined }
  | { readonly _tag: "Waiting"; readonly approvals: ReadonlyArray<GivenApproval> }
  | { readonly _tag: "Refused"; readonly reason: "NotNamed" | "AlreadyApproved"; readonly problem: string }

/** Decides whether a person may answer, and whether their answer ends the request. */
export const turnOf = (
  request: Request,
  answer: Answer,
  person: WhoApproves.Person | undefined,
  now: number
): Turn => {
  const { approvals = [], approvers } = request
  // everybody who may answer may say no
  if (approvers === undefined || approvers.length === 0 || answer._tag === "Deny") {
    return { _tag: "Ends", approvals: undefined }
  }
  const refused = (reason: "NotNamed" | "AlreadyApproved"): Turn => {
    const problem = WhoApproves.sentence(approvers, approvals, request)
    return { _tag: "Refused", reason, problem: person === undefined ? `${problem} Say who answers.` : problem }
  }
  // who only reminds does not care who answers
  const who = person ?? (approvers.every(WhoApproves.isAnybody) ? { name: "" } : undefined)
  if (who === undefined || !WhoApproves.isNamed(approvers, who, now, request)) return refused("NotNamed")
  const own = givenBy(answer, who, now)
  // edited arguments are others than those that were approved: the call passes its gates again with them
  if (answer.params !== undefined) return { _tag: "Ends", approvals: [own] }
  // all must fill in the same
  const before = approvals.filter((it) => isEqual(it.data, answer.data))
  if (!WhoApproves.adds(approvers, before, own, request)) {
    return refused(before.some((it) => WhoApproves.isSame(it.person, who.name)) ? "AlreadyApproved" : "NotNamed")
  }
  const all = [...before, own]
  return { _tag: WhoApproves.isEnough(approvers, all, request) ? "Ends" : "Waiting", approvals: all }
}

/** Tells whether the people who approved are all that a request needs. */
export const isApproved = (
  approvals: ReadonlyArray<GivenApproval> | undefined,
  about: Pick<Request, "approvers" | "principal" | "requestedAt">
): boolean => about.approvers === undefined || WhoApproves.isEnough(about.approvers, approvals ?? [], about)

/** What is wrong with the data of an approval; `undefined`: nothing. */
export const wrongData = ({ form }: Request, { data }: Approve): string | undefined => {
  if (form === undefined) return data === undefined ? undefined : "this request has no form, so leave `data` out"
  if (data === undefined) return "`data` is missing: fill in the form of the request"
  const validator = validatorOf(form as JsonSchema.JsonSchema)
  if (Result.isFailure(validator)) return `the form of the tool is not valid: ${validator.failure}`
  const issues = validator.success(data).map(({ message, path }) => path === "" ? message : `${path}: ${message}`)
  return issues.length === 0 ? undefined : issues.join("; ")
}

/** The strictest of several approvals: what all of them allow. */
export const strictest = (
  all: ReadonlyArray<GivenApproval>,
  millisOf: (duration: string) => number | undefined
): Lasting => {
  if (all.some(({ answer }) => answer === "ApproveOnce")) return { _tag: "ApproveOnce" }
  const scopes = all.map(({ scope }) => scope ?? "resources")
  const [first] = scopes
  const patterns = scopes.filter((it) => typeof it === "object").map(({ pattern }) => pattern)
  const scope = scopes.includes("resources") || new Set(patterns).size > 1
    ? "resources"
    : patterns[0] === undefined
    ? first!
    : { pattern: patterns[0] }
  const reach = { scope, agents: all.every(({ agents }) => agents === "all") ? "all" : "subtree" } as const
  const [shortest] = all.flatMap(({ duration }) => duration === undefined ? [] : [duration])
    .sort((a, b) => (millisOf(a) ?? 0) - (millisOf(b) ?? 0))
  return shortest === undefined
    ? { _tag: "ApproveForScope", ...reach }
    : { _tag: "ApproveForDuration", duration: shortest, ...reach }
}

/** What approvers say to the model. */
export const noteOf = (
  { note }: Approve,
  approvals: ReadonlyArray<GivenApproval> | undefined
): string | undefined => {
  const notes = approvals?.filter((it) => it.note !== undefined) ?? []
  return notes.length > 1 ? notes.map((it) => `${it.person}: ${it.note}`).join("\n") : notes[0]?.note ?? note
}

const givenBy = (
  { _tag: answer, agents, data, duration, note, scope }: Approve,
  { name, roles }: WhoApproves.Person,
  at: number
): GivenApproval => ({
  person: name,
  ...(roles === undefined || roles.length === 0 ? {} : { roles }),
  at,
  answer,
  ...(duration === undefined ? {} : { duration }),
  ...(scope === undefined ? {} : { scope }),
  ...(agents === undefined ? {} : { agents }),
  ...(note === undefined ? {} : { note }),
  ...(data === undefined ? {} : { data })
})

const validatorOf = Function.memoize((form: JsonSchema.JsonSchema) => compile(form))

const isEqual = (one: Schema.Json | undefined, other: Schema.Json | undefined): boolean =>
  one === undefined || other === undefined ? one === other : canonicalJson(one) === canonicalJson(other)
