import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as Effect from "effect/Effect"
import * as Sandbox from "../../../src/tools/sandbox/Sandbox.ts"
import * as SandboxProbe from "../../../src/tools/sandbox/SandboxProbe.ts"
import * as SandboxSrt from "../../../src/tools/sandbox/SandboxSrt.ts"
import * as SrtPolicy from "../../../src/tools/sandbox/SrtPolicy.ts"

const literal = (path: string) => ({ path, literal: true as const })

describe("what the sandbox runtime is told", () => {
  it("hides the whole machine, and shows what a command needs, whatever its names look like", () => {
    const { filesystem, network } = SrtPolicy.ofCommand({
      readable: ["/usr", "/srv/work/lib"],
      writable: ["/srv/work", "/srv/[x]*"],
      guarded: ["/srv/work/.git"],
      hidden: ["/srv/work/host.sock"]
    })
    assert.deepStrictEqual(filesystem, {
      denyRead: ["/", literal("/srv/work/host.sock")],
      allowRead: [literal("/usr"), literal("/srv/work"), literal("/srv/[x]*")],
      allowWrite: [literal("/srv/work"), literal("/srv/[x]*")],
      denyWrite: [literal("/srv/work/.git"), literal("/srv/work/host.sock")]
    })
    assert.isUndefined(network)
  })
  it("allows nothing in the configuration of the process", () => {
    const { filesystem, network } = SrtPolicy.ofProcess({ bwrap: "/usr/bin/bwrap", socat: undefined })
    assert.deepStrictEqual(filesystem, { denyRead: ["/"], allowRead: [], allowWrite: [], denyWrite: [] })
    assert.deepStrictEqual(network.allowedDomains, [])
    assert.isTrue(network.deniedResolvedAddresses?.includes("192.168.0.0/16"))
  })
  it("means the ports of the web by a host without a port", () => {
    assert.deepStrictEqual(
      SrtPolicy.hosts({ allow: ["api.example.com", "*.example.org", "db.example.com:5432"] }),
      Result.succeed([
        "api.example.com:443",
        "api.example.com:80",
        "*.example.org:443",
        "*.example.org:80",
        "db.example.com:5432"
      ])
    )
  })
  const wrong = {
    "a pattern for all hosts": { allow: ["*"] },
    "a pattern inside of a name": { allow: ["api.example.com", "a.*.com"] },
    "an address of the web": { allow: ["https://example.com/x"] },
    "approval of other hosts": { ask: true },
    "private hosts": { allowPrivate: ["localhost"] }
  }
  for (const [what, network] of Object.entries(wrong)) {
    it.effect(`refuses ${what}, and runs nothing then`, () =>
      Effect.gen(function*() {
        const sandbox = yield* SandboxSrt.make({ mode: "auto", network }, { home: undefined, path: undefined })
        assert.deepInclude(sandbox.status, { _tag: "Unavailable", driver: "srt", isRequired: true })
      }))
  }
  it("quotes a command for a shell", () => {
    assert.strictEqual(SrtPolicy.quoted(["echo", "it's $HOME"]), `'echo' 'it'\\''s $HOME'`)
  })
})

describe("the probe of a sandbox", () => {
  it("says what is missing where a driver needs less", () => {
    const output = Sandbox.all.map((it) => `${it}=${it === "privileges" ? "yes" : "no"}`).join("\n")
    assert.isTrue(Result.isFailure(SandboxProbe.verdict(output)))
    const verdict = Result.getOrThrow(SandboxProbe.verdict(output, ["files", "home", "network", "processes"]))
    assert.deepStrictEqual(verdict.missing, ["privileges"])
  })
  it("claims on macOS only what an attempt there can prove", () => {
    const subject = { outside: "/o", made: "/m", home: undefined, shown: [], namespaces: { pid: "", net: "" } }
    const script = SandboxProbe.script({ ...subject, macos: { pid: 7, port: 4321 } })
    assert.include(script, "127.0.0.1 4321")
    assert.include(script, "kill -0 7 ")
    for (const held of ["mounts", "privileges", "syscalls"]) {
      assert.include(script, `if true; then echo '${held}=yes'`)
    }
    assert.notInclude(script, "/proc/self")
  })
})
