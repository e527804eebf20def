/** What is decided about sandboxes without one: tested everywhere. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as LocalExecutor from "../../../src/assembly/LocalExecutor.ts"
import { ToolExecutor } from "../../../src/core/engine/ToolExecutor.ts"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import type * as Policy from "../../../src/core/gates/Policy.ts"
import * as Grant from "../../../src/core/vocabulary/Grant.ts"
import * as ToolCall from "../../../src/core/vocabulary/ToolCall.ts"
import * as RunCommand from "../../../src/tools/command/RunCommand.ts"
import * as BwrapArguments from "../../../src/tools/sandbox/BwrapArguments.ts"
import * as Sandbox from "../../../src/tools/sandbox/Sandbox.ts"
import * as SandboxBwrap from "../../../src/tools/sandbox/SandboxBwrap.ts"
import * as SandboxNote from "../../../src/tools/sandbox/SandboxNote.ts"
import * as SandboxProbe from "../../../src/tools/sandbox/SandboxProbe.ts"
import * as Seccomp from "../../../src/tools/sandbox/Seccomp.ts"
import * as WorkspaceTools from "../../../src/tools/workspace/WorkspaceTools.ts"
import { makeFolders } from "../fixture.ts"

const confinement: BwrapArguments.Confinement = {
  system: [{ path: "/usr" }, { path: "/bin", link: "usr/bin" }],
  readable: ["/home/ada/.nvm/node/bin"],
  writable: ["/home/ada/work"],
  guarded: ["/home/ada/work/.git", "/home/ada/work/a/b/.npmrc"],
  hidden: ["/home/ada/work/run/x.sock"],
  home: "/home/ada",
  cwd: "/home/ada/work",
  environment: { PATH: "/usr/bin" },
  seccomp: 6,
  status: 4
}

/** Where a mount is among the arguments. */
const at = (how: string, path: string): number => {
  const args = BwrapArguments.make(confinement)
  return args.findIndex((it, index) => it === how && (args[index + 1] === path || args[index + 2] === path))
}

describe("the arguments of bwrap", () => {
  it("mount what lies higher first, and what is guarded last", () => {
    const order = [
      at("--tmpfs", "/home/ada"),
      at("--bind", "/home/ada/work"),
      at("--bind", "/home/ada/work/a"),
      at("--bind", "/home/ada/work/a/b"),
      at("--ro-bind", "/home/ada/work/a/b/.npmrc"),
      at("--ro-bind", "/home/ada/work/run/x.sock"),
      at("--remount-ro", "/")
    ]
    assert.notInclude(order, -1)
    assert.deepStrictEqual(order, order.toSorted((a, b) => a - b))
  })

  it("share no namespace with the host, keep no capability, and pass on no variable", () => {
    const args = BwrapArguments.make(confinement)
    const wanted = [
      "--unshare-all",
      "--disable-userns",
      "--die-with-parent",
      "--new-session",
      "--cap-drop",
      "--clearenv"
    ]
    for (const it of wanted) assert.include(args, it)
    for (const it of ["--share-net", "--dev-bind", "--cap-add"]) assert.notInclude(args, it)
  })

  it("never show the home folder, nor what covers the system", () => {
    const binds = (it: BwrapArguments.Confinement) =>
      BwrapArguments.make(it).filter((arg, index, args) => /^--(?:ro-)?bind$/.test(args[index - 1] ?? "") && arg !== "")
    assert.notInclude(binds(confinement), "/home/ada")
    for (const home of ["/", "/usr", "/usr/share/ada", "/tmp"]) {
      const args = BwrapArguments.make({ ...confinement, home })
      assert.isFalse(args.some((arg, index) => arg === "--tmpfs" && args[index + 1] === home && home !== "/tmp"), home)
    }
  })
})

