// A way from a runner to the database that can be cut, black-holed or slowed.
import { connect, createServer, type Socket } from "node:net"

/** `cut`: connections end and new ones are refused. `hole`: nothing comes through any more. `slow`: everything comes late. */
export type Mode = "open" | "cut" | "hole" | "slow"

/** What `slow` adds to each piece, in milliseconds. */
const late = 150

export interface Proxy {
  readonly port: number
  readonly set: (mode: Mode) => void
  readonly end: () => void
}

export const start = async (to: { readonly host: string; readonly port: number }): Promise<Proxy> => {
  let mode: Mode = "open"
  const pairs = new Set<readonly [Socket, Socket]>()
  const pass = (from: Socket, into: Socket) => {
    from.on("data", (data) => {
      if (mode === "hole") return
      if (mode === "slow") setTimeout(() => into.write(data), late)
      else into.write(data)
    })
  }
  const server = createServer((client) => {
    if (mode === "cut") return void client.destroy()
    const database = connect(to)
    const pair = [client, database] as const
    pairs.add(pair)
    pass(client, database)
    pass(database, client)
    for (const one of pair) {
      one.on("error", () => {})
      one.once("close", () => {
        pairs.delete(pair)
        for (const other of pair) other.destroy()
      })
    }
  })
  const drop = () => {
    for (const pair of pairs) for (const one of pair) one.destroy()
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address = server.address()
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    set: (next) => {
      // what a hole has swallowed is missing: such a connection is of no use afterwards
      if (next === "cut" || mode === "hole") drop()
      mode = next
    },
    end: () => {
      drop()
      server.close()
    }
  }
}
