/**
 * The browser and the built page that tests and pictures share: unpacked and built once for all.
 */
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Puppeteer from "puppeteer-core"
import { buildPage, pageKey } from "../../scripts/build-page.ts"
import { once, sharedFolder } from "./once.ts"

const root = fileURLToPath(new URL("../../", import.meta.url))

/** Starts a browser. The first start on a machine unpacks it, which takes seconds. */
export const launch = async (): Promise<Puppeteer.Browser> => {
  const folder = await chromium()
  return await Puppeteer.launch({
    executablePath: join(folder, "chromium"),
    headless: "shell",
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--font-render-hinting=none"]
  })
}

/** Gives the folder of the page as it is now, built once for what it is built from. */
export const builtPage = (): Promise<string> => once(sharedFolder, `page-${pageKey()}`, (folder) => buildPage(folder))

// Utilities

/** Unpacks the browser; its package unpacks into the temporary folder it is told. */
const chromium = (): Promise<string> => {
  const manifest = readFileSync(join(root, "node_modules/@sparticuz/chromium/package.json"), "utf8")
  const { version } = JSON.parse(manifest) as { readonly version: string }
  return once(sharedFolder, `chromium-${version}`, async (folder) => {
    const unpack = `import chromium from "@sparticuz/chromium"; await chromium.executablePath()`
    const done = spawnSync(process.execPath, ["--input-type=module", "-e", unpack], {
      cwd: root,
      env: { ...process.env, TMPDIR: folder },
      encoding: "utf8"
    })
    if (done.status !== 0) throw new Error(`the browser could not be unpacked: ${done.stderr}`)
  })
}