const mountinfo = (changes: Readonly<Record<string, string>> = {}): string =>
  Object.entries({
    "/home/ada/work": "20 1 8:1 /ada/work /home/ada/work rw,nosuid - ext4 /dev/sda rw",
    "/home/ada/work/.git": "21 20 8:1 /ada/work/.git /home/ada/work/.git ro,nosuid - ext4 /dev/sda rw",
    "/home/ada/work/a": "22 20 8:1 /ada/work/a /home/ada/work/a rw,nosuid - ext4 /dev/sda rw",
    "/home/ada/work/a/b": "23 22 8:1 /ada/work/a/b /home/ada/work/a/b rw,nosuid - ext4 /dev/sda rw",
    "/home/ada/work/a/b/.npmrc":
      "24 23 8:1 /ada/work/a/b/.npmrc /home/ada/work/a/b/.npmrc ro,nosuid - ext4 /dev/sda rw",
    "/home/ada/work/run": "25 20 8:1 /ada/work/run /home/ada/work/run rw,nosuid - ext4 /dev/sda rw",
    "/home/ada/work/run/x.sock": "26 25 0:5 /null /home/ada/work/run/x.sock ro,nosuid - devtmpfs udev rw",
    ...changes
  }).map(([, line]) => line).join("\n")

describe("what is mounted", () => {
  it("is compared with what was meant", { tags: ["SB4"] }, () => {
    assert.isUndefined(BwrapArguments.wrongMount(confinement, mountinfo()))
  })

  for (
    const [name, path, line] of [
      ["missing", "/home/ada/work/.git", ""],
      ["writable", "/home/ada/work/.git", "21 20 8:1 /ada/work/.git /home/ada/work/.git rw - ext4 /dev/sda rw"],
      ["of another folder", "/home/ada/work/.git", "21 20 8:1 /root/.ssh /home/ada/work/.git ro - ext4 /dev/sda rw"],
      [
        "of another device",
        "/home/ada/work/.git",
        "21 20 8:2 /ada/work/.git /home/ada/work/.git ro - ext4 /dev/sdb rw"
      ],
      ["not a pinned folder", "/home/ada/work/a", ""],
      ["a socket still", "/home/ada/work/run/x.sock", ""]
    ] as const
  ) {
    it(`is found wrong if it is ${name}`, () => {
      assert.strictEqual(BwrapArguments.wrongMount(confinement, mountinfo({ [path]: line })), path)
    })
  }

  it("is read with its spaces and other letters", () => {
    const root = "/w/a b é\\"
    const line = (from: string, options: string) => `20 1 8:1 ${from} ${from} ${options} - ext4 /dev/sda rw`
    const escaped = "/w/a\\040b\\040é\\134"
    const given = { ...confinement, writable: [root], guarded: [`${root}/.git`], hidden: [] }
    const text = [line(escaped, "rw"), line(`${escaped}/.git`, "ro")].join("\n")
    assert.isUndefined(BwrapArguments.wrongMount(given, text))
  })
})

describe("a probe", () => {
  const held = (changes: Readonly<Record<string, string>> = {}) =>
    Sandbox.all.map((it) => `${it}=${changes[it] ?? "no"}`).join("\n")

  it("says what holds, and what is missing", () => {
    assert.deepStrictEqual(SandboxProbe.verdict(held()), Result.succeed({ holds: Sandbox.all, missing: [] }))
    const without = Result.getOrThrow(SandboxProbe.verdict(held({ syscalls: "yes" })))
    assert.deepStrictEqual(without.missing, ["syscalls"])
  })

  it("fails if an attempt succeeds, says nothing, or says both", { tags: ["SB2"] }, () => {
    for (const it of ["files", "home", "secrets", "network", "processes", "mounts", "privileges"]) {
      assert.isTrue(Result.isFailure(SandboxProbe.verdict(held({ [it]: "yes" }))), it)
      assert.isTrue(Result.isFailure(SandboxProbe.verdict(held({ [it]: "maybe" }))), it)
      assert.isTrue(Result.isFailure(SandboxProbe.verdict(`${held()}\n${it}=yes`)), it)
    }
    assert.isTrue(Result.isFailure(SandboxProbe.verdict("")))
  })

  it("says in one line why there is no sandbox", () => {
    const because = (errors: string, apparmor = false, code = "SandboxFailed") =>
      SandboxProbe.unavailableBecause({ apparmor, code, errors })
    assert.include(because("", false, "ENOENT"), "bubblewrap")
    assert.include(because("setting up uid map: Permission denied", true), "AppArmor")
    assert.include(because("No permissions to create new namespace, likely because…"), "user namespaces")
    assert.strictEqual(because("Can't find source path /x: No such file"), "Can't find source path /x: No such file")
    for (const text of ["a\nb", ""]) assert.notInclude(because(text), "\n")
  })
})

