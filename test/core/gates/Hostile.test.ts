/**
 * Paths, hosts and command lines that want to be taken for harmless ones, all
 * in one table: none is allowed by a pattern or a grant for those, and none is
 * shown as something that it is not.
 */
import { assert, describe, it } from "@effect/vitest"
import { type PermissionPattern, ToolAnnotations, type ToolHandlers } from "effect-tool-executor"
import { WorkspaceTools } from "effect-tool-executor/tools"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as NodeFs from "node:fs"
import * as Policy from "../../../src/core/gates/Policy.ts"
import * as ToolPolicy from "../../../src/core/gates/ToolPolicy.ts"
import * as Grant from "../../../src/core/vocabulary/Grant.ts"
import { escape } from "../../../src/internal/escape.ts"
import * as RunCommand from "../../../src/tools/command/RunCommand.ts"
import { makeFolders, put } from "../../tools/fixture.ts"

// -----------------------------------------------------------------------------
// What is harmless
// -----------------------------------------------------------------------------

interface Call {
  readonly tool: "run_command" | "write_file" | "read_file" | "fetch"
  readonly params: { readonly [name: string]: unknown }
}

const run = (command: string): Call => ({ tool: "run_command", params: { command } })
const write = (path: string): Call => ({ tool: "write_file", params: { path, content: "" } })
const read = (path: string): Call => ({ tool: "read_file", params: { path } })
const reach = (host: string): Call => ({ tool: "fetch", params: { host } })

const policy: Policy.Policy = {
  default: "ask",
  allow: [
    "run_command(npm test)",
    "run_command(git status*)",
    "run_command(ls *)",
    "run_command(* --version)",
    "write_file(src/*)",
    "write_file(caf\u00e9/*)",
    "read_file(docs/*)",
    "fetch(example.com)"
  ]
}

const benign: ReadonlyArray<Call> = [
  run("npm test"),
  { tool: "run_command", params: { argv: ["npm", "test"] } },
  run("git status"),
  run("git status --short"),
  run("ls -l src"),
  run("npm --version"),
  write("src/a.ts"),
  write("src/deep/new.ts"),
  write("caf\u00e9/a.ts"),
  read("docs/a.md"),
  reach("example.com")
]

// -----------------------------------------------------------------------------
// What is hostile
// -----------------------------------------------------------------------------

/** What a terminal obeys or does not show, and what turns the direction of text. */
const unseen = [
  ..."\0\u0007\b\t\n\v\f\r\u001b\u007f\u0080\u0085\u009b\u009d\u009f\u00a0\u00ad\u034f\u061c\u115f\u1680\u180e",
  ..."\u2003\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u202f\u205f\u2060\u2062",
  ..."\u2066\u2067\u2068\u2069\u206f\u2800\u3000\u3164\ufe0f\ufeff\uffa0\ufff9\ue000\u{e0041}\u{e0100}\u{1d173}",
  "\ud800",
  "\udfff",
  "\r\n",
  "\u001b[2K\r",
  "\u001b]0;title\u0007",
  "\u009b2J"
]

/** What shells read as more than a letter. */
const special = [..."'\"`$\\*?#~!()<>|&;^{}[]", "''", "\"\"", "$@", "$$", "${IFS}", "$'\\n'", "{a,b}", "[a-z]"]

/** What shells do beside the command in front of it. */
const followers = [
  "; rm -rf x",
  ";rm x",
  " ; rm x",
  "&& rm x",
  " && rm x",
  " || rm x",
  " | sh",
  "|sh",
  " |& tee x",
  " & rm x",
  "&",
  "\nrm x",
  "\r\nrm x",
  " \\\nrm x",
  " $(rm x)",
  " `rm x`",
  " \"$(rm x)\"",
  " ${x:-$(rm x)}",
  " $((1))",
  " $HOME",
  " > .git/config",
  " >x",
  ">>x",
  " >| x",
  " 2>&1",
  " 2>x",
  " &>x",
  " < /etc/passwd",
  " <<E\nrm x\nE",
  " <<< x",
  " <(rm x)",
  " >(sh)",
  " # harmless",
  " #",
  " {a,b}",
  " *",
  " ~",
  " ~root/x",
  " [a-z]*",
  " '--output=x'",
  " \"\"",
  " !!",
  " x; }",
  " ",
  "  ",
  " ".repeat(10_000),
  `; ${"x".repeat(100_000)}`
]

