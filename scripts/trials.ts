interface Trial {
  readonly about: string
  readonly file: string
  readonly options?: ReadonlyArray<string>
}

const kill = "--runners 1 --sqlite --sessions 30 --agents 3 --calls 3000 --faults kill --kill-every 6".split(" ")

/** What a maintainer runs after a change of its subject, and before a release. `scripts/try.ts` runs them by name. */
export const trials: ReadonlyMap<string, Trial> = new Map<string, Trial>([
  ["init:check", { about: "projects of `init`, from the archive to `npm start`", file: "scripts/init-check.ts" }],
  ["attack-bench", { about: "injected instructions and honest tasks", file: "scripts/attack/attack-bench.ts" }],
  ["crash", { about: "kills processes inside waves and resumes the waves", file: "scripts/crash/crash.ts" }],
  ["law:resume", { about: "random waves and agents that crash and are resumed", file: "scripts/resume/law.ts" }],
  ["stress", { about: "limits, leases, cut connections and stops over PostgreSQL", file: "scripts/stress.ts" }],
  ["soak", { about: "ten minutes of faults: nothing is left, memory stays flat", file: "scripts/soak/soak.ts" }],
  ["hostile", { about: "10,000 malformed requests to the server", file: "scripts/hostile.ts" }],
  ["talks", { about: "conversations and stops over five protocols", file: "scripts/talks/talks.ts" }],
  ["transcripts", { about: "recorded coding sessions and what they ask for", file: "scripts/transcripts.ts" }],
  ["conformance", { about: "the MCP side in the official suite", file: "scripts/conformance/run.ts" }],
  ["load", { about: "500 sessions of a server for five minutes", file: "scripts/load/load.ts" }],
  ["load:agents", { about: "agents over HTTP while the server is killed", file: "scripts/load/agents.ts" }],
  ["load:greedy", { about: "one user who asks for far too much", file: "scripts/load/greedy.ts" }],
  ["load:kill", { about: "one server over SQLite, killed 30 times", file: "scripts/load/cluster.ts", options: kill }],
  ["load:cluster", { about: "kills, freezes and cuts off runners", file: "scripts/load/cluster.ts" }],
  ["load:cluster:cost", { about: "cost per call, next to one server", file: "scripts/load/clusterCost.ts" }],
  ["load:cluster:waiting", { about: "10,000 sessions that wait for people", file: "scripts/load/clusterWaiting.ts" }],
  ["scale", { about: "the model of what a cluster needs", file: "scripts/scale/scale.ts" }],
  ["bench:sandbox", { about: "a command in the sandbox next to a bare one", file: "scripts/bench/sandbox.ts" }],
  ["bench:json-schema", { about: "arguments of dynamic tools", file: "scripts/bench/json-schema.ts" }]
])
