// PostgreSQL and the runners over it, each a process of its own that can be killed, frozen and started again.
import { type ChildProcess, spawn } from "node:child_process"
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createServer } from "node:net"
import { availableParallelism, tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Client from "../client.ts"
import * as Proxy from "./proxy.ts"

/** What a runner is started with. */
export interface Settings {
  /** Name of this life of it. */
  readonly life: string
  readonly port: number
  /** Where other runners reach it; absent: one server, without a cluster. */
  readonly cluster: { readonly port: number; readonly shards: number } | undefined
  /** Absent: a SQLite file in `data`. */
  readonly postgres?: string | undefined
  readonly data: string
  /** Where handlers write what they do; absent: nowhere. */
  readonly ledger?: string
  readonly users: number
  /** So many users, the first ones, approve the calls of all. Default 3. */
  readonly approvers?: number | undefined
}

export interface Options extends Pick<Settings, "approvers" | "postgres" | "users"> {
  readonly runners: number
  readonly isCluster: boolean
  /** Whether handlers write what they do into a file. Default true. */
  readonly hasLedger?: boolean | undefined
  /** Whether each runner reaches the database by a way of its own, which can be cut. */
  readonly isProxied?: boolean | undefined
}

/** One runner, over all of its lives. */
export interface Runner {
  readonly url: string
  readonly address: string
  /** Its way to the database, if that can be cut. */
  readonly proxy: Proxy.Proxy | undefined
  life: string
  /** Its name in the database, in this life. */
  name: string | undefined
  /** Whether a balancer would send it requests. */
  isIn: boolean
  state: "up" | "down" | "frozen"
  startedAt: number
  child: ChildProcess
}

const through = (url: string, { port }: Proxy.Proxy): string => Object.assign(new URL(url), { port: String(port) }).href

interface Status {
  readonly runner?: { readonly name: string }
}

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))

const freePort = () =>
  new Promise<number>((resolve) => {
    const server = createServer()
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
    })
  })

