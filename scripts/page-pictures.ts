/**
 * Takes the pictures of the page for the guides: every view, with made-up requests, at 1280 and 390 pixels, light and
 * dark. `npx node scripts/page-pictures.ts [folder] [name ...]`
 */
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { builtPage, launch } from "../test/support/Chromium.ts"
import { startScripted, token } from "../test/support/scriptedServer.ts"
import { tellStory } from "./page-story.ts"

const [folder = fileURLToPath(new URL("../docs/images/", import.meta.url)), ...names] = process.argv.slice(2)
mkdirSync(folder, { recursive: true })

/** A picture: the address that it shows, and keys that are pressed there. */
const pictures: ReadonlyArray<{ readonly name: string; readonly at?: string; readonly keys?: string }> = [
  { name: "login" },
  { name: "approvals", at: "approvals" },
  { name: "diff", at: "approvals/diff" },
  { name: "command", at: "approvals/command" },
  { name: "mail", at: "approvals/mail" },
  { name: "ended", at: "approvals/ended" },
  { name: "conversations", at: "conversations" },
  { name: "conversation", at: "conversations/ada/Round discounts" },
  { name: "conversation-ended", at: "conversations/ada/staging" },
  { name: "conversation-new", at: "conversations/new" },
  { name: "runs", at: "runs/ada/Round discounts/t2/reviewer/call-4" },
  { name: "journal", at: "journal" },
  { name: "journal-call", at: "journal/995" },
  { name: "grants", at: "grants" },
  { name: "rules", at: "rules" },
  { name: "health", at: "health" }
]

const sizes = [{ width: 1280, height: 800 }, { width: 390, height: 844 }] as const

const server = await startScripted(await builtPage())
tellStory(server)
const browser = await launch()
try {
  for (const { at, name } of pictures.filter((it) => names.length === 0 || names.includes(it.name))) {
    for (const size of sizes) {
      for (const scheme of ["light", "dark"] as const) {
        const context = await browser.createBrowserContext()
        const page = await context.newPage()
        await page.setViewport(size)
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }])
        await page.goto(at === undefined ? server.url : `${server.url}#/${at}`)
        await page.waitForSelector("input[name=token]")
        if (at !== undefined) {
          await page.type("input[name=token]", token)
          await page.keyboard.press("Enter")
          await page.waitForSelector("nav")
          await page.waitForNetworkIdle({ idleTime: 300, concurrency: 1 })
        }
        await page.screenshot({ path: join(folder, `page-${name}-${size.width}-${scheme}.png`) as `${string}.png` })
        await context.close()
      }
    }
  }
} finally {
  await browser.close()
  await server.close()
}
