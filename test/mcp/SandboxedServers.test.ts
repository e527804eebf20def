import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodePath from "node:path"
import { folder, run } from "../cli/harness.ts"
import { isInstalled } from "../support/installed.ts"
import { open, said, scripted, shell } from "./fixture.ts"

const isThere = isInstalled("bwrap")

/** The folder that the scripted server writes its notes to. */
const folderOf = ({ args = [] }: { readonly args?: ReadonlyArray<string> }): string =>
  NodePath.dirname((JSON.parse(args.at(-1) ?? "{}") as { readonly notes: string }).notes)

describe.skipIf(!isThere)("a server in a sandbox", () => {
  it.live("runs, and changes what it may", () =>
    Effect.gen(function*() {
      const { noted, server } = yield* scripted()
      const sandbox = { readable: [process.cwd()], writable: [folderOf(server)] }
      const { act } = yield* open({ a: { ...server, sandbox } })
      const variables = JSON.parse(said(yield* act("a", ["env"]))) as Record<string, string>
      assert.strictEqual(variables["TMPDIR"], "/tmp")
      assert.lengthOf(noted("started"), 1)
    }).pipe(Effect.scoped))

  it.live("is listed with what holds", () =>
    Effect.gen(function*() {
      const { server } = yield* scripted()
      const sandbox = { readable: [process.cwd()], writable: [folderOf(server)] }
      const { file } = yield* folder({
        "gateway.json": JSON.stringify({ mcpServers: { a: { ...server, sandbox }, b: server } })
      })
      const { code, stderr, stdout } = yield* run(["mcp", "--config", file("gateway.json"), "--list"])
      assert.strictEqual(code, 0, stderr)
      const tools = JSON.parse(stdout) as ReadonlyArray<{ readonly name: string; readonly sandbox?: object }>
      assert.deepInclude(tools.find(({ name }) => name === "a__act")?.sandbox, { _tag: "Confined", network: "none" })
      assert.isUndefined(tools.find(({ name }) => name === "b__act")?.sandbox)
    }).pipe(Effect.scoped))

  it.live("changes nothing else", () =>
    Effect.gen(function*() {
      const { server } = yield* scripted()
      const error = yield* Effect.flip(open({ a: { ...server, sandbox: { readable: [process.cwd()] } } }))
      assert.include(error.message, "ENOENT")
    }).pipe(Effect.scoped))

  it.live("sees no home folder, and not the folder of its client", () =>
    Effect.gen(function*() {
      const script = `pwd >&2; ls -A ~ >&2; ls ${process.cwd()}/package.json >&2; exit 3`
      const error = yield* Effect.flip(open({ a: { ...shell(script), sandbox: true } }))
      assert.match(error.message, /it said: \/tmp\s.*No such file/s)
    }).pipe(Effect.scoped))
})
