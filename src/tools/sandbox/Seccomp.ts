/**
 * The filter of system calls that confined commands get, as a program of the kernel (classic BPF).
 *
 * Namespaces are the boundary. The filter takes away what they do not cover or what has broken them before: new
 * namespaces and mounts, keyrings, tracing, kernel modules, `io_uring`, pushing input into a terminal, and families of
 * sockets that network namespaces do not separate, such as the sockets between a virtual machine and its host.
 */

/** What differs between processors. */
interface Architecture {
  readonly audit: number
  /** Refused with `EPERM`. */
  readonly refused: ReadonlyArray<number>
  readonly clone: number
  readonly ioctl: number
  readonly socket: number
  /** Numbers of another set of calls on the same processor begin here. */
  readonly foreign?: number
}

/** The same on all processors that are known here. */
const everywhere = {
  clone3: 435,
  ioUring: [425, 426, 427],
  // open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, pidfd_getfd, mount_setattr, quotactl_fd
  refused: [428, 429, 430, 431, 432, 433, 438, 442, 443]
} as const

// ptrace, syslog, modify_ldt, pivot_root, _sysctl, chroot, acct, settimeofday, mount, umount2, swapon, swapoff, reboot,
// sethostname, setdomainname, iopl, ioperm, init_module, delete_module, quotactl, lookup_dcookie, kexec_load, add_key,
// request_key, keyctl, unshare, perf_event_open, open_by_handle_at, setns, process_vm_readv, process_vm_writev, kcmp,
// finit_module, kexec_file_load, bpf, userfaultfd
const x64: Architecture = {
  audit: 0xc000_003e,
  // dprint-ignore
  refused: [
    101, 103, 154, 155, 156, 161, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 175, 176, 179, 212, 246, 248,
    249, 250, 272, 298, 304, 308, 310, 311, 312, 313, 320, 321, 323
  ],
  clone: 56,
  ioctl: 16,
  socket: 41,
  foreign: 0x4000_0000
}

// the same calls, as far as they exist
const arm64: Architecture = {
  audit: 0xc000_00b7,
  // dprint-ignore
  refused: [
    18, 39, 40, 41, 51, 60, 89, 97, 104, 105, 106, 116, 117, 142, 161, 162, 170, 217, 218, 219, 224, 225, 241, 265,
    268, 270, 271, 272, 273, 280, 282, 294
  ],
  clone: 220,
  ioctl: 29,
  socket: 198
}

const architectures: ReadonlyMap<string, Architecture> = new Map([["x64", x64], ["arm64", arm64]])

/** Gives the filter for a processor, named as Node does; `undefined` if none is known. */
export const filter = (architecture: string): Uint8Array | undefined => {
  const known = architectures.get(architecture)
  return known === undefined ? undefined : assemble(programOf(known))
}

type Instruction =
  | { readonly load: number }
  | { readonly and: number }
  /** Jumps to a label if equal, or continues. */
  | { readonly equal: number; readonly to: Label }
  | { readonly atLeast: number; readonly to: Label }
  /** Jumps to a label unless zero. */
  | { readonly notZero: true; readonly to: Label }
  | { readonly go: Label }
  | { readonly label: Label }
  | { readonly answer: number }

type Label = "kill" | "allow" | "refuse" | "missing" | "family" | "clone" | "ioctl" | "socket"

/** Where the parts of a call lie in what the kernel passes. */
const number = 0
const audit = 4
const argument = (index: number): number => 16 + 8 * index

const newUserNamespace = 0x1000_0000
/** TIOCSTI pushes input into a terminal, TIOCLINUX pastes into a console. */
const terminalTricks = [0x5412, 0x541c]
/** AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. */
const families = [1, 2, 10, 16]

const errno = (code: number): number => 0x0005_0000 | code
const [EPERM, ENOSYS, EAFNOSUPPORT] = [1, 38, 97]

const programOf = (it: Architecture): ReadonlyArray<Instruction> => [
  { load: audit },
  { equal: it.audit, to: "allow" },
  { go: "kill" },
  { label: "allow" },
  { load: number },
  ...it.foreign === undefined ? [] : [{ atLeast: it.foreign, to: "missing" } as const],
  ...[...it.refused, ...everywhere.refused].map((equal) => ({ equal, to: "refuse" } as const)),
  // whoever gets ENOSYS takes the older call
  ...[everywhere.clone3, ...everywhere.ioUring].map((equal) => ({ equal, to: "missing" } as const)),
  { equal: it.clone, to: "clone" },
  { equal: it.ioctl, to: "ioctl" },
  { equal: it.socket, to: "socket" },
  { answer: 0x7fff_0000 },
  { label: "clone" },
  { load: argument(0) },
  { and: newUserNamespace },
  { notZero: true, to: "refuse" },
  { answer: 0x7fff_0000 },
  { label: "ioctl" },
  { load: argument(1) },
  ...terminalTricks.map((equal) => ({ equal, to: "refuse" } as const)),
  { answer: 0x7fff_0000 },
  { label: "socket" },
  { load: argument(0) },
  ...families.map((equal) => ({ equal, to: "family" } as const)),
  { answer: errno(EAFNOSUPPORT) },
  { label: "family" },
  { answer: 0x7fff_0000 },
  { label: "refuse" },
  { answer: errno(EPERM) },
  { label: "missing" },
  { answer: errno(ENOSYS) },
  { label: "kill" },
  { answer: 0x8000_0000 }
]

/** Eight bytes for each instruction, in the order of bytes of both processors. */
const assemble = (program: ReadonlyArray<Instruction>): Uint8Array => {
  const labels = new Map<Label, number>()
  let length = 0
  for (const it of program) {
    if ("label" in it) labels.set(it.label, length)
    else length++
  }
  const bytes = new DataView(new ArrayBuffer(length * 8))
  let at = 0
  const emit = (code: number, whenTrue: number, whenFalse: number, value: number) => {
    bytes.setUint16(at * 8, code, true)
    bytes.setUint8(at * 8 + 2, whenTrue)
    bytes.setUint8(at * 8 + 3, whenFalse)
    bytes.setUint32(at * 8 + 4, value, true)
    at++
  }
  const distance = (label: Label): number => labels.get(label)! - at - 1
  for (const it of program) {
    if ("load" in it) emit(0x20, 0, 0, it.load)
    else if ("and" in it) emit(0x54, 0, 0, it.and)
    else if ("equal" in it) emit(0x15, distance(it.to), 0, it.equal)
    else if ("atLeast" in it) emit(0x35, distance(it.to), 0, it.atLeast)
    else if ("notZero" in it) emit(0x15, 0, distance(it.to), 0)
    else if ("go" in it) emit(0x05, 0, 0, distance(it.go))
    else if ("answer" in it) emit(0x06, 0, 0, it.answer)
  }
  return new Uint8Array(bytes.buffer)
}
