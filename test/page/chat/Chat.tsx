import { useChat } from "@ai-sdk/react"
import {
  DefaultChatTransport,
  getToolName,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  type UIMessage
} from "ai"
import { useEffect, useState } from "react"

export function Chat({ session, token }: { session: string; token: string }) {
  const [history, setHistory] = useState<Array<UIMessage>>()
  const api = `/api/sessions/${session}/chat`
  const headers = { authorization: `Bearer ${token}` }
  useEffect(() => {
    void fetch(api, { headers }).then((response) => response.json()).then(({ messages }) => setHistory(messages))
  }, [api])
  return history === undefined ? <p>Loading</p> : <Conversation {...{ api, headers, history, session }} />
}

function Conversation({ api, headers, history, session }: {
  api: string
  headers: Record<string, string>
  history: Array<UIMessage>
  session: string
}) {
  const [text, setText] = useState("")
  const { addToolApprovalResponse, error, messages, sendMessage, status } = useChat({
    id: session,
    messages: history,
    resume: true, // continues after a reload
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    transport: new DefaultChatTransport({
      api,
      headers,
      // the server has the history
      prepareSendMessagesRequest: ({ body, messages, trigger }) => ({
        body: { ...body, messages: messages.slice(-2), trigger }
      })
    })
  })
  return (
    <main>
      {messages.map(({ id, parts, role }) => (
        <article key={id} data-role={role}>
          {parts.map((part, index) => {
            if (part.type === "text") return <p key={index}>{part.text}</p>
            if (part.type === "reasoning") return <small key={index}>{part.text}</small>
            if (!isToolUIPart(part)) return null
            return (
              <section key={part.toolCallId} data-state={part.state}>
                {getToolName(part)} {JSON.stringify(part.input)} {part.state}
                {part.state === "output-available" && <output>{JSON.stringify(part.output)}</output>}
                {part.state === "approval-requested" && (
                  <Approval answer={(it) => addToolApprovalResponse({ id: part.approval.id, ...it })} />
                )}
              </section>
            )
          })}
        </article>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void sendMessage({ text })
          setText("")
        }}
      >
        <input name="text" value={text} onChange={(event) => setText(event.target.value)} />
        <button>Send</button> {status}
      </form>
    </main>
  )
}

function Approval({ answer }: { answer: (it: { approved: boolean; reason?: string }) => void }) {
  const [reason, setReason] = useState("")
  return (
    <span>
      <button onClick={() => answer({ approved: true })}>Approve</button>
      <input placeholder="Reason" value={reason} onChange={(event) => setReason(event.target.value)} />
      <button onClick={() => answer({ approved: false, reason })}>Deny</button>
    </span>
  )
}
