/**
 * The part of the proxy that runs in the sandbox: it listens where programs expect a proxy, passes everything on to the
 * socket, and runs the command.
 */
import NodeProcess from "node:process"
import { proxySocket } from "./BwrapArguments.ts"

/** The port of the proxy in the sandbox, which has a network of its own. */
const port = 3128

/** Standard modules of Node alone: nothing else is there. */
const script = `
const { connect, createServer } = require("node:net")
const { spawn } = require("node:child_process")
const [program, ...args] = process.argv.slice(1)
const server = createServer((near) => {
  const far = connect(${JSON.stringify(proxySocket)})
  near.on("error", () => far.destroy()).on("close", () => far.destroy())
  far.on("error", () => near.destroy()).on("close", () => near.destroy())
  near.pipe(far).pipe(near)
})
server.listen(${port}, "127.0.0.1", () => {
  const child = spawn(program, args, { stdio: "inherit" })
  child.on("error", (error) => {
    process.stderr.write(error.message + "\\n")
    process.exit(127)
  })
  child.on("exit", (code, signal) => signal === null ? process.exit(code) : process.kill(process.pid, signal))
  for (const name of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(name, () => child.kill(name))
})
`

/** Gives the command that runs another one with a way to the proxy. */
export const around = (argv: ReadonlyArray<string>): readonly [string, ...Array<string>] => [
  NodeProcess.execPath,
  "-e",
  script,
  "--",
  ...argv
]

const proxy = `http://127.0.0.1:${port}`

const direct = "localhost,127.0.0.1,::1"

/** How programs find the proxy. */
export const environment: Readonly<Record<string, string>> = {
  HTTP_PROXY: proxy,
  HTTPS_PROXY: proxy,
  http_proxy: proxy,
  https_proxy: proxy,
  NO_PROXY: direct,
  no_proxy: direct,
  NODE_USE_ENV_PROXY: "1"
}
