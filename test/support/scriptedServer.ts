/**
 * A server of the API's shapes whose every word is the test's: for what a real one does
 * not do at will, such as to go away in the middle, or to ask 200 approval requests at once.
 */
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import type { Wire } from "../../src/core/facts/ToolEvent.ts"
import type {
  ApprovalRequest,
  ApprovalSummary,
  BulkAnswers,
  LiveItem,
  ResolvedApproval
} from "../../src/server/api/ApiApprovals.ts"
import type { Me, Waves } from "../../src/server/api/ApiModels.ts"
import type { Agent, AgentItem, ConversationDetail } from "../../src/server/api/ApiOperations.ts"
import type { Entry, Grant, RecordedCallDetail, Rules, Status, UndoPlan } from "../../src/server/api/ApiRecords.ts"
import * as RequestGuard from "../../src/server/guard/RequestGuard.ts"

/** What the server is told to say. */
export interface Script {
  readonly url: string
  /** Asks an approval request; what is left out is made up. */
  readonly ask: (approval: Partial<ApprovalRequest> & { readonly id: string }) => void
  /** Ends an approval request as another person would. */
  readonly end: (id: string, how: Partial<ResolvedApproval> & Pick<ResolvedApproval, "how">) => void
  /** Keeps what it has to tell to itself for a while. */
  readonly hold: (isHeld: boolean) => void
  /** Cuts all connections, and takes none until `comeBack`. */
  readonly goAway: () => void
  readonly comeBack: () => void
  /** Forgets the places of its stream, as one of another life does. */
  readonly forget: () => void
  /** Answers each part of a file only when it is let go. */
  readonly holdParts: (isHeld: boolean) => void
  /** Says that it cannot read parts of files. */
  readonly failParts: (isFailing: boolean) => void
  /** Answers that were given, in their order. */
  readonly answers: ReadonlyArray<{ readonly id: string; readonly answer: unknown }>
  readonly texts: Map<string, string>
  readonly waves: Array<typeof Waves.Type["waves"][number]>
  /** Events of waves, by the name of the wave. */
  readonly events: Map<string, ReadonlyArray<Wire>>
  readonly entries: Array<typeof Entry.Type>
  readonly grants: Array<typeof Grant.Type>
  /** Conversations by user and session. */
  readonly conversations: Map<string, ConversationDetail>
  readonly agents: Array<Agent>
  /** Tells what happens in a conversation; it is kept for those who come later. */
  readonly happen: (user: string, session: string, ...items: ReadonlyArray<AgentItem>) => void
  /** Ends the streams of conversations. Positions stay known. */
  readonly cutConversations: () => void
  /** Changes a conversation in the lists. */
  readonly change: (detail: ConversationDetail) => void
  /** Messages, starts and cancellations, in their order. */
  readonly posts: ReadonlyArray<{ readonly path: string; readonly body: unknown }>
  readonly calls: Array<RecordedCallDetail>
  /** What undoing checkpoints would do, in any session. */
  readonly plans: Array<typeof UndoPlan.Type>
  readonly streams: () => number
  readonly close: () => Promise<void>
}

export const token = "a-token-for-tests"

const user: Me = { name: "ada", run: true, approve: ["*"], records: ["*"], operate: true }

const rules: typeof Rules.Type = {
  sentences: ["write_file needs read_file first."],
  nodes: [
    { id: "read_file", label: "read_file", kind: "tool", notes: [] },
    { id: "write_file", label: "write_file", kind: "tool", notes: [] }
  ],
  edges: [{ from: "read_file", to: "write_file", kind: "needs", label: "needs", isMutual: false }]
}

const status: Status = {
  status: "ready",
  checks: [{ name: "journal", isOk: true }],
  counts: { sessions: 1, waves: 1, operations: 1, approvals: 1, streams: 1 },
  limits: { operations: 2_000, operationsPerUser: 200, messages: 1_000, messageChars: 4_000_000 }
}

