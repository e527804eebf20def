/**
 * Laws of what policies and people let through. Pure.
 */
import { type CallSeen, type Facts, isBefore, type Law } from "./LawFacts.ts"
import type { Asked, Start } from "./LawHistory.ts"
import { times } from "./LawWorld.ts"

export const all = (): ReadonlyArray<Law> => [
  {
    name: "what needs permission starts only with an answer or a grant for what it is about",
    about: ["ToolHandlers", "Permissions"],
    against: (facts) =>
      needing(facts).flatMap(({ call, start }) =>
        permitted(facts, call, start).length > 0
          ? []
          : [`call ${call.id} of ${call.tool} about ${start.params.target} started, and nobody allowed that`]
      )
  },
  {
    name: "a grant that was revoked lets nothing start",
    about: ["ToolHandlers", "Permissions"],
    against: (facts) =>
      needing(facts).flatMap(({ call, start }) => {
        const grants = permitted(facts, call, start)
        const open = grants.filter((it) => !isRevoked(facts, it, start))
        return grants.length > 0 && open.length === 0
          ? [`call ${call.id} of ${call.tool} started with the answer to call ${grants[0]!.callId}, which was revoked`]
          : []
      })
  },
  {
    name: "what a policy denies never starts",
    about: ["ToolHandlers", "Permissions"],
    against: (facts) =>
      facts.starts((it) => it.tool === "denied").map(({ call }) => `call ${call.id} of denied started`)
  },
  {
    name: "a fork does nothing that it may not, and nothing that its parent may not",
    about: ["ToolHandlers"],
    against: (facts) =>
      facts.starts(() => true).flatMap(({ call, start }) => {
        const broken = start.agentPath.find((agent) => {
          const forbidden = facts.history.forbidden.get(agent)
          return forbidden === "changes" ? facts.class(start.tool) !== "ReadOnly" : forbidden === start.tool
        })
        return broken === undefined
          ? []
          : [`call ${call.id} of ${call.tool} started below "${broken}", which forbids it`]
      })
  }
]

// Utilities

/** Starts that somebody had to allow; none if others than the kit's people are asked. */
const needing = (facts: Facts) => {
  const { asked, waves } = facts.history
  const others = waves.some(({ events }) =>
    events.some((event) => event._tag === "ToolApprovalRequested" && !asked.some((it) => it.callId === event.callId))
  )
  return others
    ? []
    : facts.starts(({ params, tool }) => tool === "asked" || tool === "limited" && params.target === "b")
}

/** What people said that lets a call start. */
const permitted = (
  { history }: Facts,
  { queuedAt }: CallSeen,
  { begin, callId, params, tool }: Start
): ReadonlyArray<Asked> =>
  history.asked.filter((it) => {
    const { answered } = it
    if (answered === undefined || it.tool !== tool || !isBefore(answered.moment, begin)) return false
    const { how, moment } = answered
    if (how === "no" || how === "silence") return false
    if (it.callId === callId) return params.target === (how === "edit" ? "edited" : it.target)
    if (how === "once" || how === "edit") return false
    return it.target === params.target && (how === "scope" || moment.at + times.grant > queuedAt)
  })

const isRevoked = ({ history }: Facts, { answered, tool }: Asked, { begin }: Start): boolean =>
  (answered!.how === "scope" || answered!.how === "duration") &&
  history.revoked.some(({ moment, tool: of }) =>
    of === tool && moment.at > answered!.moment.at && isBefore(moment, begin)
  )
