/** A random world for the model of the contract. */
import type { Answer, Asked, Move, Part, Rules, Tool, World } from "./oracleWorld.ts"
import { randomFrom } from "./randomCase.ts"

const hour = 3_600_000
const waits = ["wait0", "wait1", "wait2"]

export const make = (seed: number): World => {
  const { chance, int, pick } = randomFrom(seed)
  const takes = () => 1 + int(pick([100, 10_000, 100_000]))
  const tool = (kind: Tool["class"]): Tool => {
    const timeout = chance(0.7) ? 120_000 : takes()
    return {
      class: kind,
      timeout,
      runs: Array.from({ length: 3 }, () => ({
        takes: timeout < 120_000 && chance(0.5) ? timeout * 2 : takes(),
        fails: chance(0.15),
        deaf: chance(0.3)
      })),
      retryable: !chance(0.15)
    }
  }
  const tools: Record<string, Tool> = {
    wait0: { class: "ReadOnly", timeout: 120_000, runs: [{ takes: 11 }] },
    wait1: { class: "ReadOnly", timeout: 120_000, runs: [{ takes: 1709 }] },
    wait2: { class: "ReadOnly", timeout: 120_000, runs: [{ takes: 20_407 }] },
    read: tool("ReadOnly"),
    look: { ...tool("ReadOnly"), volatile: chance(0.2) },
    put: { ...tool("ConcurrentMut"), idempotent: chance(0.5) },
    write: { ...tool("SerialMut"), idempotent: chance(0.5) },
    mail: { ...tool(pick(["SerialMut", "ConcurrentMut", "ReadOnly"])), targets: chance(0.5) },
    no: tool("SerialMut")
  }
  const names = ["read", "look", "put", "write", "mail"]
  const rules: Rules = {
    closing: waits,
    ...(chance(0.15) ? { start: pick(names) } : {}),
    ...(chance(0.5) ? { max: { tool: pick(["*", ...names]), max: 1 + int(3) } } : {}),
    ...(chance(0.3) ? { exclusive: pick([["read", "write"], ["put", "mail"], ["look", "read", "mail"]]) } : {}),
    ...(chance(0.4) ? { cooldown: { tool: pick(["*", ...names]), duration: pick([500, 50_000, 2_000_000]) } } : {})
  }
  const others = names.filter((it) => it !== rules.start)
  const preceding = chance(0.3) ? { tool: others[0]!, needs: others[1]! } : undefined
  const following = chance(0.2) ? { tool: others[2]!, until: others[3]! } : undefined
  const reach = pick(["wave", "process", "batch", "principal"] as const)
  const settings = {
    reach,
    window: reach === "batch" ? pick([60_000, 300_000, 3 * hour]) : pick([60_000, 300_000]),
    readWindow: chance(0.5) ? pick([60_000, 300_000]) : undefined,
    keepFailed: chance(0.2),
    onDuplicate: pick(["reject", "replay"] as const),
    inFlight: pick(["reject", "join"] as const),
    stop: chance(0.3),
    ask: chance(0.4) ? [pick(names), "mail"] : [],
    deny: ["no"]
  }
  const answers: Array<Answer> = Array.from({ length: 10 }, () => ({
    tool: pick([...names, "mail", "mail"]),
    after: int(pick([200, 20_000])),
    says: pick(["once", "once", "scope", "no", 1 + int(100_000)] as const)
  }))
  let serial = 0
  const call = (name: string): Asked => ({
    id: `c${serial++}`,
    name,
    n: name.startsWith("wait") ? serial : chance(0.3) ? 1 : 0,
    ...(tools[name]?.targets === true ? { to: pick([[], ["ada"], ["bob"], ["ada", "bob"]]) } : {})
  })
  const part = (principal: string, wait?: string): Part => ({
    principal,
    batch: pick(["b0", "b1"]),
    fresh: chance(0.3),
    calls: [
      ...(wait === undefined ? [] : [call(wait)]),
      ...Array.from({ length: 1 + int(4) }, () => call(chance(0.08) ? pick(["no", "nope"]) : pick(names)))
    ]
  })
  const principal = () => pick(["ada", "ada", "eve"])
  const moves = Array.from({ length: 3 + int(6) }, (): Move => {
    if (chance(0.2)) return { advance: 1 + int(pick([100_000, 300_000, 2_000_000, 2 * hour])) }
    if (reach !== "principal" && chance(0.05)) return { close: { principal: principal(), batch: pick(["b0", "b1"]) } }
    if (chance(0.05)) return { revoke: { principal: principal(), tool: pick(names) } }
    const beside = chance(0.6) ? waits.slice(0, 2 + int(2)) : [undefined]
    const seen = new Set<string>()
    const waves = beside.map((wait) => part(principal(), wait)).filter(({ batch, principal }) => {
      const name = `${principal} ${batch}`
      // a process plays one wave at a time
      return !seen.has(name) && seen.add(name) !== undefined
    })
    const cancel = { id: `c${serial - 1 - int(6)}`, at: int(20_000) }
    if (waves.length === 1 && chance(0.2)) return { waves, interrupt: int(pick([200, 20_000])) }
    return { waves, ...(chance(0.2) ? { cancel } : {}) }
  })
  const group = rules.exclusive ?? []
  const clash = preceding !== undefined && group.includes(preceding.tool) && group.includes(preceding.needs) ||
    rules.start !== undefined && group.includes(rules.start)
  return {
    tools,
    rules: {
      ...rules,
      ...(clash ? { exclusive: undefined } : {}),
      ...(preceding === undefined ? {} : { preceding }),
      ...(following === undefined ? {} : { following })
    },
    settings,
    answers: settings.ask.length > 0 && seed % 4 === 3 ? null : answers,
    moves
  }
}