/** What makes another command of any behind it. */
const assignments = ["FOO=bar ", "PATH=/tmp ", "GIT_PAGER=sh ", "LD_PRELOAD=./x.so ", "A=1 B=2 ", "IFS= ", "x+=y "]

/** What makes another command of one whose words are known. */
const openers = [
  " ",
  "env ",
  "env -i ",
  "env FOO=bar ",
  "sudo ",
  "exec ",
  "command ",
  "eval ",
  "time ",
  "nohup ",
  "xargs ",
  "sh -c ",
  "! ",
  "{ ",
  "(",
  "./",
  "../",
  "/tmp/",
  "~/",
  "\\",
  "''",
  "# ",
  "x; ",
  "x\n",
  "if ",
  "> x "
]

const others = [
  "",
  " ",
  "\n",
  "*",
  "npm *",
  "git status*\n",
  "npm  test",
  "npm test --",
  "npm tests",
  "npm tes",
  "NPM TEST",
  "npm\\ test",
  "'npm test'",
  "n'p'm test",
  "n\"\"pm test",
  "$'npm' test",
  "npm$IFS\\test",
  "npm%20test",
  "npm+test",
  "npm t\\x65st",
  "test npm",
  "git  status",
  "GIT status",
  "git STATUS",
  "git stat",
  "git -c core.pager=sh status",
  "git -c alias.status=!sh status",
  "git -c core.fsmonitor=/tmp/x status",
  "git -C /tmp status",
  "git --git-dir=/tmp/x status",
  "git --exec-path=/tmp status",
  "git --paginate status",
  "git config core.pager sh",
  "git 'status'",
  "git \"status\"",
  "git st\\atus",
  "git st${x}atus",
  "git $(echo status)",
  "ls",
  "ls\t-l",
  "ls;rm x",
  "l\\s -l",
  "alias ls=rm",
  "ls() { rm x; }",
  "busybox ls -l"
]

/** Calls without a shell, and calls that begin elsewhere. */
const elsewhere: ReadonlyArray<Call["params"]> = [
  ...[
    ["npm test"],
    ["npm", "test", ""],
    ["", "npm", "test"],
    ["npm", " test"],
    ["npm ", "test"],
    ["npm", "test\n"],
    ["npm", "test\0"],
    ["npm", "test; rm x"],
    ["npm", "te", "st"],
    ["npm test", "x"],
    ["git status"],
    ["git", "status", "$(rm x)"],
    ["git", "status", "a b"],
    ["git", "-c", "core.pager=less", "status"],
    ["sh", "-c", "npm test"],
    ["ls", ""],
    ["ls", "*"],
    ["ls -l"],
    [""],
    []
  ].map((argv) => ({ argv })),
  ...["sub", "./", "..", "/tmp", "/", "sub/..", "./.", ". ", "", ".\0", "./sub\n", "\u202e."]
    .map((cwd) => ({ command: "npm test", cwd })),
  ...["sub", "..", "src/../.git"].map((cwd) => ({ argv: ["git", "status"], cwd }))
]

/** Letters that are drawn like those of an English word, in several alphabets. */
const lookAlikes = (word: string): ReadonlyArray<string> => {
  const drawn: { readonly [letter: string]: string } = {
    a: "\u0430",
    c: "\u0441",
    d: "\u0501",
    e: "\u0435",
    g: "\u0261",
    i: "\u0456",
    l: "\u04cf",
    m: "\u217f",
    n: "\u0578",
    o: "\u03bf",
    p: "\u0440",
    r: "\u0433",
    s: "\u0455",
    t: "\u03c4",
    u: "\u057d",
    x: "\u0445"
  }
  const moved = (by: number) => (letter: string) =>
    /[a-z]/.test(letter) ? String.fromCodePoint(letter.charCodeAt(0) + by) : letter
  const letters = Array.from(word)
  return [
    letters.map((letter) => drawn[letter] ?? letter).join(""),
    letters.map((letter, at) => at === 0 ? drawn[letter] ?? letter : letter).join(""),
    // fullwidth, mathematical bold and monospace, circled
    letters.map(moved(0xff41 - 0x61)).join(""),
    letters.map(moved(0x1d41a - 0x61)).join(""),
    letters.map(moved(0x1d68a - 0x61)).join(""),
    letters.map(moved(0x24d0 - 0x61)).join(""),
    // with marks that hardly show
    `${word.slice(0, 1)}\u0323${word.slice(1)}`,
    `${word}\u0307`,
    `${word}\u0338`
  ]
}

