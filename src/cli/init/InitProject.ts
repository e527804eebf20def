/**
 * The files of a new project, made of templates, and what they change in a folder that has some of them. Pure; reading
 * and writing is done by `InitFiles`.
 */
import * as Predicate from "effect/Predicate"
import { wrong } from "../CliFailure.ts"

/** What people build. */
export const kinds = {
  guard: "a guard for an agent loop that exists: generateText, streamText",
  agent: "an agent, with a loop that asks before it changes things",
  backend: "a backend: agents over HTTP, people who approve, a page"
} as const

export type Kind = keyof typeof kinds

/** Who runs the model. */
export const providers = {
  anthropic: "Anthropic",
  openai: "OpenAI",
  google: "Google"
} as const

export type Provider = keyof typeof providers

/** How packages are installed and scripts run. */
export const managers = { npm: "npm", pnpm: "pnpm", yarn: "Yarn", bun: "Bun" } as const

export type Manager = keyof typeof managers

export interface Choice {
  readonly kind: Kind
  readonly provider: Provider
}

/** A file by its path below the folder. */
export type Texts = ReadonlyMap<string, string>

/** What this package knows of itself and of the packages that it works with. */
export interface Versions {
  /** What a project depends on for this package: a range, or the archive that this command came from. */
  readonly own: string
  readonly range: (dependency: string) => string
}

/** A file that is written: new, or instead of an earlier content. */
export interface Change {
  readonly path: string
  readonly before: string | undefined
  readonly after: string
}

/** Where the files of a project go in a folder that has a `package.json`. */
const inside = "tool-executor/"

/** The paths of the templates of a choice, by their paths in the project. */
export const templatesOf = ({ kind, provider }: Choice, all: ReadonlyArray<string>): ReadonlyMap<string, string> =>
  new Map(all.flatMap((path) => {
    const [folder = "", ...rest] = path.split("/")
    const target = rest.join("/")
    const name = target === "gitignore" ? ".gitignore" : target
    return [kind, provider, "shared"].includes(folder) ? [[name, path] as const] : []
  }))

/**
 * All files of a project, and the folder that they are in. `manifest` is the `package.json` that the folder has: the
 * files stay out of the way of what belongs to it, unless this command wrote it.
 */
export const filesOf = (
  choice: Choice,
  templates: Texts,
  versions: Versions,
  { manifest, name }: { readonly manifest: string | undefined; readonly name: string }
): { readonly files: Texts; readonly folder: string } => {
  const key = /keyName = "(\w+)"/.exec(templates.get("src/model.ts") ?? "")?.[1] ?? "API_KEY"
  const own = new Map([...templates, [".env.example", `${key}=\n`]])
  const needs = needsOf(choice, versions)
  if (manifest === undefined) {
    const whole = {
      name,
      private: true,
      type: "module",
      scripts: scriptsOf(""),
      ...needs,
      engines: { node: ">=22.19" }
    }
    return { folder: "", files: own.set("package.json", json(whole)) }
  }
  const found = parsed(manifest)
  const folder = Predicate.isObject(found["scripts"]) && found["scripts"]["start"] === scriptsOf("")["start"]
    ? ""
    : inside
  if (folder !== "") own.set("package.json", json({ private: true, type: "module" }))
  const files = new Map(Array.from(own, ([path, text]) => [`${folder}${path}`, text] as const))
  return { folder, files: files.set("package.json", merged(manifest, found, scriptsOf(folder), needs)) }
}

/** What writing the files changes; files that are as they should be are left out. */
export const changesOf = (files: Texts, found: Texts): ReadonlyArray<Change> =>
  Array.from(files, ([path, after]) => ({ path, before: found.get(path), after }))
    .filter(({ after, before }) => before !== after)
    .toSorted((one, other) => one.path < other.path ? -1 : 1)

/** A name for `package.json`, from the name of the folder. */
export const nameOf = (folder: string): string =>
  folder.toLowerCase().replaceAll(/[^a-z0-9._-]+/g, "-").replaceAll(/^[._-]+|-+$/g, "").slice(0, 200) || "my-agent"

/** The commands that come next, in order. */
export const nextSteps = (
  { folder, kind, manager }: { readonly kind: Kind; readonly manager: Manager; readonly folder: string }
): ReadonlyArray<readonly [command: string, what: string]> => {
  const run = (script: string): string =>
    folder === "" && manager !== "bun" && script !== "check"
      ? `${manager} ${script}`
      : `${manager} run ${scriptName(folder, script)}`
  return [
    [`${manager} install`, "install the packages"],
    [run("test"), "run the tests: no key, no network"],
    [run("check"), "check the types"],
    [`cp ${folder}.env.example ${folder}.env`, "then write the key of the provider into it"],
    [run("start"), kind === "backend" ? "serve the agent and the page for approvals" : "ask the model"]
  ]
}

interface Needs {
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
}

const needsOf = ({ kind, provider }: Choice, { own, range }: Versions): Needs => {
  const of = (names: ReadonlyArray<string>) => Object.fromEntries(names.map((it) => [it, range(it)]))
  const more = { guard: ["zod"], agent: [], backend: ["@effect/platform-node"] }[kind]
  return {
    dependencies: sorted({ "effect-tool-executor": own, ...of(["ai", "effect", `@ai-sdk/${provider}`, ...more]) }),
    devDependencies: of(["@types/node", "typescript"])
  }
}

const scriptName = (folder: string, script: string): string =>
  folder === "" ? script : script === "start" ? "tool-executor" : `tool-executor:${script}`

const scriptsOf = (folder: string): Readonly<Record<string, string>> => ({
  [scriptName(folder, "start")]: `node --env-file-if-exists=${folder}.env ${folder}src/main.ts`,
  [scriptName(folder, "test")]: folder === "" ? "node --test" : `node --test "${folder}test/**/*.test.ts"`,
  [scriptName(folder, "check")]: folder === "" ? "tsc" : `tsc -p ${folder}`
})

/** Adds what is missing and changes nothing else. */
const merged = (
  manifest: string,
  found: Readonly<Record<string, unknown>>,
  scripts: Readonly<Record<string, string>>,
  needs: Needs
): string => {
  const record = (key: string): Readonly<Record<string, unknown>> => {
    const value = found[key]
    return Predicate.isObject(value) ? value : {}
  }
  const has = (name: string) =>
    Object.hasOwn(record("dependencies"), name) || Object.hasOwn(record("devDependencies"), name)
  const added = (key: string, all: Readonly<Record<string, string>>): object => {
    const missing = Object.entries(all).filter(([name]) => !has(name) && !Object.hasOwn(record(key), name))
    return missing.length === 0 ? {} : { [key]: { ...record(key), ...Object.fromEntries(missing) } }
  }
  const indent = /^([ \t]+)"/m.exec(manifest)?.[1] ?? "  "
  return json({
    ...found,
    ...added("scripts", scripts),
    ...added("dependencies", needs.dependencies),
    ...added("devDependencies", needs.devDependencies)
  }, indent)
}

const parsed = (manifest: string): Readonly<Record<string, unknown>> => {
  try {
    const value: unknown = JSON.parse(manifest)
    if (Predicate.isObject(value)) return value
  } catch {
    // said below
  }
  throw wrong("package.json: it is not a JSON object. Correct it, then run this command again.")
}

const sorted = (all: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(all).toSorted(([one], [other]) => one < other ? -1 : 1))

const json = (value: unknown, indent = "  "): string => `${JSON.stringify(value, undefined, indent)}\n`
