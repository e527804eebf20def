/**
 * The live stream of the page. A connection that is lost or misses its heartbeat is reopened after the last item. If
 * the server no longer has that position, the lists are read again.
 */
import type { Approvals, LiveItem } from "../server/api/ApiApprovals.ts"
import type { Me, Waves } from "../server/api/ApiModels.ts"
import type { Conversation } from "../server/api/ApiOperations.ts"
import { get, type Reply } from "./api.ts"
import { after, type Known, nothing, ofLists } from "./known.ts"
import { clockOffset, connection, known, me, say } from "./state.ts"

/** The event names of the server; an event source listens for each name. */
const names = [
  "approval_requested",
  "approval_changed",
  "approval_resolved",
  "wave_began",
  "wave_event",
  "wave_event_left_out",
  "wave_ended",
  "conversation_changed",
  "gap",
  "reset",
  "heartbeat",
  "stopping"
]

/** The server sends something at least every 15 seconds. */
const silence = 40_000
const firstPause = 500
const longestPause = 10_000

/** Follows the server until it is stopped or the session ends. */
export const follow = (): () => void => new Follower().stop

class Follower {
  private source: EventSource | undefined
  private cursor: string | undefined
  private pause = firstPause
  private timer: ReturnType<typeof setTimeout> | undefined
  private isStopped = false
  /** Items that arrived while the lists were read; they are newer. */
  private waiting: Array<LiveItem> = []
  private isReading = false
  private isPlanned = false

  constructor() {
    addEventListener("online", this.now)
    document.addEventListener("visibilitychange", this.now)
    void this.connect()
  }

  readonly stop = (): void => {
    this.isStopped = true
    this.drop()
    removeEventListener("online", this.now)
    document.removeEventListener("visibilitychange", this.now)
  }

  /** The browser is online or visible again: retry now. */
  private readonly now = (): void => {
    if (connection.value === "lost" && document.visibilityState === "visible") {
      this.pause = firstPause
      this.again(0)
    }
  }

  private async connect(): Promise<void> {
    const who = await get<Me>("api/me")
    if (this.isStopped) return
    if (!who.ok) return who.problem.status === 401 ? this.loggedOut() : this.lost()
    me.value = who.value
    if (this.cursor === undefined && !await this.read()) return this.lost()
    if (this.isStopped) return
    const source = new EventSource(`api/live?after=${encodeURIComponent(this.cursor ?? "")}`)
    this.source = source
    for (const name of names) source.addEventListener(name, (event) => this.hear(event as MessageEvent<string>))
    source.addEventListener("open", this.alive)
    // the browser's own retry does not cover every kind of end and does not report its state
    source.addEventListener("error", () => this.lost())
    this.watch()
  }

  /** Reads the lists. They contain everything up to their cursor, and possibly later items. */
  private async read(): Promise<boolean> {
    this.isReading = true
    const approvals = await listOf<typeof Approvals.Type>("api/approvals", {
      open: [],
      ended: [],
      pending: 0,
      cursor: ""
    })
    const waves = await listOf<typeof Waves.Type>("api/waves", { waves: [], cursor: "" })
    const conversations = await listOf<ReadonlyArray<Conversation>>("api/conversations", [])
    this.isReading = false
    if (!conversations.ok || !approvals.ok || !waves.ok) return false
    // the cursor of the first list: items that arrive twice change nothing
    this.cursor ??= approvals.value.cursor || waves.value.cursor
    known.value = this.waiting.splice(0).reduce<Known>(
      after,
      ofLists(approvals.value, waves.value, conversations.value)
    )
    return true
  }

  private hear(event: MessageEvent<string>): void {
    this.alive()
    if (event.lastEventId !== "") this.cursor = event.lastEventId
    const item = JSON.parse(event.data) as LiveItem
    if (item._tag === "Heartbeat") clockOffset.value = item.at - Date.now()
    else if (item._tag === "Reset") void this.read().then((isRead) => isRead || this.isStopped || this.lost())
    else if (item._tag === "Stopping") say("The server is restarting. The page will reconnect.")
    else {
      this.waiting.push(item)
      this.plan()
    }
  }

  /** Batches items into one update of the page. */
  private plan(): void {
    if (this.isPlanned) return
    this.isPlanned = true
    setTimeout(() => {
      this.isPlanned = false
      if (!this.isReading) known.value = this.waiting.splice(0).reduce<Known>(after, known.value)
    }, 30)
  }

  private readonly alive = (): void => {
    if (connection.value === "lost") say("Reconnected.")
    connection.value = "live"
    this.pause = firstPause
    this.watch()
  }

  private watch(): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.lost(), silence)
  }

  private lost(): void {
    if (this.isStopped) return
    if (connection.value !== "lost") say("Connection lost. Reconnecting…")
    connection.value = "lost"
    this.again(this.pause)
    this.pause = Math.min(longestPause, this.pause * 2)
  }

  private again(pause: number): void {
    this.drop()
    this.timer = setTimeout(() => void this.connect(), pause)
  }

  private drop(): void {
    clearTimeout(this.timer)
    this.source?.close()
    this.source = undefined
  }

  private loggedOut(): void {
    this.stop()
    known.value = nothing
    me.value = undefined
  }
}

/** A list that the user may not see is empty. */
const listOf = async <A>(path: string, empty: A): Promise<Reply<A>> => {
  const reply = await get<A>(path)
  return !reply.ok && reply.problem.status === 403 ? { ok: true, value: empty } : reply
}
