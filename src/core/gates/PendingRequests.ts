/**
 * The pending approval requests. Each of them ends once.
 *
 * Every change to a request, or to several that are answered together, is one synchronous step.
 */
import type * as Clock from "effect/Clock"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Deadline, Deadlines } from "../../internal/deadlines.ts"
import type { GivenApproval } from "../vocabulary/Approvers.ts"
import * as Grant from "../vocabulary/Grant.ts"
import { nextNotice, type Person } from "../vocabulary/WhoApproves.ts"
import {
  type Answer,
  ApprovalError,
  type ApprovalRequest,
  type Resolution,
  resolve,
  type Shown
} from "./ApprovalRequest.ts"

/** How a request ended. One that was withdrawn has no answer. */
export type Ending = Resolution | { readonly _tag: "Withdrawn" }

/** Called with each request that becomes pending. Returns a callback for its end. Both run inside the step. */
export type Begin = (request: ApprovalRequest) => ((how: Ending) => void) | undefined

/** Called when a deadline passes, if requests are also recorded elsewhere. It ends the request. */
export type Expire = (request: ApprovalRequest) => void

/** An answer to a request. */
export interface Given {
  readonly id: string
  readonly answer: Answer
  /** What the approver saw. An answer to anything else is rejected. */
  readonly of?: Shown | undefined
  /** The approver. */
  readonly person?: string | Person | undefined
}

/** What is told of a request while it is pending. */
export interface Notice {
  /** `Approved`: a person has approved it, and others are still needed. `Escalated`: others may answer now. */
  readonly why: "Approved" | "Escalated" | "Reminded"
  readonly request: ApprovalRequest
}

export class PendingRequests {
  private readonly clock: Clock.Clock
  private readonly deadlines: Deadlines
  private readonly begin: Begin
  private readonly expire: Expire | undefined
  private readonly notice: (notice: Notice) => void
  // oldest first
  private readonly pending = new Map<string, Pending>()
  // requests that one answer may also settle, by tool and first target, so that the cost is constant
  private readonly alike = new Map<string, Set<Pending>>()
  private over: Resolution | undefined

  constructor(
    clock: Clock.Clock,
    deadlines: Deadlines,
    begin: Begin,
    notice: (notice: Notice) => void,
    expire?: Expire
  ) {
    this.clock = clock
    this.notice = notice
    this.deadlines = deadlines
    this.begin = begin
    this.expire = expire
  }

  list(): ReadonlyArray<ApprovalRequest> {
    return Array.from(this.pending.values(), (it) => it.request)
  }

  /** Waits for the resolution of a request. Interruption withdraws the request. `heard` is called with approvals before. */
  wait(
    request: ApprovalRequest,
    told: ((resolution: Resolution) => Effect.Effect<void>) | undefined,
    heard?: ((approvals: ReadonlyArray<GivenApproval>) => Effect.Effect<void>) | undefined
  ): Effect.Effect<Resolution> {
    return Effect.callback((resume) => {
      if (this.over !== undefined) return resume(Effect.succeed(this.over))
      if (this.pending.has(request.id)) {
        return resume(Effect.die(new Error(`request ${request.id} is already pending`)))
      }
      const it: Pending = { request, resume, told, heard, deadline: undefined, notice: undefined, ended: undefined }
      this.pending.set(request.id, it)
      for (const key of keysOf(request)) {
        const others = this.alike.get(key)
        if (others === undefined) this.alike.set(key, new Set([it]))
        else others.add(it)
      }
      if (request.expiresAt !== "unlimited") {
        const { expire } = this
        it.deadline = this.deadlines.add(
          request.expiresAt,
          () => void (expire === undefined ? this.end(it, { _tag: "Denied", by: "timeout" }) : expire(request))
        )
      }
      this.remind(it, Math.max(request.requestedAt, this.clock.currentTimeMillisUnsafe()))
      it.ended = this.begin(request)
      return Effect.sync(() => void this.remove(it, { _tag: "Withdrawn" }))
    })
  }

  /** Answers a request. An answer that grants a permission also approves other pending requests it covers. */
  answer({ answer, id, of, person }: Given): Result.Result<void, ApprovalError> {
    const now = this.clock.currentTimeMillisUnsafe()
    const it = this.pending.get(id)
    if (it === undefined) return Result.fail(new ApprovalError({ id, reason: "NotPending" }))
    const resolved = resolve(it.request, answer, { now, grantId: SecureRandom.uuidV4Unsafe(), of, person })
    if (Result.isFailure(resolved)) return Result.fail(resolved.failure)
    if (resolved.success._tag === "Waiting") {
      void this.approved(it.request.id, resolved.success.approvals)
      return Result.succeed(undefined)
    }
    // found before any request ends and ended afterwards, so that resumed calls submit nothing in between
    const covered = this.coveredBy(it, resolved.success, now)
    void this.end(it, resolved.success)
    for (const [other, resolution] of covered) void this.end(other, resolution)
    return Result.succeed(undefined)
  }