/** Runs a filter as the kernel does. */
const judged = (architecture: string, audit: number, number: number, args: ReadonlyArray<number> = []): number => {
  const program = new DataView(Seccomp.filter(architecture)!.slice().buffer)
  const data = new DataView(new ArrayBuffer(64))
  data.setUint32(0, number, true)
  data.setUint32(4, audit, true)
  args.forEach((it, index) => data.setBigUint64(16 + 8 * index, BigInt(it), true))
  let value = 0
  for (let pc = 0;;) {
    const [code, yes, no, k] = [
      program.getUint16(pc * 8, true),
      program.getUint8(pc * 8 + 2),
      program.getUint8(pc * 8 + 3),
      program.getUint32(pc * 8 + 4, true)
    ]
    pc++
    if (code === 0x20) value = data.getUint32(k, true)
    else if (code === 0x54) value = (value & k) >>> 0
    else if (code === 0x15) pc += value === k ? yes : no
    else if (code === 0x35) pc += value >= k ? yes : no
    else if (code === 0x05) pc += k
    else if (code === 0x06) return k
    else throw new Error(`instruction ${code}`)
  }
}

describe("the filter of system calls", () => {
  const [allow, eperm, enosys, family, kill] = [0x7fff_0000, 0x0005_0001, 0x0005_0026, 0x0005_0061, 0x8000_0000]
  const machines = [
    { name: "x64", audit: 0xc000_003e, read: 0, mount: 165, clone: 56, ioctl: 16, socket: 41, keyctl: 250 },
    { name: "arm64", audit: 0xc000_00b7, read: 63, mount: 40, clone: 220, ioctl: 29, socket: 198, keyctl: 219 }
  ]
  for (const it of machines) {
    it_(it.name, () => {
      const of = (number: number, ...args: ReadonlyArray<number>) => judged(it.name, it.audit, number, args)
      assert.strictEqual(of(it.read), allow)
      for (const number of [it.mount, it.keyctl, 428, 442]) assert.strictEqual(of(number), eperm)
      for (const number of [425, 426, 427, 435]) assert.strictEqual(of(number), enosys)
      assert.strictEqual(of(it.clone, 17), allow)
      assert.strictEqual(of(it.clone, 0x1000_0000 | 17), eperm)
      assert.strictEqual(of(it.ioctl, 0, 0x5401), allow)
      for (const request of [0x5412, 0x541c]) assert.strictEqual(of(it.ioctl, 0, request), eperm)
      for (const known of [1, 2, 10, 16]) assert.strictEqual(of(it.socket, known), allow)
      for (const other of [17, 38, 40]) assert.strictEqual(of(it.socket, other), family)
      assert.strictEqual(judged(it.name, 0x4000_0003, it.read), kill)
    })
  }

  it("refuses the second set of calls of x64, and knows no other machine", () => {
    assert.strictEqual(judged("x64", 0xc000_003e, 0x4000_0000), enosys)
    assert.isUndefined(Seccomp.filter("mips"))
  })
})

function it_(name: string, test: () => void): void {
  it(`refuses the same on ${name}`, test)
}