const commands: ReadonlyArray<Call> = [
  ...[...unseen, ...special].flatMap((it) => [`npm test${it}`, `${it}npm test`, `git${it} status`, `ls ${it}`]),
  ...followers.flatMap((it) => [`npm test${it}`, `git status${it}`]),
  ...[...assignments, "rm x; ", "rm x\n", "rm x && ", "rm x & ", "rm $(", "'", "\"", "#"].map((it) =>
    `${it}npm --version`
  ),
  ...[...assignments, ...openers].flatMap((it) => [`${it}npm test`, `${it}git status`]),
  ...["npm test", "git status", "ls -l"].flatMap(lookAlikes),
  ...lookAlikes("src").map((it) => `ls ${it}`),
  ...others
].map(run)

const gitFolders = [".git", ".GIT", ".Git", ".gIt"].flatMap((git) => [
  git,
  `${git}/`,
  `${git}//config`,
  `./${git}/config`,
  `src/../${git}/hooks/x`,
  `src/${git}`,
  `src/${git}/hooks/x`,
  `src/${git}/../${git}/x`,
  `src/deep/sub/${git}/config`,
  `src//./${git}/./config`
])

/** Real links, most of them to what no pattern is about. */
const links: ReadonlyArray<readonly [link: string, to: string]> = [
  ["src/git", "../.git"],
  ["src/hooks", "../.git/hooks"],
  ["src/config.ts", "../.git/config"],
  ["src/secret.txt", "../../outside/secret.txt"],
  ["src/outside", "../../outside"],
  ["src/root", ".."],
  ["src/self", "../src"],
  ["src/package.json", "../package.json"],
  ["src/policy.json", "../policy.json"],
  ["src/guarded.json", "../src/policy.real.json"],
  ["src/chain", "chained"],
  ["src/chained", "git"],
  ["docs/env", "../.env"],
  ["docs/up", ".."],
  ["docs/etc", "/etc"]
]

const throughLinks = [
  "src/git",
  "src/git/config",
  "src/git/new/file",
  "src/hooks/pre-commit",
  "src/config.ts",
  "src/secret.txt",
  "src/outside",
  "src/outside/secret.txt",
  "src/outside/new.txt",
  "src/root",
  "src/root/package.json",
  "src/root/new.txt",
  "src/root/.git/config",
  "src/root/docs/../.git/x",
  "src/self/.git/x",
  "src/self/self/git/config",
  "src/package.json",
  "src/policy.json",
  "src/policy.real.json",
  "src/guarded.json",
  "src/chain/config",
  "src/./chained//config"
]

const paths = (root: string): ReadonlyArray<Call> => [
  ...[
    "",
    ".",
    "./",
    "..",
    "/",
    "src",
    "src/",
    "src/.",
    "src/..",
    "src/../package.json",
    "src/../../outside/secret.txt",
    "src/./.././package.json",
    "src//..//package.json",
    "src/a/../../package.json",
    "src/a.ts/../../package.json",
    "src/missing/../../package.json",
    "../outside/src/a.ts",
    "../rootsrc/a.ts",
    "../root/package.json",
    "/etc/passwd",
    "//etc/passwd",
    "/src/a.ts",
    "/proc/self/root/etc/passwd",
    `${root}/../outside/secret.txt`,
    `${root}x/src/a.ts`,
    `${root}src/a.ts`,
    `${root}/src/../package.json`,
    `${root}/src`,
    `${"../".repeat(1_000)}etc/passwd`,
    `src/${"a/".repeat(1_000)}${"../".repeat(1_001)}package.json`,
    `src${" ".repeat(10_000)}/a.ts`,
    `${"x".repeat(100_000)}/src/a.ts`,
    "x/src/a.ts",
    "src /a.ts",
    " src/a.ts",
    "src./a.ts",
    "src.../a.ts",
    ".src/a.ts",
    "..src/a.ts",
    "SRC/a.ts",
    "Src/a.ts",
    "src\\a.ts",
    "src\\..\\.git\\config",
    "C:\\src\\a.ts",
    "\\\\host\\src\\a.ts",
    "src:a.ts",
    "src/../src:stream/a.ts",
    "file:///src/a.ts",
    "~/src/a.ts",
    "$PWD/src/a.ts",
    "*/a.ts",
    "s?c/a.ts",
    "*",
    "**/*",
    "{src,x}/a.ts",
    "src%2fa.ts",
    "src%2f..%2fpackage.json",
    "%73rc/a.ts",
    "%2e%2e/outside",
    "src/../%2e%2e/x",
    "src%00/a.ts",
    "src\u2215a.ts",
    "src\uff0fa.ts",
    "src\u2044..\u2044package.json",
    "cafe\u0301/a.ts",
    "cafe/a.ts",
    "CAF\u00c9/a.ts",
    "caf\u0435\u0301/a.ts",
    "caf\u00c3\u00a9/a.ts",
    ".git /config",
    ".git./config",
    ".git::$INDEX_ALLOCATION/config",
    "git~1/config",
    ".g\u200cit/config",
    "\uff0egit/config",
    ".git\\config",
    ...gitFolders,
    ...throughLinks,
    ...lookAlikes("src").map((it) => `${it}/a.ts`),
    ...[...unseen, ...special].flatMap((it) => [`${it}src/a.ts`, `s${it}rc/a.ts`, `src/../${it}/a.ts`])
  ].map(write),
  ...[
    "docs",
    "docs/../.env",
    "docs/../docs",
    "docs/./../.git/config",
    "docs/.git/config",
    "docs/deep/.GIT/HEAD",
    "docs/env",
    "docs/up/.env",
    "docs/up/src/a.ts",
    "docs/up/.git/HEAD",
    "docs/etc/passwd",
    "DOCS/a.md",
    "docs\u2215a.md",
    ".env",
    ...lookAlikes("docs").map((it) => `${it}/a.md`)
  ].map(read)
]

