/** The chat of the guide in a real browser: `useChat` of `@ai-sdk/react` against a real server with an agent. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { rolldown } from "rolldown"
import { type AgentServer, start, token } from "../support/AgentServer.ts"
import { browserForFile, textOf, until, untilText, type Visit } from "../support/Browser.ts"

const limit = 60_000

const root = fileURLToPath(new URL("../../", import.meta.url))

/** Bundles the chat, for as long as the scope is open. */
const built: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.promise(async () => {
    const folder = mkdtempSync(join(tmpdir(), "effect-tool-executor-chat-"))
    mkdirSync(join(folder, "assets"))
    const bundle = await rolldown({
      input: join(root, "test/page/chat/main.tsx"),
      platform: "browser",
      cwd: root,
      // this package says that its modules have none
      treeshake: { moduleSideEffects: () => true },
      transform: { define: { "process.env.NODE_ENV": "\"production\"" } },
      logLevel: "silent"
    })
    await bundle.write({ file: join(folder, "assets/chat.js"), format: "esm", codeSplitting: false })
    await bundle.close()
    const script = "<script type=module src=assets/chat.js></script>"
    writeFileSync(join(folder, "index.html"), `<!doctype html><title>Chat</title><div id=chat></div>${script}`)
    return folder
  }),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

describe("the chat of the guide", () => {
  const { visit } = browserForFile()

  const setting = Effect.gen(function*() {
    const server = yield* start({ page: { folder: yield* built } })
    return { server, come: tab(server) }
  })

  /** Opens the chat in a tab of its own. */
  const tab = (server: AgentServer) => (session: string) =>
    Effect.map(
      Effect.acquireRelease(
        Effect.promise(async () => {
          const visitation = await visit(`${server.url}/#${session},${token}`)
          await visitation.page.waitForSelector("form")
          return visitation
        }),
        (it) =>
          Effect.promise(async () => {
            await it.close()
            assert.deepStrictEqual(it.problems, [])
          })
      ),
      ({ page }: Visit) => ({
        page,
        say: async (text: string) => {
          await page.type("input[name=text]", text)
          await page.keyboard.press("Enter")
        },
        press: (label: string) =>
          page.evaluate(`[...document.querySelectorAll("button")].find((it) => it.innerText === "${label}").click()`),
        shows: (text: string) => untilText(page, text),
        rests: () => until(page, `document.querySelector("form").innerText.includes("ready")`),
        text: () => textOf(page, "main")
      })
    )

  it("is the one that the guide shows", () => {
    const guide = readFileSync(join(root, "docs/ui-formats.md"), "utf8")
    assert.include(guide, readFileSync(join(root, "test/page/chat/Chat.tsx"), "utf8"))
  })

  it.live("asks, streams, and approves a call in the message that asked for it", () =>
    Effect.gen(function*() {
      const { come, server } = yield* setting
      const { press, rests, say, shows, text } = yield* come("s")
      yield* Effect.promise(async () => {
        await say("refund")
        await shows("approval-requested")
        assert.include(await text(), "Is that so?")
        assert.include(await text(), "One moment.")
        assert.deepStrictEqual(server.refunds, [])
        await press("Approve")
        await shows("I have read: result")
        await rests()
        assert.include(await text(), "{\"refunded\":5}")
      })
      assert.deepStrictEqual(server.refunds, [5])
    }), limit)

  it.live("denies a call with a reason, which the model reads", () =>
    Effect.gen(function*() {
      const { come, server } = yield* setting
      const { page, press, rests, say, shows, text } = yield* come("s")
      yield* Effect.promise(async () => {
        await say("refund")
        await shows("approval-requested")
        await page.type("input[placeholder=Reason]", "not without a receipt")
        await press("Deny")
        await shows("output-denied")
        await rests()
        assert.include(await text(), "not without a receipt")
      })
      assert.deepStrictEqual(server.refunds, [])
    }), limit)

  it.live("is the same after a reload in the middle, and while approval is pending", () =>
    Effect.gen(function*() {
      const { come, server } = yield* setting
      const { page, press, rests, say, shows, text } = yield* come("s")
      yield* Effect.promise(async () => {
        await say("hold")
        await shows("input-available")
        await page.reload()
        await shows("input-available")
      })
      yield* server.release
      yield* Effect.promise(async () => {
        await shows("I have read: result")
        await rests()
        assert.strictEqual(await page.evaluate(`document.querySelectorAll("article").length`), 2)
        await say("refund")
        await shows("approval-requested")
        await page.reload()
        await shows("approval-requested")
        await press("Approve")
        await shows("{\"refunded\":5}")
        await rests()
        assert.strictEqual(await page.evaluate(`document.querySelectorAll("article").length`), 4)
        const before = await text()
        await page.reload()
        await shows("{\"refunded\":5}")
        assert.deepStrictEqual(withoutReasoning(await text()), withoutReasoning(before))
      })
      assert.deepStrictEqual(server.refunds, [5])
    }), { tags: ["SV28"], timeout: limit })

  it.live("answers in one of two tabs, and the other continues where it is", () =>
    Effect.gen(function*() {
      const { come, server } = yield* setting
      const one = yield* come("s")
      yield* Effect.promise(async () => {
        await one.say("refund")
        await one.shows("approval-requested")
      })
      const other = yield* come("s")
      yield* Effect.promise(async () => {
        await other.shows("approval-requested")
        await one.press("Approve")
        await one.shows("I have read: result")
        // the first answer counts
        await other.press("Deny")
        await other.shows("I have read: result")
        await other.rests()
        assert.include(await other.text(), "{\"refunded\":5}")
        assert.notInclude(await other.text(), "output-denied")
      })
      assert.deepStrictEqual(server.refunds, [5])
    }), { tags: ["SV28"], timeout: limit })
})

/** A history has no reasoning. */
const withoutReasoning = (text: string) => text.replace(/Is that so\?\s*/, "").replaceAll(/\s+/g, " ")
