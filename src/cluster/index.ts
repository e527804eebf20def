/** Several processes as one service: sessions on a cluster that outlive the process they run in. */

/** Runners of a cluster. */
export * as Cluster from "./public/Cluster.ts"