const hosts: ReadonlyArray<Call> = [
  "",
  "*",
  "?xample.com",
  "example",
  "com",
  "example.com.",
  "example.com..",
  ".example.com",
  "example..com",
  "EXAMPLE.COM",
  "Example.com",
  "www.example.com",
  "notexample.com",
  "example.com.evil.test",
  "example.com-evil.test",
  "example-com",
  "exampleXcom",
  "example.co",
  "example.comm",
  "exarnple.com",
  "examp1e.com",
  "example.com:80",
  "example.com:443",
  "example.com@evil.test",
  "user@example.com",
  "evil.test/example.com",
  "evil.test#example.com",
  "evil.test?example.com",
  "evil.test\\@example.com",
  "https://example.com",
  "//example.com",
  "example.com/",
  "example.com/..",
  "example%2ecom",
  "%65xample.com",
  "example\u3002com",
  "example\uff0ecom",
  "example\uff61com",
  "ex\u00e4mple.com",
  "exa\u0308mple.com",
  "xn--exmple-cua.com",
  "xn--xample-9uf.com",
  "localhost",
  "127.0.0.1",
  "2130706433",
  "0x7f000001",
  "[::1]",
  "169.254.169.254",
  `${"example.com.".repeat(1_000)}evil.test`,
  ...lookAlikes("example.com"),
  ...[...unseen, ...special].flatMap((it) => [`example.com${it}`, `${it}example.com`, `exam${it}ple.com`])
].map(reach)

/** The table; the root is where absolute paths begin. */
const table = (root: string): ReadonlyArray<Call> => {
  const all = [
    ...commands,
    ...elsewhere.map((params): Call => ({ tool: "run_command", params })),
    ...paths(root),
    ...hosts
  ]
  return Array.from(new Map(all.map((call) => [JSON.stringify(call), call])).values())
}

// -----------------------------------------------------------------------------
// How it is judged
// -----------------------------------------------------------------------------

/** A tool of a host, whose calls are about the host to the letter. */
const fetchTool = Tool.make("fetch", { parameters: Schema.Struct({ host: Schema.String }) })
  .annotate(ToolAnnotations.Targets, (params) => [{ text: (params as { readonly host: string }).host }])

const parsed = Result.getOrThrow(Policy.parse(policy))

const decide = (tool: string, targets: ReadonlyArray<PermissionPattern.Target>) =>
  ToolPolicy.forTool(
    parsed,
    {
      name: tool,
      class: "SerialMut",
      openWorld: false,
      edits: true,
      guardsTargets: true
    } as ToolHandlers.RegisteredTool
  ).decide({ targets, needsApproval: false })._tag

interface Judged extends Call {
  readonly agentPath: ReadonlyArray<string>
  readonly targets: ReadonlyArray<PermissionPattern.Target>
  readonly decision: Policy.Decision["_tag"]
}

