import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { folder, openai, run } from "../harness.ts"

const write = (path: string) => openai(["w", "write_file", { path, content: "made" }])

/** Runs calls under an organisation's and a user's file. */
const under = Effect.fnUntraced(function*(
  { config, organisation, user }: {
    readonly organisation?: unknown
    readonly user?: unknown
    readonly config?: unknown
  },
  call: unknown,
  ...flags: ReadonlyArray<string>
) {
  const home = yield* folder({
    ...organisation === undefined ? {} : { "organisation.json": organisation },
    ...config === undefined ? {} : { "config.json": config }
  })
  const base = yield* folder(user === undefined ? {} : { "tool-executor/policy.json": user })
  const work = yield* folder({ "a.txt": "alpha" })
  const env = {
    ...organisation === undefined ? {} : { TOOL_EXECUTOR_POLICY: home.file("organisation.json") },
    XDG_CONFIG_HOME: base.root,
    XDG_STATE_HOME: base.root
  }
  const args = [
    "run",
    "--root",
    work.root,
    ...config === undefined ? [] : ["--config", home.file("config.json")],
    ...flags
  ]
  return yield* run(args, { stdin: JSON.stringify(call) }).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))
  )
})

describe("the tiers of the command line", () => {
  it.live("deny what the organisation denies, whatever user, project and flags allow, and name its clause", () =>
    Effect.gen(function*() {
      const { code, stdout } = yield* under(
        {
          organisation: { deny: ["write_file(secret*)"] },
          user: { allow: ["write_file"] },
          config: { policy: { allow: ["write_file"] } }
        },
        write("secret.txt"),
        "--allow",
        "write_file"
      )
      assert.strictEqual(code, 1)
      assert.include(stdout, "deny write_file(secret*) (organisation)")
    }))

  it.live("add up what they allow", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* under({ user: { allow: ["write_file(b*)"] } }, write("b.txt"))).code, 0)
      assert.strictEqual((yield* under({ user: { allow: ["write_file(b*)"] } }, write("c.txt"))).code, 1)
      assert.strictEqual(
        (yield* under({ user: { allow: ["write_file(b*)"] } }, write("c.txt"), "--allow", "write_file(c*)")).code,
        0
      )
    }))

  it.live("allow nothing below a lock, and say which flag has no effect", () =>
    Effect.gen(function*() {
      const { code, stderr } = yield* under({ organisation: { lock: true } }, write("b.txt"), "--allow", "write_file")
      assert.strictEqual(code, 1)
      assert.include(
        stderr,
        "session: allow write_file has no effect, because the policy of the organisation is locked"
      )
    }), { tags: ["P7"] })

  it.live("keep a mode that denies, which no flag takes away", () =>
    Effect.gen(function*() {
      const config = { policy: { mode: "plan", allow: ["write_file"] } }
      const { code, stderr, stdout } = yield* under({ config }, write("b.txt"), "--mode", "acceptEdits")
      assert.strictEqual(code, 1, stderr)
      assert.include(stdout, "mode plan: nothing may be changed (project)")
    }))

  it.live("are checked: every mistake of a file is told with its path, and a file that is named has to be there", () =>
    Effect.gen(function*() {
      const organisation = {
        deny: ["write(", { tool: "refund", when: { "a..b": 1 } }],
        ask: [{ tool: "elsewhere", roles: ["x"] }],
        lok: true
      }
      const unknown = yield* under({ organisation }, write("b.txt"))
      assert.strictEqual(unknown.code, 2)
      assert.include(unknown.stderr, "lok: this key is unknown")
      const { lok: _, ...known } = organisation
      const { code, stderr } = yield* under({ organisation: known }, write("b.txt"))
      assert.strictEqual(code, 2)
      for (const path of ["organisation.json", "deny[0]", "deny[1].when.a..b"]) assert.include(stderr, path)
      assert.notInclude(stderr, "elsewhere")
      const gone = yield* run(["run"], { stdin: JSON.stringify(write("b.txt")) }).pipe(
        Effect.provideService(
          ConfigProvider.ConfigProvider,
          ConfigProvider.fromEnv({ env: { TOOL_EXECUTOR_POLICY: "/nowhere/policy.json" } })
        )
      )
      assert.strictEqual(gone.code, 2)
      assert.include(gone.stderr, "/nowhere/policy.json")
    }))

  it.live("use all keys of a config's policy", () =>
    Effect.gen(function*() {
      const config = {
        policy: { allow: ["write_file"], askAlways: [{ tool: "write_file", when: { path: { like: "b*" } } }] }
      }
      assert.strictEqual((yield* under({ config }, write("a.txt"))).code, 0)
      assert.strictEqual((yield* under({ config }, write("b.txt"))).code, 1)
    }))
})
