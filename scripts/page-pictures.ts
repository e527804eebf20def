/**
 * Takes pictures of the page with made-up requests: those of the guides, or in a folder all views at 1280 and 390
 * pixels, light and dark. `node --import ./scripts/source-resolver.ts scripts/page-pictures.ts [folder [name ...]]`
 */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { builtPage, launch } from "../test/support/Chromium.ts"
import { startScripted, token } from "../test/support/scriptedServer.ts"
import { tellStory } from "./page-story.ts"

const [folder, ...names] = process.argv.slice(2)
const images = fileURLToPath(new URL("../docs/images/", import.meta.url))
mkdirSync(folder ?? images, { recursive: true })

/** How a picture is taken. */
interface Look {
  readonly width: 1280 | 390
  readonly scheme: "light" | "dark"
}

/** A view, and the pictures of it in the guides. */
interface View {
  readonly name: string
  /** Its address; absent: before the login. */
  readonly at?: string
  /** Selectors that are clicked, one after the other. */
  readonly clicks?: ReadonlyArray<string>
  readonly guide?: ReadonlyArray<Look & { readonly file: string }>
}

const light = { width: 1280, scheme: "light" } as const
const dark = { width: 1280, scheme: "dark" } as const
const phone = { width: 390, scheme: "light" } as const

const views: ReadonlyArray<View> = [
  { name: "login" },
  { name: "approvals", at: "approvals" },
  { name: "diff", at: "approvals/diff", guide: [{ ...light, file: "approval" }, { ...dark, file: "approval-dark" }] },
  { name: "similar", at: "approvals/diff", clicks: ["[data-key=more]"] },
  { name: "command", at: "approvals/command", guide: [{ ...phone, file: "narrow" }] },
  { name: "mail", at: "approvals/mail" },
  { name: "ended", at: "approvals/resolved/ended" },
  { name: "bulk", at: "approvals", clicks: [".hint .btn", "a[href$=bulk]"] },
  { name: "conversations", at: "conversations" },
  { name: "conversation", at: "conversations/ada/Round discounts", guide: [{ ...light, file: "conversation" }] },
  { name: "conversation-ended", at: "conversations/ada/staging" },
  { name: "conversation-new", at: "conversations/new" },
  { name: "runs", at: "runs/ada/Round discounts/t2/reviewer/call-4", guide: [{ ...light, file: "runs" }] },
  { name: "journal", at: "journal" },
  { name: "journal-call", at: "journal/995", guide: [{ ...light, file: "journal" }] },
  { name: "undo", at: "undo/ada/Round discounts/call-diff", guide: [{ ...light, file: "undo" }] },
  { name: "grants", at: "grants", guide: [{ ...light, file: "grants" }] },
  { name: "rules", at: "rules", guide: [{ ...light, file: "rules" }] },
  { name: "health", at: "health", guide: [{ ...dark, file: "health" }] }
]

const all = (name: string): ReadonlyArray<Look & { readonly file: string }> =>
  ([1280, 390] as const).flatMap((width) =>
    (["light", "dark"] as const).map((scheme) => ({ width, scheme, file: `${name}-${width}-${scheme}` }))
  )

const server = await startScripted(await builtPage())
tellStory(server)
const browser = await launch()
try {
  for (const { at, clicks = [], guide = [], name } of views) {
    if (names.length > 0 && !names.includes(name)) continue
    for (const { file, scheme, width } of folder === undefined ? guide : all(name)) {
      const context = await browser.createBrowserContext()
      const page = await context.newPage()
      await page.setViewport({ width, height: width === 390 ? 844 : 800 })
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }])
      await page.goto(at === undefined ? server.url : `${server.url}#/${at}`)
      await page.waitForSelector("input[name=token]")
      if (at !== undefined) {
        await page.type("input[name=token]", token)
        await page.keyboard.press("Enter")
        await page.waitForSelector("nav")
        await page.waitForNetworkIdle({ idleTime: 300, concurrency: 2 })
      }
      for (const it of clicks) await page.click(it)
      await page.screenshot({ path: join(folder ?? images, `page-${file}.png`) as `${string}.png` })
      await context.close()
    }
  }
} finally {
  await browser.close()
  await server.close()
}
