/**
 * An approval request as users see it, and its hash. The hash covers all that is shown, so that an answer applies only
 * to these arguments, targets, reason and write. Secrets that a tool declares are redacted.
 */
import type * as Schema from "effect/Schema"
import { mapTexts } from "../../core/facts/EvidenceText.ts"
import * as Approvals from "../../core/gates/Approvals.ts"
import * as FileChange from "../../core/vocabulary/FileChange.ts"
import { canonicalJson } from "../../internal/canonicalJson.ts"
import type { Redactor } from "../../internal/secrets/index.ts"
import type { ApprovalRequest, ApprovalSummary, CallFacts, Part, Preview } from "../api/ApiApprovals.ts"
import * as Principals from "../users/Principals.ts"
import * as Tokens from "../users/Tokens.ts"
import * as RedactedArguments from "./RedactedArguments.ts"

/** Position of a part of a file. */
export interface Place {
  readonly index: number
  readonly side: "before" | "after"
  readonly from: number
}

/** What a request shows beside its summary. */
export interface Details {
  readonly args: Schema.Json
  readonly preview: Preview | null
  /** The write as a diff, which may be cut, if the preview lists files. */
  readonly diff?: string | undefined
}

/** What others than the process of the call know of a request. */
export interface Kept {
  readonly principal: string
  readonly summary: ApprovalSummary
  readonly revision: string | undefined
  /** Makes the hash of secrets useless for guesses; empty without secrets. */
  readonly salt: string
  /** Whether arguments are redacted. `fixed`: they contain a placeholder of their own, so they cannot be edited. */
  readonly redacted: "none" | "some" | "fixed"
  /** The targets that a grant names; `undefined`: only the process of the call knows them, because of secrets. */
  readonly targets: Approvals.ApprovalRequest["targets"] | undefined
}

export interface RedactedRequest {
  readonly request: Approvals.ApprovalRequest
  readonly owner: Principals.Owner
  readonly kept: Kept
  readonly details: () => Details
  /** A part of the text of a file; `undefined` if it does not exist. */
  readonly part: (at: Place) => typeof Part.Type | undefined
  /** Restores secrets in edited arguments; `undefined` if a placeholder was moved. */
  readonly meant: (params: Schema.Json) => { readonly params: Schema.Json } | undefined
  /** The same request, shown with the salt of an earlier one. */
  readonly withSalt: (salt: string) => RedactedRequest
}

/**
 * Redacts a request; `undefined` if its arguments are not JSON or are nested too deeply. `declared` redacts what the
 * tool declares secret.
 */
export const make = (
  request: Approvals.ApprovalRequest,
  facts: CallFacts,
  declared?: Redactor
): RedactedRequest | undefined => {
  const whole = textOf(request)
  if (whole === undefined) return undefined
  const hidden = RedactedArguments.of(request.args, declared)
  const left = hidden?.text ?? ((text: string) => text)
  const json = hidden === undefined ? whole : JSON.stringify(hidden.args)
  const owner = Principals.fromPrincipal(request.principal)
  const files = (request.preview?._tag === "Diff" ? request.preview.changes : undefined)?.map(fileOf(left))
  const preview = previewOf(request.preview, files, left)
  const { escalatesAt, expiresAt, id, requestedAt } = request
  // times are not in the hash: a request that comes again has that of its record
  const times = { ...escalatesAt === undefined ? {} : { escalatesAt }, requestedAt, expiresAt }
  const about = {
    ...owner,
    agentPath: request.agentPath,
    ...request.operation === undefined ? {} : { operation: request.operation },
    batch: request.batch,
    process: request.process,
    callId: request.callId,
    tool: request.tool,
    class: request.class,
    why: left(request.why),
    targets: request.targets.map(({ kind, text }) => ({ text: left(text), ...(kind === undefined ? {} : { kind }) })),
    isRunning: request.isRunning,
    facts,
    remember: request.remember,
    ...moreOf(request, left)
  }
  const redacted = hidden === undefined ? "none" : RedactedArguments.hasMark(request.args) ? "fixed" : "some"
  const asHash = Approvals.hash(request)
  const withSalt = (salt: string): RedactedRequest => {
    const hash = FileChange.hashOf(canonicalJson([id, asHash, request.revision, about, preview, salt]))
    // the others answer to the same content, whoever approved it before
    const approvals = request.approvals === undefined ? {} : { approvals: request.approvals }
    const summary = { id, ...about, ...approvals, ...times, hash, summary: begin(json, summaryChars) }
    return {
      request,
      owner,
      kept: {
        principal: request.principal,
        summary,
        revision: request.revision,
        salt,
        redacted,
        targets: request.targets
      },
      details: () => ({
        args: JSON.parse(json) as Schema.Json,
        preview,
        ...preview?._tag === "Files" && request.preview?._tag === "Diff" ? { diff: left(request.preview.diff) } : {}
      }),
      part: ({ from, index, side }) => {
        const text = files?.[index]?.[side]?.text
        if (text === undefined || !Number.isInteger(from) || from < 0 || from > text.length) return undefined
        const part = begin(text.slice(from, from + partChars + 1), partChars)
        const next = from + part.length
        return next < text.length ? { text: part, next } : { text: part }
      },
      meant: (params) =>
        hidden === undefined ? { params } : hidden.meant(params) as { params: Schema.Json } | undefined,
      withSalt
    }
  }
  // a hash of a secret would confirm guesses, so a random salt is added
  return withSalt(hidden === undefined ? "" : Tokens.secret(""))
}