export const startScripted = async (folder: string): Promise<Script> => {
  const open = new Map<string, ApprovalRequest>()
  const ended = new Map<string, ResolvedApproval>()
  const answers: Array<{ readonly id: string; readonly answer: unknown }> = []
  const texts = new Map<string, string>()
  const waves: Script["waves"] = []
  const events: Script["events"] = new Map()
  const entries: Script["entries"] = []
  const grants: Script["grants"] = []
  const conversations: Script["conversations"] = new Map()
  const agents: Script["agents"] = []
  const calls: Script["calls"] = []
  const posts: Array<Script["posts"][number]> = []
  const happened = new Map<string, Array<AgentItem>>()
  const followers = new Map<ServerResponse, string>()
  const plans: Script["plans"] = []
  const log: Array<LiveItem> = []
  const streams = new Set<ServerResponse>()
  const held: Array<() => void> = []
  const now = { life: 1, isAway: false, isHolding: false, isSilent: false, isFailing: false, heldFrom: 0, asked: 0 }

  const place = () => `${now.life}-${log.length}`
  const send = (response: ServerResponse, at: number) => {
    const item = log[at]!
    response.write(`id: ${now.life}-${at + 1}\nevent: ${nameOf(item)}\ndata: ${JSON.stringify(item)}\n\n`)
  }
  const tell = (item: LiveItem) => {
    log.push(item)
    if (!now.isSilent) { for (const response of streams) send(response, log.length - 1) }
  }
  const ask: Script["ask"] = (given) => {
    const args = given.args ?? { path: "notes.md", text: "hello" }
    const approval: ApprovalRequest = {
      user: "grace",
      session: "s1",
      agentPath: [],
      batch: "b",
      process: "p",
      callId: `call-${given.id}`,
      tool: "write_file",
      class: "write",
      why: "a rule requires consent",
      targets: [{ text: "notes.md" }],
      isRunning: false,
      facts: { readOnly: false, openWorld: false, undoable: false },
      remember: "tool",
      requestedAt: 1_700_000_000_000 + now.asked++,
      expiresAt: "unlimited",
      hash: createHash("sha256").update(JSON.stringify([given.tool, args])).digest("hex"),
      preview: null,
      parameters: null,
      ...given,
      args
    }
    open.set(approval.id, approval)
    tell({ _tag: "ApprovalRequested", approval: summaryOf(approval) })
  }
  const end = (id: string, how: Partial<ResolvedApproval> & Pick<ResolvedApproval, "how">): ResolvedApproval => {
    const { agentPath, callId, facts, requestedAt, session, targets, tool, user } = open.get(id)!
    const approval: ResolvedApproval = {
      id,
      user,
      session,
      callId,
      tool,
      agentPath,
      targets,
      facts,
      requestedAt,
      endedAt: Date.now(),
      next: "The model may ask again.",
      ...how
    }
    open.delete(id)
    ended.set(id, approval)
    tell({ _tag: "ApprovalResolved", approval })
    return approval
  }

  const stream = (request: IncomingMessage, response: ServerResponse, after: string) => {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" })
    response.write(`event: heartbeat\ndata: ${JSON.stringify({ _tag: "Heartbeat", at: Date.now() })}\n\n`)
    const [life, at] = after.split("-").map(Number)
    if (life === now.life) { for (let place = at!; place < log.length; place++) send(response, place) }
    else response.write(`id: ${place()}\nevent: reset\ndata: {"_tag":"Reset"}\n\n`)
    streams.add(response)
    request.on("close", () => streams.delete(response))
  }

  const sendItem = (response: ServerResponse, item: AgentItem, place: number) =>
    response.write(`id: ${place}\nevent: any\ndata: ${JSON.stringify(item)}\n\n`)
  const happen: Script["happen"] = (user, session, ...items) => {
    const key = `${user}/${session}`
    const all = happened.get(key) ?? []
    happened.set(key, all)
    for (const item of items) {
      all.push(item)
      for (const [response, of] of followers) if (of === key) sendItem(response, item, all.length)
    }
  }
  const change: Script["change"] = (detail) => {
    const { history: _, operations: __, ...conversation } = detail
    conversations.set(`${detail.user}/${detail.session}`, detail)
    tell({ _tag: "ConversationChanged", conversation })
  }
  const followConversation = (request: IncomingMessage, response: ServerResponse, key: string) => {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" })
    response.write(`event: heartbeat\ndata: ${JSON.stringify({ _tag: "Heartbeat", at: Date.now() })}\n\n`)
    const all = happened.get(key) ?? []
    const from = Number(request.headers["last-event-id"] ?? 0)
    for (let place = from; place < all.length; place++) sendItem(response, all[place]!, place + 1)
    followers.set(response, key)
    request.on("close", () => followers.delete(response))
  }

  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(request.url ?? "/", "http://server")
    const json = (value: unknown, status = 200) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value))
    const path = url.pathname
    if (!path.startsWith("/api/")) {
      const file = path === "/" ? "index.html" : path.slice(1)
      response.writeHead(200, { "content-type": typeOf(file), ...RequestGuard.headers })
      return response.end(readFileSync(join(folder, file)))
    }
    if (path === "/api/login") {
      const given = JSON.parse(await bodyOf(request)) as { readonly token: string }
      if (given.token !== token) return response.writeHead(401).end()
      response.setHeader("set-cookie", "session=1; HttpOnly; SameSite=Strict; Path=/")
      return json(user)
    }
    if (request.headers.cookie !== "session=1") return response.writeHead(401).end()
    const [, , kind, id, sub, index, side] = path.split("/").map(decodeURIComponent)
    if (request.method === "POST" && kind === "logout") {
      response.setHeader("set-cookie", "session=; Max-Age=0; Path=/")
      return response.writeHead(204).end()
    }
    if (request.method === "DELETE" && kind === "grants") {
      grants.splice(grants.findIndex((it) => it.id === id), 1)
      return response.writeHead(204).end()
    }
    if (request.method === "POST" && id === "answers") {
      const given = JSON.parse(await bodyOf(request)) as typeof BulkAnswers.Type
      const stale = given.answers.filter((it) => open.get(it.id)?.hash !== it.hash)
      if (stale.length > 0) {
        return json({
          title: "Nothing was answered.",
          errors: stale.map((it) => ({ id: it.id, reason: "AlreadyEnded", problem: `${it.id} is over.` }))
        }, 409)
      }
      return json(given.answers.map((it) => answered(it.id, it.answer)))
    }
    if (request.method === "POST" && sub === "answer") {
      const given = JSON.parse(await bodyOf(request)) as { readonly hash: string; readonly answer: { _tag: string } }
      const over = ended.get(id!)
      if (over !== undefined) {
        return json(
          { title: "The approval request is resolved.", id, how: over.how, by: over.by, at: over.endedAt },
          409
        )
      }
      return json(answered(id!, given.answer))
    }
    if (request.method === "POST" && kind === "sessions") {
      posts.push({ path, body: JSON.parse(await bodyOf(request)) })
      return path.endsWith("/cancel") ? response.writeHead(204).end() : json({ id: `m${posts.length}` })
    }
    if (kind === "conversations") {
      if (id === undefined) {
        return json(Array.from(conversations.values(), ({ history: _, operations: __, ...it }) => it))
      }
      const detail = conversations.get(`${id}/${sub}`)
      if (detail === undefined) return json({ title: "Not found." }, 404)
      return index === "events" ? followConversation(request, response, `${id}/${sub}`) : json(detail)
    }
    if (sub === "files") {
      if (now.isFailing) return json({ title: "The part cannot be read." }, 503)
      const text = texts.get(`${id}/${index}/${side}`) ?? ""
      const from = Number(url.searchParams.get("from") ?? 0)
      const next = from + 100_000
      const give = () => json({ text: text.slice(from, next), ...next < text.length ? { next } : {} })
      return now.isHolding ? held.push(give) : give()
    }
    switch (kind) {
      case "me":
        return json(user)
      case "live":
        return stream(request, response, url.searchParams.get("after") ?? "")
      case "approvals": {
        if (id === undefined) {
          const list = Array.from(open.values(), summaryOf)
          return json({ open: list, ended: Array.from(ended.values()).toReversed(), cursor: place() })
        }
        const found = open.get(id) ?? ended.get(id)
        return found === undefined ? json({ title: "Not found." }, 404) : json(found)
      }
      case "waves":
        // a wave is named by its user, its session and its own name
        return index === undefined
          ? json({ waves, cursor: place() })
          : json({ wave: waves.find((it) => it.wave === index), events: events.get(index) ?? [] })
      case "agents":
        return json(agents)
      case "journal": {
        const wanted = (name: string) => url.searchParams.get(name)
        if (id === "calls" && sub !== undefined) return json(calls.find((it) => String(it.place) === sub))
        if (id === "calls") {
          const found = calls.filter((it) =>
            ["state", "tool", "session", "user"].every((name) =>
              wanted(name) === null || String(it[name as "tool"]) === wanted(name)
            ) && JSON.stringify(it).includes(wanted("search") ?? "")
          )
          return json({ calls: found.map(({ entries: _, modelText: __, ...it }) => it) })
        }
        const text = url.searchParams.get("search") ?? ""
        return json({ entries: entries.filter((it) => JSON.stringify(it.entry).includes(text)) })
      }
      case "sessions":
        // checkpoints are the only thing of sessions that is read
        return json(
          index === undefined ? plans.map((it) => it.checkpoint) : plans.find((it) => it.checkpoint.id === index)
        )
      case "grants":
        return json(grants)
      case "rules":
        return json(rules)
      case "status":
        return json(status)
      default:
        return response.writeHead(404).end()
    }
  }
  const answered = (id: string, answer: { readonly _tag: string; readonly reason?: string | undefined }) => {
    answers.push({ id, answer })
    const how = answer._tag === "Deny" ? "denied" as const : "approved" as const
    return end(id, {
      how,
      answer: answer._tag,
      by: user.name,
      ...answer.reason === undefined ? {} : { reason: answer.reason }
    })
  }

  const server = createServer((request, response) => {
    if (now.isAway) request.destroy()
    else respond(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)))
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    ask,
    end,
    hold: (isHeld) => {
      const from = now.heldFrom
      now.isSilent = isHeld
      now.heldFrom = log.length
      if (!isHeld) { for (const response of streams) for (let at = from; at < log.length; at++) send(response, at) }
    },
    goAway: () => {
      now.isAway = true
      server.closeAllConnections()
    },
    comeBack: () => {
      now.isAway = false
    },
    forget: () => {
      now.life++
      log.length = 0
    },
    holdParts: (isHeld) => {
      now.isHolding = isHeld
      for (const give of held.splice(0)) give()
    },
    failParts: (isFailing) => {
      now.isFailing = isFailing
    },
    answers,
    texts,
    waves,
    events,
    entries,
    grants,
    conversations,
    agents,
    happen,
    cutConversations: () => {
      for (const response of followers.keys()) response.end()
      followers.clear()
    },
    change,
    posts,
    calls,
    plans,
    streams: () => streams.size,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
  }
}

// Utilities

const summaryOf = ({ args, parameters: _, preview: __, ...approval }: ApprovalRequest): ApprovalSummary => ({
  ...approval,
  summary: JSON.stringify(args).slice(0, 200)
})

const nameOf = ({ _tag }: LiveItem): string => _tag.replaceAll(/(?!^)[A-Z]/g, "_$&").toLowerCase()

const typeOf = (file: string): string =>
  file.endsWith(".js") ? "text/javascript" : file.endsWith(".css") ? "text/css" : "text/html"

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Array<Uint8Array> = []
  for await (const chunk of request) chunks.push(chunk as Uint8Array)
  return Buffer.concat(chunks).toString("utf8")
}
