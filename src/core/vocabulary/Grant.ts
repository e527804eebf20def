/** Grants: approvals that outlast one call. */

import * as Schema from "effect/Schema"
import { canonicalJson } from "../../internal/canonicalJson.ts"
import { matches } from "../../internal/wildcard.ts"
import { Approvers } from "./Approvers.ts"
import { isCoveredByTool } from "./TargetKind.ts"

export const Grant = Schema.Struct({
  id: Schema.String,
  principal: Schema.String,
  tool: Schema.String,
  /** The tool's revision when it was approved; the grant does not cover other revisions. */
  revision: Schema.optional(Schema.String),
  /** Covers the agent at this path and its sub-agents; empty: all agents. */
  agentPath: Schema.Array(Schema.String),
  /** The exact targets covered; absent: every call of the tool. */
  targets: Schema.optional(Schema.Array(Schema.String)),
  /** Covered besides the exact targets: `*` is any run of characters, `?` is one. */
  patterns: Schema.optional(Schema.Array(Schema.String)),
  /** The answer that created it. */
  answer: Schema.Literals(["ApproveForDuration", "ApproveForScope"]),
  /** Who approved it, as the request said. It covers only calls that nobody else has to approve. */
  approvers: Schema.optional(Schema.Array(Approvers)),
  /** Epoch milliseconds. */
  grantedAt: Schema.Finite,
  /** Epoch milliseconds at which it expires; absent: valid until revoked. */
  expiresAt: Schema.optional(Schema.Finite)
})

export type Grant = typeof Grant.Type

/** An approval: a grant, or one call whose request has this `id`. */
export type Given = Omit<Grant, "answer"> & { readonly answer: Grant["answer"] | "ApproveOnce" }

/**
 * Whether a grant covers a call on these targets. Every target must match exactly, or a pattern of the grant if it is
 * neither exact nor protected. A call with unknown targets is covered only by a grant for the whole tool.
 */
export const covers = (
  self: Grant,
  call: {
    readonly tool: string
    readonly revision?: string | undefined
    readonly agentPath: ReadonlyArray<string>
    readonly targets:
      | ReadonlyArray<
        { readonly text: string; readonly kind?: string | undefined; readonly runBy?: string | undefined }
      >
      | undefined
    readonly approvers?: ReadonlyArray<Approvers> | undefined
  },
  now: number
): boolean => {
  if (call.approvers !== undefined && !isByAll(self, call.approvers)) return false
  if (self.tool !== call.tool || self.revision !== call.revision || !isOpen(self, now)) return false
  if (!self.agentPath.every((name, depth) => call.agentPath[depth] === name)) return false
  const { patterns = [], targets } = self
  // protected targets are covered only by name
  if (targets === undefined) {
    return call.targets?.every(({ kind, runBy }) => isCoveredByTool(kind) && runBy === undefined) === true
  }
  return call.targets !== undefined && call.targets.length > 0 &&
    call.targets.every(({ kind, runBy, text }) =>
      targets.includes(text) ||
      (kind === undefined && runBy === undefined && patterns.some((it) => matches(it, text)))
    )
}

/** Whether a grant was approved by those who have to approve a call. */
export const isByAll = ({ approvers = [] }: Grant, needed: ReadonlyArray<Approvers>): boolean => {
  const known = approvers.map((it) => canonicalJson(it))
  return needed.every((it) => known.includes(canonicalJson(it)))
}

/** Whether a grant has not expired. */
export const isOpen = ({ expiresAt }: Grant, now: number): boolean => expiresAt === undefined || now < expiresAt