/** Says of calls in a real folder, with real links, what they are about and what the policy holds of them. */
const judged = Effect.gen(function*() {
  const { root } = yield* makeFolders
  put(root, {
    "src/a.ts": "",
    "src/policy.real.json": "{}",
    "src/deep/": "",
    "docs/a.md": "",
    "caf\u00e9/": "",
    "sub/": "",
    ".git/hooks/": "",
    ".git/config": "",
    ".git/HEAD": "",
    ".env": "",
    "package.json": "{}",
    "policy.json": "{}"
  })
  for (const [link, to] of links) NodeFs.symlinkSync(to, `${root}/${link}`)
  const { toolkit } = WorkspaceTools.make({ root, protect: ["policy.json", "src/policy.real.json"] })
  const tools: { readonly [name in Call["tool"]]: Tool.Any } = { ...toolkit.tools, fetch: fetchTool }
  const judge = Effect.fnUntraced(function*({ params, tool }: Call): Effect.fn.Return<Judged> {
    const found = Context.get(tools[tool].annotations, ToolAnnotations.Targets)!(params)
    const targets = Effect.isEffect(found) ? yield* found : found
    return { tool, params, agentPath: [], targets, decision: decide(tool, targets) }
  })
  return {
    harmless: yield* Effect.forEach(benign, judge),
    hostile: yield* Effect.forEach(table(root), judge, { concurrency: 16 })
  }
}).pipe(Effect.scoped)

const textsOf = (calls: ReadonlyArray<Judged>) => calls.flatMap((it) => it.targets.map(({ text }) => text))

const said = ({ params, tool }: Call) => `${tool} ${JSON.stringify(params).slice(0, 200)}`

const grantFor = (tool: string, targets: ReadonlyArray<string>): Grant.Grant => ({
  id: "g",
  principal: "p",
  tool,
  agentPath: [],
  targets,
  answer: "ApproveForScope",
  grantedAt: 0
})

// -----------------------------------------------------------------------------
// How it is shown
// -----------------------------------------------------------------------------

/** Controls, line breaks, lone surrogates, what turns the direction and what takes no room. */
const corrupting =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Join_Control}\p{Variation_Selector}\p{Default_Ignorable_Code_Point}\u2800]/u

/** What a shown text was; only of texts without a backslash of their own. */
const unescape = (shown: string): string =>
  shown.replace(
    /\\(?:([nrt])|u([0-9a-f]{4})|u\{([0-9a-f]+)\})/g,
    (_, letter: string | undefined, unit: string | undefined, point: string | undefined) =>
      letter === undefined ?
        String.fromCodePoint(Number.parseInt((unit ?? point)!, 16)) :
        ({ n: "\n", r: "\r", t: "\t" })[letter]!
  )

/** Any text, with much of what is in the table. */
const Texts = Schema.Array(Schema.Union([Schema.Literals([...unseen, ...special, "npm", "u200b", "n"]), Schema.String]))

// -----------------------------------------------------------------------------
// What holds
// -----------------------------------------------------------------------------

describe("the table of what is hostile", () => {
  it("holds more than 300 calls, and each once", () => {
    const keys = table("/root").map((it) => JSON.stringify(it))
    assert.isAtLeast(new Set(keys).size, 300)
    assert.strictEqual(new Set(keys).size, keys.length)
    for (
      const [tool, least] of [["run_command", 300], ["write_file", 200], ["read_file", 20], ["fetch", 100]] as const
    ) {
      assert.isAtLeast(table("/root").filter((it) => it.tool === tool).length, least, tool)
    }
  })
})

describe("a pattern for what is harmless", () => {
  it.live("allows that, and nothing hostile", () =>
    Effect.gen(function*() {
      const { harmless, hostile } = yield* judged
      assert.deepStrictEqual(harmless.filter((it) => it.decision !== "Allow").map(said), [])
      assert.deepStrictEqual(hostile.filter((it) => it.decision === "Allow").map(said), [])
    }), { tags: ["P4"] })

  it.live("leads to a question about everything in a .git, whatever its case and the way to it", () =>
    Effect.gen(function*() {
      const { hostile } = yield* judged
      const open = hostile.filter(({ params, targets, tool }) =>
        tool === "write_file" && gitFolders.includes(String(params["path"])) && targets[0]?.kind !== "protected"
      )
      assert.deepStrictEqual(open.map(said), [])
    }))
})

