/**
 * Holds what a person can do on the page, in a real browser: find what waits, see all of it, answer
 * it by mouse and by keyboard, and not be led astray by what is shown.
 */
import { assert, describe, it } from "@effect/vitest"
import { afterAll, beforeAll, beforeEach } from "vitest"
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
import type { Visit, Visitor } from "../support/Browser.ts"
import { type Script, startScripted, token } from "../support/scriptedServer.ts"

const limit = 60_000

const ready = "[data-settled=true] [data-key=approve]"

describe("the page", () => {
  const { visit } = browserForFile()
  const started: Array<Script> = []
  const seen: Array<Visit> = []
  const server = () => started.at(-1)!

  beforeAll(async () => void await builtPage(), limit)
  beforeEach(async () => void started.push(await startScripted(await builtPage())))
  afterAll(async () => void await Promise.all(started.map((it) => it.close())))

  /** Comes to the page as somebody who is logged in. */
  const come = async (visitor?: Visitor): Promise<Visit> => {
    const visitation = await visit(server().url, visitor)
    seen.push(visitation)
    await logIn(visitation.page, token)
    return visitation
  }
  const leave = async (visit: Visit) => {
    assert.deepStrictEqual(visit.problems, [])
    await visit.close()
  }

  it("takes a token, keeps it nowhere, and says no more than that a wrong one is wrong", async () => {
    const visitation = await visit(server().url)
    const { page } = visitation
    await page.waitForSelector("input[name=token]")
    await page.type("input[name=token]", "wrong")
    await press(page, "Enter")
    await untilText(page, "Invalid token")
    assert.strictEqual(await page.$eval("input[name=token]", (it) => it.value), "")
    await logIn(page, token)
    const kept = await page.evaluate(
      `JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.cookie, location.href])`
    )
    assert.notInclude(String(kept), token)
    assert.strictEqual(await page.evaluate("document.cookie"), "")
    await leave(visitation)
  }, limit)

  it("shows what waits, oldest first, and answers it once by mouse", async () => {
    server().ask({ id: "q1", tool: "write_file", args: { path: "notes.md" } })
    server().ask({ id: "q2", tool: "send_mail", args: { to: "bob" }, targets: [{ text: "bob" }] })
    const visitation = await come()
    const { page } = visitation
    await untilText(page, "2 pending")
    const listed = await page.$$eval(".item .t a", (links) => links.map((it) => it.textContent))
    assert.deepStrictEqual(listed, ["notes.md", "bob"])
    await page.click(".item a")
    await page.waitForSelector(ready)
    assert.include(await textOf(page, ".pane"), "notes.md")
    // the decision is in view without scrolling, deny next to approve
    const boxes = await Promise.all(
      [".decide .deny", "[data-key=approve]"].map(async (it) => (await (await page.$(it))!.boundingBox())!)
    )
    assert.isTrue(boxes.every((it) => it.y + it.height <= 800))
    assert.strictEqual(boxes[0]!.y, boxes[1]!.y)
    await page.click("[data-key=approve]")
    await untilText(page, "Approved once")
    assert.deepStrictEqual(server().answers.map((it) => it.answer), [{ _tag: "ApproveOnce" }])
    await untilText(page, "1 pending")
    // the next request comes by itself, with the focus on its headline
    await until(page, `location.hash.includes("q2") && document.activeElement?.matches("h1")`)
    await leave(visitation)
  }, limit)

  it("is answered by keyboard alone, in each way there is", { tags: ["SV21"], timeout: limit }, async () => {
    for (const id of ["q1", "q2", "q3", "q4"]) server().ask({ id })
    const text = { type: "string" }
    server().ask({
      id: "q5",
      parameters: { type: "object", properties: { path: text, text }, required: ["path", "text"] }
    })
    const visitation = await come()
    const { page } = visitation
    const answered = (count: number) => until(page, `document.querySelectorAll(".item").length === ${count}`)
    await untilText(page, "5 pending")

    await next(page)
    await page.waitForSelector(ready)
    await press(page, "a", "Enter")
    await answered(4)

    // the focus is on the next request
    await page.waitForSelector(ready)
    await press(page, "m", "Enter")
    await page.waitForSelector(".menu")
    await press(page, "Tab", "ArrowLeft", "Tab", "Enter")
    await answered(3)

    await page.waitForSelector(ready)
    await press(page, "m", "Enter")
    await page.waitForSelector(".menu")
    await press(page, "ArrowDown", "Tab", "ArrowRight", "ArrowRight", "ArrowRight", "Tab", "Enter")
    await answered(2)

    await page.waitForSelector(ready)
    await press(page, "d")
    await page.keyboard.type("not on a Sunday")
    await press(page, "Enter")
    await answered(1)

    await page.waitForSelector(ready)
    await press(page, "e", "Enter")
    await untilText(page, "passes all checks again")
    await tabTo(page, `it.value === "notes.md"`)
    await page.keyboard.type(".bak")
    await page.waitForSelector(ready)
    await tabTo(page, `it.dataset.key === "approve"`)
    await press(page, "Enter")
    await answered(0)
    await untilText(page, "No pending requests.")
    assert.deepStrictEqual(server().answers.map((it) => it.answer), [
      { _tag: "ApproveOnce" },
      { _tag: "ApproveForDuration", duration: "15 minutes", scope: "resources" },
      { _tag: "ApproveForScope", scope: "tool" },
      { _tag: "Deny", reason: "not on a Sunday" },
      { _tag: "ApproveOnce", params: { path: "notes.md.bak", text: "hello" } }
    ])
    await leave(visitation)
  })

  it("shows its keys, none of which answers, and they can be switched off", async () => {
    server().ask({ id: "q1" })
    const visitation = await come()
    const { page } = visitation
    await untilText(page, "1 pending")
    await next(page)
    await page.waitForSelector(ready)
    await press(page, "a", "d", "Escape")
    assert.deepStrictEqual(server().answers, [])
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.type("?")
    await page.waitForSelector("dialog[open]")
    assert.deepStrictEqual(await seriousFindings(visitation), [])
    await page.click("dialog input[type=checkbox]")
    await press(page, "Escape")
    await page.waitForSelector("dialog:not([open])")
    await press(page, "g", "j")
    await page.evaluate("new Promise((it) => requestAnimationFrame(() => requestAnimationFrame(it)))")
    assert.notInclude(String(await page.evaluate("location.hash")), "journal")
    await leave(visitation)
  }, limit)

  it(
    "has yes off until the last part of what would be written is there",
    { tags: ["SV20"], timeout: limit },
    async () => {
      server().texts.set("q1/0/before", "one\n")
      server().texts.set("q1/0/after", "one\ntwo\n")
      server().ask({
        id: "q1",
        preview: {
          _tag: "Files",
          files: [{
            path: "notes.md",
            before: { length: 4, isText: true, hash: "a" },
            after: { length: 8, isText: true, hash: "b" }
          }]
        }
      })
      server().holdParts(true)
      const visitation = await come()
      const { page } = visitation
      await untilText(page, "1 pending")
      await next(page)
      await untilText(page, "Approve is unavailable until everything has loaded.")
      await page.click("[data-key=approve]")
      server().holdParts(false)
      await page.waitForSelector(ready)
      assert.deepStrictEqual(server().answers, [])
      assert.include(await textOf(page, ".pane"), "two")
      await page.click("[data-key=approve]")
      await untilText(page, "Approved once")
      await leave(visitation)
    }
  )

  it("has yes off where a part could not be loaded, until it could", async () => {
    server().texts.set("q1/0/after", "all of it\n")
    const after = { length: 10, isText: true, hash: "b" }
    server().ask({ id: "q1", preview: { _tag: "Files", files: [{ path: "notes.md", before: null, after }] } })
    server().failParts(true)
    const visitation = await come()
    const { page } = visitation
    await untilText(page, "1 pending")
    await untilText(page, "The part cannot be read.")
    assert.strictEqual(await page.$(ready), null)
    server().failParts(false)
    await page.click(".problem button")
    await untilText(page, "all of it")
    await page.waitForSelector(ready)
    await leave(visitation)
  }, limit)

  it("has the oldest open by itself on a wide screen, and never changes it under a hand", async () => {
    server().ask({ id: "q1", tool: "the_oldest" })
    server().ask({ id: "q2", tool: "the_next" })
    const visitation = await come()
    const { page } = visitation
    await page.waitForSelector(ready)
    assert.include(await textOf(page, ".pane h1"), "the_oldest")
    server().end("q1", { how: "withdrawn" })
    await untilText(page, "Withdrawn")
    assert.strictEqual(await page.$(ready), null)
    await leave(visitation)
  }, limit)

  it("shows the task of the person and the words of the agent, after the evidence", async () => {
    server().ask({ id: "q1", user: "grace", session: "s1", operation: "o1", agentPath: ["writer"] })
    const visitation = await come({ width: 390, height: 844 })
    const { page } = visitation
    const said = (text: string, agentPath: ReadonlyArray<string>) => ({
      _tag: "AssistantMessageFinal",
      agentPath,
      text,
      toolCalls: [{ id: "call-q1", name: "write_file" }]
    })
    const events = [said("Words of another agent", []), said("It was \u202edetrevni", ["writer"])]
      .map((it) => `event: assistant_message_final\ndata: ${JSON.stringify(it)}\n\n`).join("")
    const detail = {
      title: "Round discounts",
      operations: [{ id: "o1", prompt: "Round to whole cents", startedAt: 1 }]
    }
    await page.setRequestInterception(true)
    page.on("request", (request) => {
      const { pathname } = new URL(request.url())
      if (pathname === "/api/conversations/grace/s1") void request.respond({ body: JSON.stringify(detail) })
      else if (pathname.endsWith("/s1/events")) {
        void request.respond({ headers: { "content-type": "text/event-stream" }, body: events })
      } else void request.continue()
    })
    await untilText(page, "1 pending")
    await page.click(".item a")
    await untilText(page, "Round to whole cents")
    await untilText(page, "It was ⟨U+202E⟩detrevni")
    const text = await textOf(page, ".pane")
    const places = ["writer", "hello", "a rule requires consent", "Round to whole cents", "It was"]
      .map((it) => text.indexOf(it))
    assert.deepStrictEqual(places, places.toSorted((a, b) => a - b))
    assert.notInclude(text, "another agent")
    await leave(visitation)
  }, limit)

  it("says that a request has changed under the eyes of a person, and takes no answer for a moment", async () => {
    server().ask({ id: "q1", args: { path: "notes.md", text: "first" } })
    const visitation = await come()
    const { page } = visitation
    await page.waitForSelector(ready)
    server().ask({ id: "q1", args: { path: "notes.md", text: "second" } })
    await untilText(page, "This request changed while you were reading.")
    await page.click("[data-key=approve]")
    assert.deepStrictEqual(server().answers, [])
    await page.waitForSelector(ready)
    assert.include(await textOf(page, ".pane"), "second")
    await page.click("[data-key=approve]")
    await untilText(page, "Approved once")
    assert.strictEqual(server().answers.length, 1)
    await leave(visitation)
  }, limit)

  it("asks for a token again when the login has ended", async () => {
    server().ask({ id: "q1" })
    const visitation = await come()
    const { page } = visitation
    await untilText(page, "1 pending")
    await visitation.page.deleteCookie(...await page.cookies())
    server().goAway()
    await untilText(page, "Connection lost.")
    server().comeBack()
    await page.waitForSelector("input[name=token]")
    assert.notInclude(await textOf(page), "write_file")
    await leave(visitation)
  }, limit)

  it("shows hostile texts as texts, and runs none of them", { tags: ["SV20"], timeout: limit }, async () => {
    const markup = `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`
    const bidi = "safe\u202Etxt.exe"
    const long = `${"a".repeat(1_000_000)}the very end`
    server().ask({ id: "q1", tool: markup, args: { [markup]: bidi, long }, why: bidi, targets: [{ text: markup }] })
    const visitation = await come()
    const { page } = visitation
    await untilText(page, "1 pending")
    await next(page)
    await page.waitForSelector(ready)
    const text = await textOf(page)
    assert.include(text, "<img src=x onerror=")
    assert.notInclude(text, "\u202E")
    assert.match(text, /202e/i)
    assert.notInclude(await page.title(), "taken")
    assert.strictEqual(await page.evaluate("document.images.length"), 0)
    await leave(visitation)
  })

  it("answers several at once, all or none, and says which could not be", async () => {
    for (const id of ["q1", "q2", "q3"]) server().ask({ id, tool: `tool_${id}` })
    const visitation = await come()
    const { page } = visitation
    await untilText(page, "3 pending")
    for (const box of await page.$$(".item input")) await box.click()
    await page.evaluate(`[...document.querySelectorAll("a")].find((it) => it.textContent.includes("Review")).click()`)
    await page.waitForSelector(ready)
    // another person answers, and the page is not told before it sends its own answers
    server().hold(true)
    server().end("q2", { how: "denied", by: "bob" })
    await page.click("[data-key=approve]")
    await untilText(page, "1 of 3 requests changed, so nothing was sent.")
    assert.deepStrictEqual(server().answers, [])
    server().hold(false)
    await untilText(page, "2 requests selected")
    await page.waitForSelector(ready)
    await page.click("[data-key=approve]")
    await untilText(page, "No pending requests.")
    assert.deepStrictEqual(server().answers.map((it) => it.id), ["q1", "q3"])
    await leave(visitation)
  }, limit)

  it("tells the second of two people who was first", async () => {
    server().ask({ id: "q1" })
    const first = await come()
    const second = await come()
    for (const { page } of [first, second]) {
      await untilText(page, "1 pending")
      await next(page)
      await page.waitForSelector(ready)
    }
    // the second is quicker than the news of the first
    server().hold(true)
    server().end("q1", { how: "approved", answer: "ApproveOnce", by: "bob" })
    await press(second.page, "a", "Enter")
    await untilText(second.page, "bob answered")
    server().hold(false)
    await untilText(first.page, "Approved once by bob")
    assert.deepStrictEqual(server().answers, [])
    await leave(first)
    await leave(second)
  }, limit)

  it("says that the connection is lost, and comes back without losing an approval request", {
    tags: ["SV21"],
    timeout: limit
  }, async () => {
    server().ask({ id: "q1" })
    const visitation = await come()
    const { page } = visitation
    await untilText(page, "1 pending")
    server().goAway()
    await untilText(page, "Connection lost.")
    server().ask({ id: "q2", tool: "asked_meanwhile" })
    server().comeBack()
    await untilText(page, "asked_meanwhile")
    await until(page, `!document.body.innerText.includes("Connection lost.")`)
    server().goAway()
    await untilText(page, "Connection lost.")
    server().forget()
    server().ask({ id: "q3", tool: "asked_in_another_life" })
    server().comeBack()
    await untilText(page, "asked_in_another_life")
    await untilText(page, "3 pending")
    await until(page, `!document.body.innerText.includes("Connection lost.")`)
    assert.strictEqual(server().streams(), 1)
    await leave(visitation)
  })

  it(
    "lists no more than the beginning of what is long, and ticks the approval request that is open by itself",
    async () => {
      const long = "x".repeat(3_000)
      server().ask({ id: "q1", tool: "first", args: { command: long }, targets: [{ text: long }] })
      server().ask({ id: "q2", tool: "second" })
      const visitation = await come()
      const { page } = visitation
      await page.waitForSelector(ready)
      assert.isBelow((await textOf(page, ".item")).length, 500)
      await press(page, "x")
      await until(page, `document.querySelector(".item input").checked`)
      await untilText(page, "Review 1")
      await leave(visitation)
    },
    limit
  )

  it("stays usable with 200 approval requests, on a telephone's width, without sideways scrolling", async () => {
    for (let at = 0; at < 200; at++) server().ask({ id: `q${at}`, tool: `tool_${at}`, args: { text: "x".repeat(300) } })
    const visitation = await come({ width: 360, height: 740 })
    const { page } = visitation
    await untilText(page, "200 pending")
    const wide = () => page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert.strictEqual(await wide(), 0)
    await page.click(".item a")
    await page.waitForSelector(ready)
    assert.strictEqual(await wide(), 0)
    await press(page, "a", "Enter")
    await untilText(page, "Approved once")
    await page.click(".back")
    await untilText(page, "199 pending")
    for (let shown = 50; shown < 199; shown += 50) {
      await page.evaluate(
        `[...document.querySelectorAll("button")].find((it) => it.textContent.startsWith("Show more (")).click()`
      )
    }
    await untilText(page, "tool_199")
    await leave(visitation)
  }, limit)

  it("has nothing serious for axe to find, on any view, in light and in dark, wide and narrow", async () => {
    server().ask({ id: "q1", args: { path: "notes.md" } })
    server().ask({ id: "q2" })
    server().end("q2", { how: "expired" })
    server().grants.push({
      id: "g1",
      user: "ada",
      session: "s1",
      tool: "write_file",
      agentPath: [],
      targets: ["notes.md"],
      answer: "ApproveForScope",
      grantedAt: 1_700_000_000_000
    })
    server().plans.push({
      checkpoint: { id: "c1", at: 1, batch: "b", callId: "c", tool: "write_file", paths: ["a"] },
      steps: [{ path: "a", action: "changed" }, { path: "b", action: "restore" }, { path: "c", action: "refused" }],
      diff: "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n",
      notCovered: []
    })
    server().entries.push({ place: 1, user: "ada", session: "s1", entry: { _tag: "Ended", tool: "write_file", at: 1 } })
    for (const scheme of ["light", "dark"] as const) {
      const login = await visit(server().url, { scheme })
      await login.page.waitForSelector("input[name=token]")
      assert.deepStrictEqual(await seriousFindings(login), [], `login, ${scheme}`)
      await leave(login)
      const visitation = await come({ scheme, width: scheme === "light" ? 1200 : 360 })
      const { page } = visitation
      const views = [
        "approvals/q1",
        "approvals/resolved/q2",
        "approvals/resolved",
        "conversations",
        "runs",
        "journal",
        "grants",
        "rules",
        "health",
        "undo/ada/s1/c",
        "approvals"
      ]
      for (const view of views) {
        await page.evaluate(`location.hash = "#/${view}"`)
        await until(
          page,
          `document.querySelector("[data-heading]") === document.activeElement && !document.body.innerText.includes("Loading")`
        )
        assert.deepStrictEqual(await seriousFindings(visitation), [], `${view}, ${scheme}`)
        const wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert.strictEqual(wide, 0, `${view} scrolls sideways, ${scheme}`)
      }
      await page.click(".item input")
      await page.evaluate(`location.hash = "#/approvals/bulk"`)
      await page.waitForSelector(ready)
      assert.deepStrictEqual(await seriousFindings(visitation), [], `bulk, ${scheme}`)
      await page.evaluate(`location.hash = "#/approvals/q1"`)
      await page.waitForSelector("[data-key=more]")
      await page.click("[data-key=more]")
      assert.deepStrictEqual(await seriousFindings(visitation), [], `menu, ${scheme}`)
      await leave(visitation)
    }
  }, limit)

  it("remembers an approval for one of the patterns that the request offers", async () => {
    server().ask({ id: "q1", remember: "tool", wider: ["src/*", "src/page/*"] })
    const visitation = await come()
    const { page } = visitation
    await page.evaluate(`location.hash = "#/approvals/q1"`)
    await page.waitForSelector(ready)
    await page.click("[data-key=more]")
    await untilText(page, "Calls that fit src/page/*")
    assert.deepStrictEqual(await seriousFindings(visitation), [])
    await page.click(".menu fieldset:first-of-type label:nth-of-type(3) input")
    await page.click(".menu .btn.primary")
    await until(page, `document.body.innerText.includes("Approved")`)
    assert.deepStrictEqual(server().answers.map(({ answer }) => answer), [
      { _tag: "ApproveForDuration", duration: "1 hour", scope: { pattern: "src/page/*" } }
    ])
    await leave(visitation)
  }, limit)
})
