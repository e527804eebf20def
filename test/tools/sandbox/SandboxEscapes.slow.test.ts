/**
 * Ways out of the sandbox, each tried in it and, where that makes sense, without it: a way that leads nowhere without
 * the sandbox proves nothing.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { spawnSync } from "node:child_process"
import * as NodeFs from "node:fs"
import * as NodeNet from "node:net"
import * as NodePath from "node:path"
import * as Sandbox from "../../../src/tools/sandbox/Sandbox.ts"
import * as SandboxBwrap from "../../../src/tools/sandbox/SandboxBwrap.ts"
import * as SandboxSrt from "../../../src/tools/sandbox/SandboxSrt.ts"
import { isInstalled } from "../../support/installed.ts"
import { call, makeFolders, put } from "../fixture.ts"

const isThere = isInstalled("bwrap") && spawnSync("/usr/bin/perl", ["--version"]).status === 0

/** The sandbox runtime needs two more programs. */
const isThereForSrt = isThere && isInstalled("socat") && isInstalled("rg")

interface World {
  readonly root: string
  readonly outside: string
  readonly home: string
  /** A listener of the host on 127.0.0.1, and how often it was reached. */
  readonly port: number
  readonly reached: () => number
  /** A socket of the host, outside of the workspace, and one in it. */
  readonly socket: string
}

interface Way {
  readonly name: string
  readonly files?: Readonly<Record<string, string>>
  readonly before?: (world: World) => void
  readonly command: (world: World) => string
  /** Whether it led out. Default: the output contains SECRET or OUT. */
  readonly leads?: (world: World, stdout: string) => boolean
  /** False: without the sandbox it leads out only with privileges or programs that are not everywhere. */
  readonly isOpen?: boolean
}

const perl = (lines: ReadonlyArray<string>): string =>
  `/usr/bin/perl - <<'PERL'\nuse Socket qw(:all);\n${lines.join("\n")}\nPERL`

const read = (path: string): string => {
  try {
    return NodeFs.readFileSync(path, "utf8")
  } catch {
    return ""
  }
}

/** Whether a file of the workspace has the attacker's content. */
const evil = (path: string) => ({ root }: World): boolean => read(`${root}/${path}`).includes("evil")

const reach = ({ reached }: World, stdout: string): boolean => reached() > 0 || stdout.includes("OUT")

/** Connects to an address, given as Perl packs it. */
const connecting = (family: string, address: string, type = "SOCK_STREAM"): string =>
  perl([
    "$SIG{ALRM} = sub { exit 1 }; alarm 2;",
    `socket(my $s, ${family}, ${type}, 0) or die "no socket: $!";`,
    `connect($s, ${address}) or die "no connection: $!";`,
    "print qq(OUT\\n);"
  ])

const connect = (address: string, family = "AF_INET") => ({ port }: World) =>
  connecting(
    family,
    family === "AF_INET"
      ? `pack_sockaddr_in(${port}, inet_aton("${address}"))`
      : `pack_sockaddr_in6(${port}, inet_pton(AF_INET6, "${address}"))`
  )

