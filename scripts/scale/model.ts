// A model of runners over one database, event by event: waves arrive, runners work through them, statements are grouped as
// the stores group them, and one row of the journal is locked until an append is on disk. It says how busy each part is,
// how long waves take, and what waits for people.
import { randomFrom } from "../../src/testing/SeededRandom.ts"

/** What each part costs, in milliseconds; measured (`costs.ts`). */
export interface Costs {
  /** Processor time of a runner per call, and per statement: its reply waits for its turn, too. */
  readonly call: number
  readonly reply: number
  /** Statements of a wave that are not grouped. */
  readonly direct: number
  /** Rounds of a wave through the state store and the journal, each grouped with those of other waves of its runner. */
  readonly stateRounds: number
  readonly journalRounds: number
  /** Processor time of the database per statement, and per wave in a grouped one. */
  readonly statement: number
  readonly inGroup: number
  /** From a runner to the database and back, without its work. */
  readonly roundTrip: number
  /** How long an append keeps the row of places of its journal locked: until it is on disk. */
  readonly append: number
  /** Statements and processor time of a runner to lay a session down for a person, and to continue it. */
  readonly suspend: { readonly statements: number; readonly cpu: number }
  readonly resume: { readonly statements: number; readonly cpu: number }
  /** Statements per second of each runner without work. */
  readonly idle: number
}

export interface Load {
  readonly runners: number
  /** Processors of the database. */
  readonly processors: number
  /** Databases that tenants are spread over; each has a journal of its own. */
  readonly databases: number
  /** Waves per second that arrive by themselves, or sessions that each submit the next wave when one has ended. */
  readonly arrivals: { readonly perSecond: number } | { readonly sessions: number }
  readonly calls: number
  /** How long handlers of a wave take. */
  readonly handler: number
  /** The share of waves with a call that waits for a person, and how long people take. */
  readonly asks: number
  readonly people: number
  /** Milliseconds that are simulated; what happens in the first fifth is not counted. */
  readonly millis: number
  readonly seed: number
}

export interface Figures {
  readonly started: number
  readonly ended: number
  readonly running: number
  readonly waiting: number
  readonly statementsPerWave: number
  readonly perSecond: number
  /** Milliseconds from arrival to end, without those that waited for people. */
  readonly latency: { readonly median: number; readonly p99: number; readonly mean: number }
  /** Waves in memory, on average. */
  readonly inMemory: number
  /** Shares of time that each part is busy: its processors, or the lock of the journal's row. */
  readonly busy: { readonly runner: number; readonly database: number; readonly journal: number }
  /** What stations did, in milliseconds, and what they were asked for. */
  readonly work: { readonly done: number; readonly wanted: number }
}

/** Runs the model. */
export const simulate = (costs: Costs, load: Load): Figures => {
  const agenda = new Agenda()
  const random = randomFrom(load.seed)
  const exponential = (mean: number) => mean === 0 ? 0 : -mean * Math.log(1 - random.int(1_000_000) / 1_000_000)
  const warm = load.millis / 5
  const databases = Array.from({ length: load.databases }, () => ({
    processors: new Station(agenda, load.processors),
    place: new Station(agenda, 1)
  }))
  const runners = Array.from({ length: load.runners }, (_, index) => {
    const { place, processors } = databases[index % databases.length]!
    const cpu = new Station(agenda, 1)
    const query = (millis: number, then: () => void) =>
      agenda.after(costs.roundTrip, () => processors.use(millis, counting(() => cpu.use(costs.reply, then))))
    return {
      cpu,
      query,
      state: new Groups((size, then) => query(costs.statement + costs.inGroup * size, then)),
      journal: new Groups((size, then) =>
        agenda.after(costs.roundTrip, () =>
          processors.use(
            costs.statement + costs.inGroup * size,
            counting(() => place.use(costs.append, () => cpu.use(costs.reply, then)))
          ))
      )
    }
  })
  const counts = { started: 0, ended: 0, waiting: 0, statements: 0, counted: 0 }
  const latencies: Array<number> = []
  let memory = { at: 0, waves: 0, area: 0 }

  const counting = (then: () => void) => () => {
    if (agenda.now >= warm) counts.statements++
    then()
  }
  const inMemory = (change: number) => {
    const since = Math.max(memory.at, warm)
    const area = memory.area + memory.waves * Math.max(0, agenda.now - since)
    memory = { at: agenda.now, waves: memory.waves + change, area }
  }
  const times = (count: number, step: (then: () => void) => void, then: () => void) => {
    const whole = Math.floor(count)
    const left = whole + (random.chance(count - whole) ? 1 : 0)
    const next = (n: number): void => n === 0 ? then() : step(() => next(n - 1))
    next(left)
  }

  const wave = (again: (() => void) | undefined) => {
    const { cpu, journal, query, state } = runners[random.int(runners.length)]!
    const [begin, half] = [agenda.now, costs.call * load.calls / 2]
    const isAsked = random.chance(load.asks)
    counts.started++
    inMemory(1)
    const end = () =>
      cpu.use(half, () =>
        times(costs.direct / 2, (then) => query(costs.statement, then), () => {
          counts.ended++
          inMemory(-1)
          if (begin >= warm) {
            counts.counted++
            if (!isAsked) latencies.push(agenda.now - begin)
          }
          again?.()
        }))
    const settled = () =>
      times(
        costs.stateRounds / 2,
        (then) => state.join(then),
        () => times(costs.journalRounds / 2, (then) => journal.join(then), end)
      )
    const waits = () => {
      counts.waiting++
      inMemory(-1)
      agenda.after(exponential(load.people), () => {
        counts.waiting--
        inMemory(1)
        cpu.use(costs.resume.cpu, () => times(costs.resume.statements, (then) => query(costs.statement, then), settled))
      })
    }
    const ran = () =>
      isAsked
        ? cpu.use(
          costs.suspend.cpu,
          () => times(costs.suspend.statements, (then) => query(costs.statement, then), waits)
        )
        : agenda.after(exponential(load.handler), settled)
    times(
      costs.direct / 2,
      (then) => query(costs.statement, then),
      () =>
        cpu.use(
          half,
          () =>
            times(costs.stateRounds / 2, (then) =>
              state.join(then), () =>
              times(costs.journalRounds / 2, (then) => journal.join(then), ran))
        )
    )
  }

  for (const { query } of runners) {
    if (costs.idle === 0) continue
    const beat = () => {
      query(costs.statement, () => {})
      agenda.after(1_000 / costs.idle, beat)
    }
    agenda.after(exponential(1_000 / costs.idle), beat)
  }
  if ("sessions" in load.arrivals) {
    const next = () => wave(next)
    for (let session = 0; session < load.arrivals.sessions; session++) agenda.after(random.int(10), next)
  } else {
    const mean = 1_000 / load.arrivals.perSecond
    const arrive = () => {
      wave(undefined)
      agenda.after(exponential(mean), arrive)
    }
    agenda.after(exponential(mean), arrive)
  }
  agenda.run(load.millis)
  inMemory(0)

  const seconds = (load.millis - warm) / 1_000
  const sorted = latencies.toSorted((a, b) => a - b)
  const share = (of: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * of))] ?? NaN
  const busyOf = (stations: ReadonlyArray<Station>) =>
    stations.reduce((sum, it) => sum + it.done / it.servers, 0) / stations.length / load.millis
  const stations = [...runners.map((it) => it.cpu), ...databases.flatMap((it) => [it.processors, it.place])]
  return {
    started: counts.started,
    ended: counts.ended,
    waiting: counts.waiting,
    running: memory.waves,
    statementsPerWave: counts.statements / Math.max(1, counts.counted),
    perSecond: counts.counted / seconds,
    latency: {
      median: share(0.5),
      p99: share(0.99),
      mean: sorted.reduce((sum, it) => sum + it, 0) / Math.max(1, sorted.length)
    },
    inMemory: memory.area / (load.millis - warm),
    busy: {
      runner: busyOf(runners.map((it) => it.cpu)),
      database: busyOf(databases.map((it) => it.processors)),
      journal: busyOf(databases.map((it) => it.place))
    },
    work: {
      done: stations.reduce((sum, it) => sum + it.done, 0),
      wanted: stations.reduce((sum, it) => sum + it.wanted, 0)
    }
  }
}

