/** What an approval request belongs to: the task of a person and the words of the agent, from its conversation. */
import { useEffect, useState } from "preact/hooks"
import type { ApprovalRequest } from "../server/api/ApiApprovals.ts"
import type { ConversationDetail } from "../server/api/ApiOperations.ts"
import { get } from "./api.ts"
import { followEvents } from "./conversationFeed.ts"

/** The known context of a request. */
export interface Context {
  /** What the person asked for, and when. */
  readonly task?: { readonly text: string; readonly at: number }
  /** What the model wrote with the call. */
  readonly says?: string
}

/** How long the words of the agent are looked for, in milliseconds. */
const patience = 10_000

/** Reads the context of a request of an agent. What the user may not see stays absent. */
export const useContext = ({ agentPath, callId, operation, session, user }: ApprovalRequest): Context => {
  const [context, setContext] = useState<Context>({})
  useEffect(() => {
    if (operation === undefined) return
    const asked = { isCurrent: true }
    const path = `api/conversations/${encodeURIComponent(user)}/${encodeURIComponent(session)}`
    const add = (more: Context) => {
      if (asked.isCurrent) setContext((it) => ({ ...it, ...more }))
    }
    void get<ConversationDetail>(path).then((reply) => {
      if (!reply.ok) return
      const own = reply.value.operations.find((it) => it.id === operation)
      if (own !== undefined) add({ task: { text: own.prompt, at: own.startedAt } })
    })
    // the events of a running operation come from its start
    const stop = followEvents(`${path}/events`, {
      onGone: () => {},
      onItems: (items) => {
        const own = items.find((it) =>
          it._tag === "AssistantMessageFinal" && it.agentPath.join("/") === agentPath.join("/") &&
          it.toolCalls.some(({ id }) => id === callId)
        )
        if (own?._tag !== "AssistantMessageFinal") return
        if (own.text !== "") add({ says: own.text })
        stop()
      }
    })
    const timer = setTimeout(stop, patience)
    return () => {
      asked.isCurrent = false
      clearTimeout(timer)
      stop()
    }
  }, [user, session, operation, callId])
  return context
}
