/** What an approval request belongs to: the task of a person and the words of the agent, from its conversation. */
import { useEffect, useState } from "preact/hooks"
import type { ApprovalRequest } from "../server/ApiApprovals.ts"
import type { AgentItem, ConversationDetail } from "../server/ApiOperations.ts"
import { get } from "./api.ts"

/** The context of a request, as far as it is known. */
export interface Context {
  readonly title?: string
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
      add({
        title: reply.value.title,
        ...own === undefined ? {} : { task: { text: own.prompt, at: own.startedAt } }
      })
    })
    // the events of a running operation come from its start
    const source = new EventSource(`${path}/events`)
    const close = () => source.close()
    source.addEventListener("error", close)
    source.addEventListener("assistant_message_final", (event) => {
      const item = JSON.parse((event as MessageEvent<string>).data) as AgentItem
      if (item._tag !== "AssistantMessageFinal" || item.agentPath.join("/") !== agentPath.join("/")) return
      if (!item.toolCalls.some((it) => it.id === callId)) return
      if (item.text !== "") add({ says: item.text })
      close()
    })
    const timer = setTimeout(close, patience)
    return () => {
      asked.isCurrent = false
      clearTimeout(timer)
      close()
    }
  }, [user, session, operation, callId])
  return context
}