const ways: ReadonlyArray<Way> = [
  // files
  { name: "reading a file outside by its path", command: ({ outside }) => `cat ${outside}/secret.txt` },
  { name: "reading a file outside by ..", command: () => "cat ../outside/secret.txt" },
  { name: "reading through a symbolic link", command: ({ outside }) => `ln -s ${outside} way && cat way/secret.txt` },
  {
    name: "reading through a link that was there before",
    before: ({ outside, root }) => NodeFs.symlinkSync(outside, `${root}/way`),
    command: () => "cat way/secret.txt"
  },
  { name: "a hard link to a file outside", command: ({ outside }) => `ln ${outside}/secret.txt way && cat way` },
  {
    name: "writing a file outside",
    command: ({ outside }) => `echo evil > ${outside}/made.txt`,
    leads: ({ outside }) => read(`${outside}/made.txt`).includes("evil")
  },
  {
    name: "writing through a link",
    command: ({ outside }) => `ln -s ${outside}/made.txt way; echo evil > way`,
    leads: ({ outside }) => read(`${outside}/made.txt`).includes("evil")
  },
  {
    name: "changing the mode of a file outside",
    command: ({ outside }) => `chmod 777 ${outside}/secret.txt`,
    leads: ({ outside }) => (NodeFs.statSync(`${outside}/secret.txt`).mode & 0o777) === 0o777
  },
  {
    name: "removing a file outside",
    command: ({ outside }) => `rm -f ${outside}/secret.txt`,
    leads: ({ outside }) => !NodeFs.existsSync(`${outside}/secret.txt`)
  },
  { name: "a key in the home folder", command: ({ home }) => `cat ${home}/.ssh/id_ed25519` },
  { name: "credentials of npm", command: ({ home }) => `cat ${home}/.npmrc` },
  { name: "credentials of a cloud", command: ({ home }) => `cat ${home}/.aws/credentials` },
  { name: "tokens below .config", command: ({ home }) => `cat ${home}/.config/gh/hosts.yml` },
  { name: "the home folder by ~", command: () => "cat ~/.ssh/id_ed25519" },
  { name: "the list of the home folder", command: () => "ls -A ~ | sed 's/^/SECRET /'" },
  { name: "password hashes of the machine", command: () => "cat /etc/shadow && echo OUT", isOpen: false },
  {
    name: "moving the workspace away",
    command: ({ root }) => `mv ${root} ${root}2 && echo OUT`,
    leads: ({ root }) => NodeFs.existsSync(`${root}2`)
  },
  {
    name: "a link in place of the workspace",
    command: ({ outside, root }) => `cd /; mv ${root} ${root}3; ln -s ${outside} ${root}; cat ${root}/secret.txt`
  },
  // mounts
  {
    name: "mounting",
    command: ({ outside }) => `mkdir m; mount --bind ${outside} m && cat m/secret.txt`,
    isOpen: false
  },
  {
    name: "taking a mount away",
    command: ({ root }) => `umount -l ${root}/.git && echo OUT`,
    files: gitFiles(),
    isOpen: false
  },
  {
    name: "making a mount writable again",
    files: gitFiles(),
    command: ({ root }) => `mount -o remount,rw,bind ${root}/.git && echo OUT`,
    isOpen: false
  },
  { name: "a further user namespace", command: () => "unshare -Urm sh -c 'echo OUT'" },
  {
    name: "a further user namespace by clone",
    command: () => syscall(272, "0x10000000"),
    isOpen: false
  },
  { name: "the namespace of another process", command: () => "nsenter -t 1 -m sh -c 'echo OUT'", isOpen: false },
  { name: "another root folder", command: () => "mkdir r; chroot r /bin/true; chroot / /bin/echo OUT", isOpen: false },
  { name: "the new calls for mounts", command: () => syscall(428, "-100, my $root = '/', 1"), isOpen: false },
  // processes
  {
    name: "processes of the host",
    command: () =>
      `[ -d /proc/${process.pid} ] && tr '\\0' ' ' < /proc/${process.pid}/cmdline | grep -q node && echo OUT`
  },
  { name: "the environment of the host", command: () => `cat /proc/${process.pid}/environ && echo OUT` },
  {
    name: "the root of the host by /proc",
    command: ({ outside }) => `cat /proc/1/root${outside}/secret.txt`,
    isOpen: false
  },
  {
    name: "the folder of the host by /proc",
    command: ({ outside }) => `cat /proc/${process.ppid}/root${outside}/secret.txt`
  },
  { name: "a signal to the host", command: () => `kill -0 ${process.pid} && echo OUT` },
  { name: "tracing a process", command: () => syscall(101, "0, 0, 0, 0"), isOpen: false },
  {
    name: "the memory of another process",
    command: () => `head -c 1 /proc/${process.pid}/mem; ls /proc/${process.pid}/fd && echo OUT`
  },
  {
    name: "a background process",
    command: ({ outside }) => `(setsid sh -c 'sleep 0.3; echo evil > ${outside}/late.txt' >/dev/null 2>&1 &) ; true`,
    leads: ({ outside }) => {
      spawnSync("sleep", ["0.8"])
      return read(`${outside}/late.txt`).includes("evil")
    },
    isOpen: false
  },
  {
    name: "a background process that changes the workspace later",
    command: ({ root }) => `(setsid sh -c 'sleep 0.4; echo evil > ${root}/late.txt' >/dev/null 2>&1 &) ; true`,
    leads: (world) => {
      spawnSync("sleep", ["0.8"])
      return evil("late.txt")(world)
    },
    isOpen: false
  },
  {
    name: "settings of the kernel",
    command: () => "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness && echo OUT",
    isOpen: false
  },
  {
    name: "the pattern of core dumps",
    command: () => "cat /proc/sys/kernel/core_pattern > c; cat c > /proc/sys/kernel/core_pattern && echo OUT",
    isOpen: false
  },
  { name: "the memory of the kernel", command: () => "head -c 1 /proc/kcore | grep -q . && echo OUT", isOpen: false },
  { name: "the settings of devices in /sys", command: () => "ls /sys/class && echo OUT" },
  {
    name: "control groups",
    command: () => "ls /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs && echo OUT",
    isOpen: false
  },
  {
    name: "a disk",
    command: () => "ls /dev/vda /dev/sda /dev/nvme0n1 /dev/xvda 2>/dev/null | grep -q . && echo OUT",
    isOpen: false
  },
  { name: "a device of one's own", command: () => "mknod d b 254 0 && head -c 1 d && echo OUT", isOpen: false },
  { name: "messages of the kernel", command: () => "dmesg | grep -q . && echo OUT", isOpen: false },
  // privileges
  {
    name: "a program of another user",
    command: () => "ls -l /usr/bin/su; grep -q 'NoNewPrivs:.*1' /proc/self/status || echo OUT"
  },
  {
    name: "a set-user-id program of one's own",
    command: () => "cp /bin/true s; chmod 4755 s; findmnt -T . -o OPTIONS 2>/dev/null | grep -q nosuid || echo OUT"
  },
  {
    name: "capabilities",
    command: () => "grep -q -E '^Cap(Eff|Prm|Bnd):.*[1-9a-f]' /proc/self/status && echo OUT",
    isOpen: false
  },
  { name: "keys of the kernel", command: () => syscall(250, "0, -3, 0"), isOpen: false },
  { name: "programs in the kernel", command: () => syscall(321, "0, 0, 0"), isOpen: false },
  { name: "queues of the kernel for input and output", command: () => syscall(425, "1, 0"), isOpen: false },
  // the terminal, descriptors, the environment
  {
    name: "input for the terminal",
    command: () =>
      perl([
        "for my $path ('/dev/tty', '/dev/console', '/dev/pts/0') {",
        "  open(my $t, '+<', $path) or next;",
        "  my $c = 'x'; ioctl($t, 0x5412, $c) and print qq(OUT\n);",
        "}"
      ]),
    isOpen: false
  },
  {
    name: "open files of the host",
    command: () =>
      "for fd in /proc/self/fd/*; do case $(readlink $fd) in pipe:*|/dev/null|/proc/*|socket:*|'') ;; *) echo OUT $(readlink $fd);; esac; done",
    isOpen: false
  },
  {
    name: "sockets among open files",
    command: () => "readlink /proc/$$/fd/[3-9] /proc/$$/fd/1[0-9] /proc/$$/fd/127 && echo OUT",
    isOpen: false
  },
  { name: "variables of the host", command: () => "env | grep SECRET" },
  {
    name: "a library that the host would load",
    files: { "evil.so": "evil" },
    command: ({ root }) => `echo ${root}/evil.so > /etc/ld.so.preload && echo OUT`,
    isOpen: false
  },
  { name: "a program for the next command", command: () => "echo evil > /usr/local/bin/ls && echo OUT", isOpen: false },
  // files that others execute
  {
    name: "a hook of git",
    files: gitFiles(),
    command: () => "echo evil > .git/hooks/pre-commit",
    leads: evil(".git/hooks/pre-commit")
  },
  {
    name: "the config of git",
    files: gitFiles(),
    command: () => "git config core.fsmonitor ./evil",
    leads: evil(".git/config")
  },
  {
    name: "another folder for git's config",
    files: gitFiles(),
    command: () => "mkdir e; echo evil > .git/commondir",
    leads: evil(".git/commondir")
  },
  {
    name: "another .git in place of the first",
    files: gitFiles(),
    command: () => "mv .git old && mkdir .git && echo evil > .git/config",
    leads: evil(".git/config")
  },
  {
    name: "a repository in a repository",
    command: () => "mkdir -p sub/.git/hooks && echo evil > sub/.git/hooks/post-checkout",
    leads: evil("sub/.git/hooks/post-checkout")
  },
  {
    name: "a .git with other letters",
    command: () => "mkdir .GIT && echo evil > .GIT/config",
    leads: evil(".GIT/config")
  },
  { name: "settings of npm", command: () => "echo evil > .npmrc", leads: evil(".npmrc") },
  {
    name: "settings of npm that were there",
    files: { ".npmrc": "good" },
    command: () => "echo evil > .npmrc",
    leads: evil(".npmrc")
  },
  {
    name: "removing settings to make them anew",
    files: { "deep/.npmrc": "good" },
    command: () => "rm -rf deep; mv deep gone; mkdir deep; echo evil > deep/.npmrc",
    leads: evil("deep/.npmrc")
  },
  {
    name: "renaming another file over settings",
    files: { ".npmrc": "good" },
    command: () => "echo evil > x; mv -f x .npmrc",
    leads: evil(".npmrc")
  },
  {
    name: "exchanging two files",
    files: { "deep/.envrc": "good" },
    command: () =>
      `mkdir other; echo evil > other/.envrc; ${syscall(316, "-100, my $from = 'deep', -100, my $to = 'other', 2")}`,
    leads: evil("deep/.envrc")
  },
  {
    name: "a hard link to settings",
    files: { ".npmrc": "good" },
    command: () => "ln .npmrc way && echo evil > way",
    leads: evil(".npmrc")
  },
  {
    name: "settings that are a link",
    before: ({ root }) => NodeFs.symlinkSync("real.txt", `${root}/.npmrc`),
    files: { "real.txt": "good" },
    command: () => "rm .npmrc; echo evil > .npmrc; echo evil > real.txt",
    leads: evil(".npmrc")
  },
  {
    name: "tasks of an editor",
    command: () => "mkdir -p .vscode && echo evil > .vscode/tasks.json",
    leads: evil(".vscode/tasks.json")
  },
  { name: "what a shell loads", command: () => "echo evil > .envrc; echo evil > .bashrc", leads: evil(".envrc") },
  { name: "instructions of agents", command: () => "echo evil > AGENTS.md", leads: evil("AGENTS.md") },
  {
    name: "a script that the protected file includes",
    command: () => "mkdir -p .husky; ln -s ../evil .husky/pre-commit",
    leads: ({ root }) => NodeFs.existsSync(`${root}/.husky`)
  },
  // network
  { name: "the host by its address", command: connect("127.0.0.1"), leads: reach },
  { name: "the host by its name", command: connect("localhost"), leads: reach },
  { name: "the host by IPv6", command: connect("::ffff:127.0.0.1", "AF_INET6"), leads: reach },
  {
    name: "an address of the internet",
    command: () => connecting("AF_INET", "pack_sockaddr_in(53, inet_aton(\"1.1.1.1\"))"),
    isOpen: false
  },
  {
    name: "the metadata of a cloud",
    command: () => connecting("AF_INET", "pack_sockaddr_in(80, inet_aton(\"169.254.169.254\"))"),
    isOpen: false
  },
  { name: "a name of the internet", command: () => "getent hosts example.com && echo OUT", isOpen: false },
  {
    name: "a datagram",
    command: () => connecting("AF_INET", "pack_sockaddr_in(53, inet_aton(\"8.8.8.8\"))", "SOCK_DGRAM"),
    isOpen: false
  },
  {
    name: "raw packets",
    command: () => syscall(41, "17, 3, 0"),
    isOpen: false
  },
  {
    name: "the host of a virtual machine",
    command: () => syscall(41, "40, 1, 0"),
    isOpen: false
  },
  { name: "a socket of the host outside", command: ({ socket }) => unix(socket), leads: reach },
  {
    name: "a socket of the host in the workspace",
    before: ({ root, socket }) => NodeFs.linkSync(socket, `${root}/way.sock`),
    command: ({ root }) => unix(`${root}/way.sock`),
    leads: reach
  },
  { name: "an abstract socket of the host", command: () => unix("\\0sandbox-escapes"), leads: reach }
]

