/**
 * What the page knows of the server, and how items of the live stream change it. Pure; repeated items change nothing.
 */
import type { Wire } from "../core/facts/ToolEvent.ts"
import type {
  AnsweredApproval,
  Approvals,
  ApprovalSummary,
  LiveItem,
  ResolvedApproval
} from "../server/api/ApiApprovals.ts"
import type { WaveInfo, Waves } from "../server/api/ApiModels.ts"
import type { Conversation } from "../server/api/ApiOperations.ts"

/** A wave and its events, in their order. */
export interface KnownWave extends WaveInfo {
  readonly events: ReadonlyArray<Wire>
  /** How many events the live stream left out; 0 if all events are here. */
  readonly missing: number
}

/** Approval requests that wait, oldest first; those that ended, newest first; waves by `keyOf`. */
export interface Known {
  readonly open: ReadonlyArray<ApprovalSummary>
  readonly ended: ReadonlyArray<ResolvedApproval>
  readonly waves: ReadonlyMap<string, KnownWave>
  /** Those with the latest changes first. */
  readonly conversations: ReadonlyArray<Conversation>
}

/** The initial state. */
export const nothing: Known = { open: [], ended: [], waves: new Map(), conversations: [] }

/** How many resolved requests, ended waves and conversations are kept. */
const kept = { ended: 200, waves: 100, conversations: 500 }

export const keyOf = (of: { readonly user: string; readonly session: string; readonly wave: string }): string =>
  JSON.stringify([of.user, of.session, of.wave])

/** The state from the lists of the server. */
export const ofLists = (
  approvals: typeof Approvals.Type,
  { waves }: typeof Waves.Type,
  conversations: ReadonlyArray<Conversation> = []
): Known => ({
  open: approvals.open.toSorted(byAge),
  ended: approvals.ended,
  waves: new Map(waves.map((it) => [keyOf(it), { ...it, events: [], missing: it.calls === 0 ? 0 : 1 }])),
  conversations
})

/** The title of a conversation; of a session without agents, its name. */
export const titleOf = ({ conversations }: Known, user: string, session: string): string =>
  conversations.find((it) => it.user === user && it.session === session)?.title ?? session

/** The state after all events of a wave were read; `missing` is what was missing when the read began. */
export const withEvents = (known: Known, key: string, events: ReadonlyArray<Wire>, missing: number): Known => {
  const wave = known.waves.get(key)
  if (wave === undefined) return known
  const came = wave.events.filter((it) => events.every((other) => !isSame(it, other)))
  const whole = { ...wave, events: [...events, ...came], missing: wave.missing === missing ? 0 : wave.missing }
  return { ...known, waves: new Map(known.waves).set(key, whole) }
}

/** The state after an answer; the live stream has the approvals of a request that others have to approve, too. */
export const afterAnswer = (known: Known, approval: AnsweredApproval): Known =>
  isOver(approval) ? after(known, { _tag: "ApprovalResolved", approval }) : known

const isOver = (approval: AnsweredApproval): approval is ResolvedApproval => approval.how !== "waiting"

/** The state after an item of the live stream. */
export const after = (known: Known, item: LiveItem): Known => {
  switch (item._tag) {
    case "ApprovalRequested": {
      const { approval } = item
      return {
        ...known,
        // a suspended request comes again under its id
        open: [...known.open.filter((it) => it.id !== approval.id), approval].sort(byAge),
        ended: known.ended.filter((it) => it.id !== approval.id)
      }
    }
    case "ApprovalChanged": {
      const { approval } = item
      return { ...known, open: known.open.map((it) => it.id === approval.id ? approval : it) }
    }
    case "ApprovalResolved": {
      const { approval } = item
      return {
        ...known,
        open: known.open.filter((it) => it.id !== approval.id),
        ended: [approval, ...known.ended.filter((it) => it.id !== approval.id)].slice(0, kept.ended)
      }
    }
    case "ConversationChanged": {
      const { conversation: { session, user } } = item
      const others = known.conversations.filter((it) => it.user !== user || it.session !== session)
      const all = [item.conversation, ...others].sort((a, b) => b.updatedAt - a.updatedAt)
      return { ...known, conversations: all.slice(0, kept.conversations) }
    }
    case "WaveBegan":
    case "WaveEnded": {
      const { events, missing } = known.waves.get(keyOf(item.wave)) ?? { events: [], missing: 0 }
      return { ...known, waves: bounded(new Map(known.waves).set(keyOf(item.wave), { ...item.wave, events, missing })) }
    }
    case "WaveEventLeftOut": {
      const wave = known.waves.get(keyOf(item))
      if (wave === undefined) return known
      return { ...known, waves: new Map(known.waves).set(keyOf(item), { ...wave, missing: wave.missing + 1 }) }
    }
    case "WaveEvent": {
      const wave = known.waves.get(keyOf(item))
      if (wave === undefined || wave.events.some((it) => isSame(it, item.event))) return known
      return {
        ...known,
        waves: new Map(known.waves).set(keyOf(item), { ...wave, events: [...wave.events, item.event] })
      }
    }
    default:
      return known
  }
}

const byAge = (a: ApprovalSummary, b: ApprovalSummary): number =>
  a.requestedAt - b.requestedAt || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)

/** Events are numbered per wave; waves of sub-agents have their own numbers. */
const isSame = (a: Wire, b: Wire): boolean =>
  a.sequence === b.sequence && a.process === b.process && a.wave === b.wave && a._tag === b._tag &&
  JSON.stringify(a.agentPath) === JSON.stringify(b.agentPath)

const bounded = (waves: ReadonlyMap<string, KnownWave>): ReadonlyMap<string, KnownWave> => {
  const over = Array.from(waves).filter(([, it]) => it.status === "ended")
  const surplus = new Set(over.slice(0, Math.max(0, over.length - kept.waves)).map(([key]) => key))
  return surplus.size === 0 ? waves : new Map(Array.from(waves).filter(([key]) => !surplus.has(key)))
}
