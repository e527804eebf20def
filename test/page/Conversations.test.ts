/** Holds what a person can do in a conversation, in a real browser: read along, answer, write, stop and start. */
import { assert, describe, it } from "@effect/vitest"
import { afterAll, beforeAll, beforeEach } from "vitest"
import { session, tellConversations } from "../../scripts/conversation-story.ts"
import { tellStory } from "../../scripts/page-story.ts"
import {
  browserForFile,
  builtPage,
  logIn,
  press,
  seriousFindings,
  tabTo,
  textOf,
  until,
  untilText
} from "../support/Browser.ts"
import type { Visit, Visitor } from "../support/Browser.ts"
import { type Script, startScripted, token } from "../support/scriptedServer.ts"

const limit = 60_000

/** The button or link with a name, for `tabTo`. */
const named = (name: string) => `it.matches("button, a") && it.innerText.includes(${JSON.stringify(name)})`

const settled = ".acts[data-settled=true]"

const fragment = (delta: string) =>
  ({
    _tag: "AssistantMessagePart",
    operation: "test-writer",
    agentPath: ["test-writer"],
    turn: 1,
    at: Date.now(),
    part: { type: "text-delta", id: "t", delta }
  }) as const

const own = { operation: "op-1", agentPath: [], turn: 2, at: Date.now() } as const

const usage = { inputTokens: 1, outputTokens: 1, cachedInputTokens: 0, cacheWriteInputTokens: 0 }

