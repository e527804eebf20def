/**
 * `tool-executor serve` and `token`: what they refuse in this process, and the server as people run
 * it, in a process of its own.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { createECDH } from "node:crypto"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync
} from "node:fs"
import { createServer } from "node:http"
import { Agent, request } from "node:https"
import type { AddressInfo } from "node:net"
import { type Http, HttpPort } from "../../../src/cli/serve/HttpPort.ts"
import { until } from "../../support/commandProcess.ts"
import { asking, type Json, openIn, start, user } from "../../support/serveProcess.ts"
import * as tls from "../../support/tls.ts"
import { folder, openai, run } from "../harness.ts"

const hash = `sha256:${"0".repeat(64)}`
const ada = { tokens: [{ hash }], run: true, approve: ["ada"], records: ["ada"] }

const http: Http = {
  server: (at) => NodeHttpServer.layerServer(createServer, at),
  services: NodeHttpServer.layerHttpServices
}

/** What the command says about a config; it is one that is refused. */
const refused = Effect.fnUntraced(function*(config: unknown, ...args: ReadonlyArray<string>) {
  const { file } = yield* folder({ "serve.json": config })
  const port = args.includes("--port") ? [] : ["--port", "0"]
  const command = ["serve", "--config", file("serve.json"), "--data", file("data"), ...port, ...args]
  const { code, stderr, stdout } = yield* Effect.provideService(run(command), HttpPort, http)
  assert.strictEqual(code, 2, stderr)
  assert.strictEqual(stdout, "")
  return stderr.replaceAll(file(""), "FOLDER/")
})