/** Starts runners; ends with the scope of its caller. */
export const start = async (
  { hasLedger = true, isCluster, isProxied = false, runners: count, ...options }: Options
) => {
  const folder = mkdtempSync(join(tmpdir(), "tool-executor-cluster-"))
  const ledger = join(folder, "ledger")
  const log = createWriteStream(join(folder, "log"))
  let born = 0

  const launch = async (
    runner: Pick<Runner, "address" | "proxy" | "url">
  ): Promise<Pick<Runner, "child" | "life" | "name">> => {
    const life = `life${++born}`
    const settings: Settings = {
      ...options,
      postgres: runner.proxy === undefined ? options.postgres : through(options.postgres!, runner.proxy),
      data: join(folder, "data"),
      life,
      ...hasLedger ? { ledger } : {},
      port: Number(new URL(runner.url).port),
      cluster: isCluster ? { port: Number(runner.address.split(":")[1]), shards: 300 } : undefined
    }
    const child = spawn(
      process.execPath,
      ["--expose-gc", "--import", path("../../source-resolver.ts"), path("runner.ts"), JSON.stringify(settings)],
      { stdio: ["ignore", "pipe", "pipe", "ipc"] }
    )
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => void log.write(text.replaceAll(/^/gm, `${life} `)))
    }
    const url = await new Promise<string | undefined>((resolve) => {
      child.once("message", (it) => resolve((it as { readonly url: string }).url))
      child.once("exit", () => resolve(undefined))
    })
    if (url === undefined) throw new Error(`a runner did not start:\n${readFileSync(join(folder, "log"), "utf8")}`)
    const { json } = await Client.send<Status>(url, 0, "GET", "/api/status")
    return { child, life, name: json.runner?.name }
  }

  // all at once: they make the tables together
  const all = await Promise.all(Array.from({ length: count }, async (): Promise<Runner> => {
    const [url, address] = [`http://127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
    const { hostname: host, port } = new URL(options.postgres ?? url)
    const proxy = isProxied ? await Proxy.start({ host, port: Number(port) }) : undefined
    const place = { url, address, proxy }
    return { ...place, ...await launch(place), isIn: true, state: "up", startedAt: Date.now() }
  }))

  const ended = (child: ChildProcess) =>
    child.exitCode !== null || child.signalCode !== null
      ? Promise.resolve()
      : new Promise<void>((resolve) => void child.once("exit", () => resolve()))

  return {
    all,
    folder,
    ledger: () => readFileSync(ledger, { encoding: "utf8", flag: "a+" }),
    log: () => readFileSync(join(folder, "log"), "utf8"),
    stop: async (runner: Runner, signal: "SIGKILL" | "SIGTERM") => {
      runner.state = "down"
      const end = ended(runner.child)
      runner.child.kill(signal)
      await end
    },
    again: async (runner: Runner) => {
      Object.assign(runner, await launch(runner), { state: "up", startedAt: Date.now() })
    },
    freeze: (runner: Runner) => {
      runner.state = "frozen"
      runner.child.kill("SIGSTOP")
    },
    thaw: (runner: Runner) => {
      runner.state = "up"
      runner.child.kill("SIGCONT")
    },
    /** What it holds, in megabytes, after a collection. */
    heap: (runner: Runner) =>
      new Promise<number>((resolve) => {
        runner.child.once("message", (it) => resolve((it as { readonly heap: number }).heap))
        runner.child.send({})
      }),
    /** Milliseconds of processor time of all runners that are up. */
    cpu: () => all.map(({ child }) => cpuOf(child.pid!)).reduce((one, other) => one + other, 0),
    end: async () => {
      for (const { child } of all) {
        child.kill("SIGCONT")
        child.kill("SIGKILL")
      }
      await Promise.all(all.map(({ child }) => ended(child)))
      for (const { proxy } of all) proxy?.end()
      log.end()
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

export type Runners = Awaited<ReturnType<typeof start>>

/** Milliseconds of processor time of a process; with `children` of those that have ended too. */
export const cpuOf = (pid: number, children = false): number => {
  try {
    // the name may have spaces in it
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "").split(" ").map(Number)
    const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15)
    return (user + system + (children ? endedUser + endedSystem : 0)) * 10
  } catch {
    return 0
  }
}

/** How many processors share the work. */
export const processors = availableParallelism()

/** Sends a request to one runner after another, as a balancer does that asks each second who is ready. */
export const balancer = (runners: Runners) => {
  let turn = 0
  const now = { isOver: false }
  const next = (): Runner => {
    const open = runners.all.filter(({ isIn }) => isIn)
    const from = open.length > 0 ? open : runners.all
    return from[turn++ % from.length]!
  }
  const within = (millis: number) => AbortSignal.timeout(millis)
  const asking = async () => {
    while (!now.isOver) {
      await Promise.all(runners.all.map(async (runner) => {
        runner.isIn = await Client.send(runner.url, 0, "GET", "/ready", undefined, within(1_500)).then(
          ({ status }) => status === 200,
          () => false
        )
      }))
      await new Promise((resolve) => setTimeout(resolve, 1_000))
    }
  }
  void asking()
  const failures = new Map<string, number>()
  /** Sends it until a runner answers it with something else than 5xx and 429. */
  const send = async <A>(
    user: number,
    method: string,
    to: string,
    body?: unknown,
    { patience = 120_000, timeout = 8_000 }: { readonly patience?: number; readonly timeout?: number } = {}
  ): Promise<Client.Answer<A>> => {
    const until = Date.now() + patience
    let last = "nothing"
    while (Date.now() < until) {
      const runner = next()
      try {
        const answer = await Client.send<A>(runner.url, user, method, to, body, within(timeout))
        if (answer.status < 500 && answer.status !== 429) return answer
        last = `${answer.status} ${JSON.stringify(answer.json)?.replaceAll(/[\da-f-]{36}/g, "…")}`
      } catch (error) {
        last = error instanceof Error ? error.name === "TimeoutError" ? "no answer" : error.message : String(error)
        last = last.replace(/127\.0\.0\.1:\d+/, "…")
      }
      failures.set(last, (failures.get(last) ?? 0) + 1)
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    throw new Error(`${method} ${to}: ${last} for ${patience / 1_000} s`)
  }
  return { failures, next, send, end: () => void (now.isOver = true) }
}

export type Balancer = ReturnType<typeof balancer>
