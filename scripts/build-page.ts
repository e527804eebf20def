/**
 * Bundles the page: `src/page/` with all it is made of into files that a server hands out as
 * they are. What is behind a name with a hash never changes under it.
 */
import { createHash } from "node:crypto"
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { rolldown } from "rolldown"

const root = fileURLToPath(new URL("../", import.meta.url))
const source = join(root, "src/page")

/** The files of the page below its folder, in one order everywhere. */
const files = (): ReadonlyArray<string> =>
  readdirSync(source, { recursive: true, encoding: "utf8" }).map((file) => file.replaceAll("\\", "/")).sort()

/**
 * Writes the page into a folder: `index.html`, what it names in `assets/`, and the licences of
 * what is in there.
 */
export const buildPage = async (folder: string): Promise<void> => {
  const assets = join(folder, "assets")
  mkdirSync(assets, { recursive: true })
  const bundle = await rolldown({ input: join(source, "main.ts"), platform: "browser", cwd: root })
  const { output } = await bundle.write({
    dir: assets,
    format: "esm",
    minify: true,
    entryFileNames: "page-[hash].js",
    chunkFileNames: "[name]-[hash].js"
  })
  await bundle.close()
  const entry = output.find((it) => it.type === "chunk" && it.isEntry)
  if (entry === undefined) throw new Error("the page has no entry")
  const worker = await rolldown({ input: join(source, "worker.ts"), platform: "browser", cwd: root })
  await worker.write({ file: join(folder, "sw.js"), format: "iife", minify: true })
  await worker.close()
  const css = files().filter((it) => it.endsWith(".css")).map((it) => readFileSync(join(source, it), "utf8")).join("")
  const style = css.replaceAll(/\/\*[^]*?\*\//g, "").replaceAll(/\s*\n\s*/g, "\n").trimStart()
  const styleName = `page-${createHash("sha256").update(style).digest("hex").slice(0, 8)}.css`
  writeFileSync(join(assets, styleName), style)
  const page = readFileSync(join(source, "template.html"), "utf8")
    .replace("page.css", `assets/${styleName}`)
    .replace("page.js", `assets/${entry.fileName}`)
  writeFileSync(join(folder, "index.html"), page)
  writeFileSync(join(folder, "licences.txt"), licences(output.flatMap((it) => it.type === "chunk" ? it.moduleIds : [])))
}

/** The licences of the packages that modules are of: they ask to stand beside every copy. */
const licences = (modules: ReadonlyArray<string>): string => {
  const packages = new Set(modules.flatMap((it) => /^.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(it) ?? []))
  return Array.from(packages).filter((it) => it.includes("/node_modules/")).sort().map((folder) => {
    const file = readdirSync(folder).find((it) => /^licen[cs]e/i.test(it))
    if (file === undefined) throw new Error(`${folder} has no licence to hand on`)
    return `${folder.replace(/^.*\/node_modules\//, "")}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`
  }).join("\n---\n\n")
}

/** Tells what the page is built from: the same text gives the same files. */
export const pageKey = (): string => {
  const hash = createHash("sha256")
  const made = [
    ...files().filter((it) => /\.(?:ts|css|html)$/.test(it)).map((it) => join(source, it)),
    fileURLToPath(import.meta.url),
    join(root, "package-lock.json")
  ]
  for (const file of made) hash.update(file.slice(root.length)).update("\0").update(readFileSync(file)).update("\0")
  return hash.digest("hex").slice(0, 16)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await buildPage(join(root, "dist/page"))
  console.log("dist/page is built")
}