/**
 * A request with all its details. The texts of files are read separately, where the call waits; elsewhere a diff stands
 * for them.
 */
export const whole = (
  { summary: { summary: _, ...about } }: Kept,
  { args, diff, preview }: Details,
  parameters: Schema.Json | undefined,
  isHere: boolean
): ApprovalRequest => ({
  ...about,
  args,
  preview: isHere || preview?._tag !== "Files" ? preview : { _tag: "Diff", diff: diff ?? "", files: preview.files },
  parameters: parameters ?? null
})

const summaryChars = 300

const partChars = 200_000

/** The parts that few requests have. */
const moreOf = (
  { approvers, evidence, form, isAlways, wider }: Approvals.ApprovalRequest,
  left: (text: string) => string
): Pick<ApprovalSummary, "approvers" | "evidence" | "form" | "isAlways" | "wider"> => ({
  ...evidence === undefined ? {} : { evidence: evidence.map((it) => mapTexts(it, left)) },
  ...isAlways === true ? { isAlways } : {},
  // a pattern with a secret in it would not be what a grant covers
  ...wider === undefined ? {} : { wider: wider.filter((it) => left(it) === it) },
  ...approvers === undefined ? {} : { approvers },
  ...form === undefined ? {} : { form }
})

/** Deeper values are too much for encoders and people. */
const maxDepth = 1_000

/** The arguments as JSON; `undefined` if JSON changes them. */
const textOf = ({ args, tool }: Approvals.ApprovalRequest): string | undefined => {
  if (isDeeper(args, maxDepth)) return undefined
  try {
    const json = JSON.stringify(args) ?? "null"
    return Approvals.hash({ tool, args: JSON.parse(json) }) === Approvals.hash({ tool, args }) ? json : undefined
  } catch {
    return undefined
  }
}

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === "object" && value !== null &&
  (levels === 0 || Object.values(value).some((it) => isDeeper(it, levels - 1)))

/** The beginning of a text, without half a surrogate pair at its end. */
const begin = (text: string, chars: number): string => {
  if (text.length <= chars) return text
  const last = text.charCodeAt(chars - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? chars - 1 : chars)
}

/** The content of a file; `text` is absent if it is binary. */
interface Content {
  readonly text: string | undefined
  readonly length: number
  readonly hash: string
}

const fileOf = (left: (text: string) => string) => ({ after, before, path }: FileChange.FileChange) => ({
  path: left(path),
  before: contentOf(before, left),
  after: contentOf(after, left)
})

const contentOf = (content: FileChange.FileChange["before"], left: (text: string) => string): Content | null => {
  if (content === undefined) return null
  const whole = typeof content === "string" ? content : decoded(content)
  const text = whole === undefined ? undefined : left(whole)
  return { text, length: (text ?? content).length, hash: FileChange.hashOf(text ?? content) }
}

const decoded = (bytes: Uint8Array): string | undefined => {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
    return text.includes("\0") ? undefined : text
  } catch {
    return undefined
  }
}

const previewOf = (
  preview: Approvals.Preview | undefined,
  files: ReadonlyArray<ReturnType<ReturnType<typeof fileOf>>> | undefined,
  left: (text: string) => string
): Preview | null => {
  if (preview === undefined) return null
  if (preview._tag === "None") return preview
  if (files === undefined) return { _tag: "Diff", diff: left(preview.diff) }
  const shown = (content: Content | null) =>
    content === null
      ? null
      : { length: content.length, isText: content.text !== undefined, hash: content.hash }
  return {
    _tag: "Files",
    files: files.map(({ after, before, path }) => ({ path, before: shown(before), after: shown(after) }))
  }
}