/** A sandbox that runs nothing in itself. */
const fake = (status: Sandbox.Status): Sandbox.Sandbox["Service"] => ({
  status,
  allowsUnconfined: true,
  start: Sandbox.startOpen
})

const holding = fake({ _tag: "Holds", driver: "box", network: "none", holds: Sandbox.all, missing: [] })

/** Runs a command under a policy; gives the outcome and what approvers saw. */
const run = (sandbox: Sandbox.Sandbox["Service"], policy: Policy.Policy, params: object) =>
  Effect.gen(function*() {
    const { root } = yield* makeFolders
    const requests: Array<Approvals.ApprovalRequest> = []
    const { layer, toolkit } = WorkspaceTools.make({ root, sandbox, environment: process.env })
    const outcome = yield* Effect.gen(function*() {
      const wave = yield* (yield* (yield* ToolExecutor).process()).executeWave([
        ToolCall.make("1", "run_command", params)
      ])
      return wave.outcomes[0]
    }).pipe(
      Effect.scoped,
      Effect.provide(
        LocalExecutor.layer(toolkit, { policy }).pipe(
          Layer.provide(layer),
          Layer.provide(Approvals.layerApprover((request) => {
            requests.push(request)
            return Effect.succeed({ _tag: "Deny" })
          }))
        )
      )
    )
    return { outcome, requests }
  }).pipe(Effect.scoped)

