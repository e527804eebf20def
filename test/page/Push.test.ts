/** Notifications of a device: the button, what the server gets, and what the service worker shows. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createECDH } from "node:crypto"
import * as Push from "../../src/server/notify/WebPush.ts"
import { browserForFile, builtPage, logIn, seriousFindings, until } from "../support/Browser.ts"
import { start, tokens } from "../support/Server.ts"

const { privateKey, publicKey } = Effect.runSync(Push.makeKeys)
const push = { subject: "mailto:ops@example.com", publicKey, privateKey, publicUrl: "https://tools.example.com" }

const device = createECDH("prime256v1").generateKeys("base64url")

/** What a browser with a push service of its vendor has. */
const stub = `
  const keys = { p256dh: ${JSON.stringify(device)}, auth: "AAAAAAAAAAAAAAAAAAAAAA" }
  const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (it) => it.charCodeAt(0))
  const kept = () => {
    const key = sessionStorage.getItem("subscribed")
    return key === null ? null : {
      endpoint: "https://push.example.com/device",
      options: { applicationServerKey: bytes(key).buffer },
      toJSON: () => ({ endpoint: "https://push.example.com/device", expirationTime: null, keys }),
      unsubscribe: () => Promise.resolve(sessionStorage.removeItem("subscribed") ?? true)
    }
  }
  PushManager.prototype.getSubscription = () => Promise.resolve(kept())
  PushManager.prototype.subscribe = ({ applicationServerKey }) => {
    sessionStorage.setItem("subscribed", applicationServerKey)
    return Promise.resolve(kept())
  }
  Notification.requestPermission = () => Promise.resolve("granted")
  Object.defineProperty(Notification, "permission", { get: () => "granted" })
`

const button = ".side .foot [data-device]"
const pressed = (is: boolean) => `document.querySelector(${JSON.stringify(button)})?.ariaPressed === "${is}"`

describe("the page on a device that can be notified", () => {
  const { visit } = browserForFile()

  it.live(
    "subscribes, shows what the push service brings, and ends it with the button or the login",
    () =>
      Effect.gen(function*() {
        const folder = yield* Effect.promise(builtPage)
        const server = yield* start({ push, server: { page: { folder } } })
        const script = yield* server.request(undefined, "GET", "/sw.js")
        assert.match(script.headers.get("content-type")!, /^text\/javascript/)
        assert.strictEqual(script.headers.get("cache-control"), "no-cache")
        yield* Effect.promise(async () => {
          const visitation = await visit(server.url)
          const { page, problems } = visitation
          const sent: Array<string> = []
          page.on("request", (it) => {
            if (it.url().includes("/api/push/")) sent.push(`${it.url().split("/").at(-1)} ${it.postData()}`)
          })
          await page.evaluateOnNewDocument(stub)
          await page.reload()
          await logIn(page, tokens.bob)
          await until(page, pressed(false))
          assert.deepStrictEqual(await seriousFindings(visitation), [])
          await page.click(button)
          await until(page, pressed(true))
          const keys = { p256dh: device, auth: "AAAAAAAAAAAAAAAAAAAAAA" }
          const body = JSON.stringify({ endpoint: "https://push.example.com/device", keys })
          assert.deepStrictEqual(sent, [`subscribe ${body}`])

          const target = await page.browserContext().waitForTarget((it) => it.type() === "service_worker")
          const worker = (await target.worker())!
          // a browser without a screen refuses them
          await worker.evaluate(`
            self.told = []
            registration.showNotification = (title, { body, data, tag }) =>
              Promise.resolve(void told.push([title, body ?? "", tag ?? "", data ?? ""]))
            clients.openWindow = (url) => Promise.resolve(void told.push(["opens", url]))
          `)
          const url = `${server.url}/#/approvals/one`
          const data = JSON.stringify({ id: "one", title: "Approval needed", tool: "wri\u202ete", user: "ada", url })
          for (const message of [data, "broken"]) {
            await worker.evaluate(`dispatchEvent(new PushEvent("push", { data: ${JSON.stringify(message)} }))`)
          }
          for (const to of [url, "https://elsewhere.example.com/"]) {
            await worker.evaluate(`dispatchEvent(Object.assign(new ExtendableEvent("notificationclick"), {
              notification: { close: () => {}, data: ${JSON.stringify(to)} }
            }))`)
          }
          assert.deepStrictEqual(await worker.evaluate("told"), [
            ["Approval needed", "wri\\u202ete for ada", "one", url],
            ["Approval needed", "", "", ""],
            ["opens", url],
            ["opens", `${server.url}/`]
          ])

          await page.reload()
          await until(page, pressed(true))
          assert.strictEqual(sent.length, 2, "the server is told again")
          await page.click(button)
          await until(page, pressed(false))
          await page.click(button)
          await until(page, pressed(true))
          await page.evaluate(`Array.from(document.querySelectorAll(".foot button")).at(-1).click()`)
          await page.waitForSelector("input[name=token]")
          assert.deepStrictEqual(sent.slice(2).map((it) => it.split(" ")[0]), [
            "unsubscribe",
            "subscribe",
            "unsubscribe"
          ])
          assert.deepStrictEqual(problems, [])
          await visitation.close()
        })
      }),
    { tags: ["SV34"], timeout: 60_000 }
  )

  it.live("has no button where the server does not notify devices", () =>
    Effect.gen(function*() {
      const folder = yield* Effect.promise(builtPage)
      const server = yield* start({ server: { page: { folder } } })
      yield* Effect.promise(async () => {
        const { close, page } = await visit(server.url)
        const asked = page.waitForResponse((it) => it.url().endsWith("/api/push"))
        await logIn(page, tokens.bob)
        assert.strictEqual((await asked).status(), 404)
        assert.isNull(await page.$("[data-device]"))
        await close()
      })
    }))
})