describe("a server that must not be", () => {
  it.live("is refused where nobody may use it, on loopback, too, and it says how to change that", () =>
    Effect.gen(function*() {
      for (const config of [{}, { server: {} }, { server: { users: {} } }]) {
        const said = yield* refused(config)
        assert.include(said, "it has no users")
        assert.include(said, "tool-executor token ada")
      }
    }))

  it.live("is told of everything at once: one problem for a wrong token, and where it would serve", () =>
    Effect.gen(function*() {
      const users = { ada: { tokens: [{ hash: "wrong" }] }, bob: { tokens: [{ env: "1" }], run: true } }
      const said = yield* refused({ server: { users, host: "0.0.0.0" } })
      assert.deepStrictEqual(said.split("\n").slice(0, 4).map((it) => it.trim().replace(/;.*/, "")), [
        "FOLDER//serve.json: 3 problems",
        "server.users.ada.tokens[0]: it is not a valid token entry",
        "server.users.bob.tokens[0]: it is not a valid token entry",
        "server.host: tokens would be sent unencrypted beyond this machine (0.0.0.0)"
      ])
    }))

  it.live("is refused beyond loopback where tokens would travel readable", () =>
    Effect.gen(function*() {
      const users = { ada }
      assert.include(yield* refused({ server: { users, host: "192.0.2.1" } }), "tokens would be sent unencrypted")
      assert.include(yield* refused({ server: { users } }, "--host", "0.0.0.0"), "tokens would be sent unencrypted")
      const certified = { cert: "cert.pem", key: "key.pem" }
      assert.include(
        yield* refused({ server: { users, tls: certified } }, "--host", "::"),
        "its public name"
      )
      assert.include(
        yield* refused({ server: { users, tls: certified, publicUrl: "http://a.example" } }),
        "must begin with https://"
      )
    }))

  it.live("is refused where the config has it wrong, with all that is wrong, and no secret", () =>
    Effect.gen(function*() {
      const said = yield* refused({
        workspace: { root: ".", colour: "red" },
        policy: { allow: ["read_fil"] },
        tools: { no_tool: { timeout: "1 second" } },
        server: {
          users: {
            "a/b": ada,
            bob: { ...ada, tokens: [{ hash: "tex_a-secret" }], approve: ["eve"] }
          },
          port: 70_000,
          approvalTimeout: "soon",
          publicUrl: "https://a.example/path"
        }
      })
      for (
        const at of [
          "workspace.colour",
          "policy.allow[0]",
          "server.port",
          "server.approvalTimeout",
          "server.publicUrl",
          "a/b"
        ]
      ) assert.include(said, at)
      assert.notInclude(said, "tex_a-secret")
    }))

  it.live("is refused where there is no such root, by where the config says it, or where something else serves", () =>
    Effect.gen(function*() {
      const missing = yield* refused({ workspace: { root: "missing" }, server: { users: { ada } } })
      assert.include(missing, "serve.json: 1 problem")
      assert.include(missing, "workspace.root: ")
      const busy = createServer()
      const port = yield* Effect.acquireRelease(
        Effect.callback<number>((resume) => {
          busy.listen(0, "127.0.0.1", () => resume(Effect.succeed((busy.address() as AddressInfo).port)))
        }),
        () => Effect.sync(() => busy.close())
      )
      const taken = yield* refused({ server: { users: { ada } } }, "--port", String(port))
      assert.include(taken, "EADDRINUSE")
      assert.include(taken, "Choose another one with --port")
    }).pipe(Effect.scoped))

  it.live("is refused where users are named that nobody is, or share a token", () =>
    Effect.gen(function*() {
      const said = yield* refused({
        tools: { no_tool: { timeout: "1 second" } },
        server: {
          users: {
            ada: { ...ada, approve: ["eve"] },
            bob: { ...ada, approve: ["*"], records: ["bob"] },
            cy: { tokens: ada.tokens }
          },
          webhook: { url: "http://127.0.0.1:1", secret: { env: "S" }, links: { people: ["bob", "eve", "cy"] } }
        }
      })
      assert.include(said, "server.webhook.links.people[1]: there is no user \"eve\"")
      assert.include(said, "server.webhook.links.people[2]: \"cy\" may approve nothing")
      assert.include(said, "server.users.ada.approve[0]: there is no user \"eve\"")
      assert.include(said, "server.users.bob.tokens[0]: it also belongs to \"ada\"")
      assert.include(said, "tools.no_tool")
    }))

  it.live("is refused where the environment does not have what it should, or what can be guessed", () =>
    Effect.gen(function*() {
      const config = { server: { users: { ada: { ...ada, tokens: [{ env: "ADA_TOKEN" }] } } } }
      const environment = (env: Record<string, string>) =>
        Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
      const unset = yield* environment({})(refused(config))
      assert.include(unset, "server.users.ada.tokens[0].env: the environment has no ADA_TOKEN")
      const weak = yield* environment({ ADA_TOKEN: "swordfish" })(refused(config))
      assert.include(weak, "can be guessed")
      assert.notInclude(weak, "swordfish")
    }))

  it.live("is refused where devices cannot be notified, and names each reason without the key", () =>
    Effect.gen(function*() {
      const push = { subject: "mailto:ops@example.com", publicKey: "no key", privateKey: { env: "PUSH_KEY" } }
      const environment = (env: Record<string, string>) =>
        Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
      const unset = yield* environment({})(refused({ server: { users: { ada }, push } }))
      assert.include(unset, "server.push.privateKey.env: the environment has no PUSH_KEY")
      assert.include(unset, "server.publicUrl: it is missing")
      const wrong = yield* environment({ PUSH_KEY: "swordfish" })(
        refused({ server: { users: { ada }, publicUrl: "https://tools.example.com", push } })
      )
      assert.include(wrong, "it is not a public key")
      assert.include(wrong, "it is not a private key")
      assert.notInclude(wrong, "swordfish")
    }))

  it.live("is refused where tools could change its records, or read its key", () =>
    Effect.gen(function*() {
      const server = { users: { ada } }
      assert.include(yield* refused({ workspace: { root: "." }, server }), "lies in the root")
      const { file } = yield* folder({ "key.pem": tls.key, "cert.pem": tls.cert, "serve.json": {} })
      const at = { cert: file("cert.pem"), key: file("key.pem") }
      assert.include(
        yield* refused({ workspace: { root: file("") }, server: { ...server, tls: at } }),
        "lies in the root of the workspace, where tools can read it"
      )
    }))
})

