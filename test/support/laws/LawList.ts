/**
 * The laws: what holds in every run, whatever is in it. Each looks at what happened and
 * says what is against it. Pure.
 *
 * @since 0.1.0
 */
import * as Equal from "effect/Equal"
import { isEnd } from "../../../src/core/facts/ToolEvent.ts"
import type { ToolOutcome } from "../../../src/core/vocabulary/ToolOutcome.ts"
import { type CallSeen, eventsOf, grouped, isBefore, type Law, overlap, peak } from "./LawFacts.ts"
import * as LawsOfPeople from "./LawsOfPeople.ts"
import * as LawsOfRules from "./LawsOfRules.ts"

/**
 * All laws.
 *
 * @category constants
 * @since 0.1.0
 */
export const all = (): ReadonlyArray<Law> => [
  {
    name: "every wave and every question comes to its end",
    about: [],
    against: ({ history }) => [
      ...history.stuck === undefined ? [] : [history.stuck],
      ...history.stuck === undefined
        ? history.asked.filter((it) => !it.hasEnded).map((it) => `the question about call ${it.callId} is still open`)
        : []
    ]
  },
  {
    name: "every call has one outcome, with its id, in input order",
    about: [],
    against: ({ history }) =>
      history.waves.flatMap(({ calls, interrupted, outcomes, toolMessages }) => {
        if (interrupted !== undefined && outcomes === undefined) return []
        const ids = calls.map((it) => it.id).join(" ")
        const got = outcomes?.map((it) => it.callId).join(" ")
        if (got !== ids) return [`calls ${ids} have the outcomes ${got}`]
        const told = toolMessages?.map((it) => it.callId).join(" ")
        if (told !== ids) return [`calls ${ids} have the messages ${told}`]
        return outcomes!.flatMap((it, index) => it.index === index ? [] : [`call ${it.callId} has index ${it.index}`])
      })
  },
  {
    name: "a call is told as queued before all else, and as complete exactly once",
    about: [],
    against: ({ history }) =>
      history.waves.flatMap((wave) => {
        const firsts = wave.events.slice(0, wave.calls.length).every((it) => it._tag === "ToolCallQueued")
        return [
          ...firsts ? [] : [`something is told before all calls of ${wave.calls[0]?.id} … are queued`],
          ...wave.calls.flatMap(({ id }) => {
            const tags = eventsOf(wave, id).map((it) => it._tag)
            const count = (tag: string) => tags.filter((it) => it === tag).length
            return count("ToolCallQueued") === 1 && count("ToolCallComplete") === 1 &&
                tags.at(-1) === "ToolCallComplete"
              ? []
              : [`the events of call ${id} are ${tags.join(", ") || "none"}`]
          })
        ]
      })
  },
  {
    name: "the end of a wave is told once, after everything else",
    about: [],
    against: ({ history }) =>
      history.waves.flatMap(({ agentPath, calls, events }) => {
        // those of sub-agents end without a word in their caller's stream
        if (agentPath.length > 0 || calls.length === 0) return []
        const ends = events.filter(isEnd).length
        return ends === 1 && isEnd(events.at(-1)!)
          ? []
          : [`the events of calls ${calls[0]!.id} … have ${ends} ends, and ${events.at(-1)?._tag} is last`]
      })
  },
  {
    name: "events of a wave are numbered, and what is missing is counted",
    about: [],
    against: ({ history }) =>
      history.waves.flatMap(({ agentPath, calls, events }) => {
        const numbers = events.map((it) => it.sequence)
        if (numbers.some((it, index) => index > 0 && it <= numbers[index - 1]!)) {
          return [`events of calls ${calls[0]?.id} … are numbered ${numbers.join(" ")}`]
        }
        const dropped = events.reduce((sum, it) => it._tag === "ToolCallComplete" ? sum + it.dropped : sum, 0)
        const last = numbers.at(-1) ?? 0
        // the end of a sub-agent's wave has a number, and is not told
        const missing = last - numbers.length
        return missing > dropped && agentPath.length === 0
          ? [`${missing} events of calls ${calls[0]?.id} … are missing, and ${dropped} are counted`]
          : []
      })
  },
  {
    name: "an outcome is the same in its event, at the end of its wave and in the result",
    about: [],
    against: ({ calls, history }) => [
      ...calls.flatMap(({ end, id, index, wave }) => {
        const result = wave.outcomes?.[index]
        return end === undefined || result === undefined || isSame(end.outcome, result)
          ? []
          : [`call ${id} is ${brief(end.outcome)} in its event and ${brief(result)} in the result`]
      }),
      ...history.waves.flatMap(({ events, outcomes }) => {
        const end = events.findLast(isEnd)
        if (end === undefined || outcomes === undefined) return []
        return end.executionResults.flatMap((it, index) =>
          outcomes[index] !== undefined && isSame(it, outcomes[index])
            ? []
            : [`call ${it.callId} is ${brief(it)} at the end of its wave`]
        )
      })
    ]
  },
  {
    name: "a call that may change things runs beside no call of another run",
    about: [],
    against: (facts) =>
      facts.history.waves.flatMap((wave) => {
        const running = wave.calls.flatMap(({ id }) => {
          const call = facts.call(id)!
          const interval = facts.running(call)
          return interval === undefined ? [] : [{ call, interval, kind: facts.class(call.tool) }]
        })
        return running.flatMap((a, index) =>
          running.slice(index + 1).flatMap((b) =>
            overlap(a.interval, b.interval) && (a.kind !== b.kind || a.kind === "SerialMut")
              ? [`${named(a.call)} (${a.kind}) and ${named(b.call)} (${b.kind}) overlap`]
              : []
          )
        )
      })
  },
  {
    name: "no pool, cap or resource has more calls running than it has room for",
    about: [],
    against: (facts) => {
      const { history } = facts
      const found: Array<string> = []
      const most = (what: string, room: number, of: ReadonlyArray<CallSeen>, wholly = false) => {
        const intervals = of.flatMap((it) => {
          const start = it.starts[0]
          if (wholly && start !== undefined) return [{ from: start.begin.at, to: start.end?.at ?? Infinity }]
          return facts.running(it) ?? []
        })
        const got = peak(intervals)
        if (got > room) found.push(`${got} calls ${what} at once, and there is room for ${room}`)
      }
      const agents = grouped(facts.calls, (it) => it.wave.agentPath.join("/"))
      if (facts.uses("Pools")) {
        const of = (kind: string) => (it: CallSeen) => facts.class(it.tool) === kind
        most("that only read", history.world.read, facts.calls.filter(of("ReadOnly")))
        most("that have to run alone", 1, facts.calls.filter(of("SerialMut")))
        for (const calls of agents.values()) {
          most("that change things", history.world.concurrent, calls.filter(of("ConcurrentMut")))
        }
      }
      for (const [tool, { cap }] of history.tools) {
        if (cap === undefined) continue
        for (const calls of agents.values()) most(`of ${tool}`, cap, calls.filter((it) => it.tool === tool))
      }
      // a resource is kept till the handler has ended
      const keyed = facts.calls.filter((it) => it.tool === "promoted" && it.params.key !== undefined)
      for (const [key, calls] of grouped(keyed, (it) => it.params.key)) most(`about ${key}`, 1, calls, true)
      return found
    }
  },
  {
    name: "what was taken is given back: afterwards as many calls run at once as ever",
    about: ["ToolHandlers", "Pools"],
    against: ({ history }) =>
      history.probes.flatMap(({ expected, tags, took, what }) =>
        took === expected && tags.every((it) => it === "Succeeded")
          ? []
          : [`${what} at once took ${took} ms in place of ${expected} ms and were ${tags.join(", ")}`]
      )
  },
  {
    name: "a call that was refused never starts, and one that succeeded did, once",
    about: [],
    against: ({ calls }) =>
      calls.flatMap((call) => {
        const { end, starts } = call
        if (starts.length > 1) return [`${named(call)} started ${starts.length} times`]
        if (end === undefined) return []
        const { outcome } = end
        const should = shouldStart(outcome)
        return should === undefined || should === (starts.length === 1)
          ? []
          : [`${named(call)} is ${brief(outcome)}, and ${should ? "did not start" : "started"}`]
      })
  },
  {
    name: "nothing starts after it was cancelled",
    about: [],
    against: (facts) => {
      const { cancelled, waves } = facts.history
      return facts.starts(() => true).flatMap(({ call, start }) => {
        const late = cancelled.some((it) => it.process === start.process && isBefore(it.moment, start.begin)) ||
          waves.some(({ calls, interrupted }) =>
            interrupted !== undefined && isBefore(interrupted, start.begin) &&
            calls.some((it) => it.id === start.callId)
          )
        return late ? [`${named(call)} started ${start.begin.at} ms after the beginning, after it was cancelled`] : []
      })
    }
  },
  {
    name: "a handler whose call is over is interrupted",
    about: ["ToolHandlers"],
    against: (facts) =>
      facts.starts(() => true).flatMap(({ call, start }) => {
        if (call.end === undefined || isDeaf(call.params)) return []
        const { at, outcome } = call.end
        return start.end === undefined || start.end.at > at
          ? [
            `${named(call)} was ${brief(outcome)} at ${at} ms, and its handler ran till ${
              start.end?.at ?? "the end"
            } ms`
          ]
          : []
      })
  },
  {
    name: "a handler that runs although its call is over is counted as an orphan",
    about: ["ToolHandlers"],
    against: (facts) => {
      const { known, running } = facts.history.orphans
      const own = known.filter((it) => facts.call(it)?.wave.agentPath.length === 0)
      const list = (ids: ReadonlyArray<string>) => ids.toSorted().join(" ") || "none"
      return list(own) === list(running) ? [] : [`of the handlers ${list(running)} the executor knows ${list(own)}`]
    }
  },
  {
    name: "nothing is written after its call is over, and every write is counted",
    about: ["ToolHandlers"],
    against: (facts) =>
      facts.starts(() => true).flatMap(({ call, start: { commits } }) => {
        if (call.end === undefined) return []
        const { at, outcome } = call.end
        const late = commits.filter((it) => it.at > at)
        if (late.length > 0) return [`${named(call)} was over at ${at} ms, and wrote at ${late[0]!.at} ms`]
        return outcome.commits === commits.length
          ? []
          : [`${named(call)} wrote ${commits.length} times, and its outcome says ${outcome.commits}`]
      })
  },
  ...LawsOfRules.all(),
  ...LawsOfPeople.all()
]

