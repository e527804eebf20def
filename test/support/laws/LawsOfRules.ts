/**
 * Laws of what rules and the memory of equal calls let through. Pure.
 */
import * as Equal from "effect/Equal"
import type { ToolRefusal } from "../../../src/core/vocabulary/ToolRefusal.ts"
import { type CallSeen, type Facts, grouped, type Law } from "./LawFacts.ts"
import { times } from "./LawWorld.ts"

export const all = (): ReadonlyArray<Law> => [
  {
    name: "a tool never starts more often than MaxCalls allows",
    about: ["ToolHandlers", "Rules"],
    against: (facts) => {
      const limited = facts.starts((it) => it.tool === "limited")
      return Array.from(grouped(limited, (it) => it.call.wave.batch)).flatMap(([batch, { length }]) =>
        length > facts.history.world.max ? [`limited started ${length} times in batch ${batch}`] : []
      )
    }
  },
  {
    name: "a limit refuses only what it has no room for",
    about: ["ToolHandlers", "Rules"],
    against: (facts) =>
      refused(facts, "RuleViolation").flatMap(({ at, call, reason }) => {
        const others = facts.calls.filter((it) => it.id !== call.id && it.tool === call.tool)
        if (reason.rule._tag === "MaxCalls") {
          const batch = others.filter((it) => it.wave.batch === call.wave.batch)
          const used = batch.filter((it) => started(it, at) || isPending(it, at)).length
          return used >= facts.history.world.max ? [] : [`call ${call.id} was refused after ${used} calls of limited`]
        }
        if (reason.rule._tag !== "Cooldown") return []
        const warm = others.some((it) =>
          isPending(it, at) || it.starts.some(({ end }) => endOf(it, end?.at) + times.cooldown > at)
        )
        return warm ? [] : [`call ${call.id} was refused ${at} ms after the beginning, and nothing cooled down`]
      })
  },
  {
    name: "a tool does not start again while it cools down",
    about: ["ToolHandlers", "Rules"],
    against: (facts) => {
      const cooled = facts.starts((it) => it.tool === "cooled")
        .toSorted((a, b) => a.start.begin.at - b.start.begin.at)
      return cooled.flatMap(({ call, start }, index) => {
        const before = cooled[index - 1]?.call
        if (before === undefined || before.end !== undefined && before.end.at + times.cooldown <= start.begin.at) {
          return []
        }
        return [
          `call ${call.id} started at ${start.begin.at} ms, and call ${before.id} was over at ${before.end?.at} ms`
        ]
      })
    }
  },
  {
    name: "a tool that needs another first starts only after its success",
    about: ["ToolHandlers", "Rules"],
    against: (facts) =>
      facts.starts((it) => it.tool === "after").flatMap(({ call, start }) =>
        facts.calls.some((it) =>
            it.tool === "write" && it.wave.process === call.wave.process && it.end?.outcome._tag === "Succeeded" &&
            it.end.at <= start.begin.at
          )
          ? []
          : [`call ${call.id} of after started, and write had not succeeded`]
      )
  },
  {
    name: "a call is refused as a duplicate only if an equal one runs or has succeeded",
    about: ["Dedupe"],
    against: (facts) =>
      refused(facts, "DuplicateCall").flatMap(({ at, call, reason }) => {
        const other = facts.call(reason.of)
        if (other === undefined || !areEqual(other, call)) return [`call ${call.id} is no duplicate of ${reason.of}`]
        const runs = other.end === undefined || other.end.at >= at ||
          other.starts.some((it) => it.end === undefined || it.end.at >= at)
        return runs || other.end?.outcome._tag === "Succeeded" || other.end?.outcome._tag === "Unknown"
          ? []
          : [`call ${call.id} was refused as a duplicate of ${reason.of}, which is ${other.end?.outcome._tag}`]
      })
  },
  {
    name: "what an equal call of the same batch has done is not done again",
    about: ["ToolHandlers", "Dedupe"],
    against: (facts) => {
      if (facts.history.world.dedupe === "off") return []
      const done = facts.calls.filter((it) =>
        (it.tool === "write" || it.tool === "promoted") && it.wave.agentPath.length === 0 && it.starts.length > 0 &&
        it.wave.interrupted === undefined
      )
      return done.flatMap((it, index) =>
        done.slice(index + 1).flatMap((again) =>
          it.wave.batch === again.wave.batch && it.end?.outcome._tag === "Succeeded" &&
            it.end.at < again.queuedAt && areEqual(it, again)
            ? [`call ${again.id} of ${again.tool} ran, as call ${it.id} did before`]
            : []
        )
      )
    }
  }
]

// Utilities

type Refused<Tag extends ToolRefusal["_tag"]> = {
  readonly call: CallSeen
  readonly at: number
  readonly reason: Extract<ToolRefusal, { readonly _tag: Tag }>
}

const refused = <Tag extends ToolRefusal["_tag"]>(facts: Facts, tag: Tag): ReadonlyArray<Refused<Tag>> =>
  facts.calls.flatMap((call) => {
    const { end } = call
    if (end?.outcome._tag !== "Denied" || end.outcome.reason._tag !== tag) return []
    return [{ call, at: end.at, reason: end.outcome.reason as Refused<Tag>["reason"] }]
  })

const started = ({ starts }: CallSeen, at: number): boolean => starts.some((it) => it.begin.at <= at)

/** When the last of it was over: a handler may run longer than its call. */
const endOf = ({ end }: CallSeen, handler: number = Infinity): number => Math.max(end?.at ?? Infinity, handler)

/** It may hold what the other one asked for. */
const isPending = ({ end, queuedAt }: CallSeen, at: number): boolean =>
  queuedAt <= at && (end === undefined || end.at >= at)

/** An edit may have made them equal. */
const areEqual = (a: CallSeen, b: CallSeen): boolean =>
  a.tool === b.tool && (a.params.answer === "edit" || b.params.answer === "edit" || Equal.equals(a.params, b.params))