describe("a conversation on the page", () => {
  const { visit } = browserForFile()
  const started: Array<Script> = []
  const server = () => started.at(-1)!

  beforeAll(async () => void await builtPage(), limit)
  beforeEach(async () => {
    started.push(await startScripted(await builtPage()))
    tellStory(server())
  })
  afterAll(async () => void await Promise.all(started.map((it) => it.close())))

  const come = async (view: string, visitor?: Visitor): Promise<Visit> => {
    const visitation = await visit(server().url, visitor)
    await logIn(visitation.page, token)
    await visitation.page.evaluate(`location.hash = ${JSON.stringify(`#/${view}`)}`)
    return visitation
  }
  const leave = async (visit: Visit) => {
    assert.deepStrictEqual(visit.problems, [])
    await visit.close()
  }

  it("opens the sub-agent whose call needs approval, and answers it there", async () => {
    const visitation = await come(`conversations/ada/${session}`)
    const { page } = visitation
    await page.waitForSelector(settled)
    const text = await textOf(page, ".thread")
    for (
      const said of ["Round them and add tests", "The test confirms the fault", "reviewer", "src/pricing/discount.ts"]
    ) {
      assert.include(text, said)
    }
    await untilText(page, "Queued until the next turn")
    // its siblings are folded, and tell how they went
    assert.notInclude(text, "1 failed, 37 passed")
    await page.evaluate(
      `[...document.querySelectorAll("details.call > summary")].find((it) => it.innerText.includes("npm test -- pricing")).click()`
    )
    await untilText(page, "1 failed, 37 passed")
    await page.click(`${settled} .primary`)
    await untilText(page, "Approved once by ada")
    assert.deepStrictEqual(server().answers, [{ id: "diff", answer: { _tag: "ApproveOnce" } }])
    await leave(visitation)
  }, limit)

  it("shows what streams in, once, across lost connections, and stays where somebody reads", async () => {
    const visitation = await come(`conversations/ada/${session}`)
    const { page } = visitation
    await untilText(page, "A negative percentage must be")
    await page.waitForSelector(".caret")
    server().happen("ada", session, fragment(" refused"))
    await untilText(page, "must be refused")
    server().cutConversations()
    server().happen("ada", session, fragment(", too."))
    await untilText(page, "must be refused, too.")
    assert.strictEqual((await textOf(page, ".thread")).split("must be refused").length, 2)
    const text = "I am adding cases for 0 and 100 percent. Done."
    server().happen("ada", session, {
      ...fragment(""),
      _tag: "AssistantMessageFinal",
      text,
      toolCalls: [],
      finish: "stop",
      usage,
      provider: "p",
      model: "m"
    } as never)
    await untilText(page, text)
    await until(page, `document.querySelector(".caret") === null`)
    // somebody who has scrolled up stays there
    await page.evaluate(`document.querySelector("[aria-label=Messages]").scrollTop = 0`)
    server().happen("ada", session, { _tag: "MessageQueued", ...own, id: "m2", text: "a long message\n".repeat(30) })
    await untilText(page, "a long message")
    assert.strictEqual(await page.evaluate(`document.querySelector("[aria-label=Messages]").scrollTop`), 0)
    // a reset shows all of it once
    server().happen("ada", session, { _tag: "Reset" })
    await until(page, `!document.querySelector(".thread").innerText.includes("a long message")`)
    await leave(visitation)
  }, limit)

  it("is written to, stopped and continued by keyboard", async () => {
    const visitation = await come(`conversations/ada/${session}`)
    const { page } = visitation
    await page.waitForSelector("#say")
    await page.focus("#say")
    await page.keyboard.type("Use bankers' rounding.")
    await page.keyboard.down("Control")
    await press(page, "Enter")
    await page.keyboard.up("Control")
    await until(page, `document.querySelector("#say").value === ""`)
    await page.keyboard.type("No, wait.")
    await page.keyboard.down("Shift")
    await press(page, "Tab")
    await page.keyboard.up("Shift")
    assert.strictEqual(await page.evaluate("document.activeElement.innerText"), "Deny and send now")
    await press(page, "Enter")
    await until(page, `document.querySelector("#say").value === ""`)
    await page.focus("[data-key=stop]")
    await press(page, "Enter")
    await untilText(page, "Stopping")
    const path = `/api/sessions/${encodeURIComponent(session)}/operations/op-1`
    assert.deepStrictEqual(server().posts, [
      { path: `${path}/messages`, body: { text: "Use bankers' rounding." } },
      { path: `${path}/messages`, body: { text: "No, wait.", settle: true } },
      { path: `${path}/cancel`, body: { reason: "a person stopped it" } }
    ])
    server().happen("ada", session, {
      _tag: "OperationEnd",
      ...own,
      reason: { _tag: "Cancelled", reason: "a person stopped it" },
      message: "It was cancelled: a person stopped it.",
      text: "",
      usage,
      turns: 2,
      calls: 9
    })
    await untilText(page, "Stopped.")
    await page.focus("#say")
    await page.keyboard.type("Go on.")
    await tabTo(page, named("Send"))
    await press(page, "Enter")
    await until(page, `document.querySelector("#say").value === ""`)
    assert.deepStrictEqual(server().posts.at(-1)!.body, { agent: "coder", prompt: "Go on." })
    await leave(visitation)
  }, limit)

  it("says why an agent stopped, and what to do", async () => {
    const visitation = await come("conversations/ada/staging")
    const { page } = visitation
    await untilText(page, "The agent stopped: the cost limit of $2.00 has been reached.")
    await untilText(page, "reached")
    await page.evaluate(`document.querySelectorAll("details.call > summary")[1].click()`)
    await untilText(page, "503 Service Unavailable")
    await page.evaluate(`location.hash = ${JSON.stringify(`#/conversations/ada/${session}`)}`)
    await page.waitForSelector("[data-wants]")
    server().happen("ada", session, {
      _tag: "OperationEnd",
      ...own,
      reason: { _tag: "ModelFailed", error: "AuthenticationError" },
      message: "The model request failed: invalid API key (401).",
      text: "",
      usage,
      turns: 2,
      calls: 9
    })
    await untilText(page, "The model did not answer: invalid API key (401).")
    await leave(visitation)
  }, limit)

  it("is started with an agent and a message", async () => {
    const visitation = await come("conversations")
    const { page } = visitation
    await tabTo(page, named("New"))
    await press(page, "Enter")
    await untilText(page, "Writes and tests code")
    await page.focus(".start-form textarea")
    await page.keyboard.type("Find flaky tests.")
    await tabTo(page, named("Start"))
    await press(page, "Enter")
    await until(page, `/^#\\/conversations\\/ada\\/c-/.test(location.hash)`)
    const [post] = server().posts
    assert.match(post!.path, /^\/api\/sessions\/c-[a-z0-9]+\/operations$/)
    assert.deepStrictEqual(post!.body, { agent: "coder", prompt: "Find flaky tests." })
    await visitation.close()
  }, limit)

  it("leads from an approval to its conversation, and back", async () => {
    const visitation = await come("approvals/diff")
    const { page } = visitation
    await page.waitForSelector(".trail a")
    await page.click(".trail a")
    await page.waitForSelector(settled)
    await page.evaluate(
      `[...document.querySelectorAll(".call a")].find((it) => it.innerText === "More options").click()`
    )
    await until(page, `location.hash === "#/approvals/diff"`)
    await leave(visitation)
  }, limit)

  it("has nothing serious for axe, in both schemes and widths, nor has the journal", async () => {
    for (const scheme of ["light", "dark"] as const) {
      const visitation = await come("conversations", { scheme, width: scheme === "light" ? 1280 : 390 })
      const { page } = visitation
      await untilText(page, "Find flaky tests")
      assert.deepStrictEqual(await seriousFindings(visitation), [], `list, ${scheme}`)
      const views = [
        [`conversations/ada/${session}`, "[data-wants] .acts"],
        ["conversations/ada/staging", ".note.bad"],
        ["conversations/new", ".start-form"],
        ["journal", ".calls-table"],
        ["journal/995", ".journal-steps"],
        ["journal/993", ".note.wait"]
      ] as const
      for (const [view, selector] of views) {
        await page.evaluate(`location.hash = ${JSON.stringify(`#/${view}`)}`)
        await page.waitForSelector(selector)
        assert.deepStrictEqual(await seriousFindings(visitation), [], `${view}, ${scheme}`)
        assert.strictEqual(await page.evaluate(`document.querySelectorAll("h1").length`), 1, view)
      }
      await leave(visitation)
    }
  }, limit)
})

describe("the journal on the page", () => {
  const { visit } = browserForFile()

  it("lists calls, narrows them, and shows one with its steps and links", async () => {
    const server = await startScripted(await builtPage())
    tellConversations(server)
    const visitation = await visit(server.url)
    const { page } = visitation
    await logIn(page, token)
    await page.evaluate(`location.hash = "#/journal"`)
    await untilText(page, "9 calls")
    await page.select("select[aria-label=Outcome]", "unknown")
    await untilText(page, "1 call")
    await page.click(".calls-table a")
    await untilText(page, "It was not repeated.")
    await page.select("select[aria-label=Outcome]", "")
    await untilText(page, "9 calls")
    await page.evaluate(`location.hash = "#/journal/995"`)
    await untilText(page, "Approved once by bob")
    await untilText(page, "after 2 min 37 s")
    await untilText(page, "Wrote src/pricing/discount.test.ts (46 lines).")
    const links = await page.$$eval(".drawer > .pane:last-child a", (all) => all.map((it) => it.getAttribute("href")))
    assert.includeMembers(links, [
      `#/undo/ada/${encodeURIComponent(session)}/cp1`,
      `#/conversations/ada/${encodeURIComponent(session)}`
    ])
    await press(page, "Escape")
    await until(page, `location.hash === "#/journal"`)
    assert.deepStrictEqual(visitation.problems, [])
    await visitation.close()
    await server.close()
  }, limit)
})