// Utilities

const named = ({ id, tool }: CallSeen): string => `call ${id} of ${tool}`

const brief = (outcome: ToolOutcome): string =>
  outcome._tag === "Denied" ? `Denied (${outcome.reason._tag})` : outcome._tag

/** What is the same for everybody; secrets may be left out of events. */
const isSame = (a: ToolOutcome, b: ToolOutcome): boolean => Equal.equals(core(a), core(b))

const core = (outcome: ToolOutcome) => {
  const { attempt, callId, commits, duration, index, queuedAt, startedAt, tool } = outcome
  return [brief(outcome), attempt, callId, commits, duration, index, queuedAt, startedAt, tool]
}

/** Whether the handler of such a call ran; of some outcomes that is not known. */
const shouldStart = (outcome: ToolOutcome): boolean | undefined => {
  if ("replayOf" in outcome && outcome.replayOf !== undefined) return false
  switch (outcome._tag) {
    case "Succeeded":
    case "TimedOut":
    case "Failed":
      return true
    case "Cancelled":
      return outcome.started
    case "Denied":
      return outcome.reason._tag === "WriteDenied" ? undefined : false
    case "Skipped":
      return false
    case "Unknown":
      return undefined
  }
}

/** It, or a call of its sub-agent, does not hear that it is to end. */
const isDeaf = ({ act, calls = [] }: CallSeen["params"]): boolean =>
  act === "deaf" || calls.some((it) => isDeaf(it.params))
