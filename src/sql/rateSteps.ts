/**
 * How counts change when tokens are taken: the steps of `RateLimiterStore`, as those of effect's stores in memory and
 * Redis.
 */
import * as Duration from "effect/Duration"
import type * as RateLimiter from "effect/persistence/RateLimiter"
import * as Schema from "effect/Schema"
import type { Step } from "./KeyedStates.ts"

type Store = RateLimiter.RateLimiterStore["Service"]

/** Tokens taken in a window that ends at `endsAt`. */
export const Window = Schema.Struct({ count: Schema.Finite, endsAt: Schema.Finite })

/** Tokens left in a bucket, into which one more falls every now and then since `lastRefill`. */
export const Bucket = Schema.Struct({ tokens: Schema.Finite, lastRefill: Schema.Finite })

/** What was learnt of the limit of a service that says when one has asked too often. */
export const Adaptive = Schema.Struct({
  phase: Schema.Literals(["cooldown", "learning", "learned"]),
  epoch: Schema.Finite,
  cooldownUntil: Schema.Finite,
  learningStartedAt: Schema.Finite,
  observedTokens: Schema.Finite,
  learnedLimit: Schema.Finite,
  learnedWindowMillis: Schema.Finite
})

export const fixedWindow = ({ limit, refillRate, tokens }: Parameters<Store["fixedWindow"]>[0]) =>
(
  window: typeof Window.Type | undefined,
  now: number
): Step<readonly [count: number, ttl: number], typeof Window.Type> => {
  const { count, endsAt } = window ?? { count: 0, endsAt: now }
  if (limit !== undefined && count + tokens > limit) return { answer: [count + tokens, endsAt - now] }
  const state = { count: count + tokens, endsAt: endsAt + Duration.toMillis(refillRate) * tokens }
  return { answer: [state.count, state.endsAt - now], next: { state, expiresAt: state.endsAt } }
}

export const tokenBucket = ({ allowOverflow, limit, refillRate, tokens }: Parameters<Store["tokenBucket"]>[0]) =>
(
  bucket: typeof Bucket.Type | undefined,
  now: number
): Step<readonly [remaining: number, elapsedMillis: number], typeof Bucket.Type> => {
  const each = Duration.toMillis(refillRate)
  const before = bucket ?? { tokens: limit, lastRefill: now }
  const fallen = Math.max(0, Math.floor((now - before.lastRefill) / each))
  const there = Math.min(limit, before.tokens + fallen)
  const lastRefill = before.lastRefill + fallen * each
  const remaining = there - tokens
  const state = { tokens: remaining >= 0 || allowOverflow ? remaining : there, lastRefill }
  return {
    answer: [remaining, Math.max(0, now - lastRefill)],
    // one that is full again is like none
    next: { state, expiresAt: lastRefill + Math.ceil(limit - state.tokens) * each }
  }
}

/** Tokens of a limit that is learnt. */
export const adaptiveConsume = ({ fallbackWindow, tokens }: RateLimiter.AdaptiveConsumeOptions) =>
(
  known: typeof Adaptive.Type | undefined,
  now: number
): Step<RateLimiter.AdaptiveConsumeResult, typeof Adaptive.Type> => {
  if (known === undefined) return { answer: { delay: Duration.zero, epoch: 0, phase: "inactive" } }
  const { cooldownUntil, epoch, learnedLimit, learnedWindowMillis, phase } = known
  switch (phase) {
    case "cooldown": {
      if (cooldownUntil > now) {
        return { answer: { delay: Duration.millis(cooldownUntil - now), epoch, phase } }
      }
      const state = {
        ...known,
        phase: "learning" as const,
        epoch: epoch + 1,
        learningStartedAt: now,
        observedTokens: tokens
      }
      return {
        answer: { delay: Duration.zero, epoch: state.epoch, phase: "learning" },
        next: { state, expiresAt: now + Duration.toMillis(fallbackWindow) + graceMillis }
      }
    }
    case "learning": {
      const state = { ...known, observedTokens: known.observedTokens + tokens }
      // it learns for as long as the first of its calls has said
      return { answer: { delay: Duration.zero, epoch, phase }, next: { state } }
    }
    case "learned": {
      const each = learnedWindowMillis / learnedLimit
      const isOver = cooldownUntil <= now
      const observedTokens = (isOver ? 0 : known.observedTokens) + tokens
      const until = (isOver ? now : cooldownUntil) + each * tokens
      const elapsed = observedTokens * each - (until - now)
      const wait = Math.floor((observedTokens - 1) / learnedLimit) * learnedWindowMillis - elapsed
      const state = { ...known, observedTokens, cooldownUntil: until }
      return {
        answer: { delay: wait <= 0 ? Duration.zero : Duration.millis(wait), epoch, phase },
        next: { state }
      }
    }
  }
}

/** A service says that one has asked too often. */
export const adaptiveFeedback =
  ({ epoch, tokens }: RateLimiter.AdaptiveFeedbackOptions, retryAfter: Duration.Duration) =>
  (
    known: typeof Adaptive.Type | undefined,
    now: number
  ): Step<void, typeof Adaptive.Type> => {
    if (epoch !== (known?.epoch ?? 0)) return { answer: undefined }
    const wait = clamped(Duration.toMillis(retryAfter))
    const cooldown = (cooldownUntil: number) => ({
      answer: undefined,
      next: { state: { ...nothingLearned, epoch, cooldownUntil }, expiresAt: cooldownUntil + graceMillis }
    })
    if (known === undefined || known.phase === "learned") return cooldown(now + wait)
    if (known.phase === "cooldown") return cooldown(Math.max(known.cooldownUntil, now + wait))
    const accepted = known.observedTokens - tokens
    if (accepted <= 0) return cooldown(now + wait)
    const learnedWindowMillis = clamped(now - known.learningStartedAt + wait)
    return {
      answer: undefined,
      next: {
        state: {
          ...known,
          phase: "learned",
          epoch: epoch + 1,
          cooldownUntil: known.learningStartedAt + learnedWindowMillis,
          observedTokens: accepted,
          learnedLimit: accepted,
          learnedWindowMillis
        },
        expiresAt: now + learnedWindowMillis + graceMillis
      }
    }
  }

const graceMillis = 60_000

const longestMillis = 60 * 60_000

const clamped = (millis: number): number => Number.isNaN(millis) || millis <= 0 ? 1 : Math.min(millis, longestMillis)

const nothingLearned: typeof Adaptive.Type = {
  phase: "cooldown",
  epoch: 0,
  cooldownUntil: 0,
  learningStartedAt: 0,
  observedTokens: 0,
  learnedLimit: 0,
  learnedWindowMillis: 0
}