  /** Notes the approvals of a pending request that needs others as well. The effect ends once they are on record. */
  approved(id: string, approvals: ReadonlyArray<GivenApproval>): Effect.Effect<void> {
    const it = this.pending.get(id)
    if (it === undefined || areEqual(it.request.approvals ?? [], approvals)) return Effect.void
    it.request = { ...it.request, approvals }
    const recorded = it.heard?.(approvals)
    this.notice({ why: "Approved", request: it.request })
    return recorded ?? Effect.void
  }

  /** Ends one request if it is pending. The effect ends once that is on record. */
  endOne(id: string, resolution: (request: ApprovalRequest) => Resolution): Effect.Effect<void> {
    const it = this.pending.get(id)
    return it === undefined ? Effect.void : this.end(it, resolution(it.request))
  }

  /** Ends all pending requests and all later ones. */
  endAll(resolution: Resolution): void {
    this.over = resolution
    for (const it of Array.from(this.pending.values())) void this.end(it, resolution)
  }

  private coveredBy(it: Pending, resolution: Resolution, now: number): ReadonlyArray<readonly [Pending, Resolution]> {
    const { principal, tool } = it.request
    if (resolution._tag !== "Approved" || resolution.grant === undefined) return []
    const { grant, person } = resolution
    const about = grant.patterns === undefined ? grant.targets ?? [undefined] : [undefined]
    return about.flatMap((target) => Array.from(this.alike.get(keyOf(principal, tool, target)) ?? []))
      .filter(({ request }) => request.remember !== "call" && Grant.covers(grant, request, now))
      .map((other) => [other, { _tag: "Approved", grant, isOwn: false, ...(person === undefined ? {} : { person }) }])
  }

  private remove(it: Pending, how: Ending): boolean {
    const { id } = it.request
    if (this.pending.get(id) !== it) return false
    this.pending.delete(id)
    for (const key of keysOf(it.request)) {
      const others = this.alike.get(key)
      others?.delete(it)
      if (others?.size === 0) this.alike.delete(key)
    }
    if (it.deadline !== undefined) this.deadlines.delete(it.deadline)
    if (it.notice !== undefined) this.deadlines.delete(it.notice)
    it.ended?.(how)
    return true
  }

  /** Sets the time at which approvers are notified again, or others may answer. */
  private remind(it: Pending, after: number): void {
    const { approvers, requestedAt } = it.request
    const next = approvers === undefined ? undefined : nextNotice(approvers, requestedAt, after)
    if (next === undefined) return
    it.notice = this.deadlines.add(next.at, () => {
      this.notice({ why: next.why, request: it.request })
      this.remind(it, Math.max(next.at, this.clock.currentTimeMillisUnsafe()))
    })
  }

  /** The waiting call resumes after a yield, outside the step of the approver. */
  private end(it: Pending, resolution: Resolution): Effect.Effect<void> {
    if (!this.remove(it, resolution)) return Effect.void
    const recorded = it.told?.(resolution)
    it.resume(Effect.as(Effect.yieldNow, resolution))
    return recorded ?? Effect.void
  }
}

interface Pending {
  request: ApprovalRequest
  readonly resume: (effect: Effect.Effect<Resolution>) => void
  readonly told: ((resolution: Resolution) => Effect.Effect<void>) | undefined
  readonly heard: ((approvals: ReadonlyArray<GivenApproval>) => Effect.Effect<void>) | undefined
  deadline: Deadline | undefined
  notice: Deadline | undefined
  ended: ((how: Ending) => void) | undefined
}

const areEqual = (one: ReadonlyArray<GivenApproval>, other: ReadonlyArray<GivenApproval>): boolean =>
  one.length === other.length &&
  one.every(({ at, person }, index) => at === other[index]!.at && person === other[index]!.person)

const keyOf = (principal: string, tool: string, target: string | undefined): string =>
  JSON.stringify([principal, tool, target])

/** A grant that covers a request names its tool, or its tool and first target. */
const keysOf = (
  { principal, targets: [first], tool }: Pick<ApprovalRequest, "principal" | "tool" | "targets">
): ReadonlyArray<string> =>
  first === undefined
    ? [keyOf(principal, tool, undefined)]
    : [keyOf(principal, tool, undefined), keyOf(principal, tool, first.text)]
