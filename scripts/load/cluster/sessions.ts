// What clients do to a cluster: sessions with waves and agents, streams that are followed over runners, approvers. It
// keeps what came back, so that it can be compared with the ledger.
import type { ApiApprovals, ApiModels, ApiOperations } from "effect-tool-executor/server"
import { setTimeout as sleep } from "node:timers/promises"
import type { SeededRandom } from "../../../src/testing/SeededRandom.ts"
import * as Client from "../client.ts"
import type { Balancer } from "./runners.ts"

export interface Options {
  readonly balancer: Balancer
  readonly random: SeededRandom
  readonly users: number
  readonly sessions: number
  readonly calls: number
  /** The share of waves that wait for a person. */
  readonly asks: number
  readonly millis: number
  /** Whether runners may be without their database. */
  readonly isCut: boolean
}

const tools = [
  ...Array.from({ length: 9 }, () => "look"),
  ...Array.from({ length: 4 }, () => "note"),
  ...Array.from({ length: 3 }, () => "send"),
  "limited",
  "left",
  "right",
  "verify",
  "refund",
  "capped",
  "capped",
  "keyed"
]

/** The first users approve the calls of the others. */
export const approvers = 3

type Pending = typeof ApiApprovals.Approvals.Type

export const make = ({ asks, balancer, calls: target, isCut, millis, random, sessions, users }: Options) => {
  const problems: Array<string> = []
  const problem = (text: string) => void (problems.length < 100 && !problems.includes(text) && problems.push(text))
  const outcomes = new Map<string, string>()
  const decisions = new Map<string, string>()
  const told = new Map<string, string>()
  const asked = new Map<string, Set<string>>()
  const latencies: Array<number> = []
  const counted = {
    waves: 0,
    calls: 0,
    outcomes: 0,
    operations: 0,
    notKept: 0,
    followed: 0,
    cuts: 0,
    approvals: 0,
    doubleAnswers: 0,
    doubleSubmits: 0,
    told: 0,
    unclear: 0
  }
  const now = { isOver: false }
  const user = (index: number) => approvers + index % (users - approvers)
  const { next, send } = balancer

  const read = (path: string, { end, status }: ApiModels.Wave, keys: ReadonlyArray<string>) => {
    const results = end?._tag === "ToolsEnd" ? end.executionResults : []
    if (status !== "ended" || results.length !== keys.length) {
      return problem(`${path}: ${results.length} outcomes of ${keys.length} calls, ${status}`)
    }
    counted.outcomes += results.length
    results.forEach(({ _tag }, index) => outcomes.set(keys[index]!, _tag))
  }

  /** Submits a wave until it has ended; sometimes at two runners at once. */
  const wave = async (index: number, name: string, chosen: ReadonlyArray<string>): Promise<void> => {
    const path = `/api/sessions/s${index}/waves`
    const keys = chosen.map((tool, at) => `${name}.${at}.${tool}`)
    const body = {
      ...Client.message(chosen.map((tool, at) => [tool, keys[at]!, 5 + random.int(30)])),
      wave: name
    }
    counted.waves++
    counted.calls += chosen.length
    const begin = Date.now()
    const submit = () => send<ApiModels.Wave>(user(index), "POST", path, body)
    const isDouble = random.chance(0.05)
    if (isDouble) counted.doubleSubmits++
    const follower = random.chance(0.03) ? follow(user(index), `${path}/${name}`, keys) : undefined
    const both = isDouble ? [submit(), submit()] : [submit()]
    for (const { json, status } of await Promise.all(both)) {
      let last = json
      if (status !== 200) problem(`${name}: ${status} ${JSON.stringify(json)}`)
      // a runner that drains says that the wave is suspended
      for (const until = Date.now() + 120_000; last.status !== "ended" && Date.now() < until;) {
        await sleep(200)
        last = (await submit()).json
      }
      if (outcomes.has(keys[0]!)) {
        const results = last.end?._tag === "ToolsEnd" ? last.end.executionResults : []
        const differs = results.length !== keys.length ||
          results.some(({ _tag }, at) => _tag !== outcomes.get(keys[at]!))
        if (differs) problem(`${name}: two submissions have different outcomes`)
      } else read(`${path}/${name}`, last, keys)
    }
    if (!chosen.includes("ask")) latencies.push(Date.now() - begin)
    await follower
  }

  /** Follows the events of a wave over all runners: the end of each call comes once. */
  const follow = async (user: number, path: string, keys: ReadonlyArray<string>) => {
    let [last, got]: [string | undefined, Array<string>] = [undefined, []]
    const over = { is: false }
    for (const until = Date.now() + 180_000; !over.is && Date.now() < until;) {
      let listening: Client.Listening | undefined
      try {
        listening = await Client.listen(next().url, user, `${path}/events`, ({ data, event, id }) => {
          if (event === "reset") got = []
          last = id ?? last
          if (event === "tool_call_complete") got.push(`${"index" in data ? data.index : ""}`)
          if (event === "tools_end") over.is = true
          if (random.int(12) === 0) listening?.cut()
        }, last)
        // a runner that is frozen says nothing at all
        await Promise.race([listening.ended, sleep(20_000, undefined, { ref: false })])
        listening.cut()
        counted.cuts++
      } catch {
        await sleep(200)
      }
    }
    counted.followed++
    if (!over.is) return problem(`${path}: its events never ended`)
    if (got.length !== keys.length || new Set(got).size !== keys.length) {
      problem(`${path}: ${got.length} ends of calls were told, ${new Set(got).size} different ones, for ${keys.length}`)
    }
  }

  /** A session of waves, at its own pace. */
  const working = async (index: number) => {
    const pause = millis * sessions * 3.5 / target
    for (let n = 0; counted.calls < target && !now.isOver; n++) {
      await sleep(pause * (0.5 + random.int(1_000) / 1_000))
      const chosen = Array.from({ length: 1 + random.int(6) }, () => random.pick(tools))
      // what waits for a person
      if (random.chance(asks)) chosen[random.int(chosen.length)] = "ask"
      await wave(index, `s${index}w${n}`, chosen).catch((error) => problem(String(error)))
    }
  }

  /** A session of agents, with a sub-agent that asks. */
  const talking = async (index: number) => {
    const path = `/api/sessions/s${index}/operations`
    for (let n = 0; counted.calls < target && !now.isOver; n++) {
      const id = `s${index}o${n}`
      const body = { agent: "helper", prompt: id, id }
      const start = () => send<ApiOperations.Operation>(user(index), "POST", path, body)
      const { json, status } = (await Promise.all(random.chance(0.2) ? [start(), start()] : [start()]))[0]!
      if (status !== 200) problem(`${id}: ${status} ${JSON.stringify(json)}`)
      let operation = json
      for (const until = Date.now() + 240_000; Date.now() < until;) {
        const tag = operation.end?.reason._tag
        if (tag !== undefined && tag !== "Suspended") break
        await sleep(500)
        operation = (await send<ApiOperations.Operation>(user(index), "GET", `${path}/${id}`)).json
      }
      counted.operations++
      const reason = operation.end?.reason._tag
      // a transcript that cannot be stored ends its operation, which says so
      if (reason === "NotKept" && isCut) counted.notKept++
      else if (reason !== "Finished") problem(`${id}: ${JSON.stringify(operation.end).slice(0, 400)}`)
    }
  }

  const keyOf = ({ callId, session }: { readonly callId: string; readonly session: string }) =>
    callId.includes(".") ? callId : `${session} ${callId}`

  /** Gives an answer until a runner says what became of it. */
  const answer = async (approver: number, id: string, hash: string): Promise<Told> => {
    const _tag = random.chance(0.2) ? "Deny" : "ApproveOnce"
    for (let tries = 0; tries < 300; tries++) {
      try {
        const { json, status } = await Client.send<Refused>(
          next().url,
          approver,
          "POST",
          `/api/approvals/${id}/answer`,
          { hash, answer: { _tag } },
          AbortSignal.timeout(8_000)
        )
        if (status < 500 && status !== 429) return { _tag, status, json }
      } catch {
        // whether it has arrived is not known: the next try says it
      }
      counted.unclear++
      await sleep(200)
    }
    return { _tag, status: 0, json: undefined }
  }

  /** Answers a request; every third time twice at once, at two runners. */
  const decide = (approver: number) => async (request: Pending["open"][number]) => {
    const { hash, id } = request
    const key = keyOf(request)
    asked.set(key, (asked.get(key) ?? new Set()).add(id))
    const isDouble = random.chance(0.3)
    if (isDouble) counted.doubleAnswers++
    const given = isDouble ? [answer(approver, id, hash), answer(approver, id, hash)] : [answer(approver, id, hash)]
    for (const { _tag, json, status } of await Promise.all(given)) {
      if (status === 200) {
        if (decisions.has(key)) problem(`${key}: two answers were taken`)
        decisions.set(key, _tag)
        counted.approvals++
      } else if (status === 409 && (json?.how === "approved" || json?.how === "denied")) {
        counted.told++
        told.set(key, json.how === "denied" ? "Deny" : "ApproveOnce")
      } else problem(`${key}: an answer had ${status} ${JSON.stringify(json)?.slice(0, 300)}`)
    }
  }

  /** Answers what is open. */
  const approving = async (approver: number) => {
    while (!now.isOver) {
      const { json } = await send<Pending>(approver, "GET", "/api/approvals")
      // as quick as people are together: what waits for them is not what is measured
      await Promise.all(json.open.filter(() => random.chance(0.5)).map(decide(approver)))
      await sleep(300)
    }
  }

  /** Decisions as far as they are known: those whose own response was cut off, from what others were told. */
  const decided = (): ReadonlyMap<string, string> => {
    for (const [key, decision] of told) {
      if (!decisions.has(key)) decisions.set(key, decision)
      else if (decisions.get(key) !== decision) {
        problem(`${key}: ${decisions.get(key)}, and another was told ${decision}`)
      }
    }
    for (const [key, ids] of asked) if (ids.size > 1) problem(`${key}: ${ids.size} approval requests`)
    return decisions
  }

  return { approving, counted, decided, latencies, now, outcomes, problem, problems, talking, user, wave, working }
}

interface Refused {
  readonly how?: string
  readonly by?: string
}

interface Told {
  readonly _tag: string
  readonly status: number
  readonly json: Refused | undefined
}

export type Sessions = ReturnType<typeof make>
