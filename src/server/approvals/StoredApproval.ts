/** The records of an approval request in a table: what lists show of it, the rest of it, and how it ended. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Approvals from "../../core/gates/Approvals.ts"
import { GivenApproval } from "../../core/vocabulary/Approvers.ts"
import * as Grant from "../../core/vocabulary/Grant.ts"
import * as versioned from "../../internal/versioned.ts"
import { ApprovalSummary, Preview } from "../api/ApiApprovals.ts"
import * as Principals from "../users/Principals.ts"
import type { Details, Kept } from "./RedactedRequest.ts"

const version = 1

/** Releases that know nothing of approvers or forms would let anybody approve these. */
const versionOfNamed = 2

/** Secrets of the arguments are in none of the records. `targets` says whether they contain secrets, too. */
const Request = Schema.Struct({
  summary: ApprovalSummary,
  revision: Schema.optionalKey(Schema.String),
  salt: Schema.optionalKey(Schema.String),
  redacted: Schema.optionalKey(Schema.Literals(["some", "fixed"])),
  targets: Schema.optionalKey(Schema.Literal("redacted"))
})

const DetailsRecord = Schema.Struct({
  args: Schema.Json,
  preview: Schema.NullOr(Preview),
  diff: Schema.optionalKey(Schema.String)
})

const End = Schema.Struct({
  ending: Schema.Union([
    Schema.TaggedStruct("Approved", {
      grant: Schema.optionalKey(Grant.Grant),
      isOwn: Schema.Boolean,
      edited: Schema.optionalKey(Schema.Struct({ params: Schema.Json })),
      person: Schema.optionalKey(Schema.String),
      note: Schema.optionalKey(Schema.String),
      data: Schema.optionalKey(Schema.Json),
      approvals: Schema.optionalKey(Schema.Array(GivenApproval))
    }),
    Schema.TaggedStruct("Denied", {
      by: Schema.Literals(["user", "timeout", "closed", "noApprover"]),
      reason: Schema.optionalKey(Schema.String),
      person: Schema.optionalKey(Schema.String)
    }),
    Schema.TaggedStruct("Suspended", { reason: Schema.String }),
    Schema.TaggedStruct("Withdrawn", {})
  ])
})

const write = (record: object, of: number = version): string => versioned.encode(of, JSON.stringify(record))

const read = <A>(schema: Schema.Codec<A, unknown>) => {
  const decode = Schema.decodeUnknownResult(schema)
  const readers = { [version]: decode, [versionOfNamed]: decode }
  return (text: string): Result.Result<A, Error> => versioned.decode(readers, text)
}

/** The record of a request, without what its row has in columns. */
export const writeRequest = ({ redacted, revision, salt, summary, targets }: Kept): string => {
  const { approvals: _, hash: __, id: ___, ...rest } = summary
  const isNamed = summary.approvers !== undefined || summary.form !== undefined
  const isPlain = targets?.every(({ text }, index) => text === summary.targets[index]?.text) === true
  return write({
    summary: rest,
    revision,
    ...salt === "" ? {} : { salt },
    ...redacted === "none" ? {} : { redacted },
    ...isPlain ? {} : { targets: "redacted" }
  }, isNamed ? versionOfNamed : version)
}

/** The approvals of a request that needs others. */
export const writeApprovals = (approvals: ReadonlyArray<GivenApproval>): string => write({ approvals })

const approvalsOf = read(Schema.Struct({ approvals: Schema.Array(GivenApproval) }))

export const readApprovals = (text: string): Result.Result<ReadonlyArray<GivenApproval>, Error> =>
  Result.map(approvalsOf(text), ({ approvals }) => approvals)

/** What the row of a request has in columns. */
export interface Columns {
  readonly id: string
  readonly hash: string
}

/** Reads the record of a request with the columns of its row. */
export const readRequest = (text: string, { hash, id }: Columns): Result.Result<Kept, Error> => {
  const decode: typeof decodeRequest = (record) => {
    const { summary } = Object(record) as { readonly summary?: unknown }
    return decodeRequest({ ...Object(record), summary: { id, hash, ...Object(summary) } })
  }
  const readers = { [version]: decode, [versionOfNamed]: decode }
  return Result.map(versioned.decode(readers, text), ({ redacted, revision, salt = "", summary, targets }): Kept => ({
    principal: Principals.toPrincipal(summary),
    summary,
    revision,
    salt,
    redacted: redacted ?? "none",
    targets: targets === undefined ? summary.targets : undefined
  }))
}

const decodeRequest = Schema.decodeUnknownResult(Request)

export const writeDetails = ({ args, diff, preview }: Details): string => write({ args, preview, diff })

export const readDetails: (text: string) => Result.Result<Details, Error> = read(DetailsRecord)

/** `kept`: the request that was answered. The targets of its grant are stored as approvers saw them. */
export const writeEnd = (ending: Approvals.Ending, kept?: Kept): string => {
  if (ending._tag !== "Approved" || ending.grant?.targets === undefined || !ending.isOwn) return write({ ending })
  const targets = kept!.summary.targets.map(({ text }) => text)
  return write({ ending: { ...ending, grant: { ...ending.grant, targets } } })
}

const endOf = read(End)

export const readEnd = (text: string): Result.Result<Approvals.Ending, Error> =>
  Result.map(endOf(text), ({ ending }) => {
    if (ending._tag !== "Approved") return ending
    const { grant, ...rest } = ending
    return { ...rest, grant }
  })
