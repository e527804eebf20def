/**
 * The whole way, with nothing made up: a model's calls are handed to a real server, its executor asks,
 * a person answers in a real browser, and the tool runs or does not.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { Tokens } from "effect-tool-executor/server"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  browserForFile,
  builtPage,
  logIn,
  next,
  press,
  seriousFindings,
  tabTo,
  textOf,
  until,
  untilText
} from "../support/Browser.ts"
import { start, tokens } from "../support/Server.ts"

const limit = 60_000

const cleo = Effect.runSync(Tokens.make)
const hash = (token: string) => ({ hash: Tokens.hash(Redacted.make(token)) })
const users = [
  { name: "ada", run: true, tokens: [hash(tokens.ada)] },
  { name: "bob", approve: ["ada"], records: ["ada"], tokens: [hash(tokens.bob)] },
  { name: "cleo", approve: ["ada"], tokens: [hash(Redacted.value(cleo))] }
]

const ready = "[data-settled=true] [data-key=approve]"

describe("the page and a real server", () => {
  const { visit } = browserForFile()

  /** A server with a workspace of its own, and its page. */
  const setting = Effect.gen(function*() {
    const base = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "effect-tool-executor-page-"))),
      (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
    )
    const folder = join(base, "workspace")
    mkdirSync(folder)
    const page = yield* Effect.promise(builtPage)
    const server = yield* start({
      folder,
      users,
      policy: { default: "allow", ask: ["write_file"] },
      script: [
        {
          text: "I write it down.",
          calls: [{ name: "write_file", params: { path: "plan.md", content: "Round once, half up.\n" } }]
        },
        { text: "The plan is written." },
        { text: "Gladly." }
      ],
      server: { page: { folder: page } }
    })
    /** A model wants to write a file. */
    const write = (wave: string, path: string, content: string) =>
      server.request("ada", "POST", "/api/sessions/s/waves", {
        body: { wave, message: [{ id: `call-${wave}`, name: "write_file", params: { path, content } }] }
      })
    const read = (path: string) => existsSync(join(folder, path)) ? readFileSync(join(folder, path), "utf8") : undefined
    const come = (token = tokens.bob) =>
      Effect.acquireRelease(
        Effect.promise(async () => {
          const visitation = await visit(`${server.url}/`)
          await logIn(visitation.page, token)
          return visitation
        }),
        (it) =>
          Effect.promise(async () => {
            await it.close()
            assert.deepStrictEqual(it.problems, [])
          })
      )
    return { server, folder, write, read, come }
  })

  it.live("run the tool when a person says yes, and show what it would write before", () =>
    Effect.gen(function*() {
      const { come, folder, read, write } = yield* setting
      writeFileSync(join(folder, "notes.md"), "first line\n")
      const { page } = yield* come()
      const wave = yield* Effect.forkChild(write("w1", "notes.md", "first line\nsecond line\n"))
      yield* Effect.promise(async () => {
        await untilText(page, "1 pending")
        await page.click(".item a")
        await page.waitForSelector(ready)
        await untilText(page, "second line")
        assert.strictEqual(read("notes.md"), "first line\n")
        await page.click("[data-key=approve]")
        await untilText(page, "Approved once")
      })
      assert.strictEqual((yield* Fiber.join(wave)).json.status, "ended")
      assert.strictEqual(read("notes.md"), "first line\nsecond line\n")
      yield* Effect.promise(async () => {
        // the write can be undone from the answer
        await page.click(".toast a.btn")
        await untilText(page, "Restore")
        await page.click(".decide .primary")
        await untilText(page, "Undone.")
        assert.strictEqual(read("notes.md"), "first line\n")
        await page.evaluate(`location.hash = "#/runs"`)
        await page.waitForSelector(".lanes a")
        await page.click(".lanes a")
        await untilText(page, "Approved once by bob")
      })
    }), limit)

  it.live(
    "do not run it when a person says no, and tell the model why: by keyboard alone",
    () =>
      Effect.gen(function*() {
        const { come, read, write } = yield* setting
        const { page } = yield* come()
        const wave = yield* Effect.forkChild(write("w1", "notes.md", "text"))
        yield* Effect.promise(async () => {
          await untilText(page, "1 pending")
          await next(page)
          await page.waitForSelector(ready)
          await press(page, "d")
          await page.keyboard.type("write it elsewhere")
          await press(page, "Enter")
          await untilText(page, "Denied")
        })
        assert.include((yield* Fiber.join(wave)).text, "write it elsewhere")
        assert.isUndefined(read("notes.md"))
      }),
    limit
  )

  it.live("do not ask again while a yes holds, and ask again when it is revoked", () =>
    Effect.gen(function*() {
      const { come, read, write } = yield* setting
      const { page } = yield* come()
      const first = yield* Effect.forkChild(write("w1", "notes.md", "one"))
      yield* Effect.promise(async () => {
        await untilText(page, "1 pending")
        await next(page)
        await page.waitForSelector(ready)
        await press(page, "m", "Enter")
        await page.waitForSelector(".menu")
        await press(page, "Tab", "ArrowRight", "ArrowRight", "ArrowRight", "Tab", "Enter")
        await untilText(page, "Approved until revoked")
      })
      yield* Fiber.join(first)
      yield* write("w2", "notes.md", "two")
      assert.strictEqual(read("notes.md"), "two")
      yield* Effect.promise(async () => {
        await page.evaluate(`document.activeElement.blur()`)
        await page.evaluate(`location.hash = "#/grants"`)
        await untilText(page, "1 active")
        await page.click("table button")
        await page.click("table button.deny")
        await untilText(page, "No grants.")
      })
      const third = yield* Effect.forkChild(write("w3", "notes.md", "three"))
      yield* Effect.promise(async () => {
        await until(page, `document.querySelector(".badge")?.firstChild.data === "1"`)
        await press(page, "g", "a")
        await next(page)
        await page.waitForSelector(ready)
        await press(page, "m", "Enter")
        await page.waitForSelector(".menu")
        await press(page, "Tab", "Tab", "Enter")
        await untilText(page, "Approved for a limited time")
      })
      yield* Fiber.join(third)
      yield* write("w4", "notes.md", "four")
      assert.strictEqual(read("notes.md"), "four")
    }), limit)

  it.live("run it with the arguments that a person edited", () =>
    Effect.gen(function*() {
      const { come, read, write } = yield* setting
      const { page } = yield* come()
      const wave = yield* Effect.forkChild(write("w1", "notes.md", "text"))
      yield* Effect.promise(async () => {
        await untilText(page, "1 pending")
        await next(page)
        await page.waitForSelector(ready)
        await press(page, "e", "Enter")
        await tabTo(page, `it.value === "notes.md"`)
        await press(page, "End")
        await page.keyboard.type(".new")
        await page.waitForSelector(ready)
        await page.click("[data-key=approve]")
        await untilText(page, "Approved")
      })
      yield* Fiber.join(wave)
      assert.isUndefined(read("notes.md"))
      assert.strictEqual(read("notes.md.new"), "text")
    }), limit)

  it.live("take one answer of two people, and tell the second who was first", () =>
    Effect.gen(function*() {
      const { come, write } = yield* setting
      const bob = yield* come()
      const other = yield* come(Redacted.value(cleo))
      const wave = yield* Effect.forkChild(write("w1", "notes.md", "text"))
      yield* Effect.promise(async () => {
        for (const { page } of [bob, other]) {
          await untilText(page, "1 pending")
          await next(page)
          await page.waitForSelector(ready)
        }
        await bob.page.click("[data-key=approve]")
        await untilText(other.page, "Approved once by bob")
        await untilText(bob.page, "Approved once")
      })
      yield* Fiber.join(wave)
    }), limit)

  it.live(
    "start an agent, approve its call in the conversation, write to it, and find the call in the journal",
    () =>
      Effect.gen(function*() {
        const { come, read } = yield* setting
        const [ada, bob] = [yield* come(tokens.ada), yield* come()]
        yield* Effect.promise(async () => {
          await ada.page.evaluate(`location.hash = "#/conversations/new"`)
          await ada.page.waitForSelector(".start-form textarea")
          await ada.page.focus(".start-form textarea")
          await ada.page.keyboard.type("Write a plan")
          await tabTo(ada.page, `it.innerText === "Start"`)
          await press(ada.page, "Enter")
          await untilText(ada.page, "I write it down.")
          await untilText(ada.page, "1 call needs approval")
          // bob approves for ada, and reads what she does
          await bob.page.evaluate(`location.hash = "#/conversations"`)
          await untilText(bob.page, "Write a plan")
          await bob.page.click(".list .item a")
          await bob.page.waitForSelector("[data-wants] .acts[data-settled=true]")
          await untilText(bob.page, "Round once, half up.")
          await untilText(bob.page, "Only ada can write in this conversation.")
          assert.strictEqual(read("plan.md"), undefined)
          await bob.page.click("[data-wants] .primary, [data-wants] .even")
          for (const { page } of [ada, bob]) await untilText(page, "The plan is written.")
          assert.strictEqual(read("plan.md"), "Round once, half up.\n")
          // the next message continues it, and all of it is there once after a reload
          await ada.page.focus("#say")
          await ada.page.keyboard.type("Thank you")
          await tabTo(ada.page, `it.innerText === "Send"`)
          await press(ada.page, "Enter")
          for (const { page } of [ada, bob]) await untilText(page, "Gladly.")
          await ada.page.reload()
          await untilText(ada.page, "Gladly.")
          for (const text of ["Write a plan", "I write it down.", "The plan is written.", "Thank you", "Gladly."]) {
            for (const { page } of [ada, bob]) {
              const shown = await textOf(page, ".thread")
              assert.strictEqual(shown.split(text).length, 2, text)
            }
          }
          await ada.page.evaluate(`location.hash = "#/journal"`)
          await untilText(ada.page, "plan.md")
          await ada.page.click(".calls-table a")
          await untilText(ada.page, "Approved once by bob")
          await ada.page.waitForSelector("a[href^='#/undo/']")
        })
      }),
    limit
  )

  it.live("show waves, calls, the journal, the rules and how the server is", () =>
    Effect.gen(function*() {
      const { come, server } = yield* setting
      yield* server.request("ada", "POST", "/api/sessions/s/waves", {
        body: {
          wave: "w1",
          message: Array.from({ length: 60 }, (_, at) => ({ id: `${at}`, name: "look", params: { key: "the-key" } }))
        }
      })
      const visitation = yield* come()
      const { page } = visitation
      const rows = () => page.$$eval(".calls-table a", (all) => all.map((it) => it.getAttribute("href")))
      yield* Effect.promise(async () => {
        await press(page, "g", "r")
        // the newest is there to be seen at once, by the names of its calls
        await page.waitForSelector(".lanes a")
        await untilText(page, "look ×60")
        assert.deepStrictEqual(await seriousFindings(visitation), [], "the run")
        await page.click(".lanes a")
        await untilText(page, "the-key")
        assert.deepStrictEqual(await seriousFindings(visitation), [], "the call")
        await page.evaluate(`location.hash = "#/journal"`)
        // the newest come first, and what was before them when it is asked for
        await untilText(page, "Show older")
        const lately = await rows()
        assert.strictEqual(lately.length, 50)
        await page.evaluate(`document.querySelector(".hint button").click()`)
        await page.waitForFunction(`document.querySelectorAll(".calls-table a").length === 60`)
        assert.deepStrictEqual((await rows()).slice(0, 50), lately)
        assert.notInclude(await page.evaluate("document.body.innerText"), "Show older")
        await press(page, "Tab")
        await page.focus(".calls-table a")
        await press(page, "Enter")
        await untilText(page, "What the model read")
        await untilText(page, "the-key")
        assert.deepStrictEqual(await seriousFindings(visitation), [], "a call of the journal")
        await page.type("input[type=search]", "nothing like this")
        await untilText(page, "No calls match.")
        await page.evaluate(`location.hash = "#/rules"`)
        await untilText(page, "No rules.")
        await page.evaluate(`location.hash = "#/health"`)
        await untilText(page, "all checks pass")
      })
    }), limit)
})
