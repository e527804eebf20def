/**
 * Holds the map of the sources: which file may import which.
 *
 * Rings, inner to outer. A file imports from its own ring or an inner one. A
 * new file that is in no ring fails here until somebody gives it one. That no
 * files import one another in a circle is the linter's (`import/no-cycle`).
 */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { builtinModules } from "node:module"
import { posix } from "node:path"
import { fileURLToPath } from "node:url"

const rings: ReadonlyArray<{ readonly name: string; readonly core?: boolean; readonly files: ReadonlyArray<string> }> =
  [
    {
      name: "vocabulary, rules, facts and wire formats",
      core: true,
      files: ["core/vocabulary/", "core/facts/", "core/rules/", "wire/"]
    },
    { name: "store", core: true, files: ["core/store/"] },
    { name: "gates", core: true, files: ["core/gates/"] },
    { name: "output", core: true, files: ["core/output/"] },
    // What a handler and a host see of an executor, without the engine.
    { name: "contract", core: true, files: ["core/contract/"] },
    // The engine, from what it works with to what a host holds. A call knows its wave, a wave drives its calls.
    { name: "engine: data of a call", core: true, files: ["core/engine/data/"] },
    { name: "engine: ports made safe", core: true, files: ["core/engine/ports/"] },
    { name: "engine: report", core: true, files: ["core/engine/report/"] },
    { name: "engine: state", core: true, files: ["core/engine/state/"] },
    { name: "engine: call", core: true, files: ["core/engine/call/"] },
    { name: "engine: resume", core: true, files: ["core/engine/resume/"] },
    { name: "engine: wave", core: true, files: ["core/engine/wave/"] },
    { name: "engine: process", core: true, files: ["core/engine/process/"] },
    { name: "engine: executor", core: true, files: ["core/engine/executor/", "core/engine/"] },
    // Lists what a module shows, where it has more than that. Each room has such a folder.
    { name: "face", core: true, files: ["core/public/"] },
    // Beside the path of a call: listeners, a reviewer, and what looks at policies without a call.
    { name: "provenance, review and policy", core: true, files: ["provenance/", "review/", "policy/"] },
    { name: "assembly", core: true, files: ["assembly/"] },
    { name: "agent", core: true, files: ["agent/"] },
    { name: "tools, mcp, sql, adapters and terminal", files: ["tools/", "mcp/", "sql/", "adapters/", "terminal/"] },
    { name: "server", files: ["server/"] },
    { name: "cluster", files: ["cluster/"] },
    { name: "ports", files: ["ports/"] },
    // All but the command line: what `simulate` needs is here too.
    { name: "testing", files: ["testing/"] },
    { name: "cli", files: ["cli/"] },
    // Runs in browsers: of the rest of it, it has types alone.
    { name: "page", files: ["page/"] }
  ]

/** Files outside the rings: the list of modules, and what every ring may use. */
const barrel = "index.ts"
const internal = "internal/"

/** Folders with one face, `index.ts`, and what they use of the rest of the package. */
const closed: ReadonlyArray<readonly [folder: string, uses: ReadonlyArray<string>]> = [
  ["internal/json-schema/", ["internal/canonicalJson.ts", "internal/clip.ts"]],
  ["internal/secrets/", ["internal/remembered.ts", "internal/valuePath.ts"]]
]

const lineLimit = 500

/** What the page is made of, and brings along. */
const inBrowsers: ReadonlyArray<string> = [
  "preact",
  "preact/hooks",
  "@preact/signals",
  "htm",
  "effect/TextDiff",
  "@dagrejs/dagre"
]

const root = fileURLToPath(new URL("../src/", import.meta.url))

interface Import {
  readonly specifier: string
  readonly typeOnly: boolean
}

