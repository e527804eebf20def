/**
 * Holds the parts of the page in a real browser, under the page's policy, with what somebody
 * hostile would put in.
 */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { fileURLToPath } from "node:url"
import { rolldown } from "rolldown"
import { afterAll, beforeAll } from "vitest"
import {
  browserForFile,
  press,
  seriousFindings,
  textOf,
  until,
  untilText,
  type Visit,
  type Visitor
} from "../support/Browser.ts"

const root = fileURLToPath(new URL("../../", import.meta.url))

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const html = `<!doctype html><html lang="en"><head><title>Parts</title><link rel="stylesheet" href="page.css">
<script type="module" src="shelf.js"></script></head><body><main id="app"></main></body></html>`

/** What is markup to a browser that takes it for markup. */
const markup = `<img src=x onerror=alert(1)><script>alert(2)</script></span>&lt;b&gt;`

describe("the parts of the page", () => {
  const { visit } = browserForFile()
  const started: Array<Server> = []
  const address = () => `http://127.0.0.1:${(started[0]!.address() as AddressInfo).port}/`

  beforeAll(async () => {
    const bundle = await rolldown({ input: `${root}test/page/parts/shelf.ts`, platform: "browser", cwd: root })
    const { output: [{ code }] } = await bundle.generate({ format: "esm" })
    await bundle.close()
    const sources = readdirSync(`${root}src/page`, { recursive: true, encoding: "utf8" })
    const css = sources.filter((it) => it.endsWith(".css")).sort().map((it) =>
      readFileSync(`${root}src/page/${it}`, "utf8")
    ).join("\n")
    const files: Readonly<Record<string, readonly [string, string]>> = {
      "/": ["text/html; charset=utf-8", html],
      "/shelf.js": ["text/javascript; charset=utf-8", code],
      "/page.css": ["text/css; charset=utf-8", css]
    }
    const server = createServer(({ url = "" }, response) => {
      const [type, text] = files[url] ?? ["text/plain", ""]
      response.writeHead(200, { "content-type": type, "content-security-policy": policy }).end(text)
    })
    started.push(server)
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  })
  afterAll(() =>
    started.forEach((server) => {
      server.closeAllConnections()
      server.close()
    })
  )

  /** Shows a part; `props` is an expression in the page, for what is too long to be sent. */
  const shown = async (name: string, props: string, visitor: Visitor = {}): Promise<Visit> => {
    const seen = await visit(address(), visitor)
    await until(seen.page, `typeof show === "function"`)
    await seen.page.evaluate(`show(${JSON.stringify(name)}, ${props})`)
    return seen
  }

  /** Presses the first button with a text. */
  const click = ({ page }: Visit, text: string) =>
    page.evaluate(
      `[...document.querySelectorAll("button")].find((it) => it.innerText.startsWith(${JSON.stringify(text)})).click()`
    )

  /** Nothing went wrong, and nobody stumbles. */
  const fine = async (seen: Visit) => {
    assert.deepStrictEqual(await seriousFindings(seen), [])
    assert.deepStrictEqual(seen.problems, [])
    assert.strictEqual(await seen.page.evaluate(`document.querySelectorAll("main img, main script").length`), 0)
    await seen.close()
  }

  for (const scheme of ["light", "dark"] as const) {
    it(`show text as what it is (${scheme})`, async () => {
      const seen = await shown("SafeText", JSON.stringify({ text: `${markup} a\u202eb pаypal\u0000` }), { scheme })
      const text = await textOf(seen.page, "main")
      assert.include(text, markup)
      assert.include(text, "a⟨U+202E⟩b pа⟨Cyrillic U+0430⟩ypal⟨U+0000⟩")
      assert.notInclude(text, "\u202e")
      await fine(seen)
    })
  }

  it("fold a text of a megabyte, say what is hidden in the rest, and show all of it page by page", async () => {
    const seen = await shown("SafeText", `{ text: "word ".repeat(200_000) + "\\u202e", block: true }`)
    assert.include(await textOf(seen.page, "main"), "998,001 more characters")
    await click(seen, "Show in pages")
    assert.include(await textOf(seen.page, "main"), "Characters 1 to 20,000 of 1,000,001")
    for (let at = 0; at < 50; at++) await click(seen, "Next page")
    assert.include(await textOf(seen.page, "main"), "⟨U+202E⟩")
    await fine(seen)
  })

  it("say that there is something hidden in what is folded", async () => {
    const seen = await shown("SafeText", `{ text: "word ".repeat(1_000) + "\\u202e" }`)
    assert.include(await textOf(seen.page, "main"), "1 of them hidden or look-alikes")
    await fine(seen)
  })

  for (const width of [1400, 390]) {
    it(`show what differs, invisible differences too (${width} wide)`, async () => {
      const before = `one\ntwo\r\n\tthree\n${markup}\nfive`
      const after = `one\ntwo\n  three\n${markup}!\nfive\n`
      const seen = await shown("Diff", JSON.stringify({ path: "a\u202e/b.ts", before, after }), { width })
      await untilText(seen.page, "Only whitespace changed")
      const text = await textOf(seen.page, "main")
      for (
        const it of [
          markup,
          "a⟨U+202E⟩/b.ts",
          "Only the line ending changed: CRLF before, LF after",
          "⟨CRLF⟩",
          "⟨no line ending⟩"
        ]
      ) {
        assert.include(text, it)
      }
      await fine(seen)
    })
  }

  it("show 5,000 changed lines page by page, each of them, and the next change", async () => {
    const lines = (mark: string) => `Array.from({ length: 5_000 }, (_, at) => "line " + at + " ${mark}\\n").join("")`
    const seen = await shown("Diff", `{ path: "x", before: ${lines("old")}, after: ${lines("new")} }`)
    await untilText(seen.page, "page 1 of 17")
    const read = new Set<string>()
    for (let at = 0; at < 17; at++) {
      for (const [line] of (await textOf(seen.page, "main")).matchAll(/line \d+ (?:old|new)/g)) read.add(line)
      if (at < 16) await click(seen, "Next page")
      await until(seen.page, `document.body.innerText.includes("page ${Math.min(at + 2, 17)} of 17")`)
    }
    assert.strictEqual(read.size, 10_000)
    await fine(seen)
  })

  it("show each change of a line of a megabyte, one after the other", async () => {
    const line = (mark: string) =>
      `Array.from({ length: 170_000 }, (_, at) => at % 17_000 === 9 ? "${mark}" : "w" + at % 700).join(" ")`
    const seen = await shown("Diff", `{ path: "x", before: ${line("old")}, after: ${line("new")} }`)
    await untilText(seen.page, "Next change")
    await click(seen, "Side by side")
    const found: Array<unknown> = []
    for (let at = 0; at < 10; at++) {
      await click(seen, "Next change")
      await until(
        seen.page,
        `document.activeElement?.dataset.row !== undefined && document.activeElement.dataset.row !== "${
          String(found.at(-1))
        }"`
      )
      found.push(await seen.page.evaluate(`document.activeElement.dataset.row`))
      assert.include(String(await seen.page.evaluate(`document.activeElement.innerText`)), "new")
    }
    assert.strictEqual(new Set(found).size, 10)
    await fine(seen)
  })

  it("open what is folded of a diff by keyboard", async () => {
    const lines = (edit: string) =>
      `Array.from({ length: 100 }, (_, at) => at === 50 ? "${edit}" : "line " + at).join("\\n")`
    const seen = await shown("Diff", `{ path: "x", before: ${lines("a")}, after: ${lines("b")} }`)
    await untilText(seen.page, "Show 47 unchanged lines")
    assert.notInclude(await textOf(seen.page, "main"), "line 3\n")
    await seen.page.focus(".diff-fold button")
    await press(seen.page, "Enter")
    await untilText(seen.page, "line 3")
    await fine(seen)
  })

  it("show a unified diff", async () => {
    const seen = await shown(
      "DiffText",
      JSON.stringify({ diff: `--- a/x\n+++ b/x\n@@ -1 +1 @@\n-${markup}\n+other\n` })
    )
    await untilText(seen.page, markup)
    await fine(seen)
  })

  it("edit arguments by keyboard, and say at the field what does not fit", async () => {
    const schema = {
      type: "object",
      properties: {
        path: { type: "string" },
        count: { type: "integer" },
        mode: { enum: ["append", "replace"] },
        force: { type: "boolean" }
      },
      required: ["path"],
      additionalProperties: true
    }
    const value = { path: markup, count: 1, mode: "append", other: { kept: [1, null] } }
    const seen = await shown("ArgsForm", JSON.stringify({ schema, value }))
    await seen.page.focus(`input[inputmode=decimal]`)
    await press(seen.page, "End")
    await seen.page.keyboard.type("x")
    await untilText(seen.page, "This is not a number.")
    await until(seen.page, `told.at(-1)._tag === "Wrong"`)
    await fineSoFar(seen)
    await press(seen.page, "Backspace", "2")
    await until(seen.page, `told.at(-1)._tag === "Fits"`)
    await seen.page.select("select", "1")
    await click(seen, "Add")
    await until(seen.page, `told.at(-1).value?.force === false`)
    assert.deepStrictEqual(await seen.page.evaluate(`told.at(-1).value`), {
      ...value,
      count: 12,
      mode: "replace",
      force: false
    })
    await fine(seen)
  })

  const fineSoFar = async (seen: Visit) => assert.deepStrictEqual(await seriousFindings(seen), [])

  it("edit arguments without a schema as JSON", async () => {
    const seen = await shown("ArgsForm", JSON.stringify({ schema: null, value: { a: 1 } }))
    await seen.page.focus("textarea")
    await seen.page.keyboard.type("x")
    await untilText(seen.page, "This is not valid JSON")
    await until(seen.page, `told.at(-1)._tag === "Wrong"`)
    await fine(seen)
  })

  const events = (calls: number) =>
    `Array.from({ length: ${calls} }, (_, index) => {
    const of = { agentPath: index % 3 === 0 ? ["helper"] : [], batch: "t", process: "p", wave: 1, callId: "c" + index + "\\u202e", tool: "write", index }
    return [
      { ...of, sequence: index * 4 + 1, at: 1000, _tag: "ToolCallQueued", params: { path: "x" } },
      { ...of, sequence: index * 4 + 2, at: 1100 + index, _tag: "ToolCallStart", attempt: 1, limitMillis: 1000 },
      ...index % 2 === 0 ? [] : [{ ...of, sequence: index * 4 + 3, at: 1300 + index * 2, _tag: "ToolCallComplete", dropped: 0, outcome: {
        _tag: "Succeeded", callId: of.callId, tool: "write", index, attempt: 1, queuedAt: 1000, startedAt: 1100 + index, duration: 200, commits: 1,
        output: { _tag: "Inline", value: ${JSON.stringify(markup)} } } }]
    ]
  }).flat()`

  it("draw 500 calls a hundred at a time, each a link, and say the same in a table", async () => {
    const seen = await shown("Timeline", `{ events: ${events(500)}, now: 3000 }`)
    await until(seen.page, `document.querySelectorAll(".lanes li").length === 100`)
    await click(seen, "Show more")
    await until(seen.page, `document.querySelectorAll(".lanes li").length === 200`)
    assert.include(await textOf(seen.page, ".lanes"), "Running")
    assert.strictEqual(await seen.page.evaluate(`document.querySelector(".lanes a").hash`), "#c1%E2%80%AE")
    await seen.page.evaluate(`document.querySelector("details").open = true`)
    assert.match(await textOf(seen.page, "table"), /write\s+x.*Succeeded.*200 ms/s)
    await fine(seen)
  })

  it("show a call whole", async () => {
    const seen = await shown("CallView", `{ approvals: [], events: ${events(2)}.filter((it) => it.index === 1) }`)
    const text = await textOf(seen.page, "main")
    for (const it of ["Succeeded", "Started, with a timeout of 1 s", markup, "Committed writes"]) {
      assert.include(text, it)
    }
    await fine(seen)
  })

  it("draw rules, walked through by keyboard, in words beside", async () => {
    const tool = (id: string, notes: ReadonlyArray<string> = []) => ({
      id,
      label: id,
      kind: id === "start" ? "start" : "tool",
      notes
    })
    const rules = {
      sentences: [],
      nodes: [tool("start"), tool("read"), tool(`write${markup}`, ["at most 3 times"])],
      edges: [{ from: "start", to: "read", kind: "next", label: "" }, {
        from: "read",
        to: `write${markup}`,
        kind: "needs",
        label: "read comes before write"
      }]
    }
    const seen = await shown("RuleGraph", JSON.stringify({ rules }))
    assert.strictEqual(await seen.page.evaluate(`document.querySelectorAll(".graph-edge").length`), 2)
    assert.match(await textOf(seen.page, ".graph-words"), /read → write.*: read comes before write/s)
    await seen.page.evaluate(`document.querySelector(".graph-node").focus()`)
    await press(seen.page, "ArrowRight", "ArrowRight")
    await untilText(seen.page, "at most 3 times")
    assert.notInclude(await textOf(seen.page, ".graph-words"), "start is followed")
    await fine(seen)
  })
})