describe("a grant", () => {
  it.live("for what is harmless covers that, and nothing hostile", () =>
    Effect.gen(function*() {
      const { harmless, hostile } = yield* judged
      const covered = (it: Judged) =>
        Grant.covers(grantFor(it.tool, textsOf(harmless.filter(({ tool }) => tool === it.tool))), it, 0)
      assert.deepStrictEqual(harmless.filter((it) => !covered(it)).map(said), [])
      assert.deepStrictEqual(hostile.filter(covered).map(said), [])
    }))

  it.live("for something hostile covers nothing but what it is about, to the letter", () =>
    Effect.gen(function*() {
      const { harmless, hostile } = yield* judged
      const all = [...harmless, ...hostile]
      for (const one of hostile) {
        const [text] = textsOf([one])
        const grant = grantFor(one.tool, [text!])
        assert.isTrue(Grant.covers(grant, one, 0), said(one))
        const more = all.filter((it) =>
          Grant.covers(grant, it, 0) && (it.tool !== one.tool || it.targets.some((target) => target.text !== text))
        )
        assert.deepStrictEqual(more.map(said), [], said(one))
      }
    }))

  it.live("for one command covers no other: no two have the same target", () =>
    Effect.gen(function*() {
      const { hostile } = yield* judged
      const texts = textsOf(hostile.filter(({ tool }) => tool === "run_command"))
      assert.deepStrictEqual(texts.filter((text, at) => texts.indexOf(text) !== at), [])
    }))
})

describe("a command line", () => {
  const plain = /^[A-Za-z0-9_./:@%+,= -]*$/

  it.prop(
    "with a character outside of plain words is no target that a pattern allows",
    [Texts, Schema.Union([Schema.Literals([...unseen, ...special]), Schema.String]), Texts],
    ([before, odd, after]) => {
      const command = [...before, odd, ...after].join("")
      if (plain.test(command)) return
      for (const params of [{ command }, { argv: command.split(" ") }, { argv: [command] }]) {
        const targets = RunCommand.targets(params)
        assert.deepStrictEqual(targets.map(({ kind }) => kind), ["exact"])
        assert.strictEqual(decide("run_command", targets), "Ask")
      }
    },
    { arbitrary: { runs: 500 } }
  )

  it.prop(
    "that begins like a harmless one is none, whatever odd comes behind it",
    [Schema.Literals(["npm test", "git status", "ls "]), Texts],
    ([head, tail]) => {
      const command = `${head}${tail.join("")}`
      if (plain.test(command)) return
      assert.strictEqual(decide("run_command", RunCommand.targets({ command })), "Ask")
    },
    { arbitrary: { runs: 500 } }
  )
})

describe("the display of a call", () => {
  const texts = Effect.map(judged, ({ harmless, hostile }) => [
    ...textsOf([...harmless, ...hostile]),
    ...hostile.flatMap(({ params }) => Object.values(params).filter((it) => typeof it === "string"))
  ])

  it.live("is one visible line without anything that a terminal obeys or hides", () =>
    Effect.gen(function*() {
      assert.match("\u202e", corrupting)
      for (const text of yield* texts) {
        for (const shown of [escape(text), escape(JSON.stringify(text))]) {
          assert.notMatch(shown, corrupting, JSON.stringify(text))
        }
      }
    }), { tags: ["AP6"] })

  it.live("is not what is shown of another one", () =>
    Effect.gen(function*() {
      const given = [...new Set(yield* texts)]
      for (const show of [escape, (text: string) => escape(JSON.stringify(text))]) {
        const of = new Map<string, string>()
        for (const text of given) {
          const shown = show(text)
          assert.isUndefined(of.get(shown), JSON.stringify([text, of.get(shown)]))
          of.set(shown, text)
        }
      }
    }))

  it.prop("is one visible line for any text", [Texts], ([parts]) => {
    assert.notMatch(escape(parts.join("")), corrupting)
  }, { arbitrary: { runs: 500 } })

  it.prop("tells what the text was, if it has no backslash of its own", [Texts], ([parts]) => {
    const text = parts.join("").replaceAll("\\", "/")
    assert.strictEqual(unescape(escape(text)), text)
  }, { arbitrary: { runs: 500 } })

  it.prop("as JSON is another one for a text that spells its escapes out", [Texts], ([parts]) => {
    const text = parts.join("")
    const spelt = escape(text)
    if (spelt === text) return
    assert.notStrictEqual(escape(JSON.stringify(spelt)), escape(JSON.stringify(text)))
  }, { arbitrary: { runs: 500 } })
})