describe("the keys of notifications", () => {
  it.live("are a pair: the private one alone on standard output, the public one in the entry for the config", () =>
    Effect.gen(function*() {
      const { code, stderr, stdout } = yield* run(["push-keys"])
      assert.strictEqual(code, 0)
      assert.match(stdout, /^[\w-]{43}\n$/)
      assert.notInclude(stderr, stdout.trim())
      const [, entry] = /^ {2}"push": (.*)$/m.exec(stderr) ?? []
      const { publicKey } = JSON.parse(entry!) as { readonly publicKey: string }
      const pair = createECDH("prime256v1")
      pair.setPrivateKey(Buffer.from(stdout.trim(), "base64url"))
      assert.strictEqual(pair.getPublicKey("base64url"), publicKey)
    }))
})

describe("a token", () => {
  it.live("is printed alone on standard output, and the config is told its hash, which holds", () =>
    Effect.gen(function*() {
      const { code, stderr, stdout } = yield* run(["token", "ada", "--expires", "90 days"])
      assert.strictEqual(code, 0)
      assert.match(stdout, /^tex_[A-Za-z0-9]{49}\n$/)
      assert.notInclude(stderr, stdout.trim())
      const [, line] = /^ {2}("ada": .*)$/m.exec(stderr) ?? []
      const users = JSON.parse(`{${line}}`) as { ada: { tokens: ReadonlyArray<{ hash: string; expires: string }> } }
      const bytes = yield* Effect.promise(() => crypto.subtle.digest("SHA-256", Buffer.from(stdout.trim())))
      assert.strictEqual(users.ada.tokens[0]!.hash, `sha256:${Buffer.from(bytes).toString("hex")}`)
      const { root } = yield* folder({ "config.json": { server: { users } } })
      assert.isTrue(existsSync(root))
    }))

  it.live("is made for nobody with a name that cannot be one, and for no time that is over", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* run(["token", "a/b"])).code, 2)
      for (const expires of ["2001-01-01", "soon", "0 seconds"]) {
        const { code, stdout } = yield* run(["token", "ada", "--expires", expires])
        assert.strictEqual(code, 2)
        assert.strictEqual(stdout, "")
      }
    }))
})

/** A config with a workspace and one user, in a folder of its own. */
const prepared = Effect.fnUntraced(function*(more: Json = {}) {
  const { config, token } = yield* user
  const files = yield* folder({
    "serve.json": {
      workspace: { root: "root" },
      policy: { allow: ["run_command(sleep *)"] },
      server: { users: { ada: config }, drain: "1 second", ...more }
    }
  })
  yield* Effect.promise(async () => {
    const { mkdir, writeFile } = await import("node:fs/promises")
    await mkdir(files.file("root"))
    await writeFile(files.file("root/a.txt"), "what is there\n")
  })
  const args = ["serve", "--config", files.file("serve.json"), "--data", files.file("data"), "--port", "0"]
  return { ...files, args, token }
})

const write = openai(["1", "read_file", { path: "a.txt" }], ["2", "write_file", {
  path: "b.txt",
  content: "written\n"
}])

/** All of a stream of events, once it has ended. */
const textOf = (response: Response) => Effect.promise(() => response.text())

/** Waits for a question; there is one. */
const question = Effect.fnUntraced(function*({ json }: ReturnType<typeof asking>) {
  let open: ReadonlyArray<Json> = []
  while (open.length === 0) {
    yield* Effect.sleep("30 millis")
    open = openIn(yield* json("api/approvals"))
  }
  return open[0] as Json & { readonly id: string; readonly hash: string }
})

