/** Reads a conversation and follows it. */
import { useCallback, useEffect, useState } from "preact/hooks"
import type { AgentItem, ConversationDetail } from "../server/api/ApiOperations.ts"
import { get, type Problem } from "./api.ts"
import { followEvents } from "./conversationFeed.ts"
import { known, say } from "./state.ts"
import { after, nothing, type Thread } from "./thread.ts"

/** What is known of a conversation. */
export interface Followed {
  /** Its history ends where the operation began that ran when it was read. */
  readonly detail: ConversationDetail | undefined
  readonly first: string | undefined
  readonly thread: Thread
  readonly problem: Problem | undefined
  readonly again: () => void
}

/** Fragments that come within this time are shown together, in milliseconds. */
const pause = 40

/** Reads a conversation, and what happens in it from then on. */
export const useConversation = (user: string, session: string): Followed => {
  const [detail, setDetail] = useState<ConversationDetail | undefined>(undefined)
  const [first, setFirst] = useState<string | undefined>(undefined)
  const [thread, setThread] = useState<Thread>(nothing)
  const [problem, setProblem] = useState<Problem | undefined>(undefined)
  const [attempt, setAttempt] = useState(0)
  const again = useCallback(() => setAttempt((it) => it + 1), [])
  const path = `api/conversations/${encodeURIComponent(user)}/${encodeURIComponent(session)}`
  useEffect(() => {
    const run = { isCurrent: true, stop: () => {}, waiting: [] as Array<AgentItem>, isPlanned: false }
    const read = async () => {
      const reply = await get<ConversationDetail>(path)
      if (!run.isCurrent) return false
      if (!reply.ok) {
        setProblem(reply.problem)
        return false
      }
      setProblem(undefined)
      setDetail(reply.value)
      setFirst(reply.value.operation)
      return true
    }
    const flush = () => {
      run.isPlanned = false
      if (!run.isCurrent) return
      const items = run.waiting.splice(0)
      for (const item of items) announce(item)
      setThread((before) => items.reduce(after, before))
    }
    const onItems = (items: ReadonlyArray<AgentItem>) => {
      if (items.some(({ _tag }) => _tag === "Reset")) void read()
      run.waiting.push(...items)
      if (run.isPlanned) return
      run.isPlanned = true
      setTimeout(flush, pause)
    }
    setThread(nothing)
    void read().then((isRead) => {
      if (isRead) run.stop = followEvents(`${path}/events`, { onItems, onGone: () => void read() })
    })
    return () => {
      run.isCurrent = false
      run.stop()
    }
  }, [path, attempt])
  useNews(detail, first, thread, path, setDetail, again)
  const isOf = detail?.user === user && detail.session === session
  return { detail: isOf ? detail : undefined, first, thread, problem, again }
}

/** Reads what the events do not tell: the message that began an operation, and what ended before they were followed. */
const useNews = (
  detail: ConversationDetail | undefined,
  first: string | undefined,
  thread: Thread,
  path: string,
  setDetail: (change: (before: ConversationDetail | undefined) => ConversationDetail | undefined) => void,
  again: () => void
): void => {
  const begun = Array.from(thread.works.values()).findLast(({ agentPath }) => agentPath.length === 0)?.id
  const isNew = begun !== undefined && detail?.operations.every(({ id }) => id !== begun) === true
  const ended = Array.from(thread.works.values()).filter(({ end }) => end !== undefined).length
  useEffect(() => {
    if (!isNew && ended === 0) return
    const asked = { isCurrent: true }
    void get<ConversationDetail>(path).then((reply) => {
      if (asked.isCurrent && reply.ok) {
        // what was read stays where it is: later messages are in the events
        setDetail((before) => before && { ...reply.value, history: before.history })
      }
    })
    return () => {
      asked.isCurrent = false
    }
  }, [path, isNew, ended])
  const summary = known.value.conversations.find((it) => it.user === detail?.user && it.session === detail.session)
  const isBehind = first !== undefined && detail !== undefined && !thread.works.has(first) &&
    summary !== undefined && summary.operation !== first && summary.updatedAt > detail.updatedAt
  useEffect(() => {
    if (isBehind) again()
  }, [isBehind, summary?.updatedAt])
}

/** Says what a reader of the screen would notice: an answer as a whole, and the end. */
const announce = (item: AgentItem): void => {
  if (item._tag === "AssistantMessageFinal" && item.agentPath.length === 0 && item.text !== "") {
    say(item.text.length > 300 ? `${item.text.slice(0, 300)}…` : item.text)
  }
  if (item._tag === "OperationEnd") say(item.message)
}
