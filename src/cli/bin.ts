#!/usr/bin/env node
/** The executable. What it runs on is an optional peer: without it there is one line that says what to install. */
import * as Module from "node:module"
import process from "node:process"
import { isTooOld, oldest } from "./nodeVersion.ts"

const missing = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND"
    ? /Cannot find package '(effect|@effect\/platform-node)'/.exec(error.message)?.[1]
    : undefined

if (isTooOld(process.versions.node)) {
  process.stderr.write(`tool-executor needs Node ${oldest} or newer; this is ${process.versions.node}\n`)
  process.exitCode = 2
} else {
  // a command is started often, and most of its start is compiling what never changes
  Module.enableCompileCache()
  await import("./main.ts").catch((error: unknown) => {
    const name = missing(error)
    if (name === undefined) throw error
    // what starts a project runs before anything is installed
    if (name === "@effect/platform-node" && process.argv[2] === "init") return import("./bareMain.ts")
    process.stderr.write(`tool-executor needs ${name}: npm install ${name}\n`)
    process.exitCode = 2
    return undefined
  })
}