describe("run_command with a sandbox", () => {
  it.live("runs unasked where the policy allows what is confined", () =>
    Effect.gen(function*() {
      const { outcome, requests } = yield* run(holding, { sandboxed: "allow" }, { command: "true" })
      assert.strictEqual(outcome?._tag, "Succeeded")
      assert.lengthOf(requests, 0)
      assert.strictEqual((yield* run(holding, {}, { command: "true" })).requests.length, 1)
      const asked = yield* run(holding, { sandboxed: "allow", ask: ["run_command(rm *)"] }, { command: "rm x" })
      assert.lengthOf(asked.requests, 1)
    }))

  it.live("requests approval of each command without the sandbox, whatever is allowed", () =>
    Effect.gen(function*() {
      const policy: Policy.Policy = { sandboxed: "allow", allow: ["run_command", "run_command(*)"], default: "allow" }
      const { outcome, requests } = yield* run(holding, policy, { command: "true", unconfined: true })
      assert.strictEqual(outcome?._tag, "Denied")
      assert.deepInclude(requests[0], { isAlways: true, remember: "call" })
      assert.deepInclude(requests[0]?.evidence?.[0], { _tag: "Sandboxed", driver: "none", network: "open" })
      assert.deepStrictEqual(requests[0]?.targets.map(({ text }) => text), ["without sandbox: true"])
    }), { tags: ["SB7"] })

  it.live(
    "does not take what allows a command for one with network, nor an approval of it",
    () =>
      Effect.gen(function*() {
        const listed = fake({ _tag: "Holds", driver: "box", network: "listed", holds: Sandbox.all, missing: [] })
        const asked = (policy: Policy.Policy) =>
          Effect.map(
            run(listed, policy, { command: "npm test", network: true }),
            ({ requests }) => requests.map(({ targets, wider }) => [targets[0]?.text, wider])
          )
        const one = [["with network: npm test", undefined]]
        assert.deepStrictEqual(yield* asked({ sandboxed: "allow", allow: ["run_command(npm *)"] }), one)
        assert.deepStrictEqual(yield* asked({ ask: ["run_command(npm *)"], default: "allow" }), one)
        assert.deepStrictEqual(yield* asked({ allow: ["run_command(with network: npm *)"] }), [])
        assert.deepStrictEqual(yield* asked({ allow: ["run_command"] }), [])
        const denied = yield* run(listed, { deny: ["run_command(npm *)"], default: "allow" }, {
          command: "npm test",
          network: true
        })
        assert.deepStrictEqual(denied.requests, [])
        assert.strictEqual(denied.outcome?._tag === "Denied" ? denied.outcome.reason._tag : "", "PolicyDenied")
        const ofCommand = (network: boolean) =>
          RunCommand.targets({ command: "npm test", ...network ? { network } : {} })
        const [plain, wide] = [ofCommand(false), ofCommand(true)]
        const grant = (targets: ReturnType<typeof ofCommand>, patterns: ReadonlyArray<string> = []) => ({
          id: "1",
          principal: "bob",
          tool: "run_command",
          agentPath: [],
          targets: targets.map((it) => it.text),
          patterns,
          answer: "ApproveForScope" as const,
          grantedAt: 0
        })
        const covers = (it: ReturnType<typeof grant>, targets: typeof plain) =>
          Grant.covers(it, { tool: "run_command", agentPath: [], targets }, 1)
        assert.isTrue(covers(grant(plain, ["npm *"]), plain))
        assert.isFalse(covers(grant(plain, ["npm *"]), wide))
        assert.isTrue(covers(grant(wide), wide))
      }),
    { tags: ["AP23"] }
  )

  it.live("does not know the argument where the host does not permit it", () =>
    Effect.gen(function*() {
      const { outcome } = yield* run(fake({ _tag: "Off" }), { default: "allow" }, { command: "true", unconfined: true })
      assert.strictEqual(outcome?._tag === "Denied" ? outcome.reason._tag : outcome?._tag, "InvalidParameters")
      const forbidden = { ...holding, allowsUnconfined: false }
      const { outcome: other } = yield* run(forbidden, { default: "allow" }, { command: "true", unconfined: true })
      assert.strictEqual(other?._tag === "Denied" ? other.reason._tag : other?._tag, "InvalidParameters")
    }))

  it.live(
    "is refused where the sandbox is required and is not there, and runs where it is not required",
    () =>
      Effect.gen(function*() {
        const missing = (mode: "required" | "auto") =>
          SandboxBwrap.make({ mode, program: "/no/such/bwrap" }, { home: undefined, path: undefined })
        const refused = yield* run(yield* missing("required"), { default: "allow" }, { command: "true" })
        assert.strictEqual(refused.outcome?._tag === "Denied" ? refused.outcome.reason._tag : "", "SandboxUnavailable")
        const auto = yield* missing("auto")
        assert.include(Sandbox.describe(auto.status), "WITHOUT a sandbox")
        const open = yield* run(auto, { default: "allow" }, { command: "true" })
        assert.strictEqual(open.outcome?._tag, "Succeeded")
        // and nothing takes it for confined
        const asked = yield* run(auto, { sandboxed: "allow" }, { command: "true" })
        assert.deepInclude(asked.requests[0]?.evidence?.[0], { _tag: "Sandboxed", driver: "none" })
      }),
    { tags: ["SB2"] }
  )
})

describe("the note about a sandbox", () => {
  const note = (errors: string, exitCode: number | null = 1, more: object = {}) =>
    SandboxNote.of({ exitCode, errors, output: "", sandbox: holding, network: false, ...more })

  it("is there if a failure may be due to it", () => {
    for (
      const text of [
        "EROFS: x",
        "touch: Read-only file system",
        "Error: getaddrinfo EAI_AGAIN x",
        "curl: (6) Could not resolve host"
      ]
    ) {
      assert.include(note(text), "because of its sandbox", text)
    }
    assert.isUndefined(note("AssertionError: 1 is not 2"))
    assert.isUndefined(note("EROFS", 0))
  })

  it("names what was moved away, and hosts that were refused", () => {
    assert.include(note("", 0, { setAside: { paths: [".npmrc"], folder: "/tmp/x" } }), ".npmrc")
    assert.include(note("", 0, { refusedHosts: ["a.example"] }), "a.example")
  })

  it("offers no way without the sandbox where there is none", () => {
    assert.notInclude(note("EROFS", 1, { sandbox: { ...holding, allowsUnconfined: false } }), "unconfined")
  })
})