describe("a server", () => {
  it.live("closes records to others that an earlier hand left open to them", () =>
    Effect.scoped(Effect.gen(function*() {
      const { args, file } = yield* prepared()
      mkdirSync(file("data"))
      chmodSync(file("data"), 0o777)
      writeFileSync(file("data/records.db"), "")
      chmodSync(file("data/records.db"), 0o666)
      const server = yield* start(args)
      yield* server.url
      assert.strictEqual(statSync(file("data")).mode & 0o777, 0o700)
      assert.strictEqual(statSync(file("data/records.db")).mode & 0o777, 0o600)
    })))

  it.live("does not start over records that lead elsewhere, or in a folder that everybody shares", () =>
    Effect.scoped(Effect.gen(function*() {
      const { args, file } = yield* prepared()
      mkdirSync(file("data"), { mode: 0o700 })
      writeFileSync(file("root/mine.db"), "")
      symlinkSync(file("root/mine.db"), file("data/records.db"))
      const linked = yield* start(args)
      assert.strictEqual(yield* linked.ended, 2)
      assert.include(linked.written.stderr, "records.db is not a file; remove it")
      unlinkSync(file("data/records.db"))
      chmodSync(file("data"), 0o1777)
      const shared = yield* start(args)
      assert.strictEqual(yield* shared.ended, 2)
      assert.include(shared.written.stderr, "others may write to it (mode 1777); give a folder of your own")
      assert.strictEqual(statSync(file("data")).mode & 0o7777, 0o1777)
    })))

  it.live(
    "says where it serves and no secret, lets nobody in without a token, and keeps its records to itself",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { args, file, token } = yield* prepared()
        const server = yield* start(args)
        const url = yield* server.url
        const { post, send } = asking(url, token)
        assert.strictEqual((yield* asking(url, "wrong").send("api/me")).status, 401)
        assert.strictEqual((yield* send("api/me")).status, 200)
        const wave = yield* post("api/sessions/s/waves", { message: openai(["1", "read_file", { path: "a.txt" }]) })
        assert.strictEqual(wave["status"], "ended")
        assert.include(JSON.stringify(wave["messages"]), "what is there")
        assert.strictEqual(statSync(file("data")).mode & 0o777, 0o700)
        assert.strictEqual(statSync(file("data/records.db")).mode & 0o777, 0o600)

        const second = yield* start(args)
        assert.strictEqual(yield* second.ended, 2)
        assert.include(second.written.stderr, "another server uses this folder")

        server.child.kill("SIGTERM")
        assert.strictEqual(yield* server.ended, 0)
        assert.notInclude(server.written.stdout + server.written.stderr, token)
      })),
    20_000
  )

  it.live(
    "told to end suspends what waits for a person, and the next start asks again under the same id, and can undo",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { args, file, token } = yield* prepared()
        const first = yield* start(args)
        const before = asking(yield* first.url, token)
        const stream = yield* before.send("api/sessions/s/waves", {
          method: "POST",
          headers: { accept: "text/event-stream" },
          body: JSON.stringify({ message: write, wave: "w" })
        })
        const asked = yield* question(before)
        first.child.kill("SIGTERM")
        const events = yield* textOf(stream)
        assert.strictEqual(yield* first.ended, 0)
        assert.include(events, "event: wave_suspended")
        assert.isFalse(existsSync(file("root/b.txt")))

        const next = yield* start(args)
        const after = asking(yield* next.url, token)
        const again = yield* question(after)
        assert.strictEqual(again.id, asked.id)
        yield* after.post(`api/approvals/${again.id}/answer`, { hash: again.hash, answer: { _tag: "ApproveOnce" } })
        yield* until(() => existsSync(file("root/b.txt")))
        const wave = yield* Effect.repeat(after.json("api/sessions/s/waves/w"), {
          until: (it) => it["status"] === "ended"
        })
        assert.include(JSON.stringify(wave["messages"]), "what is there")
        assert.strictEqual(readFileSync(file("root/b.txt"), "utf8"), "written\n")

        const kept = yield* after.json("api/sessions/s/checkpoints")
        const [checkpoint] = kept as unknown as ReadonlyArray<Json>
        assert.deepInclude(checkpoint, { tool: "write_file", paths: ["b.txt"] })
        yield* after.post(`api/sessions/s/checkpoints/${String(checkpoint!["id"])}/undo`, {})
        assert.isFalse(existsSync(file("root/b.txt")))
      })),
    20_000
  )

  it.live(
    "killed in the middle comes back with its questions under their ids, and does nothing twice",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { args, file, token } = yield* prepared()
        const first = yield* start(args)
        const before = asking(yield* first.url, token)
        const message = openai(["1", "run_command", { command: "sleep 20" }])
        yield* Effect.forkScoped(before.post("api/sessions/s/waves", { message: write, wave: "asked" }))
        yield* Effect.forkScoped(before.post("api/sessions/s/waves", { message, wave: "ran" }))
        const asked = yield* question(before)
        yield* Effect.repeat(before.json("api/journal?tool=run_command"), {
          until: (it) => JSON.stringify(it).includes("\"Started\"")
        })
        first.child.kill("SIGKILL")
        yield* first.ended

        const next = yield* start(args)
        const after = asking(yield* next.url, token)
        assert.strictEqual((yield* question(after)).id, asked.id)
        const ran = yield* Effect.repeat(after.json("api/sessions/s/waves/ran"), {
          until: (it) => it["status"] === "ended"
        })
        // nobody knows what it has done
        assert.include(JSON.stringify(ran["end"]), "\"Unknown\"")
        assert.isFalse(existsSync(file("root/b.txt")))
      })),
    20_000
  )

  it.live("told twice ends at once", () =>
    Effect.scoped(Effect.gen(function*() {
      const { args, token } = yield* prepared({ drain: "1 hour" })
      const server = yield* start(args)
      const { json, post } = asking(yield* server.url, token)
      const message = openai(["1", "run_command", { command: "sleep 600" }])
      yield* Effect.forkScoped(Effect.ignore(Effect.sandbox(post("api/sessions/s/waves", { message }))))
      yield* Effect.repeat(json("api/journal?tool=run_command"), {
        until: (it) => JSON.stringify(it).includes("\"Started\"")
      })
      server.child.kill("SIGTERM")
      yield* until(() => server.written.stderr.includes("Shutting down"))
      server.child.kill("SIGTERM")
      assert.strictEqual(yield* server.ended, 130)
    })))

  it.live(
    "serves HTTPS with the certificate of the config, and says what is wrong with one that is none",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { args, file, token } = yield* prepared({ tls: { cert: "cert.pem", key: "key.pem" } })
        yield* Effect.promise(async () => {
          const { writeFile } = await import("node:fs/promises")
          await writeFile(file("cert.pem"), tls.cert)
          await writeFile(file("key.pem"), "no key")
        })
        const wrong = yield* start(args)
        assert.strictEqual(yield* wrong.ended, 2)
        assert.include(wrong.written.stderr, "Cannot listen there")
        yield* Effect.promise(async () => (await import("node:fs/promises")).writeFile(file("key.pem"), tls.key))
        const server = yield* start(args)
        const url = yield* server.url
        assert.match(url, /^https:\/\/127\.0\.0\.1:\d+\/$/)
        const status = yield* Effect.callback<number | undefined>((resume) => {
          const agent = new Agent({ ca: tls.cert })
          request(`${url}api/me`, { agent, headers: { authorization: `Bearer ${token}` } }, (response) => {
            response.resume()
            resume(Effect.succeed(response.statusCode))
          }).end()
        })
        assert.strictEqual(status, 200)
      })),
    20_000
  )
})
