/** Several processes as one service: sessions on a cluster that outlive the process they run in. */

/** Runners of a cluster. */
export * as Cluster from "./public/Cluster.ts"

/** All sessions by their owners, wherever they run. */
export * as SessionDirectory from "../server/public/SessionDirectory.ts"

/** Waves and operations as workflows of `effect/workflow`. */
export * as ToolWorkflow from "./public/ToolWorkflow.ts"
