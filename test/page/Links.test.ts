/** A link of a notification, opened in a real browser that is not logged in: its form, its policy, and its answer. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as AnswerLinks from "../../src/server/notify/AnswerLinks.ts"
import * as WebhookSecret from "../../src/server/notify/WebhookSecret.ts"
import { browserForFile, seriousFindings, tabTo, textOf, untilText } from "../support/Browser.ts"
import { start } from "../support/Server.ts"

const secret = Redacted.make(`whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`)
const key = AnswerLinks.keyFrom(WebhookSecret.keyOf(secret)!)

describe("a link in a browser", () => {
  const { visit } = browserForFile()

  it.live("answers by its form, without a login, a script or a fault of access", () =>
    Effect.gen(function*() {
      const server = yield* start({ links: { secret, publicUrl: "https://tools.example.com", people: ["bob"] } })
      const events = yield* server.sse("ada", "/api/sessions/s/waves", {
        body: { message: [{ id: "1", name: "save", params: { path: "a".repeat(300), text: "<b>new</b>\n" } }] }
      })
      yield* events.until(({ event }) => event === "tool_approval_request")
      const { json } = yield* server.request("bob", "GET", "/api/approvals")
      const link = { request: json.open[0].id as string, person: "bob", expiresAt: Date.now() + 60_000 }
      const url = `${server.url}/links/${AnswerLinks.sign(key, link)}`
      yield* Effect.promise(async () => {
        for (const scheme of ["light", "dark"] as const) {
          const visitation = await visit(url, { width: 360, scheme })
          const { page } = visitation
          assert.deepStrictEqual(await seriousFindings(visitation), [], scheme)
          const wide = await page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
          )
          assert.strictEqual(wide, 0, `it scrolls sideways, ${scheme}`)
          assert.include(await textOf(page), "<b>new</b>")
          assert.strictEqual(await page.evaluate("getComputedStyle(document.body).margin"), "0px", "its style counts")
          if (scheme === "light") {
            await visitation.close()
            continue
          }
          await page.type("#note", "from my phone")
          await tabTo(page, `it.value === "approve"`)
          await page.click("button[value=approve]")
          await untilText(page, "You answered as bob")
          assert.deepStrictEqual(visitation.problems, [])
          await page.goto(url)
          await untilText(page, "already resolved")
          await visitation.close()
        }
      })
      assert.include(JSON.stringify(yield* events.rest), "from my phone")
    }))
})