function gitFiles(): Readonly<Record<string, string>> {
  return {
    ".git/config": "[core]\n",
    ".git/hooks/": "",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/objects/": "",
    ".git/refs/": ""
  }
}

/** Makes a call of the kernel, by its number on x64. Texts have to be variables. */
function syscall(number: number, args: string): string {
  return perl([`my $r = syscall(${number}, ${args}); print $r >= 0 ? qq(OUT\\n) : qq(refused: $!\\n);`])
}

function unix(path: string): string {
  return connecting("AF_UNIX", `pack_sockaddr_un("${path}")`)
}

/** A workspace, a home folder, and listeners of the host. */
const makeWorld: Effect.Effect<World, never, Scope.Scope> = Effect.gen(function*() {
  const { outside, root } = yield* makeFolders
  const home = NodePath.join(NodePath.dirname(root), "home")
  put(home, {
    ".ssh/id_ed25519": "SECRET",
    ".npmrc": "//registry/:_authToken=SECRET",
    ".aws/credentials": "SECRET",
    ".config/gh/hosts.yml": "SECRET"
  })
  let reached = 0
  const listen = (where: NodeNet.ListenOptions) =>
    Effect.acquireRelease(
      Effect.callback<NodeNet.Server>((resume) => {
        const server = NodeNet.createServer((connection) => {
          reached++
          connection.end()
        })
        server.listen(where, () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => server.close())
    )
  const server = yield* listen({ port: 0, host: "::" })
  const socket = NodePath.join(outside, "host.sock")
  yield* listen({ path: socket })
  yield* listen({ path: "\0sandbox-escapes" })
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { root, outside, home, port, reached: () => reached, socket }
})

const environment = (home: string) => ({ PATH: process.env.PATH, HOME: home, TOKEN: "SECRET" })

type Driver = (home: string) => Effect.Effect<Sandbox.Sandbox["Service"]>

const bwrap: Driver = (home) => SandboxBwrap.make({ mode: "required" }, { home, path: process.env.PATH })

const srt: Driver = (home) => SandboxSrt.make({ mode: "required" }, { home, path: process.env.PATH })

const attempt = (way: Way, driver: Driver | undefined) =>
  Effect.gen(function*() {
    const world = yield* makeWorld
    const { home, root } = world
    put(root, way.files ?? {})
    way.before?.(world)
    const sandbox = driver === undefined ? Sandbox.off : yield* driver(home)
    const allowEnvironment = driver === undefined ? ["PATH", "HOME", "TOKEN"] : undefined
    const result = yield* call(
      { root, sandbox, environment: environment(home), allowEnvironment },
      "run_command",
      { command: way.command(world) }
    )
    const leads = way.leads ?? ((_: World, stdout: string) => /SECRET|OUT/.test(stdout))
    yield* Effect.sleep("20 millis")
    return { leads: leads(world, result.stdout), result }
  }).pipe(Effect.scoped)

describe.skipIf(!isThere)("a confined command", () => {
  it("has at least 60 ways out to try", () => {
    assert.isAtLeast(ways.length, 60)
  })
  for (const way of ways) {
    it.live(`finds no way out by ${way.name}`, () =>
      Effect.gen(function*() {
        const confined = yield* attempt(way, bwrap)
        assert.isFalse(confined.leads, JSON.stringify(confined.result))
        if (way.isOpen !== false) {
          const open = yield* attempt(way, undefined)
          assert.isTrue(open.leads, JSON.stringify(open.result))
        }
      }), { tags: ["SB1"] })
  }
})

/** What the runtime lets commands do in namespaces of their own, and read: none of it leads to the machine. */
const within = ["another root folder", "tracing a process", "capabilities", "keys of the kernel"].concat([
  "a library that the host would load",
  "the settings of devices in /sys"
])

describe.skipIf(!isThereForSrt)("a command confined by the sandbox runtime", () => {
  it.live.skipIf(process.getuid?.() !== 0)(
    "does not run as root, who could change settings of the kernel",
    () =>
      Effect.gen(function*() {
        const { status } = yield* srt("/nowhere")
        assert.deepInclude(status, {
          _tag: "Unavailable",
          reason: "the probe got through: a file outside of the workspace could be read or changed"
        })
      })
  )
  it.live.skipIf(process.getuid?.() === 0)(
    "changes its workspace, leaves nothing else there, and says what holds",
    () =>
      Effect.gen(function*() {
        const { home, root } = yield* makeWorld
        const sandbox = yield* srt(home)
        assert.deepInclude(sandbox.status, { _tag: "Holds", driver: "srt", network: "none", missing: ["privileges"] })
        const result = yield* call({ root, sandbox, environment: environment(home) }, "run_command", {
          command: "echo made > made.txt; echo $PATH; exit 3"
        })
        assert.deepInclude(result, { exitCode: 3 })
        assert.deepStrictEqual(NodeFs.readdirSync(root), ["made.txt"])
      }).pipe(Effect.scoped),
    { tags: ["SB1"] }
  )
  for (const way of ways.filter(({ name }) => !within.includes(name))) {
    it.live.skipIf(process.getuid?.() === 0)(`finds no way out by ${way.name}`, () =>
      Effect.gen(function*() {
        const { leads, result } = yield* attempt(way, srt)
        assert.isFalse(leads, JSON.stringify(result))
      }))
  }
})
