/**
 * Makes `effect-tool-executor` and its subpaths mean the sources.
 *
 * Use it with `node --import ./scripts/source-resolver.ts program.ts`: examples
 * then run as they would for a user, without a build.
 */
import { existsSync, readFileSync } from "node:fs"
import { registerHooks } from "node:module"

const root = new URL("../", import.meta.url)
const { exports, name } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as {
  readonly name: string
  readonly exports: Readonly<Record<string, null | string | { readonly default: string }>>
}

/** The source behind a subpath that has an entry of its own in `exports`. */
const entryOf = (subpath: string): string | undefined => {
  const entry = exports[`./${subpath}`]
  return typeof entry === "object"
    ? entry?.default.replace(/^\.\/dist\//, "src/").replace(/\.js$/, ".ts")
    : undefined
}

/** Finds the source of a specifier; `undefined` when it is another package. */
const resolveSource = (specifier: string): string | undefined => {
  if (specifier === name) return new URL("src/index.ts", root).href
  if (!specifier.startsWith(`${name}/`)) return undefined
  const subpath = specifier.slice(name.length + 1)
  // The published package closes these too.
  if (/^(?:internal|cli)\//.test(subpath)) throw new Error(`${specifier} is not part of the public interface`)
  const found = [entryOf(subpath) ?? `src/${subpath}.ts`, `src/${subpath}/index.ts`]
    .map((path) => new URL(path, root))
    .find((url) => existsSync(url))
  if (found === undefined) throw new Error(`${specifier} does not exist`)
  return found.href
}

registerHooks({
  resolve: (specifier, context, nextResolve) => nextResolve(resolveSource(specifier) ?? specifier, context)
})
