/**
 * A pooler in transaction mode, as PgBouncer is one: each transaction has a connection to the server of its own, and the
 * next one has another. What a session leaves there is lost to its client: prepared statements, settings, locks.
 */
import * as Effect from "effect/Effect"
import { connect, createServer, type Socket } from "node:net"

/** Cuts a stream into messages: a type, but for the first of a client, and a length that counts itself. */
class Messages {
  private rest: Buffer = Buffer.alloc(0)
  private hasType: boolean
  private readonly take: (message: Buffer) => void

  constructor(hasType: boolean, take: (message: Buffer) => void) {
    this.hasType = hasType
    this.take = take
  }

  add(data: Buffer): void {
    this.rest = Buffer.concat([this.rest, data])
    while (true) {
      const head = this.hasType ? 1 : 0
      if (this.rest.length < head + 4) return
      const length = head + this.rest.readInt32BE(head)
      if (this.rest.length < length) return
      const message = this.rest.subarray(0, length)
      this.rest = this.rest.subarray(length)
      // a client that asks for encryption begins again
      if (!this.hasType && message.readInt32BE(4) !== sslRequest) this.hasType = true
      this.take(message)
    }
  }
}

const sslRequest = 80_877_103

const message = (type: string, ...parts: ReadonlyArray<Buffer>): Buffer => {
  const body = Buffer.concat(parts)
  const head = Buffer.alloc(5)
  head.write(type, 0)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

const int = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

const text = (value: string): Buffer => Buffer.from(`${value}\0`)

const typeOf = (it: Buffer): string => String.fromCharCode(it[0]!)

/** A connection to the server. */
interface Backend {
  readonly socket: Socket
  /** What the server said of itself. */
  readonly parameters: Array<Buffer>
  client: Client | undefined
}

interface Client {
  readonly socket: Socket
  backend: Backend | undefined
  /** What waits for a connection. */
  readonly held: Array<Buffer>
  /** Answers that are to come before its transaction can be over. */
  open: number
}

/** Has so many connections to the database of a URL for all its clients; gives the URL of the pooler. */
export const make = (url: string, size = 3) =>
  Effect.gen(function*() {
    const { hostname, password, pathname, port, username } = new URL(url)
    const free: Array<Backend> = []
    const line: Array<Client> = []
    const sockets = new Set<Socket>()
    const state = { transactions: 0 }

    const noted = (socket: Socket): Socket => {
      sockets.add(socket)
      return socket.setNoDelay(true).on("error", () => undefined).once("close", () => sockets.delete(socket))
    }
    const lend = (): void => {
      while (free.length > 0 && line.length > 0) {
        // the one that has rested the longest: hardly ever the one that the client had before
        const [backend, client] = [free.shift()!, line.shift()!]
        if (client.socket.destroyed) {
          free.unshift(backend)
          continue
        }
        state.transactions++
        backend.client = client
        client.backend = backend
        for (const it of client.held.splice(0)) backend.socket.write(it)
      }
    }
    const give = (backend: Backend): void => {
      if (backend.client !== undefined) backend.client.backend = undefined
      backend.client = undefined
      free.push(backend)
      lend()
    }
    const open = (): Promise<Backend> =>
      new Promise((resolve) => {
        const socket = noted(connect(Number(port), hostname))
        const backend: Backend = { socket, parameters: [], client: undefined }
        let isReady = false
        const messages = new Messages(true, (it) => {
          const type = typeOf(it)
          if (isReady) {
            const { client } = backend
            client?.socket.write(it)
            if (type === "Z" && client !== undefined && --client.open === 0 && it[5] === 73) give(backend)
          } else if (type === "R" && it.readInt32BE(5) === 3) socket.write(message("p", text(password)))
          else if (type === "S") backend.parameters.push(it)
          else if (type === "Z") {
            isReady = true
            resolve(backend)
          }
        })
        socket.on("data", (data) => messages.add(data))
        const startup = Buffer.concat([
          int(196_608),
          ...["user", username, "database", pathname.slice(1)].map(text),
          Buffer.alloc(1)
        ])
        socket.write(Buffer.concat([int(startup.length + 4), startup]))
      })
    // connections to the server are open as long as there are clients
    const clients = new Set<Client>()
    let opened: Promise<ReadonlyArray<Backend>> | undefined
    const openAll = (): Promise<ReadonlyArray<Backend>> =>
      opened ??= Promise.all(Array.from({ length: size }, open)).then((all) => {
        free.push(...all)
        lend()
        return all
      })
    const closeAll = (): void => {
      opened = undefined
      for (const { socket } of free.splice(0)) socket.destroy()
    }

    const server = createServer((socket) => {
      const client: Client = { socket: noted(socket), backend: undefined, held: [], open: 0 }
      clients.add(client)
      let hasBegun = false
      const messages = new Messages(false, (it) => {
        if (!hasBegun) {
          if (it.readInt32BE(4) === sslRequest) return void socket.write("N")
          hasBegun = true
          return void openAll().then(([first]) => {
            const greeting = [message("R", int(0)), ...first!.parameters, message("K", int(1), int(1))]
            socket.write(Buffer.concat([...greeting, message("Z", Buffer.from("I"))]))
          })
        }
        const type = typeOf(it)
        if (type === "X") return void socket.end()
        if (type === "Q" || type === "S" || type === "F") client.open++
        if (client.backend !== undefined) return void client.backend.socket.write(it)
        client.held.push(it)
        if (client.held.length === 1) line.push(client)
        lend()
      })
      socket.on("data", (data) => messages.add(data))
      socket.once("close", () => {
        const { backend } = client
        clients.delete(client)
        if (backend !== undefined) {
          // in the middle of a transaction: the server rolls it back
          backend.client = undefined
          backend.socket.destroy()
          if (clients.size > 0) void open().then(give)
        }
        if (clients.size === 0) closeAll()
      })
    })
    yield* Effect.acquireRelease(
      Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
      () =>
        Effect.sync(() => {
          server.close()
          for (const it of sockets) it.destroy()
        })
    )
    const address = server.address()
    const own = typeof address === "object" && address !== null ? address.port : 0
    return { state, url: Object.assign(new URL(url), { host: `127.0.0.1:${own}` }).href }
  })
