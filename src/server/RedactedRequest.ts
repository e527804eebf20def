/**
 * What people are shown of a request, and the hash that an answer brings back: of all of it, so that
 * an answer is one to these arguments, this write, these targets, this reason, and to nothing that
 * came later under the same id. Of what a tool declares to be a secret they see that it is there.
 */
import type * as Schema from "effect/Schema"
import * as Approvals from "../core/gates/Approvals.ts"
import * as FileChange from "../core/vocabulary/FileChange.ts"
import { canonicalJson } from "../internal/canonicalJson.ts"
import type { Redactor } from "../internal/secrets/index.ts"
import type { ApprovalRequest, ApprovalSummary, Part, Preview } from "./ApiApprovals.ts"
import * as Principals from "./Principals.ts"
import * as RedactedArguments from "./RedactedArguments.ts"
import * as Tokens from "./Tokens.ts"

/** Where in a file a part begins. */
export interface Place {
  readonly index: number
  readonly side: "before" | "after"
  readonly from: number
}

/** A request, as it is shown. */
export interface RedactedRequest {
  readonly request: Approvals.ApprovalRequest
  readonly owner: Principals.Owner
  readonly summary: ApprovalSummary
  /** All but the texts of files. */
  readonly whole: (parameters: Schema.Json | undefined) => ApprovalRequest
  /** A part of such a text; `undefined` if there is none. */
  readonly part: (at: Place) => typeof Part.Type | undefined
  /** An answer with what was not shown in its arguments; `undefined`: it stands where nobody can tell what it was. */
  readonly meant: (answer: Approvals.Answer) => Approvals.Answer | undefined
}

/**
 * Gives a request as it is shown; `undefined` where its arguments cannot be shown as what
 * they are: they are no JSON, or nested too deeply. `declared` knows what its tool declares to be secret.
 */
export const make = (request: Approvals.ApprovalRequest, declared?: Redactor): RedactedRequest | undefined => {
  const whole = textOf(request)
  if (whole === undefined) return undefined
  const hidden = RedactedArguments.of(request.args, declared)
  const left = hidden?.text ?? ((text: string) => text)
  const json = hidden === undefined ? whole : JSON.stringify(hidden.args)
  const owner = Principals.fromPrincipal(request.principal)
  const files = (request.preview?._tag === "Diff" ? request.preview.changes : undefined)?.map(fileOf(left))
  const preview = previewOf(request.preview, files, left)
  const { requestedAt, expiresAt, id } = request
  const about = {
    ...owner,
    agentPath: request.agentPath,
    batch: request.batch,
    process: request.process,
    callId: request.callId,
    tool: request.tool,
    class: request.class,
    why: left(request.why),
    targets: request.targets.map(({ kind, text }) => ({ text: left(text), ...(kind === undefined ? {} : { kind }) })),
    isRunning: request.isRunning,
    remember: request.remember
  }
  // a hash of a secret tells whether a guess is right, unless there is in it what nobody guesses
  const salt = hidden === undefined ? "" : Tokens.secret("")
  const hash = FileChange.hashOf(canonicalJson([id, Approvals.hash(request), request.revision, about, preview, salt]))
  const approval = { id, ...about, requestedAt, expiresAt, hash }
  return {
    request,
    owner,
    summary: { ...approval, summary: begin(json, summaryChars) },
    whole: (parameters) => ({
      ...approval,
      args: JSON.parse(json) as Schema.Json,
      preview,
      parameters: parameters ?? null
    }),
    part: ({ from, index, side }) => {
      const text = files?.[index]?.[side]?.text
      if (text === undefined || !Number.isInteger(from) || from < 0 || from > text.length) return undefined
      const part = begin(text.slice(from, from + partChars + 1), partChars)
      const next = from + part.length
      return next < text.length ? { text: part, next } : { text: part }
    },
    meant: (answer) => {
      if (hidden === undefined || answer._tag === "Deny" || answer.params === undefined) return answer
      const meant = hidden.meant(answer.params)
      return meant === undefined ? undefined : { ...answer, params: meant.params as Schema.Json }
    }
  }
}

// Utilities

const summaryChars = 300

const partChars = 200_000

/** Beyond this neither encoders nor people keep up. */
const maxDepth = 1_000

/** The arguments as JSON, if that is all there is to them. */
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

/** The beginning of a text, that does not end within a surrogate pair. */
const begin = (text: string, chars: number): string => {
  if (text.length <= chars) return text
  const last = text.charCodeAt(chars - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? chars - 1 : chars)
}

/** What a file holds; without a text where it is none. */
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