/** What happens next, in order of time: a binary heap. */
class Agenda {
  now = 0
  private readonly heap: Array<{ readonly at: number; readonly run: () => void }> = []

  after(millis: number, run: () => void): void {
    const { heap } = this
    const entry = { at: this.now + millis, run }
    let index = heap.push(entry) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (heap[parent]!.at <= entry.at) break
      heap[index] = heap[parent]!
      index = parent
    }
    heap[index] = entry
  }

  run(until: number): void {
    for (let next = this.take(until); next !== undefined; next = this.take(until)) next()
    this.now = until
  }

  private take(until: number): (() => void) | undefined {
    const { heap } = this
    const first = heap[0]
    if (first === undefined || first.at > until) return undefined
    const last = heap.pop()!
    if (heap.length > 0) {
      let index = 0
      for (;;) {
        let child = index * 2 + 1
        if (child >= heap.length) break
        if (child + 1 < heap.length && heap[child + 1]!.at < heap[child]!.at) child++
        if (heap[child]!.at >= last.at) break
        heap[index] = heap[child]!
        index = child
      }
      heap[index] = last
    }
    this.now = first.at
    return first.run
  }
}

/** Some servers with one line in front of them. */
class Station {
  done = 0
  wanted = 0
  private busy = 0
  private head = 0
  private readonly line: Array<readonly [millis: number, then: () => void]> = []

  private readonly agenda: Agenda
  readonly servers: number

  constructor(agenda: Agenda, servers: number) {
    this.agenda = agenda
    this.servers = servers
  }

  use(millis: number, then: () => void): void {
    this.wanted += millis
    this.line.push([millis, then])
    this.next()
  }

  private next(): void {
    if (this.busy === this.servers || this.head === this.line.length) return
    const [millis, then] = this.line[this.head++]!
    if (this.head > 1_000 && this.head * 2 > this.line.length) {
      this.line.splice(0, this.head)
      this.head = 0
    }
    this.busy++
    this.agenda.after(millis, () => {
      this.busy--
      this.done += millis
      this.next()
      then()
    })
  }
}

/** One statement at a time; who comes meanwhile is in the next one, all together. */
class Groups {
  private waiting: Array<() => void> = []
  private isRunning = false

  private readonly send: (size: number, then: () => void) => void

  constructor(send: (size: number, then: () => void) => void) {
    this.send = send
  }

  join(then: () => void): void {
    this.waiting.push(then)
    this.next()
  }

  private next(): void {
    if (this.isRunning || this.waiting.length === 0) return
    const group = this.waiting
    this.waiting = []
    this.isRunning = true
    this.send(group.length, () => {
      this.isRunning = false
      for (const then of group) then()
      this.next()
    })
  }
}
