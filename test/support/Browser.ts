/**
 * A real browser for tests of the page: one for a run, from npm (`support/globalBrowser.ts`
 * starts it). What a page does that it must not do is collected as it happens.
 */
import { source as axe } from "axe-core"
import * as Puppeteer from "puppeteer-core"
import { afterAll, beforeAll } from "vitest"

export { builtPage, launch } from "./Chromium.ts"

/** A net for what never comes, in milliseconds: long, since a machine may be slow. */
const patience = 60_000

/** A page of the browser, and what went wrong in it: none of it may. */
export interface Visit {
  readonly page: Puppeteer.Page
  /** Violations of the policy, errors, dialogs, requests to another host. */
  readonly problems: ReadonlyArray<string>
  readonly close: () => Promise<void>
}

/** How somebody comes to the page. */
export interface Visitor {
  readonly width?: number | undefined
  readonly height?: number | undefined
  readonly scheme?: "light" | "dark" | undefined
  /** Shares nothing with other visitors, cookies neither; default: true. */
  readonly alone?: boolean | undefined
}

/** Connects the tests of a file to the browser of this run. */
export const browserForFile = (): { readonly visit: (url: string, visitor?: Visitor) => Promise<Visit> } => {
  const connected: Array<Puppeteer.Browser> = []
  const browserWSEndpoint = process.env["TEST_BROWSER"]!
  beforeAll(async () => void connected.push(await Puppeteer.connect({ browserWSEndpoint, defaultViewport: null })))
  afterAll(() => Promise.all(connected.map((it) => it.disconnect())))
  return { visit: (url, visitor = {}) => visit(connected[0]!, url, visitor) }
}

/** A finding of axe that somebody with a disability would stumble over. */
export interface Finding {
  readonly id: string
  readonly impact: string
  readonly help: string
  readonly nodes: ReadonlyArray<string>
}

/** Runs axe on what is shown, and gives what is serious or worse. */
export const seriousFindings = async ({ page }: Visit): Promise<ReadonlyArray<Finding>> => {
  await page.evaluate(axe)
  const results = await page.evaluate(`axe.run(document, { resultTypes: ["violations"] }).then((it) =>
    it.violations.map(({ help, id, impact, nodes }) =>
      ({ id, impact, help, nodes: nodes.map((node) => node.target.join(" ") + ": " + node.failureSummary) })))`)
  return (results as ReadonlyArray<Finding>).filter((it) => it.impact === "serious" || it.impact === "critical")
}

/** Sees the text of a part of the page as it is shown. */
export const textOf = async (page: Puppeteer.Page, selector = "body"): Promise<string> =>
  String(await page.evaluate(`document.querySelector(${JSON.stringify(selector)}).innerText`))

/** Waits until a condition, written as an expression in the page, holds. */
export const until = async (page: Puppeteer.Page, expression: string): Promise<void> => {
  await page.waitForFunction(expression, { timeout: patience, polling: 50 })
}

/** Waits until a text is shown. */
export const untilText = (page: Puppeteer.Page, text: string): Promise<void> =>
  until(page, `document.body.innerText.includes(${JSON.stringify(text)})`)

/** Presses keys one after the other. */
export const press = async (page: Puppeteer.Page, ...keys: ReadonlyArray<Puppeteer.KeyInput>): Promise<void> => {
  for (const key of keys) await page.keyboard.press(key)
}

/** Goes to the next question with its key, and is there when its heading has the focus. */
export const next = async (page: Puppeteer.Page): Promise<void> => {
  const before = await page.evaluate("location.hash")
  await press(page, "j")
  await until(page, `location.hash !== ${JSON.stringify(before)} && document.activeElement?.matches("h1")`)
}

/** Waits for an element that is so, by an expression over `it`, and goes there with the tabulator. */
export const tabTo = async (page: Puppeteer.Page, is: string): Promise<void> => {
  await until(page, `[...document.querySelectorAll("*")].some((it) => ${is})`)
  for (let tabs = 0; tabs < 50; tabs++) {
    if (await page.evaluate(`((it) => ${is})(document.activeElement)`) === true) return
    await press(page, "Tab")
  }
  throw new Error(`no tabulator leads to where ${is}`)
}

/** Logs in, by keyboard alone: the field has the focus when the page comes up. */
export const logIn = async (page: Puppeteer.Page, token: string): Promise<void> => {
  await page.waitForSelector("input[name=token]")
  await until(page, `document.activeElement?.name === "token"`)
  await page.keyboard.type(token)
  await press(page, "Enter")
  await page.waitForSelector("nav")
}

// Utilities

const visit = async (browser: Puppeteer.Browser, url: string, visitor: Visitor): Promise<Visit> => {
  const context = visitor.alone === false ? browser.defaultBrowserContext() : await browser.createBrowserContext()
  const page = await context.newPage()
  page.setDefaultTimeout(patience)
  const problems: Array<string> = []
  await page.setViewport({ width: visitor.width ?? 1200, height: visitor.height ?? 800 })
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: visitor.scheme ?? "light" }])
  await page.exposeFunction("tellViolation", (it: string) => void problems.push(it))
  await page.evaluateOnNewDocument(`addEventListener("securitypolicyviolation", (it) =>
    tellViolation("violates " + it.effectiveDirective + ": " + it.blockedURI + " " + it.sample))`)
  page.on("pageerror", (error) => void problems.push(`throws ${String(error)}`))
  page.on("dialog", (dialog) => {
    problems.push(`opens a dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on("console", (message) => {
    // what the network says is no error of the page: a connection is lost, a token is wrong
    const isNetwork = /Failed to load resource|net::ERR/.test(message.text())
    if (message.type() === "error" && !isNetwork) problems.push(`says ${message.text()}`)
  })
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url())
    if (protocol !== "data:" && origin !== new URL(url).origin) problems.push(`asks ${request.url()}`)
  })
  await page.goto(url, { waitUntil: "domcontentloaded" })
  return {
    page,
    problems,
    close: () => visitor.alone === false ? page.close() : context.close()
  }
}