/** Reads the imports and re-exports of a module, without its comments. */
const importsOf = (text: string): ReadonlyArray<Import> => {
  const found: Array<Import> = []
  // Statements begin a line; the examples of doc comments begin with a star.
  for (const match of text.matchAll(/^(?:import|export)\s+(type\s+)?(?:[\w*{][^"';=]*?\sfrom\s+)?["']([^"']+)["']/gm)) {
    found.push({ specifier: match[2] ?? "", typeOnly: match[1] !== undefined })
  }
  const code = text.replaceAll(/^\s*(?:\*|\/\*|\/\/).*$/gm, "")
  for (const match of code.matchAll(/\b(?:import|require)\s*\(\s*["']([^"']+)["']/g)) {
    found.push({ specifier: match[1] ?? "", typeOnly: false })
  }
  return found
}

const ringOf = (file: string): number =>
  rings.findIndex((ring) => ring.files.some((it) => it.endsWith("/") ? file.startsWith(it) : file === it))

const isCore = (file: string): boolean => file.startsWith(internal) || rings[ringOf(file)]?.core === true

/** Says what is wrong with the imports of one file. */
const problemsOf = (file: string, text: string): ReadonlyArray<string> => {
  if (file === barrel) {
    return text.split("\n").flatMap((line) => {
      const isComment = /^\s*(?:$|\/\*|\*|\/\/)/.test(line)
      const match = /^export (?:type )?\* as (\w+) from "\.\/(?:[\w-]+\/)*(\w+)\.ts"$/.exec(line)
      return isComment || (match !== null && match[1] === match[2])
        ? []
        : [`${file}: only \`export * as X from "./X.ts"\`, got: ${line}`]
    })
  }
  const ring = ringOf(file)
  if (ring === -1 && !file.startsWith(internal)) {
    return [`${file}: is in no ring; give it one in test/rings.test.ts`]
  }
  return importsOf(text).flatMap(({ specifier, typeOnly }) => {
    if (!specifier.startsWith(".")) {
      if (file.startsWith("page/") && !typeOnly && !inBrowsers.includes(specifier)) {
        return [`${file}: the page does not bring ${specifier}`]
      }
      if (specifier.startsWith("effect-tool-executor")) return [`${file}: imports its own package; use a relative path`]
      return isCore(file) && isPlatform(specifier) ? [`${file}: the core does not import ${specifier}`] : []
    }
    const target = posix.join(posix.dirname(file), specifier)
    if (target === barrel) return [`${file}: imports the barrel; import the module itself`]
    for (const [folder, uses] of closed) {
      const isInside = file.startsWith(folder)
      if (isInside && !target.startsWith(folder) && !uses.includes(target)) {
        return [`${file}: ${folder} does not import ${target}`]
      }
      if (!isInside && target.startsWith(folder) && target !== `${folder}index.ts`) {
        return [`${file}: import ${folder}index.ts, not ${target}`]
      }
    }
    if (
      file.startsWith("page/") && !typeOnly &&
      !/^(?:page\/|internal\/|core\/(?:facts\/(?:EvidenceText|Lanes)|vocabulary\/WhoApproves)\.ts$)/.test(target)
    ) {
      return [`${file}: the page imports only types of ${target}`]
    }
    if (target.startsWith(internal)) return []
    if (file.startsWith(internal)) return [`${file}: internal imports only internal, got ${target}`]
    const targetRing = ringOf(target)
    if (targetRing === -1) return [`${file}: imports ${target}, which is in no ring`]
    if (targetRing <= ring) return []
    return [`${file} (${rings[ring]?.name}): imports outward, ${target} (${rings[targetRing]?.name})`]
  })
}

const isPlatform = (specifier: string): boolean =>
  specifier.startsWith("node:") ||
  builtinModules.includes(specifier) ||
  specifier.startsWith("@effect/platform-") ||
  specifier.startsWith("@effect/sql-") ||
  /^effect\/(?:cli|http|http-api|sql)(?:\/|$)/.test(specifier)

const sources = readdirSync(root, { recursive: true, encoding: "utf8" })
  .map((file) => file.replaceAll("\\", "/"))
  .filter((file) => file.endsWith(".ts"))
  .sort()
  .map((file) => [file, readFileSync(root + file, "utf8")] as const)

describe("the rings", () => {
  it("has sources to look at", () => {
    assert.isAbove(sources.length, 100)
  })

  it("reads every form of import", () => {
    const text = [
      `import * as A from "a"`,
      `import { B, type C } from "b"`,
      `import type { D } from "d"`,
      `import {\n  E,\n  F\n} from "e"`,
      `export * as G from "./G.ts"`,
      `export type { H } from "./H.ts"`,
      `import "i"`,
      ` * import { not } from "comment"`,
      `// import("comment")`,
      `const j = () => import("j")`,
      `export const k = "k"`,
      `type L = import("l").L`
    ].join("\n")
    assert.deepStrictEqual(
      importsOf(text).map((it) => it.typeOnly ? `type ${it.specifier}` : it.specifier),
      ["a", "b", "type d", "e", "./G.ts", "type ./H.ts", "i", "j", "l"]
    )
  })

  it("refuses what it is there to refuse", () => {
    const refuses = (file: string, text: string) => assert.isNotEmpty(problemsOf(file, text), `${file}: ${text}`)
    const allows = (file: string, text: string) => assert.deepStrictEqual(problemsOf(file, text), [])
    refuses("core/vocabulary/ToolCall.ts", `import { execute } from "../engine/ToolExecutor.ts"`)
    refuses("core/vocabulary/ToolCall.ts", `import type { Rules } from "../gates/Rules.ts"`)
    refuses("core/gates/Rules.ts", `import { readFileSync } from "node:fs"`)
    refuses("agent/AgentTurn.ts", `import * as Http from "effect/http"`)
    refuses("core/gates/Rules.ts", `import * as Waves from "../engine/Waves.ts"`)
    refuses("internal/glob.ts", `import * as ToolCall from "../core/vocabulary/ToolCall.ts"`)
    refuses("internal/json-schema/check.ts", `import * as Wildcard from "../wildcard.ts"`)
    refuses("core/gates/Rules.ts", `import { check } from "../../internal/json-schema/check.ts"`)
    allows("core/gates/Rules.ts", `import { compile } from "../../internal/json-schema/index.ts"`)
    allows("internal/json-schema/check.ts", `import { clip } from "../clip.ts"`)
    refuses("testing/Scenario.ts", `import * as Run from "../cli/agent/Run.ts"`)
    refuses("tools/Files.ts", `import { ToolCall } from "../index.ts"`)
    refuses("core/engine/state/Conversations.ts", `import * as Ledger from "../../../provenance/Ledger.ts"`)
    allows("policy/PolicyDiff.ts", `import type { Policy } from "../core/gates/Policy.ts"`)
    refuses("core/engine/call/Settle.ts", `import { Wave } from "../wave/Wave.ts"`)
    refuses("Unknown.ts", "")
    refuses("index.ts", `export { ToolCall } from "./core/vocabulary/ToolCall.ts"`)
    allows("index.ts", `export * as ToolCall from "./core/vocabulary/ToolCall.ts"`)
    refuses("core/contract/ToolContext.ts", `import type { ToolExecutor } from "../engine/ToolExecutor.ts"`)
    allows("core/engine/call/attempt/Attempt.ts", `import * as ToolContext from "../../../contract/ToolContext.ts"`)
    allows("tools/Files.ts", `import { readFile } from "node:fs/promises"`)
    refuses("page/main.ts", `import { covers } from "../server/api/ApiAccess.ts"`)
    refuses("page/main.ts", `import * as Schema from "effect/Schema"`)
    refuses("server/Pages.ts", `import { html } from "../page/html.ts"`)
    allows("page/main.ts", `import type { Me } from "../server/api/ApiModels.ts"`)
    allows("page/main.ts", `import { escape } from "../internal/escape.ts"`)
    allows("core/gates/Rules.ts", `import { glob } from "../../internal/glob.ts"`)
  })

  it("hold: no file imports outward", () => {
    assert.deepStrictEqual(sources.flatMap(([file, text]) => problemsOf(file, text)), [])
  })

  it("have a project of their own, so that a room that imports outward does not compile", () => {
    const projects = fileURLToPath(new URL("rooms/", import.meta.url))
    const texts = readdirSync(projects).map((file) => readFileSync(projects + file, "utf8"))
    const rooms = new Set(sources.flatMap(([file]) => file.includes("/") ? [file.slice(0, file.indexOf("/"))] : []))
    // it runs in browsers, and has a project in its folder
    rooms.delete("page")
    const missing = Array.from(rooms).filter((room) => !texts.some((text) => text.includes(`"../../src/${room}"`)))
    assert.deepStrictEqual(missing, [])
  })

  it("hold files that are short enough to be one thing", () => {
    assert.deepStrictEqual(
      sources.map(([file, text]) => ({ file, lines: text.trimEnd().split("\n").length })).filter(({ lines }) =>
        lines > lineLimit
      ),
      []
    )
  })
})
